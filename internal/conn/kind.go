package conn

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
	// Conflict: not applied, because a precondition does not hold (NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION).
	Conflict
	// Contention: not applied, because too many want the same document or too much is asked of the database (ABORTED,
	// RESOURCE_EXHAUSTED). The same commit may go again after a while.
	Contention
	// Doubtful: it may have been applied or not.
	Doubtful
)

// KindOf tells what err, of [DB.Commit] or of a transaction, says about the commit.
func KindOf(err error) Kind {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Doubtful
	}
	s, ok := status.FromError(err)
	if !ok {
		return Doubtful
	}
	switch s.Code() {
	case codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition:
		return Conflict
	case codes.Aborted, codes.ResourceExhausted:
		return Contention
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown, codes.Canceled:
		return Doubtful
	case codes.InvalidArgument:
		// A transaction's commit that was sent twice, the first answer lost: Firestore no longer knows the transaction
		// ("has expired", googleapis/nodejs-firestore#1347; "is invalid or closed", says the official emulator). Whatever
		// else such a message means, running the transaction again tells.
		if strings.Contains(strings.ToLower(s.Message()), "transaction") {
			return Doubtful
		}
	}
	return Permanent
}
