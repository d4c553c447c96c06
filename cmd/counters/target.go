package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/shards"
)

// target is which counters a command works on, and how it prints what it finds. Its flags are the
// root command's.
type target struct {
	layout.Place
	json  bool
	wrong string // a variable in the environment that is neither true nor false
}

// addFlags adds the flags. Their defaults are the variables that the functions read, so that a
// shell that is set up like a deployment works on the same counters.
func (t *target) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&t.Project, "project", os.Getenv("GOOGLE_CLOUD_PROJECT"),
		"project of the database; when empty "+layout.DefaultProject+" with FIRESTORE_EMULATOR_HOST, and else found from the credentials")
	flags.StringVar(&t.Database, "database", cmp.Or(os.Getenv("DATABASE"), "(default)"), "Firestore database")
	t.addLayoutFlags(flags)
	flags.BoolVar(&t.json, "json", false, "print JSON")
}

// addLayoutFlags adds those that say what the counters' documents are.
func (t *target) addLayoutFlags(flags *pflag.FlagSet) {
	flags.StringVar(&t.Counters, "counter-path", cmp.Or(os.Getenv("COUNTERS"), "counters/{counter}"), "path of the documents that are counters, such as teams/{team}/posts/{post}")
	flags.StringVar(&t.Shards, "shards-name", cmp.Or(os.Getenv("SHARDS"), "shards"), "collection of the shards below a counter")
	flags.StringVar(&t.Fields, "fields", cmp.Or(os.Getenv("FIELDS"), "total=count"), "what is counted, such as likes,views")
	t.yesNo(flags, &t.Hosted, "hosted", "the documents are the app's own: none is made or deleted")
	t.yesNo(flags, &t.Extension, "extension", "with --hosted: take over what clients of Firebase's Distributed Counter extension count")
}

func (t *target) yesNo(flags *pflag.FlagSet, value *bool, flag, usage string) {
	variable := strings.ToUpper(flag)
	yes, err := strconv.ParseBool(cmp.Or(os.Getenv(variable), "false"))
	if err != nil {
		t.wrong = variable
	}
	flags.BoolVar(value, flag, yes, usage)
}

// variables are the settings that the layout's flags give, as variables of an environment: those
// that were set.
func (t *target) variables(flags *pflag.FlagSet) (environ []string) {
	for _, v := range []struct{ flag, variable string }{
		{"counter-path", "COUNTERS"}, {"shards-name", "SHARDS"}, {"fields", "FIELDS"}, {"hosted", "HOSTED"}, {"extension", "EXTENSION"},
	} {
		if f := flags.Lookup(v.flag); f.Changed {
			environ = append(environ, v.variable+"="+f.Value.String())
		}
	}
	return environ
}

// projectID is the project to open, which may be found only then.
func (t *target) projectID() string {
	if t.Project == "" && os.Getenv("FIRESTORE_EMULATOR_HOST") != "" {
		return layout.DefaultProject
	}
	return t.Project
}

// connect connects to the database of the counters. A server of FIRESTORE_EMULATOR_HOST that isn't
// there is noticed here: the client library would try it for minutes.
func (t *target) connect(ctx context.Context) (*store.DB, error) {
	if err := t.reach(ctx); err != nil {
		return nil, err
	}
	db, err := store.Open(ctx, t.place())
	return db, whereTo(err)
}

// reach makes sure that there is something to connect to.
func (t *target) reach(ctx context.Context) error {
	if err := t.check(); err != nil {
		return err
	}
	return t.reachEmulator(ctx)
}

// place is where the counters are, in the project that is opened.
func (t *target) place() layout.Place {
	p := t.Place
	p.Project = t.projectID()
	return p
}

// check says what is wrong with the flags that say where the counters are, and with ids of
// counters, before anything is sent.
func (t *target) check(ids ...string) error {
	if t.wrong != "" {
		return badUsage("%s=%s: want true or false", t.wrong, os.Getenv(t.wrong))
	}
	for flag, name := range map[string]string{"project": t.Project, "database": t.Database} {
		if strings.Contains(name, "/") {
			return badUsage("--%s %s: want an id, without slashes", flag, name)
		}
	}
	names, err := t.place().Layout()
	if err != nil {
		return usageError{err}
	}
	for _, id := range ids {
		if err := names.Path.Validate(id); err != nil {
			if parts := strings.Split(id, "/"); names.Path.Parts() == 1 && len(parts) > 1 && strings.HasPrefix(t.Counters, parts[0]+"/") {
				return badUsage("%s is the path of a document; the counter's id is %s", id, strings.Join(parts[1:], "/"))
			}
			return fmt.Errorf("%w: %w", shards.ErrInvalidID, err)
		}
	}
	return nil
}

// checkField says why a field's name can't be one that shards are summed up in.
func (t *target) checkField(name string) error {
	names, err := t.place().Layout()
	if err != nil {
		return usageError{err}
	}
	if err := names.CheckField(name); err != nil {
		return fmt.Errorf("%w: %w", shards.ErrInvalidField, err)
	}
	return nil
}

// open connects to the counters.
func (t *target) open(ctx context.Context) (*shards.Client, error) {
	if err := t.reach(ctx); err != nil {
		return nil, err
	}
	client, err := shards.Open(ctx, shards.Config{Place: t.place()})
	return client, whereTo(err)
}

// whereTo adds to an error of connecting what to do about it: without an emulator, credentials are
// looked for.
func whereTo(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w (for a local system, start \"counters dev\" and set FIRESTORE_EMULATOR_HOST as it says; for a project of yours, run: gcloud auth application-default login)", err)
}

// plain are the ids that a shell leaves as they are.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./][A-Za-z0-9_@%+=:,./-]*$`)

// probeTimeout is how long a server of FIRESTORE_EMULATOR_HOST has to answer a first question.
const probeTimeout = 5 * time.Second

// reachEmulator reports that the server that FIRESTORE_EMULATOR_HOST names can't be reached, or is
// not Firestore.
func (t *target) reachEmulator(ctx context.Context) error {
	host := os.Getenv("FIRESTORE_EMULATOR_HOST")
	if host == "" {
		return nil
	}
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(strings.TrimPrefix(host, "http://"), "https://"), 2*time.Second)
	if err != nil {
		return fmt.Errorf("no Firestore at FIRESTORE_EMULATOR_HOST=%s (%w); start one with: counters dev", host, err)
	}
	_ = conn.Close()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	db, err := store.Open(ctx, layout.Place{Project: t.projectID(), Database: t.Database})
	if err != nil {
		return err
	}
	defer db.Close()
	if _, _, err := db.Get(ctx, db.Layout.Cursor()); ctx.Err() == context.DeadlineExceeded {
		return fmt.Errorf("what listens at FIRESTORE_EMULATOR_HOST=%s does not answer as a Firestore does (%w); \"counters dev\" prints the port that does", host, err)
	}
	return nil // whatever it answers, the command will hear
}

// with opens the counters for as long as do runs.
func (t *target) with(ctx context.Context, do func(*shards.Client) error) error {
	client, err := t.open(ctx)
	if err != nil {
		return err
	}
	err = do(client)
	if closeErr := client.Close(); err == nil {
		err = closeErr
	}
	return err
}

// commandTimeout bounds a command that reads or writes a few documents. Without it the client
// library would try for many minutes to reach what is not there.
const commandTimeout = time.Minute

// withCounter opens the counter of that id for as long as do runs, within [commandTimeout].
func (t *target) withCounter(ctx context.Context, id string, do func(context.Context, shards.Counter) error) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	err := t.withCounterFor(ctx, id, do)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil {
		return fmt.Errorf("no answer from Firestore within %v: %w", commandTimeout, err)
	}
	return err
}

// withCounterFor is withCounter for as long as it takes.
func (t *target) withCounterFor(ctx context.Context, id string, do func(context.Context, shards.Counter) error) error {
	return t.withCounterAt(ctx, id, func(c shards.Counter, where string) error { return t.unlessFound(where, id, do(ctx, c)) })
}

// withCounterAt opens the counter of that id, and names its database, for as long as do runs.
func (t *target) withCounterAt(ctx context.Context, id string, do func(c shards.Counter, where string) error) error {
	if err := t.check(id); err != nil {
		return err
	}
	return t.with(ctx, func(client *shards.Client) error {
		counter, err := client.Counter(id)
		if err != nil {
			return err
		}
		return do(counter, t.where(client))
	})
}

// unlessFound adds to an error that a counter doesn't exist, or isn't ours to make, what to do
// about it. It names the path that was looked at: what isn't there is often elsewhere, and to make
// it here would make a stray counter. Without an id it is one of several.
func (t *target) unlessFound(where, id string, err error) error {
	names, _ := t.place().Layout() // which has been read before
	switch err = t.notFoundAt(where, id, err); {
	case errors.Is(err, shards.ErrHosted) && t.Hosted:
		return fmt.Errorf("%w; the first increment of a document makes its shards, and reconcile removes them once it is gone", err)
	case !errors.Is(err, shards.ErrNotFound):
		return err
	case t.Hosted:
		return fmt.Errorf("%w: your app makes that document; \"counters list\" shows those that are counted", err)
	case names.Path.Whole(): // there is no other to be meant
		return fmt.Errorf("%w; \"counters create %s\" makes it", err, typed(id))
	}
	if _, is := errors.AsType[adding](err); is {
		return fmt.Errorf("%w; this command makes no counter, unlike a request where AUTO_CREATE is on: \"counters create %s\" makes it", err, typed(id))
	}
	return fmt.Errorf("%w; \"counters list\" shows those there are, and --counter-path says where else to look", err)
}

// notFoundAt adds to an error that a counter doesn't exist where that was.
func (t *target) notFoundAt(where, id string, err error) error {
	if !errors.Is(err, shards.ErrNotFound) {
		return err
	}
	at := t.Counters
	if names, invalid := t.place().Layout(); invalid == nil && names.Path.Validate(id) == nil {
		at = names.Path.Document(id)
	}
	return fmt.Errorf("%w at %s in %s", err, terminal.Quote(at), where)
}

// adding is an error of a command that adds to a counter, as requests do which may make it.
type adding struct{ error }

func (e adding) Unwrap() error { return e.error }

// typed is an id as it may be typed: a shell may need others quoted.
func typed(id string) string {
	if plain.MatchString(id) {
		return id
	}
	return "ID"
}

// sums reports that there is nothing to add to, nor to set: FIELDS counts documents alone.
func (t *target) sums() error {
	names, err := t.place().Layout()
	if err != nil {
		return usageError{err}
	}
	if err := names.CheckSums(); err != nil {
		return fmt.Errorf("%w: %w", shards.ErrInvalidField, err)
	}
	return nil
}

// fieldNames are the names of the fields that shards are summed up in, in the order of --fields.
func (t *target) fieldNames() []string {
	names, _ := t.place().Layout() // a wrong list is noticed where the counters are opened
	return names.Sharded.SettingNames()
}

// counts reports that a counter hasn't these fields, or without any the first: what is added to
// them would be in its shards, and nobody would see it. What else is wrong with the counter, adding
// to it says.
func (t *target) counts(ctx context.Context, c shards.Counter, fields ...string) error {
	if err := t.sums(); err != nil {
		return err
	}
	if len(fields) == 0 {
		fields = t.fieldNames()[:1]
	}
	s, err := c.Get(ctx)
	if errors.Is(err, shards.ErrNotCounted) {
		return err
	}
	if err = s.CheckCounted(fields...); err != nil {
		return fmt.Errorf("counter %q: %w", c.ID(), err)
	}
	return nil
}

// countedNames are the names of the fields that count documents.
func (t *target) countedNames() []string {
	names, _ := t.place().Layout()
	return names.Counted.Names()
}

// totals is a counter's total, or where several fields are counted all of them, such as "likes 3,
// views 9".
func (t *target) totals(s shards.Snapshot) string {
	names := t.fieldNames()
	if s.Totals == nil && s.NotCounted == nil {
		for _, number := range s.Doubles { // which somebody has written over the total
			return terminal.Number(number)
		}
		return strconv.FormatInt(s.Total, 10)
	}
	for _, name := range append(slices.Sorted(maps.Keys(s.Totals)), slices.Sorted(maps.Keys(s.Doubles))...) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i, name := range names {
		if slices.Contains(s.NotCounted, name) {
			names[i] = name + " not counted here"
			continue
		}
		if number, double := s.Doubles[name]; double {
			names[i] = name + " " + terminal.Number(number)
			continue
		}
		names[i] = fmt.Sprintf("%s %d", name, s.Totals[name])
	}
	return strings.Join(names, ", ")
}

// print prints value as JSON where that is asked for, and text otherwise.
func (t *target) print(cmd *cobra.Command, value any, text string, args ...any) error {
	return t.printTo(cmd.OutOrStdout(), value, text, args...)
}

func (t *target) printTo(w io.Writer, value any, text string, args ...any) error {
	if t.json {
		return terminal.WriteJSON(w, value)
	}
	_, err := fmt.Fprintf(w, text+"\n", args...)
	return err
}
