package shards_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// ours is a client that counts on documents of the app's own.
var ours = shards.Config{Place: shards.Place{Hosted: true}, NumShards: 3}

// reconcileOurs is [world.reconcile] of the counter a as a document of the app's own.
func (w *world) reconcileOurs(t *testing.T) rollup.Report {
	t.Helper()
	return w.reconcile(t, rollup.Config{Place: rollup.Place{Hosted: true}}, "a", rollup.ReconcileOptions{})
}

// wantShown fails unless the app's document a shows these limits in our map, and has its own fields.
func (w *world) wantShown(t *testing.T, want map[string]any, own map[string]any) {
	t.Helper()
	data := w.doc(t, "counters/a")
	rollup, _ := data["counter_rollup"].(map[string]any)
	limits, _ := rollup["limits"].(map[string]any)
	if !maps.Equal(limits, want) {
		t.Errorf("the document shows limits of %v, want %v", limits, want)
	}
	delete(data, "counter_rollup")
	delete(data, "total")
	delete(data, "likes")
	if fmt.Sprint(data) != fmt.Sprint(own) {
		t.Errorf("the app's own fields are %v, want %v", data, own)
	}
}

// A document of the app's own gets a limit before anything is counted, and shows it in our map alone.
func TestHostedLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := handle(t, w.open(t, ours), "a")
	if err := c.SetLimit(t.Context(), "total", 3); !errors.Is(err, shards.ErrNotFound) {
		t.Errorf("of a document that isn't there: %v, want ErrNotFound", err)
	}
	own := map[string]any{"title": "x", "limits": map[string]any{"total": "the app's"}}
	w.put(t, "counters/a", own)
	limit(t, c, 3)
	w.wantShown(t, map[string]any{"total": int64(3)}, own)
	if sum, ids := w.shares(t, "a"); sum != 3 || len(ids) != 3 || !strings.HasPrefix(ids[0], "limited-") {
		t.Errorf("shares of %d in %v, want 3 in three", sum, ids)
	}
	for _, by := range []int64{2, 1, -1, 1} {
		if err := c.Add(t.Context(), by); err != nil {
			t.Fatal(err)
		}
	}
	wantLimit(t, c.Add(t.Context(), 1), 0)
	w.reconcileOurs(t)
	if s, err := c.Get(t.Context()); err != nil || s.Total != 3 || s.Limits["total"] != 3 || s.Left["total"] != 0 {
		t.Errorf("%+v, %v; want 3 of 3", s, err)
	}
	limit(t, c, 5)
	w.wantShown(t, map[string]any{"total": int64(5)}, own)
	if err := c.RemoveLimit(t.Context(), "total"); err != nil {
		t.Fatal(err)
	}
	if err := c.Add(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	w.wantShown(t, nil, own)
	w.wantSum(t, "a", 13)
}

// A limit is the path's, as the counts are: whatever the app makes of its document, it holds at once, and the
// next reconcile shows it, and no other.
func TestHostedLimitOutlivesTheDocument(t *testing.T) {
	t.Parallel()
	shows := func(limits map[string]any) map[string]any {
		return map[string]any{"title": "x", "total": int64(1), "counter_rollup": map[string]any{"limits": limits}}
	}
	for name, data := range map[string]map[string]any{
		"made again":               {"title": "x"},
		"with an old limit":        shows(map[string]any{"total": int64(99)}),
		"with another field's too": shows(map[string]any{"total": int64(2), "likes": int64(7)}),
		"with a text":              shows(map[string]any{"total": "2"}),
		"with none":                shows(nil),
	} {
		for _, unknown := range []bool{false, true} { // to the process that takes
			t.Run(fmt.Sprint(name, " unknown ", unknown), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				c := handle(t, w.open(t, ours), "a")
				w.put(t, "counters/a", map[string]any{"title": "x"})
				limit(t, c, 2)
				if err := c.Add(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				w.reconcileOurs(t)
				w.deleteByHand(t)
				w.put(t, "counters/a", data)
				if unknown {
					c = handle(t, w.open(t, ours), "a")
				}
				wantLimit(t, c.Add(t.Context(), 2), 1)
				if err := c.Add(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				w.reconcileOurs(t)
				w.wantShown(t, map[string]any{"total": int64(2)}, map[string]any{"title": "x"})
				if r := w.reconcileOurs(t); !r.Right() {
					t.Errorf("%+v, want nothing to do", r)
				}
				wantLimit(t, c.Add(t.Context(), 1), 0)
				w.wantSum(t, "a", 2)
				w.shares(t, "a")
			})
		}
	}
}

// The app copies a document that has a limit, our map included: the copy has none, and is counted.
func TestHostedCopyOfALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, ours)
	w.put(t, "counters/b", map[string]any{"title": "x"})
	limit(t, handle(t, client, "b"), 1)
	w.put(t, "counters/a", w.doc(t, "counters/b"))
	c := handle(t, client, "a")
	for range 2 {
		if err := c.Add(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
	}
	w.reconcileOurs(t)
	w.wantShown(t, nil, map[string]any{"title": "x"})
	w.wantSum(t, "a", 10)
	if err := c.Resize(t.Context(), 4, shards.ResizeOptions{}); err != nil {
		t.Errorf("%v, want that it can be resized", err)
	}
}

// A ledger is deleted, and the document made again: the shards alone say that there is a limit. No shard is
// made beside them.
func TestHostedLimitOutlivesItsLedger(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(t *testing.T, c shards.Counter){
		"take":   func(t *testing.T, c shards.Counter) { wantLimit(t, c.Add(t.Context(), 3), 2) },
		"resize": func(t *testing.T, c shards.Counter) { wantLimited(t, c.Resize(t.Context(), 9, shards.ResizeOptions{})) },
		"reset": func(t *testing.T, c shards.Counter) {
			wantLimited(t, c.Reset(t.Context(), shards.ResetOptions{RemoveMembers: true}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.counter(t, w.open(t, shards.Config{}), "a", 3)
			w.populate(t, 300)
			c := handle(t, w.open(t, ours), "a")
			limit(t, c, 302)
			for _, path := range []string{"counters/a/counter_rollup/ledger", "counters/a"} {
				if _, err := w.fs.Doc(path).Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			w.put(t, "counters/a", map[string]any{"title": "x"})
			c = handle(t, w.open(t, ours), "a")
			do(t, c)
			if sum, ids := w.shares(t, "a"); sum != 302 || len(ids) != 3 {
				t.Errorf("shares of %d in %v", sum, ids)
			}
			w.reconcileOurs(t)
			w.wantShown(t, map[string]any{"total": int64(302)}, map[string]any{"title": "x"})
			w.wantSum(t, "a", 300)
		})
	}
}

func wantLimited(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, shards.ErrLimited) {
		t.Errorf("%v, want ErrLimited", err)
	}
}

// A removal in steps gives the members' seats back to the shards that have shares: wherever it stops, and the
// app makes its document again, no more is taken than members and callers have, the limit holds, and no shard
// is beside them.
func TestTheDocumentComesBackDuringARemovalBelowALimit(t *testing.T) {
	t.Parallel()
	for _, fields := range []string{"", "total=count,likes"} {
		t.Run(fields, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.counter(t, w.open(t, shards.Config{}), "a", 3)
			w.populate(t, 700)
			of := ours
			of.Fields = fields
			c := handle(t, w.open(t, of), "a")
			limit(t, c, 730)
			if err := c.Add(t.Context(), 7); err != nil {
				t.Fatal(err)
			}
			if fields != "" { // of which nothing is limited
				if _, err := c.Join(t.Context(), "likes", "alice"); err != nil {
					t.Fatal(err)
				}
			}
			w.reconcileOurs(t)
			w.deleteByHand(t)
			w.reconcileOurs(t)
			back := handle(t, w.sending(t, of, "BeginTransaction", func(n int) {
				if n == 2 {
					w.put(t, "counters/a", map[string]any{"title": "back"})
				}
			}), "a")
			if removed, err := back.Remove(t.Context(), w.version(t)); err != nil || removed {
				t.Fatalf("removed %v, %v; want that it is back", removed, err)
			}
			left := int64(w.memberships(t))
			if left == 0 || left == 700 {
				t.Errorf("%d members are left of 700, want some", left)
			}
			if sum, ids := w.shares(t, "a"); sum != 730 || !slices.Equal(ids, []string{"limited-0", "limited-1", "limited-2"}) {
				t.Errorf("shares of %d in %v", sum, ids)
			}
			w.wantSum(t, "a", left+7)
			wantLimit(t, c.Add(t.Context(), -8), 723-left) // members' seats are theirs
			if err := c.Add(t.Context(), 723-left); err != nil {
				t.Error(err)
			}
			wantLimit(t, c.Add(t.Context(), 1), 0)
			if r := w.reconcileOurs(t); r.Limits || r.Problem != "" {
				t.Errorf("%+v, want that shares add up", r)
			}
			w.wantShown(t, map[string]any{"total": int64(730)}, map[string]any{"title": "back"})
			for _, err := range c.Members(t.Context(), "total") {
				if err != nil {
					t.Fatal(err)
				}
			}
			leave(t, c, "699") // who is left may leave
		})
	}
}

// Shards that something else wrote say that fewer members have seats than do: the removal ends all the same,
// and no shard counts less than nothing on the way.
func TestRemovalBelowALimitThatSomethingBroke(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]map[string]any{
		"fewer members":  {"count": 9, "members(count)": 2, "share(count)": 10},
		"nothing":        {"count": 0, "members(count)": 0, "share(count)": 10},
		"no number":      {"count": "x", "members(count)": 0, "share(count)": 10},
		"without shards": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.counter(t, w.open(t, shards.Config{}), "a", 2)
			w.populate(t, 600)
			client := w.open(t, ours)
			limit(t, handle(t, client, "a"), 600)
			for _, shard := range []string{"0", "1", "2"} {
				path := "counters/a/shards/limited-" + shard
				if broken != nil {
					w.put(t, path, broken)
				} else if _, err := w.fs.Doc(path).Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			w.deleteByHand(t)
			w.reconcileOurs(t)
			w.Server.OnCommit(func(changes []emulator.Change) {
				for _, c := range changes {
					if strings.Contains(c.Name, "/shards/") && c.New != nil && (strings.HasSuffix(c.Name, "/0") || c.New.GetFields()["count"].GetIntegerValue() < 0) {
						t.Errorf("%s holds %v", c.Name, c.New.GetFields())
					}
				}
			})
			if removed, err := client.Remove(t.Context(), "a", w.version(t)); err != nil || !removed {
				t.Errorf("removed %v, %v", removed, err)
			}
			w.wantNothing(t)
		})
	}
}

// With its ledger a counter's limit goes, too. The next life begins without one, also for a process that knows
// the limit; with another limit, nothing of what was on its way in the life before is counted.
func TestTheNextLifeOfADocumentHasNoLimit(t *testing.T) {
	t.Parallel()
	for _, members := range []int{2, 600} { // at once, and in steps
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.counter(t, w.open(t, shards.Config{}), "a", 3)
			w.populate(t, members)
			client := w.open(t, ours)
			c := handle(t, client, "a")
			limit(t, c, int64(members+5))
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
			w.reconcileOurs(t)
			if removed, err := client.Remove(t.Context(), "a", w.version(t)); err != nil || !removed {
				t.Fatalf("removed %v, %v", removed, err)
			}
			w.wantNothing(t)
			w.put(t, "counters/a", map[string]any{"title": "next"})
			if err := c.Add(t.Context(), 5000); err != nil {
				t.Fatal(err)
			}
			w.reconcileOurs(t)
			w.wantShown(t, nil, map[string]any{"title": "next"})
			wantEnded(t, c.Confirm(t.Context(), "total", "held"))
			limit(t, c, 5001)
			if len(late) == 0 {
				t.Fatal("no commit was lost")
			}
			if _, err := firestorepb.NewFirestoreClient(w.Conn(t)).Commit(t.Context(), late[0]); err == nil {
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
		t.Run(fmt.Sprint(again), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			client := w.open(t, ours)
			c := handle(t, client, "a")
			w.put(t, "counters/a", map[string]any{"title": "x"})
			limit(t, c, 9)
			if err := c.Add(t.Context(), 4); err != nil {
				t.Fatal(err)
			}
			remover := w.open(t, ours)
			var once atomic.Bool
			w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
				if !addsToShard(req) || !once.CompareAndSwap(false, true) {
					return emulator.Verdict{}
				}
				w.deleteByHand(t)
				w.reconcileOurs(t)
				if removed, err := remover.Remove(t.Context(), "a", w.version(t)); err != nil || !removed {
					t.Errorf("removed %v, %v", removed, err)
				}
				if again {
					w.put(t, "counters/a", map[string]any{"title": "next"})
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

// A document that has no room for a limit is told so, and nothing of it changes.
func TestLimitOfAFullDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, "counters/a", map[string]any{"title": strings.Repeat("x", 1<<19), "text": strings.Repeat("x", 1<<19-100)})
	c := handle(t, w.open(t, ours), "a")
	if err := c.SetLimit(t.Context(), "total", 3); !errors.Is(err, shards.ErrFull) || status.Code(err) == codes.OK {
		t.Errorf("%v, want ErrFull", err)
	}
}
