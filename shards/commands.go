package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// CreateOptions are the choices in making a counter.
type CreateOptions struct {
	Shards int   // 1 to [MaxShards]; 0 is the client's Config.NumShards, or none where none are summed up
	Total  int64 // what the first field without a limit shows; 0: what its path has counted already
}

// Create makes what is missing of the counter: document, shards and base. Counts belong to the path: what was
// counted below it, and not deleted by [Counter.Delete], is shown. Errors: [ErrExists], [ErrHosted],
// [ErrInvalidShards], [ErrInvalidField], [ErrBusy], [ErrUnknown], or the client library's.
func (c Counter) Create(ctx context.Context, opts CreateOptions) error {
	return c.call("create", func() error { return c.create(ctx, opts) })
}

// create is one transaction, so what it finds missing is.
func (c Counter) create(ctx context.Context, opts CreateOptions) (err error) {
	db := c.client.db
	defer c.client.counters.Remove(c.id)
	if len(db.Layout.Sharded) > 0 {
		opts.Shards = cmp.Or(opts.Shards, c.client.cfg.NumShards)
	}
	if opts.Shards != 0 {
		err = c.client.checkShards(opts.Shards)
	}
	if opts.Total != 0 && err == nil {
		err = c.client.checkPlain()
	}
	if db.Layout.Hosted {
		err = ErrHosted
	}
	if err != nil {
		return err
	}
	creates := func(ctx context.Context, tx *store.Tx, _ int) error {
		books, _, err := c.client.books.Get(ctx, tx, []string{c.id})
		if err != nil {
			return err
		}
		b := books[0]
		switch err := b.CheckOurs(); {
		case err != nil:
			return err
		case b.Deleting():
			return fmt.Errorf("%w: it is being deleted; delete it again to finish that", ErrExists)
		case b.Doc != nil:
			return ErrExists
		}
		shards, err := c.giveShards(ctx, tx, b, opts.Shards, opts.Total)
		if err != nil {
			return err
		}
		return c.client.createMissing(ctx, tx, shards)
	}
	return c.client.afterEarlierLife(ctx, func() error { return c.client.exactlyOnce(ctx, creates) })
}

// shardsMovedAtOnce is how many shards a resize moves in one transaction, which locks them against increments while it
// reads and commits.
const shardsMovedAtOnce = 16

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
	if err := c.client.checkShards(n); err != nil {
		return err
	}
	defer c.client.counters.Remove(c.id)
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
	for page := range slices.Chunk(beyond, shardsMovedAtOnce) {
		to := c.shardName(layout.ShardID(moved / shardsMovedAtOnce % n))
		err := c.client.db.Transact(ctx, func(ctx context.Context, tx *store.Tx) error { return c.moveCounts(ctx, tx, page, to, opts.KeepShards) })
		if err != nil {
			return fmt.Errorf("move shard %s: %w", store.IDOf(page[0]), err)
		}
		if moved += len(page); opts.Progress != nil {
			opts.Progress(moved, len(beyond))
		}
	}
	return nil
}

// ResetOptions are the choices in resetting a counter.
type ResetOptions struct {
	// RemoveMembers takes all members off first. Without it a counter that has any is not reset.
	RemoveMembers bool
	// Progress is called after each commit that takes members off, with how many are by then.
	Progress func(removed int)
}

// Reset sets the counter's totals to zero, at once, but for those of fields with limits, and leaves its shards as they
// are. Increments and members that come meanwhile count before it or after it. What open holds of amounts have (see
// [Counter.Reserve]) counts after it, or the totals would fall below zero when it comes back. If it is cut short, it
// has removed some members, and nothing else. Errors: [ErrNotFound], [ErrHasMembers], [ErrInvalidField], [ErrBusy],
// [ErrUnknown], or the client library's.
func (c Counter) Reset(ctx context.Context, opts ResetOptions) error {
	return c.call("reset", func() error { return c.reset(ctx, opts) })
}

// reset takes members off page by page, with their counts: what the shards hold of them is taken off the base. The
// commit of the last page sets the totals, too.
func (c Counter) reset(ctx context.Context, opts ResetOptions) error {
	if err := c.client.checkPlain(); err != nil {
		return err
	}
	names, page := c.client.db.Layout, 1
	if opts.RemoveMembers {
		page = removedAtOnce
	}
	for removed, last := 0, false; !last; {
		n := 0
		err := c.edit(ctx, func(ctx context.Context, e *book.Edit) error {
			members, err := c.readMembers(ctx, names.Plain(), page, e.At, c.client.db)
			switch {
			case err != nil:
				return err
			case len(members) > 0 && !opts.RemoveMembers:
				return ErrHasMembers
			}
			whole := len(members) < page
			e.Applied = func() { n, last = len(members), whole } // an earlier try may be the one
			counts := map[string]int64{}                         // :: collection of memberships → how many go
			for _, m := range members {
				counts[path.Dir(m.GetName())]++
				e.Beside(store.DeleteIf(m.GetName(), store.IfVersion(m.GetUpdateTime().AsTime())))
			}
			if whole {
				return c.setTotals(ctx, e, names.Plain(), func(layout.Field) int64 { return 0 })
			}
			for _, field := range names.Plain() {
				if n := counts[names.MembersOf(c.id, field.Name)]; n > 0 {
					err = errors.Join(err, e.Add(field, -n))
				}
			}
			return err
		})
		if err != nil {
			return err
		}
		if removed += n; n > 0 && opts.Progress != nil {
			opts.Progress(removed)
		}
	}
	return nil
}

// Rebase sets the counter's total, and leaves its shards as they are. Increments that come meanwhile
// are in that total, or come on top. What open holds of amounts have comes on top. If the base would be beyond an
// int64, the total is as close as it gets. Errors are those of [Counter.Reset].
func (c Counter) Rebase(ctx context.Context, total int64) error {
	return c.call("rebase", func() error {
		if err := c.client.checkPlain(); err != nil {
			return err
		}
		return c.rebase(ctx, map[string]int64{c.client.db.Layout.Plain()[0].Name: total})
	})
}

// RebaseFields is [Counter.Rebase] for fields by their names, in one commit.
func (c Counter) RebaseFields(ctx context.Context, totals map[string]int64) error {
	return c.call("rebase", func() error { return c.rebase(ctx, totals) })
}

func (c Counter) rebase(ctx context.Context, totals map[string]int64) error {
	var fields layout.Fields
	for name := range totals {
		if err := c.client.db.Layout.CheckPlain(name); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidField, err)
		}
		field, _ := c.client.db.Layout.Field(name)
		fields = append(fields, field)
	}
	return c.edit(ctx, func(ctx context.Context, e *book.Edit) error {
		return c.setTotals(ctx, e, fields, func(field layout.Field) int64 { return totals[field.Name] })
	})
}
