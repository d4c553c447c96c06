// Package extension takes over what Firebase's Distributed Counter extension (firestore-counter)
// has counted, and its successor, the function kit @firebase-function-kits/firestore-counter: into
// a counter of ours that is somewhere else, again and again until its clients have moved, or in
// place, on the very document that it has kept. What its clients go on to count, [Take] takes off
// their shards, as part of a roll-up.
//
// Either way an import may end anywhere and run again at any time: what was imported is in the
// counter's base, and each step is a command.
package extension

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Where Firebase's Distributed Counter extension, and its successor
// @firebase-function-kits/firestore-counter, keep what they have not yet added to a
// counter's document.
const (
	shardsID   = layout.ExtensionShards
	updatesID  = "_updates_" // of a partial sum, whose id begins with a tab: an array of maps
	updateID   = "_id_"      // of an update, which makes it another than all others
	updateData = "_data_"    // of an update: fields as in the counter's document
)

// Errors of this package; others are those of [book.Books.Edit].
var (
	// ErrInvalidSource says that there can be no counter to import from there.
	ErrInvalidSource = errors.New("invalid source of an import")
	// ErrRuns says that a field can't be counted in place yet, because the extension
	// still writes it.
	ErrRuns = errors.New("the extension still runs and would write the same field: uninstall it, and import again five minutes later, or once it would have run again")
	// ErrCounted says that the document has shards of ours already, so that what its field holds
	// isn't known to be the extension's.
	ErrCounted = errors.New("the document has shards, and has never been rolled up: reconcile it first")
)

// Source is a counter of the extension's.
type Source struct {
	Path  string // of its document, such as pages/hello
	Field string // that counts; dots lead into maps, as in stats.views
}

// key is what a base calls it.
func (s Source) key() string { return s.keyOf("firestore-counter") }

// copyKey is what the base calls it of the very document that it is in, where it was copied into another
// field. In place, it is what the field holds: whatever was imported by one of the two must not be by the
// other.
func (s Source) copyKey() string { return s.keyOf("firestore-counter, copied") }

func (s Source) keyOf(kind string) string {
	hash := sha256.New()
	for _, part := range []string{kind, s.Path, s.Field} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// Imported is what an import found and did.
type Imported struct {
	Value int64 `json:"value"` // of the counter that was imported; in place, the total from now on
	// by this import: what has come since the last one; in place, beyond what the document held
	Added int64 `json:"added"`
	// InPlace says that the field is a counted one of this very document, which is the app's own,
	// and goes on from there.
	InPlace bool `json:"in_place,omitempty"`
}

// last is what the field is called where it leads into maps.
func (s Source) last() string { return s.Field[strings.LastIndexByte(s.Field, '.')+1:] }

// importer imports into one counter.
type importer struct {
	db      *store.DB
	books   book.Books
	counter string
}

// Import adds what the extension's counter has counted since it was last imported into a counter
// of ours; the first time, that is all of it. It goes into the shown field of the same name, or
// else into the first. The extension's documents are left alone, and its clients may go on: import
// again once they have moved, and the counter is exact. A sum beyond an int64 stays at the largest
// or smallest one. Resetting or rebasing the counter in between doesn't bring back what was
// imported before.
//
// Where the counters' documents are the app's own, a shown field of the very document that the
// extension has kept is taken over in place: its number stays, and what waits in the extension's
// shards is moved to it. Clients of the extension may go on; what they have added since comes with
// the next import. The extension itself has to be uninstalled first.
//
// Errors: [ErrInvalidSource], [ErrRuns], [ErrCounted], [store.ErrNotInteger], and those
// of [book.Books.Edit].
func Import(ctx context.Context, db *store.DB, counter string, source Source) (Imported, error) {
	c := importer{db: db, books: book.In(db), counter: counter}
	err := c.checkSource(source)
	var done Imported
	switch {
	case err != nil:
	case c.inPlace(source):
		if err = Stopped(ctx, db); err == nil {
			done, err = c.takeOver(ctx, source)
			done.InPlace = true
		}
	default:
		// First, so that a typo changes nothing.
		if _, err = c.value(ctx, source); err == nil {
			done, err = c.copyFrom(ctx, source)
		}
	}
	if err != nil {
		return Imported{}, fmt.Errorf("import %s of %s into counter %q: %w", source.Field, source.Path, counter, err)
	}
	return done, nil
}

// hasImported reports whether a source was imported before.
func (c importer) hasImported(ctx context.Context, source Source) (bool, error) {
	docs, _, err := c.db.GetPaths(ctx, []string{layout.FieldPath(book.BaseSources, source.key())}, c.db.Layout.BaseOf(c.counter))
	if err != nil {
		return false, fmt.Errorf("read base: %w", err)
	}
	_, has := docs[0].GetFields()[book.BaseSources].GetMapValue().GetFields()[source.key()]
	return has, nil
}

// copyFrom adds what a counter of the extension's in another document, or field, has counted
// since the last time.
func (c importer) copyFrom(ctx context.Context, source Source) (Imported, error) {
	var done Imported
	into, key := c.db.Layout.Plain()[0], source.key()
	own := c.db.Layout.Document(source.Path) == c.db.Layout.Counter(c.counter)
	if own {
		key = source.copyKey()
	}
	if field, shown := c.db.Layout.Field(source.last()); shown {
		into = field
	}
	err := c.books.Edit(ctx, c.counter, func(ctx context.Context, e *book.Edit) (bool, error) {
		// After the base: whoever imports at the same time has read an older value, or
		// loses the condition.
		value, err := c.value(ctx, source)
		if err != nil {
			return false, err
		}
		if _, ours := e.Base.Sources[source.key()]; own && ours {
			return false, fmt.Errorf("%w: %s was taken over in place before, and holds what this counter has counted: show it in FIELDS by that name to import what has come since", ErrInvalidSource, source.Field)
		}
		before, again := e.Base.Sources[key]
		found := Imported{Value: value, Added: store.Sub(value, before)}
		if again && found.Added == 0 {
			done = found
			return false, nil
		}
		if store.Add(before, found.Added) != value {
			return false, fmt.Errorf("%w: it had %d when it was imported last, and has %d", book.ErrBeyond, before, value)
		}
		e.Applied = func() { done = found }
		return true, e.Take(key, value, into, found.Added)
	})
	return done, err
}

// Validate says why nothing can have that path or field, as [ErrInvalidSource].
func (s Source) Validate() error {
	ids := strings.Split(s.Path, "/")
	switch {
	case len(ids)%2 != 0 || slices.Contains(ids, ""):
		return fmt.Errorf("%w: %q is not the path of a document", ErrInvalidSource, s.Path)
	case s.Field == "" || strings.Contains("."+s.Field+".", ".."):
		return fmt.Errorf("%w: %q is not a field", ErrInvalidSource, s.Field)
	}
	return nil
}

func (c importer) checkSource(source Source) error {
	switch err := source.Validate(); {
	case err != nil:
		return err
	case len(c.db.Layout.Sharded) == 0:
		return fmt.Errorf("%w: %w", ErrInvalidSource, c.db.Layout.CheckSums())
	case len(c.db.Layout.Plain()) == 0, slices.ContainsFunc(c.db.Layout.Limited(), func(f layout.Field) bool { return f.Name == source.last() }):
		return fmt.Errorf("%w: what has a limit is not imported (FIELDS is %s)", ErrInvalidSource, c.db.Layout.Sharded)
	case slices.ContainsFunc(c.db.Layout.Counted, func(f layout.Field) bool { return f.Name == source.last() }):
		// Taken for a field that isn't shown here, it would be added to the first one.
		return fmt.Errorf("%w: %w", ErrInvalidSource, c.db.Layout.CheckField(source.last()))
	case c.db.Layout.Document(source.Path) != c.db.Layout.Counter(c.counter) || c.inPlace(source):
	case slices.Contains(c.db.Layout.Sharded.Names(), source.Field):
		return fmt.Errorf("%w: the extension and the roll-up would both write %s: import it into another counter, or in place with HOSTED=true", ErrInvalidSource, source.Field)
	}
	return nil
}

// value is a counter's value at one moment: what its document has, what clients have added since,
// and what the extension's workers have summed up in between. Transactions of the extension move
// counts from one to the other.
func (c importer) value(ctx context.Context, source Source) (int64, error) {
	name := c.db.Layout.Document(source.Path)
	docs, at, err := c.db.Get(ctx, name)
	if err != nil {
		return 0, err
	}
	shards, err := c.db.Documents(ctx, store.Query{Collection: name + "/" + shardsID, At: at})
	if err != nil {
		return 0, err
	}
	if docs[0] == nil && len(shards) == 0 {
		return 0, fmt.Errorf("%w: there is nothing at %s", ErrInvalidSource, source.Path)
	}
	sum := fieldSum{field: strings.Split(source.Field, ".")}
	sum.add(docs[0].GetFields())
	for _, shard := range shards {
		sum.addShard(shard)
	}
	if sum.err == nil && !sum.counted {
		return 0, fmt.Errorf("%w: nothing has counted %s at %s, where these are numbers: %s", ErrInvalidSource, source.Field, source.Path,
			cmp.Or(strings.Join(numbers(docs[0].GetFields(), ""), ", "), "none"))
	}
	return sum.total(), sum.err
}

// numbers are the fields that hold numbers, sorted, as [Source] has them.
func numbers(fields map[string]*firestorepb.Value, within string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch value := fields[name].GetValueType().(type) {
		case *firestorepb.Value_IntegerValue, *firestorepb.Value_DoubleValue:
			names = append(names, within+name)
		case *firestorepb.Value_MapValue:
			names = append(names, numbers(value.MapValue.GetFields(), within+name+".")...)
		}
	}
	return names
}

// fieldSum adds up one field of many documents.
type fieldSum struct {
	field   []string
	terms   []int64
	counted bool // something holds a number, if only 0
	err     error
}

func (s *fieldSum) total() int64 { return store.Add(s.terms...) }

// add adds the field of a document. As for the extension, what is missing or no number
// counts nothing.
func (s *fieldSum) add(fields map[string]*firestorepb.Value) {
	last := len(s.field) - 1
	for _, name := range s.field[:last] {
		fields = fields[name].GetMapValue().GetFields()
	}
	value := fields[s.field[last]]
	switch value.GetValueType().(type) {
	case *firestorepb.Value_IntegerValue, *firestorepb.Value_DoubleValue:
	default:
		return
	}
	s.counted = true
	n, ok := store.Integer(value)
	if !ok {
		s.err = fmt.Errorf("%w: %v", store.ErrNotInteger, value)
		return
	}
	s.terms = append(s.terms, n)
}
