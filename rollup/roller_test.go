package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
)

// roller starts one more instance.
func (w *world) roller(opts rollup.RollerOptions) *rollup.Roller {
	w.t.Helper()
	r := rollup.NewRoller(w.open(), opts)
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			w.t.Error(err)
		}
	})
	return r
}

// load writes shards until the context ends, about rate a second, and has every event counted by
// one of the rollers. It returns what was added.
func (w *world) load(ctx context.Context, rate, shards int, rollers []*rollup.Roller) int64 {
	w.t.Helper()
	var deliveries sync.WaitGroup
	defer w.server.OnChange(func(c emulator.Change) {
		if !strings.HasPrefix(c.Name, "projects/p/databases/(default)/documents/counters/c/shards/") {
			return
		}
		changes := w.decode(c)
		roller := rollers[w.rand.IntN(len(rollers))]
		deliveries.Go(func() {
			for roller.Add(context.WithoutCancel(ctx), changes...) != nil {
				time.Sleep(50 * time.Millisecond)
			}
		})
	})()
	var added atomic.Int64
	var writers sync.WaitGroup
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for ctx.Err() == nil {
		<-tick.C
		writers.Go(func() {
			w.inc(w.rand.IntN(shards), 1)
			added.Add(1)
		})
	}
	writers.Wait()
	w.arrived() // every change has arrived
	deliveries.Wait()
	return added.Load()
}

// commitsOnCounter counts the commits on counters/c from now on.
func (w *world) commitsOnCounter() *atomic.Int64 {
	w.t.Helper()
	w.arrived() // and none that came before
	var n atomic.Int64
	w.t.Cleanup(w.server.OnChange(func(c emulator.Change) {
		if strings.HasSuffix(c.Name, "/documents/counters/c") {
			n.Add(1)
		}
	}))
	return &n
}

// However many events come in, a counter's document is written once per interval and
// instance, and a burst more.
func TestRollerCommitsOncePerInterval(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(20)
		w.apply(w.arrived()...)
		const burst = 3
		r := w.roller(rollup.RollerOptions{Interval: 250 * time.Millisecond, Burst: burst})
		commits := w.commitsOnCounter()
		ctx, cancel := context.WithTimeout(w.ctx, 2*time.Second)
		defer cancel()
		started := time.Now()
		added := w.load(ctx, 500, 20, []*rollup.Roller{r})
		most := int64(time.Since(started)/(250*time.Millisecond)) + burst
		if n := commits.Load(); n > most || n == 0 {
			w.t.Errorf("%d commits on the counter for %d events in %v, want at most %d", n, added, time.Since(started), most)
		}
		w.total(added)
	})
}

// A base that nothing has refreshed says nothing of other instances, however new it is: the first
// clicks on a counter that was just made are shown at once.
func TestRollerOfANewCounter(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.create()
		w.arrived()
		r := w.roller(rollup.RollerOptions{Interval: time.Second, Burst: 5})
		started := time.Now()
		for n := range int64(5) {
			w.inc(0, 1)
			for _, s := range w.arrived() {
				if err := r.Add(w.ctx, s); err != nil {
					w.t.Fatal(err)
				}
			}
			w.total(n + 1)
		}
		if took := time.Since(started); took >= time.Second {
			w.t.Errorf("five clicks took %v to be shown", took)
		}
	})
}

// Several instances on one hot counter slow each other down: three stay under two commits per
// interval altogether, once they have settled.
func TestRollersShareACounter(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(20)
		w.apply(w.arrived()...)
		// or they would never meet
		w.server.SetFaults(emulator.Faults{CommitLatency: 5 * time.Millisecond})
		const interval = 200 * time.Millisecond
		var rollers []*rollup.Roller
		for range 3 {
			rollers = append(rollers, w.roller(rollup.RollerOptions{Interval: interval}))
		}
		ctx, cancel := context.WithTimeout(w.ctx, 15*interval)
		defer cancel()
		added := w.load(ctx, 500, 20, rollers)
		commits := w.commitsOnCounter()
		ctx, cancel = context.WithTimeout(w.ctx, 15*interval)
		defer cancel()
		started := time.Now()
		added += w.load(ctx, 500, 20, rollers)
		intervals := int64(time.Since(started) / interval)
		if n := commits.Load(); n >= 2*intervals {
			w.t.Errorf("%d commits on the counter in %d intervals, want under two each", n, intervals)
		}
		w.total(added)
	})
}

// Counters are flushed side by side, up to a bound.
func TestRollerFlushesCountersSideBySide(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.roller(rollup.RollerOptions{MaxFlushes: 3})
		for i := range 6 {
			w.must(w.fs.Doc(fmt.Sprintf("counters/c%d", i)).Set(w.ctx, map[string]any{"num_shards": 1}))
			if _, err := w.rollup.Reconcile(w.ctx, fmt.Sprintf("c%d", i), rollup.ReconcileOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		var changes []rollup.Change
		for i := range 6 {
			w.turnTo(fmt.Sprintf("c%d", i))
			w.must(w.fs.Doc(fmt.Sprintf("counters/c%d/shards/0", i)).Set(w.ctx, map[string]any{"count": 1}))
			changes = append(changes, w.arrived()...)
		}
		arrived, release := make(chan struct{}, 10), make(chan struct{})
		w.server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
			arrived <- struct{}{}
			<-release
			return emulator.Verdict{}
		})
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				if err := r.Add(w.ctx, changes[i]); err != nil {
					t.Error(err)
				}
			})
		}
		for range 3 {
			<-arrived
		}
		select {
		case <-arrived:
			t.Error("a fourth flush at a time")
		case <-time.After(100 * time.Millisecond):
		}
		close(release)
		all.Wait()
	})
}

// What waits for its interval when the roller is closed is flushed.
func TestRollerCloseFlushes(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(1)
		r := rollup.NewRoller(w.rollup, rollup.RollerOptions{Interval: 4 * time.Second, Burst: 1})
		add := func() {
			for _, s := range w.arrived() {
				if err := r.Add(w.ctx, s); err != nil {
					w.t.Error(err)
				}
			}
		}
		add() // adopts
		w.inc(0, 2)
		add() // and this is a flush, which the next one keeps its distance to
		w.inc(0, 5)
		var all sync.WaitGroup
		started := time.Now()
		all.Go(add)
		time.Sleep(50 * time.Millisecond) // waits now
		if err := r.Close(w.ctx); err != nil {
			w.t.Error(err)
		}
		all.Wait()
		if waited := time.Since(started); waited > 3*time.Second {
			w.t.Errorf("waited %v, as if it had not been closed", waited)
		}
		w.total(7)
		if err := r.Add(w.ctx, rollup.Change{Counter: "c", Fields: []string{"total"}, At: w.now()}); !errors.Is(err, rollup.ErrClosed) {
			w.t.Errorf("after Close: %v, want ErrClosed", err)
		}
	})
}

// A recount that waits for its interval begins at once, too.
func TestRollerCloseRecounts(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		c := w.counting(hostedPosts)
		c.set("posts/p", map[string]any{})
		r := rollup.NewRoller(c.client, rollup.RollerOptions{Interval: 4 * time.Second, Burst: 1})
		c.set("posts/p/comments/1", map[string]any{})
		c.deliver(r, c.happened()...)
		c.set("posts/p/comments/2", map[string]any{})
		changes := c.happened()
		var all sync.WaitGroup
		started := time.Now()
		all.Go(func() { c.deliver(r, changes...) })
		time.Sleep(50 * time.Millisecond) // waits now
		if err := r.Close(w.ctx); err != nil {
			w.t.Error(err)
		}
		all.Wait()
		if waited := time.Since(started); waited > 3*time.Second {
			w.t.Errorf("waited %v, as if it had not been closed", waited)
		}
		c.holds("posts/p", map[string]any{"comments": int64(2)})
	})
}

// When the time to close runs out, what waits is answered with an error.
func TestRollerCloseGivesUp(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(1)
		w.apply(w.arrived()...)
		r := rollup.NewRoller(w.rollup, rollup.RollerOptions{})
		w.inc(0, 6)
		state := w.arrived()[0]
		w.server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
			time.Sleep(20 * time.Millisecond)
			return emulator.Verdict{Before: status.Error(codes.Unavailable, "down")}
		})
		answer := make(chan error, 1)
		go func() {
			answer <- r.Add(w.ctx, state)
		}()
		time.Sleep(50 * time.Millisecond)
		ctx, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
		defer cancel()
		if err := r.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			w.t.Errorf("Close = %v, want its context's error", err)
		}
		if err := <-answer; err == nil {
			w.t.Error("answered as if it was counted")
		}
	})
}

// One event's deadline ends its own waiting, and no other's.
func TestRollerOneGivesUp(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(2)
		w.apply(w.arrived()...)
		r := w.roller(rollup.RollerOptions{Interval: 300 * time.Millisecond, Burst: 1})
		w.inc(0, 1)
		for _, s := range w.arrived() {
			if err := r.Add(w.ctx, s); err != nil {
				w.t.Fatal(err)
			}
		}
		w.inc(0, 1)
		first := w.arrived()[0]
		first.At = time.Time{} // or the second would stand for it
		w.inc(1, 1)
		second := w.arrived()[0]
		var all sync.WaitGroup
		all.Go(func() {
			ctx, cancel := context.WithTimeout(w.ctx, 10*time.Millisecond)
			defer cancel()
			if err := r.Add(ctx, first); !errors.Is(err, context.DeadlineExceeded) {
				w.t.Errorf("err = %v, want its context's error", err)
			}
		})
		all.Go(func() {
			if err := r.Add(w.ctx, second); err != nil {
				w.t.Error(err)
			}
		})
		all.Wait()
		w.total(3)
	})
}

// A flush that gets no answer is given up after a while and goes again, and its events are answered
// before whoever delivers them gives up.
func TestFlushEnds(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(1)
		w.apply(w.arrived()...)
		w.inc(0, 1)
		state := w.arrived()[0]
		r := w.roller(rollup.RollerOptions{})
		w.server.SetInterceptor(func(ctx context.Context, _ *firestorepb.CommitRequest) emulator.Verdict {
			<-ctx.Done()
			return emulator.Verdict{Before: status.FromContextError(ctx.Err()).Err()}
		})
		began := time.Now()
		err := r.Add(w.ctx, state)
		if waited := time.Since(began); err == nil || waited > 40*time.Second {
			w.t.Errorf("answered %v after %v, want an error within 40 s", err, waited)
		}
		w.server.SetInterceptor(nil)
		if err := r.Add(w.ctx, state); err != nil {
			w.t.Error(err)
		}
		w.total(1)
	})
}
