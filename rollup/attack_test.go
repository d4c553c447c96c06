package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
)

// What went wrong once when the exactness was attacked, and must not again.

// field fails unless a field of the counter's document is what is wanted.
func (w *world) field(name string, want any) {
	w.t.Helper()
	snap, err := w.counter().Get(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := snap.Data()[name]; got != want {
		w.t.Errorf("%s = %v, want %v", name, got, want)
	}
}

// A total beyond ±2⁶³ is named and not shown: Firestore's own sum is a double then. It is shown again once it fits.
func TestTotalBeyondAnInt64(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"event", "reconcile"} {
		virtual.Run(t, how, func(t *testing.T) {
			w := newWorld(t)
			count := func() (problem string) {
				if how == "event" {
					w.apply(w.arrived()...)
					return ""
				}
				w.arrived()
				return w.reconcile().Problem
			}
			w.snippet(2)
			w.inc(0, 5)
			count()
			w.must(w.shard(0).Set(w.ctx, map[string]any{"count": math.MaxInt64}))
			w.must(w.shard(1).Set(w.ctx, map[string]any{"count": 5}))
			if problem := count(); how == "reconcile" && !strings.Contains(problem, "beyond") {
				t.Errorf("problem %q", problem)
			}
			w.total(5)
			w.must(w.shard(0).Set(w.ctx, map[string]any{"count": math.MaxInt64 - 6}))
			count()
			w.total(math.MaxInt64 - 1)
		})
	}
}

// A shard that holds no whole number is reported, whatever the sums say. A text counts 0 while it is there, and of a
// sum of fractions the whole part; what isn't finite, or is too large, is not shown.
func TestReconcileReportsWhatIsNotAnInteger(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{"string": "five", "half": 0.5, "beyond 2^53": 1e300, "not a number": math.NaN(), "null": nil} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.snippet(2)
			w.inc(0, 7)
			w.apply(w.arrived()...)
			w.must(w.shard(1).Set(w.ctx, map[string]any{"count": value}))
			w.apply(w.arrived()...)
			w.total(7)
			for range 2 {
				if r := w.walk(); r.Right() || !strings.Contains(r.Problem, `"1"`) {
					t.Errorf("reconcile = %+v, want a problem with shard 1", r)
				}
			}
			w.total(7)
			w.must(w.shard(1).Set(w.ctx, map[string]any{"count": 2}))
			if r := w.reconcile(); r.Problem != "" {
				t.Errorf("once it is mended: %+v", r)
			}
			w.total(9)
		})
	}
}

// While a shard holds what is no number, a reconcile shows what the others hold, as the next event does.
func TestReconcileCountsBesideWhatIsNoNumber(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{"string": "five", "not a number": math.NaN(), "null": nil} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.snippet(2)
			w.inc(0, 7)
			w.must(w.shard(1).Set(w.ctx, map[string]any{"count": value}))
			w.apply(w.arrived()...)
			w.total(7)
			for n := range int64(2) {
				w.inc(0, 1)
				w.arrived() // and its event is lost
				if r := []func() rollup.Report{w.reconcile, w.walk}[n](); r.Late != 1 || !strings.Contains(r.Problem, `"1"`) {
					t.Errorf("reconcile = %+v, want that it was one behind, and a problem with shard 1", r)
				}
				w.total(8 + n)
			}
		})
	}
}

// A counter without a document appears whatever its shards hold, and shows a sum once there is one. It was an error of its
// events, which slows down those of all others.
func TestACounterAppearsWhateverItsShardsHold(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{"not a number": math.NaN(), "beyond 2^63": 1e300} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.must(w.shard(0).Set(w.ctx, map[string]any{"count": value}))
			w.apply(w.arrived()...)
			if r := w.reconcile(); !strings.Contains(r.Problem, `"0"`) {
				t.Errorf("reconcile = %+v, want a problem with shard 0", r)
			}
			w.must(w.shard(0).Set(w.ctx, map[string]any{"count": 3}))
			w.apply(w.arrived()...)
			w.total(3)
		})
	}
}

// Two halves are a whole: what is added up is what the shards hold, and not what each of them would count.
func TestFractionsAddUp(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(2)
		for n := range 2 {
			w.must(w.shard(n).Update(w.ctx, []firestore.Update{{Path: "count", Value: firestore.Increment(0.5)}}))
		}
		w.apply(w.arrived()...)
		w.total(1)
	})
}

// What was counted in a shard is gone while a text stands there, and whatever is counted from there comes instead.
func TestATextCountsNothing(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(2)
		w.inc(0, 7)
		w.inc(1, 30)
		w.apply(w.arrived()...)
		w.must(w.shard(0).Set(w.ctx, map[string]any{"count": "oops"}))
		w.apply(w.arrived()...)
		w.total(30)
		w.inc(0, 1)
		w.apply(w.arrived()...)
		w.total(31)
	})
}

// An event that claims a time which has not come is asked for like any other, and hides nothing.
func TestEventFromTheFuture(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(1)
		w.apply(w.arrived()...)
		r := w.roller(rollup.RollerOptions{Interval: 10 * time.Millisecond})
		for n := range int64(3) {
			w.inc(0, 1)
			events := w.arrived()
			future := events[0]
			future.At = w.now().Add(time.Hour)
			w.must(nil, r.Add(w.ctx, future, events[0]))
			w.total(n + 1)
		}
	})
}

// One client's increment(1.0) makes a shard a double for good. It is counted all the same.
func TestWholeDoubleCounts(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(1)
		w.must(w.shard(0).Set(w.ctx, map[string]any{"count": 3.0}))
		w.arrived()
		if r := w.reconcile(); !r.Adopted || r.Problem != "" {
			t.Errorf("reconcile = %+v", r)
		}
		w.total(3)
		w.must(w.shard(0).Update(w.ctx, []firestore.Update{{Path: "count", Value: firestore.Increment(4)}}))
		w.arrived()
		if r := w.reconcile(); r.Late != 4 || r.Problem != "" {
			t.Errorf("reconcile = %+v, want 4 late", r)
		}
		w.total(7)
		if r := w.reconcile(); !r.Right() {
			t.Errorf("reconcile = %+v, want that it is right", r)
		}
	})
}

// A base of another's making stops its own counter, is reported, and stops no other.
func TestDamagedBase(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(1)
		w.inc(0, 5)
		w.apply(w.arrived()...)
		w.must(w.base().Update(w.ctx, []firestore.Update{{Path: "base", Value: "none"}}))
		w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "total", Value: 1}}))
		if _, err := w.rollup.Reconcile(w.ctx, "c", rollup.ReconcileOptions{}); !errors.Is(err, rollup.ErrDamagedBase) {
			t.Errorf("reconcile = %v, want ErrDamagedBase", err)
		}
		if sum := w.rollup.ReconcileSome(w.ctx, []string{"c"}, rollup.ReconcileOptions{}); sum.Seen != 1 || sum.Failed != 1 || sum.Repaired != 0 {
			t.Errorf("reconcile = %+v, want that one failed", sum)
		}
		// Without it, another is made.
		w.must(w.base().Delete(w.ctx))
		w.inc(0, 2)
		w.apply(w.arrived()...)
		w.total(7)
		w.must(w.base().Delete(w.ctx))
		if r := w.reconcile(); !r.Adopted || r.After != 7 || !w.exists(w.base()) { // also where the total is right without
			t.Errorf("reconcile = %+v, want that it makes the base", r)
		}
	})
}

// Google's Go snippet writes Count.
func TestShardsOfAnotherField(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.must(w.counter().Set(w.ctx, map[string]any{"num_shards": 2}))
		for n := range 2 {
			w.must(w.shard(n).Set(w.ctx, map[string]any{"Count": n}))
		}
		const want = `shards hold no integer "count", but "Count": set FIELDS=total=Count`
		for range 2 { // adopted, and then
			if r := w.reconcile(); r.Problem != want || r.Right() {
				t.Errorf("reconcile = %+v, want the problem %q", r, want)
			}
		}
	})
}

// A dry run of a counter that was never rolled up says what that would show, and makes none. What
// is wrong is logged as drift, with its sign, by the reconcile or the flush that mends it, and by
// no other.
func TestReconcileSaysAndLogs(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var log strings.Builder
		client, err := rollup.Open(w.ctx, rollup.Config{Place: rollup.Place{Project: "p"}, Logger: slog.New(slog.NewTextHandler(&log, nil))}, option.WithGRPCConn(w.connect()))
		if err != nil {
			t.Fatal(err)
		}
		w.snippet(2)
		w.inc(0, 4)
		reconcile := func(dry bool) rollup.Report {
			t.Helper()
			log.Reset()
			r, err := client.Reconcile(w.ctx, "c", rollup.ReconcileOptions{DryRun: dry})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		if r := reconcile(true); !r.Adopted || r.After != 4 || w.exists(w.base()) {
			t.Errorf("dry run = %+v, want that it would be adopted with 4", r)
		}
		if r := reconcile(false); !r.Adopted || r.After != 4 {
			t.Errorf("reconcile = %+v, want that it is adopted with 4", r)
		}
		w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "total", Value: 1}}))
		for _, s := range []struct {
			dry   bool
			drift int64
		}{{true, -3}, {false, -3}, {false, 0}} {
			r := reconcile(s.dry)
			logged := strings.Contains(log.String(), fmt.Sprint("drift=", s.drift))
			if r.Drift != s.drift || logged != (!s.dry && s.drift != 0) {
				t.Errorf("%+v: %+v; the log: %s", s, r, &log)
			}
		}
		w.rollup = client // a flush that meets it does the same
		w.arrived()
		for _, by := range []int64{-3, 0} {
			if by != 0 {
				w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "total", Value: firestore.Increment(by)}}))
			}
			log.Reset()
			w.inc(0, 1)
			w.apply(w.arrived()...)
			if logged := strings.Contains(log.String(), fmt.Sprint("msg=drift counter=c field=total drift=", by)); logged != (by != 0) {
				t.Errorf("drift of %d; the log: %s", by, &log)
			}
		}
		w.total(6)
	})
}

// Whatever writes a counter's total says when, for those who read it.
func TestUpdatedAt(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(2)
		w.arrived()
		w.reconcile()
		for n := range 2 {
			w.inc(n, 1)
			w.apply(w.arrived()...)
			doc, err := w.counter().Get(w.ctx)
			if err != nil {
				t.Fatal(err)
			}
			if at, _ := doc.DataAt("updated_at"); !doc.UpdateTime.Truncate(time.Millisecond).Equal(at.(time.Time)) {
				t.Errorf("flush %d: updated_at is %v; the document was written at %v", n, at, doc.UpdateTime)
			}
		}
	})
}

// Google's tools delete a document first, and then what is below it.
func TestDeletionsAloneAdoptNothing(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(3)
		w.arrived()
		w.must(w.counter().Delete(w.ctx))
		w.must(w.shard(0).Delete(w.ctx))
		w.apply(w.arrived()...)
		if w.exists(w.counter()) || w.exists(w.base()) {
			t.Error("the counter is back")
		}
	})
}

// counters makes a number of counters that were never rolled up, so that reconciling each takes commits.
func (w *world) counters(n int) {
	w.t.Helper()
	for i := range n {
		w.must(w.fs.Doc(fmt.Sprintf("counters/c%03d", i)).Set(w.ctx, map[string]any{"num_shards": 1}))
	}
}

// However short the time of a walk is, the next one goes on where it stopped, and one slow counter
// holds no other up.
func TestReconcileAllGetsFurther(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		const counters = 130
		w.counters(counters)
		w.server.SetInterceptor(func(ctx context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			for _, write := range req.GetWrites() {
				if strings.Contains(write.GetUpdate().GetName(), "/counters/c003/") {
					<-ctx.Done()
					return emulator.Verdict{Before: status.Error(codes.DeadlineExceeded, "slow")}
				}
			}
			time.Sleep(50 * time.Millisecond)
			return emulator.Verdict{}
		})
		seen := map[string]int{}
		calls := 0
		for ; ; calls++ {
			if calls == 30 {
				w.t.Fatalf("not through after %d calls, %d of %d seen", calls, len(seen), counters)
			}
			ctx, cancel := context.WithTimeout(w.ctx, time.Second)
			sum, err := w.rollup.ReconcileAll(ctx, rollup.ReconcileOptions{Resume: true, Parallel: 4, Report: func(r rollup.Report, _ error) { seen[r.Counter]++ }})
			cancel()
			if err != nil {
				w.t.Fatal(err)
			}
			if sum.Done {
				break
			}
		}
		if len(seen) != counters {
			w.t.Errorf("%d of %d counters seen", len(seen), counters)
		}
		again := -counters
		for _, n := range seen {
			again += n
		}
		if again > 8*calls {
			// of a call that ran out of time: those that others, behind the first one that was
			// left, were done with
			w.t.Errorf("%d counters were seen again in %d further calls: pages are walked anew", again, calls)
		}
	})
}

// A walk for which there was no time at all has not done any counter, and doesn't say that it has.
func TestReconcileWithoutTime(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.counters(3)
		ended, end := context.WithCancel(w.ctx)
		end()
		if sum := w.rollup.ReconcileSome(ended, []string{"c000", "c001", "c002"}, rollup.ReconcileOptions{}); sum.Done || sum.Seen != 0 {
			t.Errorf("%+v, want nothing done", sum)
		}
	})
}

// A walk whose place Firestore has forgotten, because its token is of another time, begins anew.
func TestReconcileAllWithACursorThatIsForgotten(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.counters(3)
		w.must(w.fs.Doc("counter_rollup/reconcile").Set(w.ctx, map[string]any{
			"walks": map[string]any{"counters/{counter}": map[string]any{"page": "of another time", "done": "c001"}},
		}))
		for range 2 {
			if sum, err := w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{Resume: true}); err != nil || !sum.Done || sum.Seen != 3 {
				t.Errorf("%+v, %v; want 3 seen, and done", sum, err)
			}
		}
	})
}

// A dry run begins at the beginning, and leaves the cursor where it is.
func TestDryRunOfAll(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.counters(110)
		cut, cancel := context.WithCancel(w.ctx)
		n := 0
		if _, err := w.rollup.ReconcileAll(cut, rollup.ReconcileOptions{Resume: true, Parallel: 1, Report: func(rollup.Report, error) {
			if n++; n == 40 {
				cancel()
			}
		}}); err != nil {
			t.Fatal(err)
		}
		sum, err := w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{Resume: true, DryRun: true})
		if err != nil || !sum.Done || sum.Seen != 110 {
			t.Errorf("a dry run saw %+v, %v, want all", sum, err)
		}
		sum, err = w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{Resume: true})
		if err != nil || !sum.Done || sum.Seen != 70 {
			t.Errorf("the next walk saw %+v, %v, want the 70 behind the cursor", sum, err)
		}
	})
}

// A deletion that was cut short is finished where the reconcile knows how, and else reported.
func TestReconcileFinishesADeletion(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create()
		w.mark()
		if r := w.reconcile(); r.Right() || r.Repaired() || r.Problem == "" {
			t.Errorf("reconcile = %+v, want a problem", r)
		}
		remove := func(_ context.Context, counter string, _ time.Time) (bool, error) {
			if counter != "c" {
				t.Errorf("asked to delete %q", counter)
			}
			w.delete()
			return true, nil
		}
		r, err := w.rollup.Reconcile(w.ctx, "c", rollup.ReconcileOptions{DryRun: true, Remove: remove})
		if err != nil || !r.Deleted || !w.exists(w.base()) {
			t.Errorf("dry run = %+v, %v", r, err)
		}
		r, err = w.rollup.Reconcile(w.ctx, "c", rollup.ReconcileOptions{Remove: remove})
		if err != nil || !r.Deleted || !r.Repaired() || w.exists(w.counter()) {
			t.Errorf("reconcile = %+v, %v", r, err)
		}
	})
}

// A roller that closes takes nothing more, so that it ends whatever comes, and commits no
// more than it needs.
func TestRollerClosesUnderASteadyStream(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(4)
		w.apply(w.arrived()...)
		r := rollup.NewRoller(w.open(), rollup.RollerOptions{Interval: 50 * time.Millisecond})
		commits := w.commitsOnCounter()
		var stream sync.WaitGroup
		var stop atomic.Bool
		for range 8 {
			stream.Go(func() {
				for !stop.Load() {
					if err := r.Add(w.ctx, rollup.Change{Counter: "c", Fields: []string{"total"}, At: w.now()}); errors.Is(err, rollup.ErrClosed) {
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		before := commits.Load()
		ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			w.t.Errorf("Close = %v", err)
		}
		if n := commits.Load() - before; n > 3 {
			w.t.Errorf("%d commits to close, want at most the one in flight and one for what waited", n)
		}
		stop.Store(true)
		stream.Wait()
	})
}

// While a roller closes, with a flush under way, it refuses what comes.
func TestClosingRollerRefusesFirst(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(1)
		w.apply(w.arrived()...)
		w.inc(0, 1)
		first := w.arrived()[0]
		w.inc(0, 1)
		second := w.arrived()[0]
		r := rollup.NewRoller(w.open(), rollup.RollerOptions{Interval: time.Millisecond})
		under, release := make(chan struct{}), make(chan struct{})
		w.before(func() { close(under); <-release })
		var group sync.WaitGroup
		group.Go(func() {
			if err := r.Add(w.ctx, first); err != nil {
				w.t.Error(err)
			}
		})
		<-under
		group.Go(func() {
			if err := r.Close(w.ctx); err != nil {
				w.t.Error(err)
			}
		})
		for try := 0; ; try++ { // until Close has begun
			ctx, cancel := context.WithTimeout(w.ctx, 20*time.Millisecond)
			err := r.Add(ctx, second)
			cancel()
			if errors.Is(err, rollup.ErrClosed) {
				break
			}
			if try == 100 {
				w.t.Errorf("Add = %v, want ErrClosed", err)
				break
			}
		}
		close(release)
		group.Wait()
	})
}

// A client without a logger is silent.
func TestNoLogger(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.silent()
		w.snippet(1)
		w.inc(0, 1)
		r := rollup.NewRoller(client, rollup.RollerOptions{})
		if err := r.Add(w.ctx, w.arrived()[1]); err != nil {
			t.Error(err)
		}
		if err := r.Close(w.ctx); err != nil {
			t.Error(err)
		}
		w.total(1)
	})
}

// A second or so without Firestore fails no flush.
func TestApplyOutlastsDoubt(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(1)
		w.apply(w.arrived()...)
		w.inc(0, 5)
		states := w.arrived()
		var commits atomic.Int64
		w.server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
			if commits.Add(1) <= 9 {
				v.Before = status.Error(codes.Unavailable, "away")
			}
			return v
		})
		w.apply(states...)
		w.total(5)
	})
}

// An event is answered as soon as a later one of its fields is held; that one is answered when it is shown.
func TestRollerAnswersSupersededEventsAtOnce(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(1)
		w.apply(w.arrived()...)
		r := w.roller(rollup.RollerOptions{})
		release := make(chan struct{})
		w.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			for _, write := range req.GetWrites() {
				if strings.HasSuffix(write.GetUpdate().GetName(), "/counters/c") {
					<-release
				}
			}
			return emulator.Verdict{}
		})
		var states []rollup.Change
		for range 50 {
			w.inc(0, 1)
		}
		states = w.arrived()
		answers := make(chan error, len(states))
		for _, s := range states {
			go func() { answers <- r.Add(w.ctx, s) }()
		}
		// One may be in flight, whose refresh covers nothing that came since, and one waits behind it.
		left := 2
		for range len(states) - left {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		for timeout := time.After(50 * time.Millisecond); timeout != nil; {
			select {
			case err := <-answers:
				if left--; err != nil || left == 0 {
					t.Errorf("the newest was answered before it was counted: %v", err)
				}
			case <-timeout:
				timeout = nil
			}
		}
		close(release)
		for range left {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		w.total(50)
	})
}

// What is wrong with a counter names it, and is cut where it is long: never within a character, or
// nothing could be noted, and the errors with which its events are answered would slow all counters down.
func TestANoteOfACounterWithALongName(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.roller(rollup.RollerOptions{})
		for i := range utf8.UTFMax {
			counter := strings.Repeat("x", i) + strings.Repeat("計", 300)
			w.must(w.fs.Doc("counters/"+counter).Set(w.ctx, map[string]any{"num_shards": 1}))
			w.must(w.fs.Doc("counters/"+counter+"/counter_rollup/base").Set(w.ctx, map[string]any{"base": "none"}))
			written, err := w.fs.Doc("counters/"+counter+"/shards/0").Set(w.ctx, map[string]any{"count": 1})
			w.must(written, err)
			if err := r.Add(w.ctx, rollup.Change{Counter: counter, Shard: "0", Fields: []string{"total"}, At: written.UpdateTime}); err != nil {
				w.t.Errorf("its event is answered with an error: %.200v", err)
			}
		}
		if n := len(w.notes()); n != utf8.UTFMax {
			w.t.Errorf("%d are noted, want %d", n, utf8.UTFMax)
		}
	})
}
