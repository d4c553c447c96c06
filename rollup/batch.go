package rollup

import (
	"errors"
	"time"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// batch is what one flush is to count.
type batch struct {
	counter string
	states  []ledger.State
	answers map[string]ledger.Answer
	adopts  bool // not all of it is deletions, which make no ledger
	counts  bool // a collection holds something, or it isn't known what
	events  int  // that it stands for
	started time.Time
	// of the ledger, as this instance last committed it: if another version is younger than an
	// interval, another instance has flushed
	mine    time.Time
	floor   time.Time // of the ledger, as it was last known
	speaks  bool      // a snapshot is worth its reads
	reads   int       // that one may take
	follows bool      // what it holds may wait for who has spoken
	shared  bool      // others have flushed the counter lately
	least   time.Duration
}

// answer adds answers to the flush: of two to one query, the newer one.
func (b *batch) answer(answers map[string]ledger.Answer) {
	for key, a := range answers {
		if known, ok := b.answers[key]; !ok || a.ReadTime.After(known.ReadTime) {
			ledger.Put(&b.answers, key, a)
		}
	}
}

// outcome is what became of a flush.
type outcome int

const (
	committed outcome = iota
	unchanged         // there was nothing to commit
	followed          // nothing was committed, because another has spoken
	failed            // not committed: to go again
	contended         // the same, because others were faster, or have locked it: this is the counter's own trouble
	own               // not committed, for a reason that is the counter's own, and stays
	permanent         // not committed, and going again will not help
)

// failure is what became of a flush or recount that returned an error. If the counter itself is the
// cause, its events are not answered with an error. A commit without an answer may wait for the locks
// of an app's transaction. If Firestore answers nobody, nothing can be noted either.
func failure(err error) outcome {
	switch {
	case errors.Is(err, ErrDamagedLedger), errors.Is(err, ErrLedgerFull):
		return own
	case errors.Is(err, ErrContention), errors.Is(err, store.ErrDoubt):
		return contended
	case errors.Is(err, ErrPoison), store.KindOf(err) == store.Permanent:
		return permanent
	}
	return failed
}

// flushed is what one flush did.
type flushed struct {
	diff   ledger.Diff      // of the ledger
	deltas map[string]int64 // what the shown fields grew by
	// collections that the first flush of a ledger, made at that time, found without an answer
	unasked []string
	made    time.Time

	// how many others made since this client's last one, as far as it knows
	otherFlushes int64
	committed    bool
	gone         bool // there is nothing below the counter's path to count for

	speech
}

// speech is what a flush did for others, or others for it: see [speaker].
type speech struct {
	spoke bool // it has counted a snapshot
	news  bool // of which something was not told in time
	reads int  // that its snapshot took

	version time.Time       // of the ledger, that was committed
	floor   time.Time       // of the ledger, as it was last read or committed
	ago     time.Duration   // when the ledger was read, how long ago it had been written
	left    bool            // to others, but for what they have counted
	open    map[string]bool // shards of the batch that they haven't
}
