package shards_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// ours is a client that counts on documents of the app's own.
var ours = shards.Config{Place: shards.Place{Hosted: true}, NumShards: 3}

// oursLimited has a total with a limit.
var oursLimited = shards.Config{Place: shards.Place{Hosted: true, Fields: "total=limit()"}, NumShards: 3}

// reconcileOurs is [world.reconcile] of the counter a as a document of the app's own.
func (w *world) reconcileOurs(t *testing.T) rollup.Report {
	t.Helper()
	return w.reconcile(t, rollup.Config{Place: rollup.Place{Hosted: true}}, "a", rollup.ReconcileOptions{})
}

// post makes the counter a, a document of the app's own, with n shards.
func (w *world) post(t *testing.T, n int) {
	t.Helper()
	w.Put("counters/a", map[string]any{"title": "x"})
	if err := handle(t, w.open(t, ours), "a").Resize(t.Context(), n, shards.ResizeOptions{}); err != nil {
		t.Fatal(err)
	}
}

// reconcileLimit is [world.reconcileOurs] of a total that has a limit.
func (w *world) reconcileLimit(t *testing.T) rollup.Report {
	t.Helper()
	return w.reconcile(t, rollup.Config{Place: oursLimited.Place}, "a", rollup.ReconcileOptions{})
}

// populateLimit has n members in the total, of which others take no part, and room for so many.
func (w *world) populateLimit(t *testing.T, n, limit int) {
	t.Helper()
	w.Put("counters/a", map[string]any{"title": "x"})
	c := handle(t, w.open(t, ours), "a")
	if err := c.Resize(t.Context(), 2, shards.ResizeOptions{}); err != nil {
		t.Fatal(err)
	}
	w.populate(t, n)
	for _, shard := range []string{"0", "1"} {
		w.Delete("counters/a/shards/" + shard)
	}
	for i := range 3 {
		count, share := n/3, limit/3
		if i == 0 {
			count, share = n-2*count, limit-2*share
		}
		w.Put(fmt.Sprint("counters/a/shards/total~", i), map[string]any{"total": count, "members(total)": count, "share(total)": share})
	}
}

// A document of the app's own has a limit before anything is counted, and shows it beside the total. Whatever the app
// makes of its document, the limit is the path's, as the counts are.
func TestHostedLimit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := handle(t, w.open(t, oursLimited), "a")
		if err := c.SetLimit(t.Context(), "total", 3); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("of a document that isn't there: %v, want ErrNotFound", err)
		}
		w.Put("counters/a", map[string]any{"title": "x", "limits": "the app's"})
		limit(t, c, 3)
		if sum, ids := w.shares(t, "a"); sum != 3 || len(ids) != 3 || ids[0] != "total~0" {
			t.Errorf("shares of %d in %v, want 3 in three", sum, ids)
		}
		for _, by := range []int64{2, 1, -1, 1} {
			if err := c.Add(t.Context(), by); err != nil {
				t.Fatal(err)
			}
		}
		shows := func(title string, taken, of int64) {
			t.Helper()
			w.reconcileLimit(t)
			doc := w.Data("counters/a")
			delete(doc, "counter_rollup")
			if want := map[string]any{"title": title, "limits": "the app's", "total": taken, "total_limit": of}; fmt.Sprint(doc) != fmt.Sprint(want) {
				t.Errorf("the document is %v, want %v", doc, want)
			}
			wantLimit(t, handle(t, w.open(t, oursLimited), "a").Add(t.Context(), of-taken+1), of-taken)
		}
		shows("x", 3, 3)
		limit(t, c, 5)
		shows("x", 3, 5)
		old := w.Data("counters/a")
		limit(t, c, 4)
		w.Put("counters/a", old)
		shows("x", 3, 4)
		w.deleteByHand(t)
		w.Put("counters/a", map[string]any{"title": "again", "limits": "the app's", "total": 9, "total_limit": 99})
		shows("again", 3, 4)
	})
}

// Shards that something else wrote say that fewer members have seats than do: the removal ends all the same,
// and no shard counts less than nothing on the way.
func TestRemovalBelowALimitThatSomethingBroke(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]map[string]any{
		"fewer members":  {"total": 9, "members(total)": 2, "share(total)": 10},
		"nothing":        {"total": 0, "members(total)": 0, "share(total)": 10},
		"no number":      {"total": "x", "members(total)": 0, "share(total)": 10},
		"without shards": nil,
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.populateLimit(t, 600, 600)
			client := w.open(t, oursLimited)
			for _, shard := range []string{"0", "1", "2"} {
				path := "counters/a/shards/total~" + shard
				if broken != nil {
					w.Put(path, broken)
				} else {
					w.Delete(path)
				}
			}
			w.deleteByHand(t)
			w.reconcileLimit(t)
			w.Server.OnCommit(func(changes []emulator.Change) {
				for _, c := range changes {
					if strings.Contains(c.Name, "/shards/") && c.New != nil && (strings.HasSuffix(c.Name, "/0") || c.New.GetFields()["count"].GetIntegerValue() < 0) {
						t.Errorf("%s holds %v", c.Name, c.New.GetFields())
					}
				}
			})
			if removed, err := client.Remove(t.Context(), "a", w.goneAt(t)); err != nil || !removed {
				t.Errorf("removed %v, %v", removed, err)
			}
			w.wantNothing(t)
		})
	}
}

// With its base a counter's limit goes, too. The next life begins without one, also for a process that knows
// the limit; with another limit, nothing of what was on its way in the life before is counted.
func TestTheNextLifeOfADocumentHasAnotherLimit(t *testing.T) {
	t.Parallel()
	for _, members := range []int{2, 600} { // at once, and in steps
		virtual.Run(t, fmt.Sprint(members), func(t *testing.T) {
			w := newWorld(t)
			w.populateLimit(t, members, members+5)
			client := w.open(t, oursLimited)
			c := handle(t, client, "a")
			if counted, _, err := c.Hold(t.Context(), "total", "held", time.Hour); !counted || err != nil {
				t.Fatal(counted, err)
			}
			var late []*firestorepb.CommitRequest
			w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
				if addsToShard(req) && len(late) == 0 {
					late = append(late, req)
					return emulator.Verdict{Before: unavailable}
				}
				return emulator.Verdict{}
			})
			if err := c.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			w.deleteByHand(t)
			w.reconcileLimit(t)
			if removed, err := client.Remove(t.Context(), "a", w.goneAt(t)); err != nil || !removed {
				t.Fatalf("removed %v, %v", removed, err)
			}
			w.wantNothing(t)
			w.Put("counters/a", map[string]any{"title": "next"})
			wantLimit(t, c.Add(t.Context(), 5000), 0) // it has what is declared
			limit(t, c, 5001)
			if err := c.Add(t.Context(), 5000); err != nil {
				t.Fatal(err)
			}
			wantEnded(t, c.Confirm(t.Context(), "total", "held"))
			if len(late) == 0 {
				t.Fatal("no commit was lost")
			}
			if _, err := firestorepb.NewFirestoreClient(w.Conn()).Commit(t.Context(), late[0]); err == nil {
				t.Error("a commit of the life before is applied")
			}
			if counted, _, err := c.Hold(t.Context(), "total", "held", time.Hour); !counted || err != nil {
				t.Errorf("held %v, %v; want that she may hold a seat in this life", counted, err)
			}
			wantLimit(t, c.Add(t.Context(), 1), 0)
			w.wantSum(t, "a", 5001)
		})
	}
}

// A take is on its way when the app deletes its document, and a removal ends the life in between: it is not
// counted in the next, where there is a limit again, unless it is decided anew.
func TestATakeBesideARemoval(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		virtual.Run(t, fmt.Sprint(again), func(t *testing.T) {
			w := newWorld(t)
			client := w.open(t, oursLimited)
			c := handle(t, client, "a")
			w.Put("counters/a", map[string]any{"title": "x"})
			limit(t, c, 9)
			if err := c.Add(t.Context(), 4); err != nil {
				t.Fatal(err)
			}
			remover := w.open(t, oursLimited)
			var once atomic.Bool
			w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
				if !addsToShard(req) || !once.CompareAndSwap(false, true) {
					return emulator.Verdict{}
				}
				w.deleteByHand(t)
				w.reconcileLimit(t)
				if removed, err := remover.Remove(t.Context(), "a", w.goneAt(t)); err != nil || !removed {
					t.Errorf("removed %v, %v", removed, err)
				}
				if again {
					w.Put("counters/a", map[string]any{"title": "next"})
					limit(t, handle(t, remover, "a"), 2)
				}
				return emulator.Verdict{}
			})
			err := c.Add(t.Context(), 3)
			w.Server.SetInterceptor(nil)
			if again {
				wantLimit(t, err, 2)
				w.wantSum(t, "a", 0)
			} else if !errors.Is(err, shards.ErrNotFound) {
				t.Errorf("%v, want ErrNotFound", err)
			} else {
				w.wantNothing(t)
			}
		})
	}
}

// What was held in an earlier life of a counter comes back to none: also not where the next one begins with a limit that
// is set, which makes shards of its own.
func TestALimitBeginsTheNextLife(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := shards.Config{Place: shards.Place{Hosted: true, Fields: "total,seats=limit(5)"}, NumShards: 1}
		w.Put("counters/a", map[string]any{"title": "x"})
		reserved(t, handle(t, w.open(t, cfg), "a"), 3, "x")
		for _, path := range []string{"counters/a/shards/0", "counters/a/counter_rollup/base", "counters/a"} {
			w.Delete(path)
		}
		w.Put("counters/a", map[string]any{"title": "x"})
		c := handle(t, w.open(t, cfg), "a")
		if err := c.SetLimit(t.Context(), "seats", 4); err != nil {
			t.Fatal(err)
		}
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if h, err := c.GiveBack(t.Context(), "total", named("x")); err != nil || h.State != "ended" {
			t.Fatal(h, err)
		}
		if s, err := c.Sum(t.Context()); err != nil || s.Totals["total"] != 1 {
			t.Errorf("%+v, %v; want 1", s, err)
		}
	})
}
