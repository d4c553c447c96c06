package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/shards"
)

// Exit codes besides 0.
const (
	exitFailed = 1
	exitUsage  = 2 // the arguments are wrong, and nothing was done
	// Ctrl-C, or another signal to end, came first: 128 and SIGINT's number, as shells have it
	exitInterrupted = 130
)

// usageError says that a command's arguments are wrong.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func badUsage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// wrongUsage reports whether an error is the arguments' fault.
func wrongUsage(err error) bool {
	var usage usageError
	return errors.As(err, &usage) || errors.Is(err, shards.ErrInvalidID) || errors.Is(err, shards.ErrInvalidShards) ||
		errors.Is(err, shards.ErrInvalidIncrement) || errors.Is(err, shards.ErrInvalidKey) ||
		errors.Is(err, shards.ErrInvalidField) || errors.Is(err, shards.ErrInvalidMember) || errors.Is(err, shards.ErrInvalidHold) ||
		errors.Is(err, shards.ErrOthers)
}

// argumentsOr is arguments where what is one too many may be meant for a flag.
func argumentsOr(n int, flag string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := arguments(n)(cmd, args)
		if err != nil && len(args) == n+1 && cmd.Flags().Set(flag, args[n]) == nil && args[n] != "" && strings.ContainsAny(args[n][:1], "+-=0123456789") {
			return fmt.Errorf("%w; did you mean --%s %s?", err, flag, args[n])
		}
		return err
	}
}

// arguments wants as many as a command's line of use names.
func arguments(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("%s, want: %s", terminal.Count(len(args), "argument"), cmd.UseLine())
		}
		return nil
	}
}

// someOrAll wants counters to be named, or all of them asked for.
func someOrAll(all bool, ids []string) error {
	switch {
	case !all && len(ids) == 0:
		return errors.New("name the counters, or say --all")
	case all && len(ids) > 0:
		return errors.New("--all is all counters: name none beside it")
	}
	return nil
}

// badFlag says what a flag wants, or which one is meant, where the library says which of Go's
// functions could not read it, or that there is none.
func badFlag(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return meant(cmd.Flags(), unknown)
	}
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	flag := invalid.GetFlag()
	want, ok := map[string]string{
		"bool": "true or false", "duration": "a duration such as 90s or 10m", "float64": "a number",
		"int": "an integer", "int64": "an integer within ±9223372036854775807", "uint": "an integer of 0 or more", "uint64": "an integer of 0 or more",
		"stringToString": "two parts with = between them",
	}[flag.Value.Type()]
	if !ok {
		return fmt.Errorf("--%s %s: %w", flag.Name, invalid.GetValue(), errors.Unwrap(invalid))
	}
	return fmt.Errorf("--%s %s: want %s", flag.Name, cmp.Or(invalid.GetValue(), "''"), want)
}

// meant guesses which flag stands behind one that isn't there: --exat is --exact, -by is --by,
// --path is --counter-path, and -5 is how much to count.
func meant(flags *pflag.FlagSet, unknown *pflag.NotExistError) error {
	name, dashes := unknown.GetSpecifiedName(), "--"
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		name, dashes = short, "-"
		if strings.Trim(short, "0123456789") == "" && flags.Lookup("by") != nil {
			return fmt.Errorf("no flag -%s; did you mean --by -%s?", short, short)
		}
	}
	best, near := "", 3 // letters that differ, of names that are longer
	flags.VisitAll(func(f *pflag.Flag) {
		d := distance(name, f.Name)
		if strings.HasSuffix(f.Name, "-"+name) || strings.HasSuffix(name, "-"+f.Name) {
			d = 1
		}
		if !f.Hidden && d < min(near, len(f.Name)) {
			best, near = f.Name, d
		}
	})
	if best == "" {
		return fmt.Errorf("no flag %s%s", dashes, name)
	}
	return fmt.Errorf("no flag %s%s; did you mean --%s?", dashes, name, best)
}

// forbidden adds to a refusal of Google's what to do about it, where it doesn't name a page that
// says so: neither says which account is meant, or what it lacks.
func forbidden(err error) error {
	switch code := status.Code(err); {
	case strings.Contains(err.Error(), "https://"):
	case code == codes.PermissionDenied:
		return fmt.Errorf("%w (the account of the default credentials needs roles/datastore.user in the project, which --project names)", err)
	case code == codes.Unauthenticated:
		return fmt.Errorf("%w (for new credentials, run: gcloud auth application-default login)", err)
	}
	return err
}

// distance is how many letters have to be put in, left out or exchanged to get from one word to the
// other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for i := range row {
		row[i] = i
	}
	for i := range len(a) {
		corner := row[0]
		row[0]++
		for j := range len(b) {
			exchanged := corner
			if a[i] != b[j] {
				exchanged++
			}
			corner, row[j+1] = row[j+1], min(exchanged, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// otherNames are what people call a command elsewhere.
var otherNames = map[string][]string{
	"inc": {"add", "increment", "up"}, "dec": {"subtract", "decrement", "down"}, "get": {"show", "total", "read", "cat"},
	"list": {"ls"}, "delete": {"rm", "remove", "del"}, "create": {"new", "make"}, "dev": {"start", "run", "up"},
	"rebase": {"set"}, "doctor": {"check", "status"}, "watch": {"listen", "tail"}, "join": {"like"}, "leave": {"unlike"},
}

// unknownCommand says that there is no such command, and which one may be meant. The library's own
// words take four lines.
func unknownCommand(root *cobra.Command, args []string) error {
	cmd, rest, err := root.Find(args)
	if err == nil && (cmd != root || len(rest) == 0) {
		return nil
	}
	_, flags, rest := split(root, args)
	switch {
	case len(flags) > 0 && flagOf(root, flags[0]) == nil: // what stands behind it may be its value
		return fmt.Errorf("flags come after the command: %s COMMAND %s", root.Name(), flags[0])
	case len(rest) == 0:
		return fmt.Errorf("no command beside %s", strings.Join(flags, " "))
	}
	name := rest[0]
	for _, c := range root.Commands() {
		if slices.Contains(otherNames[c.Name()], name) {
			return fmt.Errorf("no command %q; did you mean %s?", name, c.Name())
		}
	}
	for _, c := range root.Commands() {
		if distance(name, c.Name()) < min(3, len(c.Name())) || len(name) > 2 && strings.HasPrefix(c.Name(), name) {
			return fmt.Errorf("no command %q; did you mean %s?", name, c.Name())
		}
	}
	return fmt.Errorf("no command %q", name)
}

// missingFlags says which flags a command can't do without, by its line of use.
func missingFlags(cmd *cobra.Command) error {
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if required := f.Annotations[cobra.BashCompOneRequiredFlag]; len(required) > 0 && required[0] == "true" && !f.Changed {
			missing = append(missing, "--"+f.Name)
		}
	})
	if missing == nil {
		return nil
	}
	return fmt.Errorf("%s missing, want: %s", strings.Join(missing, " and "), cmd.UseLine())
}
