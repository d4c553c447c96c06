package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

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
