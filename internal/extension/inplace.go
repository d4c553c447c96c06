package extension

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
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
	var done Imported
	for first := true; first || len(waiting) > 0; first = false {
		n := min(len(waiting), movedAtOnce)
		moved, err := c.moveToBase(ctx, source, waiting[:n])
		if err != nil {
			return Imported{}, err
		}
		done.Value, done.Added = moved.Value, store.Add(done.Added, moved.Added)
		waiting = waiting[n:]
	}
	return done, nil
}

// Stopped reports, as [ErrRuns], that the extension still runs, or may: that it has been quiet for no longer than it
// was between its last two runs. Firestore knows of these for an hour.
func Stopped(ctx context.Context, db *store.DB) error {
	name := db.Layout.Document(stateDocument)
	docs, now, err := db.Get(ctx, name)
	if err != nil {
		return err
	}
	state := docs[0]
	last := state.GetUpdateTime().AsTime()
	switch quietFor := now.Sub(last); {
	case state == nil || quietFor > remembered:
		return nil
	case quietFor < quiet:
		return fmt.Errorf("%w: it wrote %s at %s", ErrRuns, stateDocument, last.Format(time.RFC3339))
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

// waiting are the names of the extension's shards that hold something of a counter. It also makes
// sure that everything is as an import needs it, before anything is changed.
func (c importer) waiting(ctx context.Context, source Source) ([]string, error) {
	db := c.db
	docs, _, err := db.Get(ctx, db.Layout.Counter(c.counter))
	if err != nil {
		return nil, err
	}
	if docs[0] == nil {
		return nil, book.ErrNotFound
	}
	if err := c.keeps(source, docs[0]); err != nil {
		return nil, err
	}
	shards, err := db.Documents(ctx, store.Query{Collection: db.Layout.ExtensionShardsOf(c.counter)})
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

// keeps is an error if the field holds something else than a number in its document: no total replaces that, so nothing
// would show what is imported.
func (c importer) keeps(source Source, doc *firestorepb.Document) error {
	fields, problems := book.Blocked(c.db.Layout, doc)
	if i := slices.Index(fields, source.Field); i >= 0 {
		return fmt.Errorf("%w: %s", ErrInvalidSource, problems[i])
	}
	return nil
}

// keepTotals makes a base for a document that has never been counted, of the numbers in its counted fields: they go on
// from there. The roll-up would take them for what a trigger had got wrong, and set them to what the shards hold. Where
// there are shards of ours already, that is what has to happen all the same: [ErrCounted].
func (c importer) keepTotals(ctx context.Context) error {
	return c.books.Edit(ctx, c.counter, func(ctx context.Context, e *book.Edit) (bool, error) {
		if e.HasBase() {
			return false, nil
		}
		shards, err := c.db.Documents(ctx, store.Query{Collection: c.db.Layout.ShardsOf(c.counter), Limit: 1, Names: true, At: e.At})
		if err != nil {
			return false, err
		}
		if len(shards) > 0 {
			return false, ErrCounted
		}
		for _, field := range c.db.Layout.Plain() {
			kept := fieldSum{field: []string{field.Name}}
			if kept.add(e.Doc.GetFields()); kept.err != nil {
				return false, fmt.Errorf("field %s: %w", field.Name, kept.err)
			}
			e.SetBase(field, kept.total())
		}
		return true, nil
	})
}

// moveToBase moves what some of the extension's shards hold of a counter to its base, in one
// commit. The first time it also takes the number that the total has replaced, or is about to.
func (c importer) moveToBase(ctx context.Context, source Source, names []string) (Imported, error) {
	var done Imported
	field, _ := c.db.Layout.Field(source.Field)
	key := source.key()
	err := c.books.Edit(ctx, c.counter, func(ctx context.Context, e *book.Edit) (bool, error) {
		if _, copied := e.Base.Sources[source.copyKey()]; copied {
			return false, fmt.Errorf("%w: %s was imported into another field of this counter before: import it there again", ErrInvalidSource, source.Field)
		}
		sum, err := e.Sum(ctx, field)
		if err != nil {
			return false, err
		}
		found := Imported{Value: store.Add(e.Base.Counts[field.Shard], sum)}
		// After the base: whoever imports at the same time has moved them, or
		// loses the condition.
		var docs []*firestorepb.Document
		if len(names) > 0 {
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
				e.Beside(takeOff(doc, map[string]int64{field.Name: n}))
			}
		}
		before, again := e.Base.Sources[key]
		if again && len(amounts) == 0 {
			done = found
			return false, nil
		}
		if !again {
			amounts = append(amounts, e.TakeReplaced(field))
		}
		added := store.Parts(amounts...) // as one sum: shard by shard it would depend on their order near the ends of int64
		if found.Added = added[0]; len(added) > 1 {
			return false, fmt.Errorf("%w: %d shards of the extension's hold more together", book.ErrBeyond, len(docs))
		}
		err = e.Take(key, store.Add(before, found.Added), field, found.Added)
		found.Value = store.Add(e.Base.Counts[field.Shard], sum)
		e.Applied = func() { done = found }
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

// addShard adds the field of one of the extension's shards.
func (s *fieldSum) addShard(shard *firestorepb.Document) {
	for _, fields := range parts(shard) {
		s.add(fields)
	}
}

// isPartial reports whether one of the extension's shards, whose id begins with a tab, is a partial sum: workers append
// to it what they have added up and what they have moved on.
func isPartial(shard *firestorepb.Document) bool {
	return strings.HasPrefix(path.Base(shard.GetName()), "\t")
}

// takeOff is the write that takes counts off fields of one of the extension's shards, and leaves all
// else of it alone. A client may be adding to it at this moment: what it adds stays there. A partial sum, to which no
// client adds, is deleted if nothing else is in it.
func takeOff(shard *firestorepb.Document, counts map[string]int64) *firestorepb.Write {
	var less []*firestorepb.DocumentTransform_FieldTransform
	rest := map[string]*firestorepb.Value{}
	for _, field := range slices.Sorted(maps.Keys(counts)) {
		less = append(less, store.Increment(layout.FieldPath(field), store.Sub(0, counts[field])))
		rest[field] = store.Int(store.Sub(0, counts[field]))
	}
	if isPartial(shard) {
		update := store.Map(map[string]*firestorepb.Value{updateID: store.String(rand.Text()), updateData: store.Map(rest)})
		after := proto.CloneOf(shard)
		if updates := after.GetFields()[updatesID].GetArrayValue(); updates != nil {
			updates.Values = append(updates.Values, update)
		}
		if empty(after) {
			return store.DeleteIf(shard.GetName(), store.IfVersion(shard.GetUpdateTime().AsTime()))
		}
		less = []*firestorepb.DocumentTransform_FieldTransform{{FieldPath: updatesID, TransformType: &firestorepb.DocumentTransform_FieldTransform_AppendMissingElements{
			AppendMissingElements: store.Array(update).GetArrayValue(),
		}}}
	}
	return store.Update(shard.GetName(), store.Exists(true), nil, nil, less...)
}

// inPlace reports whether a counter is taken over in place.
func (c importer) inPlace(source Source) bool {
	db := c.db
	return db.Layout.Hosted && db.Layout.Document(source.Path) == db.Layout.Counter(c.counter) && slices.Contains(db.Layout.Sharded.Names(), source.Field)
}
