package rollup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// errUnfinished says that the counter's deletion isn't finished. Its note stays until somebody finishes it.
var errUnfinished = errors.New("its deletion was not finished")

// errUnanswered says that queries got no answer in time. Events that were acknowledged for a note may not be counted
// yet.
var errUnanswered = errors.New("its queries got no answer in time")

// reconcile is [Client.Reconcile] with options of its own.
func (c *Client) reconcile(ctx context.Context, counter string, opts ReconcileOptions) (Report, error) {
	if err := c.extension.Check(ctx, c.db); err != nil && !opts.DryRun {
		return Report{Counter: counter}, err
	}
	r := reconciling{client: c, opts: opts, report: Report{Counter: counter}}
	again, err := r.run(ctx)
	if again {
		deleted := r.report.Deleted
		opts.Remove = nil
		r = reconciling{client: c, opts: opts, report: Report{Counter: counter, Deleted: deleted}, spared: !deleted}
		_, err = r.run(ctx)
	}
	if err == nil && opts.noted && (r.asked.unanswered || r.unseen) {
		err = errUnanswered
	}
	return r.report, err
}

// reconciling is a reconcile on its way: a refresh without an event, that names what is wrong.
type reconciling struct {
	client   *Client
	opts     ReconcileOptions
	report   Report
	looked   bool // what was found first is in the report
	problems []string
	asked    asked // what the queries said
	counted  bool  // they were asked
	unseen   bool  // shards of the extension's may hold what was acknowledged for a note
	held     bool  // holds that are over were ended
	spared   bool  // the counter is back, so what is below its missing document stays for its whole time again
	// the counter is over: its remains are removed, unless something was written after since
	over   bool
	since  time.Time
	remade bool // the app has made its document again
	idle   bool // nothing has written the counter since that time, and there is nothing to show
}

// run reconciles the counter, and removes the remains of one that is over. It reports whether to reconcile it again: it
// is back, or events that came while it was being deleted were acknowledged for its note.
func (r *reconciling) run(ctx context.Context) (again bool, err error) {
	c, counter := r.client, r.report.Counter
	for more, early := true, 0; more && err == nil && ctx.Err() == nil; {
		var s book.Shown
		if s, more, err = r.show(ctx); len(s.Early) == 0 || err != nil {
			continue
		}
		if early++; early == 2 {
			err = fmt.Errorf("%w: what counts documents was asked for before others wrote the counter", ErrContention)
		}
		more, r.counted = true, false // the document says by now from when on an answer is new, and the next one is newer
	}
	r.report.Problem = strings.Join(append(r.problems, r.asked.problems...), "; ")
	if r.opts.budget != nil {
		r.opts.budget.Add(-r.report.Reads)
	}
	if err == nil && r.idle && r.report.Right() && ctx.Err() == nil {
		if r.report.Idle, err = r.opts.RemoveIdle(ctx, counter, r.since); err != nil {
			return false, fmt.Errorf("remove it, because it is idle: %w", err)
		}
		c.known.Remove(counter)
	}
	if err != nil || !r.over {
		return false, err
	}
	removed := r.opts.DryRun
	if !removed {
		if removed, err = r.opts.Remove(ctx, counter, r.since); err != nil {
			return false, fmt.Errorf("remove what is left of it: %w", err)
		}
		c.known.Remove(counter)
		again = ctx.Err() == nil && (!removed || r.remade && r.opts.noted)
	}
	if removed {
		r.report.Deleted, r.report.Gone = true, false
	}
	return again, nil
}

// show has the document show what the counter's fields hold. It reports whether there is more to take over.
func (r *reconciling) show(ctx context.Context) (s book.Shown, more bool, err error) {
	c := r.client
	var moved extension.Moved
	done, err := c.books.Commit(ctx, thorough, func(ctx context.Context) (book.Shown, error) {
		s, moved = book.Shown{}, extension.Moved{}
		b, err := r.find(ctx)
		if err != nil || b == nil {
			return s, err
		}
		if err = r.endHolds(ctx, b); err != nil {
			return s, err
		}
		r.problems = nil
		if moved, err = extension.Take(ctx, c.db, b, nil, true); err != nil {
			return s, err
		}
		r.unseen = moved.Unseen
		answers, err := r.answers(ctx, moved)
		if err != nil {
			return s, err
		}
		s = moved.Show(answers, time.Time{})
		r.problems = slices.Concat(r.problems, moved.Problems, s.Problems)
		r.account(moved.Book, s, answers)
		r.idle = len(s.Writes) == 0 && r.isIdle(b)
		if r.opts.DryRun {
			s = book.Shown{}
		}
		return s, nil
	})
	if err == nil && done.Full {
		r.problems = append(r.problems, problemTooLarge)
	}
	if err == nil && done.Wrote {
		moved.Sweep(ctx, c.db)
	}
	return s, done.Wrote && !done.Full && len(moved.Writes) == extension.AtOnce, err
}

// isIdle reports whether a counter of ours may be removed because nothing has written it for long, as far as document
// and base tell.
func (r *reconciling) isIdle(b *book.Book) bool {
	if r.opts.RemoveIdle == nil || r.opts.DryRun || r.opts.noted || !b.Made() {
		return false
	}
	for _, field := range r.client.db.Layout.Fields {
		if n, ok := book.Whole(b.Doc.GetFields()[field.Name]); r.opts.IdleAtZero && field.LimitOf == "" && (!ok || n != 0) {
			return false
		}
	}
	r.since = b.At.Add(-cmp.Or(r.opts.CleanupAfter, defaultCleanupAfter))
	return !b.Version().After(r.since) && !b.BaseVersion().After(r.since)
}

// find reads the counter. If it was never rolled up, find makes its document. It returns nil if there is nothing to
// show.
func (r *reconciling) find(ctx context.Context) (*book.Book, error) {
	c, counter := r.client, r.report.Counter
	r.over = false
	b, err := c.books.Read(ctx, counter)
	if err == nil && b.Doc == nil && b.Unusable == nil && !b.Deleting() {
		if made, err := r.gone(ctx, b); err != nil || !made {
			return nil, err
		}
		if b, err = c.books.Read(ctx, counter); err == nil && b.Doc == nil {
			return nil, nil
		}
	}
	switch {
	case err != nil:
		return nil, err
	case b.CheckSettings() != nil && r.opts.budget != nil && !b.HasBase():
		return nil, r.foreign(ctx, b, b.Unusable)
	case b.Deleting() && b.CheckSettings() == nil: // whatever is in its shards
		return nil, r.unfinished(b)
	}
	return b, b.Unusable
}

// answers are those that the document must show: those that differ from what it shows, or of which nobody knows as of
// when it shows them; all counts of documents, or each walk would ask again; and for a note, or without a base, all.
func (r *reconciling) answers(ctx context.Context, moved extension.Moved) (map[string]book.Answer, error) {
	b := moved.Book
	answers, err := r.sums(ctx, b)
	if err == nil && !r.counted {
		r.counted, err = true, r.ask(ctx, b)
	}
	if err != nil {
		return nil, err
	}
	maps.Copy(answers, r.asked.answers)
	if r.opts.noted || !b.HasBase() {
		return answers, nil
	}
	for _, field := range r.client.db.Layout.Fields {
		total, err := b.Total(field, answers[field.Name])
		_, moved := moved.Amounts[field.Name]
		if !moved && err == nil && !b.AsOf(field).IsZero() && proto.Equal(total, b.Doc.GetFields()[field.Name]) {
			delete(answers, field.Name)
		}
	}
	return answers, nil
}

// sums asks for the sums of the shards, as of the time of the book. If one holds no whole number, or each is to be
// looked at, it reads the shards, and names what is wrong with them.
func (r *reconciling) sums(ctx context.Context, b *book.Book) (map[string]book.Answer, error) {
	db, collection := r.client.db, r.client.db.Layout.ShardsOf(b.Counter)
	answers := map[string]book.Answer{}
	look := r.opts.each
	for _, field := range db.Layout.Fields {
		sum, err := r.client.books.Sum(ctx, b.Counter, field, b.At)
		if err != nil {
			return nil, err
		}
		answers[field.Name] = sum
		if look = look || !store.IsInteger(sum.Value); look {
			continue
		}
		if n := book.NumShards(db.Layout, b.Doc); n == 0 || sum.Numbers != int64(n) || field.Limit != nil {
			has, err := db.Count(ctx, collection, field.Shard, b.At)
			if err != nil {
				return nil, fmt.Errorf("count shards: %w", err)
			}
			look = has != sum.Numbers // one holds a text
		}
	}
	if !look {
		return answers, nil
	}
	if !r.opts.each {
		r.opts.each, r.held = true, false // look for holds in all fields
		if err := r.endHolds(ctx, b); err != nil {
			return nil, err
		}
	}
	shards, err := r.client.books.Shards(ctx, db, b.Counter, b.At)
	if err != nil {
		return nil, err
	}
	if problem := r.client.problemOf(shards); problem != "" {
		r.problems = append(r.problems, problem)
	}
	for _, field := range db.Layout.Fields { // a query leaves NaN out
		answers[field.Name] = book.Answer{Value: shards.Add(field), At: b.At}
	}
	return answers, nil
}

// foreign is for a document of the app's own that a walk finds among counters. It returns the error that says so if
// something is counted below the document.
func (r *reconciling) foreign(ctx context.Context, b *book.Book, others error) error {
	shards, err := r.client.db.Documents(ctx, store.Query{Collection: r.client.db.Layout.ShardsOf(b.Counter), Limit: 1, Names: true})
	if err != nil {
		return fmt.Errorf("look for shards: %w", err)
	}
	if r.report.Gone = len(shards) == 0; r.report.Gone {
		return nil
	}
	return others
}

// endHolds ends holds that are over, for a read per field with a limit. If each shard is looked at, so are all fields:
// a restore may have lost the entries of holds.
func (r *reconciling) endHolds(ctx context.Context, b *book.Book) error {
	if r.held || r.opts.DryRun {
		return nil
	}
	r.held = true
	fields := r.client.db.Layout.Limited()
	if r.opts.each {
		fields = append(fields, r.client.db.Layout.Plain()...)
	}
	for _, field := range fields {
		if _, err := hold.In(r.client.db).End(ctx, b.Counter, field); err != nil {
			return fmt.Errorf("end holds: %w", err)
		}
	}
	return nil
}

// ask asks all queries of a counter that was named; a walk those that nothing has asked for long, within its budget.
func (r *reconciling) ask(ctx context.Context, b *book.Book) error {
	var due layout.Fields
	for _, field := range r.client.db.Layout.Counted {
		at := b.AsOf(field)
		old := at.IsZero() || b.At.Sub(at) >= cmp.Or(r.opts.RecountAge, defaultRecountAge)
		if r.opts.budget == nil || old && r.opts.budget.Load() > 0 {
			due = append(due, field)
		}
	}
	got, err := r.client.ask(ctx, b.Counter, due)
	if err != nil {
		return fmt.Errorf("count documents: %w", err)
	}
	r.report.Reads += got.reads
	for _, field := range due {
		if a, ok := got.answers[field.Name]; ok && field.Integer() && !store.IsInteger(a.Value) {
			if _, whole := store.Integer(a.Value); !whole {
				got.problems = append(got.problems, fmt.Sprintf("%s is no whole number, because some of the documents hold fractions: its whole part is shown; set them to integers, or show it as double", field))
			}
		}
	}
	r.asked = got
	return nil
}

// unfinished is for a counter whose deletion is under way, or was cut short.
func (r *reconciling) unfinished(b *book.Book) error {
	if r.over = r.opts.Remove != nil; !r.over {
		r.problems = []string{"its deletion was not finished: delete it again"}
	}
	r.remade, r.report.Gone = b.Doc != nil, b.Doc == nil
	if r.opts.noted && !r.over {
		return errUnfinished
	}
	return nil
}

// gone is for a counter whose document is missing. If it was never rolled up, and has shards, gone makes its document,
// unless the app makes documents. If the app's own document has been gone for long, the counter is over.
func (r *reconciling) gone(ctx context.Context, b *book.Book) (made bool, err error) {
	if r.report.Gone = true; !b.HasBase() {
		if !r.opts.DryRun {
			documents := false
			if r.opts.noted { // perhaps for events of its collections
				if err := r.ask(ctx, b); err != nil {
					return false, err
				}
				documents = anyCounted(r.asked.answers)
			}
			made, err = r.client.appear(ctx, b.Counter, documents)
			r.report.Adopted, r.report.Gone = made, !made
		}
		return made, err
	}
	r.since = b.Base.Gone
	long := !r.since.IsZero() && b.At.Sub(r.since) >= cmp.Or(r.opts.CleanupAfter, defaultCleanupAfter)
	if r.over = r.opts.Remove != nil && long && r.client.db.Layout.Hosted; r.opts.DryRun || !r.since.IsZero() && !r.spared {
		return false, nil
	}
	_, err = r.client.books.Commit(ctx, thorough, func(ctx context.Context) (book.Shown, error) {
		b, err := r.client.books.Read(ctx, b.Counter)
		if err != nil || b.Doc != nil || !b.HasBase() || b.Unusable != nil || b.Deleting() || !b.Base.Gone.Equal(r.since) {
			return book.Shown{}, err
		}
		return b.NoteGone(), nil
	})
	return false, err
}

// account says in the report what the fields were, and what they are from now on: as it was found first.
func (r *reconciling) account(b *book.Book, s book.Shown, answers map[string]book.Answer) {
	if r.looked {
		return
	}
	r.looked = true
	r.report.Adopted = r.report.Adopted || !b.HasBase()
	for i, field := range r.client.db.Layout.Shown() {
		c := book.Change{Field: field, Before: b.Doc.GetFields()[field.Name], After: b.Doc.GetFields()[field.Name]}
		for _, change := range s.Changes {
			if change.Field.Name == field.Name {
				c = change
			}
		}
		if !field.Integer() {
			if r.report.Doubles == nil {
				r.report.Doubles = map[string]DoubleReport{}
			}
			r.report.Doubles[field.Name] = DoubleReport{Before: store.Number(c.Before), After: store.Number(c.After)}
			continue
		}
		f := FieldReport{Drift: c.Drift}
		f.Before, _ = book.Whole(c.Before)
		f.After, _ = book.Whole(c.After)
		if a, asked := answers[field.Name]; asked && !b.MayShow(field) { // its total counts, though nothing shows it
			f.After, _ = b.Base.Total(field, a.Value)
			f.Before = f.After
		}
		f.Late = store.Sub(f.After, store.Sub(f.Before, f.Drift))
		if i == 0 {
			r.report.FieldReport = f
			continue
		}
		if r.report.Fields == nil {
			r.report.Fields = map[string]FieldReport{}
		}
		r.report.Fields[field.Name] = f
	}
}
