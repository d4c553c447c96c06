package shards_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// Clients resize a counter up and down while others add to it, and every commit may fail.
func TestResizeBesideIncrements(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		adder, resizer := w.open(t, shards.Config{}), w.open(t, shards.Config{})
		w.counter(t, adder, "a", 4)
		w.Server.SetFaults(emulator.Faults{LoseAnswers: 0.1, Abort: 0.1, Unavailable: 0.1, Seed: 5})
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		var added atomic.Int64
		for range 8 {
			group.Go(func() {
				for ctx.Err() == nil {
					if err := handle(t, adder, "a").Add(t.Context(), 1); err != nil {
						t.Error(err)
						return
					}
					added.Add(1)
				}
			})
		}
		for _, n := range []int{12, 3, 1, 9, 2} {
			if err := handle(t, resizer, "a").Resize(t.Context(), n, shards.ResizeOptions{}); err != nil {
				t.Error(err)
			}
		}
		stop()
		group.Wait()
		w.Server.SetFaults(emulator.Faults{})
		w.wantSum(t, "a", added.Load())
		if err := handle(t, resizer, "a").Resize(t.Context(), 2, shards.ResizeOptions{}); err != nil {
			t.Fatal(err)
		}
		for id := range w.counts(t, "a") {
			if id != "0" && id != "1" {
				t.Errorf("shard %s is left of more than 2", id)
			}
		}
		w.wantSum(t, "a", added.Load())
	})
}

func TestResizeTellsItsProgress(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		c := w.counter(t, client, "a", 30)
		var last, of int
		if err := c.Resize(t.Context(), 4, shards.ResizeOptions{Progress: func(moved, all int) { last, of = moved, all }}); err != nil {
			t.Fatal(err)
		}
		if last != 26 || of != 26 {
			t.Errorf("moved %d of %d at last, want 26 of 26", last, of)
		}
	})
}

// A resize that can't move a shard says so, with its id.
func TestResizeThatIsRefused(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
			if slices.ContainsFunc(req.GetWrites(), func(w *firestorepb.Write) bool { return w.GetDelete() != "" }) {
				v.Before = status.Error(codes.PermissionDenied, "no")
			}
			return v
		})
		if err := c.Resize(t.Context(), 2, shards.ResizeOptions{}); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "move shard 2") {
			t.Errorf("got %v, want that shard 2 couldn't be moved", err)
		}
	})
}

// A counter whose clients read numShards goes on naming its shards there.
func TestResizeOfPublicCounter(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		ref := w.fs.Collection("counters").Doc("web")
		if _, err := ref.Set(t.Context(), map[string]any{"numShards": 2}); err != nil {
			t.Fatal(err)
		}
		if err := handle(t, client, "web").Resize(t.Context(), 5, shards.ResizeOptions{}); err != nil {
			t.Fatal(err)
		}
		doc, err := ref.Get(t.Context())
		if err != nil || doc.Data()["numShards"] != int64(5) || doc.Data()["num_shards"] != int64(5) {
			t.Errorf("%v (%v), want 5 in both fields", doc.Data(), err)
		}
	})
}

// Where the shard is missing that takes what another one held, it is made, with all that is
// counted.
func TestResizeOntoAMissingShard(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
		first := w.fs.Doc("counters/a/shards/0")
		if _, err := w.fs.Doc("counters/a/shards/1").Update(t.Context(), []firestore.Update{{Path: "count", Value: 0}, {Path: "others", Value: 3}}); err != nil {
			t.Fatal(err)
		}
		if _, err := first.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Resize(t.Context(), 1, shards.ResizeOptions{}); err != nil {
			t.Fatal(err)
		}
		doc, err := first.Get(t.Context())
		if err != nil || doc.Data()["count"] != int64(0) || doc.Data()["others"] != int64(3) {
			t.Errorf("%v (%v), want a count of 0, and the 3 others", doc.Data(), err)
		}
	})
}

// Contention doubles a counter's shards, once in a while, up to the limit, however many
// clients meet it.
func TestGrowth(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		clients := []*shards.Client{w.open(t, shards.Config{MaxShards: 7}), w.open(t, shards.Config{MaxShards: 7}), w.open(t, shards.Config{})}
		w.counter(t, clients[0], "a", 4)
		for _, client := range clients { // so that each knows the counter
			if err := handle(t, client, "a").Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		n := func() any {
			doc, err := w.fs.Collection("counters").Doc("a").Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return doc.Data()["num_shards"]
		}
		contended := emulator.Verdict{Before: aborted}
		for i, c := range []struct {
			client *shards.Client
			want   int64
		}{{clients[2], 4}, {clients[0], 7}, {clients[0], 7}, {clients[1], 7}} {
			w.onAdds(contended, contended)
			if err := handle(t, c.client, "a").Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if got := n(); got != c.want {
				t.Errorf("after contention %d: %v shards, want %d", i+1, got, c.want)
			}
		}
		w.wantSum(t, "a", 7)
	})
}

// A counter grows once the budget has room for its new shards.
func TestGrowthWithinABudget(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		budget := ceiling.New(ceiling.Rates{Writes: 10, Reads: 10})
		client := w.open(t, shards.Config{MaxShards: 1000, Budget: budget})
		w.counter(t, w.open(t, shards.Config{}), "a", 500)
		c := handle(t, client, "a")
		for _, want := range []int{500, 1000} { // with what ten seconds have earned, and with what ten minutes have
			if err := c.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			w.onAdds(emulator.Verdict{Before: aborted})
			if err := c.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if s, err := c.Get(t.Context()); err != nil || s.NumShards != want {
				t.Errorf("%d shards (%v), want %d", s.NumShards, err, want)
			}
			if writes, reads := budget.Left(ceiling.Writes), budget.Left(ceiling.Reads); writes < 0 || reads < 0 {
				t.Errorf("%v writes and %v reads are left", writes, reads)
			}
			time.Sleep(ceiling.Holds)
		}
		w.wantSum(t, "a", 4)
	})
}

// Instances that start under load have read the number of shards that the last one made of it: they
// leave it at that too.
func TestGrowthOfManyInstances(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.counter(t, w.open(t, shards.Config{}), "a", 4)
		for range 3 {
			c := handle(t, w.open(t, shards.Config{MaxShards: 1000}), "a")
			if err := c.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			w.onAdds(emulator.Verdict{Before: aborted})
			if err := c.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if s, err := c.Get(t.Context()); err != nil || s.NumShards != 8 {
				t.Errorf("%d shards (%v), want 8", s.NumShards, err)
			}
		}
		w.wantSum(t, "a", 6)
	})
}

// The client library resends a transaction's commit whose answer was lost, and production answers
// that it does not know the transaction any more. That is doubt, and not the end of it.
func TestResizeLosesItsAnswer(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		w.counter(t, client, "a", 2)
		var once sync.Once
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
			if len(req.GetTransaction()) > 0 {
				once.Do(func() { v.After = status.Error(codes.InvalidArgument, "Transaction is invalid or closed.") })
			}
			return v
		})
		c := handle(t, client, "a")
		if err := c.Resize(t.Context(), 5, shards.ResizeOptions{}); err != nil {
			t.Fatal(err)
		}
		if s, err := c.Get(t.Context()); err != nil || s.NumShards != 5 {
			t.Errorf("%d shards (%v), want 5", s.NumShards, err)
		}
	})
}

// Two resizes at a time, one of which makes the counter smaller: whatever the other one has in the
// end is there, for clients that only add to shards that exist.
func TestResizeBesideAResize(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for _, between := range []int{1, 2, 3} {
			// the transaction of the first resize before which the second one comes
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			w.counter(t, client, "a", 40)
			w.inc(t, "39", 5)
			c := handle(t, w.sending(t, shards.Config{}, "BeginTransaction", func(n int) {
				if n != between {
					return
				}
				if err := handle(t, client, "a").Resize(t.Context(), 50, shards.ResizeOptions{}); err != nil {
					t.Error(err)
				}
			}), "a")
			if err := c.Resize(t.Context(), 2, shards.ResizeOptions{}); err != nil {
				t.Fatal(err)
			}
			w.wantSum(t, "a", 5)
			s, err := c.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			counts := w.counts(t, "a")
			for n := range s.NumShards {
				if _, ok := counts[strconv.Itoa(n)]; !ok {
					t.Errorf("the counter has %d shards, and number %d is missing: %v", s.NumShards, n, counts)
				}
			}
		}
	})
}

// A client that has read how many shards there are asks again after CacheTTL: a counter that
// another one has given more is written to all of them.
func TestCacheExpires(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{CacheTTL: time.Second}), "a", 1)
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := handle(t, w.open(t, shards.Config{}), "a").Resize(t.Context(), 100, shards.ResizeOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		for range 5 {
			if err := c.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		if counts := w.counts(t, "a"); counts["0"] == 6 { // by chance once in 10¹⁰
			t.Error("all increments went to the shard that there was at first")
		}
	})
}

// What a resize takes away is not added to a shard that holds no integer: it would no longer be
// counted there. Nothing of it is moved until that one is mended.
func TestResizeOntoNoInteger(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		w.counter(t, client, "a", 2)
		set := func(shard string, value any) {
			t.Helper()
			w.Put("counters/a/shards/"+shard, map[string]any{"count": value})
		}
		set("1", 7)
		for _, odd := range []any{2.5, "many", nil} {
			set("0", odd)
			if err := handle(t, client, "a").Resize(t.Context(), 1, shards.ResizeOptions{}); !errors.Is(err, shards.ErrNotInteger) {
				t.Errorf("onto %v: %v, want ErrNotInteger", odd, err)
			}
			if doc, err := w.fs.Doc("counters/a/shards/1").Get(t.Context()); err != nil || doc.Data()["count"] != int64(7) {
				t.Errorf("onto %v: shard 1 is %v, %v", odd, doc.Data(), err)
			}
			set("0", 2)
		}
		if err := handle(t, client, "a").Resize(t.Context(), 1, shards.ResizeOptions{}); err != nil {
			t.Error(err)
		}
		w.wantSum(t, "a", 9)
	})
}

// A move adds up what shards hold beyond an int64 on the way, and what doesn't fit in the end stays
// where it is.
func TestResizeNearTheEndsOfAnInt64(t *testing.T) {
	t.Parallel()
	const quarter = 1 << 62
	for name, s := range map[string]struct {
		counts []int64
		want   int64 // in one shard; 0 is refused
	}{
		"the moved ones are beyond": {[]int64{math.MinInt64, quarter, quarter, quarter}, quarter},
		"with the one that stays":   {[]int64{quarter, quarter, quarter, math.MinInt64}, quarter},
		"all of them are beyond":    {[]int64{quarter, quarter - 1, 5}, 0},
		"and below":                 {[]int64{math.MinInt64, -1}, 0},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			c := w.counter(t, w.open(t, shards.Config{}), "a", len(s.counts))
			held := map[string]int64{}
			for n, count := range s.counts {
				held[strconv.Itoa(n)] = count
				w.inc(t, strconv.Itoa(n), count)
			}
			err := c.Resize(t.Context(), 1, shards.ResizeOptions{})
			if s.want != 0 {
				held = map[string]int64{"0": s.want}
			}
			if refused := errors.Is(err, shards.ErrInvalidShards); refused != (s.want == 0) || err != nil && !refused {
				t.Error(err)
			}
			if got := w.counts(t, "a"); !maps.Equal(got, held) {
				t.Errorf("%v, want %v", got, held)
			}
		})
	}
}

// A shard that a client has made a double takes what others held as an integer: beyond 2⁵³ a double
// has no room for it.
func TestResizeOntoADouble(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
		w.Put("counters/a/shards/0", map[string]any{"count": float64(1<<53 - 1)})
		w.inc(t, "1", 4)
		if err := c.Resize(t.Context(), 1, shards.ResizeOptions{}); err != nil {
			t.Fatal(err)
		}
		if s, err := c.Sum(t.Context()); err != nil || s.Total != 1<<53+3 {
			t.Errorf("%d, %v; want 2⁵³ + 3", s.Total, err)
		}
	})
}
