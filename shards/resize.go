package shards

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// movesAtOnce is how many shards a resize moves in one transaction.
const movesAtOnce = 16

// ResizeOptions are the choices in resizing a counter.
type ResizeOptions struct {
	// KeepShards keeps shards beyond n, with nothing in them. That is for clients that write shards
	// themselves: a write that waits on a phone may still name such a shard.
	KeepShards bool
	// Progress is called after each commit that moves some.
	Progress func(moved, of int)
}

// Resize gives the counter n shards, while increments go on. The counts of shards beyond n are moved to the
// others, some in each commit; a client whose shard is gone reads the counter again. If that is cut short,
// resizing again finishes it. Errors: [ErrInvalidShards], also if n shards can't hold the counts,
// [ErrNotFound], [ErrNotInteger], [ErrBusy], [ErrUnknown], or the client library's.
func (c Counter) Resize(ctx context.Context, n int, opts ResizeOptions) error {
	return c.call("resize", func() error { return c.resize(ctx, n, opts) })
}

func (c Counter) resize(ctx context.Context, n int, opts ResizeOptions) error {
	if err := c.client.mayHave(n); err != nil {
		return err
	}
	defer c.client.known.Remove(c.id)
	if err := c.setShards(ctx, n, func(int) int { return n }); err != nil {
		return err
	}
	shards, err := c.shards(ctx, time.Time{})
	if err != nil {
		return err
	}
	var beyond []string
	for _, s := range shards {
		if number, ok := layout.ShardNumber(store.IDOf(s.GetName())); ok && number >= n {
			beyond = append(beyond, s.GetName())
		}
	}
	moved := 0
	for page := range slices.Chunk(beyond, movesAtOnce) {
		to := c.shardName(layout.ShardID(moved / movesAtOnce % n))
		err := c.client.db.Transact(ctx, func(ctx context.Context, tx *store.Tx) error { return c.move(ctx, tx, page, to, opts.KeepShards) })
		if err != nil {
			return fmt.Errorf("move shard %s: %w", store.IDOf(page[0]), err)
		}
		if moved += len(page); opts.Progress != nil {
			opts.Progress(moved, len(beyond))
		}
	}
	return nil
}

// move adds what shards hold to another shard in a transaction, and deletes them, or keeps them with
// nothing in them. A shard that the counter has again, by another resize or by growth, stays.
func (c Counter) move(ctx context.Context, tx *store.Tx, from []string, to string, keep bool) error {
	s, _, docs, err := c.existing(ctx, tx, append([]string{to}, from...)...)
	if err != nil {
		return err
	}
	target, moved := docs[0], docs[:0:0]
	for _, shard := range docs[1:] {
		if number, _ := layout.ShardNumber(store.IDOf(shard.GetName())); shard != nil && number >= s.NumShards {
			moved = append(moved, shard)
		}
	}
	for _, shard := range moved {
		if err := movable(c.client.db.Layout.Plain(), shard); err != nil {
			return err
		}
		for name, value := range shard.GetFields() {
			// What is added to a fraction would no longer be counted.
			count, _ := store.Integer(value)
			if _, whole := store.Integer(target.GetFields()[name]); count != 0 && !whole {
				return fmt.Errorf("%w: %s of shard %s, which takes those of others, is %v", ErrNotInteger, name, store.IDOf(to), target.GetFields()[name])
			}
		}
	}
	if len(moved) == 0 {
		return nil
	}
	if target == nil {
		target = c.client.zero(to)
		tx.Write(store.Create(to, target.GetFields()))
	}
	if n := fold(tx, append(book.Shards{target}, moved...), keep); n > 1 {
		return fmt.Errorf("%w: %d; what the others hold and shard %s takes is beyond ±2⁶³", ErrInvalidShards, s.NumShards, store.IDOf(to))
	}
	return nil
}
