package shards_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// Several fields of a counter are one write of one shard, whoever asked for them.
func TestFields(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Fields: "likes,views"}})
		counter := w.counter(t, client, "a", 3)
		writes := 0
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			for _, write := range req.GetWrites() {
				if strings.Contains(write.GetUpdate().GetName(), "/shards/") {
					writes++
				}
			}
			return emulator.Verdict{}
		})
		if err := counter.Add(t.Context(), 5); err != nil { // the first field
			t.Fatal(err)
		}
		key := shards.Key{Value: "k"}
		for n := range 2 {
			replayed, err := counter.AddFields(t.Context(), map[string]int64{"likes": 1, "views": 3}, key)
			if err != nil || replayed != (n == 1) {
				t.Fatalf("call %d: replayed %v, %v", n, replayed, err)
			}
		}
		if _, err := counter.AddFields(t.Context(), map[string]int64{"likes": 2, "views": 3}, key); !errors.Is(err, shards.ErrKeyReused) {
			t.Errorf("another increment under the same key: %v", err)
		}
		all := []shards.Increment{{Counter: "a", By: 1}, {Counter: "a", Field: "likes", By: 1}, {Counter: "a", Field: "views", By: -1}}
		if _, err := client.AddAll(t.Context(), all, shards.Key{}); err != nil {
			t.Fatal(err)
		}
		if writes != 5 { // two that were replays and refused among them
			t.Errorf("%d writes of shards, want 5", writes)
		}
		w.Server.SetInterceptor(nil)
		s, err := counter.Sum(t.Context())
		if err != nil || s.Total != 8 || !maps.Equal(s.Totals, map[string]int64{"likes": 8, "views": 2}) {
			t.Errorf("sum %+v, %v; want 8 likes and 2 views", s, err)
		}
		for _, wrong := range []struct {
			by   map[string]int64
			want error
		}{
			{nil, shards.ErrInvalidIncrement},
			{map[string]int64{"likes": 0}, shards.ErrInvalidIncrement},
			{map[string]int64{"stars": 1}, shards.ErrInvalidField},
			{map[string]int64{"": 1}, shards.ErrInvalidField},
			{map[string]int64{"likes": 1, "total": 1}, shards.ErrInvalidField},
		} {
			if _, err := counter.AddFields(t.Context(), wrong.by, shards.Key{}); !errors.Is(err, wrong.want) {
				t.Errorf("%v: %v, want that %v", wrong.by, err, wrong.want)
			}
		}
		if err := counter.Reset(t.Context(), shards.ResetOptions{}); err != nil {
			t.Fatal(err)
		}
		if s, err := counter.Sum(t.Context()); err != nil || s.Total != 0 || s.Totals["views"] != 0 {
			t.Errorf("after a reset: %+v, %v", s, err)
		}
	})
}

// A document of the app's own is never made, and only gets what counting needs, in one map.
func TestHosted(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Counters: "posts/{post}", Fields: "likes,views", Hosted: true}, NumShards: 3})
		post, err := client.Counter("p1")
		if err != nil {
			t.Fatal(err)
		}
		if err := post.Add(t.Context(), 1); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("of a document that isn't there: %v, want ErrNotFound", err)
		}
		if err := post.Create(t.Context(), shards.CreateOptions{}); !errors.Is(err, shards.ErrHosted) {
			t.Errorf("create: %v, want ErrHosted", err)
		}
		ref := w.fs.Doc("posts/p1")
		if docs, err := ref.Collections(t.Context()).GetAll(); err != nil || len(docs) > 0 {
			t.Errorf("there are collections %v, %v below a document that isn't there", docs, err)
		}
		if _, err := ref.Set(t.Context(), map[string]any{"title": "one", "likes": 17}); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if _, err := post.AddFields(t.Context(), map[string]int64{"likes": 1, "views": 2}, shards.Key{}); err != nil {
				t.Fatal(err)
			}
		}
		if s, err := post.Sum(t.Context()); err != nil || s.Totals["likes"] != 4 || s.Totals["views"] != 8 || s.NumShards != 3 {
			t.Errorf("sum %+v, %v; want 4 likes and 8 views in 3 shards", s, err)
		}
		snap, err := ref.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		data := snap.Data()
		own, _ := data["counter_rollup"].(map[string]any)
		if len(data) != 3 || data["title"] != "one" || data["likes"] != int64(17) || own["num_shards"] != int64(3) {
			t.Errorf("the document is %v", data)
		}
		// A base by which reconcile finds it, though no event may ever come.
		if base, err := ref.Collection("counter_rollup").Doc("base").Get(t.Context()); err != nil || base.Data()["base"] != nil {
			t.Errorf("the base is %v, %v; want an empty one", base.Data(), err)
		}
		if err := post.Resize(t.Context(), 5, shards.ResizeOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := ref.Update(t.Context(), []firestore.Update{{Path: "title", Value: "two"}}); err != nil {
			t.Fatal(err)
		}
		if s, err := post.Get(t.Context()); err != nil || s.NumShards != 5 || s.Total != 17 {
			t.Errorf("%+v, %v; want 5 shards, and the total that the app has set until it is rolled up", s, err)
		}
		for s, err := range post.Watch(t.Context()) { // which has what is in the map too
			if err != nil || s.NumShards != 5 || s.Total != 17 {
				t.Errorf("watched: %+v, %v", s, err)
			}
			break
		}
		if err := post.Delete(t.Context(), shards.DeleteOptions{}); !errors.Is(err, shards.ErrHosted) {
			t.Errorf("delete: %v, want ErrHosted", err)
		}
	})
}

// The app copies a document that is counted, what we keep in it included. The copy is a counter of
// its own, which a reconcile finds though no event may ever come.
func TestHostedCopyOfADocument(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := shards.Config{Place: shards.Place{Counters: "posts/{post}", Fields: "likes", Hosted: true}}
		client := w.open(t, cfg)
		roll, err := rollup.Open(t.Context(), rollup.Config{Place: rollup.Place{Project: "p", Counters: cfg.Counters, Fields: cfg.Fields, Hosted: true}}, option.WithGRPCConn(w.Conn()))
		if err != nil {
			t.Fatal(err)
		}
		defer roll.Close()
		data := map[string]any{"title": "one"}
		for i, id := range []string{"p1", "p2"} {
			ref := w.fs.Doc("posts/" + id)
			if _, err := ref.Set(t.Context(), data); err != nil {
				t.Fatal(err)
			}
			if err := handle(t, client, id).Add(t.Context(), int64(i+1)); err != nil {
				t.Fatal(err)
			}
			if sum, err := roll.ReconcileAll(t.Context(), rollup.ReconcileOptions{}); err != nil || sum.Seen != i+1 {
				t.Errorf("%s: %+v, %v, want %d counters seen", id, sum, err, i+1)
			}
			snap, err := ref.Get(t.Context())
			if err != nil || snap.Data()["likes"] != int64(i+1) {
				t.Errorf("%s is %v, %v; want %d likes", id, snap.Data(), err, i+1)
			}
			data = snap.Data()
		}
	})
}

// A document that was never counted is given a number of shards: it gets all of them, and a base
// by which a reconcile finds it.
func TestHostedResizeBeforeTheFirstIncrement(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Counters: "posts/{post}", Fields: "likes", Hosted: true}})
		post := w.fs.Doc("posts/p1")
		if _, err := post.Set(t.Context(), map[string]any{"title": "one"}); err != nil {
			t.Fatal(err)
		}
		if err := handle(t, client, "p1").Resize(t.Context(), 3, shards.ResizeOptions{}); err != nil {
			t.Fatal(err)
		}
		if docs, err := post.Collection("shards").Documents(t.Context()).GetAll(); err != nil || len(docs) != 3 {
			t.Errorf("%d shards, %v; want 3", len(docs), err)
		}
		if base, err := post.Collection("counter_rollup").Doc("base").Get(t.Context()); err != nil || base.Data()["base"] != nil {
			t.Errorf("the base is %v, %v; want an empty one", base.Data(), err)
		}
	})
}

// As many counters as one call may have, whatever the number of fields; and not one more.
func TestMostIncrementsOfFields(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Fields: "likes,views"}})
		w.counter(t, client, "a", 1)
		both := func(counters int) (all []shards.Increment) {
			for n := range counters {
				id := strings.Repeat("a", n+1)
				all = append(all, shards.Increment{Counter: id, By: 1}, shards.Increment{Counter: id, Field: "views", By: 2})
			}
			return all
		}
		if _, err := client.AddAll(t.Context(), both(shards.MaxIncrements), shards.Key{}); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("%d counters: %v, want ErrNotFound: only one is there", shards.MaxIncrements, err)
		}
		if _, err := client.AddAll(t.Context(), both(shards.MaxIncrements + 1)[2:], shards.Key{}); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("%d counters: %v, want ErrNotFound", shards.MaxIncrements, err)
		}
		for name, increments := range map[string][]shards.Increment{"of both fields": both(shards.MaxIncrements + 1), "of one": both(shards.MaxIncrements + 1)[1:]} {
			if _, err := client.AddAll(t.Context(), increments, shards.Key{}); !errors.Is(err, shards.ErrInvalidIncrement) {
				t.Errorf("%d counters, %s: %v, want ErrInvalidIncrement", shards.MaxIncrements+1, name, err)
			}
		}
	})
}

// A revision that counts fewer fields shrinks a counter: what the others have counted moves too.
func TestShrinkingKeepsFieldsOfOtherRevisions(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for _, keep := range []bool{false, true} {
			w := newWorld(t)
			counter := w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: "likes,views"}}), "a", 8)
			for range 30 {
				if _, err := counter.AddFields(t.Context(), map[string]int64{"likes": 1, "views": 2}, shards.Key{}); err != nil {
					t.Fatal(err)
				}
			}
			older := handle(t, w.open(t, shards.Config{Place: shards.Place{Fields: "likes"}}), "a")
			if err := older.Resize(t.Context(), 1, shards.ResizeOptions{KeepShards: keep}); err != nil {
				t.Fatal(err)
			}
			s, err := counter.Sum(t.Context())
			if err != nil || !maps.Equal(s.Totals, map[string]int64{"likes": 30, "views": 60}) {
				t.Errorf("kept %v: sum %+v, %v; want 30 likes and 60 views", keep, s, err)
			}
		}
	})
}

// A revision that shows fewer fields deletes a counter, rolled up or not: the members of the others
// go too. They would be in the way of the next life's.
func TestMembersOfOtherRevisionsGoWithTheirCounter(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		counter := handle(t, w.open(t, shards.Config{Place: shards.Place{Fields: "likes,views"}, AutoCreate: true}), "a")
		older := handle(t, w.open(t, shards.Config{Place: shards.Place{Fields: "likes"}}), "a")
		for _, s := range []struct{ members, rolledUp, shards int }{{2, 0, 10}, {2, 1, 10}, {600, 0, 10}, {600, 1, 10}, {2, 1, 0}} {
			for n := range s.members {
				if counted, err := counter.Join(t.Context(), "views", fmt.Sprint(n)); err != nil || !counted {
					t.Fatalf("%+v: %d joins: %v, %v; want that it is counted", s, n, counted, err)
				}
			}
			for range s.rolledUp {
				w.rollUp(t, "a")
			}
			if s.shards == 0 { // somebody has deleted them: the base still knows the field
				for n := range shards.DefaultNumShards {
					w.Delete(fmt.Sprint("counters/a/shards/", n))
				}
			}
			if err := older.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			w.wantNothing(t)
		}
	})
}
