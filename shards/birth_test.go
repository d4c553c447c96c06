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

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// newCounters are increments of n counters that are yet to be made.
func newCounters(name string, n int) (increments []shards.Increment) {
	for i := range n {
		increments = append(increments, shards.Increment{Counter: fmt.Sprint(name, i), By: 1})
	}
	return increments
}

// left is how many documents there are of counters, all of them together: their own, shards and bases.
func (w *world) left(t *testing.T) (n int) {
	t.Helper()
	for _, group := range []string{"counters", "shards", "counter_rollup"} {
		docs, err := w.fs.CollectionGroup(group).Documents(t.Context()).GetAll()
		if err != nil {
			t.Fatal(err)
		}
		n += len(docs)
	}
	return n
}

// "Nothing was counted" leaves nothing behind, wherever an increment of counters that don't exist
// yet gets stuck.
func TestBusyHasMadeNothing(t *testing.T) {
	t.Parallel()
	// A busy machine's time may be over in the middle of a commit. That it was not applied is known
	// once its marker is made alone, which is always taken.
	settles := func(req *firestorepb.CommitRequest) bool { return len(req.GetWrites()) == 1 }
	counts := func(req *firestorepb.CommitRequest) bool { // it has a marker
		for _, write := range req.GetWrites() {
			if strings.Contains(write.GetUpdate().GetName(), "/counter_requests/") {
				return !settles(req)
			}
		}
		return false
	}
	aborted := status.Error(codes.Aborted, "too much contention")
	for name, stuck := range map[string]func() emulator.Interceptor{
		"what counts is refused": func() emulator.Interceptor {
			return func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
				if counts(req) {
					return emulator.Verdict{Before: aborted}
				}
				return emulator.Verdict{}
			}
		},
		"after some commits none is taken": func() emulator.Interceptor {
			var commits atomic.Int64
			return func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
				if !settles(req) && commits.Add(1) > 5 {
					return emulator.Verdict{Before: aborted}
				}
				return emulator.Verdict{}
			}
		},
		"every second commit is refused": func() emulator.Interceptor {
			var commits atomic.Int64
			return func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
				if !settles(req) && commits.Add(1)%2 == 0 {
					return emulator.Verdict{Before: aborted}
				}
				return emulator.Verdict{}
			}
		},
	} {
		for _, n := range []int{1, 20, 200} {
			virtual.Run(t, fmt.Sprintf("%s, %d counters", name, n), func(t *testing.T) {
				w := newWorld(t)
				client := w.open(t, shards.Config{AutoCreate: true, NumShards: 3, Timeout: 10 * time.Second})
				w.Server.SetInterceptor(stuck())
				_, err := client.AddAll(t.Context(), newCounters("new", n), shards.Key{})
				w.Server.SetInterceptor(nil)
				switch left := w.left(t); {
				case err == nil:
					for i := range n {
						w.wantSum(t, fmt.Sprint("new", i), 1)
					}
				case !errors.Is(err, shards.ErrBusy):
					t.Error(err)
				case left > 0:
					t.Errorf("%v, and %d documents are left", err, left)
				}
			})
		}
	}
}

// However many make the same counters at the same time, in pieces that overlap, with answers lost
// and commits refused: each call counts once, and each counter has all its shards.
func TestBirthsCountOnce(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for _, n := range []int{3, 300} { // whole in a commit, and too many shards for one
			w := newWorld(t)
			const each = 4
			clients := []*shards.Client{
				w.open(t, shards.Config{AutoCreate: true, NumShards: each}), w.open(t, shards.Config{AutoCreate: true, NumShards: each}),
				w.open(t, shards.Config{AutoCreate: true, NumShards: each, InexactWrites: true}),
			}
			w.Server.SetFaults(emulator.Faults{Abort: 0.1, Unavailable: 0.1, LoseAnswers: 0.2, CommitLatency: 2 * time.Millisecond, Seed: uint64(n)})
			var group sync.WaitGroup
			const callers = 9
			for caller := range callers {
				group.Go(func() {
					increments := newCounters("new", n)
					if caller%3 == 1 { // only a part
						increments = increments[:n/2+1]
					}
					for try := 0; ; try++ {
						_, err := clients[(caller+try)%3].AddAll(t.Context(), increments, shards.Key{Value: fmt.Sprint(caller)})
						if err == nil {
							return
						}
						if !errors.Is(err, shards.ErrBusy) && !errors.Is(err, shards.ErrUnknown) {
							t.Errorf("caller %d: %v", caller, err)
							return
						}
					}
				})
			}
			group.Wait()
			w.Server.SetFaults(emulator.Faults{})
			for i := range n {
				id, want := fmt.Sprint("new", i), int64(callers)
				if i > n/2 {
					want -= callers / 3
				}
				counts := w.counts(t, id)
				var sum int64
				for _, count := range counts {
					sum += count
				}
				if whole := len(counts) == each || n > 100 && len(counts) > 0; sum != want || !whole { // some are made later, and that may fail
					t.Fatalf("%s: %d in %d shards, want %d in %d", id, sum, len(counts), want, each)
				}
				if i%50 == 0 {
					if r := w.rollUp(t, id); r.Problem != "" {
						t.Errorf("%s: %s", id, r.Problem)
					}
					if got := w.total(t, id); got != want {
						t.Errorf("%s: the total is %d, want %d", id, got, want)
					}
				}
			}
		}
	})
}

// Counters that are too many for their shards to fit into one commit get them all the same, right
// after it: clients that write by themselves update shards that exist.
func TestManyBirthsGetAllTheirShards(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{AutoCreate: true, NumShards: 4})
		const n = 120
		if _, err := client.AddAll(t.Context(), newCounters("new", n), shards.Key{}); err != nil {
			t.Fatal(err)
		}
		if err := client.Close(); err != nil { // which waits for what it does in the background
			t.Fatal(err)
		}
		for i := range n {
			if counts := w.counts(t, fmt.Sprint("new", i)); len(counts) != 4 {
				t.Errorf("counter %d has %d shards, want 4", i, len(counts))
			}
		}
	})
}

// A member joins a counter that it makes, and one whose counter somebody else makes at that moment
// has not joined yet.
func TestMembersOfNewCounters(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for range 20 {
			w := newWorld(t)
			clients := []*shards.Client{w.open(t, shards.Config{AutoCreate: true, NumShards: 2}), w.open(t, shards.Config{AutoCreate: true, NumShards: 2})}
			var group sync.WaitGroup
			for i := range 8 {
				group.Go(func() {
					if counted, err := handle(t, clients[i%2], "new").Join(t.Context(), "total", fmt.Sprint("member", i)); err != nil || !counted {
						t.Errorf("member %d: %v, %v", i, counted, err)
					}
				})
			}
			group.Wait()
			w.wantSum(t, "new", 8)
			if members, err := w.fs.Collection("counters/new/total_members").Documents(t.Context()).GetAll(); err != nil || len(members) != 8 {
				t.Errorf("%d members, %v", len(members), err)
			}
		}
	})
}
