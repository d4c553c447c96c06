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
	// Contention: not applied, because too many want the same document (ABORTED). The same commit
	// may go again after a while.
	Contention
	// Doubtful: it may have been applied or not. RESOURCE_EXHAUSTED is among these: a quota says it
	// before it applies anything, but gRPC also makes it of a torn HTTP/2 stream
	// (ENHANCE_YOUR_CALM) and of an answer that is too large.
	Doubtful
)

// IsTooLarge reports whether Firestore refuses a commit for what it would write: a document beyond
// its megabyte, above all.
func IsTooLarge(err error) bool {
	return status.Code(err) == codes.InvalidArgument && KindOf(err) == Permanent
}

// KindOf tells what err, of [DB.Commit] or of a commit within [DB.Transact], says about the commit.
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
		// A transaction's commit that was sent twice, the first answer lost: Firestore no longer
		// knows the transaction ("has expired", googleapis/nodejs-firestore#1347; "is invalid or
		// closed", says the official emulator). Whatever else such a message means, running the
		// transaction again tells.
		switch message := strings.ToLower(s.Message()); {
		case strings.Contains(message, "transaction"):
			return Doubtful
		case strings.Contains(message, "base version"):
			// A document is older than the version that a commit is on condition of: the database
			// was restored from a backup, or an emulator reset. As with any other version than
			// that, reading again tells.
			return Conflict
		}
	}
	return Permanent
}
