package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/seats"
	"github.com/firestore-counters/counters/internal/store"
)

// CreateOptions are the choices in making a counter.
type CreateOptions struct {
	Shards int   // 1 to [MaxShards]; 0 is the client's Config.NumShards, or none where none are summed up
	Total  int64 // to start from; where its path has counts already and this is 0, it shows those
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
	defer c.client.known.Remove(c.id)
	if len(db.Layout.Fields) > 0 {
		opts.Shards = cmp.Or(opts.Shards, c.client.cfg.NumShards)
	}
	if opts.Shards != 0 {
		err = c.client.mayHave(opts.Shards)
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
	return c.client.once(ctx, func(ctx context.Context, tx *store.Tx, _ int) error {
		books, _, err := c.client.books.Get(ctx, tx, []string{c.id})
		if err != nil {
			return err
		}
		b := books[0]
		switch err := b.CheckSettings(); {
		case err != nil:
			return err
		case b.Deleting():
			return fmt.Errorf("%w: it is being deleted; delete it again to finish that", ErrExists)
		case b.Doc != nil:
			return ErrExists
		}
		shards, err := c.size(ctx, tx, b, opts.Shards, opts.Total)
		if err != nil {
			return err
		}
		return c.client.createMissing(ctx, tx, shards)
	})
}

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
			counts := map[string]int64{} // :: collection of memberships → how many go
			for _, m := range members {
				counts[path.Dir(m.GetName())]++
				e.Beside(store.DeleteIf(m.GetName(), store.UpdatedAtTime(m.GetUpdateTime().AsTime())))
			}
			for _, field := range c.client.db.Layout.Plain() {
				if n := counts[c.client.db.Layout.MembersOf(c.id, field.Name)]; n > 0 {
					e.SetBase(field, store.Sub(e.Base.Counts[field.Shard], n))
				}
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

// SetLimit sets the limit, of 0 or more, of a field that FIELDS declares to have one, such as seats=limit(500). The
// field never exceeds it, and never goes below 0: [Counter.Add] and [Counter.Join] return [ErrLimit] if at some moment
// of the call there was no room, or less to give back. Only members give back what members took. Other counters have
// the limit that is declared, until it is set.
//
// Errors: [ErrLimit] if more is taken; [ErrInvalidField]; [ErrInvalidLimit]; [ErrFull]; [ErrNotFound]; [ErrBusy];
// [ErrUnknown], after which it may be repeated; or the client library's.
func (c Counter) SetLimit(ctx context.Context, field string, limit int64) error {
	return c.call("limit "+field+" of", func() error {
		if limit < 0 {
			return fmt.Errorf("%w: %d is below 0", ErrInvalidLimit, limit)
		}
		if err := c.client.db.Layout.CheckField(field); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidField, err)
		}
		if err := c.client.db.Layout.CheckLimited(field); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidLimit, err)
		}
		err := c.setLimit(ctx, field, limit)
		if store.IsTooLarge(err) && c.client.db.Layout.Hosted {
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
		return c.client.uncertain(err)
	})
}

// setLimit changes shares in one commit, on condition of the counter's document, which it writes: of two limits that
// are set at a time the later one holds. Holds that are over are ended before it is refused.
func (c Counter) setLimit(ctx context.Context, name string, limit int64) error {
	field, _ := c.client.db.Layout.Field(name)
	at := place{c.id, field.Shard}
	defer c.client.holdings.forget(at)
	for {
		var read time.Time
		err := c.client.books.Edit(ctx, c.id, func(ctx context.Context, e *book.Edit) (bool, error) {
			read = e.At
			docs, err := c.client.db.Documents(ctx, seats.Shards(c.client.db.Layout, c.id, field, e.At))
			if err != nil {
				return false, fmt.Errorf("read shards: %w", err)
			}
			if len(docs) == 0 {
				earlier, err := hold.In(c.client.db).Earlier(ctx, c.client.db, c.id, field.Shard, e.At)
				e.Beside(append(seats.Make(c.client.db.Layout, c.id, field, c.client.numShards(e.Book), limit), earlier...)...)
				return true, err
			}
			return true, c.share(e, docs, field, limit)
		})
		if full, is := errors.AsType[*LimitError](err); !is || full.Members+full.Held == 0 {
			return err
		}
		if ended, ending := c.client.endHoldsOf(ctx, hold.In(c.client.db), at, read); ending != nil || !ended {
			return cmp.Or(ending, err)
		}
	}
}

// share has an edit give shards their shares of a limit. More is given as it comes; less is taken of free room
// alone, on condition of the shard.
func (c Counter) share(e *book.Edit, docs book.Shards, field layout.Field, limit int64) error {
	if wrong := seats.Wrong(docs, field); wrong != "" {
		return fmt.Errorf("%w: %s: set that right first", ErrInvalidLimit, wrong)
	}
	held := seats.All(docs, field)
	shares, ok := escrow.Limit(held, limit)
	if !ok {
		sum := escrow.Sum(held...)
		return &LimitError{Counter: c.id, Field: field.Name, Limit: limit, Taken: sum.Count, Members: sum.Members, Held: sum.Holds}
	}
	for i, n := range shares {
		condition := store.Exists(true)
		if n < 0 {
			condition = store.UpdatedAtTime(docs[i].GetUpdateTime().AsTime())
		}
		if n != 0 {
			e.Beside(seats.Change(docs[i].GetName(), condition, field.Shard, escrow.Held{Share: n}))
		}
	}
	return nil
}
