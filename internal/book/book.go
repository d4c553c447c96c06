package book

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// ErrNotFound says that there is no such counter, or that it is being deleted.
var ErrNotFound = errors.New("counter not found")

// ErrBeyond says that what is to be counted doesn't fit into an integer of Firestore's beside what was.
var ErrBeyond = errors.New("integers end at ±2⁶³")

// Books are those of a deployment's counters.
type Books struct{ db *store.DB }

// Of are the books in a database.
func Of(db *store.DB) Books { return Books{db} }

// Book is a counter's document and its base, as they were at one time.
type Book struct {
	Counter  string
	Doc      *firestorepb.Document // nil where it is missing; only our own fields of it, where [Books.Read] read it
	Base     Base                  // as it is to be; empty where there is none, or none that can be used
	Unusable error                 // why the base can't be used: an [ErrDamaged], and if there is none, an [ErrOthers]
	At       time.Time             // when both were read, or written by this process

	books       Books
	wasBase     Base      // as it was read
	baseVersion time.Time // zero where there is none
	baseMade    time.Time // zero where there is none, or this process has made it
}

// Reader reads documents: a [store.DB], or a transaction's [store.Tx].
type Reader interface {
	Get(ctx context.Context, names ...string) ([]*firestorepb.Document, time.Time, error)
	Documents(ctx context.Context, q store.Query) ([]*firestorepb.Document, error)
}

// Shards are the documents of a counter's shards.
type Shards []*firestorepb.Document

// Add is the sum of a field of the shards, as Firestore's sum() is: what is no number counts nothing, and it is a
// double if one is, or if it is beyond the int64s.
func (s Shards) Add(field layout.Field) *firestorepb.Value {
	var whole []int64
	rest, double := 0.0, false
	for _, doc := range s {
		switch v := doc.GetFields()[field.Shard].GetValueType().(type) {
		case *firestorepb.Value_IntegerValue:
			whole = append(whole, v.IntegerValue)
		case *firestorepb.Value_DoubleValue:
			rest, double = rest+v.DoubleValue, true
		}
	}
	if len(whole) == 0 && !double {
		return store.Int(field.OfNone())
	}
	parts := store.Parts(whole...)
	if !double && len(parts) == 1 {
		return store.Int(parts[0])
	}
	for _, n := range parts {
		rest += float64(n)
	}
	return store.Double(rest)
}

// Of are the shards in which the field is counted.
func (s Shards) Of(field layout.Field) Shards {
	return slices.DeleteFunc(slices.Clone(s), func(doc *firestorepb.Document) bool { return !field.CountedIn(store.IDOf(doc.GetName())) })
}

// Read reads a counter's document, without the app's own fields in it if these don't matter, and its base, both as of
// one time.
func (books Books) Read(ctx context.Context, counter string) (*Book, error) {
	names := books.db.Layout
	paths := []string{layout.Rollup, layout.NumShards, layout.NumShardsLegacy, layout.CreatedAt, layout.UpdatedAt,
		baseFormat, baseShards, baseHosted, baseCounters, BaseCounts, BaseReplaced, BaseSources, baseSwept, baseGone, baseEnding}
	for _, field := range names.Shown() {
		paths = append(paths, layout.FieldPath(field.Name))
	}
	slices.Sort(paths)
	paths = slices.Compact(paths) // a field may have the name of one of a base's
	docs, at, err := books.db.GetPaths(ctx, paths, names.Counter(counter), names.BaseOf(counter))
	if err == nil && unclear(names, docs[1], docs[0]) {
		docs, at, err = books.db.Get(ctx, names.Counter(counter), names.BaseOf(counter))
	}
	if err != nil {
		return nil, fmt.Errorf("read counter: %w", err)
	}
	return books.open(counter, docs[0], docs[1], at), nil
}

// Reads is how many reads a book takes: its document, and its base.
const Reads = 2

// ShownSize is about how many bytes a write of a counter's document has that shows so many fields. The id is in it twice.
func ShownSize(counter string, fields int) int { return 384 + 2*len(counter) + 72*fields }

// Get reads the books of several counters, and other documents after them, all as of one time.
func (books Books) Get(ctx context.Context, from Reader, counters []string, others ...string) (list []*Book, docs Shards, err error) {
	names := make([]string, 0, Reads*len(counters)+len(others))
	for _, counter := range counters {
		names = append(names, books.db.Layout.Counter(counter), books.db.Layout.BaseOf(counter))
	}
	all, at, err := from.Get(ctx, append(names, others...)...)
	if err != nil {
		return nil, nil, err
	}
	for i, counter := range counters {
		list = append(list, books.open(counter, all[2*i], all[2*i+1], at))
	}
	return list, all[2*len(counters):], nil
}

// CheckSettings compares settings with what counters' documents say. Where that isn't enough, it reads the base, too: a
// document with our map says whose it is, and one of the app's own without has other fields. It returns a
// [SettingError] or nil for each document; nil for a missing one.
func (books Books) CheckSettings(ctx context.Context, counters []string, docs Shards) ([]error, error) {
	names := books.db.Layout
	var unclear []int
	var paths []string
	for i, doc := range docs {
		hosted, known := whose(names, nil, doc)
		if doc != nil && (names.Path.Whole() || known && hosted != names.Hosted || !known && names.Hosted) {
			unclear, paths = append(unclear, i), append(paths, names.BaseOf(counters[i]))
		}
	}
	others := make([]error, len(docs))
	if len(unclear) == 0 {
		return others, nil
	}
	bases, _, err := books.db.GetPaths(ctx, []string{baseHosted, baseCounters}, paths...)
	if err != nil {
		return nil, fmt.Errorf("read bases: %w", err)
	}
	for i, base := range bases {
		others[unclear[i]] = checkSettings(names, base, docs[unclear[i]])
	}
	return others, nil
}

// Shards reads all shards of a counter, whatever its document says of their number: as they were at a
// time, or now where that is zero or in a transaction.
func (books Books) Shards(ctx context.Context, from Reader, counter string, at time.Time) (Shards, error) {
	docs, err := from.Documents(ctx, store.Query{Collection: books.db.Layout.ShardsOf(counter), At: at})
	if err != nil {
		return nil, fmt.Errorf("read shards: %w", err)
	}
	return docs, nil
}

// open is a counter's book, of documents that were read at a time, either of which may be nil.
func (books Books) open(counter string, doc, base *firestorepb.Document, at time.Time) *Book {
	b := &Book{Counter: counter, Doc: doc, At: at, books: books}
	if base != nil {
		b.baseVersion, b.baseMade = base.GetUpdateTime().AsTime(), base.GetCreateTime().AsTime()
		b.Base, b.Unusable = decodeBase(books.db.Layout.Shards, base)
	}
	if err := checkSettings(books.db.Layout, base, doc); err != nil {
		b.Base, b.Unusable = Base{}, err
	}
	b.wasBase = b.Base
	return b
}

// copy is a copy of the book, whose base and document may be changed.
func (b *Book) copy() *Book {
	after := *b
	after.Base.Counts, after.Base.Replaced, after.Base.Sources = maps.Clone(b.Base.Counts), maps.Clone(b.Base.Replaced), maps.Clone(b.Base.Sources)
	if b.Doc != nil {
		after.Doc = &firestorepb.Document{Name: b.Doc.GetName(), Fields: maps.Clone(b.Doc.GetFields()), CreateTime: b.Doc.GetCreateTime(), UpdateTime: b.Doc.GetUpdateTime()}
	}
	return &after
}

func (b *Book) names() layout.Layout { return b.books.db.Layout }

// HasBase reports whether there is a base, even one that can't be used.
func (b *Book) HasBase() bool { return !b.baseVersion.IsZero() }

// BaseVersion is the version of the base; zero if it is missing.
func (b *Book) BaseVersion() time.Time { return b.baseVersion }

// Version is the version of the counter's document; zero if it is missing.
func (b *Book) Version() time.Time {
	if b.Doc == nil {
		return time.Time{}
	}
	return b.Doc.GetUpdateTime().AsTime()
}

// Deleting reports whether the counter is being deleted, whether or not its document is there: see [Book.End].
func (b *Book) Deleting() bool { return !b.Base.Ending.IsZero() }

// CheckSettings is a [SettingError] if the counter is counted with other settings: nothing of it may be
// changed then.
func (b *Book) CheckSettings() error {
	if errors.Is(b.Unusable, ErrOthers) {
		return b.Unusable
	}
	return nil
}

// AppField is a field of our document that the app has added; "" if there is none.
func (b *Book) AppField() string { return appField(b.names(), b.Doc, true) }

// Made reports whether this project has made the counter's document and its base, and nobody has added a field of his
// own to the document.
func (b *Book) Made() bool {
	made := b.Doc.GetFields()[layout.CreatedAt].GetTimestampValue() != nil
	return made && b.HasBase() && b.Unusable == nil && !b.Deleting() && !b.names().Hosted && b.AppField() == ""
}

// baseChanged reports whether the base is to be another.
func (b *Book) baseChanged() bool {
	set, removed := b.wasBase.changes(b.Base)
	return len(set)+len(removed) > 0
}

// writeBase is the write that changes the base, on condition of the version that was read, or makes it if it is
// missing. It sets more fields, too.
func (b *Book) writeBase(more map[string]*firestorepb.Value, transforms ...*firestorepb.DocumentTransform_FieldTransform) *firestorepb.Write {
	name := b.names().BaseOf(b.Counter)
	fields, removed := b.wasBase.changes(b.Base)
	for field, value := range more {
		put(&fields, field, value)
	}
	if b.HasBase() {
		return store.Update(name, store.UpdatedAtTime(b.baseVersion), fields, removed, transforms...)
	}
	put(&fields, baseFormat, store.Int(formatNow))
	put(&fields, baseShards, store.String(b.names().Shards))
	put(&fields, baseHosted, store.Bool(b.names().Hosted))
	put(&fields, baseCounters, store.String(b.names().Path.String()))
	return store.Create(name, fields, transforms...)
}
