package rollup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// ErrContention says that a counter's documents are wanted by too many, and nothing was applied. It may be tried again
// after a while.
var ErrContention = errors.New("counter is contended")

// attempts is how often one call tries a commit. Every lost condition means that somebody else made progress, so more
// than a few in a row only happen to a counter that many write.
const attempts = 6

// Applied is what one flush did.
type Applied struct {
	Shards int   // whose entry in the ledger is newer now
	Delta  int64 // what the total grew by
	// Oldest is the time of the oldest state that was counted; zero when none was newer than the ledger's. States that
	// hold 0 are left out: a deleted shard's time is that of its last write, which says nothing about when it was deleted.
	Oldest time.Time

	// Others is how many flushes others made since this client's last one, as far as it knows: 0 when it is alone.
	Others int64
	// Gone: there is no such counter, so there is nothing to count for.
	Gone bool
}

// ledgerCopy is a ledger as this client last wrote it. It is taken out of the cache while it is used: a concurrent call
// for the same counter reads its own.
type ledgerCopy struct {
	*ledger.Ledger
	// shared: others wrote it between this client's last two flushes, so that a commit on this copy's condition would
	// likely fail, and load the documents for nothing. The ledger is read first then.
	shared bool
}

// Apply counts states in a counter's total, each exactly once however often it is applied, in one commit. A counter
// without a ledger is adopted first. It returns nil also when there is no such counter: nothing is written then.
// Errors: [ErrContention]; anything else is the client library's, and applying the same states again is always safe.
func (c *Client) Apply(ctx context.Context, counter string, states []State) (Applied, error) {
	applied, err := c.apply(ctx, counter, states)
	if err != nil {
		return applied, fmt.Errorf("roll up counter %q: %w", counter, err)
	}
	return applied, nil
}

func (c *Client) apply(ctx context.Context, counter string, states []State) (Applied, error) {
	var a Applied
	var err error
	known := c.take(counter)
	pause := store.Pauses()
	last := known // as of this client's last flush
	for attempt := range attempts {
		if known == nil || known.shared || attempt > 0 {
			if known, err = c.read(ctx, counter); err != nil {
				return a, err
			}
			if known == nil {
				a.Gone = true
				return a, nil
			}
			if last != nil && last.Created.Equal(known.Created) {
				a.Others = known.Flushes - last.Flushes
			}
			known.shared = a.Others > 0
		}
		changed, delta := known.Merge(known.Created, states)
		if len(changed) == 0 {
			c.put(counter, known)
			return a, nil
		}
		var resp *firestorepb.CommitResponse
		resp, err = c.db.Commit(ctx, c.writes(counter, known.Ledger, changed, delta))
		if err == nil {
			maps.Copy(known.Shards, changed)
			known.Flushes++
			known.Updated = resp.GetWriteResults()[0].GetUpdateTime().AsTime()
			a.Shards, a.Delta, a.Oldest = len(changed), delta, oldest(changed)
			if resp.GetWriteResults()[1].GetTransformResults()[0].GetIntegerValue() == known.Sum() {
				c.put(counter, known)
				return a, nil
			}
			// The total is not what the ledger says: it drifted, which reconcile mends, or the counter was made again
			// since the ledger was read, which reading shows. Either way the flush has committed.
			_, err = c.read(ctx, counter)
			return a, err
		}
		switch store.KindOf(err) {
		case store.Conflict:
			// Somebody else's commit came first, or the counter is gone: the read will tell.
		case store.Doubtful:
			// Applied or not: the ledger knows.
			if err := gax.Sleep(ctx, pause.Pause()); err != nil {
				return a, err
			}
		case store.Contention:
			return a, fmt.Errorf("%w: %w", ErrContention, err)
		default:
			return a, err
		}
	}
	return a, fmt.Errorf("%w: gave up after %d tries: %w", ErrContention, attempts, err)
}

// writes is one flush: what changed in the ledger, if it is still the version that was read, and the total.
func (c *Client) writes(counter string, l *ledger.Ledger, changed map[string]ledger.Entry, delta int64) []*firestorepb.Write {
	fields, mask := ledger.EntryFields(changed)
	fields[ledger.FieldFlushes] = store.Int(l.Flushes + 1)
	mask = append(mask, ledger.FieldFlushes)
	return []*firestorepb.Write{
		store.Update(c.db.LedgerOf(counter), store.UpdatedAtTime(l.Updated), fields, mask),
		store.Update(c.db.Counter(counter), store.Exists(true), nil, nil,
			store.Increment(store.Total, delta), store.ServerTime(store.UpdatedAt)),
	}
}

func oldest(changed map[string]ledger.Entry) time.Time {
	var t time.Time
	for _, e := range changed {
		if e.Count != 0 && (t.IsZero() || e.AsOf.Before(t)) {
			t = e.AsOf
		}
	}
	return t
}

// read reads a counter's ledger, and adopts a counter that has none. It returns nil when there is no counter.
func (c *Client) read(ctx context.Context, counter string) (*ledgerCopy, error) {
	for {
		docs, _, err := c.db.Get(ctx, c.db.LedgerOf(counter), c.db.Counter(counter))
		if err != nil {
			return nil, fmt.Errorf("read ledger: %w", err)
		}
		if docs[0] != nil && docs[1] == nil {
			return nil, nil // deleted by hand, which leaves the ledger behind
		}
		if ledger.Of(docs[0], docs[1]) {
			l, err := ledger.Decode(docs[0])
			if err != nil {
				return nil, err
			}
			return &ledgerCopy{Ledger: l}, nil
		}
		if docs[1] == nil {
			// Late events of a deleted counter come here. Nothing to adopt is seen without a transaction, which would have
			// to wait for whoever holds locks there: a process that was killed, for up to a minute.
			shards, err := c.db.Documents(ctx, store.Query{Collection: c.db.ShardsOf(counter), Limit: 1})
			if err != nil {
				return nil, fmt.Errorf("look for shards: %w", err)
			}
			if len(shards) == 0 {
				return nil, nil
			}
		}
		adopted, err := c.adopt(ctx, counter)
		if err != nil {
			return nil, fmt.Errorf("adopt: %w", err)
		}
		if !adopted {
			return nil, nil
		}
	}
}

func (c *Client) take(counter string) *ledgerCopy {
	l, ok := c.known.Get(counter)
	if !ok || !c.known.Remove(counter) { // a concurrent call was faster
		return nil
	}
	return l
}

func (c *Client) put(counter string, l *ledgerCopy) { c.known.Add(counter, l) }
