package rollup

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// mostShards is the largest number of shards of a counter. A shard with a larger number was not named by counting.
const mostShards = 1000

// numberOf is the number of a shard whose id is one, and -1 for other ids.
func numberOf(shard string) int64 {
	n, err := strconv.ParseInt(shard, 10, 64)
	if err != nil || n < 0 || n >= mostShards || strconv.FormatInt(n, 10) != shard {
		return -1
	}
	return n
}

// inferredShards is a counter's number of shards where that was inferred, and 0 otherwise.
func inferredShards(counter *firestorepb.Document) int64 {
	if !counter.GetFields()[store.NumShardsInferred].GetBooleanValue() {
		return 0
	}
	n, _ := store.Integer(counter.GetFields()[store.NumShards])
	return max(n, 1)
}

// risen is what an inferred number of shards rises to with the shards that states show. A number that was not inferred, 0
// here, stays.
func risen(inferred int64, states []ledger.State) int64 {
	if inferred == 0 {
		return 0
	}
	for _, s := range states {
		if !s.Gone {
			inferred = max(inferred, numberOf(s.Shard)+1)
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
		was := docs[1].GetFields()
		if docs[0] != nil {
			if adopted = ledger.Of(docs[0], docs[1]) || docs[1] == nil; adopted {
				return nil // another instance was faster
			}
			stale = true
			tx.Write(store.Delete(c.db.LedgerOf(counter)))
			return nil
		}
		if was[store.Deleting].GetBooleanValue() {
			return nil
		}
		shards, err := tx.Documents(ctx, store.Query{Collection: c.db.ShardsOf(counter)})
		if err != nil {
			return err
		}
		if len(shards) == 0 && docs[1] == nil {
			return nil
		}
		if len(shards) > ledger.MaxEntries {
			return fmt.Errorf("%w: the counter has %d", ErrLedgerFull, len(shards))
		}
		snap = snapshotOf(time.Time{}, shards, c.db.CountField)
		l = snap.ledger()
		l.ID = rand.Text()
		sum := l.Sum()
		if total, ok := store.Integer(was[store.Total]); ok && was[store.Total] != nil && total != sum {
			l.Replaced = &total
		}
		fields := map[string]*firestorepb.Value{store.LedgerID: store.String(l.ID), store.Total: store.Int(sum)}
		mask := []string{store.LedgerID, store.Total}
		if was[store.NumShards] == nil && was[store.NumShardsLegacy] == nil && snap.numbered > 0 {
			fields[store.NumShards], fields[store.NumShardsInferred] = store.Int(snap.numbered), store.Bool(true)
			mask = append(mask, store.NumShards, store.NumShardsInferred)
		}
		tx.Write(store.Create(c.db.LedgerOf(counter), l.Fields()),
			store.Update(c.db.Counter(counter), nil, fields, mask, store.ServerTime(store.UpdatedAt)))
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
		log := c.log.With("counter", counter, "shards", len(l.Shards), "total", l.Sum())
		if l.Replaced != nil {
			log = log.With("replaced_total", *l.Replaced)
		}
		log.InfoContext(ctx, LogAdopted)
		if snap.problem != "" {
			c.log.WarnContext(ctx, LogProblem, "counter", counter, "problem", snap.problem)
		}
	}
	return adopted, stale, snap.problem, nil
}
