package shards_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/google/go-cmp/cmp"

	"github.com/firestore-counters/counters/shards"
)

// Fields that count documents are read with the others: as the counter's document has them,
// or counted anew.
func TestReadOfCountedFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{Fields: "likes,comments=count(comments),stars=sum(ratings.stars)"})
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
}

// What counts documents is neither incremented nor joined nor rebased, and who asks for
// that is told why.
func TestCountedFieldsAreNotIncremented(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{Fields: "likes,comments=count(comments)"}), "a", 1)
	_, increment := c.AddFields(t.Context(), map[string]int64{"comments": 1}, shards.Key{})
	_, member := c.Join(t.Context(), "comments", "u")
	rebase := c.RebaseFields(t.Context(), map[string]int64{"comments": 7})
	for _, err := range []error{increment, member, rebase} {
		if err == nil || !strings.Contains(err.Error(), `"comments" counts documents (comments=count(comments)), and nothing else is added to it; want one of likes`) {
			t.Errorf("%v, want the reason", err)
		}
	}
}

// An exact read is of one time, whatever is counted while it goes on.
func TestSumIsOfOneTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const fields = "likes,comments=count(comments),stars=sum(ratings.stars)"
	w.counter(t, w.open(t, shards.Config{Fields: fields}), "a", 1)
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
	client := w.asking(t, shards.Config{Fields: fields}, "RunAggregationQuery", more)
	s, err := handle(t, client, "a").Sum(t.Context())
	if diff := cmp.Diff(map[string]int64{"likes": 1, "comments": 1, "stars": 1}, s.Totals); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}
