package rollup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

var (
	// ErrBusy says that too many events wait already. The event is to be delivered again.
	ErrBusy = errors.New("too many events are waiting")
	// ErrClosed says that the roller has been closed. The event is to be delivered again.
	ErrClosed = errors.New("roll-up is closed")
)

// Pace says how a [Roller] coalesces. Zero values mean the defaults.
type Pace struct {
	Interval time.Duration // least time between two flushes of a counter, default 1s
	Most     time.Duration // what contention may stretch it to, default 5s, at least Interval
	Pending  int           // events that may wait, default 5000
	Flushes  int           // counters flushed side by side, default 64
}

// flushTimeout bounds one flush. A commit on a contended document takes a second or so to be refused, and an event
// should not be held for much longer than the longest interval.
const flushTimeout = 8 * time.Second

// maxFailures is how many flushes of a counter fail in a row before its events are answered with an error. With
// doubling intervals that is after some ten seconds, well before the callers' own deadlines.
const maxFailures = 2

// Roller counts changes as they come, coalesced: see the package comment. It is safe for concurrent use.
type Roller struct {
	client *Client
	log    *slog.Logger

	mu      sync.Mutex
	pending coalescer[chan<- error]
	closed  bool

	kick    chan struct{} // something may be due
	stop    chan struct{}
	stopped chan struct{}
	flights sync.WaitGroup
}

// NewRoller starts a roller. Each flush is logged with what it counted, how late and how long it took. [Roller.Close]
// ends it; the client stays open.
func NewRoller(client *Client, pace Pace, log *slog.Logger) *Roller {
	orDefault(&pace.Interval, time.Second)
	orDefault(&pace.Most, 5*time.Second)
	orDefault(&pace.Pending, 5000)
	orDefault(&pace.Flushes, 64)
	r := &Roller{
		client: client,
		log:    log,
		pending: coalescer[chan<- error]{
			least: pace.Interval, most: max(pace.Interval, pace.Most),
			maxWaiting: pace.Pending, maxFlights: pace.Flushes, maxFailures: maxFailures,
			backlogs: map[string]*backlog[chan<- error]{},
		},
		kick:    make(chan struct{}, 1),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	go r.run()
	return r
}

func orDefault[T int | time.Duration](value *T, def T) {
	if *value == 0 {
		*value = def
	}
}

// Add counts a change, and returns once the flush that holds it has committed. It may be called again for the same
// change: that counts nothing more. Errors: [ErrBusy], [ErrClosed], the context's, in which case the change may be
// counted all the same, and those of [Client.Apply].
func (r *Roller) Add(ctx context.Context, change Change) error {
	flushed := make(chan error, 1)
	r.mu.Lock()
	closed := r.closed
	added := !closed && r.pending.add(time.Now(), change.Counter, change.State(), flushed)
	r.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case !added:
		return ErrBusy
	}
	r.poke()
	select {
	case err := <-flushed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for the roll-up of counter %q: %w", change.Counter, ctx.Err())
	}
}

// Close flushes what waits, without regard to intervals, and ends the roller. When the context ends first, those who
// still wait get [ErrClosed].
func (r *Roller) Close(ctx context.Context) error {
	r.mu.Lock()
	r.pending.drain()
	r.mu.Unlock()
	r.poke()
	var err error
	for r.waiting() > 0 && err == nil {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	r.mu.Unlock()
	close(r.stop)
	<-r.stopped
	r.flights.Wait()
	for _, b := range r.pending.backlogs {
		for _, w := range b.waiters {
			w <- ErrClosed
		}
	}
	return err
}

func (r *Roller) waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending.waiting
}

func (r *Roller) poke() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// run starts what is due.
func (r *Roller) run() {
	defer close(r.stopped)
	for {
		var wake <-chan time.Time
		r.mu.Lock()
		for {
			flush, ok := r.pending.next(time.Now())
			if !ok {
				break
			}
			r.flights.Go(func() { r.flush(flush) })
		}
		if due, ok := r.pending.wake(); ok {
			wake = time.After(time.Until(due))
		}
		r.mu.Unlock()
		select {
		case <-r.kick:
		case <-wake:
		case <-r.stop:
			return
		}
	}
}

func (r *Roller) flush(b batch[chan<- error]) {
	// A context of its own: no event's deadline or disconnect ends what others wait for.
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	applied, err := r.client.Apply(ctx, b.counter, b.states)
	r.report(ctx, b, applied, err)

	o := committed
	switch {
	case err == nil && applied.Shards == 0 && !applied.Gone:
		o = unchanged
	case err != nil && (store.KindOf(err) == store.Permanent || errors.Is(err, ledger.ErrDamaged)):
		o = hopeless
	case err != nil:
		o = failed
	}
	r.mu.Lock()
	told := r.pending.done(time.Now(), b, o, applied.Others)
	r.mu.Unlock()
	for _, w := range told {
		w <- err
	}
	r.poke()
}

// report writes the one log line per flush that metrics are made from.
func (r *Roller) report(ctx context.Context, b batch[chan<- error], applied Applied, err error) {
	attrs := []slog.Attr{
		slog.String("counter", b.counter),
		slog.Int("events", len(b.waiters)),
		slog.Int("shards", applied.Shards),
		slog.Int64("delta", applied.Delta),
		slog.Float64("duration_ms", ms(time.Since(b.started))),
	}
	if !applied.Oldest.IsZero() {
		attrs = append(attrs, slog.Float64("lag_ms", ms(time.Since(applied.Oldest))))
	}
	switch {
	case err != nil && errors.Is(err, ErrContention):
		r.log.LogAttrs(ctx, slog.LevelWarn, LogContention, append(attrs, slog.Any("error", err))...)
	case err != nil:
		r.log.LogAttrs(ctx, slog.LevelError, "roll-up failed", append(attrs, slog.Any("error", err))...)
	case applied.Gone:
		r.log.LogAttrs(ctx, slog.LevelInfo, "no such counter", attrs...)
	default:
		r.log.LogAttrs(ctx, slog.LevelInfo, LogRollup, append(attrs, slog.Int64("others", applied.Others))...)
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
