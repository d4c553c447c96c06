package shards_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

var (
	unavailable = virtual.ErrLost
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

// A counter that meets contention shares no commits for a while: those of others would wait with it.
func TestContentionIsTrouble(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		w.counter(t, client, "a", 2)
		w.counter(t, client, "b", 2)
		w.onAdds(emulator.Verdict{}, emulator.Verdict{Before: aborted})
		for _, id := range []string{"b", "a"} {
			if err := handle(t, client, id).Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		if !shards.Troubled(client, "a") || shards.Troubled(client, "b") {
			t.Errorf("in trouble: a %v, b %v; want a alone", shards.Troubled(client, "a"), shards.Troubled(client, "b"))
		}
		w.wantSum(t, "a", 1)
	})
}

// One increment, whose commits meet faults.
func TestOneIncrementUnderFaults(t *testing.T) {
	t.Parallel()
	lost := emulator.Verdict{After: unavailable}
	down := emulator.Verdict{Before: unavailable}
	contended := emulator.Verdict{Before: aborted}
	quota := emulator.Verdict{Before: status.Error(codes.ResourceExhausted, "quota exceeded")}
	repeat := func(v emulator.Verdict, n int) []emulator.Verdict { return slices.Repeat([]emulator.Verdict{v}, n) }
	for _, c := range []struct {
		name     string
		unmarked bool
		faults   []emulator.Verdict
		want     error
		counted  int64
		commits  int64
	}{
		{name: "no fault", counted: 1, commits: 1},
		{name: "answer lost", faults: []emulator.Verdict{lost}, counted: 1, commits: 1},
		{name: "not applied", faults: []emulator.Verdict{down}, counted: 1, commits: 2},
		{name: "contention", faults: []emulator.Verdict{contended}, counted: 1, commits: 2},
		{name: "all of it", faults: []emulator.Verdict{down, contended, down, contended, lost}, counted: 1, commits: 5},
		{name: "contention after doubt", faults: []emulator.Verdict{down, contended, contended}, counted: 1, commits: 4},
		{name: "lasting contention", faults: []emulator.Verdict{contended, contended, contended, contended, contended, contended, contended, contended},
			want: shards.ErrBusy, commits: 8},
		{name: "lasting contention, and then it is counted", faults: []emulator.Verdict{contended, contended, contended, contended, contended, contended, contended, lost},
			counted: 1, commits: 8},
		{name: "lasting contention after doubt, not applied", faults: []emulator.Verdict{down, contended, contended, contended, contended, contended, contended, contended, contended},
			// the marker was made alone: it is certain
			want: shards.ErrBusy, counted: 0, commits: 8},
		{name: "a quota", faults: repeat(quota, 8), want: shards.ErrBusy, commits: 8},
		{name: "a quota that was none", faults: append([]emulator.Verdict{{After: quota.Before}}, repeat(quota, 7)...), counted: 1, commits: 1},
		{name: "no marker, quota", unmarked: true, faults: []emulator.Verdict{{After: quota.Before}}, want: shards.ErrUnknown, counted: 1, commits: 1},
		{name: "refused", faults: []emulator.Verdict{{Before: status.Error(codes.PermissionDenied, "no")}}, want: status.Error(codes.PermissionDenied, "no"), commits: 1},
		{name: "no marker", unmarked: true, counted: 1, commits: 1},
		{name: "no marker, answer lost", unmarked: true, faults: []emulator.Verdict{lost}, want: shards.ErrUnknown, counted: 1, commits: 1},
		{name: "no marker, not applied", unmarked: true, faults: []emulator.Verdict{down}, want: shards.ErrUnknown, counted: 0, commits: 1},
		{name: "no marker, contention", unmarked: true, faults: []emulator.Verdict{contended}, counted: 1, commits: 2},
	} {
		virtual.Run(t, c.name, func(t *testing.T) {
			w := newWorld(t)
			client := w.open(t, shards.Config{InexactWrites: c.unmarked})
			counter := w.counter(t, client, "a", 4)
			commits, before := w.onAdds(c.faults...), w.markers(t)
			err := counter.Add(t.Context(), 1)
			if !errors.Is(err, c.want) && (c.want == nil || status.Code(err) != status.Code(c.want)) {
				t.Errorf("add: %v, want %v", err, c.want)
			}
			w.wantSum(t, "a", c.counted)
			if n := commits.Load(); n != c.commits {
				t.Errorf("%d commits, want %d", n, c.commits)
			}
			if c.unmarked && w.markers(t) > before {
				t.Error("there is a marker")
			}
		})
	}
}

// The same lost answer, met by the client library's own retry: this is what the markers are for.
func TestPlainClientCountsTwice(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
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
	})
}

// A key whose call was answered that nothing was counted, after a commit whose answer was lost: its
// marker says so, the same call counts, once, and the lost commit never does.
func TestAKeyThatWasSettled(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		counter := w.counter(t, w.open(t, shards.Config{}), "a", 2)
		key := shards.Key{Value: "k"}
		for range 2 { // the second call's commit is in doubt, too
			var lost atomic.Pointer[firestorepb.CommitRequest]
			w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
				switch {
				case !addsToShard(req):
					return emulator.Verdict{}
				case lost.CompareAndSwap(nil, req):
					return emulator.Verdict{Before: unavailable}
				}
				return emulator.Verdict{Before: aborted}
			})
			if _, err := counter.AddOnce(t.Context(), 1, key); !errors.Is(err, shards.ErrBusy) {
				t.Fatalf("%v, want ErrBusy", err)
			}
			w.Server.SetInterceptor(nil)
			_, err := firestorepb.NewFirestoreClient(w.Conn()).Commit(t.Context(), lost.Load())
			if code := status.Code(err); code != codes.AlreadyExists && code != codes.FailedPrecondition {
				t.Errorf("the lost commit: %v, want that the marker refuses it", err)
			}
		}
		w.wantSum(t, "a", 0)
		for n := range 2 {
			if replayed, err := counter.AddOnce(t.Context(), 1, key); err != nil || replayed != (n > 0) {
				t.Errorf("call %d: replayed %v, %v", n, replayed, err)
			}
		}
		if _, err := counter.AddOnce(t.Context(), 2, key); !errors.Is(err, shards.ErrKeyReused) {
			t.Errorf("another request: %v, want ErrKeyReused", err)
		}
		w.wantSum(t, "a", 1)
	})
}

// A commit that nobody waits for any more arrives after the one that went in its place: it
// must count nothing.
func TestLateCommit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
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
			_, err := firestorepb.NewFirestoreClient(w.Conn()).Commit(t.Context(), late.Load())
			if status.Code(err) != codes.AlreadyExists {
				t.Errorf("key %q: the late commit: %v, want ALREADY_EXISTS", key.Value, err)
			}
			w.wantSum(t, "a", 1)
		}
	})
}

// A counter that is deleted between a commit, whose answer is lost, and the next one: the increment
// was counted, and that is the answer.
func TestDeletedInDoubt(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
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
			if err := handle(t, client, "a").Delete(t.Context(), shards.DeleteOptions{}); err != nil && !errors.Is(err, shards.ErrNotFound) {
				t.Error(err)
			}
			return emulator.Verdict{}
		})
		if err := counter.Add(t.Context(), 1); err != nil {
			t.Errorf("add: %v; want none, it was counted", err)
		}
	})
}

func TestDeadline(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.counter(t, w.open(t, shards.Config{}), "a", 2)
		counter := handle(t, w.open(t, shards.Config{Timeout: time.Second}), "a")
		key := shards.Key{Value: "k"}
		w.Server.SetInterceptor(func(ctx context.Context, _ *firestorepb.CommitRequest) emulator.Verdict {
			<-ctx.Done()
			return emulator.Verdict{Before: unavailable}
		})
		if _, err := counter.AddOnce(t.Context(), 1, key); !errors.Is(err, shards.ErrUnknown) {
			t.Errorf("past the deadline: %v, want ErrUnknown", err)
		}
		w.Server.SetInterceptor(nil)
		if _, err := handle(t, w.open(t, shards.Config{}), "a").AddOnce(t.Context(), 1, key); err != nil {
			t.Errorf("again: %v", err)
		}
		w.wantSum(t, "a", 1)
	})
}

// A caller that goes away takes nobody along, whether its increment waits or is on its way.
func TestCallersGoAway(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
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
		sent, leaveSent := context.WithCancel(t.Context())
		waiting, leaveQueue := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if err := counter.Add(sent, 1); !errors.Is(err, shards.ErrUnknown) || !errors.Is(err, context.Canceled) {
				t.Errorf("left in flight: %v, want ErrUnknown", err)
			}
		}()
		<-arrived
		left := make(chan struct{})
		go func() {
			defer close(left)
			if err := counter.Add(waiting, 10); !errors.Is(err, shards.ErrBusy) || !errors.Is(err, context.Canceled) {
				t.Errorf("left while waiting: %v, want ErrBusy", err)
			}
		}()
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				if err := counter.Add(t.Context(), 100); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(20 * time.Millisecond) // let them queue; whoever is late changes nothing
		leaveSent()
		leaveQueue()
		<-gone
		<-left
		close(release)
		group.Wait()
		w.wantSum(t, "a", 501)
	})
}

// Whoever goes away while waiting leaves room for others.
func TestRoomOfThoseWhoWentAway(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{MaxQueue: 10})
		c := w.counter(t, client, "a", 1)
		arrived, release := make(chan struct{}), make(chan struct{})
		w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
			w.Server.SetInterceptor(nil)
			close(arrived)
			<-release
			return emulator.Verdict{}
		})
		var first sync.WaitGroup
		first.Go(func() {
			if err := c.Add(t.Context(), 1); err != nil {
				t.Error(err)
			}
		})
		<-arrived
		for range 20 {
			ctx, leave := context.WithTimeout(t.Context(), time.Millisecond)
			if err := c.Add(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want that it waited until its time was over", err)
			}
			leave()
		}
		if n := shards.Waiting(client); n > 0 {
			t.Errorf("%d wait, and nobody is there", n)
		}
		close(release)
		first.Wait()
		w.wantSum(t, "a", 1)
	})
}

func TestFullQueue(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
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
	})
}

// A shard that is missing is made beside a read of the counter, once for all who need it.
func TestMissingShards(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
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
	})
}

// A call that ends while its counter is still being read was not counted, and never will be:
// that is not doubt.
func TestCallThatEndsBeforeItsCommit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.counter(t, w.open(t, shards.Config{}), "a", 1)
		reading, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		conn := w.Conn(grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			once.Do(func() { close(reading) })
			<-release
			return streamer(ctx, desc, cc, method, opts...)
		}))
		client, err := shards.Open(t.Context(), shards.Config{Place: shards.Place{Project: "p"}}, option.WithGRPCConn(conn))
		if err != nil {
			t.Fatal(err)
		}
		c := handle(t, client, "a")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Add(ctx, 1) }()
		<-reading
		cancel()
		if err := <-ended; !errors.Is(err, shards.ErrBusy) || errors.Is(err, shards.ErrUnknown) {
			t.Errorf("%v; want that nothing was counted", err)
		}
		close(release)
		synctest.Wait() // or the first look would meet a closed connection
		if err := c.Add(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if err := client.Close(); err != nil { // everything that it has taken is done
			t.Error(err)
		}
		w.wantSum(t, "a", 2)
	})
}

// Before anything was sent, nothing was counted: what may pass is for the caller to try again, and
// what Firestore refuses is said as it is.
func TestLookUpThatFails(t *testing.T) {
	t.Parallel()
	for code, busy := range map[codes.Code]bool{codes.Unavailable: true, codes.ResourceExhausted: true, codes.Aborted: true, codes.PermissionDenied: false, codes.Unauthenticated: false, codes.NotFound: false, codes.FailedPrecondition: false} {
		virtual.Run(t, code.String(), func(t *testing.T) {
			w := newWorld(t)
			conn := w.Conn(grpc.WithStreamInterceptor(func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
				return nil, status.Error(code, "no reads today")
			}))
			client, err := shards.Open(t.Context(), shards.Config{Place: shards.Place{Project: "p"}, Timeout: 300 * time.Millisecond}, option.WithGRPCConn(conn))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { client.Close() })
			err = handle(t, client, "a").Add(t.Context(), 1)
			if errors.Is(err, shards.ErrBusy) != busy || errors.Is(err, shards.ErrUnknown) || !busy && status.Code(err) != code {
				t.Errorf("%v; want it to be busy: %t", err, busy)
			}
		})
	}
}

// A call without a deadline ends after Config.Wait, however long its counter is looked for.
func TestWaitForALook(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.counter(t, w.open(t, shards.Config{}), "a", 1)
		client := w.asking(t, shards.Config{Wait: time.Second}, "BatchGetDocuments", func() { time.Sleep(5 * time.Second) })
		began := time.Now()
		err := handle(t, client, "a").Add(t.Context(), 1)
		if took := time.Since(began); !errors.Is(err, shards.ErrBusy) || took > time.Second {
			t.Errorf("%v after %v, want that it is busy after a second", err, took)
		}
		time.Sleep(5 * time.Second)
		w.wantSum(t, "a", 0)
	})
}

// A call without a deadline ends after Config.Wait, whatever its commit does.
func TestWait(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Wait: 50 * time.Millisecond, Timeout: time.Hour})
		c := w.counter(t, client, "a", 1)
		heard := make(chan struct{})
		w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
			<-heard
			return emulator.Verdict{}
		})
		ended := make(chan error, 1)
		go func() { ended <- c.Add(t.Context(), 3) }()
		select {
		case err := <-ended:
			if !errors.Is(err, shards.ErrUnknown) {
				t.Errorf("%v, want that it isn't known", err)
			}
		case <-time.After(time.Minute):
			t.Error("it waits as long as its commit may take")
		}
		close(heard)
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		w.wantSum(t, "a", 3)
	})
}
