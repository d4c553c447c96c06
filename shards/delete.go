package shards

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/store"
)

// Delete deletes the counter, its shards and its ledger. A counter of up to about 500 shards goes in one commit. A larger
// one is marked first, so that nobody adds to it or makes it again, and its own document goes last: when that is cut
// short, deleting it again finishes it. Errors: [ErrNotFound], [ErrBusy], [ErrUnknown], or the client library's.
func (c Counter) Delete(ctx context.Context) error {
	defer c.client.known.forget(c.id)
	var made time.Time // when the counter that is to go was made
	err := c.client.carryOut(ctx, func(ctx context.Context) ([]*firestorepb.Write, bool, error) {
		docs, _, err := c.client.db.Get(ctx, c.client.db.Counter(c.id))
		if err != nil {
			return nil, false, err
		}
		counter := docs[0]
		switch created := counter.GetCreateTime().AsTime(); {
		case made.IsZero() && counter == nil:
			return nil, false, ErrNotFound
		case made.IsZero():
			made = created
		case counter == nil || !created.Equal(made):
			return nil, true, nil // gone by a commit whose answer was lost, and maybe made anew by somebody else
		}
		return c.planDeletion(ctx, counter)
	})
	if err != nil {
		return fmt.Errorf("delete counter %q: %w", c.id, err)
	}
	return nil
}

func (c Counter) planDeletion(ctx context.Context, counter *firestorepb.Document) (writes []*firestorepb.Write, final bool, err error) {
	listed, err := c.shards(ctx)
	if err != nil {
		return nil, false, err
	}
	names := map[string]bool{}
	for _, s := range listed {
		names[c.shardName(s.id)] = true
	}
	db := c.client.db
	deleting := counter.GetFields()[store.Deleting].GetBooleanValue()
	if !deleting {
		// An increment may be making a shard at this moment, beside a read of the counter: whichever is first, no shard is
		// left behind.
		for n := range shardsOf(counter) {
			names[c.shardName(shardID(n))] = true
		}
		if len(names) > maxWrites {
			return []*firestorepb.Write{store.Update(db.Counter(c.id), store.UpdatedAtTime(counter.GetUpdateTime().AsTime()),
				map[string]*firestorepb.Value{store.Deleting: store.Bool(true)}, []string{store.Deleting})}, false, nil
		}
	}
	for name := range names {
		if len(writes) == maxWrites {
			return writes, false, nil
		}
		writes = append(writes, store.Delete(name))
	}
	return append(writes, store.Delete(db.LedgerOf(c.id)), deleteIf(db.Counter(c.id), counter.GetUpdateTime().AsTime())), true, nil
}
