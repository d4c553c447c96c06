package rollup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// thorough is how long a reconcile goes on.
var thorough = store.Patience{Conflicts: 18, Doubts: 12}

// errUnfinished: the counter's deletion is to be finished, and then its note goes with it.
var errUnfinished = errors.New("its deletion was not finished")

// errUnanswered: queries got no answer in time, so events that were acknowledged for a note may be in none.
var errUnanswered = errors.New("its queries got no answer in time")

// reconcile is [Client.Reconcile] with options of its own.
func (c *Client) reconcile(ctx context.Context, counter string, opts ReconcileOptions) (Report, error) {
	r := reconciling{client: c, opts: opts, report: Report{Counter: counter}}
	back, err := r.run(ctx)
	if back { // what was to be removed
		opts.Remove = nil
		r = reconciling{client: c, opts: opts, report: Report{Counter: counter}}
		_, err = r.run(ctx)
	}
	if err == nil && opts.noted && r.asked != nil && r.asked.unanswered {
		err = errUnanswered
	}
	return r.report, err
}

// reconciling is a reconcile on its way.
type reconciling struct {
	client     *Client
	opts       ReconcileOptions
	report     Report
	problems   []string
	odd        string            // what is wrong with the shards
	faults     []book.ShareFault // what is wrong with the shares of its limits
	mended     bool              // these were given out anew, once
	found      *book.Book        // with the counter's document as it was before adoption
	snap       *ledger.Snapshot  // of the shards, once there was a reason to read them
	asked      *asked            // what the queries said, once they were asked
	held       bool              // holds that are over were ended
	tried      bool              // a commit was planned, and is accounted for
	impossible bool              // it is to take what can't be out of the ledger
	// the counter's life is over: what is left of it is to be removed
	over    bool
	version time.Time // of its ledger
}

// run reconciles, and removes what is left of a counter whose life is over. It reports whether that one
// is back.
func (r *reconciling) run(ctx context.Context) (back bool, err error) {
	c, counter := r.client, r.report.Counter
	committed, err := c.books.Update(ctx, thorough, r.change)
	if committed != nil && r.impossible {
		// what was passed over until this commit is looked for, shard by shard
		r.opts.each, r.snap = true, nil
		committed, err = c.books.Update(ctx, thorough, r.change)
	}
	c.known.Remove(counter)
	if committed != nil && committed.Alone() { // the ledger is corrected all the same
		r.problems = append(r.problems, problemTooLarge)
	}
	if r.odd != "" {
		r.problems = append([]string{r.odd}, r.problems...)
	}
	for _, f := range r.faults {
		if !f.Mendable {
			r.problems = append(r.problems, problemShares(f))
		}
	}
	r.report.Problem = strings.Join(r.problems, "; ")
	if r.opts.budget != nil {
		r.opts.budget.Add(-r.report.Reads)
	}
	removed := r.over && r.opts.DryRun
	if err == nil && r.over && !r.opts.DryRun {
		if removed, err = r.opts.Remove(ctx, counter, r.version); err != nil {
			return false, fmt.Errorf("remove what is left of it: %w", err)
		}
		back = !removed && ctx.Err() == nil
	}
	if err == nil && removed {
		r.report.Deleted, r.report.Gone = true, false
	}
	return back, err
}

// change is the counter's book, corrected; nil if there is nothing to write.
func (r *reconciling) change(ctx context.Context) (k *book.Book, err error) {
	for again := true; again; {
		k, again, err = r.look(ctx)
	}
	return k, err
}

// look is one look at the counter, and reports whether there must be another.
func (r *reconciling) look(ctx context.Context) (_ *book.Book, again bool, err error) {
	c, counter := r.client, r.report.Counter
	// first what tells whether the counter is right
	glance := r.snap == nil && !r.opts.each && !r.opts.noted
	read := c.books.Read
	if glance {
		read = c.books.Glance
	}
	k, err := read(ctx, counter, func(k *book.Book) (bool, error) {
		if k.Deleting() {
			return false, nil
		}
		return r.adopt(ctx, k)
	})
	if k.Deleting() { // whatever is in its shards
		return nil, false, r.unfinished(k)
	}
	if r.opts.Rebuild && errors.Is(err, ErrDamagedLedger) {
		r.opts.each = true
		err = r.rebuild(ctx, k)
		return nil, err == nil && !r.opts.DryRun, err
	}
	if err != nil || k.Ledger == nil {
		return nil, false, err
	}
	if err := r.endHolds(ctx, k); err != nil {
		return nil, false, err
	}
	if err := r.ask(ctx, k); err != nil {
		return nil, false, err
	}
	if glance {
		agrees, err := r.agrees(ctx, k)
		if err != nil || agrees {
			r.account(k, nil, k.Ledger)
			return nil, false, err
		}
		r.opts.each, r.held = true, false // holds are looked for in all fields now
		return nil, true, nil
	}
	if err := r.snapshot(ctx, k); err != nil {
		return nil, false, err
	}
	if again, err := r.shares(ctx); err != nil || again {
		return nil, again, err
	}
	return r.correct(k)
}

// endHolds ends holds that are over, for a read per field with a limit, and of all fields where each shard is looked
// at: their entries may be lost, as in a restore. What that takes off the shards is later than what this reconcile looks at.
func (r *reconciling) endHolds(ctx context.Context, k *book.Book) error {
	if r.held || r.opts.DryRun || k.Missing() {
		return nil
	}
	r.held = true
	for _, field := range r.client.db.Layout.Fields {
		if _, limited := k.Ledger.Limits[field.Shard]; limited || r.opts.each {
			if _, err := hold.In(r.client.db).End(ctx, k.Counter, field); err != nil {
				return fmt.Errorf("end holds: %w", err)
			}
		}
	}
	return nil
}

// ask asks the queries: all of a counter that was named, and otherwise those that nothing has asked for
// long, within the budget. It asks none if there is no document to show them.
func (r *reconciling) ask(ctx context.Context, k *book.Book) error {
	if r.asked != nil {
		return nil
	}
	r.problems = nil
	var due layout.Fields
	for _, field := range r.client.db.Layout.Counted {
		a, ok := k.Ledger.Answers[field.Key()]
		old := !ok || a.ReadTime.After(k.At) || k.At.Sub(a.ReadTime) >= cmp.Or(r.opts.RecountAge, defaultRecountAge)
		if (!k.Missing() || r.opts.noted) && (r.opts.budget == nil || old && r.opts.budget.Load() > 0) {
			due = append(due, field)
		} else if a.Odd {
			r.problems = append(r.problems, oddAnswer(field))
		}
	}
	if len(due) == 0 {
		return nil
	}
	got, err := r.client.ask(ctx, r.report.Counter, due)
	if err != nil {
		return fmt.Errorf("count documents: %w", err)
	}
	r.asked = &got
	r.report.Reads += got.reads
	r.problems = append(r.problems, got.problems...)
	return nil
}

// unfinished is for a counter whose deletion is under way, or was cut short.
func (r *reconciling) unfinished(k *book.Book) error {
	if r.over = r.opts.Remove != nil; !r.over {
		r.problems = []string{"its deletion was not finished: delete it again"}
	}
	r.account(k, nil, &ledger.Ledger{})
	if r.opts.noted && !r.over {
		return errUnfinished
	}
	return nil
}

// snapshot reads the shards, unless there is a snapshot that the ledger's floor isn't later than.
func (r *reconciling) snapshot(ctx context.Context, k *book.Book) error {
	if l := k.Ledger; r.snap != nil && (l.Floor.After(k.At) || r.snap.At.After(l.Floor)) {
		return nil
	}
	shards, err := r.client.books.Shards(ctx, r.client.db, k.Counter, k.At)
	if err != nil {
		return err
	}
	r.snap = &ledger.Snapshot{At: k.At, States: shards.States(), Uneven: k.Ledger.Uneven}
	r.odd = r.client.problemOf(shards)
	if !k.Missing() {
		r.faults = book.ShareFaults(k.Ledger, shards)
	}
	return nil
}

// shares gives out anew the shares of the counter's limits that are not what they should be, once, and
// reports whether it did: then the shards are read again. What only the user can decide is a problem.
func (r *reconciling) shares(ctx context.Context) (again bool, err error) {
	mendable := slices.ContainsFunc(r.faults, func(f book.ShareFault) bool { return f.Mendable })
	r.report.Limits = r.report.Limits || mendable
	if mendable && !r.mended && !r.opts.DryRun {
		r.mended, r.snap = true, nil
		return true, r.client.books.MendShares(ctx, r.report.Counter)
	}
	return false, nil
}

// correct corrects the book by the snapshot and by the answers. The book is nil if that changes
// nothing.
func (r *reconciling) correct(k *book.Book) (_ *book.Book, again bool, err error) {
	r.report.Gone = k.Missing()
	differ, impossible := k.Correct(*r.snap) // which may make room for answers
	full := k.Ledger.Numbers() > ledger.MaxNumbers
	if r.asked != nil {
		merged := k.Merge(nil, r.asked.answers)
		if len(merged.Early) > 0 { // the ledger was made meanwhile
			r.asked = nil
			return nil, true, nil
		}
		full = full || r.opts.noted && len(merged.Full) > 0
	}
	if r.impossible = impossible; full {
		return nil, false, fmt.Errorf("%w: the counter has %d shards", ErrLedgerFull, len(r.snap.States))
	}
	if !r.tried {
		before := k.LastView()
		if k.Missing() { // nothing shows it, and the ledger counts
			before = k.Was()
		}
		r.report.Shards = differ
		r.account(k, before, k.Ledger)
	}
	switch {
	case k.Missing() && !k.Changed() && !r.opts.noted:
		r.gone(k)
		return nil, false, nil
	case r.opts.noted && !r.opts.DryRun:
	case !k.Missing() && !k.Changed() && k.Agrees() && k.Signed(), r.opts.DryRun:
		return nil, false, nil
	}
	r.tried = true
	return k, false, nil
}

// agrees reports, without reading the shards, whether the totals are what the shards add up to, and all
// of these hold integers. It takes one query per field: one of several would leave out shards that lack
// a field.
func (r *reconciling) agrees(ctx context.Context, k *book.Book) (bool, error) {
	if k.Missing() || !k.Ledger.Gone.IsZero() || !k.Ledger.Uneven.IsZero() || k.Ledger.Restored || r.asked != nil {
		return false, nil
	}
	db, shards := r.client.db, r.client.db.Layout.ShardsOf(k.Counter)
	sums := map[string]int64{}
	for _, field := range db.Layout.Fields {
		sum, numbers, _, err := db.SumNumbers(ctx, shards, field.Shard, k.At)
		if err != nil {
			return false, fmt.Errorf("sum shards: %w", err)
		}
		if known, ok := k.Ledger.Sums[field.Key()]; !store.IsInteger(sum) || !ok || sum.GetIntegerValue() != known {
			// a double may hide a half, or be beyond an int64; and a total may be right by chance, where
			// the ledger is not: a revision that doesn't show the field has counted for it, say
			return false, nil
		}
		sums[field.Shard] = sum.GetIntegerValue()
		if n := book.NumShards(db.Layout, k.Doc); n > 0 && numbers == int64(n) {
			continue // as many as it should have
		}
		has, err := db.Count(ctx, shards, field.Shard, k.At)
		if err != nil {
			return false, fmt.Errorf("count shards: %w", err)
		}
		if has != numbers {
			return false, nil // one holds a text
		}
	}
	k.AddUp(sums)
	return k.Agrees(), nil
}

// gone is for a right ledger whose counter's document is missing. If that is the app's own, and has
// been gone for long without anything counted, what is below it goes, too.
func (r *reconciling) gone(k *book.Book) {
	since := k.Ledger.Gone
	if k.Ledger.Updated.After(since) {
		since = k.Ledger.Updated
	}
	long := k.At.Sub(since) >= cmp.Or(r.opts.CleanupAfter, defaultCleanupAfter)
	r.version, r.over = k.Ledger.Updated, r.opts.Remove != nil && long && r.client.db.Layout.Hosted
}

// adopt is for a counter without a ledger: adoption sets its totals from its shards.
func (r *reconciling) adopt(ctx context.Context, k *book.Book) (adopted bool, err error) {
	r.found = k
	if r.opts.DryRun {
		shards, err := r.client.books.Shards(ctx, r.client.db, k.Counter, time.Time{})
		if err != nil {
			return false, err
		}
		r.odd = r.client.problemOf(shards)
		r.report.Adopted = !k.Missing() || len(shards) > 0
		r.account(k, nil, ledger.New(shards.States()))
	} else {
		anyway := false
		if r.opts.noted && k.Missing() { // of its collections events were acknowledged, perhaps
			if anyway, err = r.client.anyCounted(ctx, k.Counter); err != nil {
				return false, err
			}
		}
		if r.report.Adopted, r.odd, err = r.client.adopt(ctx, k.Counter, anyway); err != nil {
			return false, err
		}
	}
	r.report.Gone = !r.report.Adopted
	return r.report.Adopted && !r.opts.DryRun, nil
}

// rebuild is for a ledger that can't be used. Its queries are asked first: they cover events from
// before.
func (r *reconciling) rebuild(ctx context.Context, k *book.Book) error {
	c, counter := r.client, k.Counter
	r.report.Rebuilt, r.found = true, k
	got, err := c.ask(ctx, counter, c.db.Layout.Counted)
	if err != nil {
		return fmt.Errorf("count documents: %w", err)
	}
	r.report.Reads += got.reads
	l, shards, err := c.books.Rebuild(ctx, counter, got.answers, r.opts.DryRun)
	if err != nil || l == nil { // nil: another was faster
		return err
	}
	if r.opts.DryRun {
		r.odd = c.problemOf(shards)
		r.account(k, nil, l)
		return nil
	}
	for _, field := range c.db.Layout.Fields {
		total, _ := l.Total(field)
		c.log.InfoContext(ctx, logRebuilt, "counter", counter, "field", field.Name, "shards", len(shards), "total", total, "base", l.Base[field.Shard])
	}
	return nil
}

// account says in the report what the fields were and are: by the book, and by the ledger's totals
// before, if it had some, and after.
func (r *reconciling) account(k *book.Book, before map[string]int64, after *ledger.Ledger) {
	r.report.Gone = k.Doc == nil && !r.report.Adopted
	if !r.report.Adopted && !r.report.Rebuilt {
		r.found = k
	}
	for i, field := range r.client.db.Layout.Shown() {
		was, is := r.found.Doc.GetFields()[field.Name], k.Doc.GetFields()[field.Name]
		value := cmp.Or(book.ValueOf(field, after), is)
		if !field.Integer() {
			if k.Doc == nil {
				was = value
			}
			ledger.Put(&r.report.Doubles, field.Name, DoubleReport{Before: store.Number(was), After: store.Number(value)})
			continue
		}
		var f FieldReport
		f.Before, _ = store.Integer(was)
		f.After, _ = store.Integer(value)
		if known, ok := before[field.Name]; k.Doc == nil {
			f.Before = known
		} else if ok && is != nil && !r.report.Adopted {
			n, _ := store.Integer(is)
			f.Drift = ledger.Sub(n, known)
		}
		f.Late = ledger.Sub(f.After, ledger.Sub(f.Before, f.Drift))
		if i == 0 {
			r.report.FieldReport = f
			continue
		}
		ledger.Put(&r.report.Fields, field.Name, f)
	}
}
