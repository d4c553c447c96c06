package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/firestore-counters/counters/shards"
)

// Exit codes besides 0.
const (
	exitFailed = 1
	exitUsage  = 2 // the arguments are wrong, and nothing was done
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
		errors.Is(err, shards.ErrInvalidField) || errors.Is(err, shards.ErrInvalidMember)
}

// arguments wants as many as a command's line of use names.
func arguments(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("%s, want: %s", quantity(len(args), "argument"), cmd.UseLine())
		}
		return nil
	}
}

// badFlag says what a flag wants, where the library says which of Go's functions could not read it.
func badFlag(_ *cobra.Command, err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	flag := invalid.GetFlag()
	want, ok := map[string]string{
		"bool": "true or false", "duration": "a duration such as 90s or 10m", "float64": "a number",
		"int": "an integer", "int64": "an integer", "uint64": "an integer of 0 or more",
	}[flag.Value.Type()]
	if !ok {
		return err
	}
	return fmt.Errorf("--%s %s: want %s", flag.Name, invalid.GetValue(), want)
}
