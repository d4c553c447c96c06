package shards_test

import (
	"errors"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// write writes fields of shards of a counter, as the console does. Of nil the shard is deleted.
func (w *world) write(t *testing.T, id string, all map[string]map[string]any) {
	t.Helper()
	for shard, fields := range all {
		doc, err := w.fs.Collection("counters").Doc(id).Collection("shards").Doc(shard), error(nil)
		if fields == nil {
			_, err = doc.Delete(t.Context())
		} else {
			_, err = doc.Set(t.Context(), fields, firestore.MergeAll)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Something else writes a shard of a field with a limit: nothing is taken of it or given back to it, a reconcile names
// it, and the others go on.
func TestShardsThatSomethingElseWrote(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]map[string]any{
		"a share that is missing":     {"share(total)": firestore.Delete},
		"a share that is a text":      {"share(total)": "400"},
		"more than its share":         {"total": 6},
		"less than nothing":           {"total": -1},
		"more members than it counts": {"members(total)": 3},
		"a double":                    {"total": 2.0},
		"members that are a text":     {"members(total)": "2"},
		"a count that is a text":      {"total": "2"},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			c := w.counter(t, w.open(t, withLimit), "a", 2)
			limit(t, c, 10)
			if err := c.Add(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			wrong := "total~0"
			if w.counts(t, "a")["total~1"] > 0 {
				wrong = "total~1"
			}
			w.write(t, "a", map[string]map[string]any{wrong: fields})
			c = handle(t, w.open(t, withLimit), "a")
			if err := c.Add(t.Context(), 1); err != nil {
				t.Error(err)
			}
			if err := c.Add(t.Context(), 10); !errors.Is(err, shards.ErrLimit) {
				t.Errorf("%v, want ErrLimit", err)
			}
			if name != "a share that is missing" { // which no share is found by
				if err := c.SetLimit(t.Context(), "total", 20); !errors.Is(err, shards.ErrInvalidLimit) {
					t.Errorf("%v, want that a shard is wrong", err)
				}
			}
			if r := w.rollUpLimit(t, "a"); name != "a double" && name != "more than its share" && name != "less than nothing" && name != "more members than it counts" && name != "members that are a text" && !strings.Contains(r.Problem, wrong) {
				t.Errorf("%+v, want the problem with %s", r, wrong)
			}
		})
	}
}
