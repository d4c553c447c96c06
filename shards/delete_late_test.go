package shards_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/shards"
)

// A deletion is cut short after any of its commits: then the shards add up to the members and what
// was incremented, whatever shards those members name, and whoever goes on finds it so: another
// deletion, a cleanup, or an increment that makes the document again.
func TestDeletionCutShortAnywhere(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]struct {
		members, shards int
		gone            bool                                     // the document
		prepare         func(*testing.T, *world)                 // before the deletion
		goesOn          func(*testing.T, *world, shards.Counter) // behind it
	}{
		"deleted again":    {members: 501, shards: 3, goesOn: deleteAgain},
		"cleaned up":       {members: 501, shards: 3, goesOn: cleanUp},
		"counted on":       {members: 501, shards: 3, gone: true, goesOn: countOn},
		"made again":       {members: 600, shards: 3, gone: true, goesOn: makeAgain},
		"of many shards":   {members: 250, shards: 520, gone: true, goesOn: countOn},
		"marked and large": {members: 250, shards: 520, goesOn: deleteAgain},
		"of members whose shard is gone": {members: 600, shards: 3, gone: true, goesOn: countOn, prepare: func(t *testing.T, w *world) {
			move(t, w, "1", "2")
		}},
		"of members whose shard is gone, and the first": {members: 600, shards: 3, gone: true, goesOn: countOn, prepare: func(t *testing.T, w *world) {
			move(t, w, "1", "2")
			move(t, w, "0", "2")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for cut := 0; ; cut++ {
				w := newWorld(t)
				client := w.open(t, shards.Config{})
				c := w.counter(t, client, "a", s.shards)
				w.populate(t, s.members)
				w.inc(t, "0", 5)
				w.rollUp(t, "a")
				if s.prepare != nil {
					s.prepare(t, w)
				}
				if s.gone {
					w.deleteByHand(t)
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
				w.wantSum(t, "a", 5+int64(w.memberships(t)))
				if cut > 0 && !s.gone {
					if _, err := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a").Join(t.Context(), "total", "late"); !errors.Is(err, shards.ErrNotFound) {
						t.Errorf("after %d commits one joins: %v, want ErrNotFound: it is marked", cut, err)
					}
				}
				s.goesOn(t, w, c)
				if t.Failed() {
					t.Fatalf("cut short after %d commits", cut)
				}
			}
		})
	}
}

func deleteAgain(t *testing.T, w *world, c shards.Counter) {
	t.Helper()
	if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	w.wantNothing(t)
}

// cleanUp does what a reconcile does with a deletion that was cut short. One that has not
// begun is left alone.
func cleanUp(t *testing.T, w *world, c shards.Counter) {
	t.Helper()
	doc, err := w.fs.Doc("counters/a").Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	removed, err := c.Remove(t.Context(), w.version(t))
	if marked := doc.Data()["deleting"] == true; err != nil || removed != marked {
		t.Errorf("removed %v, %v; marked %v", removed, err, marked)
	} else if marked {
		w.wantNothing(t)
	}
}

// countOn makes the document again by joins and increments, of an instance that knows
// nothing of all that.
func countOn(t *testing.T, w *world, _ shards.Counter) {
	t.Helper()
	c := handle(t, w.open(t, shards.Config{AutoCreate: true, NumShards: 2}), "a")
	before := int64(w.memberships(t))
	if !join(t, c, "new") {
		t.Error("not counted")
	}
	if err := c.Add(t.Context(), 10); err != nil {
		t.Error(err)
	}
	w.rollUp(t, "a")
	w.wantRolledUp(t, before+16)
}

// makeAgain is what an app does that writes the document itself, with numbers of its own.
func makeAgain(t *testing.T, w *world, _ shards.Counter) {
	t.Helper()
	if _, err := w.fs.Doc("counters/a").Set(t.Context(), map[string]any{"total": 9999}); err != nil {
		t.Fatal(err)
	}
	w.rollUp(t, "a")
	w.wantRolledUp(t, int64(w.memberships(t))+5)
}

// move adds what a shard holds to another one and deletes it, as a resize does.
func move(t *testing.T, w *world, from, to string) {
	t.Helper()
	held := w.counts(t, "a")[from]
	if _, err := w.fs.Doc("counters/a/shards/" + from).Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.inc(t, to, held)
}

// A part of a large deletion whose answer is lost, the first or the last, arrives when the counter
// is gone and was made again: it leaves the new one alone.
func TestLatePartOfADeletionSparesTheSuccessor(t *testing.T) {
	t.Parallel()
	for part, is := range map[string]func(deleted string) bool{
		"first": func(deleted string) bool { return strings.Contains(deleted, "/shards/") },
		"last":  func(deleted string) bool { return strings.HasSuffix(deleted, "/counters/a") },
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			c := w.counter(t, client, "a", 1000)
			release := w.hold(t, func(req *firestorepb.CommitRequest) bool {
				return slices.ContainsFunc(req.GetWrites(), func(w *firestorepb.Write) bool { return is(w.GetDelete()) })
			})
			if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			c = w.counter(t, client, "a", 1000)
			for range 20 {
				if err := c.Add(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
			}
			if err := release(); err == nil {
				t.Error("the late commit was applied")
			}
			w.wantSum(t, "a", 20)
			if n := len(w.counts(t, "a")); n != 1000 {
				t.Errorf("%d shards, want 1000", n)
			}
			if doc, err := w.fs.Doc("counters/a").Get(t.Context()); err != nil {
				t.Errorf("the new counter: %v, %v", doc.Data(), err)
			}
		})
	}
}

// What is left of a counter without a document is deleted in one commit. Its answer is lost, and by
// the time it is looked for there is another life at the path, without a document as well. So there is
// where a life is shards alone, as the Python and Go snippets have it.
func TestADeletionInDoubtSparesTheSuccessor(t *testing.T) {
	t.Parallel()
	for name, live := range map[string]func(t *testing.T, w *world, count int64){
		"without a document": func(t *testing.T, w *world, count int64) {
			w.counter(t, w.open(t, shards.Config{}), "a", 2)
			w.inc(t, "0", count)
			w.rollUp(t, "a")
			w.deleteByHand(t)
		},
		"shards alone": func(t *testing.T, w *world, count int64) {
			if _, err := w.fs.Doc("counters/a/shards/0").Set(t.Context(), map[string]any{"count": count}); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			live(t, w, 7)
			w.afterLost(t, func() { live(t, w, 3) })
			if err := handle(t, w.open(t, shards.Config{}), "a").Delete(t.Context(), shards.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			w.wantSum(t, "a", 3)
		})
	}
}

// Two delete a large counter that nothing has rolled up, and one of them is done before the other goes
// on: what the app makes in its place then is another life.
func TestTwoDeletionsSpareASuccessorWithoutALedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	public := func(count int64) {
		bulk := w.fs.BulkWriter(t.Context())
		_, err := bulk.Create(w.fs.Doc("counters/a"), map[string]any{"num_shards": 600})
		for n := 0; n < 600 && err == nil; n++ {
			_, err = bulk.Create(w.fs.Doc(fmt.Sprint("counters/a/shards/", n)), map[string]any{"count": count})
		}
		bulk.End()
		if err != nil {
			t.Error(err)
		}
	}
	public(1)
	other := handle(t, w.open(t, shards.Config{}), "a")
	c := handle(t, w.sending(t, shards.Config{}, "BeginTransaction", func(n int) {
		if n != 2 {
			return
		}
		if err := other.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		public(2)
	}), "a")
	if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	w.wantSum(t, "a", 1200)
}

// A deletion begins before its counter has a ledger, and marks it when it has one. Another one removes what
// is left, and an app makes shards in its place: they are another life, and stay.
func TestADeletionThatBeganBeforeTheLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	live := handle(t, w.open(t, shards.Config{}), "a")
	w.counter(t, w.open(t, shards.Config{}), "a", 600)
	if _, err := w.fs.Doc("counters/a/counter_rollup/ledger").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
		once.Do(func() { v.Before = aborted })
		return v
	})
	reached := false
	c := handle(t, w.sending(t, shards.Config{}, "BeginTransaction", func(n int) {
		switch n {
		case 2:
			w.rollUp(t, "a")
		case 3:
			reached = true
			if err := live.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			if _, err := w.fs.Doc("counters/a/shards/0").Set(t.Context(), map[string]any{"count": 3}); err != nil {
				t.Error(err)
			}
		}
	}), "a")
	if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil || !reached {
		t.Errorf("%v, went on: %t", err, reached)
	}
	w.wantSum(t, "a", 3)
}

// A large counter that nothing has rolled up is deleted, and on the way something else deletes its
// document. What is left goes all the same, or the next document would show it.
func TestADeletionWhoseDocumentIsDeletedByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bulk := w.fs.BulkWriter(t.Context())
	_, err := bulk.Create(w.fs.Doc("counters/a"), map[string]any{"num_shards": 1000})
	for n := 0; n < 1000 && err == nil; n++ {
		_, err = bulk.Create(w.fs.Doc(fmt.Sprint("counters/a/shards/", n)), map[string]any{"count": 1})
	}
	bulk.End()
	if err != nil {
		t.Fatal(err)
	}
	c := handle(t, w.sending(t, shards.Config{}, "BeginTransaction", func(n int) {
		if n == 3 { // it is marked, and some are gone
			w.deleteByHand(t)
		}
	}), "a")
	if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	w.wantNothing(t)
}

// Shards that hold more than as many fewer can are said to be in the way of a deletion, which would make
// one commit after another otherwise.
func TestADeletionThatGetsNoFurther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bulk := w.fs.BulkWriter(t.Context())
	var err error
	for n := 0; n < 500 && err == nil; n++ {
		_, err = bulk.Create(w.fs.Doc(fmt.Sprint("counters/a/shards/", n)), map[string]any{"count": math.MaxInt64})
	}
	bulk.End()
	if err != nil {
		t.Fatal(err)
	}
	c := handle(t, w.sending(t, shards.Config{}, "BeginTransaction", func(n int) {
		if n == 5 {
			t.Error("it goes on")
			w.cutAfter(0)
		}
	}), "a")
	if err := c.Delete(t.Context(), shards.DeleteOptions{}); !errors.Is(err, shards.ErrInvalidShards) {
		t.Errorf("%v, want ErrInvalidShards", err)
	}
	w.Server.SetInterceptor(nil)
	for n := range 5 {
		if _, err := w.fs.Doc(fmt.Sprint("counters/a/shards/", n)).Set(t.Context(), map[string]any{"count": 0}); err != nil {
			t.Fatal(err)
		}
	}
	deleteAgain(t, w, c)
}

// Two delete a large counter, and one of them has made it again when the other goes on, with any of
// its steps, or has lost the answer to it: the one that was made again is another life.
func TestTwoDeletionsSpareTheSuccessor(t *testing.T) {
	t.Parallel()
	for _, hosted := range []bool{false, true} {
		for step := 2; step < 5; step++ {
			t.Run(fmt.Sprint("remove ", hosted, " step ", step), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				other := handle(t, w.open(t, shards.Config{}), "a")
				w.counter(t, w.open(t, shards.Config{}), "a", 700)
				w.populate(t, 600)
				w.rollUp(t, "a")
				if hosted {
					w.deleteByHand(t)
				}
				reached := false
				c := handle(t, w.sending(t, shards.Config{}, "BeginTransaction", func(n int) {
					if n != step {
						return
					}
					reached = true
					if err := errors.Join(other.Delete(t.Context(), shards.DeleteOptions{}), other.Create(t.Context(), shards.CreateOptions{Shards: 700}), other.Add(t.Context(), 20)); err != nil {
						t.Error(err)
					}
					join(t, other, "u")
					if hosted {
						w.deleteByHand(t)
					}
				}), "a")
				if hosted {
					if _, err := c.Remove(t.Context(), w.version(t)); err != nil {
						t.Error(err)
					}
				} else if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
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

// A large deletion is cut short near the ends of an int64, where its shards add up to more on the way,
// and in the end: what is left adds up to the same.
func TestDeletionNearTheEndsOfAnInt64(t *testing.T) {
	t.Parallel()
	const quarter = 1 << 62
	for _, counts := range [][]int64{{math.MinInt64, quarter, quarter, quarter}, {quarter, quarter, quarter, quarter, quarter}, {math.MinInt64, -5}} {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 520)
		for n, count := range counts {
			w.inc(t, fmt.Sprint(n), count)
		}
		w.inc(t, "519", 1)
		w.cutAfter(2) // the mark, and the first part
		if err := c.Delete(t.Context(), shards.DeleteOptions{}); status.Code(err) != codes.PermissionDenied {
			t.Fatalf("cut short: %v", err)
		}
		w.Server.SetInterceptor(nil)
		want, got := big.NewInt(1), new(big.Int)
		for _, count := range counts {
			want.Add(want, big.NewInt(count))
		}
		left := w.counts(t, "a")
		for _, count := range left {
			got.Add(got, big.NewInt(count))
		}
		if got.Cmp(want) != 0 || len(left) > 30 {
			t.Errorf("%v: %d shards are left with %s, want %s", counts, len(left), got, want)
		}
		deleteAgain(t, w, c)
	}
}
