package rollup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/firestore-counters/counters/internal/hold"
)

// RollerOptions say how a [Roller] coalesces. Zero values mean the defaults.
type RollerOptions struct {
	Interval    time.Duration // in which a counter earns a flush, default 1s
	MaxInterval time.Duration // what contention may stretch it to, default 5s, at least Interval
	// Burst is how many flushes a counter that was quiet has at once, default 5. It earns one more
	// per Interval.
	Burst      int
	MaxPending int // events that may wait, default 5000; about one per shard that is written
	MaxFlushes int // counters flushed side by side, default 64
	// Patience is how long a counter's flushes may fail in a row before its events wait no longer,
	// default 15s: they are noted if others were always faster, or no commit had an answer, and
	// otherwise answered with an error. An error is dear: Pub/Sub delivers again after 10 s at the
	// earliest, and sends less of everything. It should be less than events' contexts have.
	Patience time.Duration

	// RecountMax is how late a field that counts documents may be, default 60s. If an event's context
	// has a deadline, its recount begins by three quarters of the time until then.
	RecountMax time.Duration
}

// flushTimeout bounds one flush. Firestore takes a second or so to refuse a commit on a contended
// document.
const flushTimeout = 8 * time.Second

// maxFailures is how many recounts of a collection fail in a row before its events are answered
// with an error.
const maxFailures = 2

// Roller rolls up changes as they come, coalesced: see the package comment. It is safe for
// concurrent use.
type Roller struct {
	client *Client

	mu       sync.Mutex
	pending  coalescer[chan<- error]
	recounts recounts[chan<- error] // of fields that show queries' answers
	closed   bool
	looked   time.Time // when notes were last looked for, or the roller was made

	kick    chan struct{} // something may be due
	idle    chan struct{} // closed with run's end
	running context.Context
	stop    context.CancelFunc
	all     sync.WaitGroup // run, and the flushes in flight
}

// NewRoller starts a roller, to be ended by [Roller.Close]. The client stays open.
func NewRoller(client *Client, opts RollerOptions) *Roller {
	least := cmp.Or(opts.Interval, time.Second)
	longest := max(least, cmp.Or(opts.MaxInterval, 5*time.Second))
	waiting, atOnce := cmp.Or(opts.MaxPending, 5000), cmp.Or(opts.MaxFlushes, 64)
	r := &Roller{
		client: client,
		pending: coalescer[chan<- error]{
			least: least, most: longest, burst: max(1, cmp.Or(opts.Burst, 5)), maxWaiting: waiting,
			patience: cmp.Or(opts.Patience, 15*time.Second), spread: rand.Float64, purse: 2 * fullPurse,
		},
		recounts: recounts[chan<- error]{
			least: least, most: cmp.Or(opts.RecountMax, time.Minute), longest: longest, maxWaiting: waiting, maxFailures: maxFailures,
		},
		looked: time.Now(),
		kick:   make(chan struct{}, 1),
		idle:   make(chan struct{}),
	}
	r.pending.atOnce, r.recounts.atOnce = atOnce, atOnce
	r.running, r.stop = context.WithCancel(context.Background())
	r.all.Go(r.run)
	return r
}

// Add returns once a change is counted, or once a newer change of its shard waits, which covers it. If only this
// counter can't be rolled up, because of [ErrDamagedLedger], [ErrLedgerFull] or [ErrContention] for too long, Add
// notes the counter and returns: within minutes a Roller that flushes anything, or [Client.ReconcileAll],
// reconciles it. A change that is added twice is counted once.
//
// Errors: [ErrPoison], for a change from the future; [ErrBusy]; [ErrClosed]; the context's, after which the change
// may have been counted; the client library's; and if nothing could be noted, the reason for the note.
//
// Pass all changes of one event together: Add returns once all are done, and returns [ErrPoison] only if there is
// no other error.
func (r *Roller) Add(ctx context.Context, changes ...Change) error {
	if len(changes) == 1 {
		return r.addOne(ctx, changes[0])
	}
	errs := make([]error, len(changes))
	var all sync.WaitGroup
	for i, change := range changes {
		all.Go(func() { errs[i] = r.addOne(ctx, change) })
	}
	all.Wait()
	var worst error
	for _, err := range errs {
		if worst == nil || err != nil && errors.Is(worst, ErrPoison) {
			worst = err
		}
	}
	return worst
}

func (r *Roller) addOne(ctx context.Context, change Change) error {
	if change.Counter == "" {
		var err error
		if change, err = r.client.lookFor(ctx, change); err != nil || change.Counter == "" {
			return err
		}
	}
	if change.Shard != "" && change.AsOf.IsZero() {
		var err error
		if change, err = r.client.look(ctx, change); err != nil {
			return err
		}
	}
	// Checked before it is held: nothing may drop it then, because events that it supersedes are done.
	if err := r.client.check(ctx, change); err != nil {
		return err
	}
	flushed := make(chan error, 1)
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	superseded, ok := r.hold(ctx, change, flushed)
	r.mu.Unlock()
	if !ok {
		return ErrBusy
	}
	for _, event := range superseded {
		event <- nil
	}
	r.poke()
	select {
	case err := <-flushed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for the roll-up of counter %q: %w", change.Counter, ctx.Err())
	}
}

// hold takes a change that was checked.
func (r *Roller) hold(ctx context.Context, change Change, flushed chan<- error) (superseded []chan<- error, ok bool) {
	if change.Collection == "" {
		superseded, ok = r.pending.add(time.Now(), change.Counter, change.state(), flushed)
		late := !change.Gone && r.client.db.Now().Sub(change.AsOf) > lateAfter
		if late && ok && !slices.Contains(superseded, flushed) {
			r.pending.late(time.Now(), change.Counter)
		}
		return superseded, ok
	}
	now, patience := time.Now(), time.Duration(math.MaxInt64)
	if end, ok := ctx.Deadline(); ok {
		patience = end.Sub(now) * 3 / 4
	}
	e := waitingEvent[chan<- error]{at: change.AsOf, timeless: change.Gone || change.AsOf.IsZero(), gone: change.Gone, event: flushed}
	return r.recounts.add(now, collection{change.Counter, change.Collection}, e, patience)
}

// Close refuses further changes, flushes at once what waits, and ends the roller. If the context ends
// first, calls of Add that still wait return [ErrClosed], or the error of their flush.
func (r *Roller) Close(ctx context.Context) error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		r.pending.drain(time.Now())
		r.recounts.drain(time.Now())
	}
	r.mu.Unlock()
	r.poke()
	var err error
	select {
	case <-r.idle:
	case <-ctx.Done():
		err = ctx.Err()
	}
	r.stop()
	r.all.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, event := range append(r.pending.left(), r.recounts.left()...) {
		event <- ErrClosed
	}
	return err
}

func (r *Roller) poke() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// run starts what is due, until the roller is closed and nothing waits any more.
func (r *Roller) run() {
	defer close(r.idle)
	for {
		var wake <-chan time.Time
		r.mu.Lock()
		for r.running.Err() == nil {
			flush, flushes := r.pending.start(time.Now())
			if flushes {
				r.all.Go(func() { r.flush(flush) })
			}
			recount, counts := r.recounts.start(time.Now())
			if counts {
				r.all.Go(func() { r.recount(recount) })
			}
			if !flushes && !counts {
				break
			}
		}
		due, ok := r.pending.wake()
		if sooner, is := r.recounts.wake(); is && (!ok || sooner.Before(due)) {
			due, ok = sooner, true
		}
		if ok {
			wake = time.After(time.Until(due))
		}
		done := r.closed && r.pending.waiting == 0 && r.recounts.waiting == 0
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-r.kick:
		case <-wake:
		case <-r.running.Done():
			return
		}
	}
}

func (r *Roller) flush(b batch) {
	// A context of its own: no event's deadline or disconnect ends what others wait for.
	ctx, cancel := context.WithTimeout(r.running, flushTimeout)
	defer cancel()
	f, err := r.client.flush(ctx, b)
	r.client.logFlush(ctx, b, f, err)

	o := committed
	switch {
	case err != nil:
		o = failure(err)
	case f.committed || f.gone:
	case f.otherFlushes > 0 || len(f.open) > 0:
		o = followed
	default:
		o = unchanged
	}
	r.mu.Lock()
	now := time.Now()
	s := r.pending.done(now, b, o, f)
	for _, a := range s.early {
		for _, e := range a.events {
			superseded, ok := r.recounts.add(now, collection{b.counter, a.collection}, e, 0)
			if s.counted = append(s.counted, superseded...); !ok {
				s.refused = append(s.refused, e.event)
			}
		}
	}
	for _, id := range f.unasked {
		// once: not by the flush of what came of it again, where that is no answer
		of := collection{b.counter, id}
		if t := r.recounts.tasks[of]; r.closed || t != nil && t.first.Equal(f.made) {
			continue
		}
		if _, ok := r.recounts.add(now, of, waitingEvent[chan<- error]{timeless: true, gone: true, event: make(chan error, 1)}, 0); ok {
			r.recounts.tasks[of].first = f.made
		}
	}
	if !r.closed && now.Sub(r.looked) >= noteDue {
		r.looked = now
		r.all.Go(r.reconcileDue)
	}
	r.mu.Unlock()
	for _, event := range s.counted {
		event <- nil
	}
	for _, event := range s.refused {
		event <- cmp.Or(err, ErrBusy)
	}
	if len(s.noted) > 0 {
		err := r.client.note(r.running, b.counter, cmp.Or(err, ErrLedgerFull))
		for _, event := range s.noted {
			event <- err
		}
	}
	r.poke()
}

// recount asks what is due, and hands the answers and their events to the counter's next flush.
func (r *Roller) recount(b recount) {
	ctx, cancel := context.WithTimeout(r.running, aggregationTimeout)
	defer cancel()
	got, err := r.client.ask(ctx, b.of.counter, r.client.db.Layout.CountedIn(b.of.id))
	r.client.logRecount(ctx, b, got, err)
	o := committed
	switch {
	case err != nil:
		o = failure(err)
	case len(got.problems) > 0: // nothing is gained by asking again soon
		o = unchanged
	}
	r.mu.Lock()
	now := time.Now()
	covered, refused := r.recounts.done(now, b, o, got.largest)
	answer := answered[chan<- error]{collection: b.of.id, elsewhere: r.client.elsewhere(b.of.id), answers: got.answers, events: covered}
	if got.unanswered {
		answer.events = nil
	}
	if len(answer.events)+len(answer.answers) > 0 {
		r.pending.answer(now, b.of.counter, answer)
	}
	r.mu.Unlock()
	if got.unanswered && len(covered) > 0 { // maybe the queries take too long, so others' events need not wait for them
		noted := r.client.note(r.running, b.of.counter, errUnanswered)
		for _, event := range events(covered) {
			event <- noted
		}
	}
	for _, event := range refused {
		event <- err
	}
	r.poke()
}

// reconcileDue looks for notes that are due, and for holds that are over.
func (r *Roller) reconcileDue() {
	if err := hold.In(r.client.db).EndAll(r.running); err != nil && r.running.Err() == nil {
		r.client.log.LogAttrs(r.running, slog.LevelWarn, logHoldsNotEnded, slog.Any("error", err))
	}
	if _, _, err := r.client.reconcileDue(r.running, r.client.db.Now(), ReconcileOptions{}); err != nil && r.running.Err() == nil {
		r.client.log.LogAttrs(r.running, slog.LevelWarn, logNotesUnread, slog.Any("error", err))
	}
}
