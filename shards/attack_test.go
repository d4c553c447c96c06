package shards_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// A total beyond an int64 is no number: an exact read and a rebase say so, and change nothing.
func TestSumsBeyondAnInt64(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		c := w.counter(t, client, "a", 3)
		shard := func(n string, count any) {
			t.Helper()
			w.Put("counters/a/shards/"+n, map[string]any{"count": count})
		}
		exact := func(want int64) {
			t.Helper()
			if s, err := c.Sum(t.Context()); err != nil || s.Total != want {
				t.Errorf("exact total %d, %v; want %d", s.Total, err, want)
			}
		}
		beyond := func() {
			t.Helper()
			if s, err := c.Sum(t.Context()); !errors.Is(err, shards.ErrNotInteger) {
				t.Errorf("%+v, %v; want ErrNotInteger", s, err)
			}
			before := w.everything(t)
			if err := c.Rebase(t.Context(), 7); !errors.Is(err, shards.ErrNotInteger) {
				t.Errorf("rebase: %v; want ErrNotInteger", err)
			}
			if diff := cmp.Diff(before, w.everything(t)); diff != "" {
				t.Errorf("(-before +after)\n%s", diff)
			}
		}
		shard("0", math.MaxInt64)
		shard("1", 5)
		beyond()
		shard("2", -10) // in any order
		exact(math.MaxInt64 - 5)
		if err := c.Rebase(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		exact(100)
		shard("0", math.MinInt64)
		shard("1", -200)
		beyond()
		shard("1", 0)
		shard("2", 0)
		if err := c.Rebase(t.Context(), math.MinInt64); err != nil {
			t.Fatal(err)
		}
		exact(math.MinInt64)
	})
}

// A command leaves no drift behind where the total has come to the end of an int64.
func TestCommandsBeyondAnInt64(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]struct {
		total   int64 // to start from
		counts  []int64
		command func(ctx context.Context, c shards.Counter) error
		want    int64
	}{
		"reset":                 {math.MaxInt64 - 10, []int64{100}, func(ctx context.Context, c shards.Counter) error { return c.Reset(ctx, shards.ResetOptions{}) }, 0},
		"reset of the smallest": {math.MinInt64, []int64{-1, 5}, func(ctx context.Context, c shards.Counter) error { return c.Reset(ctx, shards.ResetOptions{}) }, 0},
		"rebase":                {math.MaxInt64 - 10, []int64{100}, func(ctx context.Context, c shards.Counter) error { return c.Rebase(ctx, 100) }, 100},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			c := handle(t, w.open(t, shards.Config{}), "a")
			if err := c.Create(t.Context(), shards.CreateOptions{Shards: 2, Total: s.total}); err != nil {
				t.Fatal(err)
			}
			for n, count := range s.counts {
				w.inc(t, fmt.Sprint(n), count)
			}
			w.rollUp(t, "a")
			if err := s.command(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if r := w.rollUp(t, "a"); r.After != s.want || r.Drift != 0 {
				t.Errorf("%+v, want %d and no drift", r, s.want)
			}
		})
	}
}

// A shard that one client's increment(1.0) has made a double holds the integer that it is. A fraction counts, and the
// total is the whole part.
func TestWholeDoublesAreIntegers(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		c := w.counter(t, client, "a", 2)
		ref := w.fs.Doc("counters/a/shards/1")
		if _, err := ref.Update(t.Context(), []firestore.Update{{Path: "count", Value: firestore.Increment(3.0)}}); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if err := c.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		if s, err := c.Sum(t.Context()); err != nil || s.Total != 23 {
			t.Errorf("exact total %+v, %v; want 23", s, err)
		}
		if err := c.Resize(t.Context(), 1, shards.ResizeOptions{}); err != nil {
			t.Fatal(err)
		}
		w.wantSum(t, "a", 23)
		w.Put("counters/a/shards/0", map[string]any{"count": 0.5})
		if s, err := c.Sum(t.Context()); err != nil || s.Total != 0 {
			t.Errorf("half a count: %+v, %v; want the whole part", s, err)
		}
	})
}

// crowd begins calls for several counters that share a commit: as many others keep the commits busy
// which would otherwise go at once. It returns the error of each call.
func (w *world) crowd(t *testing.T, client *shards.Client, fault func(*firestorepb.CommitRequest) emulator.Verdict, calls ...[]shards.Increment) []error {
	t.Helper()
	return w.crowdUntil(t, client, nil, func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict { return fault(req) }, calls...)
}

// crowdUntil is crowd in which the others are busy until over is closed.
func (w *world) crowdUntil(t *testing.T, client *shards.Client, over <-chan struct{}, fault func(context.Context, *firestorepb.CommitRequest) emulator.Verdict, calls ...[]shards.Increment) []error {
	t.Helper()
	const busy = 4
	arrived, release := make(chan struct{}, busy), make(chan struct{})
	w.Server.SetInterceptor(func(ctx context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		for _, write := range req.GetWrites() {
			if strings.Contains(write.GetUpdate().GetName(), "/counters/busy") {
				arrived <- struct{}{}
				select {
				case <-release:
				case <-over:
				}
				return emulator.Verdict{}
			}
		}
		return fault(ctx, req)
	})
	defer w.Server.SetInterceptor(nil)
	var group, called sync.WaitGroup
	for i := range busy {
		c := handle(t, client, fmt.Sprint("busy", i))
		group.Go(func() {
			if err := c.Add(t.Context(), 1); err != nil {
				t.Error(err)
			}
		})
		<-arrived
	}
	errs := make([]error, len(calls))
	for i, increments := range calls {
		called.Go(func() { _, errs[i] = client.AddAll(t.Context(), increments, shards.Key{}) })
	}
	called.Wait() // whatever becomes of those that are busy
	close(release)
	group.Wait()
	return errs
}

// busyCounters makes what crowd needs, and further counters.
func (w *world) busyCounters(t *testing.T, client *shards.Client, further ...string) {
	t.Helper()
	for i := range 4 {
		further = append(further, fmt.Sprint("busy", i))
	}
	for _, id := range further {
		c := w.counter(t, client, id, 2)
		if _, err := c.Get(t.Context()); err != nil { // it is known from now on
			t.Fatal(err)
		}
	}
}

func writesTo(req *firestorepb.CommitRequest, counter string) bool {
	return slices.ContainsFunc(req.GetWrites(), func(w *firestorepb.Write) bool {
		return strings.Contains(w.GetUpdate().GetName(), "/counters/"+counter+"/")
	})
}

// Calls for several counters share a commit. Trouble with one of them is that one's alone, also
// when the shared commit was in doubt before.
func TestTroubleLeavesASharedCommit(t *testing.T) {
	t.Parallel()
	invalid := status.Error(codes.InvalidArgument, "not this one")
	for _, tt := range []struct {
		name    string
		err     error // of commits that write to the counter in trouble
		want    error
		doubted *emulator.Verdict // of the first shared commit
		counted int64             // of the counter in trouble
	}{
		{name: "contention", err: aborted, want: shards.ErrBusy},
		{name: "contention after doubt", err: aborted, want: shards.ErrBusy, doubted: &emulator.Verdict{Before: unavailable}},
		{name: "contention after it was counted", err: aborted, doubted: &emulator.Verdict{After: unavailable}, counted: 1},
		{name: "invalid", err: invalid, want: invalid},
		{name: "invalid after doubt", err: invalid, want: invalid, doubted: &emulator.Verdict{Before: unavailable}},
	} {
		virtual.Run(t, tt.name, func(t *testing.T) {
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			w.busyCounters(t, client, "bad", "good", "fine")
			var mu sync.Mutex
			shared := 0
			errs := w.crowd(t, client, func(req *firestorepb.CommitRequest) emulator.Verdict {
				mu.Lock()
				defer mu.Unlock()
				if writesTo(req, "bad") && writesTo(req, "good") {
					if shared++; shared == 1 && tt.doubted != nil {
						return *tt.doubted
					}
				}
				if writesTo(req, "bad") {
					return emulator.Verdict{Before: tt.err}
				}
				return emulator.Verdict{}
			}, []shards.Increment{{Counter: "bad", By: 1}}, []shards.Increment{{Counter: "good", By: 1}}, []shards.Increment{{Counter: "fine", By: 1}, {Counter: "good", By: 1}})
			if shared == 0 {
				t.Error("no commit was shared")
			}
			if !errors.Is(errs[0], tt.want) && status.Code(errs[0]) != status.Code(tt.want) || errs[1] != nil || errs[2] != nil {
				t.Errorf("answered %v, want %v for the first one alone", errs, tt.want)
			}
			w.wantSum(t, "bad", tt.counted)
			w.wantSum(t, "good", 2)
			w.wantSum(t, "fine", 1)
		})
	}
}

// A commit waits for as long as an app's transaction holds the lock of a shard. Who has shared it with
// that counter waits once, and those who come later don't. Time is virtual, so both calls are in the first commit.
func TestALockHoldsUpItsOwnCounterAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		w.busyCounters(t, client, "locked", "good")
		for round, want := range []int64{1, 0} {
			var shared atomic.Int64
			over := make(chan struct{})
			var begun sync.Once
			errs := w.crowdUntil(t, client, over, func(ctx context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
				if writesTo(req, "locked") {
					if writesTo(req, "good") {
						shared.Add(1)
					}
					begun.Do(func() { close(over) })
					<-ctx.Done() // the lock is kept for longer than any call waits
					v.Before = status.FromContextError(ctx.Err()).Err()
				}
				return v
			}, []shards.Increment{{Counter: "locked", By: 1}}, []shards.Increment{{Counter: "good", By: 1}})
			if !errors.Is(errs[0], shards.ErrBusy) || errs[1] != nil {
				t.Errorf("round %d: answered %v, want ErrBusy for the first one alone", round, errs)
			}
			if n := shared.Load(); n != want {
				t.Errorf("round %d: %d commits were shared, want %d", round, n, want)
			}
		}
		w.wantSum(t, "locked", 0)
		w.wantSum(t, "good", 2)
	})
}

// A counter that was deleted, and is known all the same, fails no one else's increments; neither do
// those that are unknown.
func TestDeletedAndUnknownCountersLeaveASharedCommit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for _, lost := range []bool{false, true} {
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			w.busyCounters(t, client, "gone", "good")
			if err := handle(t, w.open(t, shards.Config{}), "gone").Delete(t.Context(), shards.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			var first sync.Once
			errs := w.crowd(t, client, func(req *firestorepb.CommitRequest) (v emulator.Verdict) {
				if lost && writesTo(req, "good") {
					first.Do(func() { v.Before = unavailable })
				}
				return v
			}, []shards.Increment{{Counter: "gone", By: 1}}, []shards.Increment{{Counter: "good", By: 1}}, []shards.Increment{{Counter: "never", By: 1}}, []shards.Increment{{Counter: "good", By: 1}, {Counter: "never", By: 1}})
			if !errors.Is(errs[0], shards.ErrNotFound) || errs[1] != nil || !errors.Is(errs[2], shards.ErrNotFound) || !errors.Is(errs[3], shards.ErrNotFound) {
				t.Errorf("answered %v, want the second one counted, and the others not found", errs)
			}
			w.wantSum(t, "good", 1)
		}
	})
}

// Five hundred unknown counters of one call, made one after the other, and slowly: nobody else
// waits for them.
func TestCreationsKeepNobodyWaiting(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{AutoCreate: true, NumShards: 1})
		w.busyCounters(t, client, "good")
		var many []shards.Increment
		for i := range 100 {
			many = append(many, shards.Increment{Counter: fmt.Sprint("new", i), By: 1})
		}
		creating, hold := make(chan struct{}), make(chan struct{})
		var begun sync.Once
		var atOnce, most atomic.Int64
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			if strings.Contains(req.GetWrites()[0].GetUpdate().GetName(), "/counters/new") {
				most.Store(max(most.Load(), atOnce.Add(1)))
				begun.Do(func() { close(creating) })
				<-hold
				atOnce.Add(-1)
			}
			return emulator.Verdict{}
		})
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := client.AddAll(t.Context(), many, shards.Key{}); err != nil {
				t.Error(err)
			}
		})
		<-creating
		if _, err := client.AddAll(t.Context(), []shards.Increment{{Counter: "good", By: 1}, {Counter: "busy1", By: 1}}, shards.Key{}); err != nil {
			t.Error(err)
		}
		if err := handle(t, client, "good").Add(t.Context(), 1); err != nil {
			t.Error(err)
		}
		close(hold)
		group.Wait()
		w.wantSum(t, "good", 2)
		w.wantSum(t, "new99", 1)
		if n := most.Load(); n > 8 {
			t.Errorf("%d creations at once, want at most 8", n)
		}
	})
}

// A shard that goes missing again each time it was made is tried a few times with pauses,
// and not for ever.
func TestMissingShardsDontLoop(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		c := w.counter(t, client, "a", 1)
		var commits atomic.Int64
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			if addsToShard(req) {
				commits.Add(1)
				return emulator.Verdict{Before: status.Error(codes.NotFound, "no document to update")}
			}
			return emulator.Verdict{}
		})
		if err := c.Add(t.Context(), 1); !errors.Is(err, shards.ErrBusy) {
			t.Errorf("add: %v, want ErrBusy", err)
		}
		if n := commits.Load(); n > 10 {
			t.Errorf("%d commits, want a few", n)
		}
	})
}

// A command whose answers are all lost looks at what became of it, also when the
// caller's time is over.
func TestCommandsInDoubtFindOut(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		c := handle(t, client, "a")
		for name, command := range map[string]func(context.Context, shards.Counter) error{
			"create": func(ctx context.Context, c shards.Counter) error {
				return c.Create(ctx, shards.CreateOptions{Shards: 1, Total: 7})
			},
			"rebase": func(ctx context.Context, c shards.Counter) error { return c.Rebase(ctx, 9) },
			"reset":  func(ctx context.Context, c shards.Counter) error { return c.Reset(ctx, shards.ResetOptions{}) },
			"delete": func(ctx context.Context, c shards.Counter) error { return c.Delete(ctx, shards.DeleteOptions{}) },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			maker := w.sent(t, shards.Config{}, "Commit", func(int) error {
				cancel() // the caller's time is over before the answer is there
				return unavailable
			})
			id := "of " + name
			if name != "create" {
				w.counter(t, client, id, 1)
			}
			err := command(ctx, handle(t, maker, id))
			if name == "delete" { // it is marked, and the rest is still to go
				if _, found := handle(t, client, id).Get(t.Context()); !errors.Is(found, shards.ErrNotFound) || !errors.Is(err, context.Canceled) {
					t.Errorf("delete, whose mark was applied: %v, and read: %v", err, found)
				}
			} else if err != nil {
				t.Errorf("%s, which was applied: %v", name, err)
			}
		}
		w.wantSum(t, "of create", 7)
		if err := c.Create(t.Context(), shards.CreateOptions{Shards: 1, Total: 7}); err != nil {
			t.Fatal(err)
		}
		for name, command := range map[string]func(context.Context) error{
			"reset":  func(ctx context.Context) error { return c.Reset(ctx, shards.ResetOptions{}) },
			"rebase": func(ctx context.Context) error { return c.Rebase(ctx, 5) },
			"resize": func(ctx context.Context) error { return c.Resize(ctx, 3, shards.ResizeOptions{}) },
			"delete": func(ctx context.Context) error { return c.Delete(ctx, shards.DeleteOptions{}) },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
				cancel()
				return emulator.Verdict{Before: unavailable}
			})
			if err := command(ctx); !errors.Is(err, shards.ErrUnknown) {
				t.Errorf("%s, which may have been applied: %v, want ErrUnknown", name, err)
			}
		}
		w.Server.SetInterceptor(nil)
		w.wantSum(t, "a", 7)
	})
}

// A key that is to be remembered for a minute only: its marker, the only one there is, still stands
// in the way of a commit that arrives half an hour late.
func TestLateCommitFindsAKeyOfAMinute(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		w := newWorldWith(t, emulator.Options{
			// the test sweeps
			TTL: map[string]string{"counter_requests": "expire_at"}, SweepEvery: time.Hour,
			Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		})
		c := w.counter(t, w.open(t, shards.Config{KeyTTL: time.Minute}), "a", 2)
		_, release := w.Delay(addsToShard, nil)
		if _, err := c.AddOnce(t.Context(), 1, shards.Key{Value: "k"}); err != nil {
			t.Fatal(err)
		}
		ahead.Store(int64(30 * time.Minute))
		w.Server.Sweep()
		if err := release(); status.Code(err) != codes.AlreadyExists {
			t.Errorf("the late commit: %v, want ALREADY_EXISTS", err)
		}
		w.wantSum(t, "a", 1)
	})
}
