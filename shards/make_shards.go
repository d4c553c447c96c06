package shards

import (
	"context"

	"cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/schema"
)

// makeShards makes the picked shards, at zero, where they are missing, and returns which shards to write to: others,
// where a counter has fewer than was thought. It also tells which counters don't exist.
//
// It is one transaction that reads the counters, so that no deleted counter gets a shard again, and none gets back a
// shard that a resize has removed. Running it twice is harmless, so the client library may.
func (c *Client) makeShards(ctx context.Context, wanted picks) (picks, map[string]bool, error) {
	var picked picks
	var gone map[string]bool
	err := c.db.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		picked, gone = picks{}, map[string]bool{} // the function may run again
		counters := make([]Counter, 0, len(wanted))
		refs := make([]*firestore.DocumentRef, 0, len(wanted))
		for id := range wanted {
			counter := Counter{client: c, id: id}
			counters = append(counters, counter)
			refs = append(refs, counter.ref())
		}
		docs, err := tx.GetAll(refs)
		if err != nil {
			return err
		}
		refs = refs[:0]
		for i, doc := range docs {
			id := counters[i].id
			s, ok := snapshotOf(id, doc)
			if !ok {
				gone[id] = true
				c.known.forget(id)
				continue
			}
			c.known.put(s)
			n := wanted[id]
			if n >= s.NumShards {
				n = pickShard(s.NumShards, id, nil)
			}
			picked[id] = n
			refs = append(refs, counters[i].ref().Collection(schema.Shards).Doc(shardID(n)))
		}
		if len(refs) == 0 {
			return nil
		}
		shards, err := tx.GetAll(refs)
		if err != nil {
			return err
		}
		for i, shard := range shards {
			if shard.Exists() {
				continue
			}
			if err := tx.Create(refs[i], map[string]any{c.layout.CountField: 0}); err != nil {
				return err
			}
		}
		return nil
	})
	if status.Code(err) == codes.AlreadyExists { // somebody was faster
		err = nil
	}
	return picked, gone, err
}
