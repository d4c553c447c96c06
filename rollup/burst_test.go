package rollup_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/rollup"
)

// A handful of clicks on a quiet counter are each in the total after one commit, on a document that
// takes one write a second.
func TestFirstClicksAreCountedAtOnce(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		const commit = 20 * time.Millisecond
		w.snippet(5)
		w.apply(w.arrived()...)
		r := w.roller(rollup.RollerOptions{})
		for range 3 { // and again after a while
			time.Sleep(5 * time.Second)
			w.server.SetFaults(emulator.Faults{DocWriteRate: 1, CommitLatency: commit})
			for shard := range 5 {
				time.Sleep(400 * time.Millisecond)
				w.inc(shard, 1)
				click := w.arrived()[0]
				clicked := time.Now()
				w.must(nil, r.Add(w.ctx, click))
				if took := time.Since(clicked); took > commit+5*time.Millisecond {
					w.t.Errorf("click %d was counted after %v, want %v", shard, took, commit)
				}
			}
		}
		w.total(15)
	})
}

// contentions counts what is logged of contention.
type contentions struct{ atomic.Int64 }

func (c *contentions) Enabled(context.Context, slog.Level) bool { return true }
func (c *contentions) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *contentions) WithGroup(string) slog.Handler            { return c }

func (c *contentions) Handle(_ context.Context, r slog.Record) error {
	if r.Message == rollup.LogContention {
		c.Add(1)
	}
	return nil
}

// contention is how many flushes of a hot counter fail, and how late its events are at most, where
// its document takes one write a second and several instances share it.
func contention(t *testing.T, instances, burst int) (failed int, latest time.Duration) {
	t.Helper()
	var met contentions
	inVirtualTime(t, func(w *world) {
		w.snippet(20)
		w.apply(w.arrived()...)
		w.server.SetFaults(emulator.Faults{DocWriteRate: 1, CommitLatency: 20 * time.Millisecond})
		var rollers []*rollup.Roller
		for range instances {
			client, err := rollup.Open(w.ctx, rollup.Config{Place: rollup.Place{Project: "p"}, Logger: slog.New(&met)}, option.WithGRPCConn(w.connect()))
			w.must(nil, err)
			r := rollup.NewRoller(client, rollup.RollerOptions{Burst: burst})
			defer r.Close(w.ctx)
			rollers = append(rollers, r)
		}
		var mu sync.Mutex
		dice := rand.New(rand.NewPCG(1, 1))
		var deliveries sync.WaitGroup
		for range 3 { // crowds, with quiet between them
			for range 300 {
				time.Sleep(50 * time.Millisecond)
				w.inc(dice.IntN(20), 1)
				for _, s := range w.arrived() {
					r, happened := rollers[dice.IntN(instances)], time.Now()
					deliveries.Go(func() {
						time.Sleep(50 * time.Millisecond) // in transit
						for r.Add(context.WithoutCancel(w.ctx), s) != nil {
							time.Sleep(10 * time.Second)
						}
						mu.Lock()
						defer mu.Unlock()
						latest = max(latest, time.Since(happened))
					})
				}
			}
			deliveries.Wait()
			time.Sleep(20 * time.Second)
		}
	})
	return int(met.Load()), latest
}

// A burst of flushes is about what a document takes, also where several instances share the counter:
// the bucket is the document's, and not each instance's. Of some 150 flushes few meet contention, and
// whoever does isn't held up for long.
func TestABurstMeetsLittleContention(t *testing.T) {
	t.Parallel()
	for _, instances := range []int{1, 2, 3} {
		failed, late := contention(t, instances, 5)
		t.Logf("%d instances: %d flushes met contention; events were late by %v at most", instances, failed, late)
		if failed > 10*(instances-1) || late > 5*time.Second {
			t.Errorf("%d instances: %d flushes met contention; events were late by %v", instances, failed, late)
		}
	}
}

// An instance to which a counter is new finds by its document that another one has just refreshed it, and leaves the
// next refresh to that one for an interval. Once the counter is quiet it is anybody's again.
func TestANewInstanceFindsTheBucketEmpty(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(1)
		w.apply(w.arrived()...)
		add := func(r *rollup.Roller) time.Duration {
			w.inc(0, 1)
			began := time.Now()
			w.must(nil, r.Add(w.ctx, w.arrived()[0]))
			return time.Since(began)
		}
		first, second := w.roller(rollup.RollerOptions{}), w.roller(rollup.RollerOptions{})
		for range 3 {
			time.Sleep(time.Minute)
			for range 3 {
				if took := add(first); took > 100*time.Millisecond {
					w.t.Errorf("shown after %v by an instance that is alone", took)
				}
			}
			if took := add(second); took < time.Second || took > 1300*time.Millisecond {
				w.t.Errorf("shown after %v beside an instance that has just refreshed it", took)
			}
			time.Sleep(5 * time.Second)
			if took := add(second); took > 100*time.Millisecond {
				w.t.Errorf("shown after %v once it was quiet", took)
			}
		}
	})
}
