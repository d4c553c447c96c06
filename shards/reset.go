package shards

import (
	"context"
	"fmt"
	"math"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/command"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// command carries out what must not be applied twice. Errors are decide's, [ErrNotFound],
// [ErrBusy], [ErrUnknown] or the client library's.
func (c Counter) command(ctx context.Context, decide func(context.Context, *ledger.Ledger, time.Time) (*command.Change, error)) error {
	defer c.client.known.Remove(c.id)
	return command.Run(ctx, c.client.db, c.id, decide)
}

// ResetOptions are the choices in resetting a counter.
type ResetOptions struct {
	// RemoveMembers takes all members off first. Without it a counter that has any is not reset.
	RemoveMembers bool
	// Progress is called after each commit that takes members off, with how many are by then.
	Progress func(removed int)
}

// Reset sets the counter to zero: all its shards at once, and what it started from. Increments that
// are committed while it runs count before it or after it, and so do members. The total follows
// with the next roll-up. When it is cut short, it has taken off some members, and nothing else.
// Errors: [ErrNotFound], [ErrHasMembers], [ErrInvalidField], [ErrBusy], [ErrUnknown], or the client
// library's.
func (c Counter) Reset(ctx context.Context, opts ResetOptions) error {
	return c.call("reset", func() error { return c.reset(ctx, opts) })
}

func (c Counter) reset(ctx context.Context, opts ResetOptions) error {
	if err := c.client.sums(); err != nil {
		return err
	}
	if opts.RemoveMembers {
		if err := c.removeMembers(ctx, opts.Progress); err != nil {
			return err
		}
	}
	return c.command(ctx, func(ctx context.Context, l *ledger.Ledger, at time.Time) (*command.Change, error) {
		return c.decideReset(ctx, l, at, opts)
	})
}

// fewMembers is how many members a reset takes off in its own commit, beside those who have just
// joined; more go before it.
const fewMembers = 200

func (c Counter) decideReset(ctx context.Context, l *ledger.Ledger, at time.Time, opts ResetOptions) (*command.Change, error) {
	db := c.client.db
	most := 1
	if opts.RemoveMembers {
		most = math.MaxInt32 // all, or their counts would go without them
	}
	members, err := c.someMembers(ctx, db.Fields, most, func(ctx context.Context, q store.Query) ([]*firestorepb.Document, error) {
		q.At = at
		return db.Documents(ctx, q)
	})
	switch {
	case err != nil:
		return nil, err
	case len(members) > 0 && !opts.RemoveMembers:
		return nil, ErrHasMembers
	}
	docs, err := c.shardDocuments(ctx, at)
	if err != nil {
		return nil, err
	}
	ch := &command.Change{Bases: map[string]int64{}, Anew: true, Uneven: true}
	// or what the ledger keeps of earlier states later would be on top of 0
	if ch.Entered, err = enter(l, at, docs); err != nil {
		return nil, err
	}
	for _, field := range db.Fields {
		ch.Bases[field.Shard] = 0
	}
	for _, doc := range docs {
		if w := c.toZero(doc); w != nil {
			ch.Writes = append(ch.Writes, w)
		}
	}
	for _, m := range members {
		ch.Writes = append(ch.Writes, store.DeleteIf(m.GetName(), store.UpdatedAtTime(m.GetUpdateTime().AsTime())))
	}
	return ch, nil
}

// toZero is the write that takes off a shard what it held when it was read; nil where that is
// nothing. What is added in between stays, with the members that it is for.
func (c Counter) toZero(doc *firestorepb.Document) *firestorepb.Write {
	var transforms []*firestorepb.DocumentTransform_FieldTransform
	set := false
	for _, field := range c.client.db.Fields {
		value := doc.GetFields()[field.Shard]
		_, whole := value.GetValueType().(*firestorepb.Value_IntegerValue)
		switch count := value.GetIntegerValue(); {
		case value == nil, whole && count == 0:
		case !whole || count == math.MinInt64:
			set = true
		default:
			transforms = append(transforms, store.Increment(layout.FieldPath(field.Shard), -count))
		}
	}
	switch {
	case set: // and nothing may come in between
		return store.Update(doc.GetName(), store.UpdatedAtTime(doc.GetUpdateTime().AsTime()), c.client.db.NoCounts(), nil)
	case len(transforms) == 0:
		return nil
	}
	return store.Update(doc.GetName(), store.Exists(true), nil, nil, transforms...)
}

// removeMembers takes off the members there are but a few, page by page, each with the count of its
// field.
func (c Counter) removeMembers(ctx context.Context, progress func(removed int)) error {
	db := c.client.db
	return c.inSteps(ctx, progress, func(ctx context.Context, tx *store.Tx, _ int) (int, bool, error) {
		_, docs, _, err := c.existing(ctx, tx.Get, db.LedgerOf(c.id))
		if err != nil {
			return 0, false, err
		}
		members, err := c.someMembers(ctx, db.Fields, atOnce, tx.Documents)
		if err != nil || len(members) <= fewMembers {
			return 0, false, err
		}
		tx.Write(c.takeOff(members, db.Fields)...)
		c.uneven(tx, docs[1])
		return len(members), true, nil
	})
}

// Rebase sets the counter's total to what is given, and leaves its shards as they are: what the
// total holds beyond them is changed. Increments that are committed while it runs are in the total
// that is set, or come on top. A total that would take a base beyond an int64 comes as close as one
// allows. Errors are those of [Counter.Reset], and [store.ErrLedgerFull].
func (c Counter) Rebase(ctx context.Context, total int64) error {
	return c.call("rebase", func() error {
		if err := c.client.sums(); err != nil {
			return err
		}
		return c.rebase(ctx, map[string]int64{c.client.db.Fields[0].Name: total})
	})
}

// RebaseFields is [Counter.Rebase] for counted fields by their names, in one commit. Others stay as
// they are.
func (c Counter) RebaseFields(ctx context.Context, totals map[string]int64) error {
	return c.call("rebase", func() error { return c.rebase(ctx, totals) })
}

func (c Counter) rebase(ctx context.Context, totals map[string]int64) error {
	for name := range totals {
		if err := c.client.db.CheckField(name); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidField, err)
		}
	}
	return c.command(ctx, func(ctx context.Context, l *ledger.Ledger, at time.Time) (*command.Change, error) {
		ch := &command.Change{Bases: map[string]int64{}, Anew: true}
		docs, err := c.shardDocuments(ctx, at)
		if err != nil {
			return nil, err
		}
		if ch.Entered, err = enter(l, at, docs); err != nil {
			return nil, err
		}
		for name, total := range totals {
			field, _ := c.client.db.Field(name)
			ch.Bases[field.Shard] = l.BaseFor(field.Shard, total)
		}
		return ch, nil
	})
}

// enter enters in a ledger what all shards hold, as of the time when it was read: a base is what a
// total holds beyond that, whatever events have come.
func enter(l *ledger.Ledger, at time.Time, shards []*firestorepb.Document) (ledger.Diff, error) {
	diff := l.Correct(at, ledger.Snapshot{At: at, States: store.ShardStates(shards), Uneven: l.Uneven})
	l.Apply(diff)
	if l.Numbers() > ledger.MaxNumbers {
		return diff, fmt.Errorf("%w: the counter has %d shards", store.ErrLedgerFull, len(shards))
	}
	return diff, nil
}
