package book

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// ErrNotFound says that there is no such counter, or that it is being deleted.
var ErrNotFound = errors.New("counter not found")

// ErrBeyond says that what is to be counted doesn't fit into an integer of Firestore's beside what was.
var ErrBeyond = errors.New("integers end at ±2⁶³")

// Books are those of a deployment's counters.
type Books struct{ db *store.DB }

// In are the books in a database.
func In(db *store.DB) Books { return Books{db} }

// Book is a counter's document and its base, as they were at one time.
type Book struct {
	Counter  string
	Doc      *firestorepb.Document // the document, nil if it is missing; [Books.Read] reads only our own fields of it
	Base     Base                  // the base as it is to be; empty if there is none, or none that can be used
	Unusable error                 // why the base can't be used: an [ErrDamaged], and if there is none, an [ErrOthers]
	At       time.Time             // when both were read, or written by this process

	books       Books
	wasBase     Base      // the base as it was read
	baseVersion time.Time // the base's update time; zero if there is none
	baseMade    time.Time // the base's create time; zero if there is none, or this process has made it
}

// Reader reads documents: a [store.DB], or a transaction's [store.Tx].
type Reader interface {
	Get(ctx context.Context, names ...string) ([]*firestorepb.Document, time.Time, error)
	Documents(ctx context.Context, q store.Query) ([]*firestorepb.Document, error)
}

// Shards are the documents of a counter's shards.
type Shards []*firestorepb.Document

// SumOf is the sum of a field of the shards, as Firestore's sum() is: what is no number counts nothing, and it is a
// double if one is, or if it is beyond the int64s.
func (s Shards) SumOf(field layout.Field) *firestorepb.Value {
	var integers []int64
	doubles, double := 0.0, false
	for _, doc := range s {
		switch v := doc.GetFields()[field.Shard].GetValueType().(type) {
		case *firestorepb.Value_IntegerValue:
			integers = append(integers, v.IntegerValue)
		case *firestorepb.Value_DoubleValue:
			doubles, double = doubles+v.DoubleValue, true
		}
	}
	if len(integers) == 0 && !double {
		return store.Int(field.OfNone())
	}
	parts := store.Parts(integers...)
	if !double && len(parts) == 1 {
		return store.Int(parts[0])
	}
	for _, n := range parts {
		doubles += float64(n)
	}
	return store.Double(doubles)
}

// Counting are the shards in which the field is counted.
func (s Shards) Counting(field layout.Field) Shards {
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

// ShownSize is about how many bytes a write of a counter's document has that shows so many fields: 72 for a number and
// as of when it is, and 384 for the rest of our map, the masks and names. The id is in it twice.
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

// CheckOurs returns for each document a [SettingError] if the counter belongs to a deployment with other settings; nil
// for a missing document. If a document doesn't say whose it is, or contradicts HOSTED, it reads the base, too.
func (books Books) CheckOurs(ctx context.Context, counters []string, docs Shards) ([]error, error) {
	names := books.db.Layout
	var unclear []int
	var paths []string
	for i, doc := range docs {
		if hosted, _ := whose(names, nil, doc); doc != nil && (names.Path.Whole() || hosted != names.Hosted) {
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
		others[unclear[i]] = checkOurs(names, base, docs[unclear[i]])
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
	if err := checkOurs(books.db.Layout, base, doc); err != nil {
		b.Base, b.Unusable = Base{}, err
	}
	b.wasBase = b.Base
	return b
}

// copy is a copy of the book, whose base and document may be changed.
func (b *Book) copy() *Book {
	after := *b
	for _, integers := range after.Base.maps() {
		*integers = maps.Clone(*integers)
	}
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

// CheckOurs is a [SettingError] if the counter is counted with other settings: nothing of it may be
// changed then.
func (b *Book) CheckOurs() error {
	if errors.Is(b.Unusable, ErrOthers) {
		return b.Unusable
	}
	return nil
}

// AsOf is as of when the document shows a field; zero where nobody knows. What the document says is believed only
// beside the number that it was written with, for the same counter and definition of the field, and if it isn't
// later than the document: an app may have changed the number, or copied the map from another document or an
// earlier version.
func (b *Book) AsOf(field layout.Field) time.Time {
	at := timeOf(rollupOf(b.Doc)[layout.AsOf].GetMapValue().GetFields()[field.Name])
	last := b.Written(field)
	if at.After(b.Version()) || last == nil || !proto.Equal(last, b.Doc.GetFields()[field.Name]) { // of which NaN equals itself
		return time.Time{}
	}
	return at
}

// longestNext is after which time a document may be refreshed again at the latest: no instance writes more than 25 s,
// ROLLUP_INTERVAL's 5 s at most, stretched five times.
const longestNext = time.Minute

// NextRefresh is from when on the document may be refreshed again, so that all instances together don't write it too
// often; zero where it doesn't say. A time that no instance writes is not ours, and counts as none.
func (b *Book) NextRefresh() time.Time {
	at := timeOf(rollupOf(b.Doc)[layout.NextRefresh])
	if at.Sub(b.Version()) > longestNext {
		return time.Time{}
	}
	return at
}

// Refreshed is when the document was refreshed last, or made; zero if it never was.
func (b *Book) Refreshed() time.Time { return timeOf(OurFields(b.names(), b.Doc)[layout.UpdatedAt]) }

// Written is the number that this module has written last of a field; nil where nobody knows.
func (b *Book) Written(field layout.Field) *firestorepb.Value { return b.lastShown(field)[shownValue] }

// since is for a field of which nobody knows as of when the document shows it. An answer from since on may be shown: no
// event was done for a later one. It is the time of the document's version. Of a field that counts documents it is the
// earlier version's time that the map keeps: otherwise a slow query would never be shown on a busy document. If the map
// has no such time yet, entry is what adds it.
func (b *Book) since(field layout.Field) (since time.Time, entry map[string]*firestorepb.Value) {
	if field.Counted == nil {
		return b.Version(), nil
	}
	if noted := timeOf(b.lastShown(field)[shownSince]); !noted.IsZero() && !noted.After(b.Version()) {
		return noted, nil
	}
	entry = map[string]*firestorepb.Value{shownKey: store.String(field.Key()), shownSince: store.Time(b.Version())}
	if last := b.Written(field); last != nil {
		entry[shownValue] = last
	}
	return b.Version(), entry
}

// lastShown is what the document's map says of a field; nil if the map is another counter's, or the field was defined
// in another way.
func (b *Book) lastShown(field layout.Field) map[string]*firestorepb.Value {
	ours := rollupOf(b.Doc)
	entry := ours[layout.LastShown].GetMapValue().GetFields()[field.Name].GetMapValue().GetFields()
	if ours[layout.CounterPath].GetStringValue() != b.path() || entry[shownKey].GetStringValue() != field.Key() {
		return nil
	}
	return entry
}

// path is the path of the counter's document.
func (b *Book) path() string { return b.names().Path.Document(b.Counter) }

// Fields of an entry of [layout.LastShown]: what the field is, its number, and [Book.since].
const shownKey, shownValue, shownSince = "of", "is", "since"

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
		return store.Update(name, store.IfVersion(b.baseVersion), fields, removed, transforms...)
	}
	put(&fields, baseFormat, store.Int(formatNow))
	put(&fields, baseShards, store.String(b.names().Shards))
	put(&fields, baseHosted, store.Bool(b.names().Hosted))
	put(&fields, baseCounters, store.String(b.names().Path.String()))
	return store.Create(name, fields, transforms...)
}

// checkOurs is a [SettingError] if HOSTED or COUNTERS are others here than a base and a document say. Each
// of them may be nil.
func checkOurs(names layout.Layout, base, doc *firestorepb.Document) error {
	made := base.GetFields()[baseCounters].GetStringValue()
	switch hosted, known := whose(names, base, doc); {
	case known && hosted && !names.Hosted:
		return &SettingError{"HOSTED=true", "the document is the app's own, and HOSTED is false here"}
	case known && !hosted && names.Hosted:
		return &SettingError{"HOSTED=false", "the document is the counter's, and HOSTED is true here"}
	case made == "" || made == names.Path.String():
		return nil
	}
	if path, err := layout.ParsePath(made); err == nil && path.Canonical() == names.Path.Canonical() {
		return nil
	}
	return &SettingError{"COUNTERS=" + made, fmt.Sprintf("the counter was made there, and COUNTERS is %q here", names.Path)}
}

// whose reports whether a document is the app's own. The base beside it says so, unless the app has put a
// document of its own in the place of ours. Without one, our map says so, or a field that neither we nor
// Google's snippets write. What a snippet may have made is either, as the settings say: that isn't known.
func whose(names layout.Layout, base, doc *firestorepb.Document) (hosted, known bool) {
	fields := doc.GetFields()
	recorded, is := base.GetFields()[baseHosted].GetValueType().(*firestorepb.Value_BooleanValue)
	switch {
	case is && recorded.BooleanValue:
		return true, true
	case is:
		return !marked(doc) && appField(names, doc, true) != "", true
	case fields[layout.Rollup].GetMapValue() != nil:
		mark, is := rollupOf(doc)[layout.HostedMark].GetValueType().(*firestorepb.Value_BooleanValue)
		return !is || mark.BooleanValue, true // a map without the mark is the app's: our roll-ups, which alone write ours, always set it
	case base == nil && appField(names, doc, false) != "":
		return true, true
	}
	return false, false
}

// appField is a field of a document that neither we nor Google's snippets write; "" if there is none. Where
// nothing is counted, our times and marks are the app's, too. In a counter that is ours, or has a number of
// shards, any number may be one that another FIELDS shows.
func appField(names layout.Layout, doc *firestorepb.Document, ours bool) (field string) {
	fields, shown := doc.GetFields(), names.Shown().Names()
	counts := ours || fields[layout.NumShards] != nil || fields[layout.NumShardsLegacy] != nil
	numbers := counts
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		_, number := store.Float(value)
		switch {
		case slices.Contains(shown, name):
			counts = true
		case numbers && number:
		case (name == layout.CreatedAt || name == layout.UpdatedAt) && value.GetTimestampValue() != nil,
			name == layout.Rollup && value.GetMapValue() != nil:
			field = name
		default:
			return name
		}
	}
	if counts {
		return ""
	}
	return field
}

// unclear reports whether fields that were not read may tell whose a document is.
func unclear(names layout.Layout, base, doc *firestorepb.Document) bool {
	return doc != nil && (base == nil || !names.Hosted && !marked(doc) && rollupOf(doc) == nil)
}

// marked reports whether a document has a number of shards, or our time: we or Google's snippets have made it.
func marked(doc *firestorepb.Document) bool {
	fields := doc.GetFields()
	return fields[layout.NumShards] != nil || fields[layout.NumShardsLegacy] != nil || fields[layout.CreatedAt] != nil
}

// OurFields are our own fields of a counter's document, such as [layout.NumShards]. A document of the app's
// own has them in one map.
func OurFields(names layout.Layout, counter *firestorepb.Document) map[string]*firestorepb.Value {
	if !names.Hosted {
		return counter.GetFields()
	}
	return counter.GetFields()[layout.Rollup].GetMapValue().GetFields()
}

// NumShards is the document's number of shards, within 1 to [layout.MaxShards]; 0 if it has none.
func NumShards(names layout.Layout, counter *firestorepb.Document) int {
	own := OurFields(names, counter)
	n := cmp.Or(own[layout.NumShards], own[layout.NumShardsLegacy])
	if n == nil {
		return 0
	}
	number := max(n.GetIntegerValue(), int64(min(n.GetDoubleValue(), layout.MaxShards)))
	return int(min(max(number, 1), layout.MaxShards))
}

// Overwritable reports whether a total may take the place of a value in a counter's document: of a number, of null,
// or of nothing. Everything else, such as a list of user ids, is the app's, and stays.
func Overwritable(value *firestorepb.Value) bool {
	switch value.GetValueType().(type) {
	case nil, *firestorepb.Value_NullValue, *firestorepb.Value_IntegerValue, *firestorepb.Value_DoubleValue:
		return true
	}
	return false
}

// Blocked are the shown fields of a counter's document that no total may replace, and what is to be said of each.
func Blocked(names layout.Layout, counter *firestorepb.Document) (fields, problems []string) {
	for _, field := range names.Shown() {
		if why := whyBlocked(names, counter, field); why != "" {
			fields, problems = append(fields, field.Name), append(problems, why)
		}
	}
	return fields, problems
}

// whyBlocked says why no total may replace what a field holds: it isn't [Overwritable], or a number of the extension's
// that is not whole, so that no total can go on from it. It is empty if one may.
func whyBlocked(names layout.Layout, counter *firestorepb.Document, field layout.Field) (why string) {
	value := counter.GetFields()[field.Name]
	_, number := store.Float(value)
	_, whole := store.Integer(value)
	is, helps := "no number", ""
	switch {
	case names.Extension && field.Counted == nil && number && !whole && rollupOf(counter)[layout.LastShown].GetMapValue().GetFields()[field.Name] == nil:
		return fmt.Sprintf("%q is no whole number in its document, so no total can go on from what the extension has counted: set it to a whole number", field.Name)
	case Overwritable(value):
		return ""
	case value.GetArrayValue() != nil:
		is, helps = "a list", "if it lists user ids, run counters import members; otherwise "
	}
	return fmt.Sprintf("%q is %s in its document, and no total replaces that; what is counted is in the shards: %sdelete the field, or show the total in another (FIELDS)", field.Name, is, helps)
}

// rollupOf is the map that says what this module has written in a counter's document.
func rollupOf(counter *firestorepb.Document) map[string]*firestorepb.Value {
	return counter.GetFields()[layout.Rollup].GetMapValue().GetFields()
}

// put sets an entry of a map, which it makes if there is none.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// Base is what a counter's totals hold beyond their sources. It is written by commands, and with the first
// answer of a field.
type Base struct {
	Counts   map[string]int64 // :: field of the shards → what its total holds beyond them; 0 of one that is shown
	Replaced map[string]int64 // :: shown field → the number that stood there before it was first shown; rarely any
	Sources  map[string]int64 // :: what counts are taken over from → what of it is in the base
	Swept    string           // how far somebody has come who tidies up below the counter, a few documents at a time
	Gone     time.Time        // when it was last noted that the counter's document is missing; zero if it is there
	Ending   time.Time        // since when the counter is being deleted, see [Book.End]; zero if it isn't
}

// maps are the base's maps, by the names of their fields.
func (base *Base) maps() map[string]*map[string]int64 {
	return map[string]*map[string]int64{BaseCounts: &base.Counts, BaseReplaced: &base.Replaced, BaseSources: &base.Sources}
}

// Fields of the base's document. Those that are maps are exempt from indexes: firestore.indexes.json.
const (
	BaseCounts   = "base"
	BaseReplaced = "replaced"
	BaseSources  = "imported"
	baseSwept    = "swept"
	baseGone     = "gone_at"
	baseEnding   = "ending"
	baseFormat   = "format"
	baseShards   = "shards"   // id of the collection of the shards
	baseHosted   = "hosted"   // whether the document is the app's own
	baseCounters = "counters" // the path that the counter was made by
)

// formatNow is the version of the fields' meaning. New fields alone don't change it.
const formatNow = 2

// ErrDamaged says that a base can't be used: something else wrote it, or it is an [ErrFormat] or [ErrOthers].
// Delete it, and the next roll-up makes one that holds nothing beyond the shards; then rebase the counter.
var ErrDamaged = errors.New("base is damaged")

var (
	// ErrFormat says that another version wrote the base, in a format that this one can't read.
	ErrFormat error = unusable("base is of another format")
	// ErrOthers says that a counter is counted with another HOSTED, SHARDS or COUNTERS. A [SettingError]
	// says which.
	ErrOthers error = unusable("the counter is another deployment's")
)

// unusable is an [ErrDamaged] that nothing has damaged.
type unusable string

func (e unusable) Error() string        { return string(e) }
func (e unusable) Is(target error) bool { return target == ErrDamaged }

// SettingError is an [ErrOthers]: it says which setting the counter is counted with, and that it is another
// here.
type SettingError struct {
	Want string // such as HOSTED=true
	Why  string
}

func (e *SettingError) Error() string { return fmt.Sprintf("set %s: %s", e.Want, e.Why) }

// Unwrap makes it an [ErrOthers].
func (e *SettingError) Unwrap() error { return ErrOthers }

// decodeBase reads a base of shards in a collection of that id; nil is a base of nothing. Its error is an
// [ErrDamaged].
func decodeBase(shards string, doc *firestorepb.Document) (base Base, err error) {
	fields := doc.GetFields()
	if format := fields[baseFormat]; format.GetIntegerValue() != formatNow {
		return base, fmt.Errorf("%w: %s: %v, and this version writes %d", ErrFormat, doc.GetName(), format.GetIntegerValue(), formatNow)
	}
	if of := fields[baseShards].GetStringValue(); of != shards {
		return base, &SettingError{"SHARDS=" + of, fmt.Sprintf("the counter's shards are there, and SHARDS is %q here", shards)}
	}
	base = Base{Swept: fields[baseSwept].GetStringValue(), Gone: timeOf(fields[baseGone]), Ending: timeOf(fields[baseEnding])}
	// The first commit of a deletion writes true, each further one the time of the first, because a server's timestamp is
	// in milliseconds: a shard that was made in the same one, before, would stay.
	if fields[baseEnding].GetBooleanValue() {
		base.Ending = doc.GetUpdateTime().AsTime()
	}
	damaged := fields[baseGone] != nil && fields[baseGone].GetTimestampValue() == nil
	for name, integers := range base.maps() {
		damaged = damaged || fields[name] != nil && fields[name].GetMapValue() == nil
		for entry, n := range fields[name].GetMapValue().GetFields() {
			damaged = damaged || !store.IsInteger(n)
			put(integers, entry, n.GetIntegerValue())
		}
	}
	if damaged {
		return Base{}, fmt.Errorf("%w: %s: one of its fields is of another type", ErrDamaged, doc.GetName())
	}
	return base, nil
}

// timeOf is a value's time; zero if it is none.
func timeOf(v *firestorepb.Value) time.Time {
	if at := v.GetTimestampValue(); at != nil {
		return at.AsTime()
	}
	return time.Time{}
}

// changes are the fields that a base's document must have set and removed, so that it holds is instead of was. No entry
// of its maps is ever taken out. Gone is only cleared here: [Book.SetGone] sets it, and a deletion sets Ending.
func (was Base) changes(is Base) (set map[string]*firestorepb.Value, removed []string) {
	before := was.maps()
	for name, integers := range is.maps() {
		changed := map[string]*firestorepb.Value{}
		for entry, n := range *integers {
			if old, has := (*before[name])[entry]; !has || old != n {
				changed[entry] = store.Int(n)
			}
		}
		if len(changed) > 0 {
			put(&set, name, store.Map(changed))
		}
	}
	if is.Swept != was.Swept {
		put(&set, baseSwept, store.String(is.Swept))
	}
	if is.Gone.IsZero() && !was.Gone.IsZero() {
		removed = append(removed, baseGone)
	}
	return set, removed
}
