package rollup

import (
	"context"
	"crypto/rand"
	"path"
	"strconv"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// mostShards is the largest number of shards of a counter. A shard with a larger number has it from somebody else's idea
// of a name.
const mostShards = 1000

// adopt makes a ledger for a counter that has none of its own, from the shards as they are: it was made by one of
// Google's snippets, maybe where an earlier counter had been deleted by hand, or a blind trigger has kept its total so
// far. It reports false when there is nothing to adopt.
//
// The shards are read inside of the transaction that creates the ledger. Otherwise a shard written in between would be
// newer than its entry and older than the ledger, and its event might come before either.
func (c *Client) adopt(ctx context.Context, counter string) (bool, error) {
	for {
		// A new ledger takes another commit than the deletion of an earlier counter's, because its create time is to be
		// younger than whatever happened to the earlier counter.
		adopted, stale, err := c.tryAdopt(ctx, counter)
		if err != nil || !stale {
			return adopted, err
		}
	}
}

// tryAdopt adopts, or reports as stale that it has deleted an earlier counter's ledger.
func (c *Client) tryAdopt(ctx context.Context, counter string) (adopted, stale bool, err error) {
	var l *ledger.Ledger
	err = c.db.Transact(ctx, func(tx *store.Tx) error {
		adopted, stale, l = false, false, nil // this may run again, and does no harm: the second time the ledger is there
		docs, _, err := tx.Get(ctx, c.db.LedgerOf(counter), c.db.Counter(counter))
		if err != nil {
			return err
		}
		was := docs[1].GetFields()
		if docs[0] != nil {
			if adopted = ledger.Of(docs[0], docs[1]) || docs[1] == nil; adopted {
				return nil // somebody was faster
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
		l = &ledger.Ledger{ID: rand.Text(), Shards: make(map[string]ledger.Entry, len(shards))}
		numbered := 0
		for _, s := range shards {
			if n, err := strconv.Atoi(path.Base(s.GetName())); err == nil && n >= numbered && n < mostShards {
				numbered = n + 1
			}
			if state, ok := c.state(counter, s); ok {
				l.Shards[state.Shard] = ledger.Entry{Count: state.Count, AsOf: state.AsOf}
			}
		}
		sum := l.Sum()
		if total, ok := store.Integer(was[store.Total]); ok && was[store.Total] != nil && total != sum {
			l.Replaced = &total
		}
		fields := map[string]*firestorepb.Value{store.LedgerID: store.String(l.ID), store.Total: store.Int(sum)}
		mask := []string{store.LedgerID, store.Total}
		if was[store.NumShards] == nil && was[store.NumShardsLegacy] == nil && numbered > 0 {
			fields[store.NumShards] = store.Int(int64(numbered))
			mask = append(mask, store.NumShards)
		}
		tx.Write(store.Create(c.db.LedgerOf(counter), l.Fields()),
			store.Update(c.db.Counter(counter), nil, fields, mask, store.ServerTime(store.UpdatedAt)))
		adopted = true
		return nil
	})
	if err != nil {
		return false, false, err
	}
	if stale {
		c.log.InfoContext(ctx, "the ledger of an earlier counter is deleted", "counter", counter)
	}
	if l != nil && adopted {
		log := c.log.With("counter", counter, "shards", len(l.Shards), "total", l.Sum())
		if l.Replaced != nil {
			log = log.With("replaced_total", *l.Replaced)
		}
		log.InfoContext(ctx, "adopted")
	}
	return adopted, stale, nil
}

// state is what a shard's document holds. It reports false, and logs it, where the count is not an integer: such a shard
// keeps what the ledger has for it, until somebody mends it.
func (c *Client) state(counter string, doc *firestorepb.Document) (State, bool) {
	s := State{Shard: path.Base(doc.GetName()), AsOf: doc.GetUpdateTime().AsTime()}
	value := doc.GetFields()[c.db.CountField]
	var ok bool
	if s.Count, ok = store.Integer(value); !ok {
		c.log.Error("shard's count is not an integer", "counter", counter, "shard", s.Shard, "value", value.String())
	}
	return s, ok
}
