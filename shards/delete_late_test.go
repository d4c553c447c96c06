package shards_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// A deletion is killed after any of its commits. From the first one on the counter isn't found, by whatever instance,
// and nobody makes it. Whoever goes on ends it: another deletion, or a cleanup. What is made after that begins at 0,
// also by an app that has made its document in between.
func TestDeletionCutShortAnywhere(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		members, shards int
		hosted          bool
		goesOn          string
	}{
		{600, 3, false, "deleted"}, {600, 3, false, "cleaned up"}, {600, 3, true, "deleted"}, {600, 3, true, "cleaned up"},
		{600, 3, false, "made again"}, {600, 3, true, "made again"}, {3, 1000, false, "cleaned up"}, {3, 3, false, "made again"},
	} {
		virtual.Run(t, fmt.Sprint(s), func(t *testing.T) {
			for cut := 0; ; cut++ {
				w := newWorld(t)
				cfg := shards.Config{AutoCreate: true, Place: shards.Place{Hosted: s.hosted}}
				if cfg.AutoCreate = !s.hosted; s.hosted {
					w.post(t, s.shards)
				} else {
					w.counter(t, w.open(t, cfg), "a", s.shards)
				}
				w.populate(t, s.members)
				known := handle(t, w.open(t, cfg), "a")
				if err := known.Add(t.Context(), 5); err != nil {
					t.Fatal(err)
				}
				place := rollup.Config{Place: rollup.Place{Hosted: s.hosted}}
				w.reconcile(t, place, "a", rollup.ReconcileOptions{})
				c := handle(t, w.open(t, cfg), "a")
				since := time.Time{}
				if s.hosted {
					w.deleteByHand(t)
					since = w.goneAt(t)
				}
				w.cutAfter(cut)
				err := c.Delete(t.Context(), shards.DeleteOptions{})
				w.Server.SetInterceptor(nil)
				if err == nil {
					if cut < 2 {
						t.Errorf("everything went in %d commits: the test shows nothing", cut)
					}
					w.wantNothing(t)
					return
				}
				if status.Code(err) != codes.PermissionDenied {
					t.Fatal(err)
				}
				if cut == 0 { // nothing has happened
					w.wantSum(t, "a", 5+int64(s.members))
					continue
				}
				if s.goesOn == "made again" {
					w.Put("counters/a", map[string]any{"num_shards": 2})
				}
				for name, refused := range map[string]shards.Counter{"one that knows it": known, "another": handle(t, w.open(t, cfg), "a")} {
					if s.shards > 400 && name == "one that knows it" {
						continue // it may still add to one of the other shards, which goes then
					}
					if err := refused.Add(t.Context(), 1); !errors.Is(err, shards.ErrNotFound) {
						t.Errorf("after %d commits %s adds: %v, want ErrNotFound", cut, name, err)
					}
					if _, err := refused.Join(t.Context(), "total", "late"); !errors.Is(err, shards.ErrNotFound) {
						t.Errorf("after %d commits %s joins: %v, want ErrNotFound", cut, name, err)
					}
					if err := refused.Create(t.Context(), shards.CreateOptions{}); !errors.Is(err, shards.ErrExists) && !errors.Is(err, shards.ErrHosted) {
						t.Errorf("after %d commits %s creates: %v", cut, name, err)
					}
					if _, err := refused.Sum(t.Context()); !errors.Is(err, shards.ErrNotFound) {
						t.Errorf("after %d commits %s sums: %v, want ErrNotFound", cut, name, err)
					}
				}
				switch s.goesOn {
				case "cleaned up":
					if removed, err := c.Remove(t.Context(), since); err != nil || !removed {
						t.Errorf("removed %v, %v", removed, err)
					}
				default:
					if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
						t.Error(err)
					}
				}
				if s.goesOn == "made again" {
					if err := handle(t, w.open(t, cfg), "a").Add(t.Context(), 1); err != nil {
						t.Error(err)
					}
					w.wantSum(t, "a", 1)
					if n := w.memberships(t); n != 0 {
						t.Errorf("%d members are left", n)
					}
					if r := w.reconcile(t, place, "a", rollup.ReconcileOptions{}); r.After != 1 {
						t.Errorf("%+v, want a total of 1", r)
					}
				} else {
					w.wantNothing(t)
				}
				if t.Failed() {
					t.Fatalf("cut short after %d commits", cut)
				}
			}
		})
	}
}

func deletes(end string) func(*firestorepb.CommitRequest) bool {
	return func(req *firestorepb.CommitRequest) bool {
		return slices.ContainsFunc(req.GetWrites(), func(w *firestorepb.Write) bool { return strings.HasSuffix(w.GetDelete(), end) })
	}
}

// A step of a deletion whose answer is lost, whichever it is, arrives when the counter is gone and was made again: it
// leaves the new one alone.
func TestLateStepOfADeletionSparesTheSuccessor(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]string{"the mark": "/counters/a", "a part": "/shards/99", "the last": "/counter_rollup/base"} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			c := w.counter(t, client, "a", 1000)
			w.rollUp(t, "a")
			_, release := w.Delay(deletes(step), nil)
			if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			c = w.counter(t, client, "a", 1000)
			for range 20 {
				if err := c.Add(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
			}
			w.rollUp(t, "a")
			if err := release(); err == nil {
				t.Error("the late commit was applied")
			}
			w.wantSum(t, "a", 20)
			if n := len(w.counts(t, "a")); n != 1000 {
				t.Errorf("%d shards, want 1000", n)
			}
			w.wantRolledUp(t, 20)
		})
	}
}

// What others have sent before a deletion, and is applied only after it, brings nothing back: each commit is on a
// condition, or its transaction has read the base.
func TestLateCommitsBringNothingBack(t *testing.T) {
	t.Parallel()
	shard := func(req *firestorepb.CommitRequest) bool {
		return slices.ContainsFunc(req.GetWrites(), func(w *firestorepb.Write) bool { return strings.Contains(w.GetUpdate().GetName(), "/shards/") })
	}
	for name, late := range map[string]struct {
		prepare func(*testing.T, *world)
		is      func(*firestorepb.CommitRequest) bool
		do      func(context.Context, *testing.T, *world, shards.Counter) error
	}{
		"an increment": {is: shard, do: func(ctx context.Context, _ *testing.T, _ *world, c shards.Counter) error { return c.Add(ctx, 1) }},
		"an increment that makes its shard": {
			prepare: func(t *testing.T, w *world) {
				for n := range 3 {
					w.Delete(fmt.Sprint("counters/a/shards/", n))
				}
			},
			is: func(req *firestorepb.CommitRequest) bool { return len(req.GetTransaction()) > 0 && shard(req) },
			do: func(ctx context.Context, _ *testing.T, _ *world, c shards.Counter) error { return c.Add(ctx, 1) },
		},
		"an increment that makes the document": {
			prepare: func(t *testing.T, w *world) { w.deleteByHand(t) },
			is:      func(req *firestorepb.CommitRequest) bool { return len(req.GetTransaction()) > 0 && shard(req) },
			do:      func(ctx context.Context, _ *testing.T, _ *world, c shards.Counter) error { return c.Add(ctx, 1) },
		},
		"a member": {is: shard, do: func(ctx context.Context, _ *testing.T, _ *world, c shards.Counter) error {
			_, err := c.Join(ctx, "total", "m")
			return err
		}},
		"a resize": {is: shard, do: func(ctx context.Context, _ *testing.T, _ *world, c shards.Counter) error {
			return c.Resize(ctx, 5, shards.ResizeOptions{})
		}},
		"a reset": {
			is: func(req *firestorepb.CommitRequest) bool {
				return slices.ContainsFunc(req.GetWrites(), func(w *firestorepb.Write) bool { return strings.HasSuffix(w.GetUpdate().GetName(), "/counters/a") })
			},
			do: func(ctx context.Context, _ *testing.T, _ *world, c shards.Counter) error {
				return c.Reset(ctx, shards.ResetOptions{})
			},
		},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.counter(t, w.open(t, shards.Config{}), "a", 3)
			w.rollUp(t, "a")
			if late.prepare != nil {
				late.prepare(t, w)
			}
			c := handle(t, w.open(t, shards.Config{AutoCreate: true, NumShards: 3}), "a")
			_, release := w.Delay(late.is, nil)
			if err := late.do(t.Context(), t, w, c); err != nil {
				t.Fatal(err)
			}
			if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := release(); err == nil {
				t.Error("the late commit was applied")
			}
			w.wantNothing(t)
		})
	}
}

// A shard is made just before the mark, when the deletion has listed all: it goes.
func TestAShardJustBeforeTheMark(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
		marks := deletes("/counters/a")
		once := sync.OnceFunc(func() { w.Put("counters/a/shards/7", map[string]any{"count": 1}) })
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			if marks(req) {
				once()
			}
			return emulator.Verdict{}
		})
		time.Sleep(1500 * time.Microsecond) // a server's timestamp is of a whole millisecond
		if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.wantNothing(t)
	})
}

// A mark that can't be read any more isn't taken for the end: whoever deletes the counter is told, and the next
// deletion sweeps all.
func TestADamagedMark(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
		w.populate(t, 600)
		sweeps := deletes("/total_members/0")
		once := sync.OnceFunc(func() { w.Merge("counters/a/counter_rollup/base", map[string]any{"format": 99}) })
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			if sweeps(req) {
				once()
			}
			return emulator.Verdict{}
		})
		if err := c.Delete(t.Context(), shards.DeleteOptions{}); !errors.Is(err, shards.ErrDamagedBase) {
			t.Errorf("%v, and %d documents are left", err, len(w.everything(t)))
		}
		if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.wantNothing(t)
	})
}

// Two delete a counter, and one of them is done, and has made it again, before a step of the other arrives, or its
// answer is lost: the one that was made again is another life.
func TestTwoDeletionsSpareTheSuccessor(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		for step := 2; step < 5; step++ {
			virtual.Run(t, fmt.Sprint("lost ", lost, " step ", step), func(t *testing.T) {
				w := newWorld(t)
				other := handle(t, w.open(t, shards.Config{}), "a")
				w.counter(t, w.open(t, shards.Config{}), "a", 700)
				w.populate(t, 600)
				w.rollUp(t, "a")
				reached := false
				again := func() {
					reached = true
					if err := other.Delete(t.Context(), shards.DeleteOptions{}); err != nil && !errors.Is(err, shards.ErrNotFound) {
						t.Error(err)
					}
					if err := errors.Join(other.Create(t.Context(), shards.CreateOptions{Shards: 700}), other.Add(t.Context(), 20)); err != nil {
						t.Error(err)
					}
					join(t, other, "u")
				}
				c := handle(t, w.calling(t, shards.Config{}, "Commit", func(n int, call func() error) error {
					if n == step && !lost {
						again()
					}
					err := call()
					if n == step && lost && err == nil {
						again()
						return unavailable
					}
					return err
				}), "a")
				if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
					t.Error(err)
				}
				if !reached {
					t.Error("there were fewer steps: the test shows nothing")
				}
				w.wantSum(t, "a", 21)
				if n, m := len(w.counts(t, "a")), w.memberships(t); n != 700 || m != 1 {
					t.Errorf("%d shards and %d members, want 700 and 1", n, m)
				}
			})
		}
	}
}

// A shard that a client makes by itself after the mark is of the next life, and stays. What was there before goes, also
// members of a field that only another revision has.
func TestShardMadeBesideADeletion(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.counter(t, w.open(t, shards.Config{}), "a", 3)
		w.populate(t, 600)
		w.Put("counters/a/shards/0", map[string]any{"count": 1, "hearts": 1})
		w.Put("counters/a/hearts_members/old", map[string]any{"member": "old"})
		steps := 0
		c := handle(t, w.sending(t, shards.Config{}, "Commit", func(n int) {
			if steps++; n != 2 {
				return
			}
			if _, err := w.fs.Doc("counters/a/shards/10").Set(t.Context(), map[string]any{"count": 1, "hearts": 1}); err != nil {
				t.Error(err)
			}
			if _, err := w.fs.Doc("counters/a/hearts_members/young").Set(t.Context(), map[string]any{"member": "young", "shard": "10"}); err != nil {
				t.Error(err)
			}
		}), "a")
		if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if steps < 3 {
			t.Errorf("%d steps: the test shows nothing", steps)
		}
		if left := slices.Sorted(maps.Keys(w.everything(t))); !slices.Equal(left, []string{"hearts_members/young", "shards/10"}) {
			t.Errorf("left: %v", left)
		}
	})
}
