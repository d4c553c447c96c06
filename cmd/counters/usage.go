package main

import (
	"errors"
	"fmt"

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
		errors.Is(err, shards.ErrInvalidField)
}
