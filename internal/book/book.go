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
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// ErrNotFound says that there is no such counter, or that it is being deleted.
var ErrNotFound = errors.New("counter not found")

// ErrLedgerFull says that a counter has more shards, with more fields, than a ledger has room for.
var ErrLedgerFull = fmt.Errorf("the ledger has no room for more than %d numbers", ledger.MaxNumbers)

// ErrBeyond says that what is to be counted doesn't fit into an integer of Firestore's beside what was.
var ErrBeyond = errors.New("integers end at ±2⁶³")

// Books are those of a deployment's counters.
type Books struct{ db *store.DB }

// Of are the books in a database.
func Of(db *store.DB) Books { return Books{db} }

// Book is a counter's ledger and document as they were read, and the changes since. All changes go
// through the book's methods, or the book isn't written.
type Book struct {
	Counter string
	Ledger  *ledger.Ledger        // with the changes in it; nil where there is none, or none that can be used
	Doc     *firestorepb.Document // the counter's as it was read; nil where it is missing
	At      time.Time             // as of when both were read; zero of a [Books.InMemory] one
	// Unusable says why the ledger that is there can't be used: an [ErrDamaged]
	Unusable error
	// Deltas are what the shown integers grow by in a flush, by their names.
	Deltas map[string]int64
	// Applied is called once this book is known to be the one that a command has committed; may be nil
	Applied func()

	books  Books
	raw    *firestorepb.Document // the ledger's; nil where there is none
	state  state
	flush  bool             // it is one
	uneven bool             // something is taken off shards in the same commit
	before map[string]int64 // totals before the first change; nil before that
	grown  map[string]int64 // :: field of the shards → what the changes add to its total, modulo 2⁶⁴
	diff   ledger.Diff      // the changes
	// of the ledger's document, beside the changes
	imported   map[string]int64
	removed    []string
	transforms []*firestorepb.DocumentTransform_FieldTransform
	beside     []*firestorepb.Write // of other documents

	incremented []layout.Field       // in the order of their transforms
	results     []*firestorepb.Value // of these, as the commit has left them
	alone       bool                 // the ledger was written without the document
}

// state is what is to be done of a ledger's document.
type state int

const (
	changed state = iota // it is there, and what has changed is written
	made                 // there is none
	remade               // it can't be used, and is written as a whole
)

// Reader reads documents: a [store.DB], or a transaction's [store.Tx].
type Reader interface {
	Get(ctx context.Context, names ...string) ([]*firestorepb.Document, time.Time, error)
	Documents(ctx context.Context, q store.Query) ([]*firestorepb.Document, error)
}

// Shards are the documents of a counter's shards.
type Shards []*firestorepb.Document

// States are what shards hold.
func (s Shards) States() []ledger.State {
	states := make([]ledger.State, len(s))
	for i, doc := range s {
		states[i] = ShardState(doc)
	}
	return states
}

// Read reads a counter's ledger and document, both as of one time. If there is no ledger, missing may
// make one; if it reports false, the book has none. With an [ErrDamaged] the book has the document
// alone.
func (b Books) Read(ctx context.Context, counter string, missing func(*Book) (made bool, err error)) (*Book, error) {
	return b.read(ctx, counter, nil, missing)
}

// Glance is [Books.Read] of what tells whether a counter is right: without the ledger's states, which
// may be hundreds of KB, and without the app's own fields. The book can't be written: see [Book.AddUp].
func (b Books) Glance(ctx context.Context, counter string, missing func(*Book) (made bool, err error)) (*Book, error) {
	paths := append([]string{LedgerBase, LedgerAnswers, LedgerSums, LedgerUneven, LedgerLimits, LedgerFloor, LedgerMade, LedgerFormat, LedgerShards}, LedgerBack...)
	for _, own := range []string{layout.Deleting, layout.NumShards, layout.NumShardsLegacy, layout.Limits} {
		paths = append(paths, b.db.Layout.OwnPath(own))
	}
	for _, field := range b.db.Layout.Shown() {
		paths = append(paths, layout.FieldPath(field.Name))
	}
	return b.read(ctx, counter, paths, missing)
}

func (b Books) read(ctx context.Context, counter string, paths []string, missing func(*Book) (made bool, err error)) (*Book, error) {
	for {
		docs, at, err := b.db.GetPaths(ctx, paths, b.db.Layout.LedgerOf(counter), b.db.Layout.Counter(counter))
		if err != nil {
			return &Book{Counter: counter, books: b}, fmt.Errorf("read ledger: %w", err)
		}
		k := b.open(counter, docs[0], docs[1], at)
		if k.Ledger != nil {
			k.catchUp()
		}
		if k.raw != nil {
			return k, k.Unusable
		}
		if made, err := missing(k); err != nil || !made {
			return k, err
		}
	}
}

// HasImported reports whether a source was imported into a counter.
func (b Books) HasImported(ctx context.Context, counter, source string) (bool, error) {
	docs, _, err := b.db.GetPaths(ctx, []string{layout.FieldPath(LedgerImported, source)}, b.db.Layout.LedgerOf(counter))
	if err != nil {
		return false, fmt.Errorf("read ledger: %w", err)
	}
	_, has := docs[0].GetFields()[LedgerImported].GetMapValue().GetFields()[source]
	return has, nil
}

// Get reads the books of several counters, and other documents after them, all as of one time.
func (b Books) Get(ctx context.Context, from Reader, counters []string, others ...string) (books []*Book, docs Shards, err error) {
	names := make([]string, 0, 2*len(counters)+len(others))
	for _, counter := range counters {
		names = append(names, b.db.Layout.Counter(counter), b.db.Layout.LedgerOf(counter))
	}
	all, at, err := from.Get(ctx, append(names, others...)...)
	if err != nil {
		return nil, nil, err
	}
	for i, counter := range counters {
		books = append(books, b.open(counter, all[2*i+1], all[2*i], at))
	}
	return books, all[2*len(counters):], nil
}

// Shards reads all shards of a counter, whatever its document says of their number: as they were at a
// time, or now where that is zero or in a transaction.
func (b Books) Shards(ctx context.Context, from Reader, counter string, at time.Time) (Shards, error) {
	docs, err := from.Documents(ctx, store.Query{Collection: b.db.Layout.ShardsOf(counter), At: at})
	if err != nil {
		return nil, fmt.Errorf("read shards: %w", err)
	}
	return docs, nil
}

// open is a counter's book, of documents that were read at a time, either of which may be nil.
func (b Books) open(counter string, itsLedger, doc *firestorepb.Document, at time.Time) *Book {
	k := &Book{Counter: counter, Doc: doc, At: at, books: b, raw: itsLedger}
	if itsLedger != nil {
		k.Ledger, k.Unusable = Decode(b.db.Layout.Shards, itsLedger)
	}
	return k
}

// InMemory is a counter's book whose ledger is in memory, as it was last written. It says that the
// document is there.
func (b Books) InMemory(counter string, l *ledger.Ledger) *Book {
	return &Book{Counter: counter, Ledger: l, books: b}
}

// catchUp notes what was found: the document is missing, or back, or shows fields that the ledger has
// no base for. It keeps the numbers in the app's document that such totals replace.
func (k *Book) catchUp() {
	l, d := k.Ledger, &k.diff
	switch {
	case k.Doc == nil && l.Gone.IsZero():
		d.Gone = k.At
	case k.Doc != nil:
		d.Back = !l.Gone.IsZero()
	}
	// An earlier version marked no names: what its ledgers count was shown, as far as is known.
	marked := slices.Contains(slices.Collect(maps.Values(l.Replaced)), 0)
	for _, field := range k.names().Fields {
		_, counted := l.Base[field.Shard]
		_, taken := l.Replaced[field.Name]
		_, ours := l.Sums[field.Key()] // or else it is the total by chance
		switch {
		case !k.names().Hosted || counted && (taken || !marked):
			continue
		case counted && (ours || len(l.Sums) == 0):
			ledger.Put(&l.Replaced, field.Name, 0)
			ledger.Put(&d.Replaced, field.Name, 0) // with the next commit
			continue
		case k.Doc == nil:
			continue
		}
		k.takeOver(field, !ours)
		ledger.Put(&d.Base, field.Shard, l.Base[field.Shard])
		ledger.Put(&d.Replaced, field.Name, l.Replaced[field.Name])
	}
}

// takeOver notes that a field is shown from now on, and which number was in its place: if it isn't the
// total, or, with any, even if it is, because the two may be equal by chance. What an app's document shows by
// this name later is ours.
func (k *Book) takeOver(field layout.Field, any bool) {
	l := k.Ledger
	total, _ := l.Total(field)
	if k.names().Hosted && k.Doc != nil {
		l.Base[field.Shard] += 0
		if _, taken := l.Replaced[field.Name]; taken { // it was counted in another field of the shards
			return
		}
		ledger.Put(&l.Replaced, field.Name, 0)
	}
	value := k.Doc.GetFields()[field.Name]
	if was, ok := store.Integer(value); ok && value != nil && (was != total || any && was != 0) {
		ledger.Put(&l.Replaced, field.Name, was)
	}
}

func (k *Book) names() layout.Layout { return k.books.db.Layout }

// Missing reports whether the counter's document was looked for, and is missing.
func (k *Book) Missing() bool { return k.Doc == nil && !k.At.IsZero() }

// Lives reports as of when the counter's document is there and isn't being deleted. For a
// [Books.InMemory] book it reads the document. It reports false if that fails.
func (k *Book) Lives(ctx context.Context) (at time.Time, reads int, lives bool) {
	doc, at := k.Doc, k.At
	if at.IsZero() {
		docs, now, err := k.books.db.Get(ctx, k.names().Counter(k.Counter))
		if reads = 1; err != nil || now.Before(k.Ledger.Updated) {
			return now, reads, false
		}
		doc, at = docs[0], now
	}
	return at, reads, doc != nil && !k.Ledger.Ending && !Deleting(k.names(), doc)
}

// Deleting reports whether the counter's deletion is under way, or was cut short.
func (k *Book) Deleting() bool {
	return Deleting(k.names(), k.Doc) || k.Doc == nil && k.Ledger != nil && k.Ledger.Ending
}

// change applies a diff of the ledger.
func (k *Book) change(d ledger.Diff) {
	if !d.Empty() {
		k.Was()
		for _, field := range k.names().Fields {
			if n := k.Ledger.Grows(d, field.Shard); n != 0 {
				ledger.Put(&k.grown, field.Shard, k.grown[field.Shard]+n)
			}
		}
	}
	k.Ledger.Apply(d)
	k.diff = k.diff.Then(d)
}

// Changed reports whether there is something to commit.
func (k *Book) Changed() bool { return !k.diff.Empty() }

// Merge merges states and answers into the ledger, and returns what that changes.
func (k *Book) Merge(states []ledger.State, answers map[string]ledger.Answer) ledger.Diff {
	d := k.Ledger.Merge(states, answers)
	k.change(d)
	return d
}

// Correct has the ledger hold what all shards held at a time, and drops answers of a time that has not
// come. It tells how many shards differ, and whether the ledger had a time that can't be.
func (k *Book) Correct(s ledger.Snapshot) (differ int, impossible bool) {
	k.Was()
	d := k.Ledger.Correct(k.At, s)
	differ = k.Ledger.Differ(d)
	k.Ledger.Forget(k.At)
	k.change(d)
	return differ, d.Impossible
}

// Speak counts a snapshot of all shards in a flush: see [ledger.Ledger.Speak]. now is when the ledger
// was as it is in the book.
func (k *Book) Speak(now time.Time, s ledger.Snapshot) (d ledger.Diff, spoke bool) {
	if d, spoke = k.Ledger.Speak(now, s); spoke {
		k.change(d)
	}
	return d, spoke
}

// Enter has the ledger hold what all shards held when it was read: a base is what the total holds
// beyond that. Its error is [ErrLedgerFull].
func (k *Book) Enter(shards Shards) error {
	k.change(k.Ledger.Correct(k.At, ledger.Snapshot{At: k.At, States: shards.States(), Uneven: k.Ledger.Uneven}))
	if k.Ledger.Numbers() > ledger.MaxNumbers {
		return fmt.Errorf("%w: the counter has %d shards", ErrLedgerFull, len(shards))
	}
	return nil
}

// SetBase sets what the total of a field of the shards holds beyond them.
func (k *Book) SetBase(field string, base int64) {
	k.change(ledger.Diff{Base: ledger.Counts{field: base}})
}

// Rebase sets the base, and forgets the number that the total has replaced: no import is to bring it
// back.
func (k *Book) Rebase(field layout.Field, base int64) {
	k.SetBase(field.Shard, base)
	ledger.Put(&k.diff.Replaced, field.Name, 0)
}

// Import records what a field's base holds of a source, and adds what is new of it. Errors:
// [ErrLedgerFull]; [ErrLimited]; [ErrBeyond] if the base has no room; [ErrDamaged] if nobody knows what
// the base holds.
func (k *Book) Import(source string, value int64, field layout.Field, added int64) error {
	l := k.Ledger
	if k.Limited() {
		return ErrLimited
	}
	_, again := l.Imported[source]
	if _, lost := l.Imported[ledger.Unknown]; lost && !again {
		return fmt.Errorf("%w: what was imported into this counter is not known any more, since its ledger was made again, and would count twice: import into another, and rebase this one", ErrDamaged)
	}
	if !again && (len(l.Imported) >= ledger.MaxImported || l.Numbers() >= ledger.MaxNumbers) {
		return fmt.Errorf("%w: %d were imported into this counter, and %d can be: import the rest into another", ErrLedgerFull, len(l.Imported), ledger.MaxImported)
	}
	was := l.Base[field.Shard]
	base := ledger.Add(was, added)
	if ledger.Sub(base, was) != added { // what was counted there would be lost
		return fmt.Errorf("%w: its shards aside, the counter holds %d, which has no room for %d more: rebase it first", ErrBeyond, was, added)
	}
	k.imported = map[string]int64{source: value}
	k.SetBase(field.Shard, base)
	return nil
}

// TakeOff says that the commit takes something off shards: see [ledger.Ledger.Uneven].
func (k *Book) TakeOff() { k.uneven = true }

// Beside adds writes of other documents to the commit.
func (k *Book) Beside(writes ...*firestorepb.Write) { k.beside = append(k.beside, writes...) }

// Flush has the book written as a flush: it is counted, and totals grow by increments, whose results
// [Book.Seen] compares with the ledger.
func (k *Book) Flush() { k.flush = true }

// Was are the totals before the first change.
func (k *Book) Was() map[string]int64 {
	if k.before == nil {
		k.before = k.Ledger.Totals(k.names().Shown()...)
	}
	return k.before
}

// LastView are the totals that the ledger says the document shows. A field is left out if the ledger's
// last writer doesn't show it, and until the first flush if the ledger was made beside another number.
func (k *Book) LastView() map[string]int64 {
	last := map[string]int64{}
	for _, field := range k.names().Shown() {
		_, known := k.Ledger.Sums[field.Key()]
		replaced := k.Ledger.Replaced[field.Name] != 0
		if was, is := k.Was()[field.Name]; is && known && !(replaced && k.Ledger.Flushes == 0) {
			last[field.Name] = was
		}
	}
	return last
}

// AddUp gives a book of [Books.Glance] the sums of its shards, by their fields, instead of their
// states.
func (k *Book) AddUp(sums ledger.Counts) {
	k.Ledger.States = map[string]ledger.Entry{"": {Counts: sums}}
}

// Agrees reports whether the counter's document shows what the ledger has.
func (k *Book) Agrees() bool { return agrees(k.names(), k.Doc, k.Ledger) }
