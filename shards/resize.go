package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// movesAtOnce is how many shards a resize moves side by side.
const movesAtOnce = 8

// ResizeOptions are the choices in resizing a counter.
type ResizeOptions struct {
	// KeepShards keeps the shards that are too many, with nothing in them. That is for counters
	// that clients write to by themselves: a write that waits on a phone may still name such a
	// shard, and is lost where it is gone.
	KeepShards bool
	// Progress is called for each shard that was moved, one call at a time.
	Progress func(moved, of int)
}

// Resize gives the counter n shards, and is safe beside increments. Shards beyond n are moved
// onto the others one by one, each in one commit; a client that does not know yet finds its
// shard gone, and reads the counter again. When it is cut short, resizing again finishes it.
// Errors: [ErrInvalidShards], [ErrNotFound], [ErrNotInteger], [ErrBusy], [ErrUnknown], or the
// client library's.
func (c Counter) Resize(ctx context.Context, n int, opts ResizeOptions) error {
	if err := c.usable(); err != nil {
		return err
	}
	if err := c.resize(ctx, n, opts); err != nil {
		return fmt.Errorf("resize counter %q: %w", c.id, err)
	}
	return nil
}

func (c Counter) resize(ctx context.Context, n int, opts ResizeOptions) error {
	if err := c.client.mayHave(n); err != nil {
		return err
	}
	defer c.client.known.forget(c.id)
	if _, err := c.setShards(ctx, n, func(int) int { return n }); err != nil {
		return err
	}
	shards, err := c.shardDocuments(ctx, time.Time{})
	if err != nil {
		return err
	}
	var beyond []string
	for _, s := range shards {
		id := store.IDOf(s.GetName())
		if number, ok := layout.ShardNumber(id); ok && number >= n {
			beyond = append(beyond, id)
		}
	}
	var mu sync.Mutex
	moved := 0
	group, moving := errgroup.WithContext(ctx)
	group.SetLimit(movesAtOnce)
	for i, id := range beyond {
		group.Go(func() error {
			if err := c.move(moving, id, i%n, opts.KeepShards); err != nil {
				return fmt.Errorf("move shard %s: %w", id, err)
			}
			mu.Lock()
			defer mu.Unlock()
			moved++
			if opts.Progress != nil {
				opts.Progress(moved, len(beyond))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil || len(beyond) == 0 {
		return err
	}
	// Another resize, or growth, may have given the counter more shards meanwhile, and this one may
	// have taken some of them away.
	return c.keepShards(ctx, n)
}

// setShards sets the counter's number of shards to what change makes of it, and makes those that
// are missing from number from on, or that are new, so that clients which only know the public
// layout find them. It returns the number that was. It is one transaction, and running it twice is
// harmless as long as change settles on a number.
func (c Counter) setShards(ctx context.Context, from int, change func(int) int) (was int, err error) {
	db := c.client.db
	err = db.Transact(ctx, func(ctx context.Context, tx *store.Tx) error {
		docs, _, err := tx.Get(ctx, db.Counter(c.id), db.LedgerOf(c.id))
		if err != nil {
			return err
		}
		s, ok := c.client.snapshotOf(c.id, docs[0])
		if !ok {
			return ErrNotFound
		}
		was = s.NumShards
		n := change(was)
		missing, err := c.size(ctx, tx, docs[0], docs[1], n, time.Time{})
		if err != nil {
			return err
		}
		for i := from; i < min(was, n); i++ {
			if name := c.shardName(layout.ShardID(i)); !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
		_, err = c.client.createMissing(ctx, tx, missing, nil)
		return err
	})
	return was, err
}

// keepShards makes those of the counter's shards, from the n-th on, that are not there.
func (c Counter) keepShards(ctx context.Context, n int) error {
	_, err := c.setShards(ctx, n, func(is int) int { return is })
	if errors.Is(err, ErrNotFound) {
		return nil // deleted since: no shard comes back
	}
	return err
}

// move adds a shard's count to another shard and deletes it, or keeps it with nothing in it, in one
// commit, on condition that nothing was added to it since it was read. A commit whose answer was
// lost and the one that goes in its place have the same condition, so that one of them is applied.
// A shard that the counter has again stays: another resize, or growth, came in between.
func (c Counter) move(ctx context.Context, from string, to int, keep bool) error {
	db := c.client.db
	_, err := c.client.db.Settle(ctx, insistent, func(ctx context.Context) ([]*firestorepb.Write, error) {
		target := c.shardName(layout.ShardID(to))
		docs, _, err := c.client.db.Get(ctx, c.shardName(from), target, db.Counter(c.id))
		if err != nil || docs[0] == nil {
			return nil, err
		}
		if s, there := c.client.snapshotOf(c.id, docs[2]); there {
			if number, ok := layout.ShardNumber(from); ok && number < s.NumShards {
				return nil, nil
			}
		}
		remove := deleteUnchanged(docs[0])
		var transforms, back []*firestorepb.DocumentTransform_FieldTransform
		moved := docs[0].GetFields()
		for _, field := range db.Fields {
			if _, ok := store.Integer(moved[field.Shard]); !ok {
				return nil, fmt.Errorf("%w: %s is %v", ErrNotInteger, field.Shard, moved[field.Shard])
			}
		}
		// Fields that are not counted here too: another revision may count them.
		for name, value := range moved {
			count, ok := store.Integer(value)
			if _, half := value.GetValueType().(*firestorepb.Value_DoubleValue); half && !ok {
				return nil, fmt.Errorf("%w: %s is %v", ErrNotInteger, name, value)
			}
			if ok && count != 0 {
				// What is added to a fraction would no longer be counted.
				if _, ok := store.Integer(docs[1].GetFields()[name]); !ok {
					return nil, fmt.Errorf("%w: %s of shard %d, which takes those of others, is %v", ErrNotInteger, name, to, docs[1].GetFields()[name])
				}
				transforms = append(transforms, store.Increment(layout.FieldPath(name), count))
				back = append(back, store.Increment(layout.FieldPath(name), ledger.Sub(0, count)))
			}
		}
		if keep {
			remove = store.Update(c.shardName(from), store.UpdatedAtTime(docs[0].GetUpdateTime().AsTime()), nil, nil, back...)
		}
		switch {
		case len(transforms) == 0 && keep:
			return nil, nil
		case len(transforms) == 0:
			return []*firestorepb.Write{remove}, nil
		case docs[1] == nil:
			if _, err := c.setShards(ctx, to, func(is int) int { return is }); err != nil {
				return nil, err
			}
		}
		add := store.Update(target, store.Exists(true), nil, nil, transforms...)
		return []*firestorepb.Write{add, remove}, nil
	})
	return err
}
