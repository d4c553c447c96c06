package rollup

import (
	"errors"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/store"
)

// Errors of this package; those of the client library are passed on.
var (
	// ErrPoison: the event can never be counted, so that delivering it again is no help. Log and
	// acknowledge it: a reconcile covers what it carried.
	ErrPoison = errors.New("event can never be counted")
	// ErrInvalidID: the id can't be a counter's, and why.
	ErrInvalidID = errors.New("invalid counter id")
	// ErrContention: too many write the counter's documents, and nothing was applied. Try
	// again after a while.
	ErrContention = store.ErrContention
	// ErrDamagedLedger: the counter's ledger is not what this module writes. Delete it, and the
	// counter is adopted again.
	ErrDamagedLedger = book.ErrDamaged
	// ErrLedgerFull: the counter's ledger has as many shards as it can hold, so that others are not
	// counted. A reconcile makes room by removing those that are gone.
	ErrLedgerFull = book.ErrLedgerFull
	// ErrBusy: too many events wait already. The event is to be delivered again.
	ErrBusy = errors.New("too many events are waiting")
	// ErrClosed: the roller is closed. The event is to be delivered again.
	ErrClosed = errors.New("roll-up is closed")
)
