package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// likesAndViews counts two fields on documents of the app's own.
var likesAndViews = rollup.Config{Place: rollup.Place{Project: "p", Fields: "likes,views", Hosted: true}}

// hosted has the world count likes and views on a document of the app's own.
func (w *world) hosted() *world {
	w.rollup = w.openWith(likesAndViews)
	return w
}

// post is what the app writes.
func (w *world) post(fields map[string]any) {
	w.t.Helper()
	w.must(w.counter().Set(w.ctx, fields))
}

// like makes a shard that isn't there, as an increment does, and counts in it.
func (w *world) like(shard int, likes, views int64) {
	w.t.Helper()
	w.must(w.shard(shard).Set(w.ctx, map[string]any{"likes": firestore.Increment(likes), "views": firestore.Increment(views)}, firestore.MergeAll))
}

// has fails unless the app's document has these fields.
func (w *world) has(want map[string]any) {
	w.t.Helper()
	snap, err := w.counter().Get(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for name, value := range want {
		if got := snap.Data()[name]; got != value {
			w.t.Errorf("%s = %v, want %v", name, got, value)
		}
	}
	for name := range snap.Data() {
		if _, ok := want[name]; !ok && !slices.Contains([]string{"likes", "views", "counter_rollup"}, name) {
			w.t.Errorf("the app's document has a field %s", name)
		}
	}
}

// inBase is what the base has in a field.
func (w *world) inBase(field string) any {
	w.t.Helper()
	snap, err := w.base().Get(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return snap.Data()[field]
}

func TestHostedCountsEachField(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t).hosted()
		w.post(map[string]any{"title": "Hello", "tags": "x"})
		for i := range 20 {
			w.like(i%3, int64(i), 1)
		}
		events := w.arrived()
		w.rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		for _, e := range append(events, events...) {
			w.apply(e)
		}
		w.has(map[string]any{"title": "Hello", "tags": "x", "likes": int64(190), "views": int64(20)})
		if r := w.reconcile(); !r.Right() {
			t.Errorf("reconcile = %+v, want nothing to do", r)
		}
	})
}

// Two fields in one commit, for a question each where the document is known.
func TestASecondFieldCostsNoCommit(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]rollup.Config{"ours": {Place: rollup.Place{Project: "p", Fields: "likes,views"}}, "hosted": likesAndViews} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(w *world) { // a question that takes long is followed by a listing
				w.hosted().costsOneCommit(cfg)
			})
		})
	}
}

func (w *world) costsOneCommit(cfg rollup.Config) {
	w.t.Helper()
	w.rollup = w.openWith(cfg)
	own := map[string]any{"num_shards": int64(1)}
	if cfg.Hosted {
		own = map[string]any{"title": "Hello"}
	}
	w.post(own)
	for range 2 {
		w.like(0, 1, 1)
		w.apply(w.arrived()...)
	}
	w.like(0, 1, 2)
	states := w.arrived()
	w.server.ResetStats()
	w.apply(states...)
	if s := w.server.Stats(); s.Reads != 2 || s.Commits != 1 || s.Writes != 1 {
		w.t.Errorf("a refresh took %+v, want two reads, and one commit of one write", s)
	}
	for field, want := range map[string]any{"title": own["title"], "likes": int64(3), "views": int64(4)} {
		w.field(field, want)
	}
}

// What the app had in a field that is shown from now on is replaced, and kept in the base.
func TestAnOldNumberIsReplaced(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"event", "reconcile"} {
		virtual.Run(t, how, func(t *testing.T) {
			w := newWorld(t).hosted()
			w.post(map[string]any{"title": "Hello", "likes": 41})
			w.like(0, 2, 0)
			w.apply(w.arrived()...)
			w.has(map[string]any{"title": "Hello", "likes": int64(2), "views": int64(0)})
			if replaced, _ := w.inBase("replaced").(map[string]any); replaced["likes"] != int64(41) {
				t.Errorf("the base has %v, want that 41 were replaced", replaced)
			}
			// The same of a field that is added.
			cfg := likesAndViews
			cfg.Fields += ",shares"
			w.rollup = w.openWith(cfg)
			w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "shares", Value: 9}}))
			w.must(w.shard(0).Update(w.ctx, []firestore.Update{{Path: "shares", Value: 3}}))
			if events := w.arrived(); how == "event" {
				w.apply(events...)
			} else if r := w.reconcile(); r.Fields["shares"].Before != 9 || r.Fields["shares"].After != 3 || r.Drift != 0 {
				t.Errorf("reconcile = %+v", r)
			}
			w.has(map[string]any{"title": "Hello", "likes": int64(2), "shares": int64(3)})
			if r := w.reconcile(); !r.Right() {
				t.Errorf("reconcile = %+v, want nothing to do", r)
			}
		})
	}
}

// A document that isn't there is not made, whatever events come of it. Whoever makes it sees what is counted with the
// next one.
func TestEventsOfADocumentThatIsNotThere(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t).hosted()
		if r := w.reconcile(); !r.Gone || w.exists(w.counter()) || w.exists(w.base()) {
			t.Errorf("reconcile = %+v of a document that never was, and of which nothing is", r)
		}
		w.like(0, 1, 1)
		if a := w.apply(w.arrived()...); a.Committed || w.exists(w.counter()) || w.inBase("gone_at") == nil {
			t.Errorf("applied %+v of a document that never was", a)
		}
		if r := w.reconcile(); !r.Gone || w.exists(w.counter()) {
			t.Errorf("reconcile = %+v of a document that never was", r)
		}
		w.post(map[string]any{"title": "Hello"})
		w.like(0, 1, 1)
		w.apply(w.arrived()...)
		w.has(map[string]any{"title": "Hello", "likes": int64(2), "views": int64(2)})
		w.must(w.counter().Delete(w.ctx))
		want := int64(2)
		for i, client := range []*rollup.Client{w.rollup, w.openWith(likesAndViews)} {
			for range 2 {
				w.like(0, 1, 0)
				w.apply(w.arrived()...)
			}
			if w.exists(w.counter()) {
				t.Error("the document is back")
			}
			w.post(map[string]any{"title": "Again"})
			w.like(1, 1, 0)
			if _, err := client.Apply(w.ctx, w.id, w.arrived()); err != nil {
				t.Fatal(err)
			}
			want += 3
			w.has(map[string]any{"title": "Again", "likes": want, "views": int64(2)})
			if r := w.reconcile(); !r.Right() {
				t.Errorf("%d: reconcile = %+v, want that the refresh was enough", i, r)
			}
			if at := w.inBase("gone_at"); at != nil {
				t.Errorf("%d: the base has gone_at %v of a document that is there", i, at)
			}
			w.must(w.counter().Delete(w.ctx))
		}
	})
}

// The document goes while an instance remembers it, another has an event without it, and the app makes it again: what
// is remembered is out of date.
func TestAnEventWithoutADocumentBetweenTwoRefreshes(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t).hosted()
		other := w.openWith(likesAndViews)
		w.post(map[string]any{"title": "Hello"})
		for range 2 {
			w.like(0, 1, 0)
			w.apply(w.arrived()...)
		}
		w.must(w.counter().Delete(w.ctx))
		w.like(1, 10, 0)
		if a, err := other.Apply(w.ctx, w.id, w.arrived()); err != nil || a.Committed {
			t.Fatalf("applied %+v, %v", a, err)
		}
		w.post(map[string]any{"title": "Again"})
		w.like(0, 1, 0)
		w.apply(w.arrived()...)
		w.has(map[string]any{"title": "Again", "likes": int64(13), "views": int64(0)})
	})
}

// The app writes back a number that it has read before, or sets the whole document without merging: the next event
// corrects it, what the base has included.
func TestHostedIsPutRightByTheNextEvent(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(w *world, stale map[string]any){
		"a stale number": func(w *world, stale map[string]any) {
			w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "likes", Value: stale["likes"]}}))
		},
		"the whole document as it was":    func(w *world, stale map[string]any) { w.post(stale) },
		"the whole document without ours": func(w *world, _ map[string]any) { w.post(map[string]any{"title": "Hello"}) },
		"something else than our map": func(w *world, _ map[string]any) {
			w.post(map[string]any{"title": "Hello", "likes": nil, "counter_rollup": 5})
		},
		"the document deleted and made anew": func(w *world, _ map[string]any) {
			w.must(w.counter().Delete(w.ctx))
			w.post(map[string]any{"title": "Hello"})
		},
	} {
		for _, how := range []string{"flush", "flush by another instance", "reconcile"} {
			virtual.Run(t, name+", "+how, func(t *testing.T) {
				w := newWorld(t).hosted()
				w.post(map[string]any{"title": "Hello"})
				w.like(0, 1, 1)
				w.apply(w.arrived()...)
				w.must(nil, w.holding(shards.Config{Place: shards.Place{Fields: "likes,views", Hosted: true}}, w.id).RebaseFields(w.ctx, map[string]int64{"likes": 101}))
				w.like(0, 1, 1)
				w.apply(w.arrived()...)
				snap, err := w.counter().Get(w.ctx)
				w.must(nil, err)
				w.like(1, 1, 1)
				w.apply(w.arrived()...)
				w.has(map[string]any{"title": "Hello", "likes": int64(103), "views": int64(3)})
				write(w, snap.Data())
				w.like(0, 1, 1)
				switch events := w.arrived(); how {
				case "reconcile":
					w.reconcile()
				case "flush by another instance":
					w.rollup = w.openWith(likesAndViews)
					fallthrough
				default:
					w.apply(events...)
				}
				w.has(map[string]any{"title": "Hello", "likes": int64(104), "views": int64(4)})
				w.reconcile() // and what else it has lost
				snap, err = w.counter().Get(w.ctx)
				w.must(nil, err)
				if own, _ := snap.Data()["counter_rollup"].(map[string]any); own["updated_at"] == nil {
					t.Errorf("the app's document has %v of ours", own)
				}
				if r := w.reconcile(); !r.Right() {
					t.Errorf("reconcile = %+v, want nothing to do", r)
				}
			})
		}
	}
}

// An app that writes its document meanwhile costs a reconcile another look, and no more.
func TestReconcileOfABusyDocument(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t).hosted()
		w.post(map[string]any{"title": "Hello"})
		w.like(0, 1, 1)
		w.apply(w.arrived()...)
		w.like(0, 5, 0)
		w.arrived() // and lost
		w.server.ResetStats()
		edits := 0
		w.before(func() {
			edits++
			w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "title", Value: "Edited"}, {Path: "likes", Value: 77}}))
		})
		if r := w.reconcile(); r.Late != 5 || edits != 1 {
			t.Errorf("reconcile = %+v beside %d edits", r, edits)
		}
		if n := w.server.Stats().CommitRequests; n != 3 {
			t.Errorf("%d commits, want the app's, and one after another that corrects", n)
		}
		w.has(map[string]any{"title": "Edited", "likes": int64(6), "views": int64(1)})
	})
}

// An app that edits its document once a second loses nothing beside the roll-up, and no count
// is lost either.
func TestHostedBesideAnApp(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.hosted()
		w.post(map[string]any{"title": int64(0), "body": "text"})
		roller := rollup.NewRoller(w.rollup, rollup.RollerOptions{})
		var group sync.WaitGroup
		const seconds = 60
		group.Go(func() {
			for range seconds {
				time.Sleep(time.Second)
				w.commit(func(tx *firestore.Transaction) error {
					snap, err := tx.Get(w.counter())
					if err != nil {
						return err
					}
					fields := snap.Data()
					fields["title"] = fields["title"].(int64) + 1
					// all of it, with the totals that it has read
					return tx.Set(w.counter(), fields)
				})
			}
		})
		var likes, views int64
		for range 4 * seconds {
			time.Sleep(250 * time.Millisecond)
			w.like(w.rand.IntN(4), 1, 2)
			likes, views = likes+1, views+2
			for _, e := range w.arrived() {
				group.Go(func() {
					time.Sleep(time.Duration(w.rand.IntN(3000)) * time.Millisecond)
					if err := roller.Add(w.ctx, e); err != nil {
						w.t.Error(err)
					}
				})
			}
		}
		group.Wait()
		time.Sleep(time.Minute)
		w.like(0, 1, 2) // the app may have had the last word
		e := w.arrived()[0]
		if err := roller.Add(w.ctx, e); err != nil {
			w.t.Error(err)
		}
		if err := roller.Close(w.ctx); err != nil {
			w.t.Error(err)
		}
		w.has(map[string]any{"title": int64(seconds), "body": "text", "likes": likes + 1, "views": views + 2})
	})
}

// Hosted counters are found by their bases: an app may have a million posts that
// nobody has liked.
func TestReconcileAllFindsHostedCountersByTheirBases(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t).hosted()
		for i := range 50 {
			w.must(w.fs.Doc(fmt.Sprintf("counters/post-%d", i)).Set(w.ctx, map[string]any{"title": "Nobody likes it"}))
		}
		w.post(map[string]any{"title": "Liked"})
		w.like(0, 1, 1)
		w.apply(w.arrived()...)
		w.like(0, 1, 1)
		w.arrived() // and lost
		w.server.ResetStats()
		sum, err := w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{})
		if err != nil || sum.Seen != 1 || sum.Repaired != 1 || !sum.Done {
			t.Errorf("summary %+v, %v, want one counter, and it repaired", sum, err)
		}
		if reads := w.server.Stats().Reads; reads > 20 {
			t.Errorf("%d documents were read to find one", reads)
		}
		w.has(map[string]any{"title": "Liked", "likes": int64(2), "views": int64(2)})
	})
}

// The first increment makes a base. Where every event gets lost, a reconcile finds
// the counter by it.
func TestHostedWhoseEventsAreAllLost(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"reconcile", "the first event"} {
		virtual.Run(t, how, func(t *testing.T) {
			w := newWorld(t).hosted()
			w.post(map[string]any{"title": "Hello", "likes": 41})
			w.commit(func(tx *firestore.Transaction) error {
				return errors.Join(
					tx.Create(w.shard(0), map[string]any{"likes": 0, "views": 0}),
					tx.Create(w.base(), map[string]any{"format": 2, "shards": "shards"}))
			})
			w.like(0, 2, 3)
			if events := w.arrived(); how == "the first event" {
				w.apply(events[len(events)-1])
			} else if sum, err := w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{}); err != nil || sum.Seen != 1 || sum.Repaired != 1 || sum.Drift != 0 {
				t.Errorf("summary %+v, %v", sum, err)
			}
			w.has(map[string]any{"title": "Hello", "likes": int64(2), "views": int64(3)})
			if r := w.reconcile(); !r.Right() {
				t.Errorf("reconcile = %+v, want nothing to do", r)
			}
		})
	}
}

// Two revisions run beside each other, of which the older doesn't know views; then the newer
// alone: every field is right after one more event, without a reconcile. Then views are no longer
// shown, and are again.
func TestRevisionsThatShowDifferentFields(t *testing.T) {
	t.Parallel()
	for name, hosted := range map[string]bool{"ours": false, "hosted": true} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t).hosted()
			open := func(fields string) *rollup.Client {
				return w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: fields, Hosted: hosted}})
			}
			older, newer := open("likes"), open("likes,views")
			apply := func(client *rollup.Client, states ...rollup.Change) {
				t.Helper()
				if _, err := client.Apply(w.ctx, w.id, states); err != nil {
					t.Fatal(err)
				}
			}
			want := func(likes int64, views any) {
				t.Helper()
				w.field("likes", likes)
				w.field("views", views)
			}
			own := map[string]any{"num_shards": 2}
			if hosted {
				own = map[string]any{"title": "Hello"}
			}
			w.post(own)
			w.like(0, 1, 10)
			w.like(1, 1, 10)
			apply(older, w.arrived()...)
			want(2, nil)
			w.like(0, 1, 10)
			apply(newer, w.arrived()...)
			want(3, int64(30))
			w.like(0, 1, 10)
			events := w.arrived()
			apply(older, events...)
			want(4, int64(30))
			apply(newer, events...) // the same event
			want(4, int64(40))
			w.like(1, 1, 10)
			apply(older, w.arrived()...)
			want(5, int64(40))
			w.like(1, 1, 0)
			apply(newer, w.arrived()...) // one more, of another shard
			want(6, int64(50))
			r, err := newer.Reconcile(w.ctx, w.id, rollup.ReconcileOptions{})
			if w.must(nil, err); !r.Right() {
				t.Errorf("reconcile = %+v, want nothing to do", r)
			}
			// Taken out, views stay as they are.
			w.like(0, 1, 10)
			apply(older, w.arrived()...)
			want(7, int64(50))
			again := open("views,likes")
			w.like(0, 1, 10)
			apply(again, w.arrived()...)
			want(8, int64(70))
			if r, err = again.Reconcile(w.ctx, w.id, rollup.ReconcileOptions{}); err != nil || r.Repaired() {
				t.Errorf("reconcile = %+v, %v, want nothing to do", r, err)
			}
		})
	}
}

// total=count becomes likes=count: the base goes with the shards' field, and a deletion by hand in
// between takes nothing off.
func TestAFieldIsRenamed(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(2)
		w.inc(0, 4)
		w.apply(w.arrived()...)
		w.must(nil, w.holding(shards.Config{}, w.id).Rebase(w.ctx, 104))
		w.rollup = w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: "likes=count"}})
		w.inc(1, 1)
		w.apply(w.arrived()...)
		w.field("likes", int64(105))
		w.must(w.counter().Delete(w.ctx))
		w.must(w.counter().Set(w.ctx, map[string]any{"num_shards": 2}))
		w.inc(1, 1)
		w.apply(w.arrived()...)
		w.field("likes", int64(106))
	})
}

// The time of the last refresh, as the document says it, is one that an app has written there: no event waits for it to
// pass.
func TestNoEventWaitsForATimeThatAnAppHasWritten(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"updated_at", "next_at"} {
		for _, hosted := range []bool{true, false} {
			t.Run(fmt.Sprint(field, " hosted ", hosted), func(t *testing.T) {
				t.Parallel()
				inVirtualTime(t, func(w *world) {
					place := rollup.Place{Project: "p", Hosted: hosted}
					w.rollup = w.openWith(rollup.Config{Place: place})
					w.must(w.counter().Set(w.ctx, map[string]any{"num_shards": 1}))
					w.must(w.shard(0).Set(w.ctx, map[string]any{"count": 1}))
					w.apply(w.arrived()...)
					path := field
					if hosted || field == "next_at" {
						path = "counter_rollup." + field
					}
					w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: path, Value: time.Now().Add(365 * 24 * time.Hour)}}))
					r := rollup.NewRoller(w.openWith(rollup.Config{Place: place}), rollup.RollerOptions{})
					defer r.Close(w.ctx)
					for n := range int64(3) {
						w.inc(0, 1)
						ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
						w.must(nil, r.Add(ctx, w.arrived()...))
						cancel()
						w.total(2 + n)
					}
				})
			})
		}
	}
}
