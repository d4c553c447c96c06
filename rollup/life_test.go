package rollup_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
)

func isContention(err error) bool { return errors.Is(err, rollup.ErrContention) }

func TestAdoption(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		counter  map[string]any // nil: no document at all
		replaced any
		shards   any // num_shards afterwards
	}{
		{"no total", map[string]any{"num_shards": 2}, int64(0), int64(2)},
		{"numShards", map[string]any{"numShards": 2}, int64(0), nil},
		{"a total that a blind trigger kept", map[string]any{"num_shards": 2, "total": 40}, int64(40), int64(2)},
		{"a total that is right", map[string]any{"num_shards": 2, "total": 7}, int64(7), int64(2)},
		{"no counter document", nil, int64(0), nil},
	}
	for _, tt := range tests {
		for _, how := range []string{"event", "reconcile"} {
			virtual.Run(t, tt.name+" by "+how, func(t *testing.T) {
				w := newWorld(t)
				if tt.counter != nil {
					w.must(w.counter().Set(w.ctx, tt.counter))
				}
				w.must(w.shard(0).Set(w.ctx, map[string]any{"count": 3}))
				w.must(w.shard(1).Set(w.ctx, map[string]any{"count": 0}))
				w.inc(1, 4)
				events := w.arrived()
				if how == "event" {
					w.apply(events[1])
				} else if r, err := w.rollup.Reconcile(w.ctx, "c", rollup.ReconcileOptions{}); err != nil || !r.Adopted || r.After != 7 {
					t.Errorf("reconcile = %+v, %v", r, err)
				}
				w.total(7)
				w.apply(events...) // late ones change nothing
				w.total(7)
				snap, err := w.base().Get(w.ctx)
				if err != nil {
					t.Fatal(err)
				}
				replaced, _ := snap.Data()["replaced"].(map[string]any)
				if got := replaced["total"]; got != tt.replaced {
					t.Errorf("replaced = %v, want %v", got, tt.replaced)
				}
				snap, err = w.counter().Get(w.ctx)
				if err != nil {
					t.Fatal(err)
				}
				if got := snap.Data()["num_shards"]; got != tt.shards {
					t.Errorf("num_shards = %v, want %v", got, tt.shards)
				}
			})
		}
	}
}

func TestNothingIsMadeOfNothing(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(1)
		w.inc(0, 3)
		events := w.arrived()
		w.must(w.shard(0).Delete(w.ctx))
		w.must(w.counter().Delete(w.ctx))
		if a := w.apply(append(events, w.arrived()...)...); a.Committed {
			t.Errorf("applied %+v to a counter that never was adopted", a)
		}
		if w.exists(w.counter()) || w.exists(w.base()) {
			t.Error("a late event made a counter")
		}
		if r, err := w.rollup.Reconcile(w.ctx, "c", rollup.ReconcileOptions{}); err != nil || !r.Gone {
			t.Errorf("reconcile = %+v, %v", r, err)
		}
	})
}

// mark is the first commit of a deletion, which was cut short after it.
func (w *world) mark() {
	w.t.Helper()
	w.reconcile()
	w.commit(func(tx *firestore.Transaction) error {
		return errors.Join(tx.Delete(w.counter()), tx.Set(w.base(), map[string]any{"ending": true}, firestore.MergeAll))
	})
}

// A counter is being deleted: neither event nor reconcile adopts what is left of it, also if something makes its
// document again.
func TestBeingDeleted(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(2)
		w.mark()
		for _, back := range []bool{false, true} {
			if back {
				w.must(w.counter().Set(w.ctx, map[string]any{"num_shards": 2}))
			}
			w.inc(0, 3)
			if events := w.arrived(); !back { // they come again otherwise, until what was there before is gone
				if a := w.apply(events...); a.Committed {
					t.Errorf("applied %+v", a)
				}
			}
			if r := w.reconcile(); r.Adopted || r.Problem == "" || r.Gone == back {
				t.Errorf("back %v: reconcile = %+v", back, r)
			}
			if w.exists(w.counter()) != back || w.inBase("ending") != true {
				t.Errorf("back %v: it was adopted", back)
			}
		}
	})
}

// Deleted by hand: Firestore leaves shards and base behind. Neither brings the document back: whoever makes it again,
// with whatever numbers, sees with the next event what its path has counted.
func TestDeletedByHand(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]map[string]any{"empty": {}, "with other numbers": {"total": 99, "num_shards": 3}} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.snippet(2)
			w.inc(0, 3)
			w.apply(w.arrived()...)
			w.must(w.counter().Delete(w.ctx))
			w.inc(0, 1)
			if a := w.apply(w.arrived()...); a.Committed {
				t.Errorf("applied %+v", a)
			}
			w.inc(1, 5)
			if _, err := w.open().Apply(w.ctx, "c", w.arrived()); err != nil {
				// one that remembers nothing
				t.Error(err)
			}
			if r, err := w.rollup.Reconcile(w.ctx, "c", rollup.ReconcileOptions{}); err != nil || !r.Gone || r.Repaired() {
				t.Errorf("reconcile = %+v, %v", r, err)
			}
			if w.exists(w.counter()) {
				t.Error("the counter is back")
			}
			w.must(w.counter().Set(w.ctx, made))
			w.inc(0, 1)
			w.apply(w.arrived()...)
			w.total(10)
			if r := w.reconcile(); !r.Right() {
				t.Errorf("reconcile = %+v", r)
			}
		})
	}
}

// A document that was made again, and that no event has met since, is shown to by a reconcile.
func TestReconcileShowsADocumentThatIsMadeAgain(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(1)
		w.inc(0, 3)
		w.apply(w.arrived()...)
		w.must(w.counter().Delete(w.ctx))
		w.reconcile() // notes it
		w.must(w.counter().Set(w.ctx, map[string]any{"num_shards": 1, "title": "mine"}))
		w.reconcile()
		w.total(3)
		w.field("title", "mine")
		snap, err := w.base().Get(w.ctx)
		if err != nil || snap.Data()["gone_at"] != nil {
			t.Errorf("the base says still that it is gone: %v, %v", snap.Data(), err)
		}
	})
}

// Deleted as the product does it, and made again under the same id: late events of the first
// one count nothing.
func TestMadeAgain(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create()
		w.inc(0, 3)
		w.apply(w.arrived()...)
		w.inc(0, 4)
		w.delete()
		old := w.arrived()
		w.create()
		w.apply(old...)
		w.total(0)
		w.inc(0, 1)
		w.apply(append(w.arrived(), old...)...)
		w.total(1)
		w.apply(old...)
		w.total(1)
	})
}

func TestDeletedShardTakesItsCountOff(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(2)
		w.inc(0, 3)
		w.inc(1, 4)
		w.apply(w.arrived()...)
		w.must(w.shard(1).Delete(w.ctx))
		deleted := w.arrived()
		w.must(w.shard(1).Set(w.ctx, map[string]any{"count": 10}))
		made := w.arrived()
		w.apply(made...)
		w.total(13)
		w.apply(deleted...) // late
		w.total(13)
		w.must(w.shard(1).Delete(w.ctx))
		if a := w.apply(w.arrived()...); a.Delta != -10 {
			t.Errorf("applied %+v", a)
		}
		w.total(3)
	})
}

// Whatever a shard is called, it is counted.
func TestOddShardIDs(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(1)
		shards := w.counter().Collection("shards")
		ids := []string{"__id7__", `\__id7__`, "a`b", "a.b", `\`, `\\`, "日本", "\t1", " ", "*", "~",
			strings.Repeat("x", 1500), "__" + strings.Repeat("x", 1498), `\` + strings.Repeat("x", 1499), strings.Repeat("`", 1500)}
		want := int64(0)
		add := func() {
			for i, id := range ids {
				by := int64(1) << i
				w.must(shards.Doc(id).Set(w.ctx, map[string]any{"count": firestore.Increment(by)}, firestore.MergeAll))
				want += by
			}
		}
		add()
		w.apply(w.arrived()...) // adopts
		w.total(want)
		add()
		w.apply(w.arrived()...)
		w.total(want)
		add()
		w.arrived() // and lost
		w.reconcile()
		w.total(want)
	})
}

// A shard whose count is not an integer hides no lost event of the others.
func TestReconcileBesideAShardThatIsNotAnInteger(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(1)
		w.apply(w.arrived()...)
		w.must(w.shard(1).Set(w.ctx, map[string]any{"count": 0.5}))
		w.inc(0, 7)
		w.arrived() // and lost
		if r := w.reconcile(); r.Late != 7 {
			t.Errorf("reconcile = %+v, want 7 late, and the whole part of a half", r)
		}
		w.total(7)
	})
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		do          func(w *world)
		late, drift int64
		reads       int64 // of a walk that finds it right, one of which lists it
	}{
		{"nothing", func(*world) {}, 0, 0, 4},
		{"lost events", func(w *world) { w.inc(0, 5); w.inc(1, 1) }, 6, 0, 4},
		// its shards are counted: they are not as many as it should have
		{"a lost deletion", func(w *world) { w.must(w.shard(1).Delete(w.ctx)) }, -4, 0, 5},
		{"a shard whose event was lost", func(w *world) { w.must(w.shard(9).Set(w.ctx, map[string]any{"count": 2})) }, 2, 0, 5},
		{"something else wrote the total", func(w *world) {
			w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "total", Value: firestore.Increment(100)}}))
		}, 0, 100, 4},
		{"something else made the total null", func(w *world) {
			w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "total", Value: nil}}))
		}, 0, -7, 4},
		{"both", func(w *world) {
			w.inc(0, 5)
			w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "total", Value: firestore.Increment(-1)}}))
		}, 5, -1, 4},
	}
	for _, tt := range tests {
		virtual.Run(t, tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.snippet(2)
			w.inc(0, 3)
			w.inc(1, 4)
			w.apply(w.arrived()...)
			w.total(7)
			tt.do(w)
			late := w.arrived()
			want := 7 + tt.late
			for _, dry := range []bool{true, true, false} {
				r, err := w.rollup.Reconcile(w.ctx, "c", rollup.ReconcileOptions{DryRun: dry})
				if err != nil {
					t.Fatal(err)
				}
				if r.Late != tt.late || r.Drift != tt.drift || r.After != want || r.Repaired() != (tt.late != 0 || tt.drift != 0) {
					t.Errorf("reconcile(dry %v) = %+v, want late %d, drift %d, after %d", dry, r, tt.late, tt.drift, want)
				}
			}
			w.total(want)
			w.apply(late...) // those that were only slow
			w.total(want)
			w.server.ResetStats()
			if r := w.walk(); r.Repaired() {
				t.Errorf("a second time: %+v", r)
			}
			if s := w.server.Stats(); s.Writes != 0 || s.Reads > tt.reads+3 { // two look for notes, and one for holds
				t.Errorf("a counter that is right took %+v, want at most %d reads", s, tt.reads)
			}
		})
	}
}

// Counters at a path of several wildcards are adopted by their events, and found by a
// reconcile of all.
func TestNestedPath(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Counters: "teams/{team}/posts/{post}", Shards: "parts", Fields: "total=n"}})
		for _, team := range []string{"blue", "red"} {
			post := w.fs.Collection("teams").Doc(team).Collection("posts").Doc("p1")
			for shard, n := range []int{3, 4} {
				if _, err := post.Collection("parts").Doc(fmt.Sprint(shard)).Set(t.Context(), map[string]any{"n": n}); err != nil {
					t.Fatal(err)
				}
			}
			if r, err := client.Reconcile(t.Context(), team+"/p1", rollup.ReconcileOptions{}); err != nil || !r.Adopted || r.After != 7 {
				t.Errorf("%s: reconcile = %+v, %v, want adopted with 7", team, r, err)
			}
			if _, err := post.Update(t.Context(), []firestore.Update{{Path: "total", Value: 100}}); err != nil {
				// drift
				t.Fatal(err)
			}
		}
		// Beside them another counter, which is not one of this deployment.
		if _, err := w.fs.Collection("posts").Doc("p1").Collection("counter_rollup").Doc("base").Set(t.Context(), map[string]any{}); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int64{}
		sum, err := client.ReconcileAll(t.Context(), rollup.ReconcileOptions{Resume: true, Report: func(r rollup.Report, err error) {
			if err != nil {
				t.Error(err)
			}
			seen[r.Counter] = r.After
		}})
		if err != nil || !sum.Done || sum.Seen != 2 || seen["blue/p1"] != 7 || seen["red/p1"] != 7 {
			t.Errorf("ReconcileAll = %+v, %v, and saw %v", sum, err, seen)
		}
	})
}
