package store

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

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
