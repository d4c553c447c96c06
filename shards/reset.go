package shards

import (
	"context"
	"fmt"
	"slices"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// change is what a command does to a counter.
type change struct {
	bases    ledger.Counts                 // :: field → what its total holds beyond the shards from now on
	ledger   map[string]*firestorepb.Value // other fields of the ledger to set
	totals   ledger.Counts                 // :: field → its total, to set
	increase ledger.Counts                 // :: field → what to add to its total
	shards   []*firestorepb.Write
}

// command carries out what decide makes of the ledger, in one commit on condition that the ledger is still the same. The
// commit puts an id of the call into the ledger, which tells after a lost answer whether it was applied: most commands
// must not be applied twice. decide may be called several times; nil is nothing to do. Errors are decide's, [ErrNotFound],
// [ErrNoLedger], [ErrBusy], [ErrUnknown] or the client library's.
func (c Counter) command(ctx context.Context, decide func(context.Context, *ledger.Ledger) (*change, error)) error {
	op := newID()
	defer c.client.known.forget(c.id)
	return c.client.carryOut(ctx, func(ctx context.Context) ([]*firestorepb.Write, bool, error) {
		counter, ledger, err := c.documents(ctx)
		switch {
		case err != nil:
			return nil, false, err
		case counter == nil || c.client.isDeleting(counter):
			return nil, false, ErrNotFound
		case ledger == nil:
			return nil, false, ErrNoLedger
		case slices.Contains(ledger.Ops, op):
			return nil, true, nil
		}
		ch, err := decide(ctx, ledger)
		if err != nil || ch == nil {
			return nil, false, err
		}
		return c.writes(ch, ledger, op), true, nil
	})
}

func (c Counter) writes(ch *change, l *ledger.Ledger, op string) []*firestorepb.Write {
	fields := map[string]*firestorepb.Value{ledger.FieldOps: l.OpsWith(op)}
	mask := []string{ledger.FieldOps}
	for name, value := range ch.ledger {
		fields[name] = value
		mask = append(mask, name)
	}
	for name, base := range ch.bases {
		ledger.Set(fields, name, ledger.FieldBase, store.Int(base))
		mask = append(mask, ledger.PathOf(name, ledger.FieldBase))
	}
	db := c.client.db
	totals, totalsMask := map[string]*firestorepb.Value{}, []string(nil)
	for name, total := range ch.totals {
		totals[name] = store.Int(total)
		totalsMask = append(totalsMask, store.FieldPath(name))
	}
	transforms := []*firestorepb.DocumentTransform_FieldTransform{store.ServerTime(db.OwnPath(store.UpdatedAt))}
	for name, by := range ch.increase {
		if by != 0 {
			transforms = append(transforms, store.Increment(store.FieldPath(name), by))
		}
	}
	writes := []*firestorepb.Write{
		store.Update(db.LedgerOf(c.id), store.UpdatedAtTime(l.Updated), fields, mask),
		store.Update(db.Counter(c.id), store.Exists(true), totals, totalsMask, transforms...),
	}
	return append(writes, ch.shards...)
}

// Reset sets the counter to zero: all its shards at once, and what it started from. Increments that are committed while
// it runs count before it or after it. The total follows with the next roll-up. Errors: [ErrNotFound], [ErrNoLedger],
// [ErrBusy], [ErrUnknown], or the client library's.
func (c Counter) Reset(ctx context.Context) error {
	err := c.command(ctx, func(ctx context.Context, l *ledger.Ledger) (*change, error) {
		shards, err := c.shards(ctx)
		if err != nil {
			return nil, err
		}
		db := c.client.db
		ch := &change{bases: ledger.Counts{}, increase: ledger.Counts{}}
		var mask []string
		for _, field := range db.Fields {
			mask = append(mask, store.FieldPath(field.Shard))
			if sum := l.Sums[field.Name]; sum != nil {
				ch.bases[field.Name], ch.increase[field.Name] = 0, ledger.Sub(0, sum.Base)
			}
		}
		for _, s := range shards {
			ch.shards = append(ch.shards, store.Update(c.shardName(s.id), store.Exists(true), db.NoCounts(), mask))
		}
		return ch, nil
	})
	if err != nil {
		return fmt.Errorf("reset counter %q: %w", c.id, err)
	}
	return nil
}

// Rebase sets the counter's total to what is given, and leaves its shards as they are: what the total holds beyond them
// is changed. Increments that were not rolled up before it come on top, so reconcile first where that matters. A total that
// would take a base beyond an int64 comes as close as one allows. Errors are those of [Counter.Reset].
func (c Counter) Rebase(ctx context.Context, total int64) error {
	err := c.command(ctx, func(_ context.Context, l *ledger.Ledger) (*change, error) {
		name := c.client.db.Fields[0].Name
		sum := l.Sums[name]
		if sum == nil {
			return nil, ErrNoLedger
		}
		of := ledger.Sum{Shards: sum.Shards}
		of.Base = ledger.Sub(total, of.Total())
		return &change{bases: ledger.Counts{name: of.Base}, totals: ledger.Counts{name: of.Total()}}, nil
	})
	if err != nil {
		return fmt.Errorf("rebase counter %q: %w", c.id, err)
	}
	return nil
}
