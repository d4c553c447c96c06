package extension

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

const (
	// stateDocument is where the extension and its successor keep what their controller knows,
	// unless they were told another path. The controller writes it with every run, once a minute
	// unless it was told otherwise.
	stateDocument = "_firebase_ext_/sharded_counter"
	// quiet is how long nothing must have been written there for the extension to be taken
	// for uninstalled.
	quiet = 5 * time.Minute
	// movedAtOnce is how many shards of the extension one commit takes counts from.
	movedAtOnce = 200
)

// pause is how long an import waits for a ledger to have room again.
var pause = time.Minute

// takeOver makes the field that the extension has kept so far a counted field of the same document.
// What the document holds stays, as the sum's base; what waits in the extension's shards is moved
// to it, as the extension would have done: in commits that add to the one what they take off the
// others, so that whoever reads the document and a shard of its own beside it never sees a count
// twice. So it may end anywhere and run again at any time, and takes what has come since.
func (c importer) takeOver(ctx context.Context, source Source) (Imported, error) {
	waiting, err := c.waiting(ctx, source)
	if err != nil {
		return Imported{}, err
	}
	if err := c.keepTotals(ctx); err != nil {
		return Imported{}, err
	}
	told := c.options.Large == nil
	tell := func(about time.Duration) {
		if about > 0 && !told {
			told = true
			c.options.Large(len(waiting), about)
		}
	}
	tell(takes(len(waiting)))
	var done Imported
	for first := true; first || len(waiting) > 0; first = false {
		n := min(len(waiting), movedAtOnce)
		moved, err := c.moveToBase(ctx, source, waiting[:n])
		for errors.Is(err, book.ErrMany) { // earlier imports have left no room for another one
			tell(ledger.InDoubt + takes(len(waiting)))
			if err := gax.Sleep(ctx, pause); err != nil {
				return Imported{}, err
			}
			moved, err = c.moveToBase(ctx, source, waiting[:n])
		}
		if err != nil {
			return Imported{}, err
		}
		done.Value, done.Added = moved.Value, ledger.Add(done.Added, moved.Added)
		waiting = waiting[n:]
	}
	return done, nil
}

// takes is about how long the move of so many shards waits for a ledger to have room for more
// commands: each commit is one, and a ledger forgets them after a while.
func takes(shards int) time.Duration {
	commits := (shards + movedAtOnce - 1) / movedAtOnce
	return time.Duration(max(0, commits-1)/ledger.MaxOps) * ledger.InDoubt
}

// stopped reports, as [ErrRuns], that the extension still runs, or may: that it has been quiet for no longer than it was
// between its last two runs. Firestore knows of these for an hour.
func stopped(ctx context.Context, db *store.DB) error {
	name := db.Layout.Document(stateDocument)
	docs, now, err := db.Get(ctx, name)
	if err != nil {
		return err
	}
	state := docs[0]
	if err := runs(state, now); err != nil || state == nil {
		return err
	}
	last := state.GetUpdateTime().AsTime()
	if now.Sub(last) > remembered {
		return nil
	}
	earlier, err := db.Documents(ctx, store.Query{Collection: path.Dir(name), At: last.Add(-time.Microsecond)})
	if err != nil {
		return fmt.Errorf("read what the extension wrote before: %w", err)
	}
	for _, doc := range earlier {
		if doc.GetName() != name {
			continue
		}
		between := last.Sub(doc.GetUpdateTime().AsTime())
		if due := last.Add(between + time.Minute); now.Before(due) { // a run may be late
			return fmt.Errorf("%w: it wrote %s at %s, and %v before that; by %s it would have written again", ErrRuns, stateDocument,
				last.Format(time.RFC3339), between.Round(time.Second), due.Format(time.RFC3339))
		}
	}
	return nil
}

// remembered is for how long Firestore can be asked what was there, with a minute to ask.
const remembered = 59 * time.Minute

// runs reports, as [ErrRuns], that what the extension's controller knows was written just now.
func runs(state *firestorepb.Document, now time.Time) error {
	if state == nil || now.Sub(state.GetUpdateTime().AsTime()) >= quiet {
		return nil
	}
	return fmt.Errorf("%w: it wrote %s at %s", ErrRuns, stateDocument, state.GetUpdateTime().AsTime().Format(time.RFC3339))
}

// waiting are the names of the extension's shards that hold something of a counter. It also makes
// sure that everything is as an import needs it, before anything is changed.
func (c importer) waiting(ctx context.Context, source Source) ([]string, error) {
	db := c.db
	docs, now, err := db.Get(ctx, db.Layout.Counter(c.counter), db.Layout.Document(stateDocument))
	if err != nil {
		return nil, err
	}
	if docs[0] == nil {
		return nil, book.ErrNotFound
	}
	if err := runs(docs[1], now); err != nil {
		return nil, err
	}
	shards, err := db.Documents(ctx, store.Query{Collection: db.Layout.Counter(c.counter) + "/" + shardsID})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, shard := range shards {
		n, err := amount(shard, source)
		if err != nil {
			return nil, err
		}
		if n != 0 {
			names = append(names, shard.GetName())
		}
	}
	return names, nil
}

// keepTotals makes a ledger for a document that has never been counted, with the numbers in its
// counted fields as they are. Adoption by the roll-up would take them for what a trigger had got
// wrong, and set them to what the shards hold. Where there are shards of ours already, that is what
// has to happen all the same: [ErrCounted].
func (c importer) keepTotals(ctx context.Context) error {
	return c.books.Keep(ctx, c.counter, func(ctx context.Context, tx *store.Tx, doc map[string]*firestorepb.Value) (map[string]int64, error) {
		shards, err := tx.Documents(ctx, store.Query{Collection: c.db.Layout.ShardsOf(c.counter), Limit: 1, Names: true})
		if err != nil {
			return nil, err
		}
		if len(shards) > 0 {
			return nil, ErrCounted
		}
		totals := map[string]int64{}
		for _, field := range c.db.Layout.Fields {
			kept := fieldSum{field: []string{field.Name}}
			if kept.add(doc); kept.err != nil {
				return nil, fmt.Errorf("field %s: %w", field.Name, kept.err)
			}
			totals[field.Shard] = kept.total()
		}
		return totals, nil
	})
}

// moveToBase moves what some of the extension's shards hold of a counter to its base, in one
// commit. The first time it also takes the number that adoption has replaced, where the document
// was adopted before it was imported.
func (c importer) moveToBase(ctx context.Context, source Source, names []string) (Imported, error) {
	var done Imported
	field, _ := c.db.Layout.Field(source.Field)
	key := source.key()
	err := c.books.Command(ctx, c.counter, func(ctx context.Context, k *book.Book) (bool, error) {
		if _, copied := k.Ledger.Imported[source.copyKey()]; copied {
			return false, fmt.Errorf("%w: %s was imported into another field of this counter before: import it there again", ErrInvalidSource, source.Field)
		}
		total, _ := k.Ledger.Total(field)
		found := Imported{Value: total}
		// After the ledger: whoever imports at the same time has moved them, or
		// loses the condition.
		var docs []*firestorepb.Document
		if len(names) > 0 {
			var err error
			if docs, _, err = c.db.Get(ctx, names...); err != nil {
				return false, err
			}
		}
		var amounts []int64
		for _, doc := range docs {
			n, err := amount(doc, source)
			if err != nil {
				return false, err
			}
			if n = max(n, -math.MaxInt64); n != 0 { // the most that an increment takes off: the rest is the next import's
				amounts = append(amounts, n)
				k.Beside(takeOff(doc, field.Name, n))
			}
		}
		before, again := k.Ledger.Imported[key]
		if again && len(amounts) == 0 {
			done = found
			return false, nil
		}
		if !again {
			amounts = append(amounts, k.Ledger.Replaced[field.Name])
		}
		added := ledger.Parts(amounts...) // as one sum: shard by shard it would depend on their order near the ends of int64
		if found.Added = added[0]; len(added) > 1 {
			return false, fmt.Errorf("%w: %d shards of the extension's hold more together", book.ErrBeyond, len(docs))
		}
		err := k.Import(key, ledger.Add(before, found.Added), field, found.Added)
		found.Value, _ = k.Ledger.Total(field)
		k.Applied = func() { done = found }
		return true, err
	})
	return done, err
}

// amount is what one of the extension's shards holds of a counter; nil holds nothing.
func amount(shard *firestorepb.Document, source Source) (int64, error) {
	sum := fieldSum{field: strings.Split(source.Field, ".")}
	sum.addShard(shard)
	return sum.total(), sum.err
}

// addShard adds the field of one of the extension's shards. An id that begins with a tab is that of
// a partial sum, to which workers append what they have added up and what they have moved on.
func (s *fieldSum) addShard(shard *firestorepb.Document) {
	if !isPartial(shard) {
		s.add(shard.GetFields())
		return
	}
	for _, update := range shard.GetFields()[updatesID].GetArrayValue().GetValues() {
		s.add(update.GetMapValue().GetFields()[updateData].GetMapValue().GetFields())
	}
}

func isPartial(shard *firestorepb.Document) bool {
	return strings.HasPrefix(path.Base(shard.GetName()), "\t")
}

// takeOff is the write that takes n off one field of one of the extension's shards, and leaves all
// else of it alone. A client may be adding to it at this moment: what it adds stays there.
func takeOff(shard *firestorepb.Document, field string, n int64) *firestorepb.Write {
	less := store.Increment(layout.FieldPath(field), ledger.Sub(0, n))
	if isPartial(shard) {
		less = &firestorepb.DocumentTransform_FieldTransform{FieldPath: updatesID, TransformType: &firestorepb.DocumentTransform_FieldTransform_AppendMissingElements{
			AppendMissingElements: store.Array(store.Map(map[string]*firestorepb.Value{
				updateID:   store.String(rand.Text()),
				updateData: store.Map(map[string]*firestorepb.Value{field: store.Int(ledger.Sub(0, n))}),
			})).GetArrayValue(),
		}}
	}
	return store.Update(shard.GetName(), store.Exists(true), nil, nil, less)
}

// inPlace reports whether a counter is taken over in place.
func (c importer) inPlace(source Source) bool {
	db := c.db
	return db.Layout.Hosted && db.Layout.Document(source.Path) == db.Layout.Counter(c.counter) && slices.Contains(db.Layout.Fields.Names(), source.Field)
}
