package extension

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// few is how many numbers that stay in shards a problem names.
const few = 5

// AtOnce is how many shards of the extension's one commit takes counts from at most.
const AtOnce = 400

// idleFor is how long a shard that holds nothing must not have been written before it is deleted: the cookie that names
// a browser's lives for 30 days. If its client comes back all the same, it makes the shard again.
const idleFor = 31 * 24 * time.Hour

// Moved is what a commit takes off shards of the extension's. The commit is on condition of document and base, so at
// most one succeeds, however often it is sent. Whoever reads again sees what is left.
type Moved struct {
	Read     *book.Book           // as it was read
	Book     *book.Book           // whose base holds what is taken
	Amounts  map[string]int64     // :: name of a field of which shards hold something → what is taken
	Writes   []*firestorepb.Write // of the shards
	Idle     []*firestorepb.Write // that delete other shards, which are idle
	Problems []string             // why something is left in them
	Unseen   bool                 // there may be other shards that hold something: they weren't all found
	At       time.Time            // as of when the shards that were named hold nothing that isn't taken
	Reads    int                  // that this took

	names  layout.Layout
	shards book.Shards // that were read
	kept   []string    // names of fields that are left in them, because their totals can't be shown
}

// waitingTimeout bounds the query for shards that no event names: it may scan over what an hour's rewrites have left in
// the index.
const waitingTimeout = 2 * time.Second

// Take says what can be taken off shards of the extension's that events name, by their ids. With looks it looks for
// others that hold something, too, because events may be lost. If that fails, it is one of the problems, and those
// shards wait for the next time. With an error, too, it says how many reads it took.
func Take(ctx context.Context, db *store.DB, b *book.Book, named []string, looks bool) (Moved, error) {
	if !db.Layout.Extension {
		return Moved{Read: b, Book: b}, nil
	}
	names := make([]string, len(named))
	for i, shard := range named {
		names[i] = db.Layout.ExtensionShard(b.Counter, shard)
	}
	docs, at, err := db.Slim(slim(db.Layout)).Get(ctx, names...)
	reads := len(names)
	if err != nil {
		return Moved{Reads: reads}, fmt.Errorf("read what the extension's clients counted: %w", err)
	}
	shards, unseen := book.Shards(docs), error(nil)
	if looks {
		soon, cancel := context.WithTimeout(ctx, waitingTimeout)
		defer cancel()
		shards, unseen = waiting(soon, db, b.Counter, shards)
		reads += 1 + 2*len(db.Layout.Sharded)
	}
	m := take(db.Layout, b, shards, nil)
	if m.At, m.Reads = at, reads; unseen != nil {
		m.Problems, m.Unseen = append(m.Problems, unseen.Error()), !store.InvalidQuery(unseen)
	}
	return m, m.lookForIdle(ctx, db)
}

// take is the commit that takes over what shards of the extension's hold, which were read after the book: whole numbers
// of the fields that the document shows as sums of shards. A client may be adding to a shard at the same moment: that
// stays there. So does the fraction of a number, until it is whole with others.
func take(names layout.Layout, b *book.Book, shards book.Shards, kept []string) Moved {
	t := Moved{Read: b, Book: b, Amounts: map[string]int64{}, names: names, shards: shards, kept: kept}
	var fields layout.Fields
	for _, field := range names.Limited() {
		if slices.ContainsFunc(shards, func(shard *firestorepb.Document) bool { return Holds(layout.Fields{field}, shard) }) {
			t.Problems = append(t.Problems, fmt.Sprintf("%q has a limit, so what clients of the extension count stays in %s", field.Name, layout.ExtensionShards))
		}
	}
	for _, field := range names.Plain() {
		if b.MayShow(field) && !slices.Contains(kept, field.Name) {
			fields = append(fields, field)
		}
	}
	var stays []string                                         // what stays in shards, and why
	room := b.WithExtensionNumbers(fields.Names()).Base.Counts // with the numbers that their totals go on from
	for _, shard := range shards {
		off := map[string]int64{} // :: field → what is taken
		for _, field := range fields {
			n, problem := wholeIn(shard, field.Name)
			base, sum := room[field.Shard], store.Add(t.Amounts[field.Name], n)
			switch {
			case problem != "":
			case store.Sub(sum, n) != t.Amounts[field.Name] || store.Sub(store.Add(base, sum), sum) != base:
				problem = "would take the total beyond ±2⁶³"
			case n != 0:
				off[field.Name], t.Amounts[field.Name] = n, sum
			}
			if problem != "" {
				stays = append(stays, fmt.Sprintf("%q of %s %s, and stays there: set it right", field.Name, nameOf(shard), problem))
			}
		}
		if len(off) > 0 {
			t.Writes = append(t.Writes, takeOff(shard, off))
		}
	}
	if more := len(stays) - few; more > 0 { // hundreds, with long ids, would be a line of a megabyte in the log
		stays = append(stays[:few], fmt.Sprintf("%d more numbers stay in their shards for such reasons", more))
	}
	t.Problems = append(t.Problems, stays...)
	if len(t.Writes) > 0 {
		t.Book = b.WithBase(t.Amounts)
	}
	return t
}

// Show is the commit that shows answers, and takes over what is moved, but for fields whose totals can't be shown, or
// not by these answers: those stay in the shards. See [book.Book.Show].
func (t *Moved) Show(answers map[string]book.Answer, next time.Time) book.Draft {
	s := t.Book.Show(answers, next)
	kept := slices.Clone(t.kept)
	for name := range t.Amounts {
		if !slices.ContainsFunc(s.Changes, func(c book.FieldDiff) bool { return c.Field.Name == name }) {
			kept = append(kept, name)
		}
	}
	if len(kept) > len(t.kept) {
		problems, before := s.Problems, *t
		*t = take(t.names, t.Read, t.shards, kept)
		s, t.Problems, t.Unseen = t.Show(answers, next), before.Problems, before.Unseen
		s.Problems = problems
		return s
	}
	s.Beside = t.Writes
	return s
}

// large is how many bytes a shard of the extension's has at most that is kept as it was read: of the largest, one
// commit would have 400 MB in memory.
const large = 32 << 10

// slim leaves the counted numbers of a large shard, and that there is more. Of a large partial sum it leaves only that.
func slim(names layout.Layout) func(*firestorepb.Document) {
	return func(shard *firestorepb.Document) {
		if proto.Size(shard) <= large {
			return
		}
		numbers := map[string]*firestorepb.Value{updatesID: store.String("large")}
		for _, field := range names.Sharded {
			v := shard.GetFields()[field.Name]
			if _, number := store.Float(v); number && !isPartial(shard) {
				numbers[field.Name] = v
			}
		}
		shard.Fields = numbers
	}
}

// tooLarge reports whether a partial sum is so large that nothing is taken of it.
func tooLarge(shard *firestorepb.Document) bool {
	return isPartial(shard) && shard.GetFields()[updatesID].GetStringValue() != ""
}

// nameOf is how a problem names a shard.
func nameOf(shard *firestorepb.Document) string {
	return fmt.Sprintf("%s %.40q", layout.ExtensionShards, store.IDOf(shard.GetName()))
}

// Holds reports whether one of the extension's shards holds something that [Take] takes, or names a problem of.
func Holds(fields layout.Fields, shard *firestorepb.Document) bool {
	return slices.ContainsFunc(fields, func(field layout.Field) bool {
		n, problem := wholeIn(shard, field.Name)
		return n != 0 || problem != ""
	})
}

// wholeIn is the whole part of what one of the extension's shards holds of a field. As for the extension, what is no
// number counts nothing. Of MinInt64, the most that an increment takes off is taken first.
func wholeIn(shard *firestorepb.Document, field string) (n int64, problem string) {
	if tooLarge(shard) {
		return 0, "is among more than 32 KiB of updates"
	}
	fraction := 0.0
	var whole []int64
	for _, fields := range parts(shard) {
		switch v := fields[field].GetValueType().(type) {
		case *firestorepb.Value_IntegerValue:
			whole = append(whole, v.IntegerValue)
		case *firestorepb.Value_DoubleValue:
			if fraction += v.DoubleValue; !(math.Abs(v.DoubleValue) < 1<<53 && math.Abs(fraction) < 1<<53) {
				return 0, "is no whole number within ±2⁵³" // from there on a double stands for several
			}
		}
	}
	sum := store.Parts(append(whole, int64(fraction))...)
	return max(sum[0], -math.MaxInt64), ""
}

// parts are the fields of one of the extension's shards, or of all updates of a partial sum.
func parts(shard *firestorepb.Document) (all []map[string]*firestorepb.Value) {
	if !isPartial(shard) {
		return append(all, shard.GetFields())
	}
	for _, update := range shard.GetFields()[updatesID].GetArrayValue().GetValues() {
		all = append(all, update.GetMapValue().GetFields()[updateData].GetMapValue().GetFields())
	}
	return all
}

// empty reports whether one of the extension's shards holds nothing at all, of whatever field.
func empty(shard *firestorepb.Document) bool {
	rest := parts(shard)
	if isPartial(shard) && len(shard.GetFields()) > 1 || tooLarge(shard) {
		return false
	}
	sums := map[string]int64{}
	for _, fields := range rest {
		for name, value := range fields {
			n, whole := store.Integer(value)
			if !whole {
				return false
			}
			sums[name] += n
		}
	}
	return !slices.ContainsFunc(slices.Collect(maps.Values(sums)), func(n int64) bool { return n != 0 })
}

// waiting are known shards of a counter's, and others that hold something, up to [AtOnce] together: partial sums first,
// by their names, and then others, by the index of each field. It costs two reads a field, one more for each with a
// limit, and another where there are none, however many visitors there are. With an error it returns what it has found.
func waiting(ctx context.Context, db *store.DB, counter string, known book.Shards) (book.Shards, error) {
	collection := db.Layout.ExtensionShardsOf(counter)
	queries := []store.Query{{Collection: collection, Before: collection + "/\n"}} // their names begin with a tab
	for _, field := range db.Layout.Plain() {
		by := layout.FieldPath(field.Name)
		queries = append(queries, store.Query{Collection: collection, By: by, Least: store.Int(1)}, store.Query{Collection: collection, By: by, Most: store.Int(-1)})
	}
	for _, field := range db.Layout.Limited() { // nothing is taken of it: one is enough to name it
		queries = append(queries, store.Query{Collection: collection, By: layout.FieldPath(field.Name), Least: store.Int(1), Limit: 1})
	}
	fields := slices.Concat(db.Layout.Plain(), db.Layout.Limited())
	seen := map[string]bool{}
	for _, doc := range known {
		seen[doc.GetName()] = true
	}
	for _, q := range queries {
		if q.Limit = cmp.Or(q.Limit, AtOnce-len(known)); len(known) >= AtOnce {
			break
		}
		docs, err := db.Slim(slim(db.Layout)).Documents(ctx, q)
		if err != nil {
			return known, fmt.Errorf("look for what the extension's clients counted: %w", err)
		}
		for _, doc := range docs {
			if !seen[doc.GetName()] && Holds(fields, doc) {
				seen[doc.GetName()] = true
				known = append(known, doc)
			}
		}
	}
	return known, nil
}

// lookForIdle looks for shards of the counter's that hold nothing and were not written for 31 days. It looks at as many
// as are taken from, in the order of their ids, and the base remembers where it stopped. So a click costs one read
// more, however many visitors there are.
func (m *Moved) lookForIdle(ctx context.Context, db *store.DB) error {
	n := len(m.Writes)
	if n == 0 {
		return nil
	}
	m.Reads += n
	q := store.Query{Collection: db.Layout.ExtensionShardsOf(m.Book.Counter), Limit: n}
	if after := m.Book.Base.Swept; after != "" {
		q.After = db.Layout.ExtensionShard(m.Book.Counter, after)
	}
	docs, at, err := db.Slim(slim(db.Layout)).DocumentsAsOf(ctx, q)
	if err != nil {
		return fmt.Errorf("look for idle shards of the extension's: %w", err)
	}
	last := ""
	for _, doc := range docs {
		version := doc.GetUpdateTime().AsTime()
		if last = store.IDOf(doc.GetName()); at.Sub(version) > idleFor && empty(doc) {
			m.Idle = append(m.Idle, store.DeleteIf(doc.GetName(), store.IfVersion(version)))
		}
	}
	if len(docs) < n {
		last = "" // from the first one on
	}
	swept := *m.Book
	swept.Base.Swept = last
	m.Book = &swept
	return nil
}

// Sweep deletes idle shards that were found, each on condition that it is still the same. If that fails, they wait
// for the next time.
func (m Moved) Sweep(ctx context.Context, db *store.DB) { _, _ = db.Commit(ctx, m.Idle...) }

// Lookout knows whether Firebase's extension still runs, whose clients are to be taken over.
type Lookout struct {
	mu     sync.Mutex
	looked time.Time
	runs   error
}

// lookEvery is how often the extension is looked for.
const lookEvery = time.Minute

// Check is an [ErrRuns] if it runs: it would write the same fields. It costs a read a minute, and at first one of each
// who looks at the same moment. Nobody waits for another's look: they go by the last one.
func (l *Lookout) Check(ctx context.Context, db *store.DB) error {
	l.mu.Lock()
	runs, now := l.runs, time.Now()
	if known := !l.looked.IsZero(); known && now.Sub(l.looked) < lookEvery {
		l.mu.Unlock()
		return runs
	} else if known {
		l.looked = now
	}
	l.mu.Unlock()
	runs = Stopped(ctx, db)
	if runs != nil && !errors.Is(runs, ErrRuns) {
		return runs
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !now.Before(l.looked) {
		l.looked, l.runs = now, runs
	}
	return runs
}
