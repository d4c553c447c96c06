package rollup

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// applied is what one flush did.
type applied struct {
	shards int           // whose entries in the ledger are newer now
	deltas ledger.Counts // what the totals grew by
	// oldest is the time of the oldest state that was counted; zero when none was newer than the ledger's. States that
	// hold 0 are left out: a deleted shard's time is that of its last write, which says nothing about when it was deleted.
	oldest time.Time
	full   map[string]bool // :: keys of shards for which the ledger had no room

	otherFlushes int64 // see updated
	gone         bool  // there is no such counter, so there is nothing to count for
}

// apply counts states in a counter's total, each exactly once however often it is applied, in one commit. A counter
// without a ledger is adopted first. It returns nil also when there is no such counter: nothing is written then.
// Errors: [ErrContention]; anything else is the client library's, and applying the same states again is always safe.
func (c *Client) apply(ctx context.Context, counter string, states []ledger.State) (applied, error) {
	a, err := c.tryApply(ctx, counter, states)
	if err != nil {
		return a, fmt.Errorf("roll up counter %q: %w", counter, err)
	}
	return a, nil
}

func (c *Client) tryApply(ctx context.Context, counter string, states []ledger.State) (applied, error) {
	var a applied
	var diff ledger.Diff
	var incremented []string
	var inferred int
	u, err := c.update(ctx, counter, !onlyGone(states), func(l *ledgerCopy, copied bool) (writes []*firestorepb.Write, err error) {
		diff = l.Merge(states)
		if a.full = diff.Full; len(a.full) > 0 && copied {
			return nil, errAgain // a reconcile may have made room
		}
		if diff.Empty() {
			return nil, nil
		}
		writes, incremented, inferred = c.writes(counter, l, states, diff)
		return writes, nil
	})
	a.otherFlushes = u.otherFlushes
	a.gone = err == nil && u.ledger == nil
	if err != nil || u.resp == nil {
		return a, err
	}
	u.ledger.Apply(diff)
	u.ledger.inferred = inferred
	a.shards, a.deltas, a.oldest = len(diff.Shards()), diff.Deltas(), oldest(diff)
	if u.ledger.agrees(incremented, u.resp.GetWriteResults()[1].GetTransformResults()) {
		c.put(counter, u.ledger)
		return a, nil
	}
	// A total is not what the ledger says: it drifted, which reconcile mends, or the counter was made again since the
	// ledger was read, which reading shows. Either way the flush has committed.
	_, err = c.read(ctx, counter, true)
	return a, err
}

// onlyGone reports whether states are of deletions alone. Those adopt nothing: Google's tools delete a counter's document
// first and then what is below it, and must not bring it back.
func onlyGone(states []ledger.State) bool {
	for _, s := range states {
		if !s.Gone {
			return false
		}
	}
	return true
}

// writes is one flush: what changed in the ledger, if it is still the version that was read, and the totals. It returns the
// fields whose totals it increments, in the order of their transforms. Where the counter's number of shards was inferred, it
// rises to what the states show, and is returned.
func (c *Client) writes(counter string, l *ledgerCopy, states []ledger.State, diff ledger.Diff) (writes []*firestorepb.Write, incremented []string, inferred int) {
	fields, mask := diff.Fields()
	fields[ledger.FieldFlushes] = store.Int(l.Flushes + 1)
	mask = append(mask, ledger.FieldFlushes)
	var transforms []*firestorepb.DocumentTransform_FieldTransform
	var totals map[string]*firestorepb.Value
	var totalsMask []string
	if c.db.Hosted {
		// The app may write back stale totals, or set the document without merging, which loses the map too. The ledger's
		// condition makes setting them as safe as incrementing them, and the next flush mends it.
		totals, totalsMask = c.totals(l.Ledger, diff)
		totalsMask = c.db.SetOwn(totals, totalsMask, map[string]*firestorepb.Value{layout.LedgerID: store.String(l.ID)})
	} else {
		for name, delta := range diff.Deltas() {
			incremented = append(incremented, name)
			transforms = append(transforms, store.Increment(layout.FieldPath(name), delta))
		}
	}
	transforms = append(transforms, store.ServerTime(c.db.OwnPath(layout.UpdatedAt)))
	if inferred = risen(l.inferred, states); inferred > l.inferred {
		transforms = append(transforms, store.Maximum(c.db.OwnPath(layout.NumShards), int64(inferred)))
	}
	return []*firestorepb.Write{
		store.Update(c.db.LedgerOf(counter), store.UpdatedAtTime(l.Updated), fields, mask),
		store.Update(c.db.Counter(counter), store.Exists(true), totals, totalsMask, transforms...),
	}, incremented, inferred
}

// totals are the fields of a counter's document that a ledger says, once diff is applied to it, and their mask.
func (c *Client) totals(l *ledger.Ledger, diff ledger.Diff) (fields map[string]*firestorepb.Value, mask []string) {
	fields = make(map[string]*firestorepb.Value, len(c.db.Fields))
	for _, name := range c.db.FieldNames() {
		fields[name] = store.Int(l.Sums[name].TotalAfter(diff.Sums[name]))
		mask = append(mask, layout.FieldPath(name))
	}
	return fields, mask
}

// agrees reports whether the totals that a flush has incremented are what the ledger says.
func (l *ledgerCopy) agrees(incremented []string, totals []*firestorepb.Value) bool {
	for i, name := range incremented {
		if totals[i].GetIntegerValue() != l.Sums[name].Total() {
			return false
		}
	}
	return true
}

func oldest(diff ledger.Diff) time.Time {
	var t time.Time
	for _, sum := range diff.Sums {
		for _, e := range sum.Entries {
			if e.Count != 0 && (t.IsZero() || e.AsOf.Before(t)) {
				t = e.AsOf
			}
		}
	}
	return t
}

// read reads a counter's ledger, and adopts a counter that has none if it may. It returns nil when there is no counter, or
// none that may be adopted.
func (c *Client) read(ctx context.Context, counter string, mayAdopt bool) (*ledgerCopy, error) {
	for {
		docs, now, err := c.db.Get(ctx, c.db.LedgerOf(counter), c.db.Counter(counter))
		if err != nil {
			return nil, fmt.Errorf("read ledger: %w", err)
		}
		c.clock.saw(now)
		if docs[0] != nil && docs[1] == nil { // deleted by hand, or by the app, which leaves the ledger behind
			noted, err := c.noteGone(ctx, counter, docs[0], now)
			if err != nil {
				return nil, err
			}
			if noted {
				return nil, nil
			}
			continue
		}
		if ledger.Of(c.db.Layout, docs[0], docs[1]) {
			l, err := ledger.Decode(docs[0])
			if err != nil {
				return nil, err
			}
			l.Forget(now)
			if l.Behind(now, c.db.FieldNames()...) {
				if c.db.Own(docs[1])[layout.Deleting].GetBooleanValue() {
					return nil, nil // a reconcile brings no such ledger up to date, and there is nothing left to count for
				}
				if _, err := c.reconcile(ctx, counter, ReconcileOptions{CleanupAfter: never}); err != nil {
					return nil, fmt.Errorf("bring the ledger up to date: %w", err)
				}
				continue
			}
			return &ledgerCopy{Ledger: l, inferred: c.inferredShards(docs[1])}, nil
		}
		if !mayAdopt {
			return nil, nil
		}
		if docs[1] == nil {
			// Late events of a deleted counter come here. Nothing to adopt is seen without a transaction, which would have
			// to wait for locks there: those of a process that was killed, for up to a minute.
			shards, err := c.db.Documents(ctx, store.Query{Collection: c.db.ShardsOf(counter), Limit: 1})
			if err != nil {
				return nil, fmt.Errorf("look for shards: %w", err)
			}
			if len(shards) == 0 {
				return nil, nil
			}
		}
		adopted, _, err := c.adopt(ctx, counter)
		if err != nil {
			return nil, fmt.Errorf("adopt: %w", err)
		}
		if !adopted {
			return nil, nil
		}
	}
}
