package shards_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/groupcommit"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// populate gives the counter a n members, "0" to n-1, as clients that write by themselves do,
// but many at once.
func (w *world) populate(t *testing.T, n int) {
	t.Helper()
	for first := 0; first < n; first += 400 {
		most := min(first+400, n)
		err := w.fs.RunTransaction(t.Context(), func(_ context.Context, tx *firestore.Transaction) error {
			err := tx.Update(w.fs.Doc("counters/a/shards/1"), []firestore.Update{{Path: "count", Value: firestore.Increment(most - first)}})
			for i := first; i < most; i++ {
				member := fmt.Sprint(i)
				err = errors.Join(err, tx.Create(w.fs.Doc("counters/a/total_members/"+member), map[string]any{"member": member, "at": firestore.ServerTimestamp, "shard": "1"}))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// memberships is how many there are of the counter a, whether or not it exists.
func (w *world) memberships(t *testing.T) int {
	t.Helper()
	docs, err := w.fs.Collection("counters/a/total_members").Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	return len(docs)
}

func TestResetOfMembers(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 150, 494, 495, 496, 1100} {
		virtual.Run(t, fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t)
			c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
			w.populate(t, n)
			if err := c.Add(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
			if n > 0 {
				before := w.Server.Stats().Commits
				if err := c.Reset(t.Context(), shards.ResetOptions{}); !errors.Is(err, shards.ErrHasMembers) {
					t.Errorf("%v, want ErrHasMembers", err)
				}
				if w.Server.Stats().Commits != before {
					t.Error("a reset that is refused has written")
				}
			}
			// Every answer is lost once.
			commits := 0
			w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
				if commits++; commits%2 == 1 {
					return emulator.Verdict{After: unavailable}
				}
				return emulator.Verdict{}
			})
			if err := c.Reset(t.Context(), shards.ResetOptions{RemoveMembers: true}); err != nil {
				t.Fatal(err)
			}
			w.Server.SetInterceptor(nil)
			w.wantMembers(t, c)
		})
	}
}

// Some join and some leave between what a reset has read and its commit: whoever is there
// afterwards is counted.
func TestMembersBesideAReset(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
		other := handle(t, w.open(t, shards.Config{}), "a")
		w.populate(t, 150)
		n := 0
		var beside func(context.Context, *firestorepb.CommitRequest) emulator.Verdict
		beside = func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			if len(req.GetTransaction()) > 0 { // which holds locks on what the others would write
				return emulator.Verdict{}
			}
			w.Server.SetInterceptor(nil)
			if n++; n <= 4 {
				join(t, other, fmt.Sprint("late", n))
				leave(t, other, fmt.Sprint(150-n))
				leave(t, other, fmt.Sprint("late", n-1))
				w.Server.SetInterceptor(beside)
			}
			return emulator.Verdict{}
		}
		w.Server.SetInterceptor(beside)
		if err := c.Reset(t.Context(), shards.ResetOptions{RemoveMembers: true}); err != nil {
			t.Fatal(err)
		}
		w.Server.SetInterceptor(nil)
		if n < 3 {
			t.Errorf("only %d commits: the test shows nothing", n)
		}
		w.wantSum(t, "a", int64(w.memberships(t)))
	})
}

// A reset makes the total 0 whatever its shards hold, and leaves them as they are. Where their sum is no number it says
// so, and changes nothing.
func TestResetOfOddShards(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 4)
		for shard, count := range map[string]any{"0": 1.0, "1": "many", "2": 7.5} {
			w.Put("counters/a/shards/"+shard, map[string]any{"count": count})
		}
		if err := c.Reset(t.Context(), shards.ResetOptions{}); err != nil {
			t.Fatal(err)
		}
		if s, err := c.Sum(t.Context()); err != nil || s.Total != 0 || w.total(t, "a") != 0 {
			t.Errorf("%+v, %v, and the document shows %d; want 0", s, err, w.total(t, "a"))
		}
		before := w.everything(t)
		if before["shards/2"].(map[string]any)["count"] != 7.5 {
			t.Errorf("shard 2 is %v", before["shards/2"])
		}
		w.Put("counters/a/shards/3", map[string]any{"count": math.Inf(1)})
		before = w.everything(t)
		if err := c.Reset(t.Context(), shards.ResetOptions{}); !errors.Is(err, shards.ErrNotInteger) {
			t.Errorf("%v, want ErrNotInteger", err)
		}
		if diff := cmp.Diff(before, w.everything(t)); diff != "" {
			t.Errorf("(-before +after)\n%s", diff)
		}
	})
}

// Resized up and down beside members who come and go: sum and members agree. Shards that are kept
// are empty, and a client that follows the rules takes a member off the one that it names.
func TestResizeWithMembers(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for _, keep := range []bool{false, true} {
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			c := w.counter(t, client, "a", 8)
			w.populate(t, 50)
			var group sync.WaitGroup
			group.Go(func() {
				for i := range 50 {
					if counted, err := c.Leave(t.Context(), "total", fmt.Sprint(i)); err != nil || !counted {
						t.Errorf("member %d: %v, %v", i, counted, err)
					}
					if counted, err := c.Join(t.Context(), "total", fmt.Sprint("later", i)); err != nil || !counted {
						t.Errorf("later member %d: %v, %v", i, counted, err)
					}
				}
			})
			for _, n := range []int{2, 12, 3} {
				if err := c.Resize(t.Context(), n, shards.ResizeOptions{KeepShards: keep}); err != nil {
					t.Fatal(err)
				}
			}
			group.Wait()
			w.wantSum(t, "a", 50)
			if n := w.memberships(t); n != 50 {
				t.Errorf("%d members, want 50", n)
			}
			shardsLeft := len(w.counts(t, "a"))
			if want := map[bool]int{false: 3, true: 12}[keep]; shardsLeft != want {
				t.Errorf("%d shards are left (kept: %v), want %d", shardsLeft, keep, want)
			}
			if !keep {
				continue
			}
			if err := c.Resize(t.Context(), 3, shards.ResizeOptions{KeepShards: true}); err != nil {
				// what instances that did not know yet have written
				t.Fatal(err)
			}
			for shard, count := range w.counts(t, "a") {
				if n, err := strconv.Atoi(shard); err != nil || n > 2 && count != 0 {
					t.Errorf("shard %s holds %d, want nothing beyond the third", shard, count)
				}
			}
			err := w.fs.RunTransaction(t.Context(), func(_ context.Context, tx *firestore.Transaction) error {
				return errors.Join(tx.Delete(w.fs.Doc("counters/a/total_members/later7"), firestore.Exists),
					tx.Update(w.fs.Doc("counters/a/shards/11"), []firestore.Update{{Path: "count", Value: firestore.Increment(-1)}}))
			})
			if err != nil {
				t.Fatal(err)
			}
			w.wantSum(t, "a", 49)
		}
	})
}

// A batch with members is marked although EXACT_WRITES is off; what is counted with it is too.
func TestMembersAreMarkedAlways(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{InexactWrites: true}), "a", 2)
		var marked bool
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			marked = slices.ContainsFunc(req.GetWrites(), func(w *firestorepb.Write) bool {
				return strings.Contains(w.GetUpdate().GetName(), "/counter_requests/")
			})
			return emulator.Verdict{}
		})
		join(t, c, "u")
		if !marked {
			t.Error("a join has no marker")
		}
	})
}

// A page of memberships that a reset deletes arrives when the reset is long over: it takes nobody
// off who has joined since, and nothing off the shards.
func TestAPageOfAResetThatArrivesLate(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
		w.populate(t, 300)
		_, release := w.Delay(func(req *firestorepb.CommitRequest) bool {
			return slices.ContainsFunc(req.GetWrites(), func(w *firestorepb.Write) bool { return w.GetDelete() != "" })
		}, nil)
		if err := c.Reset(t.Context(), shards.ResetOptions{RemoveMembers: true}); err != nil {
			t.Fatal(err)
		}
		join(t, c, "0")
		join(t, c, "late")
		if err := release(); err == nil {
			t.Error("the late page was applied")
		}
		w.wantMembers(t, c, "0", "late")
	})
}

// Who asks for a member to join goes away while the commit is on its way. The same member's next
// request waits for what becomes of it, or it would find nobody there, and the join would come
// last.
func TestATurnEndsWithItsCommit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 1)
		join(t, c, "else") // the shard is there
		ctx, gone := context.WithCancel(t.Context())
		way := make(chan struct{})
		var first atomic.Bool
		w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
			if first.CompareAndSwap(false, true) {
				gone()
				<-way
			}
			return emulator.Verdict{}
		})
		if _, err := c.Join(ctx, "total", "u"); !errors.Is(err, shards.ErrUnknown) {
			t.Fatalf("%v, want ErrUnknown", err)
		}
		left := make(chan bool, 1)
		go func() {
			there, err := c.Leave(t.Context(), "total", "u")
			if err != nil {
				t.Error(err)
			}
			left <- there
		}()
		// Where many wait, their commit doesn't wait for the one before.
		var others sync.WaitGroup
		for i := range 4 * groupcommit.ManyWaiting {
			others.Go(func() {
				if _, err := c.Join(t.Context(), "total", fmt.Sprint("other", i)); err != nil {
					t.Error(err)
				}
				if _, err := c.Leave(t.Context(), "total", fmt.Sprint("other", i)); err != nil {
					t.Error(err)
				}
			})
		}
		select {
		case there := <-left:
			t.Error("the member has left before the join was decided")
			left <- there
		case <-time.After(100 * time.Millisecond): // enough for a wrong one; a right one waits for ever
		}
		close(way)
		if there := <-left; !there {
			t.Error("the member wasn't there")
		}
		others.Wait()
		w.wantMembers(t, c, "else")
	})
}
