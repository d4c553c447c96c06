package rollup

import (
	"errors"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/store"
)

// Errors of this package; those of the client library are passed on.
var (
	// ErrPoison says that an event can never be counted. Log and acknowledge it: a reconcile covers
	// what it carried.
	ErrPoison = errors.New("event can never be counted")
	// ErrInvalidID says that an id can't be a counter's, and why.
	ErrInvalidID = errors.New("invalid counter id")
	// ErrContention says that too many write the counter's documents, and that nothing was applied.
	ErrContention = store.ErrContention
	// ErrDamagedLedger says that this module hasn't written the counter's ledger. If you delete it, the
	// counter is adopted again.
	ErrDamagedLedger = book.ErrDamaged
	// ErrLedgerFull says that the ledger has no room for more shards. A reconcile removes those that
	// are gone.
	ErrLedgerFull = book.ErrLedgerFull
	// ErrBusy says that too many events wait already. Deliver the event again.
	ErrBusy = errors.New("too many events are waiting")
	// ErrClosed says that the roller is closed. Deliver the event again.
	ErrClosed = errors.New("roll-up is closed")
)
