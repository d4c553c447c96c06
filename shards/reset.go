package shards

import (
	"context"
	"fmt"
	"math"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// command carries out what must not be applied twice: see [book.Books.Edit].
func (c Counter) command(ctx context.Context, decide func(context.Context, *book.Edit) error) error {
	defer c.client.known.Remove(c.id)
	return c.client.books.Edit(ctx, c.id, func(ctx context.Context, e *book.Edit) (bool, error) {
		return true, decide(ctx, e)
	})
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
// [Counter.Reserve]) counts after it, or the totals would fall below zero when it comes back. If it is cut short, it has removed some
// members, and nothing else. Errors: [ErrNotFound], [ErrHasMembers], [ErrInvalidField], [ErrBusy], [ErrUnknown], or the
// client library's.
func (c Counter) Reset(ctx context.Context, opts ResetOptions) error {
	return c.call("reset", func() error { return c.reset(ctx, opts) })
}

func (c Counter) reset(ctx context.Context, opts ResetOptions) error {
	if err := c.client.checkPlain(); err != nil {
		return err
	}
	if opts.RemoveMembers {
		if err := c.removeMembers(ctx, opts.Progress); err != nil {
			return err
		}
	}
	return c.command(ctx, func(ctx context.Context, e *book.Edit) error { return c.decideReset(ctx, e, opts) })
}

// fewMembers is how many members a reset removes in its own commit; more go before it.
const fewMembers = 200

func (c Counter) decideReset(ctx context.Context, e *book.Edit, opts ResetOptions) error {
	db := c.client.db
	most := 1
	if opts.RemoveMembers {
		most = math.MaxInt32 // all, or their counts would go without them
	}
	members, err := c.someMembers(ctx, db.Layout.Plain(), most, e.At, db)
	switch {
	case err != nil:
		return err
	case len(members) > 0 && !opts.RemoveMembers:
		return ErrHasMembers
	}
	for _, field := range db.Layout.Plain() {
		if err := c.setTotal(ctx, e, field, 0); err != nil {
			return err
		}
	}
	for _, m := range members {
		e.Beside(store.DeleteIf(m.GetName(), store.UpdatedAtTime(m.GetUpdateTime().AsTime())))
	}
	return nil
}

// setTotal sets what a field's total is once all that is held now has come back.
func (c Counter) setTotal(ctx context.Context, e *book.Edit, field layout.Field, total int64) error {
	held, err := hold.In(c.client.db).HeldAt(ctx, c.id, field.Shard, e.At)
	if err != nil {
		return err
	}
	return e.SetTotal(ctx, field, store.Add(total, held))
}

// removeMembers removes all members but a few, page by page, with their counts: what the shards hold of them is taken
// off the base.
func (c Counter) removeMembers(ctx context.Context, progress func(removed int)) error {
	for removed := 0; ; {
		n := 0
		err := c.command(ctx, func(ctx context.Context, e *book.Edit) error {
			members, err := c.someMembers(ctx, c.client.db.Layout.Plain(), atOnce, e.At, c.client.db)
			if n = len(members); err != nil || n <= fewMembers {
				n = 0
				return err
			}
			counts := c.countMembers(members, c.client.db.Layout.Plain())
			for _, field := range c.client.db.Layout.Plain() {
				if counts[field.Shard] > 0 {
					e.SetBase(field, store.Sub(e.Base.Counts[field.Shard], counts[field.Shard]))
				}
			}
			for _, m := range members {
				e.Beside(store.DeleteIf(m.GetName(), store.UpdatedAtTime(m.GetUpdateTime().AsTime())))
			}
			return nil
		})
		if err != nil || n == 0 {
			return err
		}
		if removed += n; progress != nil {
			progress(removed)
		}
	}
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
	for name := range totals {
		if err := c.client.db.Layout.CheckPlain(name); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidField, err)
		}
	}
	return c.command(ctx, func(ctx context.Context, e *book.Edit) error {
		for name, total := range totals {
			field, _ := c.client.db.Layout.Field(name)
			if err := c.setTotal(ctx, e, field, total); err != nil {
				return err
			}
		}
		return nil
	})
}
