package book

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Answer is what a field's source held at a time: the sum of a field of the shards, or what a query says of
// documents.
type Answer struct {
	Value   *firestorepb.Value // an integer, a double, or null
	At      time.Time
	Numbers int64 // that a sum of shards is of
}

// Sums asks what the shards of a counter hold of fields, side by side and all as of one time: one after the other they
// would take an edit of many fields longer than the second between two refreshes of a busy counter. The zero time is
// now: that of the first field's answer, for which the others wait. The answers are by the names of their fields. Where
// least has a field of the shards, its sum is of those that hold at least so much.
func (books Books) Sums(ctx context.Context, counter string, fields layout.Fields, least map[string]int64, at time.Time) (map[string]Answer, error) {
	list := make([]Answer, len(fields))
	ask := func(i int) (err error) {
		a := &list[i]
		var from *int64
		if n, bounded := least[fields[i].Shard]; bounded {
			from = &n
		}
		if a.Value, a.Numbers, a.At, err = books.db.Sum(ctx, books.db.Layout.ShardsOf(counter), fields[i].Shard, from, at); err != nil {
			return fmt.Errorf("sum shards: %w", err)
		}
		if a.Numbers == 0 {
			a.Value = store.Int(fields[i].OfNone())
		}
		return nil
	}
	var group errgroup.Group
	for i := range fields {
		if !at.IsZero() {
			group.Go(func() error { return ask(i) })
		} else if err := ask(i); err != nil {
			return nil, err
		} else {
			at = list[i].At
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	answers := make(map[string]Answer, len(fields))
	for i, field := range fields {
		answers[field.Name] = list[i]
	}
	return answers, nil
}

// FieldDiff is what an answer changes of a field.
type FieldDiff struct {
	Field         layout.Field
	Before, After *firestorepb.Value // what the document shows; Before is nil where that was nothing
	Delta         int64              // from Before to After; 0 of a field that isn't an integer
	// Drift is by how much something else had changed the number since this module wrote it.
	Drift    int64
	Replaced int64 // the number that stood there before the field was first shown
}

// Draft is what [Book.Show] makes of answers.
type Draft struct {
	After   *Book // as the commit leaves it: see [Books.Commit]
	Writes  []*firestorepb.Write
	Beside  []*firestorepb.Write // of other documents, which the caller adds; none without the document's
	Changes []FieldDiff
	// AskAgain are names of fields whose answers are older than the document, which doesn't say as of when it shows
	// them: they must be asked again.
	AskAgain []string
	Problems []string // why fields can't be shown
}

// MayShow reports whether a total may replace what the document's field holds.
func (b *Book) MayShow(field layout.Field) bool { return whyBlocked(b.names(), b.Doc, field) == "" }

// Total is what a field should show by an answer: with the base, and of an integer the whole part. Its error says why
// it can't be shown.
func (b *Book) Total(field layout.Field, a Answer) (*firestorepb.Value, error) {
	switch why := whyBlocked(b.names(), b.Doc, field); {
	case why != "":
		return nil, errors.New(why)
	case !field.Integer() && store.IsInteger(a.Value): // all summands are whole
		return store.Double(float64(a.Value.GetIntegerValue())), nil
	case !field.Integer():
		return a.Value, nil
	}
	total, ok := b.Base.Total(field, a.Value) // of what counts documents there is no base
	if !ok {
		return nil, fmt.Errorf("%s is beyond ±2⁶³, or not finite, so it isn't shown: set right what it is made of", field)
	}
	return store.Int(total), nil
}

// Total is what a field of the shards comes to with the base, by their sum. It reports false of what isn't finite, or
// is beyond ±2⁶³.
func (base Base) Total(field layout.Field, sum *firestorepb.Value) (int64, bool) {
	n, ok := Whole(sum)
	total := store.Add(n, base.Counts[field.Shard])
	return total, ok && store.Sub(total, n) == base.Counts[field.Shard]
}

// Whole is the whole part of a number; 0 of null, and of what isn't there. It reports false of what isn't finite, or is
// beyond ±2⁶³.
func Whole(sum *firestorepb.Value) (int64, bool) {
	switch v := sum.GetValueType().(type) {
	case nil, *firestorepb.Value_NullValue:
		return 0, true
	case *firestorepb.Value_IntegerValue:
		return v.IntegerValue, true
	case *firestorepb.Value_DoubleValue:
		if math.Abs(v.DoubleValue) < 1<<63 { // which NaN isn't
			return int64(v.DoubleValue), true
		}
	}
	return 0, false
}

// Show is the commit that has the document show answers, by their fields' names, each of which is newer than what it
// shows. The document must be there. An answer that is as old as the document, or older, is shown only in the place of
// an older one: so one that took long can be shown on whatever version there is by then. Where nothing is to be shown
// there is nothing to write.
//
// The document says that it may be refreshed again from next on; as before, where that is zero. An integer is
// incremented by its delta; what isn't one is set. On condition of the version both are the same.
func (b *Book) Show(answers map[string]Answer, next time.Time) Draft {
	b = b.WithExtensionNumbers(slices.Collect(maps.Keys(answers)))
	asOf, lastShown := b.believed()
	s := showing{Draft: Draft{After: b.copy()}, before: b, asOf: asOf, lastShown: lastShown, set: map[string]*firestorepb.Value{}}
	s.After.Base.Gone = time.Time{} // the document is there, so what is below it isn't removed
	for _, field := range b.names().Shown() {
		a, answered := answers[field.Name]
		if asOfNow := b.AsOf(field); !asOfNow.IsZero() {
			if answered && a.At.After(asOfNow) {
				s.addField(field, a)
			}
			continue
		}
		since, entry := b.since(field)
		if entry != nil {
			s.lastShown[field.Name] = store.Map(entry)
		}
		switch {
		case !answered:
		case a.At.Before(since):
			s.AskAgain = append(s.AskAgain, field.Name)
			s.writesSince = s.writesSince || entry != nil
		default:
			s.addField(field, a)
		}
	}
	s.write(next)
	return s.Draft
}

// showing is a [Draft] that [Book.Show] puts together, field by field. Its After is changed on the way.
type showing struct {
	Draft
	before *Book // the book as it was read, and what its base is to hold more: it isn't changed

	asOf, lastShown map[string]*firestorepb.Value // what the document's map is to say: [layout.AsOf], [layout.LastShown]
	writesSince     bool                          // lastShown says of an early field since when its answers are shown

	set        map[string]*firestorepb.Value // the document's fields that the commit sets
	increments []*firestorepb.DocumentTransform_FieldTransform
}

// addField has the document show what a field comes to by an answer, or says why it can't.
func (s *showing) addField(field layout.Field, a Answer) {
	total, err := s.before.Total(field, a)
	if err != nil {
		s.Problems = append(s.Problems, err.Error())
		return
	}
	c := s.before.change(field, total)
	c.Replaced = s.After.takeOver(field)
	s.Changes = append(s.Changes, c)
	if c.increments() {
		s.increments = append(s.increments, store.Increment(layout.FieldPath(field.Name), c.Delta))
	} else {
		s.set[field.Name] = total
	}
	put(&s.After.Doc.Fields, field.Name, total)
	s.asOf[field.Name] = store.Time(a.At)
	s.lastShown[field.Name] = store.Map(map[string]*firestorepb.Value{shownKey: store.String(field.Key()), shownValue: total})
}

// write adds the writes of the document and of its base, where they change.
func (s *showing) write(next time.Time) {
	b := s.before
	base, baseChanges := s.After.writeBase(nil), s.After.baseChanged()
	s.After.wasBase = s.After.Base
	// A caller's change of the base goes with the document's write, even if no answer is shown.
	if len(s.Changes) == 0 && !s.writesSince && !b.baseChanged() {
		if baseChanges {
			s.Writes, s.After.Doc = []*firestorepb.Write{base}, nil
		}
		return
	}
	ours := map[string]*firestorepb.Value{
		layout.AsOf: store.Map(s.asOf), layout.LastShown: store.Map(s.lastShown), layout.CounterPath: store.String(b.path()),
		layout.HostedMark: store.Bool(b.names().Hosted),
	}
	if !next.IsZero() {
		ours[layout.NextRefresh] = store.Time(next)
	}
	s.set[layout.Rollup] = store.Map(ours)
	all := maps.Clone(rollupOf(b.Doc))
	for name, value := range ours {
		put(&all, name, value)
	}
	put(&s.After.Doc.Fields, layout.Rollup, store.Map(all))
	transforms := append(s.increments, store.ServerTime(b.names().OwnPath(layout.UpdatedAt)))
	w := store.Update(b.Doc.GetName(), store.IfVersion(b.Version()), s.set, nil, transforms...)
	s.Writes = []*firestorepb.Write{w}
	if baseChanges || !b.HasBase() { // walks find the counter by it
		s.Writes = append(s.Writes, base)
	}
}

// writesDocument reports whether a write changes the document, and not the base alone.
func (s Draft) writesDocument() bool { return len(s.Writes) > 0 && s.After.Doc != nil }

// change is what a field shows, and what it is to show.
func (b *Book) change(field layout.Field, total *firestorepb.Value) FieldDiff {
	c := FieldDiff{Field: field, Before: b.Doc.GetFields()[field.Name], After: total}
	if !field.Integer() {
		return c
	}
	n, _ := Whole(c.Before)
	c.Delta = store.Sub(total.GetIntegerValue(), n)
	if last := b.Written(field); last != nil {
		c.Drift = store.Sub(n, last.GetIntegerValue())
	}
	return c
}

// increments reports whether an increment by Delta makes Before to After. Delta is bounded: it may be less than what is
// between them.
func (c FieldDiff) increments() bool {
	before, integer := c.Before.GetValueType().(*firestorepb.Value_IntegerValue)
	return integer && c.Field.Integer() && before.IntegerValue+c.Delta == c.After.GetIntegerValue()
}

// Replaced is the number that stood in a field before it was first shown: as the base has it, or, where that doesn't
// say, as it stands there.
func (b *Book) Replaced(field layout.Field) int64 {
	if n, noted := b.Base.Replaced[field.Name]; noted || b.Written(field) != nil { // or the base is lost, and the number ours
		return n
	}
	n, _ := store.Integer(b.Doc.GetFields()[field.Name])
	return n
}

// WithBase is the book with a base that holds more of some fields, by their names: [Book.Show] writes it.
func (b *Book) WithBase(more map[string]int64) *Book {
	after := b.copy()
	for _, field := range b.names().Sharded {
		if n, is := more[field.Name]; is {
			put(&after.Base.Counts, field.Shard, store.Add(b.Base.Counts[field.Shard], n))
		}
	}
	return after
}

// TookOver reports whether the base says that a field was shown, and what became of the number that stood there before.
func (b *Book) TookOver(field layout.Field) bool {
	_, taken := b.Base.Replaced[field.Name]
	return taken
}

// WithExtensionNumbers is the book whose base also holds the numbers that the extension has counted. It takes those of
// the named fields that were never shown: their totals go on from there. Without EXTENSION it is the book itself.
func (b *Book) WithExtensionNumbers(fields []string) *Book {
	if !b.names().Extension || b.Unusable != nil {
		return b
	}
	more := map[string]int64{}
	for _, name := range fields {
		field, sum := b.names().Field(name)
		if sum && field.Plain() && !b.TookOver(field) && b.MayShow(field) {
			more[name] = b.Replaced(field)
		}
	}
	if len(more) == 0 {
		return b
	}
	after := b.WithBase(more)
	for name := range more {
		put(&after.Base.Replaced, name, 0) // the number is in Counts now: nobody counts it again
	}
	return after
}

// takeOver notes in the base that a field is shown, and the number that it replaces, which is the app's. It returns
// that number the first time.
func (b *Book) takeOver(field layout.Field) (replaced int64) {
	if b.TookOver(field) || field.Counted != nil {
		return 0
	}
	replaced = b.Replaced(field)
	put(&b.Base.Replaced, field.Name, replaced)
	put(&b.Base.Counts, field.Shard, b.Base.Counts[field.Shard]) // 0 where there is none: who removes the counter reads its fields here
	return replaced
}

// believed are the entries of the document's map, if it is this counter's: of [layout.AsOf] and of [layout.LastShown].
// It leaves out the times of fields that this revision doesn't show: an event may have told this revision of a change
// that only another one shows, and that one then asks for the field again.
func (b *Book) believed() (asOf, lastShown map[string]*firestorepb.Value) {
	asOf, lastShown = map[string]*firestorepb.Value{}, map[string]*firestorepb.Value{}
	if ours := rollupOf(b.Doc); ours[layout.CounterPath].GetStringValue() == b.path() {
		for _, name := range b.names().Shown().Names() {
			if at := ours[layout.AsOf].GetMapValue().GetFields()[name]; at != nil {
				asOf[name] = at
			}
		}
		for name, entry := range ours[layout.LastShown].GetMapValue().GetFields() {
			if entry.GetMapValue().GetFields()[shownSince] == nil || slices.Contains(b.names().Shown().Names(), name) {
				lastShown[name] = entry
			}
		}
	}
	return asOf, lastShown
}

// Unknown are the fields that count documents and may be shown, and of which nobody knows as of when the document shows
// them.
func (b *Book) Unknown() (fields layout.Fields) {
	for _, field := range b.names().Counted {
		if b.AsOf(field).IsZero() && b.MayShow(field) {
			fields = append(fields, field)
		}
	}
	return fields
}

// Commit commits what a plan shows, on condition of the versions that it has read: see [store.DB.CommitIf]. If the
// document has no room, the base is written alone.
func (books Books) Commit(ctx context.Context, p store.Patience, plan func(context.Context) (Draft, error)) (Committed, error) {
	var last Draft
	full := false
	p.Smaller = func(writes []*firestorepb.Write) []*firestorepb.Write {
		if full = len(writes) > 0; !full || len(last.Beside) > 0 { // whoever reads would see a number fall
			return nil
		}
		return writes[1:]
	}
	var sent time.Time
	resp, err := books.db.CommitIf(ctx, p, func(ctx context.Context) (_ []*firestorepb.Write, err error) {
		last, err = plan(ctx)
		sent = time.Now()
		return slices.Concat(last.Writes, last.Beside), err
	})
	if err != nil || resp == nil {
		return Committed{Full: full}, err
	}
	return Committed{Wrote: true, After: last.Committed(resp), Took: time.Since(sent), Full: full}, nil
}

// Committed is the book after its commit of [Draft.Writes], whose answer says of which versions document and base
// are now; nil if only a read can tell.
func (s Draft) Committed(resp *firestorepb.CommitResponse) *Book {
	results := resp.GetWriteResults()
	if len(results) < len(s.Writes) || s.After == nil || s.After.Doc == nil {
		return nil
	}
	s.After.Doc.UpdateTime = timestamppb.New(results[0].GetUpdateTime().AsTime())
	s.After.At = resp.GetCommitTime().AsTime()
	if len(s.Writes) > 1 {
		s.After.baseVersion = results[1].GetUpdateTime().AsTime()
	}
	return s.After
}

// Committed is what became of a commit.
type Committed struct {
	Wrote bool
	After *Book         // as it is by now; nil if only a read can tell
	Took  time.Duration // the commit that was applied
	Full  bool          // the document had no room, and was not written
}
