package rollup

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// inferredShards is a counter's number of shards where that was inferred, and 0 otherwise.
func (c *Client) inferredShards(counter *firestorepb.Document) int {
	count := c.db.ShardCount(counter)
	if !count.Inferred {
		return 0
	}
	return count.N
}

// risen is what an inferred number of shards rises to with the shards that states show. A number that was not inferred, 0
// here, stays.
func risen(inferred int, states []ledger.State) int {
	if inferred == 0 {
		return 0
	}
	for _, s := range states {
		if !s.Gone {
			inferred = max(inferred, layout.Numbered(s.Shard))
		}
	}
	return inferred
}

// adopt makes a ledger for a counter that has none of its own, from the shards as they are: it was made by one of
// Google's snippets, maybe where an earlier counter had been deleted by hand, or a blind trigger has kept its total so
// far. It reports false when there is nothing to adopt, and what is wrong with the shards.
//
// The shards are read inside of the transaction that creates the ledger. Otherwise a shard written in between would be
// newer than its entry and older than the ledger, and its event might come before either.
func (c *Client) adopt(ctx context.Context, counter string) (adopted bool, problem string, err error) {
	for {
		// A new ledger takes another commit than the deletion of an earlier counter's, because its create time is to be
		// younger than whatever happened to the earlier counter.
		adopted, stale, problem, err := c.tryAdopt(ctx, counter)
		if err != nil || !stale {
			return adopted, problem, err
		}
	}
}

// tryAdopt adopts, or reports as stale that it has deleted an earlier counter's ledger.
func (c *Client) tryAdopt(ctx context.Context, counter string) (adopted, stale bool, problem string, err error) {
	var l *ledger.Ledger
	var snap snapshot
	err = c.db.Transact(ctx, func(tx *store.Tx) error {
		adopted, stale, l, snap = false, false, nil, snapshot{} // this may run again, and does no harm: the second time the ledger is there
		docs, _, err := tx.Get(ctx, c.db.LedgerOf(counter), c.db.Counter(counter))
		if err != nil {
			return err
		}
		was, own := docs[1].GetFields(), c.db.Own(docs[1])
		if docs[0] != nil {
			if adopted = ledger.Of(c.db.Layout, docs[0], docs[1]) || docs[1] == nil; adopted {
				return nil // another instance was faster
			}
			stale = true
			tx.Write(store.Delete(c.db.LedgerOf(counter)))
			return nil
		}
		if own[layout.Deleting].GetBooleanValue() || c.db.Hosted && docs[1] == nil {
			return nil
		}
		shards, err := tx.Documents(ctx, store.Query{Collection: c.db.ShardsOf(counter)})
		if err != nil {
			return err
		}
		if len(shards) == 0 && docs[1] == nil {
			return nil
		}
		if len(shards) > ledger.MaxEntries/len(c.db.Fields) {
			return fmt.Errorf("%w: the counter has %d", ErrLedgerFull, len(shards))
		}
		snap = snapshotOf(time.Time{}, shards, c.db.Fields)
		l = snap.ledger(c.db.Fields)
		l.ID = rand.Text()
		fields := map[string]*firestorepb.Value{}
		var mask []string
		for name, sum := range l.Sums {
			fields[name] = store.Int(sum.Total())
			mask = append(mask, layout.FieldPath(name))
			if total, ok := store.Integer(was[name]); ok && was[name] != nil && c.replaces(total, sum.Total()) {
				sum.Replaced = &total
			}
		}
		set := map[string]*firestorepb.Value{layout.LedgerID: store.String(l.ID)}
		if !c.db.ShardCount(docs[1]).Written && snap.numbered > 0 {
			set[layout.NumShards], set[layout.NumShardsInferred] = store.Int(int64(snap.numbered)), store.Bool(true)
		}
		var condition *firestorepb.Precondition
		if c.db.Hosted {
			condition = store.Exists(true)
		}
		mask = c.db.SetOwn(fields, mask, set)
		tx.Write(store.Create(c.db.LedgerOf(counter), l.Fields()),
			store.Update(c.db.Counter(counter), condition, fields, mask, store.ServerTime(c.db.OwnPath(layout.UpdatedAt))))
		adopted = true
		return nil
	})
	if err != nil {
		return false, false, "", err
	}
	if stale {
		c.log.InfoContext(ctx, "the ledger of an earlier counter is deleted", "counter", counter)
	}
	if l != nil && adopted {
		for _, name := range c.db.FieldNames() {
			c.logAdopted(ctx, counter, name, l.Sums[name])
		}
		if snap.problem != "" {
			c.log.WarnContext(ctx, logProblem, "counter", counter, "problem", snap.problem)
		}
	}
	return adopted, stale, snap.problem, nil
}

// replaces reports whether a total that is set takes the place of a number that is to be kept. In a document of the app's own the
// two may be the same by chance, 1 and 1: an import in place needs what was there before all the same.
func (c *Client) replaces(was, total int64) bool { return was != total || c.db.Hosted && was != 0 }

// logAdopted says that a field is counted from now on.
func (c *Client) logAdopted(ctx context.Context, counter, field string, sum *ledger.Sum) {
	log := c.log.With("counter", counter, "field", field, "shards", len(sum.Shards), "total", sum.Total())
	if sum.Replaced != nil {
		log = log.With("replaced_total", *sum.Replaced)
	}
	log.InfoContext(ctx, logAdopted)
}
