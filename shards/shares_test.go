package shards_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/rollup"
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

// Something else writes shards of a counter with a limit. Reconcile gives shares out anew where no more is
// taken than the limit, and says what is wrong where that is the user's to decide.
func TestSharesThatSomethingElseWrote(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		wrote   map[string]map[string]any
		taken   int64 // afterwards
		problem string
	}{
		{"a share that is missing", map[string]map[string]any{"limited-0": {"share(count)": firestore.Delete}}, 6, ""},
		{"a share that is too large", map[string]map[string]any{"limited-1": {"share(count)": 400}}, 6, ""},
		{"a share that is a text", map[string]map[string]any{"limited-1": {"share(count)": "400"}}, 6, ""},
		{"a shard that counts more than its share", map[string]map[string]any{"limited-1": {"count": 6}}, 10, ""},
		{"a shard below 0", map[string]map[string]any{"limited-1": {"count": -1}}, 3, ""},
		{"a shard with more members than it counts", map[string]map[string]any{"limited-1": {"members(count)": 3}}, 6, ""},
		{"a shard that is a double", map[string]map[string]any{"limited-1": {"count": 2.0}}, 6, ""},
		{"a shard beside the limit", map[string]map[string]any{"1": {"count": 3}}, 9, ""},
		{"an empty shard beside the limit, in which who knew of none would count", map[string]map[string]any{"1": {"count": 0}}, 6, ""},
		{"a shard that has room, and says otherwise", map[string]map[string]any{"limited-1": {"room(count)": false}}, 6, ""},
		{"a shard that doesn't say whether it has room", map[string]map[string]any{"limited-1": {"room(count)": firestore.Delete}}, 6, ""},
		{"a shard that is gone", map[string]map[string]any{"limited-1": nil}, 4, ""},
		{"no shard that has a share", map[string]map[string]any{"limited-0": nil, "limited-1": nil, "limited-2": nil, "0": {"count": 6}}, 6, ""},
		{"no shard", map[string]map[string]any{"limited-0": nil, "limited-1": nil, "limited-2": nil}, 0, ""},
		{"members that are a text", map[string]map[string]any{"limited-1": {"members(count)": "2"}}, 6, "no integer"},
		{"more in a shard than the limit", map[string]map[string]any{"limited-1": {"count": 8}}, 12, "12 are taken"},
		{"more beside the limit than it has room for", map[string]map[string]any{"1": {"count": 5}}, 11, "11 are taken"},
		{"partial sums beyond an int64", map[string]map[string]any{
			"limited-0": {"count": math.MaxInt64}, "limited-1": {"count": math.MaxInt64}, "limited-2": {"count": -math.MaxInt64},
		}, math.MaxInt64, "9223372036854775807 are taken"},
		{"less than nothing", map[string]map[string]any{"limited-1": {"count": -8}}, -4, "-4 are taken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
			if err := c.Add(t.Context(), 6); err != nil {
				t.Fatal(err)
			}
			limit(t, c, 10)
			w.write(t, "a", tt.wrote)
			r := w.rollUp(t, "a")
			if tt.problem != "" {
				if r.Limits || !strings.Contains(r.Problem, tt.problem) || !strings.Contains(r.Problem, "limit of 10") {
					t.Errorf("%+v, want the problem %q", r, tt.problem)
				}
				if err := c.SetLimit(t.Context(), "total", max(0, tt.taken-1)); err == nil {
					t.Error("a limit below what is taken")
				}
				if tt.taken < 0 || tt.problem == "no integer" {
					if err := c.RemoveLimit(t.Context(), "total"); err != nil {
						t.Errorf("remove the limit: %v", err)
					}
					w.wantSum(t, "a", tt.taken)
					return
				}
				limit(t, c, tt.taken) // which is what doctor proposes
				wantLimit(t, c.Add(t.Context(), 1), 0)
				w.rollUp(t, "a") // counts went from shard to shard
			} else if !r.Limits || r.Problem != "" {
				t.Errorf("%+v, want shares that are given out anew", r)
			}
			if again := w.rollUp(t, "a"); !again.Right() || again.After != tt.taken {
				t.Errorf("the second time %+v, want %d and nothing to do", again, tt.taken)
			}
			of := max(10, tt.taken)
			sum, ids := w.shares(t, "a")
			for _, id := range ids {
				if !strings.HasPrefix(id, "limited-") {
					t.Errorf("shard %s is left", id)
				}
			}
			if sum != of {
				t.Errorf("shares of %d, want %d", sum, of)
			}
			w.wantSum(t, "a", tt.taken)
			if left := of - tt.taken; left > 0 {
				wantLimit(t, c.Add(t.Context(), left+1), left)
				if err := c.Add(t.Context(), left); err != nil {
					t.Errorf("%d that are left: %v", left, err)
				}
			}
			members, _ := tt.wrote["limited-1"]["members(count)"].(int) // nobody else gives these back
			if err := c.Add(t.Context(), int64(members)-of); err != nil {
				t.Errorf("give back: %v", err)
			}
			w.rollUp(t, "a")
			w.wantSum(t, "a", int64(members))
		})
	}
}

// An earlier revision has kept in the total what was counted in a shard with a limit. Reconcile says so, and how to go
// on from what the shards hold.
func TestABaseBesideALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
	limit(t, c, 10)
	if err := c.Add(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	ledger := []firestore.Update{{FieldPath: firestore.FieldPath{"base", "count"}, Value: 5}}
	if _, err := w.fs.Doc("counters/a/counter_rollup/ledger").Update(t.Context(), ledger); err != nil {
		t.Fatal(err)
	}
	const want = "holds 5 beyond its shards, which hold 6: remove the limit, rebase the total to 6, and set the limit again"
	if r := w.rollUp(t, "a"); !strings.Contains(r.Problem, want) || r.Limits {
		t.Errorf("%+v, want the problem %q", r, want)
	}
	if err := errors.Join(c.RemoveLimit(t.Context(), "total"), c.Rebase(t.Context(), 6)); err != nil {
		t.Fatal(err)
	}
	limit(t, c, 10)
	if r := w.rollUp(t, "a"); r.Problem != "" || r.After != 6 {
		t.Errorf("%+v, want 6", r)
	}
	wantLimit(t, c.Add(t.Context(), 5), 4)
}

// A dry run says it, and writes nothing.
func TestSharesInADryRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
	limit(t, c, 10)
	w.write(t, "a", map[string]map[string]any{"limited-1": {"share(count)": 400}})
	before := w.everything(t)
	if r := w.reconcile(t, rollup.Config{}, "a", rollup.ReconcileOptions{DryRun: true}); !r.Limits || !r.Repaired() {
		t.Errorf("%+v, want shares that would be given out anew", r)
	}
	if after := w.everything(t); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("a dry run wrote %v", after)
	}
}

// What shards beside a limit count of other fields goes to those with the limit as one sum: also where the first of
// them has no room for it, or holds a double.
func TestWhatIsBesideALimitIsOneSum(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		views map[string]any // :: shard →
		want  int64
	}{
		"at the end of an int64": {map[string]any{"limited-0": int64(math.MaxInt64 - 3), "limited-1": -100, "7": 10}, math.MaxInt64 - 93},
		"at ±2⁵³":                {map[string]any{"limited-0": float64(1<<53 - 1), "7": 10}, 1<<53 + 9},
		"too much for one shard": {map[string]any{"limited-0": -1 << 62, "limited-1": -1 << 62, "7": math.MaxInt64, "8": math.MaxInt64}, math.MaxInt64 - 1},
		"a text in one of them":  {map[string]any{"limited-0": "x", "limited-1": 5, "7": 10}, 15},
		"a text in all of them":  {map[string]any{"limited-0": "x", "limited-1": "x", "7": 10}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: "seats,views"}}), "a", 2)
			if err := c.SetLimit(t.Context(), "seats", 10); err != nil {
				t.Fatal(err)
			}
			for id, views := range tt.views {
				w.write(t, "a", map[string]map[string]any{id: {"views": views}})
			}
			for range 2 { // the first one moves it
				r := w.reconcile(t, rollup.Config{Place: rollup.Place{Fields: "seats,views"}}, "a", rollup.ReconcileOptions{})
				if got := r.Fields["views"].After; got != tt.want {
					t.Errorf("views are %d, %q; want %d", got, r.Problem, tt.want)
				}
			}
			if left, err := w.fs.Collection("counters/a/shards").Documents(t.Context()).GetAll(); err != nil || len(left) != 2 {
				t.Errorf("%d shards, %v; want the two with the limit alone", len(left), err)
			}
		})
	}
}

// What a shard counts that takes the id of another one, when a limit is removed, is added to that as one sum. What
// has no room there stays where it is, and so does the limit.
func TestARemovedLimitLeavesSums(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		views   map[string]any // :: shard →
		want    int64
		refused error
	}{
		"of integers":                {map[string]any{"limited-0": 5, "0": 10}, 15, nil},
		"at ±2⁵³":                    {map[string]any{"limited-0": 10, "0": float64(1<<53 - 1)}, 1<<53 + 9, nil},
		"beyond the end of an int64": {map[string]any{"limited-0": 10, "limited-1": -10, "0": math.MaxInt64}, math.MaxInt64, shards.ErrNotInteger},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: "seats,views"}}), "a", 2)
			if err := c.SetLimit(t.Context(), "seats", 10); err != nil {
				t.Fatal(err)
			}
			for id, views := range tt.views {
				w.write(t, "a", map[string]map[string]any{id: {"views": views}})
			}
			if err := c.RemoveLimit(t.Context(), "seats"); !errors.Is(err, tt.refused) {
				t.Errorf("remove the limit: %v, want %v", err, tt.refused)
			}
			r := w.reconcile(t, rollup.Config{Place: rollup.Place{Fields: "seats,views"}}, "a", rollup.ReconcileOptions{})
			if got := r.Fields["views"].After; got != tt.want {
				t.Errorf("views are %d, %q; want %d", got, r.Problem, tt.want)
			}
		})
	}
}

// Whatever something else writes: what all shards count stays, of each field, also of one without a limit,
// and a field of which no more is taken than its limit has shares that add up.
func TestSharesProperties(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{Place: shards.Place{Fields: "seats,views"}})
	counters := 0
	rapid.Check(t, func(rt *rapid.T) {
		counters++
		id := fmt.Sprintf("p%d", counters)
		c := handle(t, client, id)
		if err := c.Create(t.Context(), shards.CreateOptions{Shards: 3}); err != nil {
			rt.Fatal(err)
		}
		const most = 20
		if err := c.SetLimit(t.Context(), "seats", most); err != nil {
			rt.Fatal(err)
		}
		number := rapid.IntRange(-2, 12)
		var seats, views int64
		wrote := map[string]map[string]any{}
		for _, shard := range []string{"limited-0", "limited-1", "limited-2", "0", "7"} {
			if len(wrote) > 0 && rapid.Bool().Draw(rt, "absent "+shard) {
				continue
			}
			n, v := number.Draw(rt, "seats of "+shard), number.Draw(rt, "views of "+shard)
			wrote[shard] = map[string]any{"seats": n, "views": v, "share(seats)": number.Draw(rt, "share of "+shard)}
			seats, views = seats+int64(n), views+int64(v)
		}
		w.write(t, id, wrote)
		reconcile := func() rollup.Report {
			return w.reconcile(t, rollup.Config{Place: rollup.Place{Fields: "seats,views"}}, id, rollup.ReconcileOptions{})
		}
		r := reconcile()
		if r.After != seats || r.Fields["views"].After != views {
			rt.Fatalf("%+v, want %d seats and %d views", r, seats, views)
		}
		if mended := 0 <= seats && seats <= most; mended != (r.Problem == "") {
			rt.Fatalf("%d of %d seats are taken: %+v", seats, most, r)
		} else if !mended {
			return
		}
		if r := reconcile(); !r.Right() {
			rt.Fatalf("the second time %+v", r)
		}
		if seats < most {
			if _, err := c.AddFields(t.Context(), map[string]int64{"seats": most - seats}, shards.Key{}); err != nil {
				rt.Fatalf("what is left, %d: %v", most-seats, err)
			}
		}
	})
}
