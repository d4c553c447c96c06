package rollup

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// ReconcileOptions are the choices in reconciling counters. The zero value is fine.
type ReconcileOptions struct {
	DryRun bool // only report what would be done

	// FinishDeletion finishes a deletion that was cut short: shards.Counter.FinishDeletion. Without it such a counter is
	// only reported.
	FinishDeletion func(ctx context.Context, counter string) error

	// CleanupAfter is how long a document of the app's own has to be gone before what was counted below it is removed,
	// default 24h. It is counted from when a reconcile or an event first finds it missing.
	CleanupAfter time.Duration

	// The rest is for several counters.

	// Parallel is how many counters are reconciled side by side, default 8.
	Parallel int
	// Resume goes on where the last call of ReconcileAll ran out of time, and remembers where this one does. A dry run does
	// neither.
	Resume bool
	// RecountAge is when ReconcileAll counts fields such as comments=count(comments) again that nothing has counted since, for
	// changes whose events were lost: default 24h. RecountReads is how many reads it may take for that and for those that were
	// never counted: default 10,000, about; none where it is negative. Counters that are named are counted at once.
	RecountAge   time.Duration
	RecountReads int64
	// Report is called for every counter, one call at a time, with the error where it could not be reconciled.
	Report func(Report, error)

	limit  time.Duration // for one counter
	budget *readBudget
}

// Reconcile corrects a counter's total if it is not what its shards and its base add up to. A counter that is right
// costs two reads and an aggregation (one read per 1,000 shards). It is safe at any moment, beside increments, events,
// commands and another reconcile. Errors: [ErrContention], [ErrDamagedLedger], [ErrLedgerFull]; anything else is the
// client library's, and the call may be repeated.
func (c *Client) Reconcile(ctx context.Context, counter string, opts ReconcileOptions) (Report, error) {
	r, err := c.reconcile(ctx, counter, opts)
	if err == nil {
		r, err = c.counted(ctx, r, opts)
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

func (c *Client) reconcile(ctx context.Context, counter string, opts ReconcileOptions) (Report, error) {
	var (
		snap    *snapshot // nil until there is a reason to read the shards
		hidden  bool      // states may have been passed over, so that a total which is right is so by chance
		applied Report    // what commits have done so far
		doubted *Report   // with what a commit was to do whose answer was lost
		last    error
		pause   = store.Pauses()
	)
	for range attempts + doubts {
		found, err := c.compare(ctx, counter, snap, hidden)
		if err != nil {
			return found.Report, err
		}
		switch {
		case found.abandoned != nil:
			r, again, err := c.abandoned(ctx, found.Report, found.abandoned, found.now, opts)
			if err != nil || !again {
				return r, err
			}
			snap, last = nil, errAppeared
			continue
		case found.unadopted:
			return c.reconcileUnadopted(ctx, found.Report, opts.DryRun)
		case found.deleting:
			return c.finishDeletion(ctx, found.Report, opts)
		case len(found.writes) == 0 && doubted != nil:
			return *doubted, nil // it was applied
		}
		r := applied.and(found.Report)
		if len(found.writes) == 0 || opts.DryRun {
			return r, nil
		}
		snap = found.snap
		_, last = c.db.Commit(ctx, found.writes)
		if last == nil {
			for _, name := range found.begun {
				c.logAdopted(ctx, counter, name, found.sums[name])
			}
			if !found.impossible {
				return r, nil
			}
			// States may have been passed over until this commit, for an entry of a time that was ahead of Firestore's or a
			// shard as old as the ledger that was not in it: once more.
			applied, doubted, snap, hidden = r, nil, nil, true
			continue
		}
		switch store.KindOf(last) {
		case store.Conflict: // another commit came first: again at once
		case store.Doubtful:
			doubted = &r
			fallthrough
		case store.Contention:
			if err := gax.Sleep(ctx, pause.Pause()); err != nil {
				return r, err
			}
		default:
			return r, last
		}
	}
	return applied, fmt.Errorf("%w: gave up after %d tries: %w", ErrContention, attempts+doubts, last)
}

// comparison is what was found of a counter, and what is to be done.
type comparison struct {
	Report
	now        time.Time // by Firestore's clock
	unadopted  bool      // it has no ledger of its own
	deleting   bool      // its deletion was not finished
	impossible bool      // states may have been passed over: see ledger.Diff
	snap       *snapshot
	sums       map[string]*ledger.Sum // what its totals will be made of
	begun      []string               // fields that were not counted before

	abandoned *firestorepb.Document // the ledger of a document of the app's own that is missing
	writes    []*firestorepb.Write  // the commit that corrects it; none when it is right
}

// compare compares a counter with its shards. Their snapshot is taken where there is none yet, and a reason to: the total is
// not what they add up to, or each of them is to be looked at.
func (c *Client) compare(ctx context.Context, counter string, snap *snapshot, each bool) (comparison, error) {
	found := comparison{Report: Report{Counter: counter}, snap: snap}
	docs, now, err := c.db.Get(ctx, c.db.LedgerOf(counter), c.db.Counter(counter))
	if err != nil {
		return found, err
	}
	c.clock.saw(now)
	found.now = now
	doc := docs[1]
	for i, name := range c.db.FieldNames() {
		before, _ := store.Integer(doc.GetFields()[name])
		found.set(name, i == 0, FieldReport{Before: before, After: before})
	}
	switch {
	case doc == nil && docs[0] != nil && c.db.Hosted:
		found.abandoned = docs[0]
		return found, nil
	case doc == nil && docs[0] != nil:
		found.Gone = true // deleted by hand: what is left below it counts for nothing
		return found, nil
	case c.db.Own(doc)[layout.Deleting].GetBooleanValue():
		found.deleting = true
		return found, nil
	case !ledger.Of(c.db.Layout, docs[0], doc):
		found.unadopted = true
		return found, nil
	}
	l, err := ledger.Decode(docs[0])
	if err != nil {
		return found, err
	}
	if found.snap == nil && !each {
		if right, err := c.right(ctx, counter, doc, l, now); err != nil || right {
			return found, err
		}
	}
	back := !l.Gone.IsZero()                                    // events have been passed over until now, those from after an earlier snapshot too
	if found.snap == nil || earlier(found.snap.At, l) || back { // none, or one of an earlier counter
		s, err := c.snapshot(ctx, counter, now)
		if err != nil {
			return found, err
		}
		found.snap = &s
	}
	diff := l.Correct(now, found.snap.Snapshot, c.db.FieldNames()...)
	if len(diff.Full) > 0 {
		return found, fmt.Errorf("%w: the counter has %d", ErrLedgerFull, len(found.snap.States))
	}
	found.Problem, found.impossible = found.snap.problem, diff.Impossible
	right := c.describe(&found.Report, doc, l, diff)
	l.Apply(diff)
	found.sums = l.Sums

	kept := map[string]*firestorepb.Value{} // what the app has lost of what we keep in its document
	if c.db.Hosted && c.db.Own(doc)[layout.LedgerID].GetStringValue() != l.ID {
		kept[layout.LedgerID] = store.String(l.ID)
	}
	if c.db.Hosted && !c.db.ShardCount(doc).Written && found.snap.numbered > 0 {
		kept[layout.NumShards], kept[layout.NumShardsInferred] = store.Int(int64(found.snap.numbered)), store.Bool(true)
	}
	rises := 0 // what an inferred number of shards rises to
	if inferred := c.inferredShards(doc); inferred > 0 && found.snap.numbered > inferred {
		rises = found.snap.numbered
	}
	if !right || rises > 0 || back || len(kept) > 0 {
		found.begun, found.writes = c.correction(counter, doc, l, diff, rises, kept)
	}
	return found, nil
}

// describe says in a report what a diff corrects. It reports whether the totals are right as they are.
func (c *Client) describe(r *Report, doc *firestorepb.Document, l *ledger.Ledger, diff ledger.Diff) (right bool) {
	right = diff.Empty()
	changed := map[string]bool{} // :: keys of shards
	for i, name := range c.db.FieldNames() {
		change := diff.Sums[name]
		was, _ := store.Integer(doc.GetFields()[name])
		field := FieldReport{Before: was, Late: change.Delta}
		sum := l.Sums[name]
		if sum == nil { // its total was none of ours
			sum = &ledger.Sum{}
		} else {
			field.Drift = ledger.Sub(was, sum.Total())
		}
		for key := range change.Entries {
			changed[key] = true
		}
		for _, key := range change.Removed {
			if sum.Shards[key].Count != 0 {
				changed[key] = true
			}
		}
		right = right && field.Drift == 0 && isInteger(doc.GetFields()[name])
		field.After = sum.TotalAfter(change)
		r.set(name, i == 0, field)
	}
	r.Shards = len(changed)
	return right
}

// correction is the commit that enters a diff in the ledger that it was applied to, and sets the totals to what that says. Of
// what we keep in the counter's document it sets kept, and raises the number of shards; 0 leaves that. It also returns the
// fields that were not counted before.
func (c *Client) correction(counter string, doc *firestorepb.Document, l *ledger.Ledger, diff ledger.Diff, rises int, kept map[string]*firestorepb.Value) (begun []string, writes []*firestorepb.Write) {
	fields, mask := diff.Fields()
	if !l.Gone.IsZero() {
		mask = append(mask, ledger.FieldGone)
	}
	for _, field := range c.db.Fields {
		if sum := l.Sums[field.Name]; sum.Field != field.Shard {
			ledger.Set(fields, field.Name, ledger.FieldField, store.String(field.Shard))
			mask = append(mask, ledger.PathOf(field.Name, ledger.FieldField))
		}
	}
	for name, sum := range diff.Sums {
		if !sum.New {
			continue
		}
		begun = append(begun, name)
		if was, ok := store.Integer(doc.GetFields()[name]); ok && doc.GetFields()[name] != nil && c.replaces(was, l.Sums[name].Total()) {
			l.Sums[name].Replaced = &was // as adoption does
			ledger.Set(fields, name, ledger.FieldReplaced, store.Int(was))
			mask = append(mask, ledger.PathOf(name, ledger.FieldReplaced))
		}
	}
	totals, totalsMask := c.totals(l, ledger.Diff{})
	totalsMask = c.db.SetOwn(totals, totalsMask, kept)
	transforms := []*firestorepb.DocumentTransform_FieldTransform{store.ServerTime(c.db.OwnPath(layout.UpdatedAt))}
	if rises > 0 {
		transforms = append(transforms, store.Maximum(c.db.OwnPath(layout.NumShards), int64(rises)))
	}
	return begun, []*firestorepb.Write{
		store.Update(c.db.LedgerOf(counter), store.UpdatedAtTime(l.Updated), fields, mask),
		// The ledger's condition is enough: every commit that changes a total for a reason changes the ledger too.
		store.Update(c.db.Counter(counter), store.Exists(true), totals, totalsMask, transforms...),
	}
}

// earlier reports whether a snapshot says nothing about one of a ledger's sums.
func earlier(at time.Time, l *ledger.Ledger) bool {
	for _, sum := range l.Sums {
		if !at.After(sum.Floor) {
			return true
		}
	}
	return false
}

// spare is how many entries of shards that are gone a ledger may hold before they are removed for their own sake.
const spare = 100

// right reports, without reading the shards, whether a counter's totals are what they add up to, and they all hold integers.
// It takes one query per field: one of several sums would leave out shards in which a field is missing.
func (c *Client) right(ctx context.Context, counter string, doc *firestorepb.Document, l *ledger.Ledger, now time.Time) (bool, error) {
	count := c.db.ShardCount(doc)
	if l.Behind(now, c.db.FieldNames()...) || c.db.Own(doc)[layout.LedgerID].GetStringValue() != l.ID || c.db.Hosted && !count.Written {
		return false, nil
	}
	all := int64(-1)
	for _, field := range c.db.Fields {
		sum, numbers, err := c.db.SumNumbers(ctx, c.db.ShardsOf(counter), field.Shard, now)
		if err != nil {
			return false, fmt.Errorf("sum shards: %w", err)
		}
		known, total := l.Sums[field.Name], doc.GetFields()[field.Name]
		if !isInteger(sum) || !isInteger(total) || total.GetIntegerValue() != ledger.Add(known.Base, sum.GetIntegerValue()) {
			return false, nil // a double as the sum may hide a half, or be beyond an int64
		}
		if int64(len(known.Shards)) > numbers+spare {
			return false, nil
		}
		if count.Inferred {
			if numbers != int64(count.N) {
				return false, nil // one with a higher number may have shown up
			}
			continue
		}
		if count.Written && numbers == int64(count.N) {
			continue // as many as it should have
		}
		if all < 0 {
			if all, err = c.db.Count(ctx, c.db.ShardsOf(counter), now); err != nil {
				return false, fmt.Errorf("count shards: %w", err)
			}
		}
		if all != numbers {
			return false, nil
		}
	}
	return true, nil
}

// finishDeletion is for a counter whose deletion took several commits and was cut short.
func (c *Client) finishDeletion(ctx context.Context, r Report, opts ReconcileOptions) (Report, error) {
	if opts.FinishDeletion == nil {
		r.Problem = "its deletion was not finished: delete it again"
		return r, nil
	}
	if !opts.DryRun {
		if err := opts.FinishDeletion(ctx, r.Counter); err != nil {
			return r, fmt.Errorf("finish its deletion: %w", err)
		}
	}
	r.Deleted, r.After = true, 0
	for name, field := range r.Fields {
		field.After = 0
		r.Fields[name] = field
	}
	return r, nil
}

// reconcileUnadopted is for a counter without a ledger: adoption sets its totals from its shards.
func (c *Client) reconcileUnadopted(ctx context.Context, r Report, dryRun bool) (Report, error) {
	var after ledger.Counts
	if dryRun {
		snap, err := c.snapshot(ctx, r.Counter, time.Time{})
		if err != nil {
			return r, err
		}
		docs, _, err := c.db.Get(ctx, c.db.Counter(r.Counter))
		if err != nil {
			return r, err
		}
		r.Adopted = docs[0] != nil || len(snap.States) > 0 && !c.db.Hosted
		r.Problem = snap.problem
		after = snap.ledger(c.db.Fields).Totals()
	} else {
		var err error
		if r.Adopted, r.Problem, err = c.adopt(ctx, r.Counter); err != nil {
			return r, fmt.Errorf("adopt: %w", err)
		}
		docs, _, err := c.db.Get(ctx, c.db.Counter(r.Counter))
		if err != nil {
			return r, err
		}
		after = ledger.Counts{}
		for _, name := range c.db.FieldNames() {
			after[name], _ = store.Integer(docs[0].GetFields()[name])
		}
	}
	r.Gone = !r.Adopted
	for i, name := range c.db.FieldNames() {
		field := r.Fields[name]
		if i == 0 {
			field = r.FieldReport
		}
		field.After, field.Late = after[name], ledger.Sub(after[name], field.Before)
		r.set(name, i == 0, field)
	}
	return r, nil
}

func isInteger(v *firestorepb.Value) bool {
	_, ok := v.GetValueType().(*firestorepb.Value_IntegerValue)
	return ok
}
