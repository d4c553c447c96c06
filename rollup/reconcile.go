package rollup

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// Report is what a reconcile found of one counter, and did about it.
type Report struct {
	Counter string `json:"counter"`
	Before  int64  `json:"before"` // its total before
	After   int64  `json:"after"`  // its total now, or what it would be

	Late   int64 `json:"late"`   // of the difference, states that no event had brought yet: lost ones, and ones on their way
	Drift  int64 `json:"drift"`  // what the total had beyond its ledger, written by something else; it was taken off
	Shards int   `json:"shards"` // how many of the ledger's entries were not what the shards hold

	Adopted bool `json:"adopted,omitempty"` // it had no ledger
	Deleted bool `json:"deleted,omitempty"` // its deletion was half-finished, and is finished now, or would be
	Gone    bool `json:"gone,omitempty"`    // there is no such counter

	// Problem is what keeps the total from being right, and what to do about it; empty when nothing does.
	Problem string `json:"problem,omitempty"`
}

// Repaired reports whether anything had to be done.
func (r Report) Repaired() bool {
	return r.Adopted || r.Deleted || r.Late != 0 || r.Drift != 0 || r.Shards != 0
}

// Right reports whether nothing had to be done, and nothing is left to do.
func (r Report) Right() bool { return !r.Repaired() && r.Problem == "" }

// ReconcileOptions are the choices in reconciling counters. The zero value is fine.
type ReconcileOptions struct {
	DryRun bool // only report what would be done

	// FinishDeletion finishes a deletion that was cut short: shards.Counter.FinishDeletion. Without it such a counter is
	// only reported.
	FinishDeletion func(ctx context.Context, counter string) error

	// The rest is for several counters.

	// Parallel is how many counters are reconciled side by side, default 8.
	Parallel int
	// Limit is how long one counter may take, default 30s, and at most a quarter of the time that the whole call has.
	Limit time.Duration
	// Resume goes on where the last call of ReconcileAll ran out of time, and remembers where this one does. A dry run does
	// neither.
	Resume bool
	// Report is called for every counter, one call at a time, with the error where it could not be reconciled.
	Report func(Report, error)
}

// Reconcile corrects a counter's total if it is not what its shards and its base add up to. A counter that is right
// costs two reads and an aggregation (one read per 1,000 shards). It is safe at any moment, beside increments, events,
// commands and another reconcile. Errors: [ErrContention], [ErrDamagedLedger], [ErrLedgerFull]; anything else is the
// client library's, and the call may be repeated.
func (c *Client) Reconcile(ctx context.Context, counter string, opts ReconcileOptions) (Report, error) {
	r, err := c.reconcile(ctx, counter, opts)
	if err != nil {
		return r, fmt.Errorf("reconcile counter %q: %w", counter, err)
	}
	if r.Drift != 0 && !opts.DryRun {
		c.log.WarnContext(ctx, LogDrift, "counter", counter, "drift", r.Drift)
	}
	if r.Problem != "" {
		c.log.WarnContext(ctx, LogProblem, "counter", counter, "problem", r.Problem)
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

// and is a report of what two commits did, one after the other.
func (r Report) and(next Report) Report {
	if r.Repaired() {
		next.Before = r.Before
		next.Late, next.Drift = ledger.Add(r.Late, next.Late), ledger.Add(r.Drift, next.Drift)
		next.Shards = max(r.Shards, next.Shards)
	}
	return next
}

// comparison is what was found of a counter, and what is to be done.
type comparison struct {
	Report
	unadopted  bool // it has no ledger of its own
	deleting   bool // its deletion was not finished
	impossible bool // states may have been passed over: see ledger.Diff
	snap       *snapshot
	writes     []*firestorepb.Write // the commit that corrects it; none when it is right
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
	doc := docs[1]
	found.Before, _ = store.Integer(doc.GetFields()[store.Total])
	found.After = found.Before
	switch {
	case doc == nil && docs[0] != nil:
		found.Gone = true // deleted by hand: what is left below it counts for nothing
		return found, nil
	case doc.GetFields()[store.Deleting].GetBooleanValue():
		found.deleting = true
		return found, nil
	case !ledger.Of(docs[0], doc):
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
	if found.snap == nil || !found.snap.At.After(l.Floor) { // none, or one of an earlier counter
		s, err := c.snapshot(ctx, counter, now)
		if err != nil {
			return found, err
		}
		found.snap = &s
	}
	diff := l.Correct(now, found.snap.Snapshot)
	if len(diff.Full) > 0 {
		return found, fmt.Errorf("%w: the counter has %d", ErrLedgerFull, len(found.snap.States))
	}
	found.Late, found.Drift = diff.Delta, ledger.Sub(found.Before, l.Sum())
	found.Shards = len(diff.Entries)
	for _, key := range diff.Removed {
		if l.Shards[key].Count != 0 {
			found.Shards++
		}
	}
	l.Apply(diff)
	found.After, found.Problem, found.impossible = l.Sum(), found.snap.problem, diff.Impossible

	inferred := inferredShards(doc)
	rises := inferred > 0 && found.snap.numbered > inferred
	if diff.Empty() && found.Drift == 0 && isInteger(doc.GetFields()[store.Total]) && !rises {
		return found, nil
	}
	fields, mask := diff.Fields()
	transforms := []*firestorepb.DocumentTransform_FieldTransform{store.ServerTime(store.UpdatedAt)}
	if rises {
		transforms = append(transforms, store.Maximum(store.NumShards, found.snap.numbered))
	}
	found.writes = []*firestorepb.Write{
		store.Update(c.db.LedgerOf(counter), store.UpdatedAtTime(l.Updated), fields, mask),
		// The ledger's condition is enough: every commit that changes the total for a reason changes the ledger too.
		store.Update(c.db.Counter(counter), store.Exists(true),
			map[string]*firestorepb.Value{store.Total: store.Int(found.After)}, []string{store.Total}, transforms...),
	}
	return found, nil
}

// spare is how many entries of shards that are gone a ledger may hold before they are removed for their own sake.
const spare = 100

// right reports, without reading the shards, whether a counter's total is what they add up to, and they all hold integers.
func (c *Client) right(ctx context.Context, counter string, doc *firestorepb.Document, l *ledger.Ledger, now time.Time) (bool, error) {
	sum, numbers, err := c.db.SumNumbers(ctx, c.db.ShardsOf(counter), c.db.CountField, now)
	if err != nil {
		return false, fmt.Errorf("sum shards: %w", err)
	}
	fields := doc.GetFields()
	total := fields[store.Total]
	if !isInteger(sum) || !isInteger(total) || total.GetIntegerValue() != ledger.Add(l.Base, sum.GetIntegerValue()) {
		return false, nil // a double as the sum may hide a half, or be beyond an int64
	}
	if int64(len(l.Shards)) > numbers+spare {
		return false, nil
	}
	if inferred := inferredShards(doc); inferred > 0 {
		return numbers == inferred, nil // or else one with a higher number may have shown up
	}
	if numbers == fields[store.NumShards].GetIntegerValue() {
		return true, nil // as many as it should have
	}
	all, err := c.db.Count(ctx, c.db.ShardsOf(counter), now)
	if err != nil {
		return false, fmt.Errorf("count shards: %w", err)
	}
	return all == numbers, nil
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
	return r, nil
}

// reconcileUnadopted is for a counter without a ledger: adoption sets its total from its shards.
func (c *Client) reconcileUnadopted(ctx context.Context, r Report, dryRun bool) (Report, error) {
	if dryRun {
		snap, err := c.snapshot(ctx, r.Counter, time.Time{})
		if err != nil {
			return r, err
		}
		docs, _, err := c.db.Get(ctx, c.db.Counter(r.Counter))
		if err != nil {
			return r, err
		}
		r.Adopted = docs[0] != nil || len(snap.States)+len(snap.Odd) > 0
		r.After = snap.ledger().Sum()
		r.Problem = snap.problem
	} else {
		var err error
		if r.Adopted, r.Problem, err = c.adopt(ctx, r.Counter); err != nil {
			return r, fmt.Errorf("adopt: %w", err)
		}
		docs, _, err := c.db.Get(ctx, c.db.Counter(r.Counter))
		if err != nil {
			return r, err
		}
		r.After, _ = store.Integer(docs[0].GetFields()[store.Total])
	}
	r.Gone = !r.Adopted
	r.Late = ledger.Sub(r.After, r.Before)
	return r, nil
}

func isInteger(v *firestorepb.Value) bool {
	_, ok := v.GetValueType().(*firestorepb.Value_IntegerValue)
	return ok
}
