package shards

import (
	"errors"
	"fmt"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/store"
)

var (
	// ErrNotFound says that there is no such counter, or that it is being deleted.
	ErrNotFound = book.ErrNotFound
	// ErrExists says that there is such a counter already.
	ErrExists = errors.New("counter exists already")
	// ErrInvalidID says that an id can't be a counter's, and why.
	ErrInvalidID = errors.New("invalid counter id")
	// ErrInvalidShards says that a counter can't have that many shards.
	ErrInvalidShards = errors.New("invalid number of shards")
	// ErrInvalidIncrement says that an increment is zero, or that increments of one counter don't
	// fit an int64 together, or that there are too many or none at all.
	ErrInvalidIncrement = errors.New("invalid increment")
	// ErrInvalidField says that no field of that name is a sum of shards, and why.
	ErrInvalidField = errors.New("invalid field")
	// ErrNotCounted says that a counter has other fields than those that are asked for, and which:
	// its document was rolled up, and none of them is in it.
	ErrNotCounted = errors.New("not counted here")
	// ErrInvalidKey says that an idempotency key is not 1 to 255 printable ASCII characters.
	ErrInvalidKey = errors.New("invalid idempotency key")
	// ErrInvalidMember says that a member's id can't be one, and why.
	ErrInvalidMember = errors.New("invalid member")
	// ErrHasMembers says that a counter is not reset, because it has members: say what
	// to do with them.
	ErrHasMembers = errors.New("the counter has members")
	// ErrBusy says that too much is asked of the counter, the database or this client. Nothing was
	// counted; the call may be repeated after a second or so.
	ErrBusy = store.ErrContention
	// ErrUnknown says that an increment may have been counted, or a command carried out, or not.
	// Repeating an increment may count it twice, unless it has a [Key].
	ErrUnknown = store.ErrDoubt
	// ErrKeyReused says that the same caller used an idempotency key for another request before.
	// Nothing was counted.
	ErrKeyReused = errors.New("idempotency key was used for another request")
	// ErrLimit says that there was no room for an increment below its limit, or less to give back than it
	// asks. Nothing was counted. A [LimitError] says how much there was.
	ErrLimit = errors.New("limit reached")
	// ErrInvalidLimit says that a field can't have that limit, and why.
	ErrInvalidLimit = errors.New("invalid limit")
	// ErrHoldEnded says that a hold which is to be confirmed or settled has ended, or that there was none.
	// Nothing was changed.
	ErrHoldEnded = errors.New("the hold is over, or there was none")
	// ErrSettled says that a hold is settled, for another amount than is asked, or that it can't be given back any
	// more. The [Hold] says for which amount. Nothing was changed.
	ErrSettled = errors.New("the hold is settled")
	// ErrNoHold says that there is no hold of that key, or none any more.
	ErrNoHold = errors.New("there is no such hold")
	// ErrInvalidHold says that nothing can be held for so long.
	ErrInvalidHold = errors.New("invalid hold")
	// ErrDamagedBase says that another program, or another version, wrote a counter's base, and what it holds. Delete the
	// base, and rebase the counter.
	ErrDamagedBase = book.ErrDamaged
	// ErrOthers says that a counter is counted with another HOSTED, SHARDS or COUNTERS than here, and
	// which. Nothing was changed.
	ErrOthers = book.ErrOthers
	// ErrNotInteger says that a shard holds something else than a whole number, or a
	// double from ±2⁵³ on.
	ErrNotInteger = store.ErrNotInteger
	// ErrHosted says that the documents are the app's own: it makes and deletes them, and
	// no command does.
	ErrHosted = errors.New("the documents are the app's own: make and delete them there")
	// ErrFull says that the app's document has no room for what counting keeps in it, so that
	// nothing was counted: make room.
	ErrFull = errors.New("the document has no room left (1 MiB) for counter_rollup: make room in it")
	// ErrUnreachable says that there was no connection to Firestore, and why: "connection refused
	// by 127.0.0.1:8080". Nothing was counted, and it is an [ErrBusy] too, unless it is an
	// [ErrUnknown].
	ErrUnreachable = store.ErrUnreachable
	// ErrClosed says that the client is closed. Nothing was counted.
	ErrClosed = store.ErrClosed
)

// errZero is an [ErrInvalidID]: the zero Counter has no client.
var errZero = fmt.Errorf("%w: this Counter is the zero value; Client.Counter makes one", ErrInvalidID)

// LimitError is an [ErrLimit] that says how much there was, at one time between call and return.
type LimitError struct {
	Counter string
	Field   string
	By      int64 // what was asked, or 0 where the limit was to be lowered
	Limit   int64
	Left    int64 // below the limit
	Taken   int64 // of the limit
	Members int64 // of Taken, which only they give back; 0 if By is more than 0
	Held    int64 // of Taken, by holds of an amount; 0 if By is more than 0
}

func (e *LimitError) Error() string {
	switch {
	case e.By == 0:
		return fmt.Sprintf("limit reached: %d of %s are taken, so the limit can't be %d", e.Taken, e.Field, e.Limit)
	case e.By < 0 && e.Held > 0:
		return fmt.Sprintf("limit reached: %d of %s can be given back, beside %d that are held and those of %d members; asked for %d", e.Taken-e.Members-e.Held, e.Field, e.Held, e.Members, -e.By)
	case e.By < 0 && e.Members > 0:
		return fmt.Sprintf("limit reached: %d of %s can be given back, beside those of %d members; asked for %d", e.Taken-e.Members, e.Field, e.Members, -e.By)
	case e.By < 0:
		return fmt.Sprintf("limit reached: %d of %s can be given back; asked for %d", e.Taken, e.Field, -e.By)
	}
	return fmt.Sprintf("limit reached: %d of %d %s are left; asked for %d", e.Left, e.Limit, e.Field, e.By)
}

// Is has the error be an [ErrLimit].
func (e *LimitError) Is(target error) bool { return target == ErrLimit }
