package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/seats"
	"github.com/firestore-counters/counters/internal/store"
)

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
	defer c.client.shardsOf.forget(at)
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
