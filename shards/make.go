package shards

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// makeShards makes the picked shards, at zero, where they are missing, and returns which
// shards to write to: others, where a counter has fewer than was thought. It also tells which
// counters don't exist.
//
// It is one transaction that reads the counters, so that no deleted counter gets a shard again, and
// none gets back a shard that a resize has removed. Running it twice is harmless.
func (c *Client) makeShards(ctx context.Context, wanted picks) (picks, map[string]bool, error) {
	var picked picks
	var gone map[string]bool
	err := c.db.Transact(ctx, func(ctx context.Context, tx *store.Tx) error {
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
			if n >= s.NumShards {
				n = pickShard(s.NumShards, id, nil)
			}
			picked[id] = n
			names = append(names, c.db.Shard(id, layout.ShardID(n)))
			if !c.db.Hosted {
				continue
			}
			// By its ledger the next reconcile finds the counter, where every event gets lost.
			if err := c.createMissingLedger(ctx, tx, id, doc); err != nil {
				return err
			}
			if _, written := c.db.NumShards(doc); !written {
				// The first increment of a document of the app's, unless it is a copy of one that
				// was counted. All shards are made here, at zero.
				names = names[:len(names)-1]
				for i := range s.NumShards {
					names = append(names, c.db.Shard(id, layout.ShardID(i)))
				}
				fields := map[string]*firestorepb.Value{}
				mask := c.db.SetOwn(fields, nil, map[string]*firestorepb.Value{layout.NumShards: store.Int(int64(s.NumShards))})
				tx.Write(store.Update(c.db.Counter(id), store.Exists(true), fields, mask))
			}
		}
		return c.createMissingShards(ctx, tx, names)
	})
	switch {
	case status.Code(err) == codes.AlreadyExists: // someone else was faster
		err = nil
	case store.IsTooLarge(err) && c.db.Hosted:
		err = fmt.Errorf("%w: %w", ErrFull, err)
	}
	return picked, gone, err
}

// createMissingLedger makes a counter's ledger where there is none, of what its shards hold.
func (c *Client) createMissingLedger(ctx context.Context, tx *store.Tx, counter string, doc *firestorepb.Document) error {
	docs, _, err := tx.Get(ctx, c.db.LedgerOf(counter))
	if err != nil || docs[0] != nil {
		return err
	}
	l, _, err := tx.Adopt(ctx, counter, doc)
	if err != nil {
		return err
	}
	tx.CreateLedger(counter, l, time.Time{})
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
