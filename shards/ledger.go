package shards

import (
	"context"
	"fmt"
	"slices"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/schema"
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
func (c Counter) command(ctx context.Context, decide func(context.Context, *schema.LedgerDoc) (*change, error)) error {
	op := newID()
	defer c.client.known.forget(c.id)
	return c.client.carryOut(ctx, func(ctx context.Context) ([]*firestorepb.Write, bool, error) {
		counter, ledger, err := c.documents(ctx)
		switch {
		case err != nil:
			return nil, false, err
		case counter == nil || counter.GetFields()[schema.Deleting].GetBooleanValue():
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

func (c Counter) writes(ch *change, ledger *schema.LedgerDoc, op string) []*firestorepb.Write {
	fields := map[string]*firestorepb.Value{schema.LedgerOps: ledger.OpsWith(op)}
	mask := []string{schema.LedgerOps}
	for name, value := range ch.ledger {
		fields[name] = value
		mask = append(mask, name)
	}
	counter := schema.Update(c.client.layout.Counter(c.id), schema.Exists(true), nil, nil, schema.ServerTime(schema.UpdatedAt))
	switch {
	case ch.total != nil:
		counter.GetUpdate().Fields = map[string]*firestorepb.Value{schema.Total: ch.total}
		counter.GetUpdateMask().FieldPaths = []string{schema.Total}
	case ch.add != 0:
		counter.UpdateTransforms = append(counter.UpdateTransforms, schema.Increment(schema.Total, ch.add))
	}
	writes := []*firestorepb.Write{
		schema.Update(c.client.layout.LedgerOf(c.id), schema.UpdatedAtTime(ledger.Updated), fields, mask),
		counter,
	}
	return append(writes, ch.shards...)
}

// Reset sets the counter to zero: all its shards at once, and what it started from. Increments that are committed while
// it runs count before it or after it. The total follows with the next roll-up. Errors: [ErrNotFound], [ErrNoLedger],
// [ErrBusy], [ErrUnknown], or the client library's.
func (c Counter) Reset(ctx context.Context) error {
	err := c.command(ctx, func(ctx context.Context, l *schema.LedgerDoc) (*change, error) {
		shards, err := c.shards(ctx)
		if err != nil {
			return nil, err
		}
		ch := &change{ledger: map[string]*firestorepb.Value{schema.LedgerBase: schema.Int(0)}, add: -l.Base}
		field := c.client.layout.CountField
		for _, s := range shards {
			ch.shards = append(ch.shards, schema.Update(c.shardName(s.id), schema.Exists(true),
				map[string]*firestorepb.Value{field: schema.Int(0)}, []string{schema.FieldPath(field)}))
		}
		return ch, nil
	})
	if err != nil {
		return fmt.Errorf("reset counter %q: %w", c.id, err)
	}
	return nil
}

// Rebase sets the counter's total to what is given, and leaves its shards as they are: what the total holds beyond them
// is changed. Increments that were not rolled up before it come on top, so reconcile first where that matters. Errors are
// those of [Counter.Reset].
func (c Counter) Rebase(ctx context.Context, total int64) error {
	err := c.command(ctx, func(_ context.Context, l *schema.LedgerDoc) (*change, error) {
		base := total - (l.Sum() - l.Base)
		return &change{
			ledger: map[string]*firestorepb.Value{schema.LedgerBase: schema.Int(base)},
			total:  schema.Int(total),
		}, nil
	})
	if err != nil {
		return fmt.Errorf("rebase counter %q: %w", c.id, err)
	}
	return nil
}
