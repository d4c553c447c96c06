package shards_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/google/go-cmp/cmp"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// Fields that count documents are read with the others: as the counter's document has them,
// or counted anew.
func TestReadOfCountedFields(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Fields: "likes,comments=count(comments),stars=sum(ratings.stars)"}})
		c := w.counter(t, client, "a", 1)
		doc := w.fs.Collection("counters").Doc("a")
		for i := range 3 {
			if _, err := doc.Collection("comments").Doc(fmt.Sprint(i)).Set(t.Context(), map[string]any{}); err != nil {
				t.Fatal(err)
			}
			if _, err := doc.Collection("ratings").Doc(fmt.Sprint(i)).Set(t.Context(), map[string]any{"stars": i}); err != nil {
				t.Fatal(err)
			}
		}
		check := func(read string, s shards.Snapshot, err error, want map[string]int64) {
			t.Helper()
			if diff := cmp.Diff(want, s.Totals); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got)\n%s", read, err, diff)
			}
		}
		s, err := c.Get(t.Context())
		// no event has told of them
		check("get", s, err, map[string]int64{"likes": 0, "comments": 0, "stars": 0})
		s, err = c.Sum(t.Context())
		check("sum", s, err, map[string]int64{"likes": 0, "comments": 3, "stars": 3})

		if _, err := doc.Collection("ratings").Doc("half").Set(t.Context(), map[string]any{"stars": 0.5}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Sum(t.Context()); !errors.Is(err, shards.ErrNotInteger) {
			t.Errorf("of a sum that is not an integer: %v", err)
		}
	})
}

// What counts documents is neither incremented nor joined nor rebased, and who asks for
// that is told why.
func TestCountedFieldsAreNotIncremented(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: "likes,comments=count(comments)"}}), "a", 1)
		_, increment := c.AddFields(t.Context(), map[string]int64{"comments": 1}, shards.Key{})
		_, member := c.Join(t.Context(), "comments", "u")
		rebase := c.RebaseFields(t.Context(), map[string]int64{"comments": 7})
		for _, err := range []error{increment, member, rebase} {
			if err == nil || !strings.Contains(err.Error(), `"comments" counts documents (comments=count(comments)), and nothing else is added to it; want one of likes`) {
				t.Errorf("%v, want the reason", err)
			}
		}
	})
}

// Where documents alone are counted, a counter has no shards: it is made, read and summed up all
// the same, and who would add to it or set it is told that there is nothing to.
func TestDocumentsAlone(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.open(t, shards.Config{Place: shards.Place{Counters: "stats/{of}", Fields: "users=count(/users where of=={of})"}})
		site, err := c.Counter("site")
		if err != nil {
			t.Fatal(err)
		}
		if err := site.Create(t.Context(), shards.CreateOptions{Shards: 5}); !errors.Is(err, shards.ErrInvalidShards) {
			t.Errorf("with shards: %v", err)
		}
		if err := site.Create(t.Context(), shards.CreateOptions{Total: 5}); !errors.Is(err, shards.ErrInvalidField) {
			t.Errorf("with a total: %v", err)
		}
		if err := site.Create(t.Context(), shards.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := site.Get(t.Context()); !errors.Is(err, shards.ErrNotCounted) {
			t.Errorf("before the first roll-up: %v", err)
		}
		for _, id := range []string{"a", "b"} {
			w.Put("users/"+id, map[string]any{"of": "site"})
		}
		sum, err := site.Sum(t.Context())
		if err != nil || sum.Total != 2 || sum.Totals != nil || sum.NumShards != 0 {
			t.Errorf("sum: %+v, %v", sum, err)
		}
		w.Merge("stats/site", map[string]any{"users": 2})
		if s, err := site.Get(t.Context()); err != nil || s.Total != 2 || s.NumShards != 0 {
			t.Errorf("get: %+v, %v", s, err)
		}
		if audits, err := site.Audit(t.Context()); err != nil || len(audits) != 0 {
			t.Errorf("audit: %+v, %v", audits, err)
		}
		_, once := site.AddOnce(t.Context(), 1, shards.Key{Value: "k"})
		_, fields := site.AddFields(t.Context(), map[string]int64{"users": 1}, shards.Key{})
		_, all := c.AddAll(t.Context(), []shards.Increment{{Counter: "site", By: 1}, {Counter: "other", Field: "users", By: 1}}, shards.Key{})
		_, join := site.Join(t.Context(), "users", "u")
		for name, err := range map[string]error{
			"add": site.Add(t.Context(), 1), "add once": once, "add fields": fields, "add all": all, "join": join, "reset": site.Reset(t.Context(), shards.ResetOptions{}),
			"rebase": site.Rebase(t.Context(), 7), "rebase fields": site.RebaseFields(t.Context(), map[string]int64{"users": 7}),
		} {
			if err == nil || !strings.Contains(err.Error(), "there is nothing to increment or set here: all of FIELDS counts documents (users=count(/users where of=={of}))") {
				t.Errorf("%s: %v, want the reason", name, err)
			}
		}
		if err := site.Resize(t.Context(), 5, shards.ResizeOptions{}); !errors.Is(err, shards.ErrInvalidShards) {
			t.Errorf("resize: %v", err)
		}
		if docs, err := w.fs.Collection("stats/site/shards").Documents(t.Context()).GetAll(); err != nil || len(docs) != 0 {
			t.Errorf("%d shards, %v, want none", len(docs), err)
		}
		if err := site.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := site.Get(t.Context()); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("deleted: %v", err)
		}
		// Averages alone: there is no integer.
		rated := w.open(t, shards.Config{Place: shards.Place{Counters: "films/{film}", Fields: "rating=avg(ratings.stars)"}})
		film, err := rated.Counter("f")
		if err != nil {
			t.Fatal(err)
		}
		if err := film.Create(t.Context(), shards.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if s, err := film.Sum(t.Context()); err != nil || s.Total != 0 || len(s.Doubles) != 1 || s.Doubles["rating"] != nil {
			t.Errorf("average of none: %+v, %v", s, err)
		}
		w.Put("films/f/ratings/a", map[string]any{"stars": 4.5})
		if s, err := film.Sum(t.Context()); err != nil || s.Doubles["rating"] == nil || *s.Doubles["rating"] != 4.5 {
			t.Errorf("average: %+v, %v", s, err)
		}
	})
}

// An exact read is of one time, whatever is counted while it goes on.
func TestSumIsOfOneTime(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const fields = "likes,comments=count(comments),stars=sum(ratings.stars)"
		w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: fields}}), "a", 1)
		doc := w.fs.Doc("counters/a")
		more := func() {
			for ref, data := range map[*firestore.DocumentRef]map[string]any{
				doc.Collection("shards").Doc("0"): {"likes": firestore.Increment(1)}, doc.Collection("comments").NewDoc(): {}, doc.Collection("ratings").NewDoc(): {"stars": 1},
			} {
				if _, err := ref.Set(t.Context(), data, firestore.MergeAll); err != nil {
					t.Error(err)
				}
			}
		}
		more()
		client := w.asking(t, shards.Config{Place: shards.Place{Fields: fields}}, "RunAggregationQuery", more)
		s, err := handle(t, client, "a").Sum(t.Context())
		if diff := cmp.Diff(map[string]int64{"likes": 1, "comments": 1, "stars": 1}, s.Totals); err != nil || diff != "" {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
	})
}
