package rollup

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

const (
	// attempts is how often one call tries a commit. Every lost condition means that another writer made progress, so more
	// than a few in a row only happen to a counter that many write.
	attempts = 6
	// doubts is how often a commit's answer may be lost before a call gives up. The pauses between them are some three
	// seconds together: a second without Firestore fails no flush.
	doubts = 12
)

// ledgerCopy is a ledger as this client last wrote it. It is taken out of the cache while it is used: a concurrent call
// for the same counter reads its own.
type ledgerCopy struct {
	*ledger.Ledger
	// shared: others wrote it between this client's last two flushes, so that a commit on this copy's condition would
	// likely fail, and load the documents for nothing. The ledger is read first then.
	shared bool
	// inferred is the counter's number of shards where that was inferred, so that it rises with the shards that show up.
	// Otherwise it is 0.
	inferred int
}

func (c *Client) take(counter string) *ledgerCopy {
	l, ok := c.known.Get(counter)
	if !ok || !c.known.Remove(counter) { // a concurrent call was faster
		return nil
	}
	return l
}

func (c *Client) put(counter string, l *ledgerCopy) { c.known.Add(counter, l) }

// updated is what became of a ledger.
type updated struct {
	ledger *ledgerCopy // nil where there is no such counter, or none that may be adopted
	// resp is the answer of the commit, of which the first write is the ledger's; nil where there was nothing to commit.
	resp *firestorepb.CommitResponse
	// otherFlushes is how many flushes others made since this client's last one, as far as it knows: 0 when it is alone.
	otherFlushes int64
}

// errAgain is for a change that is to be made of the ledger as it is now, and not of a copy.
var errAgain = errors.New("read the ledger first")

// update changes a counter's ledger, and what goes with it, in one commit on condition that the ledger is the version that the
// change was made of: this client's copy, or else what is read. After a commit that was not applied, or may have been, change
// is made again of what is there by then. No writes are nothing to do. What was committed the caller enters in the ledger that
// is returned, and puts back. Errors are change's, [ErrContention], and the client library's.
func (c *Client) update(ctx context.Context, counter string, mayAdopt bool, change func(l *ledgerCopy, copied bool) ([]*firestorepb.Write, error)) (updated, error) {
	var u updated
	l := c.take(counter)
	last := l // as of this client's last flush
	pause := store.Pauses()
	var err error
	for attempt, doubtful := 0, 0; attempt < attempts+doubtful; attempt++ {
		copied := l != nil && !l.shared && attempt == 0
		if !copied {
			if l, err = c.read(ctx, counter, mayAdopt); err != nil || l == nil {
				return u, err
			}
			if last != nil && last.ID == l.ID {
				u.otherFlushes = l.Flushes - last.Flushes
			}
			l.shared = u.otherFlushes > 0
		}
		var writes []*firestorepb.Write
		writes, err = change(l, copied)
		switch {
		case errors.Is(err, errAgain):
			continue
		case err != nil:
			return u, err
		case len(writes) == 0:
			c.put(counter, l)
			u.ledger = l
			return u, nil
		}
		var resp *firestorepb.CommitResponse
		resp, err = c.db.Commit(ctx, writes)
		if err == nil {
			c.clock.saw(resp.GetCommitTime().AsTime())
			l.Flushes++
			l.Updated = resp.GetWriteResults()[0].GetUpdateTime().AsTime()
			u.ledger, u.resp = l, resp
			return u, nil
		}
		switch store.KindOf(err) {
		case store.Conflict:
			// Another writer's commit came first, or the counter is gone: the read will tell.
		case store.Doubtful:
			// Applied or not: the ledger knows.
			if doubtful++; doubtful == doubts {
				return u, err
			}
			if err := gax.Sleep(ctx, pause.Pause()); err != nil {
				return u, err
			}
		case store.Contention:
			return u, fmt.Errorf("%w: %w", ErrContention, err)
		default:
			return u, err
		}
	}
	return u, fmt.Errorf("%w: gave up after %d tries: %w", ErrContention, attempts, err)
}
