package rollup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/store"
)

// Reconcile shows what a counter's fields hold, without an event, and says what is wrong with its shards. It costs
// two reads, one per field, and one per shard. It is safe beside everything else. Errors: [ErrInvalidID],
// [ErrContention], [ErrDamagedBase], or the client library's; the call may be repeated.
func (c *Client) Reconcile(ctx context.Context, counter string, opts ReconcileOptions) (Report, error) {
	if err := c.db.Layout.Path.Validate(counter); err != nil {
		return Report{Counter: counter}, fmt.Errorf("reconcile: %w: %w", ErrInvalidID, err)
	}
	opts.each = opts.budget == nil || rand.IntN(c.looksOnceIn) == 0
	r, hadNote := Report{Counter: counter}, false
	var err error
	if opts.budget == nil && !opts.DryRun { // a walk has looked at all notes before
		r, hadNote, err = c.reconcileNoted(ctx, counter, false, opts)
	}
	if err == nil && !hadNote {
		r, err = c.reconcile(ctx, counter, opts)
	}
	if errors.Is(err, errUnfinished) || errors.Is(err, errUnanswered) {
		err = nil // the report has it as its problem, and the note stays
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

// An error slows down all deliveries of the subscription. So where one counter alone is the cause, its events are
// acknowledged for a note, see [store.Note], and a reconcile covers them soon.

const (
	// notedLimit is how long a counter may take, its queries included.
	notedLimit = aggregationTimeout + showTime
	// noteTimeout bounds what noting takes: it is beside what an event has waited for already.
	noteTimeout = 5 * time.Second
)

// note notes that a counter must be reconciled. Events that came before the call may be acknowledged
// once it has returned without an error. An error says first why.
func (c *Client) note(ctx context.Context, counter string, why error) error {
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	made, err := c.db.EnsureNote(ctx, counter, why.Error())
	if err != nil {
		return fmt.Errorf("%w; note that counter %q must be reconciled: %w", why, counter, err)
	}
	if made {
		c.log.LogAttrs(ctx, slog.LevelError, LogNoted, slog.String("counter", counter), slog.Float64("age_s", 0), slog.Any("error", why))
	}
	return nil
}

// reconcileNoted reconciles a counter for its note, and ends the note: see [store.DB.BeginNote]. It reports whether
// there was one to begin with.
func (c *Client) reconcileNoted(ctx context.Context, counter string, due bool, opts ReconcileOptions) (r Report, hadNote bool, err error) {
	r.Counter = counter
	n, err := c.db.BeginNote(ctx, counter, due)
	if err == nil && n == nil {
		return r, false, nil
	}
	if err == nil {
		opts.forNote = true
		r, err = c.reconcile(ctx, counter, opts)
	}
	if err == nil && ctx.Err() == nil {
		err = c.db.EndNote(ctx, *n)
	}
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return r, true, err // this process ends
	}
	attrs := []slog.Attr{slog.String("counter", counter)}
	if n != nil {
		attrs = append(attrs, slog.Float64("age_s", n.At.Sub(n.Since).Seconds()))
	}
	if err == nil {
		c.log.LogAttrs(ctx, slog.LevelInfo, logNotedDone, attrs...)
	} else {
		c.log.LogAttrs(ctx, slog.LevelError, LogNoted, append(attrs, slog.Any("error", err))...)
	}
	return r, true, err
}

// reconcileDue reconciles counters whose notes are due by a time of Firestore's, or all with notes if
// that is zero. It returns how many there were, and the reads of their queries.
func (c *Client) reconcileDue(ctx context.Context, until time.Time, opts ReconcileOptions) (found int, reads int64, err error) {
	notes, err := c.db.NotesDue(ctx, until)
	if err != nil {
		return 0, 0, err
	}
	var group errgroup.Group
	group.SetLimit(max(1, opts.Parallel))
	var total atomic.Int64
	for _, n := range notes {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, cmp.Or(opts.limit, notedLimit))
			defer cancel()
			if c.db.Budget.Wait(ctx, ceiling.Reads, ceiling.Writes); ctx.Err() != nil {
				return nil // it stays noted
			}
			r, _, _ := c.reconcileNoted(ctx, n.Counter, !until.IsZero(), opts)
			total.Add(r.Reads)
			return nil
		})
	}
	_ = group.Wait()
	return len(notes), total.Load(), nil
}

// Noted is how many counters must be reconciled, of up to 1,000 or as the budget allows, and since when the first.
func (c *Client) Noted(ctx context.Context) (n int, since time.Time, err error) {
	notes, err := c.db.Notes(ctx, 1000)
	for _, note := range notes {
		if since.IsZero() || note.Since.Before(since) {
			since = note.Since
		}
	}
	return len(notes), since, err
}

// Summary is what a reconcile of several counters found.
type Summary struct {
	Seen     int   `json:"seen"`     // counters that were checked
	Repaired int   `json:"repaired"` // of these, those that were not right
	Drifted  int   `json:"drifted"`  // of these, those whose total had drifted
	Drift    int64 `json:"drift"`    // of these, summed up without signs
	Failed   int   `json:"failed"`   // counters that could not be checked or repaired
	Problems int   `json:"problems"` // counters with a problem that a reconcile can't repair
	Idle     int   `json:"idle"`     // of these, those that were removed, because nothing had written them for long
	Reads    int64 `json:"reads"`    // that counting documents took
	// Noted is how many counters, of up to 1,000, have events that were acknowledged and can't be counted yet, the
	// first since NotedSince.
	Noted      int       `json:"noted"`
	NotedSince time.Time `json:"noted_since,omitzero"`
	Done       bool      `json:"done"` // whether the last counter was reached
}

// add counts one report.
func (s *Summary) add(r Report, err error) {
	if r.Gone && err == nil {
		return // a document that is only there for what is below it
	}
	s.Seen++
	s.Reads += r.Reads
	if err != nil {
		s.Failed++
		return
	}
	if r.Repaired() {
		s.Repaired++
	}
	if r.Problem != "" {
		s.Problems++
	}
	if r.Idle {
		s.Idle++
	}
	if drift := r.drift(); drift != 0 {
		s.Drifted++
		s.Drift = store.Add(s.Drift, drift)
	}
}

// pageSize is how many counters one page lists, and boundPage while the budget bounds reads: what was listed and can't
// be looked at any more is listed again.
const pageSize, boundPage = 100, 20

func (c *Client) pageSize() int {
	if c.db.Budget.Bounds(ceiling.Reads) {
		return boundPage
	}
	return pageSize
}

// counterLimit is how long one counter may take. The largest take seconds. One that waits for a killed process's locks
// is left to the next walk.
const counterLimit = 30 * time.Second

// reconcileNotes reconciles what is noted, in half of the time at most.
func (c *Client) reconcileNotes(ctx context.Context, opts ReconcileOptions, sum *Summary) (err error) {
	if !opts.DryRun {
		half, cancel := halfOf(ctx)
		defer cancel()
		opts.budget, opts.Report = nil, nil
		found := 0
		if found, sum.Reads, err = c.reconcileDue(half, time.Time{}, opts); err != nil || found == 0 {
			return err
		}
	}
	sum.Noted, sum.NotedSince, err = c.Noted(ctx)
	return err
}

// halfOf has half of a context's time.
func halfOf(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(end)/2)
	}
	return context.WithCancel(ctx)
}

// tidy does what is due now and then, whatever the events are of: it ends holds that are over, and looks for notes that
// are due.
func (c *Client) tidy(ctx context.Context) {
	c.endHolds(ctx)
	if _, _, err := c.reconcileDue(ctx, c.db.Now(), ReconcileOptions{}); err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, logNotesUnread, "error", err)
	}
}

// endHolds ends holds that are over, of all counters. Those that are left when it fails, or ctx ends, are looked for
// again.
func (c *Client) endHolds(ctx context.Context) {
	if err := hold.In(c.db).EndAll(ctx); err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "holds that are over can't be ended", "error", err)
	}
}

// ReconcileAll reconciles all counters, noted ones first (see [Roller.Add]). A walk that resumes, and doesn't come to
// its end in half of its time, or didn't the last time, looks at those that have changed before it goes on.
// ReconcileAll reports a counter's failure, and goes on. If the context ends, the summary isn't done. Errors are those
// of listing.
func (c *Client) ReconcileAll(ctx context.Context, opts ReconcileOptions) (Summary, error) {
	opts = opts.withDefaults(ctx)
	if !opts.DryRun {
		// Or whoever makes many holds of a second each would stop all walks.
		half, cancel := halfOf(ctx)
		c.endHolds(half)
		cancel()
	}
	opts.budget = &walkReads{left: cmp.Or(opts.RecountReads, defaultRecountReads)}
	resume := opts.Resume && !opts.DryRun
	var sum Summary
	if err := c.reconcileNotes(ctx, opts, &sum); err != nil && ctx.Err() == nil {
		return sum, fmt.Errorf("reconcile: %w", err)
	}
	w := walking{client: c, opts: opts, sum: &sum, looked: map[string]bool{}}
	if resume {
		var err error
		if w.at, w.began, err = c.db.ReadCursor(ctx); err != nil {
			return sum, fmt.Errorf("reconcile: read where the last walk stopped: %w", err)
		}
	}
	opts.budget.from = w.at.AsksFrom
	whole := w.at.Page == "" && w.at.Done == ""
	half, cancel := halfOf(ctx)
	defer cancel()
	// What has changed is looked for once, by a walk that goes on where another stopped, or whose time is half over.
	for changesDone := !resume; ; {
		if !changesDone && (!whole || half.Err() != nil) {
			changesDone = true
			if err := w.reconcileChanged(ctx); err != nil && ctx.Err() == nil {
				return sum, fmt.Errorf("reconcile: list counters: %w", err)
			}
		}
		stopped, err := w.step(ctx)
		if err != nil {
			return sum, fmt.Errorf("reconcile: list counters: %w", err)
		}
		w.at.Unasked = opts.budget.first(w.at.Unasked)
		if sum.Done = !stopped && w.at.Page == ""; sum.Done {
			if w.at.AsksFrom, w.at.Unasked = w.at.Unasked, ""; whole {
				w.at = store.Cursor{ChangedSince: w.began, AsksFrom: w.at.AsksFrom}
			}
		}
		if resume {
			if err := c.db.SaveCursor(ctx, w.at); err != nil {
				return sum, fmt.Errorf("reconcile: remember where the walk stopped: %w", err)
			}
		}
		if stopped || sum.Done {
			return sum, nil
		}
	}
}

// walking is a walk over all counters on its way.
type walking struct {
	client *Client
	opts   ReconcileOptions
	sum    *Summary
	at     store.Cursor
	began  time.Time       // when this walk began, by Firestore's clock; zero if it doesn't resume
	looked map[string]bool // counters that it has looked at
}

// step looks at the walk's next page, but for the counters of it that are done. It reports whether the walk stopped
// within it, because its time was over. Where Firestore doesn't know the page any more, the walk begins again.
func (w *walking) step(ctx context.Context) (stopped bool, err error) {
	c := w.client
	ids, next, err := c.db.List(ctx, c.pageSize(), w.at.Page)
	if status.Code(err) == codes.InvalidArgument && w.at.Page != "" {
		w.at.Page, w.at.Done = "", ""
		ids, next, err = c.db.List(ctx, c.pageSize(), "")
	}
	if err != nil {
		if ctx.Err() != nil {
			return true, nil
		}
		return false, err
	}
	ids = ids[slices.Index(ids, w.at.Done)+1:] // none: it is gone, and others may be behind it now
	n := w.page(ctx, ids)
	if n == len(ids) {
		w.at.Page, w.at.Done = next, ""
		return false, nil
	}
	if n > 0 {
		w.at.Done = ids[n-1]
	}
	return true, nil
}

// page looks at counters that the walk hasn't looked at yet. It returns how many of them are done, from the first on.
func (w *walking) page(ctx context.Context, ids []string) int {
	fresh := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return w.looked[id] })
	n := w.client.reconcilePage(ctx, fresh, w.opts, w.sum)
	if !w.began.IsZero() { // it may meet them again
		for _, id := range fresh[:n] {
			w.looked[id] = true
		}
	}
	if n < len(fresh) {
		return slices.Index(ids, fresh[n])
	}
	return len(ids)
}

// changedBefore is how far back the first look for changes goes.
const changedBefore = 24 * time.Hour

// reconcileChanged looks at the counters that have changed since the last look for them began, in half of the time that
// is left. So others that nobody writes, however many somebody makes, don't keep these waiting. It takes a read for
// each counter there is, and goes on where the last look ran out of time.
func (w *walking) reconcileChanged(ctx context.Context) error {
	c := w.client
	half, cancel := halfOf(ctx)
	defer cancel()
	if w.at.ChangesBegan.IsZero() {
		w.at.Changes, w.at.ChangesBegan = "", w.began
	}
	since := w.at.ChangedSince
	if since.IsZero() {
		since = w.at.ChangesBegan.Add(-changedBefore)
	}
	for {
		if c.db.Budget.Wait(half, ceiling.Reads, ceiling.Writes); half.Err() != nil {
			return nil
		}
		counters, next, err := c.db.ListTimes(half, c.pageSize(), w.at.Changes)
		if status.Code(err) == codes.InvalidArgument && w.at.Changes != "" {
			w.at.Changes = ""
			continue
		}
		if err != nil {
			if half.Err() != nil {
				return nil
			}
			return err
		}
		var ids []string
		for _, counter := range counters {
			if usedSince(counter, since) {
				ids = append(ids, counter.ID)
			}
		}
		if w.page(half, ids) < len(ids) {
			return nil
		}
		if w.at.Changes = next; next == "" {
			w.at.ChangedSince, w.at.ChangesBegan = w.at.ChangesBegan, time.Time{}
			return nil
		}
	}
}

// justMade is how long after it was made a counter's document changes by what made it: its first roll-up.
const justMade = time.Minute

// usedSince reports whether a counter's document has changed since a time, and not only when it was made.
func usedSince(counter store.Listed, since time.Time) bool {
	return counter.Changed.After(since) && counter.Changed.Sub(counter.Made) > justMade
}

// ReconcileSome reconciles the counters named. The summary is done unless the context ended first.
func (c *Client) ReconcileSome(ctx context.Context, counters []string, opts ReconcileOptions) Summary {
	var sum Summary
	sum.Done = c.reconcilePage(ctx, counters, opts.withDefaults(ctx), &sum) == len(counters)
	return sum
}

func (o ReconcileOptions) withDefaults(ctx context.Context) ReconcileOptions {
	if o.Parallel <= 0 {
		o.Parallel = 8
	}
	o.limit = counterLimit
	if end, ok := ctx.Deadline(); ok {
		o.limit = min(o.limit, time.Until(end)/4)
	}
	return o
}

// reconcilePage returns how many counters are done, from the first on: the next walk goes on behind them. A walk's
// first ones have their whole limit, so every walk gets further than the one before.
func (c *Client) reconcilePage(ctx context.Context, ids []string, opts ReconcileOptions, sum *Summary) int {
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(opts.Parallel)
	done := make([]bool, len(ids))
	for i, id := range ids {
		group.Go(func() error {
			if c.db.Budget.Wait(ctx, ceiling.Reads, ceiling.Writes); ctx.Err() != nil {
				return nil
			}
			soon, cancel := context.WithTimeout(ctx, opts.limit)
			defer cancel()
			r, err := c.Reconcile(soon, id, opts)
			if err != nil && ctx.Err() != nil {
				return nil // out of time, and seen again by the next walk
			}
			mu.Lock()
			defer mu.Unlock()
			done[i] = true
			sum.add(r, err)
			if opts.Report != nil && (!r.Gone || err != nil || opts.budget == nil) {
				opts.Report(r, err)
			}
			return nil
		})
	}
	_ = group.Wait()
	if n := slices.Index(done, false); n >= 0 {
		return n
	}
	return len(ids)
}
