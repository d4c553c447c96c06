package shards

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/store"
)

// command carries out what must not be applied twice: see [book.Books.Command].
func (c Counter) command(ctx context.Context, decide func(context.Context, *book.Book) error) error {
	defer c.client.known.Remove(c.id)
	return c.client.books.Command(ctx, c.id, func(ctx context.Context, k *book.Book) (bool, error) {
		if k.Limited() {
			return false, ErrLimited
		}
		return true, decide(ctx, k)
	})
}

// ResetOptions are the choices in resetting a counter.
type ResetOptions struct {
	// RemoveMembers takes all members off first. Without it a counter that has any is not reset.
	RemoveMembers bool
	// Progress is called after each commit that takes members off, with how many are by then.
	Progress func(removed int)
}

// Reset sets the counter to zero: all its shards, and what it started from, at once. Increments and members that
// come meanwhile count before it or after it. The total follows with the next roll-up. If it is cut short, it has
// removed some members, and nothing else. Errors: [ErrNotFound], [ErrHasMembers], [ErrLimited], [ErrInvalidField],
// [ErrBusy], [ErrUnknown], or the client library's.
func (c Counter) Reset(ctx context.Context, opts ResetOptions) error {
	return c.call("reset", func() error { return c.reset(ctx, opts) })
}

func (c Counter) reset(ctx context.Context, opts ResetOptions) error {
	if err := c.client.checkSums(); err != nil {
		return err
	}
	if opts.RemoveMembers {
		if err := c.removeMembers(ctx, opts.Progress); err != nil {
			return err
		}
	}
	return c.command(ctx, func(ctx context.Context, k *book.Book) error { return c.decideReset(ctx, k, opts) })
}

// fewMembers is how many members a reset removes in its own commit; more go before it.
const fewMembers = 200

func (c Counter) decideReset(ctx context.Context, k *book.Book, opts ResetOptions) error {
	db := c.client.db
	most := 1
	if opts.RemoveMembers {
		most = math.MaxInt32 // all, or their counts would go without them
	}
	members, err := c.someMembers(ctx, db.Layout.Fields, most, k.At, db)
	switch {
	case err != nil:
		return err
	case len(members) > 0 && !opts.RemoveMembers:
		return ErrHasMembers
	}
	shards, err := c.shards(ctx, k.At)
	if err != nil {
		return err
	}
	// or what the ledger keeps of earlier states later would be on top of 0
	if err := k.Enter(shards); err != nil {
		return err
	}
	for _, field := range db.Layout.Fields {
		k.Rebase(field, 0)
	}
	k.TakeOff()
	for _, shard := range shards {
		if w := c.toZero(shard); w != nil {
			k.Beside(w)
		}
	}
	for _, m := range members {
		k.Beside(store.DeleteIf(m.GetName(), store.UpdatedAtTime(m.GetUpdateTime().AsTime())))
	}
	return nil
}

// removeMembers removes all members but a few, page by page, with their counts.
func (c Counter) removeMembers(ctx context.Context, progress func(removed int)) error {
	db := c.client.db
	return c.inSteps(ctx, progress, func(ctx context.Context, tx *store.Tx, _ int) (int, bool, error) {
		_, k, _, err := c.unlimited(ctx, tx)
		if err != nil {
			return 0, false, err
		}
		members, err := c.someMembers(ctx, db.Layout.Fields, atOnce, time.Time{}, tx)
		if err != nil || len(members) <= fewMembers {
			return 0, false, err
		}
		tx.Write(c.takeOff(members, db.Layout.Fields)...)
		k.Uneven(tx)
		return len(members), true, nil
	})
}

// Rebase sets the counter's total, and leaves its shards as they are. Increments that come meanwhile
// are in that total, or come on top. If the base would be beyond an int64, the total is as close as it
// gets. Errors are those of [Counter.Reset], and [book.ErrLedgerFull].
func (c Counter) Rebase(ctx context.Context, total int64) error {
	return c.call("rebase", func() error {
		if err := c.client.checkSums(); err != nil {
			return err
		}
		return c.rebase(ctx, map[string]int64{c.client.db.Layout.Fields[0].Name: total})
	})
}

// RebaseFields is [Counter.Rebase] for fields by their names, in one commit.
func (c Counter) RebaseFields(ctx context.Context, totals map[string]int64) error {
	return c.call("rebase", func() error { return c.rebase(ctx, totals) })
}

func (c Counter) rebase(ctx context.Context, totals map[string]int64) error {
	for name := range totals {
		if err := c.client.db.Layout.CheckField(name); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidField, err)
		}
	}
	return c.command(ctx, func(ctx context.Context, k *book.Book) error {
		shards, err := c.shards(ctx, k.At)
		if err != nil {
			return err
		}
		if err := k.Enter(shards); err != nil {
			return err
		}
		for name, total := range totals {
			field, _ := c.client.db.Layout.Field(name)
			k.Rebase(field, k.Ledger.BaseFor(field.Shard, total))
		}
		return nil
	})
}
