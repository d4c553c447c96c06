package shards_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/emulator"
	"github.com/firestore-counters/counters/shards"
)

var (
	unavailable = status.Error(codes.Unavailable, "the connection was lost")
	aborted     = status.Error(codes.Aborted, "too much contention")
)

// addsToShard reports whether a commit is one of increments.
func addsToShard(req *firestorepb.CommitRequest) bool {
	for _, w := range req.GetWrites() {
		if strings.Contains(w.GetUpdate().GetName(), "/shards/") && len(w.GetUpdateTransforms()) > 0 {
			return true
		}
	}
	return false
}

// onAdds has the n-th commit of increments meet the n-th verdict, and counts such commits.
func (w *world) onAdds(verdicts ...emulator.Verdict) *atomic.Int64 {
	var seen atomic.Int64
	w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		if !addsToShard(req) {
			return emulator.Verdict{}
		}
		if n := int(seen.Add(1)); n <= len(verdicts) {
			return verdicts[n-1]
		}
		return emulator.Verdict{}
	})
	return &seen
}

// One increment, whose commits meet faults.
func TestOneIncrementUnderFaults(t *testing.T) {
	t.Parallel()
	lost := emulator.Verdict{After: unavailable}
	down := emulator.Verdict{Before: unavailable}
	contended := emulator.Verdict{Before: aborted}
	for _, c := range []struct {
		name    string
		thrift  bool
		faults  []emulator.Verdict
		want    error
		counted int64
		commits int64
	}{
		{name: "no fault", counted: 1, commits: 1},
		{name: "answer lost", faults: []emulator.Verdict{lost}, counted: 1, commits: 2},
		{name: "not applied", faults: []emulator.Verdict{down}, counted: 1, commits: 2},
		{name: "contention", faults: []emulator.Verdict{contended}, counted: 1, commits: 2},
		{name: "all of it", faults: []emulator.Verdict{down, contended, down, contended, lost}, counted: 1, commits: 6},
		{name: "contention after doubt", faults: []emulator.Verdict{lost, contended, contended}, counted: 1, commits: 4},
		{name: "lasting contention", faults: []emulator.Verdict{contended, contended, contended, contended, contended, contended, contended, contended},
			want: shards.ErrBusy, commits: 8},
		{name: "lasting contention after doubt", faults: []emulator.Verdict{lost, contended, contended, contended, contended, contended, contended, contended, contended},
			counted: 1, commits: 9},
		{name: "lasting contention after doubt, not applied", faults: []emulator.Verdict{down, contended, contended, contended, contended, contended, contended, contended, contended},
			want: shards.ErrUnknown, counted: 0, commits: 9},
		{name: "refused", faults: []emulator.Verdict{{Before: status.Error(codes.PermissionDenied, "no")}}, want: status.Error(codes.PermissionDenied, "no"), commits: 1},
		{name: "no marker", thrift: true, counted: 1, commits: 1},
		{name: "no marker, answer lost", thrift: true, faults: []emulator.Verdict{lost}, want: shards.ErrUnknown, counted: 1, commits: 1},
		{name: "no marker, not applied", thrift: true, faults: []emulator.Verdict{down}, want: shards.ErrUnknown, counted: 0, commits: 1},
		{name: "no marker, contention", thrift: true, faults: []emulator.Verdict{contended}, counted: 1, commits: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			client := w.open(t, shards.Config{Thrift: c.thrift})
			counter := w.counter(t, client, "a", 4)
			commits := w.onAdds(c.faults...)
			err := counter.Add(t.Context(), 1)
			if !errors.Is(err, c.want) && (c.want == nil || status.Code(err) != status.Code(c.want)) {
				t.Errorf("add: %v, want %v", err, c.want)
			}
			w.wantSum(t, "a", c.counted)
			if n := commits.Load(); n != c.commits {
				t.Errorf("%d commits, want %d", n, c.commits)
			}
			if c.thrift && w.markers(t) > 0 {
				t.Error("there is a marker")
			}
		})
	}
}

// The same lost answer, met by the client library's own retry: this is what the markers are for.
func TestPlainClientCountsTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	w.counter(t, client, "plain", 1)
	w.counter(t, client, "ours", 1)
	w.onAdds(emulator.Verdict{After: unavailable})
	shard := w.fs.Collection("counters").Doc("plain").Collection("shards").Doc("0")
	if _, err := shard.Update(t.Context(), []firestore.Update{{Path: "count", Value: firestore.Increment(1)}}); err != nil {
		t.Fatal(err)
	}
	w.wantSum(t, "plain", 2)

	w.onAdds(emulator.Verdict{After: unavailable})
	if err := handle(t, client, "ours").Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	w.wantSum(t, "ours", 1)
}

// A commit that nobody waits for any more arrives after the one that went in its place: it must count nothing.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	for _, key := range []shards.Key{{}, {Value: "k"}} {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		counter := w.counter(t, client, "a", 2)
		var late atomic.Pointer[firestorepb.CommitRequest]
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			if late.CompareAndSwap(nil, req) {
				return emulator.Verdict{Before: unavailable}
			}
			return emulator.Verdict{}
		})
		if _, err := counter.AddOnce(t.Context(), 1, key); err != nil {
			t.Errorf("key %q: %v", key.Value, err)
		}
		w.wantSum(t, "a", 1)
		_, err := firestorepb.NewFirestoreClient(w.Conn(t)).Commit(t.Context(), late.Load())
		if status.Code(err) != codes.AlreadyExists {
			t.Errorf("key %q: the late commit: %v, want ALREADY_EXISTS", key.Value, err)
		}
		w.wantSum(t, "a", 1)
	}
}

// A counter that is deleted between a commit, whose answer is lost, and the next one: the increment was counted, and that
// is the answer.
func TestDeletedInDoubt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	counter := w.counter(t, client, "a", 2)
	var commits atomic.Int64
	w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		if !addsToShard(req) {
			return emulator.Verdict{}
		}
		if commits.Add(1) == 1 {
			return emulator.Verdict{After: unavailable}
		}
		if err := handle(t, client, "a").Delete(t.Context()); err != nil && !errors.Is(err, shards.ErrNotFound) {
			t.Error(err)
		}
		return emulator.Verdict{}
	})
	if err := counter.Add(t.Context(), 1); err != nil {
		t.Errorf("add: %v; want none, it was counted", err)
	}
}

// A process that dies after its commit leaves the marker of the key: whoever repeats the request finds it.
func TestCrashAfterCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.open(t, shards.Config{Timeout: 200 * time.Millisecond})
	counter := w.counter(t, first, "a", 2)
	key := shards.Key{Caller: "user:1", Value: "order-17"}
	ctx, cancel := context.WithCancel(t.Context())
	w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		cancel() // the caller never hears of it
		return emulator.Verdict{After: unavailable}
	})
	if _, err := counter.AddOnce(ctx, 5, key); !errors.Is(err, shards.ErrUnknown) {
		t.Errorf("without an answer: %v, want ErrUnknown", err)
	}
	w.Server.SetInterceptor(nil)
	again := handle(t, w.open(t, shards.Config{}), "a")
	replayed, err := again.AddOnce(t.Context(), 5, key)
	if err != nil || !replayed {
		t.Errorf("again: replayed %v, %v; want a replay", replayed, err)
	}
	w.wantSum(t, "a", 5)
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{Timeout: 100 * time.Millisecond})
	counter := w.counter(t, client, "a", 2)
	key := shards.Key{Value: "k"}
	hold := make(chan struct{})
	w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		<-hold
		return emulator.Verdict{Before: unavailable}
	})
	if _, err := counter.AddOnce(t.Context(), 1, key); !errors.Is(err, shards.ErrUnknown) {
		t.Errorf("past the deadline: %v, want ErrUnknown", err)
	}
	close(hold)
	w.Server.SetInterceptor(nil)
	if _, err := counter.AddOnce(t.Context(), 1, key); err != nil {
		t.Errorf("again: %v", err)
	}
	w.wantSum(t, "a", 1)
}

// A caller that goes away takes nobody along, whether its increment waits or is on its way.
func TestCallersGoAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	counter := w.counter(t, client, "a", 2)
	arrived, release := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		if first.CompareAndSwap(false, true) {
			close(arrived)
			<-release
		}
		return emulator.Verdict{}
	})
	flying, leaveFlight := context.WithCancel(t.Context())
	waiting, leaveQueue := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if err := counter.Add(flying, 1); !errors.Is(err, shards.ErrUnknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("left in flight: %v, want ErrUnknown", err)
		}
	})
	<-arrived
	left := make(chan struct{})
	go func() {
		defer close(left)
		if err := counter.Add(waiting, 10); !errors.Is(err, shards.ErrBusy) || !errors.Is(err, context.Canceled) {
			t.Errorf("left while waiting: %v, want ErrBusy", err)
		}
	}()
	for range 5 {
		group.Go(func() {
			if err := counter.Add(t.Context(), 100); err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(20 * time.Millisecond) // let them queue; whoever is late changes nothing
	leaveFlight()
	leaveQueue()
	<-left
	close(release)
	group.Wait()
	w.wantSum(t, "a", 501)
}

func TestFullQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{MaxQueue: 1})
	counter := w.counter(t, client, "a", 2)
	arrived, release := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		if first.CompareAndSwap(false, true) {
			close(arrived)
			<-release
		}
		return emulator.Verdict{}
	})
	results := make(chan error, 3)
	add := func() { results <- counter.Add(t.Context(), 1) }
	go add()
	<-arrived
	go add()
	go add()
	if err := <-results; !errors.Is(err, shards.ErrBusy) { // one of the two that came later waits
		t.Errorf("beyond the queue: %v, want ErrBusy", err)
	}
	close(release)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	w.wantSum(t, "a", 2)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{Thrift: true}) // keys have their markers all the same
	a, b := w.counter(t, client, "a", 2), w.counter(t, client, "b", 2)
	key := shards.Key{Caller: "alice", Value: "k"}
	once := func(c shards.Counter, by int64, key shards.Key, wantReplay bool, want error) {
		t.Helper()
		replayed, err := c.AddOnce(t.Context(), by, key)
		if replayed != wantReplay || !errors.Is(err, want) {
			t.Errorf("replayed %v, %v; want %v, %v", replayed, err, wantReplay, want)
		}
	}
	once(a, 1, key, false, nil)
	once(a, 1, key, true, nil)
	once(a, 2, key, false, shards.ErrKeyReused)
	once(a, 10, shards.Key{Caller: "bob", Value: "k"}, false, nil)
	once(b, 1, key, false, nil)
	w.wantSum(t, "a", 11)
	w.wantSum(t, "b", 1)

	all := func(wantReplay bool, want error, increments ...shards.Increment) {
		t.Helper()
		replayed, err := client.AddAll(t.Context(), increments, key)
		if replayed != wantReplay || !errors.Is(err, want) {
			t.Errorf("replayed %v, %v; want %v, %v", replayed, err, wantReplay, want)
		}
	}
	all(false, nil, shards.Increment{"a", 1}, shards.Increment{"b", 1})
	all(true, nil, shards.Increment{"b", 1}, shards.Increment{"a", 1})
	all(false, shards.ErrKeyReused, shards.Increment{"b", 1})
	all(false, shards.ErrKeyReused, shards.Increment{"b", 2}, shards.Increment{"a", 1})
	w.wantSum(t, "a", 12)
	w.wantSum(t, "b", 2)
}

// Replays, keys used twice, unknown counters and increments without a key share batches; each gets its own outcome.
func TestMixedBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	counter := w.counter(t, client, "a", 4)
	w.counter(t, client, "b", 4)
	if _, err := counter.AddOnce(t.Context(), 1000, shards.Key{Value: "old"}); err != nil {
		t.Fatal(err)
	}
	w.Server.SetFaults(emulator.Faults{CommitLatency: 5 * time.Millisecond, LoseAnswers: 0.2, Abort: 0.2, Seed: 1})
	var group sync.WaitGroup
	var counted atomic.Int64
	for i := range 40 {
		group.Go(func() {
			if err := counter.Add(t.Context(), 1); err != nil {
				t.Errorf("no key: %v", err)
			}
		})
		group.Go(func() {
			replayed, err := counter.AddOnce(t.Context(), 1, shards.Key{Value: fmt.Sprint(i / 2)})
			if err != nil {
				t.Errorf("key: %v", err)
			}
			if !replayed {
				counted.Add(1)
			}
		})
		group.Go(func() {
			if replayed, err := counter.AddOnce(t.Context(), 1000, shards.Key{Value: "old"}); err != nil || !replayed {
				t.Errorf("replay: %v, %v", replayed, err)
			}
		})
		group.Go(func() {
			if _, err := counter.AddOnce(t.Context(), 7, shards.Key{Value: "old"}); !errors.Is(err, shards.ErrKeyReused) {
				t.Errorf("other increment: %v, want ErrKeyReused", err)
			}
		})
		group.Go(func() {
			increments := []shards.Increment{{"a", 1}, {"b", 1}}
			if i%4 == 0 {
				increments = append(increments, shards.Increment{Counter: "gone", By: 1})
			}
			_, err := client.AddAll(t.Context(), increments, shards.Key{})
			if i%4 == 0 != errors.Is(err, shards.ErrNotFound) || i%4 != 0 && err != nil {
				t.Errorf("several, %d: %v", i, err)
			}
		})
	}
	group.Wait()
	w.Server.SetFaults(emulator.Faults{})
	if counted.Load() != 20 {
		t.Errorf("%d calls were first under their key, want 20", counted.Load())
	}
	w.wantSum(t, "a", 1000+40+20+30)
	w.wantSum(t, "b", 30)
}

// Two processes, every fault, callers that repeat what failed: exact.
func TestExactUnderFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	clients := []*shards.Client{w.open(t, shards.Config{}), w.open(t, shards.Config{})}
	w.counter(t, clients[0], "a", 4)
	w.Server.SetFaults(emulator.Faults{Abort: 0.2, Unavailable: 0.2, LoseAnswers: 0.2, CommitLatency: time.Millisecond, Seed: 7})
	var group sync.WaitGroup
	for caller := range 20 {
		group.Go(func() {
			for n := range 25 {
				key := shards.Key{Caller: fmt.Sprint(caller), Value: fmt.Sprint(n)}
				for try := 0; ; try++ {
					_, err := handle(t, clients[(caller+try)%2], "a").AddOnce(t.Context(), 1, key)
					if err == nil {
						break
					}
					if try == 10 {
						t.Error(err)
						break
					}
				}
			}
		})
	}
	group.Wait()
	w.Server.SetFaults(emulator.Faults{})
	w.wantSum(t, "a", 500)
}

// A shard that is missing is made beside a read of the counter, once for all who need it.
func TestMissingShards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	clients := []*shards.Client{w.open(t, shards.Config{}), w.open(t, shards.Config{})}
	counter := w.counter(t, clients[0], "a", 1)
	if err := counter.Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	ref := w.fs.Collection("counters").Doc("a")
	if _, err := ref.Update(t.Context(), []firestore.Update{{Path: "num_shards", Value: 3}}); err != nil {
		t.Fatal(err)
	}
	w.Server.SetFaults(emulator.Faults{LoseAnswers: 0.3, Abort: 0.1, Seed: 3})
	var group sync.WaitGroup
	for _, client := range append(clients, w.open(t, shards.Config{})) {
		for range 20 {
			group.Go(func() {
				if err := handle(t, client, "a").Add(t.Context(), 1); err != nil {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	w.Server.SetFaults(emulator.Faults{})
	w.wantSum(t, "a", 61)

	// A deleted counter stays deleted.
	if _, err := ref.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id := range w.counts(t, "a") {
		if _, err := ref.Collection("shards").Doc(id).Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := counter.Add(t.Context(), 1); !errors.Is(err, shards.ErrNotFound) {
		t.Errorf("add to a deleted counter: %v, want ErrNotFound", err)
	}
	if counts := w.counts(t, "a"); len(counts) > 0 {
		t.Errorf("shards came back: %v", counts)
	}
}
