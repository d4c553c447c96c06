package shards

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

const (
	// extensionState is where the extension and its successor keep what their controller knows, unless they were told
	// another path. The controller writes it with every run, once a minute unless it was told otherwise.
	extensionState = "_firebase_ext_/sharded_counter"
	// extensionQuiet is how long nothing must have been written there for the extension to be taken for uninstalled.
	extensionQuiet = 5 * time.Minute
	// movedAtOnce is how many shards of the extension one commit takes counts from.
	movedAtOnce = 200
)

// takeOver makes the field that the extension has kept so far a counted field of the same document. What the document
// holds stays, as the sum's base; what waits in the extension's shards is moved to it, as the extension would have done:
// in commits that add to the one what they take off the others, so that whoever reads the document and a shard of its own
// beside it never sees a count twice. So it may end anywhere and run again at any time, and takes what has come since.
func (c Counter) takeOver(ctx context.Context, source ExtensionCounter) (Import, error) {
	waiting, err := c.waiting(ctx, source)
	if err != nil {
		return Import{}, err
	}
	if err := c.keepTotals(ctx); err != nil {
		return Import{}, err
	}
	var done Import
	for first := true; first || len(waiting) > 0; first = false {
		n := min(len(waiting), movedAtOnce)
		moved, err := c.moveToBase(ctx, source, waiting[:n])
		if err != nil {
			return Import{}, err
		}
		done.Value, done.Added = moved.Value, ledger.Add(done.Added, moved.Added)
		waiting = waiting[n:]
	}
	return done, nil
}

// waiting are the names of the extension's shards that hold something of a counter. It also makes sure that everything is
// as an import needs it, before anything is changed.
func (c Counter) waiting(ctx context.Context, source ExtensionCounter) ([]string, error) {
	db := c.client.db
	docs, now, err := db.Get(ctx, db.Counter(c.id), db.Document(extensionState))
	if err != nil {
		return nil, err
	}
	if docs[0] == nil {
		return nil, ErrNotFound
	}
	if state := docs[1]; state != nil && now.Sub(state.GetUpdateTime().AsTime()) < extensionQuiet {
		return nil, fmt.Errorf("%w: it wrote %s at %s", ErrExtensionRuns, extensionState, state.GetUpdateTime().AsTime().Format(time.RFC3339))
	}
	shards, err := db.Documents(ctx, store.Query{Collection: db.Counter(c.id) + "/" + extensionShards})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, shard := range shards {
		n, err := extensionAmount(shard, source)
		if err != nil {
			return nil, err
		}
		if n != 0 {
			names = append(names, shard.GetName())
		}
	}
	return names, nil
}

// keepTotals makes a ledger for a document that has never been counted, with the numbers in its counted fields as they are.
// Adoption by the roll-up would take them for what a trigger had got wrong, and set them to what the shards hold. Where there
// are shards of ours already, that is what has to happen all the same: [ErrNoLedger].
func (c Counter) keepTotals(ctx context.Context) error {
	db := c.client.db
	id := newID()
	return db.Transact(ctx, func(tx *store.Tx) error {
		docs, _, err := tx.Get(ctx, db.LedgerOf(c.id), db.Counter(c.id))
		switch {
		case err != nil:
			return err
		case docs[1] == nil:
			return ErrNotFound
		case docs[0] != nil:
			return nil // it is counted already, or this has run before and its answer was lost
		}
		shards, err := tx.Documents(ctx, store.Query{Collection: db.ShardsOf(c.id), Limit: 1})
		if err != nil {
			return err
		}
		if len(shards) > 0 {
			return ErrNoLedger
		}
		l := ledger.Ledger{ID: id, Sums: map[string]*ledger.Sum{}}
		totals, mask := map[string]*firestorepb.Value{}, []string(nil)
		for _, field := range db.Fields {
			name := field.Name
			kept := extensionSum{field: []string{name}}
			if kept.add(docs[1].GetFields()); kept.err != nil {
				return fmt.Errorf("field %s: %w", name, kept.err)
			}
			l.Sums[name] = &ledger.Sum{Base: kept.total, Field: field.Shard}
			totals[name] = store.Int(kept.total)
			mask = append(mask, layout.FieldPath(name))
		}
		mask = db.SetOwn(totals, mask, map[string]*firestorepb.Value{layout.LedgerID: store.String(id)})
		tx.Write(store.Create(db.LedgerOf(c.id), l.Fields()),
			store.Update(db.Counter(c.id), store.Exists(true), totals, mask, store.ServerTime(db.OwnPath(layout.UpdatedAt))))
		return nil
	})
}

// moveToBase moves what some of the extension's shards hold of a counter to its base, in one commit. The first time it
// also takes the number that adoption has replaced, where the document was adopted before it was imported.
func (c Counter) moveToBase(ctx context.Context, source ExtensionCounter, names []string) (Import, error) {
	var done Import
	name, key := source.Field, source.key()
	err := c.command(ctx, func(ctx context.Context, l *ledger.Ledger) (*change, error) {
		sum := l.Sums[name]
		if sum == nil {
			return nil, ErrNoLedger
		}
		found := Import{Value: sum.Total()}
		// After the ledger: whoever imports at the same time has moved them, or loses the condition.
		var docs []*firestorepb.Document
		if len(names) > 0 {
			var err error
			if docs, _, err = c.client.db.Get(ctx, names...); err != nil {
				return nil, err
			}
		}
		ch := &change{}
		for _, doc := range docs {
			n, err := extensionAmount(doc, source)
			if err != nil {
				return nil, err
			}
			if n != 0 {
				found.Added = ledger.Add(found.Added, n)
				ch.writes = append(ch.writes, takeOff(doc, name, n))
			}
		}
		before, again := l.Imported[key]
		if again && len(ch.writes) == 0 {
			done = found
			return nil, nil
		}
		if !again && sum.Replaced != nil {
			found.Added = ledger.Add(found.Added, *sum.Replaced)
		}
		after := sum.Over(ledger.Add(sum.Base, found.Added))
		found.Value = after.Total()
		ch.bases = ledger.Counts{name: after.Base}
		ch.ledger = importedWith(l, key, ledger.Add(before, found.Added))
		ch.applied = func() { done = found }
		return ch, nil
	})
	return done, err
}

// extensionAmount is what one of the extension's shards holds of a counter; nil holds nothing. An id that begins with a tab is
// that of a partial sum, to which workers append what they have added up and what they have moved on.
func extensionAmount(shard *firestorepb.Document, source ExtensionCounter) (int64, error) {
	sum := extensionSum{field: strings.Split(source.Field, ".")}
	if !isPartial(shard) {
		sum.add(shard.GetFields())
		return sum.total, sum.err
	}
	for _, update := range shard.GetFields()[extensionUpdates].GetArrayValue().GetValues() {
		sum.add(update.GetMapValue().GetFields()[extensionData].GetMapValue().GetFields())
	}
	return sum.total, sum.err
}

func isPartial(shard *firestorepb.Document) bool {
	return strings.HasPrefix(path.Base(shard.GetName()), "\t")
}

// takeOff is the write that takes n off one field of one of the extension's shards, and leaves all else of it alone. A client
// may be adding to it at this moment: what it adds stays there.
func takeOff(shard *firestorepb.Document, field string, n int64) *firestorepb.Write {
	less := store.Increment(layout.FieldPath(field), ledger.Sub(0, n))
	if isPartial(shard) {
		less = &firestorepb.DocumentTransform_FieldTransform{FieldPath: extensionUpdates, TransformType: &firestorepb.DocumentTransform_FieldTransform_AppendMissingElements{
			AppendMissingElements: store.Array(store.Map(map[string]*firestorepb.Value{
				extensionID:   store.String(newID()),
				extensionData: store.Map(map[string]*firestorepb.Value{field: store.Int(ledger.Sub(0, n))}),
			})).GetArrayValue(),
		}}
	}
	return store.Update(shard.GetName(), store.Exists(true), nil, nil, less)
}

// importedWith is the ledger's field of what was imported, with what base holds of one source from now on.
func importedWith(l *ledger.Ledger, key string, value int64) map[string]*firestorepb.Value {
	imported := map[string]*firestorepb.Value{key: store.Int(value)}
	for other, value := range l.Imported {
		if other != key {
			imported[other] = store.Int(value)
		}
	}
	return map[string]*firestorepb.Value{ledger.FieldImported: store.Map(imported)}
}

// inPlace reports whether a counter is taken over in place.
func (c Counter) inPlace(source ExtensionCounter) bool {
	db := c.client.db
	return db.Hosted && db.Document(source.Path) == db.Counter(c.id) && slices.Contains(db.FieldNames(), source.Field)
}
