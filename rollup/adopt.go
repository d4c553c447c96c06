package rollup

import (
	"context"
	"crypto/rand"
	"strconv"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/internal/conn"
	"github.com/firestore-counters/counters/internal/schema"
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
	for attempt := 0; ; attempt++ {
		adopted, stale, err := c.tryAdopt(ctx, counter)
		if err == nil && stale {
			continue
		}
		// Adopting twice is harmless: the second time the ledger is there.
		if err == nil || conn.KindOf(err) == conn.Permanent || attempt == attempts {
			return adopted, err
		}
		if err := pause(ctx, attempt); err != nil {
			return false, err
		}
	}
}

// tryAdopt adopts, or reports as stale that it has deleted an earlier counter's ledger: a new one takes another commit,
// because its create time is to be younger than whatever happened to the earlier counter.
func (c *Client) tryAdopt(ctx context.Context, counter string) (adopted, stale bool, err error) {
	// Not Client.Doc: an id may hold anything but a slash, and so may the collection's name.
	ref := c.db.Collection(c.layout.Collection).Doc(counter)
	ledger := ref.Collection(schema.Rollup).Doc(schema.Ledger)
	var replaced *int64
	var l *schema.LedgerDoc
	err = c.db.RunTransaction(ctx, func(ctx context.Context, tx *firestore.Transaction) error {
		adopted, stale, replaced, l = false, false, nil, nil // the function may run again
		docs, err := tx.GetAll([]*firestore.DocumentRef{ledger, ref})
		if err != nil {
			return err
		}
		was := docs[1].Data()
		if docs[0].Exists() {
			id, _ := docs[0].Data()[schema.LedgerDocID].(string)
			named, _ := was[schema.LedgerID].(string) // see LedgerDoc.Of
			if adopted = id == named || !docs[1].Exists(); adopted {
				return nil // somebody was faster
			}
			stale = true
			return tx.Delete(ledger)
		}
		if deleting, _ := was[schema.Deleting].(bool); deleting {
			return nil
		}
		shards, err := tx.Documents(ref.Collection(schema.Shards)).GetAll()
		if err != nil {
			return err
		}
		if len(shards) == 0 && !docs[1].Exists() {
			return nil
		}
		l = &schema.LedgerDoc{ID: rand.Text(), Shards: make(map[string]schema.Entry, len(shards))}
		numbered := 0
		for _, s := range shards {
			if n, err := strconv.Atoi(s.Ref.ID); err == nil && n >= numbered && n < mostShards {
				numbered = n + 1
			}
			if state, ok := c.state(counter, s); ok {
				l.Shards[state.Shard] = schema.Entry{Count: state.Count, AsOf: state.AsOf}
			}
		}
		sum := l.Sum()
		if total, ok := was[schema.Total].(int64); ok && total != sum {
			replaced = &total
			l.Replaced = replaced
		}
		fields := map[string]any{schema.LedgerID: l.ID, schema.Total: sum, schema.UpdatedAt: firestore.ServerTimestamp}
		if was[schema.NumShards] == nil && was[schema.NumShardsLegacy] == nil && numbered > 0 {
			fields[schema.NumShards] = numbered
		}
		if err := tx.Create(ledger, l.Data()); err != nil {
			return err
		}
		adopted = true
		return tx.Set(ref, fields, firestore.MergeAll)
	})
	if err != nil {
		return false, false, err
	}
	if stale {
		c.log.InfoContext(ctx, "the ledger of an earlier counter is deleted", "counter", counter)
	}
	if l != nil && adopted {
		log := c.log.With("counter", counter, "shards", len(l.Shards), "total", l.Sum())
		if replaced != nil {
			log = log.With("replaced_total", *replaced)
		}
		log.InfoContext(ctx, "adopted")
	}
	return adopted, stale, nil
}

// state is what a shard's document holds. It reports false, and logs it, where the count is not an integer: such a shard
// keeps what the ledger has for it, until somebody mends it.
func (c *Client) state(counter string, doc *firestore.DocumentSnapshot) (State, bool) {
	s := State{Shard: doc.Ref.ID, AsOf: doc.UpdateTime}
	value, ok := doc.Data()[c.layout.CountField]
	if !ok {
		return s, true
	}
	if s.Count, ok = value.(int64); !ok {
		c.log.Error("shard's count is not an integer", "counter", counter, "shard", s.Shard, "value", value)
	}
	return s, ok
}
