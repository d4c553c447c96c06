package rollup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// ReconcileOptions are the choices in reconciling counters. The zero value is fine.
type ReconcileOptions struct {
	DryRun bool // only report what would be done

	// Remove removes what is left of a counter whose document is missing, as long as its ledger
	// is the version of that update time, or whose deletion was cut short: shards.Client.Remove.
	// It reports false where the counter is back, or time was too short. Without it such a
	// counter is only reported.
	Remove func(ctx context.Context, counter string, version time.Time) (removed bool, err error)

	// Rebuild makes a ledger that is an [ErrDamagedLedger] again, of what the shards hold and of what
	// can be read of its base. One of another deployment's is taken from it.
	Rebuild bool

	// CleanupAfter is how long a document of the app's own has to be gone, with nothing counted,
	// before what was counted below it is removed, default 24h. It is counted from when a reconcile
	// or an event first finds it missing.
	CleanupAfter time.Duration

	// The rest is for several counters.

	// Parallel is how many counters are reconciled side by side, default 8.
	Parallel int
	// Resume goes on where the last call of ReconcileAll ran out of time, and remembers where this
	// one does. A dry run does neither.
	Resume bool
	// RecountAge is when ReconcileAll counts fields such as comments=count(comments) again that
	// nothing has counted since, for changes whose events were lost: default 24h. RecountReads is
	// how many reads it may take for that and for those that were never counted: default 10,000,
	// about; none where it is negative. Counters that are named are counted at once.
	RecountAge   time.Duration
	RecountReads int64
	// Report is called for every counter, one call at a time, with the error where it could
	// not be reconciled; for those that are named also where there is none.
	Report func(Report, error)

	limit  time.Duration // for one counter
	budget *atomic.Int64 // reads that are left; the last one to take some may take more
	each   bool          // look at each shard, whatever the sums say
	// events were acknowledged for a note: look at everything, and commit in any case, so that no
	// snapshot of before says anything any more
	noted bool
}

// defaultCleanupAfter is how long a document has to be gone.
const defaultCleanupAfter = 24 * time.Hour

// Reconcile corrects a counter's ledger where it is not what each of its shards holds, and its totals
// where they are not what that and its base add up to. It costs two reads, and one per shard. It is
// safe at any moment, beside increments, events, commands and another reconcile. Errors:
// [ErrInvalidID], [ErrContention], [ErrDamagedLedger], [ErrLedgerFull]; anything else is the client library's, and
// the call may be repeated.
func (c *Client) Reconcile(ctx context.Context, counter string, opts ReconcileOptions) (Report, error) {
	if err := c.db.Path.Validate(counter); err != nil {
		return Report{Counter: counter}, fmt.Errorf("reconcile: %w: %w", ErrInvalidID, err)
	}
	opts.each = opts.budget == nil || c.looks()
	reconcile := func() (Report, error) { return c.reconcile(ctx, counter, opts) }
	var err error
	if opts.budget == nil && !opts.DryRun { // a walk has looked at all notes before
		var n *store.Note
		var now time.Time
		if n, now, err = c.db.NoteOf(ctx, counter); n != nil {
			begun, ok := store.Note{}, false
			if begun, ok, err = c.begin(ctx, n, now); ok {
				reconcile = func() (Report, error) { return c.reconcileNoted(ctx, begun, now, opts) }
			}
		}
	}
	r := Report{Counter: counter}
	if err == nil {
		r, err = reconcile()
	}
	if errors.Is(err, errUnfinished) {
		err = nil // which is its problem; and the note stays
	}
	if err != nil {
		return r, fmt.Errorf("reconcile counter %q: %w", counter, err)
	}
	if drift := r.drift(); drift != 0 && !opts.DryRun {
		if len(r.Fields) == 0 {
			drift = r.Drift // with its sign
		}
		c.log.WarnContext(ctx, LogDrift, "counter", counter, "drift", drift)
	}
	if r.Problem != "" {
		c.log.WarnContext(ctx, logProblem, "counter", counter, "problem", r.Problem)
	}
	return r, nil
}

// thorough is how long a reconcile goes on.
var thorough = store.Patience{Conflicts: 18, Doubts: 12, Alone: true}

func (c *Client) reconcile(ctx context.Context, counter string, opts ReconcileOptions) (Report, error) {
	r := reconciling{client: c, opts: opts, report: Report{Counter: counter}}
	resp, err := c.db.Settle(ctx, thorough, r.plan)
	if resp != nil && r.impossible {
		// what was passed over until this commit is looked for, shard by shard
		r.opts.each, r.snap = true, nil
		resp, err = c.db.Settle(ctx, thorough, r.plan)
	}
	c.known.Remove(counter)
	if len(resp.GetWriteResults()) == 1 { // the ledger is corrected all the same
		r.problems = append(r.problems, problemTooLarge)
	}
	if r.odd != "" {
		r.problems = append([]string{r.odd}, r.problems...)
	}
	r.report.Problem = strings.Join(r.problems, "; ")
	if opts.budget != nil {
		opts.budget.Add(-r.report.Reads)
	}
	switch {
	case err != nil || !r.over:
		return r.report, err
	case opts.DryRun:
		r.report.Deleted, r.report.Gone = true, false
		return r.report, nil
	}
	removed, err := opts.Remove(ctx, counter, r.version)
	switch {
	case err != nil:
		return r.report, fmt.Errorf("remove what is left of it: %w", err)
	case removed:
		r.report.Deleted, r.report.Gone = true, false
	case ctx.Err() == nil: // it is back
		opts.Remove = nil
		return c.reconcile(ctx, counter, opts)
	}
	return r.report, nil
}

// reconciling is a reconcile on its way.
type reconciling struct {
	client     *Client
	opts       ReconcileOptions
	report     Report
	problems   []string
	odd        string                // what is wrong with the shards
	found      *firestorepb.Document // the counter's document as it was before adoption
	snap       *ledger.Snapshot      // of the shards, once there was a reason to read them
	asked      *asked                // what the queries said, once they were asked
	tried      bool                  // a commit was planned, and is accounted for
	impossible bool                  // it is to take what can't be out of the ledger
	// the counter's life is over: what is left of it is to be removed
	over    bool
	version time.Time // of its ledger
}

// plan is the commit that makes the ledger what the shards hold, and the document what the ledger
// has; no writes where they are, or where nothing is to be written.
func (r *reconciling) plan(ctx context.Context) ([]*firestorepb.Write, error) {
	c, counter := r.client, r.report.Counter
	// first what tells whether the counter is right
	var paths []string
	glance := r.snap == nil && !r.opts.each && !r.opts.noted
	if glance {
		paths = c.glance()
	}
	l, doc, now, err := c.db.Ledger(ctx, counter, paths, func(doc *firestorepb.Document) (bool, error) {
		if c.db.Deleting(doc) {
			return false, nil
		}
		return r.adopt(ctx, doc)
	})
	if c.db.Deleting(doc) || doc == nil && l != nil && l.Ending { // whatever is in its shards
		if r.over = r.opts.Remove != nil; !r.over {
			r.problems = []string{"its deletion was not finished: delete it again"}
		}
		r.account(doc, nil, &ledger.Ledger{})
		if r.opts.noted && !r.over {
			return nil, errUnfinished
		}
		return nil, nil
	}
	if r.opts.Rebuild && errors.Is(err, ErrDamagedLedger) {
		if err = r.rebuild(ctx, doc); err != nil || r.opts.DryRun {
			return nil, err
		}
		r.opts.each = true
		return r.plan(ctx)
	}
	if err != nil || l == nil {
		return nil, err
	}
	if err := r.ask(ctx, l, doc, now); err != nil {
		return nil, err
	}
	if glance {
		if doc != nil && l.Gone.IsZero() && l.Uneven.IsZero() && r.asked == nil {
			if agrees, err := r.agrees(ctx, doc, l, now); err != nil || agrees {
				r.account(doc, nil, l)
				return nil, err
			}
		}
		r.opts.each = true
		return r.plan(ctx)
	}
	if r.snap == nil || !l.Floor.After(now) && !r.snap.At.After(l.Floor) {
		shards, err := c.db.Documents(ctx, store.Query{Collection: c.db.ShardsOf(counter), At: now})
		if err != nil {
			return nil, fmt.Errorf("read shards: %w", err)
		}
		r.snap = &ledger.Snapshot{At: now, States: store.ShardStates(shards), Uneven: l.Uneven}
		r.odd = c.problemOf(shards)
	}
	r.report.Gone = doc == nil
	diff := l.Correct(now, *r.snap)
	c.db.Meet(l, doc, now, &diff)
	before := c.shown(l)
	if doc == nil { // nothing shows it, and the ledger counts
		before = l.Totals(c.db.Shown()...)
	}
	r.impossible = diff.Impossible
	l.Forget(now)
	if !r.tried {
		r.report.Shards = l.Differ(diff)
	}
	l.Apply(diff) // which may make room for answers
	full := l.Numbers() > ledger.MaxNumbers
	if r.asked != nil {
		merged := l.Merge(nil, r.asked.answers)
		if len(merged.Early) > 0 { // the ledger was made meanwhile
			r.asked = nil
			return r.plan(ctx)
		}
		diff.Answers = merged.Answers
		l.Apply(merged)
		full = full || r.opts.noted && len(merged.Full) > 0
	}
	if full {
		return nil, fmt.Errorf("%w: the counter has %d shards", ErrLedgerFull, len(r.snap.States))
	}
	if !r.tried {
		r.account(doc, before, l)
	}
	switch {
	case doc == nil && diff.Empty() && !r.opts.noted:
		r.gone(l, now)
		return nil, nil
	case r.opts.noted && !r.opts.DryRun:
	case doc != nil && diff.Empty() && c.db.Shows(doc, l) && maps.Equal(l.Sums, c.db.Sums(l)):
		return nil, nil
	case r.opts.DryRun:
		return nil, nil
	}
	r.tried = true
	fields, removed := store.LedgerDiff(diff)
	view := store.DeleteIf(c.db.Counter(counter), store.Exists(false)) // as in a flush
	if doc != nil {
		view = c.db.Show(counter, store.Exists(true), l)
	}
	return []*firestorepb.Write{c.db.UpdateLedger(counter, l, fields, removed), view}, nil
}

// glance are the paths of what tells whether a counter is right: of a ledger not the states, which
// may be hundreds of KB, and of a document of the app's own nothing of the app's.
func (c *Client) glance() []string {
	paths := append([]string{store.LedgerBase, store.LedgerAnswers, store.LedgerSums, store.LedgerUneven, store.LedgerFloor, store.LedgerFormat, store.LedgerShards}, store.LedgerBack...)
	for _, own := range []string{layout.Deleting, layout.NumShards, layout.NumShardsLegacy} {
		paths = append(paths, c.db.OwnPath(own))
	}
	for _, field := range c.db.Shown() {
		paths = append(paths, layout.FieldPath(field.Name))
	}
	return paths
}

// agrees reports, without reading the shards, whether a counter's totals are what they add up to,
// and they all hold integers. The ledger is as glance has it, without states: their sums are added
// to its base. They take one query per field: one of several would leave out shards in which a
// field is missing.
func (r *reconciling) agrees(ctx context.Context, doc *firestorepb.Document, l *ledger.Ledger, now time.Time) (bool, error) {
	db, counter := r.client.db, r.report.Counter
	all := int64(-1)
	for _, field := range db.Fields {
		sum, numbers, err := db.SumNumbers(ctx, db.ShardsOf(counter), field.Shard, now)
		if err != nil {
			return false, fmt.Errorf("sum shards: %w", err)
		}
		_, integer := sum.GetValueType().(*firestorepb.Value_IntegerValue)
		if known, ok := l.Sums[field.Key()]; !integer || !ok || sum.GetIntegerValue() != known {
			// a double may hide a half, or be beyond an int64; and a total may be right by chance, where
			// the ledger is not: a revision that doesn't show the field has counted for it, say
			return false, nil
		}
		l.Base[field.Shard] = ledger.Add(l.Base[field.Shard], sum.GetIntegerValue())
		if n := db.NumShards(doc); n > 0 && numbers == int64(n) {
			continue // as many as it should have
		}
		if all < 0 {
			if all, err = db.Count(ctx, db.ShardsOf(counter), now); err != nil {
				return false, fmt.Errorf("count shards: %w", err)
			}
		}
		if all != numbers {
			return false, nil // one may hold a text
		}
	}
	return db.Shows(doc, l), nil
}

// gone is for a ledger that holds what the shards do, and whose counter's document is missing.
// Where that is the app's own and has been gone for long enough, with nothing counted since, it
// takes what is below it along.
func (r *reconciling) gone(l *ledger.Ledger, now time.Time) {
	since := l.Gone
	if l.Updated.After(since) {
		since = l.Updated
	}
	long := now.Sub(since) >= cmp.Or(r.opts.CleanupAfter, defaultCleanupAfter)
	r.version, r.over = l.Updated, r.opts.Remove != nil && long && r.client.db.Hosted
}

// adopt is for a counter without a ledger: adoption sets its totals from its shards.
func (r *reconciling) adopt(ctx context.Context, doc *firestorepb.Document) (adopted bool, err error) {
	c, counter := r.client, r.report.Counter
	r.found = doc
	problem := ""
	if r.opts.DryRun {
		shards, err := c.db.Documents(ctx, store.Query{Collection: c.db.ShardsOf(counter)})
		if err != nil {
			return false, fmt.Errorf("read shards: %w", err)
		}
		r.report.Adopted = doc != nil || len(shards) > 0
		problem = c.problemOf(shards)
		r.account(doc, nil, ledger.New(store.ShardStates(shards)))
	} else {
		if adopted, problem, err = c.adopt(ctx, counter, false); err != nil {
			return false, err
		}
		r.report.Adopted = adopted
	}
	r.report.Gone, r.odd = !r.report.Adopted, problem
	return adopted, nil
}

// rebuild is for a counter whose ledger can't be used. The queries are asked first: an answer that is
// older than the one that the ledger had comes too late then, too.
func (r *reconciling) rebuild(ctx context.Context, doc *firestorepb.Document) error {
	c, counter := r.client, r.report.Counter
	r.report.Rebuilt, r.found = true, doc
	if r.opts.DryRun {
		shards, err := c.db.Documents(ctx, store.Query{Collection: c.db.ShardsOf(counter)})
		if err != nil {
			return fmt.Errorf("read shards: %w", err)
		}
		r.odd = c.problemOf(shards)
		r.account(doc, nil, ledger.New(store.ShardStates(shards)))
		return nil
	}
	got, err := c.ask(ctx, counter, c.db.Counted)
	if err != nil {
		return fmt.Errorf("count documents: %w", err)
	}
	r.report.Reads += got.reads
	l, shards, err := c.db.Rebuild(ctx, counter, got.answers)
	if err != nil || l == nil { // nil: another was faster
		return err
	}
	for _, field := range c.db.Fields {
		total, _ := l.Total(field)
		c.log.InfoContext(ctx, logRebuilt, "counter", counter, "field", field.Name, "shards", len(shards), "total", total, "base", l.Base[field.Shard])
	}
	return nil
}

// account says in the report what the fields were and are: doc as it is, and the ledger's totals as
// they were, where there was one, and as they will be.
func (r *reconciling) account(doc *firestorepb.Document, before map[string]int64, after *ledger.Ledger) {
	r.report.Gone = doc == nil && !r.report.Adopted
	if !r.report.Adopted && !r.report.Rebuilt {
		r.found = doc
	}
	for i, field := range r.client.db.Shown() {
		was, is := r.found.GetFields()[field.Name], doc.GetFields()[field.Name]
		shown := cmp.Or(store.ShownAs(field, after), is)
		if !field.Integer() {
			if doc == nil {
				was = shown
			}
			if r.report.Doubles == nil {
				r.report.Doubles = map[string]DoubleReport{}
			}
			r.report.Doubles[field.Name] = DoubleReport{Before: store.Number(was), After: store.Number(shown)}
			continue
		}
		var f FieldReport
		f.Before, _ = store.Integer(was)
		f.After, _ = store.Integer(shown)
		if known, ok := before[field.Name]; doc == nil {
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
		if r.report.Fields == nil {
			r.report.Fields = map[string]FieldReport{}
		}
		r.report.Fields[field.Name] = f
	}
}
