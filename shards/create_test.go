package shards_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/go-cmp/cmp"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// deleteByHand deletes the document of the counter a, and nothing below it, as a console does. A document that notes
// when that was has whole milliseconds: what was written before is older than those.
func (w *world) deleteByHand(t *testing.T) {
	t.Helper()
	w.Delete("counters/a")
	time.Sleep(time.Millisecond)
}

// everything is what there is of the counter a.
func (w *world) everything(t *testing.T) map[string]any {
	t.Helper()
	ref := w.fs.Doc("counters/a")
	all := map[string]any{}
	if doc, err := ref.Get(t.Context()); err == nil {
		all["a"] = doc.Data()
	}
	collections, err := ref.Collections(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, collection := range collections {
		docs, err := collection.Documents(t.Context()).GetAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs {
			all[collection.ID+"/"+doc.Ref.ID] = doc.Data()
		}
	}
	return all
}

// wantRolledUp fails unless the counter a shows want once it was rolled up, without drift,
// and adds up to it.
func (w *world) wantRolledUp(t *testing.T, want int64) {
	t.Helper()
	if r := w.rollUp(t, "a"); r.After != want || r.Drift != 0 {
		t.Errorf("%+v, want a total of %d and no drift", r, want)
	}
	w.wantSum(t, "a", want)
}

// Counts belong to the path: a document that is made again, after it was deleted in a console,
// shows all of it at once. A number to start from takes the place of all that was counted, rolled up or not.
func TestCreateShowsWhatThePathHasCounted(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for total, want := range map[int64]int64{0: 20, 3: 3} {
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			c := w.counter(t, client, "a", 5)
			add := func(n int) {
				for range n {
					if err := c.Add(t.Context(), 1); err != nil {
						t.Fatal(err)
					}
				}
			}
			add(12)
			w.rollUp(t, "a")
			add(8)
			w.deleteByHand(t)
			if err := c.Create(t.Context(), shards.CreateOptions{Shards: 7, Total: total}); err != nil {
				t.Fatal(err)
			}
			if s, err := c.Get(t.Context()); err != nil || s.Total != want || s.NumShards != 7 {
				t.Errorf("from %d: %+v, %v; want %d at once, in 7 shards", total, s, err, want)
			}
			if n := len(w.counts(t, "a")); n != 7 {
				t.Errorf("from %d: %d shards, want the 5 that there were, and 2 more", total, n)
			}
			w.wantRolledUp(t, want)
		}
	})
}

// The same beside shards that nothing has rolled up yet, such as a snippet's.
func TestCreateBesideShards(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for total, want := range map[int64]int64{0: 42, 100: 100} {
			w := newWorld(t)
			for id, count := range map[string]int64{"0": 40, "7": 2} {
				w.Put("counters/a/shards/"+id, map[string]any{"count": count})
			}
			w.counter(t, w.open(t, shards.Config{}), "b", 1)
			c := handle(t, w.open(t, shards.Config{}), "a")
			if err := c.Create(t.Context(), shards.CreateOptions{Shards: 2, Total: total}); err != nil {
				t.Fatal(err)
			}
			if got := w.total(t, "a"); got != want {
				t.Errorf("from %d: total %d, want %d", total, got, want)
			}
			w.wantRolledUp(t, want)
		}
	})
}

// A base that holds what no base does is not gone over: what it has counted isn't known.
// Nothing is changed, and whoever deletes the counter can make it.
func TestCreateOverADamagedBase(t *testing.T) {
	t.Parallel()
	for name, making := range map[string]func(*testing.T, shards.Counter) error{
		"create": func(t *testing.T, c shards.Counter) error { return c.Create(t.Context(), shards.CreateOptions{}) },
		"add":    func(t *testing.T, c shards.Counter) error { return c.Add(t.Context(), 1) },
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.Put("counters/a/counter_rollup/base", map[string]any{"base": "none"})
			before := w.everything(t)
			c := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a")
			if err := making(t, c); !errors.Is(err, shards.ErrDamagedBase) {
				t.Errorf("%v, want ErrDamagedBase", err)
			}
			if diff := cmp.Diff(before, w.everything(t)); diff != "" {
				t.Errorf("(-before +after)\n%s", diff)
			}
			if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := making(t, c); err != nil {
				t.Error(err)
			}
		})
	}
}

// Several make one counter at the same moment, over whatever lies there, and count on it: it is
// made once, and has it all.
func TestCreationsAtOnce(t *testing.T) {
	t.Parallel()
	for left, had := range map[string]int64{"": 0, "shards/0": 7, "counter_rollup/base": 0} {
		virtual.Run(t, left, func(t *testing.T) {
			w := newWorld(t)
			if left != "" {
				data := map[string]any{"count": 7}
				if had == 0 { // an empty base
					data = map[string]any{"format": 2, "shards": "shards"}
				}
				w.Put("counters/a/"+left, data)
			}
			var group sync.WaitGroup
			var made, added atomic.Int64
			for range 4 {
				client := w.open(t, shards.Config{AutoCreate: true, NumShards: 3})
				group.Go(func() {
					switch err := handle(t, client, "a").Create(t.Context(), shards.CreateOptions{}); {
					case err == nil:
						made.Add(1)
					case !errors.Is(err, shards.ErrExists):
						t.Error(err)
					}
				})
				group.Go(func() {
					if err := handle(t, client, "a").Add(t.Context(), 1); err != nil {
						t.Error(err)
					}
					added.Add(1)
				})
			}
			group.Go(func() { w.rollUp(t, "a") })
			group.Wait()
			if n := made.Load(); n > 1 {
				t.Errorf("the counter was made %d times", n)
			}
			w.rollUp(t, "a")
			w.wantRolledUp(t, had+added.Load())
		})
	}
}

// A creation over what a path has counted loses its answer: it is not done again, and what
// is counted meanwhile stays. That goes for a document that somebody deletes before the
// creator knows, too.
func TestCreateLosesItsAnswer(t *testing.T) {
	t.Parallel()
	for _, deleted := range []bool{false, true} {
		virtual.Run(t, fmt.Sprint("deleted ", deleted), func(t *testing.T) {
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			w.counter(t, client, "a", 1)
			w.inc(t, "0", 5)
			w.rollUp(t, "a")
			w.deleteByHand(t)
			var once sync.Once
			maker := w.sent(t, shards.Config{}, "Commit", func(int) error {
				var err error
				once.Do(func() {
					w.inc(t, "0", 3)
					w.rollUp(t, "a")
					if deleted {
						w.deleteByHand(t)
					}
					err = unavailable
				})
				return err
			})
			if err := handle(t, maker, "a").Create(t.Context(), shards.CreateOptions{Total: 100}); err != nil {
				t.Fatal(err)
			}
			if deleted {
				w.counter(t, client, "a", 1)
			}
			w.wantRolledUp(t, 103)
		})
	}
}

// A creation's answer is lost, and before it is looked for others count, and delete the counter: it
// is not made again, with its number to start from.
func TestACreationInDoubtMakesNoSecondLife(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := handle(t, w.open(t, shards.Config{}), "a")
		w.AfterLost(func() {
			if err := errors.Join(other.Add(t.Context(), 5), other.Delete(t.Context(), shards.DeleteOptions{})); err != nil {
				t.Error(err)
			}
		})
		if err := handle(t, w.open(t, shards.Config{}), "a").Create(t.Context(), shards.CreateOptions{Total: 100}); err != nil {
			t.Error(err)
		}
		w.wantNothing(t)
	})
}

// The commit of a creation arrives late: the counter has been made by the next one, and deleted
// since. It doesn't come back.
func TestLateCreationBringsNothingBack(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := handle(t, w.open(t, shards.Config{}), "a")
		_, release := w.Delay(func(req *firestorepb.CommitRequest) bool {
			return slices.ContainsFunc(req.GetWrites(), func(w *firestorepb.Write) bool {
				return strings.HasSuffix(w.GetUpdate().GetName(), "/counters/a")
			})
		}, nil)
		if err := c.Create(t.Context(), shards.CreateOptions{Total: 7}); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := release(); err == nil {
			t.Error("the late commit was applied")
		}
		if left := w.everything(t); len(left) > 0 {
			t.Errorf("there is %v", left)
		}
	})
}

// Numbers of shards are never inferred: a document that says none has NUM_SHARDS, however many
// there are, until a resize.
func TestNumShardsMissing(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Put("counters/a/shards/0", map[string]any{"count": 0})
		w.rollUp(t, "a") // which makes the document
		c := handle(t, w.open(t, shards.Config{NumShards: 5, CacheTTL: 1}), "a")
		add := func() {
			t.Helper()
			for range 40 {
				if err := c.Add(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		add()
		s, err := c.Get(t.Context())
		if n := len(w.counts(t, "a")); err != nil || s.NumShards != 5 || n < 2 || n > 5 {
			// 1 by chance once in 10²⁷
			t.Errorf("%+v, %v, and %d shards were written; want 5", s, err, n)
		}
		if doc, err := w.fs.Doc("counters/a").Get(t.Context()); err != nil || doc.Data()["num_shards"] != nil {
			t.Errorf("the document is %v, %v; want that it says no number", doc.Data(), err)
		}
		if err := c.Resize(t.Context(), 2, shards.ResizeOptions{}); err != nil {
			t.Fatal(err)
		}
		add()
		if n := len(w.counts(t, "a")); n != 2 {
			t.Errorf("after a resize to 2: %d shards", n)
		}
		w.wantRolledUp(t, 80)
	})
}

// While Create is on its way, the roll-up or an increment with AUTO_CREATE makes the counter:
// Create finds it, and takes nothing of it.
func TestCreateBesideAnAdoption(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		adopt func(t *testing.T, w *world)
		want  int64
	}{
		"roll-up": {func(t *testing.T, w *world) { w.rollUp(t, "a") }, 10},
		"AUTO_CREATE": {func(t *testing.T, w *world) {
			if err := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a").Add(t.Context(), 1); err != nil {
				t.Error(err)
			}
		}, 11},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			for _, n := range []string{"50", "51"} {
				w.Put("counters/a/shards/"+n, map[string]any{"count": 5})
			}
			first := true
			w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
				if first {
					first = false
					return emulator.Verdict{Before: aborted}
				}
				return emulator.Verdict{}
			})
			c := handle(t, w.sending(t, shards.Config{}, "BeginTransaction", func(n int) {
				if n == 2 {
					w.Server.SetInterceptor(nil)
					tt.adopt(t, w)
				}
			}), "a")
			if err := c.Create(t.Context(), shards.CreateOptions{Total: 1000}); !errors.Is(err, shards.ErrExists) {
				t.Errorf("create: %v, want ErrExists", err)
			}
			w.rollUp(t, "a")
			w.wantRolledUp(t, tt.want)
		})
	}
}

// Whoever asks for counters that don't exist, any number of them, takes reads alone, which those
// who ask at the same time share: there is no transaction for what is not to be made.
func TestWhatDoesNotExistTakesNoTransaction(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.sending(t, shards.Config{}, "BeginTransaction", func(int) { t.Error("a transaction was begun") })
		for n, named := range map[int]string{1: `add to counter "none0"`, 2: "add to 2 counters"} {
			if _, err := client.AddAll(t.Context(), newCounters("none", n), shards.Key{}); !errors.Is(err, shards.ErrNotFound) || !strings.Contains(err.Error(), named) {
				t.Errorf("%d counters: %v, want ErrNotFound and %s", n, err, named)
			}
		}
	})
}

// A counter that begins with a total has it in the first field without a limit.
func TestCreateWithTotalBesideALimit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Fields: "seats=limit(3),likes"}})
		c := handle(t, client, "a")
		if err := c.Create(t.Context(), shards.CreateOptions{Total: 5}); err != nil {
			t.Fatal(err)
		}
		s, err := c.Sum(t.Context())
		if err != nil || s.Totals["seats"] != 0 || s.Totals["likes"] != 5 {
			t.Errorf("%+v %v", s, err)
		}
	})
}
