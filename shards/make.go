package shards

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// makeShards makes the picked shards, at zero, where they are missing, and returns which shards to write to: others,
// where a counter has fewer than was thought. It also tells which counters don't exist.
//
// It is one transaction that reads the counters, so that no deleted counter gets a shard again, and none gets back a
// shard that a resize has removed. Running it twice is harmless.
func (c *Client) makeShards(ctx context.Context, wanted picks) (picks, map[string]bool, error) {
	var picked picks
	var gone map[string]bool
	err := c.db.Transact(ctx, func(tx *store.Tx) error {
		picked, gone = picks{}, map[string]bool{} // this may run again
		ids := slices.Collect(maps.Keys(wanted))
		names := make([]string, len(ids))
		for i, id := range ids {
			names[i] = c.db.Counter(id)
		}
		began := time.Now()
		docs, _, err := tx.Get(ctx, names...)
		if err != nil {
			return err
		}
		names = names[:0]
		var ledgers []string
		for i, doc := range docs {
			id := ids[i]
			s, ok := c.snapshotOf(id, doc)
			if !ok {
				gone[id] = true
				c.known.forget(id)
				continue
			}
			c.known.put(s, began)
			n := wanted[id]
			if most := c.known.writable(s); n >= most {
				n = pickShard(most, id, nil)
			}
			picked[id] = n
			if c.db.Hosted {
				// A ledger without sums, where there is none: by it the next reconcile finds the counter where every event gets lost,
				// and begins with what the shards hold.
				ledgers = append(ledgers, c.db.LedgerOf(id))
			}
			if c.db.Hosted && !c.db.ShardCount(doc).Written {
				// The first increment of a document of the app's, unless it is a copy of one that was counted. All shards are made here, at zero.
				for i := range c.cfg.NumShards {
					names = append(names, c.db.Shard(id, layout.ShardID(i)))
				}
				fields := map[string]*firestorepb.Value{}
				mask := c.db.SetOwn(fields, nil, map[string]*firestorepb.Value{layout.NumShards: store.Int(int64(c.cfg.NumShards))})
				tx.Write(store.Update(c.db.Counter(id), store.Exists(true), fields, mask))
				continue
			}
			names = append(names, c.db.Shard(id, layout.ShardID(n)))
		}
		if err := c.createMissingLedgers(ctx, tx, ledgers); err != nil {
			return err
		}
		return c.createMissingShards(ctx, tx, names)
	})
	if status.Code(err) == codes.AlreadyExists { // someone else was faster
		err = nil
	}
	return picked, gone, err
}

// createMissingLedgers makes those of the named ledgers that are not there.
func (c *Client) createMissingLedgers(ctx context.Context, tx *store.Tx, names []string) error {
	docs, _, err := tx.Get(ctx, names...)
	if err != nil {
		return err
	}
	for i, doc := range docs {
		if doc == nil {
			tx.Write(store.Create(names[i], (&ledger.Ledger{ID: rand.Text()}).Fields()))
		}
	}
	return nil
}

// createMissingShards makes those of the named shards, at zero, that are not there.
func (c *Client) createMissingShards(ctx context.Context, tx *store.Tx, names []string) error {
	docs, _, err := tx.Get(ctx, names...)
	if err != nil {
		return err
	}
	for i, doc := range docs {
		if doc == nil {
			tx.Write(store.Create(names[i], c.db.NoCounts()))
		}
	}
	return nil
}
