//go:build !race

package rollup_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"cloud.google.com/go/firestore"
	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/rollup"
)

// Whatever an app does with its document, and however the events of its counts come, the next flush
// has every count, and nothing of the app's is touched.
func TestHostedWalk(t *testing.T) {
	t.Parallel()
	w := newWorld(t).hosted()
	walks := 0
	rapid.Check(t, func(t *rapid.T) {
		walks++
		w.mu.Lock()
		w.id, w.events = fmt.Sprintf("c%d", walks), nil
		w.mu.Unlock()
		clients := []*rollup.Client{w.rollup, w.openWith(likesAndViews)}
		defer clients[1].Close()
		type counts struct{ likes, views int64 }
		var shards [3]counts
		// what the app's document should have of its own; nil while there is none
		var app map[string]any
		var stale map[string]any
		var waiting, done []rollup.Change
		apply := func(t *rapid.T, states ...rollup.Change) {
			if len(states) == 0 {
				return
			}
			if _, err := rapid.SampledFrom(clients).Draw(t, "instance").Apply(w.ctx, w.id, states); err != nil {
				t.Fatal(err)
			}
			done = append(done, states...)
		}
		set := func(t *rapid.T, fields map[string]any) {
			app = map[string]any{"title": rapid.StringMatching(`[a-z]{1,5}`).Draw(t, "title")}
			fields["title"] = app["title"]
			w.post(fields)
		}
		count := func(t *rapid.T) {
			n, by := rapid.IntRange(0, 2).Draw(t, "shard"), counts{rapid.Int64Range(0, 3).Draw(t, "likes"), rapid.Int64Range(1, 3).Draw(t, "views")}
			w.like(n, by.likes, by.views)
			shards[n].likes += by.likes
			shards[n].views += by.views
			waiting = append(waiting, w.arrived()...)
		}
		t.Repeat(map[string]func(*rapid.T){
			"the app makes it": func(t *rapid.T) {
				if app != nil {
					t.Skip()
				}
				set(t, map[string]any{})
			},
			"the app edits it": func(t *rapid.T) {
				if app == nil {
					t.Skip()
				}
				app["title"] = rapid.StringMatching(`[a-z]{1,5}`).Draw(t, "title")
				w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "title", Value: app["title"]}}))
			},
			"the app sets it": func(t *rapid.T) {
				if app == nil {
					t.Skip()
				}
				set(t, map[string]any{})
			},
			"the app reads it": func(t *rapid.T) {
				if app == nil {
					t.Skip()
				}
				snap, err := w.counter().Get(w.ctx)
				w.must(nil, err)
				stale = snap.Data()
			},
			"the app writes it back": func(t *rapid.T) { // and maybe makes it again
				if stale == nil {
					t.Skip()
				}
				set(t, maps.Clone(stale))
			},
			"the app deletes it": func(*rapid.T) {
				w.must(w.counter().Delete(w.ctx))
				app = nil
			},
			"count":       func(t *rapid.T) { count(t) },
			"count again": func(t *rapid.T) { count(t) },
			"an event": func(t *rapid.T) {
				if len(waiting) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "which")
				s := waiting[i]
				waiting = slices.Delete(waiting, i, i+1)
				apply(t, s)
			},
			"all events": func(t *rapid.T) {
				all := waiting
				waiting = nil
				apply(t, all...)
			},
			"an event again": func(t *rapid.T) {
				if len(done) == 0 {
					t.Skip()
				}
				apply(t, rapid.SampledFrom(done).Draw(t, "which"))
			},
			"reconcile": func(t *rapid.T) {
				if _, err := rapid.SampledFrom(clients).Draw(t, "instance").Reconcile(w.ctx, w.id, rollup.ReconcileOptions{}); err != nil {
					t.Fatal(err)
				}
			},
		})
		if app == nil {
			set(t, map[string]any{})
		}
		w.like(0, 1, 1) // of each field: an app may have written an older copy of all, our map included
		shards[0] = counts{shards[0].likes + 1, shards[0].views + 1}
		apply(t, append(waiting, w.arrived()...)...)
		snap, err := w.counter().Get(w.ctx)
		w.must(nil, err)
		var want counts
		for _, s := range shards {
			want.likes, want.views = want.likes+s.likes, want.views+s.views
		}
		got := snap.Data()
		if got["likes"] != want.likes || got["views"] != want.views || got["title"] != app["title"] {
			t.Fatalf("the document has %v, want %+v and %v", got, want, app)
		}
		for name := range got {
			if !slices.Contains([]string{"title", "likes", "views", "counter_rollup"}, name) {
				t.Fatalf("the document has a field %s", name)
			}
		}
		if got := snap.Data(); w.t.Failed() {
			t.Fatalf("the document has %v", got)
		}
	})
}

// Whatever an app writes into the field, and whenever, whichever instance counts: what is no number is never lost, and
// what is counted is all there in the end.
func TestWhatTheAppKeepsWalk(t *testing.T) {
	t.Parallel()
	w := newWorld(t).hosted()
	walks := 0
	rapid.Check(t, func(t *rapid.T) {
		walks++
		w.mu.Lock()
		w.id, w.events = fmt.Sprint("c", walks), nil
		w.mu.Unlock()
		instances := []*rollup.Client{w.openWith(likesAndViews), w.openWith(likesAndViews)}
		defer instances[0].Close()
		defer instances[1].Close()
		w.post(map[string]any{"title": "Hello"})
		w.like(0, 0, 0)
		w.apply(w.arrived()...) // adoption locks the document: nothing writes it meanwhile
		var kept any            // what the app's document has there that is no number
		var likes int64
		put := func(t *rapid.T) {
			kept = rapid.SampledFrom([]any{nil, nil, []any{"uid-1"}, map[string]any{"a": int64(1)}, "7"}).Draw(t, "value")
			value := kept
			if kept == nil {
				value = rapid.SampledFrom([]any{nil, 5, firestore.Delete}).Draw(t, "overwritable")
			}
			w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "likes", Value: value}}))
		}
		count := func(t *rapid.T) {
			by := rapid.Int64Range(1, 3).Draw(t, "likes")
			w.like(rapid.IntRange(0, 2).Draw(t, "shard"), by, 1)
			likes += by
		}
		flush := func(t *rapid.T) {
			count(t)
			if rapid.Bool().Draw(t, "beside a write of the app") {
				w.before(func() { put(t) })
			}
			if _, err := rapid.SampledFrom(instances).Draw(t, "instance").Apply(w.ctx, w.id, w.arrived()); err != nil {
				t.Fatal(err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"the app writes": put,
			"flush":          flush,
			"reconcile": func(t *rapid.T) {
				if _, err := rapid.SampledFrom(instances).Draw(t, "instance").Reconcile(w.ctx, w.id, rollup.ReconcileOptions{}); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				if got := w.likes(); kept != nil && !reflect.DeepEqual(got, kept) {
					t.Fatalf("likes = %v, want %v, which is the app's", got, kept)
				}
			},
		})
		w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "likes", Value: firestore.Delete}}))
		kept = nil
		count(t)
		if _, err := instances[0].Apply(w.ctx, w.id, w.arrived()); err != nil {
			t.Fatal(err)
		}
		if got := w.likes(); got != likes {
			t.Fatalf("likes = %v, want %d", got, likes)
		}
	})
}
