package store

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Kind is what a commit's error says about the commit.
type Kind int

const (
	// Permanent: not applied, and the same commit will never be.
	Permanent Kind = iota
	// Conflict: not applied, because a precondition does not hold (NOT_FOUND, ALREADY_EXISTS,
	// FAILED_PRECONDITION).
	Conflict
	// Contention: not applied, because too many want the same document (ABORTED). The same commit may
	// succeed later.
	Contention
	// Doubtful: nobody knows whether it was applied. RESOURCE_EXHAUSTED is doubtful, too: a quota answers
	// it before anything is applied, but gRPC also reports a torn HTTP/2 stream (ENHANCE_YOUR_CALM)
	// and an answer that is too large like that.
	Doubtful
)

// IsTooLarge reports whether Firestore refuses a commit because of what it would write, such as a
// document of over a megabyte.
func IsTooLarge(err error) bool {
	return status.Code(err) == codes.InvalidArgument && KindOf(err) == Permanent
}

// KindOf says whether a commit was applied, by its error.
func KindOf(err error) Kind {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Doubtful
	}
	if errors.Is(err, ErrClosed) {
		return Permanent
	}
	s, ok := status.FromError(err)
	if !ok {
		return Doubtful
	}
	switch s.Code() {
	case codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition:
		return Conflict
	case codes.Aborted:
		return Contention
	case codes.ResourceExhausted, codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown, codes.Canceled:
		return Doubtful
	case codes.InvalidArgument:
		// If a transaction's commit is sent twice because the first answer was lost, Firestore doesn't
		// know the transaction any more ("has expired", googleapis/nodejs-firestore#1347; "is invalid or
		// closed" in the official emulator). Running the transaction again tells what happened.
		switch message := strings.ToLower(s.Message()); {
		case strings.Contains(message, "transaction"):
			return Doubtful
		case strings.Contains(message, "base version"):
			// The document is older than the version in the commit's condition: the database was
			// restored from a backup, or an emulator was reset. Reading again tells, as with any other
			// changed version.
			return Conflict
		}
	}
	return Permanent
}
