package shards

import (
	"context"
	"fmt"
	"slices"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// change is what a command does to a counter, besides what it does to shards.
type change struct {
	ledger map[string]*firestorepb.Value // fields of the ledger to set
	total  *firestorepb.Value            // to set; nil to leave
	add    int64                         // to add to the total
	shards []*firestorepb.Write
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
		case counter == nil || isDeleting(counter):
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
	counter := store.Update(c.client.db.Counter(c.id), store.Exists(true), nil, nil, store.ServerTime(store.UpdatedAt))
	switch {
	case ch.total != nil:
		counter.GetUpdate().Fields = map[string]*firestorepb.Value{store.Total: ch.total}
		counter.GetUpdateMask().FieldPaths = []string{store.Total}
	case ch.add != 0:
		counter.UpdateTransforms = append(counter.UpdateTransforms, store.Increment(store.Total, ch.add))
	}
	writes := []*firestorepb.Write{
		store.Update(c.client.db.LedgerOf(c.id), store.UpdatedAtTime(l.Updated), fields, mask),
		counter,
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
		ch := &change{ledger: map[string]*firestorepb.Value{ledger.FieldBase: store.Int(0)}, add: subtract(0, l.Base)}
		field := c.client.db.CountField
		for _, s := range shards {
			ch.shards = append(ch.shards, store.Update(c.shardName(s.id), store.Exists(true),
				map[string]*firestorepb.Value{field: store.Int(0)}, []string{store.FieldPath(field)}))
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
		of := *l
		of.Base = 0
		of.Base = subtract(total, of.Sum())
		return &change{
			ledger: map[string]*firestorepb.Value{ledger.FieldBase: store.Int(of.Base)},
			total:  store.Int(of.Sum()),
		}, nil
	})
	if err != nil {
		return fmt.Errorf("rebase counter %q: %w", c.id, err)
	}
	return nil
}
