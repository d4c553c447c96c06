package rollup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/store"
)

// RollerOptions say how a [Roller] coalesces. Zero values mean the defaults.
type RollerOptions struct {
	Interval time.Duration // in which a counter earns a refresh, default 1s; contention may stretch it to five times that
	// Burst is how many refreshes a counter that was quiet has at once, default 5. It earns one more per Interval.
	Burst      int
	MaxPending int // events that may wait, default 5000
	MaxFlushes int // counters refreshed side by side, default 64
	// Patience is how long a counter's refreshes may fail in a row before its events stop waiting, default 15s; less
	// than the time that events' contexts have. If other writers were always faster, or no commit had an answer, the
	// counter is noted. Otherwise Add returns an error, and Pub/Sub sends less of everything.
	Patience time.Duration

	// RecountMax is how late a field that counts documents may be, default 60s. A recount begins by three quarters of
	// the time that an event's context has.
	RecountMax time.Duration
}

// refreshTimeout bounds one refresh. Firestore takes a second or so to refuse a commit on a contended document.
const refreshTimeout = 8 * time.Second

// Roller rolls up changes as they come, coalesced: see the package comment. It is safe for concurrent use.
type Roller struct {
	client *Client

	mu      sync.Mutex
	pending pacer[chan<- error]
	closed  bool
	tidied  time.Time  // when notes were last looked for, or the roller was made
	tidying sync.Mutex // held while they are: several looks at a time would wait for what refreshes wait for

	kick    chan struct{} // something may be due
	idle    chan struct{} // closed with run's end
	running context.Context
	stop    context.CancelFunc
	all     sync.WaitGroup // run, and what is in flight
}

// NewRoller starts a roller, to be ended by [Roller.Close]. The client stays open.
func NewRoller(client *Client, opts RollerOptions) *Roller {
	least := cmp.Or(opts.Interval, time.Second)
	r := &Roller{
		client: client,
		pending: pacer[chan<- error]{
			least: least, most: 5 * least, burst: max(1, cmp.Or(opts.Burst, 5)),
			patience: cmp.Or(opts.Patience, 15*time.Second), recountMax: cmp.Or(opts.RecountMax, time.Minute),
			maxWaiting: cmp.Or(opts.MaxPending, 5000), maxRunning: cmp.Or(opts.MaxFlushes, 64), spread: rand.Float64,
			backlogs: map[source]*backlog[chan<- error]{},
		},
		tidied: time.Now(),
		kick:   make(chan struct{}, 1),
		idle:   make(chan struct{}),
	}
	r.running, r.stop = context.WithCancel(context.Background())
	r.all.Go(r.run)
	return r
}

// Add returns once the fields of all changes of an event are shown as of its write or later, or were asked for since
// Add was called; or once a later change of these fields waits, which comes again if this process dies. If only one
// counter can't be rolled up, because of [ErrDamagedBase] or [ErrContention] for too long, Add notes it, and a Roller
// or [Client.ReconcileAll] reconciles it within minutes.
//
// Errors: [ErrBusy]; [ErrClosed]; the context's, after which the change may have been counted; the client library's;
// and if nothing could be noted, the reason for the note.
func (r *Roller) Add(ctx context.Context, changes ...Change) error {
	var group errgroup.Group
	for _, change := range changes {
		group.Go(func() error { return r.addOne(ctx, change) })
	}
	return group.Wait()
}

func (r *Roller) addOne(ctx context.Context, change Change) error {
	if change.Counter == "" {
		var err error
		if change, err = r.client.findCounter(ctx, change); err != nil || change.Counter == "" {
			return err
		}
	}
	shown := make(chan error, 1)
	now, patience := time.Now(), time.Duration(math.MaxInt64)
	if end, ok := ctx.Deadline(); ok {
		patience = end.Sub(now) * 3 / 4
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	done, ok := r.pending.add(now, change, patience, shown)
	r.mu.Unlock()
	tell(done, nil)
	if !ok {
		return ErrBusy
	}
	r.poke()
	select {
	case err := <-shown:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for the roll-up of counter %q: %w", change.Counter, ctx.Err())
	}
}

// tell says to those who wait for events what became of them.
func tell(events []chan<- error, err error) {
	for _, event := range events {
		event <- err
	}
}

// Close refuses further changes, refreshes at once what waits, and ends the roller. If the context ends
// first, calls of Add that still wait return [ErrClosed], or the error of their refresh.
func (r *Roller) Close(ctx context.Context) error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		r.pending.drain(time.Now())
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
	tell(r.pending.unbegun(), ErrClosed)
	return err
}

func (r *Roller) poke() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// shortFor is how long refreshes wait until the budget has something left for one counter more; not at the end, which
// must come.
func (r *Roller) shortFor() time.Duration {
	if r.closed {
		return 0
	}
	budget := r.client.db.Budget
	wait := max(budget.Until(ceiling.Reads, 1), budget.Until(ceiling.Writes, 1))
	if wait > 0 && r.pending.waiting > 0 {
		budget.Held()
	}
	return wait
}

// promise spends of the budget about what a refresh or recount takes, until it ends: document and base, each field that
// an event waits for, and what it writes; or what the last recount took. So those that begin together don't all count
// on what one of them can have.
func (r *Roller) promise(f *flight) {
	db := r.client.db
	if f.documents != "" {
		f.promised[ceiling.Reads] = float64(len(db.Layout.FieldsThatCount(f.documents))) * float64(max(1, f.largest))
	} else {
		waited := map[string]bool{}
		for _, need := range f.needs {
			for _, field := range need.fields {
				waited[field] = true
			}
		}
		f.promised[ceiling.Reads] = float64(book.Reads + len(waited))
		f.promised[ceiling.Writes] = float64(1 + len(f.shards) + book.ShownSize(f.counter, len(db.Layout.Shown()))/1024)
	}
	db.Budget.SpendAll(f.promised)
}

// run starts what is due, until the roller is closed and nothing waits any more.
func (r *Roller) run() {
	defer close(r.idle)
	for {
		var wake <-chan time.Time
		r.mu.Lock()
		short := r.shortFor()
		for r.running.Err() == nil && short == 0 {
			r.pending.scarce = r.client.db.Budget.Short(ceiling.Reads, ceiling.Writes) > 0
			f, starts := r.pending.start(time.Now())
			if !starts {
				break
			}
			// Who is behind would ask for all fields each time, and never catch up.
			f.all = f.all && r.client.db.Budget.Short(ceiling.Reads) == 0
			r.promise(&f)
			short = r.shortFor()
			carryOut := r.refresh
			if f.documents != "" {
				carryOut = r.recount
			}
			r.all.Go(func() { carryOut(f) })
		}
		if due, ok := r.pending.wake(); ok || short > 0 {
			if soonest := time.Now().Add(short); due.Before(soonest) {
				due = soonest
			}
			wake = time.After(time.Until(due))
		}
		done := r.closed && r.pending.waiting == 0
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

func (r *Roller) refresh(f flight) {
	// A context of its own: no event's deadline or disconnect ends what others wait for.
	ctx, cancel := context.WithTimeout(r.running, refreshTimeout)
	defer cancel()
	got, err := r.client.refresh(ctx, f)
	r.client.logRefresh(ctx, f, got, err)
	r.end(f, err, func(now time.Time) dismissed[chan<- error] { return r.pending.done(now, f, got) })
}

// recount asks what is due, and hands the answers and their events to the counter's next refresh.
func (r *Roller) recount(f flight) {
	got, err := r.client.askQueries(r.running, f.counter, r.client.db.Layout.FieldsThatCount(f.documents))
	r.client.logRecount(r.running, f, got, err)
	if err == nil && got.unanswered {
		err = errUnanswered
	}
	r.end(f, err, func(now time.Time) dismissed[chan<- error] { return r.pending.recounted(now, f, got) })
}

// end takes back what was in flight, and answers the events that need not wait any longer.
func (r *Roller) end(f flight, err error, take func(now time.Time) dismissed[chan<- error]) {
	r.client.db.Budget.Release(f.promised)
	r.mu.Lock()
	now := time.Now()
	s := take(now)
	if f.documents == "" && !r.closed && now.Sub(r.tidied) >= store.NoteDue && r.tidying.TryLock() {
		r.tidied = now
		r.all.Go(func() { defer r.tidying.Unlock(); r.client.tidy(r.running) })
	}
	r.mu.Unlock()
	tell(s.done, nil)
	tell(s.redeliver, err)
	if len(s.noted) > 0 {
		tell(s.noted, r.client.note(r.running, f.counter, err))
	}
	r.poke()
}

// logRefresh writes the one log line per refresh that metrics are made from.
func (c *Client) logRefresh(ctx context.Context, f flight, r refreshed, err error) {
	deltas := map[string]int64{}
	for _, change := range r.changes {
		deltas[change.Field.Name] = change.Delta
	}
	delta := slog.Any("deltas", deltas)
	if fields := c.db.Layout.Sharded.SettingNames(); len(fields) == 1 {
		delta = slog.Int64("delta", deltas[fields[0]])
	}
	attrs := []slog.Attr{delta, slog.Int("reads", r.reads)}
	if r.outcome == succeeded && err == nil && !f.oldest.IsZero() {
		attrs = append(attrs, slog.Float64("lag_ms", ms(c.db.Now().Sub(f.oldest))))
	}
	attrs = f.attrs(err, attrs...)
	switch {
	case errors.Is(err, ErrContention):
		c.log.LogAttrs(ctx, slog.LevelWarn, LogContention, attrs...)
	case r.outcome == ownFault: // said once, by its note
	case err != nil:
		c.log.LogAttrs(ctx, slog.LevelError, logRollupFailed, attrs...)
	case r.outcome == leftToOthers:
		c.log.LogAttrs(ctx, slog.LevelDebug, "left to another instance", attrs...)
	default:
		c.log.LogAttrs(ctx, slog.LevelInfo, LogRollup, attrs...)
	}
}

// attrs are those of the log line of a refresh or a recount, with more that are its own.
func (f *flight) attrs(err error, more ...slog.Attr) []slog.Attr {
	all := append([]slog.Attr{slog.String("counter", f.counter), slog.Int64("events", f.events)}, more...)
	all = append(all, slog.Float64("duration_ms", ms(time.Since(f.started))))
	if err != nil {
		all = append(all, slog.Any("error", err))
	}
	return all
}

// logRecount writes the one log line per recount.
func (c *Client) logRecount(ctx context.Context, f flight, got queried, err error) {
	values := make(map[string]*float64, len(got.answers))
	for name, a := range got.answers {
		values[name] = store.Number(a.Value)
	}
	attrs := f.attrs(err, slog.String("collection", f.documents), slog.Int64("reads", got.reads), slog.Any("values", values))
	if err != nil {
		c.log.LogAttrs(ctx, slog.LevelError, logRecountFailed, attrs...)
		return
	}
	c.log.LogAttrs(ctx, slog.LevelInfo, logRecount, attrs...)
}

// ms are milliseconds, for the log.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
