package shards

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/store"
)

// Delete deletes the counter, its shards and its ledger. A counter of up to about 500 shards goes in one commit. A larger
// one is marked first, so that nothing is added to it and it isn't made again, and its own document goes last: when that
// is cut short, deleting it again finishes it, and so does [Counter.FinishDeletion]. Errors: [ErrNotFound], [ErrBusy],
// [ErrUnknown], or the client library's.
func (c Counter) Delete(ctx context.Context) error {
	if err := c.delete(ctx, false); err != nil {
		return fmt.Errorf("delete counter %q: %w", c.id, err)
	}
	return nil
}

// FinishDeletion is [Counter.Delete] for a counter whose deletion was cut short. Any other counter is left as it is, and
// [ErrNotFound] returned.
func (c Counter) FinishDeletion(ctx context.Context) error {
	if err := c.delete(ctx, true); err != nil {
		return fmt.Errorf("finish the deletion of counter %q: %w", c.id, err)
	}
	return nil
}

func (c Counter) delete(ctx context.Context, begun bool) error {
	if c.client.db.Hosted {
		return ErrHosted
	}
	defer c.client.known.forget(c.id)
	var made time.Time // when the counter that is to go was made
	return c.client.carryOut(ctx, func(ctx context.Context) ([]*firestorepb.Write, bool, error) {
		docs, _, err := c.client.db.Get(ctx, c.client.db.Counter(c.id))
		if err != nil {
			return nil, false, err
		}
		counter := docs[0]
		switch created := counter.GetCreateTime().AsTime(); {
		case made.IsZero() && (counter == nil || begun && !c.client.isDeleting(counter)):
			return nil, false, ErrNotFound
		case made.IsZero():
			made = created
		case counter == nil || !created.Equal(made):
			return nil, true, nil // gone by a commit whose answer was lost, and maybe made again by someone else
		}
		return c.planDeletion(ctx, counter)
	})
}

// planDeletion plans the next commit of a deletion. Each of them, and not only the last, is on condition that the counter
// is still the version that was read: one that arrives late, when the counter is gone and another one was made under its
// id, must not take that one's shards.
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
	unchanged := store.UpdatedAtTime(counter.GetUpdateTime().AsTime())
	if !c.client.isDeleting(counter) {
		// An increment may be making a shard at this moment, beside a read of the counter: whichever is first, no shard is
		// left behind.
		most, _ := c.client.shardsOf(counter)
		for n := range most {
			names[c.shardName(shardID(n))] = true
		}
		if len(names) > maxWrites {
			return []*firestorepb.Write{store.Update(db.Counter(c.id), unchanged,
				map[string]*firestorepb.Value{store.Deleting: store.Bool(true)}, []string{store.Deleting})}, false, nil
		}
	}
	for name := range names {
		if len(writes) == maxWrites {
			// A write that changes nothing: it is there for its condition.
			return append(writes, store.Update(db.Counter(c.id), unchanged, nil, nil)), false, nil
		}
		writes = append(writes, store.Delete(name))
	}
	return append(writes, store.Delete(db.LedgerOf(c.id)), deleteIf(db.Counter(c.id), counter.GetUpdateTime().AsTime())), true, nil
}

// isDeleting reports whether a counter's deletion is under way, or was cut short.
func (c *Client) isDeleting(counter *firestorepb.Document) bool {
	return c.db.Own(counter)[store.Deleting].GetBooleanValue()
}
