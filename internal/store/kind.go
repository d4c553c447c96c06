package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

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

var (
	// ErrClosed says that the database was closed before the call, and nothing was sent.
	ErrClosed = errors.New("client is closed")
	// ErrUnreachable says that there was no connection to Firestore.
	ErrUnreachable = errors.New("no connection to Firestore")
)

// Unreachable is an [ErrUnreachable] that says why there was no connection.
type Unreachable struct {
	cause   string
	err     error // of Firestore's client, or of the context if there was no time for another attempt
	refused bool  // see [Refused]
}

func (e *Unreachable) Error() string        { return e.cause }
func (e *Unreachable) Unwrap() error        { return e.err }
func (e *Unreachable) Is(target error) bool { return target == ErrUnreachable }

// Refused reports whether err says that nothing listens at an emulator's port, and that this has been
// so for [starting]. Nothing was sent, and no attempt succeeds until somebody starts the emulator.
// Production never refuses a connection. If something in between does, that may pass at once.
func Refused(err error) bool {
	u, ok := errors.AsType[*Unreachable](err)
	return ok && u.refused
}

// starting is how long an emulator may take from its first refusal until it listens.
const starting = 2 * time.Second

const refusal = "connection refused by "

// dialed finds in gRPC's message which address it dialed, and what went wrong.
var dialed = regexp.MustCompile(`dial \w+:? (?:lookup )?(\S+?)(?: on \S+)?: (?:connect: )?([^"]+)`)

// dialing says what kept gRPC from connecting, such as "connection refused by 127.0.0.1:8080".
func dialing(err error) string {
	if status.Code(err) != codes.Unavailable {
		return ""
	}
	found := dialed.FindStringSubmatch(status.Convert(err).Message())
	switch {
	case found == nil:
		return ""
	case found[2] == "connection refused":
		return refusal + found[1]
	}
	return fmt.Sprintf("no connection to Firestore at %s: %s", found[1], found[2])
}
