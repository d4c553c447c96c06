package book

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Edit is a command on its way: what is to change of a counter's base, and beside it. Document and base are as of
// one time, and so are the sums that it asks for.
type Edit struct {
	*Book
	// Applied is called once this edit is known to be the one that was committed; may be nil.
	Applied func()

	totals layout.Fields     // that change
	sums   map[string]Answer // :: field → what the shards hold of it
	beside []*firestorepb.Write
}

// An edit goes on for about fifteen seconds, and is in doubt for editTimeout at most: far less than its marker stays.
var editPatience = store.Patience{Conflicts: 20, Doubts: 20}

const (
	editTimeout = 10 * time.Minute
	// markedFor is how long the marker of an edit stays at least.
	markedFor = time.Hour
	markerTry = "try" // field of a marker: which of the edit's attempts it is of
)

// Edit carries out once what must not be applied twice, such as a reset. It is one commit, on condition that
// document and base are the versions that were read, and it leaves a marker. If the commit's answer is lost, the
// marker tells whether it was applied. Nothing that increments write is on its condition, so a crowd doesn't keep it
// from succeeding; roll-ups are, about one a second.
//
// decide may be called several times, and reports false if there is nothing to do. Errors are decide's, [ErrNotFound],
// [ErrDamaged], [store.ErrContention], [store.ErrDoubt], or the client library's.
func (books Books) Edit(ctx context.Context, counter string, decide func(context.Context, *Edit) (do bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, editTimeout)
	defer cancel()
	marker := books.db.Layout.Request(rand.Text())
	var tries []*Edit
	var last *Edit
	var life Life // that the command is about
	_, err := books.db.CommitIf(ctx, editPatience, func(ctx context.Context) ([]*firestorepb.Write, error) {
		last = nil
		list, docs, err := books.Get(ctx, books.db, []string{counter}, marker)
		if err != nil {
			return nil, fmt.Errorf("read counter: %w", err)
		}
		e := &Edit{Book: list[0].copy()}
		switch {
		case docs[0] != nil: // also where the counter is gone, or being deleted, by now
			last = tries[docs[0].GetFields()[markerTry].GetIntegerValue()]
			return nil, nil
		case e.Unusable != nil:
			return nil, e.Unusable
		case e.Doc == nil || e.Deleting() || len(tries) > 0 && life.Over(e.Life()):
			// gone, or another was made, which a late command leaves alone
			return nil, ErrNotFound
		}
		if len(tries) == 0 {
			life = e.Life()
		}
		do, err := decide(ctx, e)
		if err != nil || !do {
			return nil, err
		}
		writes, err := e.writes(ctx)
		if err != nil {
			return nil, err
		}
		last = e
		tries = append(tries, e)
		return append(writes, store.Create(marker, map[string]*firestorepb.Value{
			layout.ExpireAt: store.Time(books.db.Later().Add(markedFor)), markerTry: store.Int(int64(len(tries) - 1)),
		})), nil
	})
	if err == nil && last != nil && last.Applied != nil {
		last.Applied()
	}
	return err
}

// Sum is what the shards hold of a field, as of the edit's time.
func (e *Edit) Sum(ctx context.Context, field layout.Field) (int64, error) {
	if err := e.Ask(ctx, field); err != nil {
		return 0, err
	}
	value := e.sums[field.Name].Value
	n, ok := Whole(value)
	if !ok {
		sum, _ := store.Float(value)
		return 0, fmt.Errorf("%w: the sum of %s is %v: set right what its shards hold", store.ErrNotInteger, field.Shard, sum)
	}
	return n, nil
}

// Ask asks for the sums of fields, each once.
func (e *Edit) Ask(ctx context.Context, fields ...layout.Field) error {
	fields = slices.DeleteFunc(slices.Clone(fields), func(field layout.Field) bool { _, asked := e.sums[field.Name]; return asked })
	answers, err := e.books.Sums(ctx, e.Counter, fields, nil, e.At)
	for name, a := range answers {
		put(&e.sums, name, a)
	}
	return err
}

// SetBase sets what a field's total holds beyond its shards. Nobody counts any more the number that the total has
// replaced.
func (e *Edit) SetBase(field layout.Field, n int64) {
	e.TakeReplaced(field)
	e.setBase(field, n)
}

func (e *Edit) setBase(field layout.Field, n int64) {
	put(&e.Base.Counts, field.Shard, n)
	e.totals = append(e.totals, field)
}

// Add adds to what a field's total holds beyond its shards. Its error is an [ErrBeyond] if the base has no room.
func (e *Edit) Add(field layout.Field, n int64) error {
	was := e.Base.Counts[field.Shard]
	base := store.Add(was, n)
	if store.Sub(base, was) != n { // what was counted there would be lost
		return fmt.Errorf("%w: its shards aside, the counter holds %d, which has no room for %d more: rebase it first", ErrBeyond, was, n)
	}
	e.setBase(field, base)
	return nil
}

// SetTotal sets a field's total: its base is what that is beyond its shards. If the base would be beyond an int64,
// the total is as close as it gets.
func (e *Edit) SetTotal(ctx context.Context, field layout.Field, total int64) error {
	sum, err := e.Sum(ctx, field)
	if err == nil {
		e.SetBase(field, store.Sub(total, sum))
	}
	return err
}

// Overwrite shows a field's total in the place of whatever stands there, such as a list whose ids are members by now.
// Nothing of that counts any more.
func (e *Edit) Overwrite(field layout.Field) {
	delete(e.Doc.Fields, field.Name)
	e.TakeReplaced(field)
	e.totals = append(e.totals, field)
}

// TakeReplaced returns the number that a total has replaced, or is about to replace, for the caller to count it in
// another way. The second time it returns 0.
func (e *Edit) TakeReplaced(field layout.Field) int64 {
	kept := e.Replaced(field)
	put(&e.Base.Replaced, field.Name, 0)
	return kept
}

// Take is [Edit.Add] of what has come since of a source, of which the base holds so much then.
func (e *Edit) Take(source string, value int64, field layout.Field, added int64) error {
	put(&e.Base.Sources, source, value)
	return e.Add(field, added)
}

// Beside adds writes of other documents to the commit.
func (e *Edit) Beside(writes ...*firestorepb.Write) { e.beside = append(e.beside, writes...) }

// writes are those of document and base, and of others. The document is written in any case, so that whatever was
// asked before, with the old base, is not shown any more.
func (e *Edit) writes(ctx context.Context) ([]*firestorepb.Write, error) {
	// Of others the base changes, though nothing shows the total.
	shown := slices.DeleteFunc(slices.Clone(e.totals), func(field layout.Field) bool { return !e.MayShow(field) })
	if err := e.Ask(ctx, shown...); err != nil {
		return nil, err
	}
	answers := map[string]Answer{}
	for _, field := range shown {
		answers[field.Name] = e.sums[field.Name]
	}
	draft := e.Show(answers, time.Time{})
	if len(draft.Problems) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrBeyond, draft.Problems[0])
	}
	if !draft.writesDocument() { // no number changes
		draft.Writes = append(draft.Writes, store.Update(e.Doc.GetName(), store.IfVersion(e.Version()), nil, nil, store.ServerTime(e.names().OwnPath(layout.UpdatedAt))))
		if !e.HasBase() { // makes one: walks find the counter by it
			draft.Writes = append(draft.Writes, e.writeBase(nil))
		}
	}
	return append(draft.Writes, e.beside...), nil
}
