package rollup_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// holdsOf adds up what a document holds of a field, or the updates of a partial sum: finite numbers alone.
func holdsOf(doc *firestore.DocumentSnapshot, field string) *big.Float {
	sum := new(big.Float).SetPrec(2000)
	add := func(value any) {
		switch n := value.(type) {
		case int64:
			sum.Add(sum, new(big.Float).SetInt64(n))
		case float64:
			if !math.IsNaN(n) && !math.IsInf(n, 0) {
				sum.Add(sum, new(big.Float).SetFloat64(n))
			}
		}
	}
	if !strings.HasPrefix(doc.Ref.ID, "\t") {
		add(doc.Data()[field])
		return sum
	}
	updates, _ := doc.Data()["_updates_"].([]any)
	for _, update := range updates {
		update, _ := update.(map[string]any)
		data, _ := update["_data_"].(map[string]any)
		add(data[field])
	}
	return sum
}

// Whatever is in the extension's shards, a take-over neither makes nor loses any of it, of whichever field: what the
// page and all shards hold together stays. Nothing that could be taken over is left, unless it is named.
func TestOddClicks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(w *world) {
				s := w.succeeds()
				dice := rand.New(rand.NewPCG(seed, 630))
				usual := []any{1, 2, -1, 3.0, -2.0, 0.5, -1.5, 0, 0.0, math.Copysign(0, -1), 1 << 40, 0.1}
				odd := []any{
					math.NaN(), math.Inf(1), math.Inf(-1), 1e300, -1e300, float64(1 << 53), float64(1<<53 - 1), -float64(1<<53 - 1), 5e-324,
					int64(math.MaxInt64), int64(math.MinInt64), int64(math.MinInt64 + 1), "7", nil, true, []any{1}, map[string]any{"visits": 5},
				}
				value := func() any {
					if seed%3 > 0 && dice.IntN(4) == 0 {
						return odd[dice.IntN(len(odd))]
					}
					return usual[dice.IntN(len(usual))]
				}
				fields := func() map[string]any {
					data := map[string]any{}
					for _, field := range []string{"visits", "likes", "stats"} {
						if dice.IntN(3) > 0 {
							data[field] = value()
						}
					}
					return data
				}
				numbers := []any{0, 1000, -5, 1000.0, math.Copysign(0, -1), int64(math.MaxInt64) - 3, int64(math.MinInt64) + 3}
				s.must(s.page.Set(s.ctx, map[string]any{"title": "Hello", "visits": numbers[dice.IntN(len(numbers))], "likes": numbers[dice.IntN(len(numbers))]}))
				together := func() (all [2]*big.Float, left []string) {
					page, err := s.page.Get(s.ctx)
					s.must(nil, err)
					docs, err := s.inbox.Documents(s.ctx).GetAll()
					s.must(nil, err)
					for i, field := range []string{"visits", "likes"} {
						all[i] = holdsOf(page, field)
						for _, doc := range docs {
							n := holdsOf(doc, field)
							if all[i].Add(all[i], n); new(big.Float).Abs(n).Cmp(big.NewFloat(1)) >= 0 {
								left = append(left, fmt.Sprintf("%s of %q: %v", field, doc.Ref.ID, n.Text('g', 20)))
							}
						}
					}
					return all, left
				}
				for range 3 {
					var changes []rollup.Change
					for n := range 1 + dice.IntN(5) {
						id := fmt.Sprint("client-", n)
						data := fields()
						if dice.IntN(4) == 0 {
							id = fmt.Sprint("\t", n)
							var updates any = []any{map[string]any{"_id_": "x", "_data_": data}, map[string]any{"_id_": "y", "_data_": fields()}}
							if seed%3 > 0 && dice.IntN(4) == 0 {
								updates = []any{1, "x", map[string]any{"_data_": 5}, updates, map[string]any{"_id_": "z", "_data_": fields()}}
								updates.([]any)[3] = nil
							}
							data = map[string]any{"_updates_": updates}
						}
						s.must(s.inbox.Doc(id).Set(s.ctx, data, firestore.MergeAll))
						changes = append(changes, s.change(id))
					}
					before, _ := together()
					same := func(when string) {
						after, _ := together()
						for i, field := range []string{"visits", "likes"} {
							if before[i].Cmp(after[i]) != 0 {
								t.Errorf("%s: page and shards hold %s %s together, and held %s", when, after[i].Text('g', 25), field, before[i].Text('g', 25))
							}
						}
					}
					_, err := s.client.Apply(s.ctx, "hello", changes)
					s.must(nil, err)
					same("an event")
					report, err := s.client.Reconcile(s.ctx, "hello", rollup.ReconcileOptions{})
					s.must(nil, err)
					same("a reconcile")
					if _, left := together(); len(left) > 0 && report.Problem == "" {
						t.Errorf("left, and not named: %q", left)
					}
				}
			})
		})
	}
}

// What clients count of a field with a limit stays in their shards, which the log says, and a reconcile. The document's
// other fields go on, and so does the limit.
func TestClicksOnALimit(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		s := w.succeeds()
		s.cfg.Fields = "visits,seats=limit(2)"
		s.client = w.openWith(s.cfg)
		own, err := shards.Open(s.ctx, shards.Config{Place: s.cfg.Place}, option.WithGRPCConn(s.connect()))
		s.must(nil, err)
		defer own.Close()
		counter, err := own.Counter("hello")
		s.must(nil, err)
		s.must(s.page.Set(s.ctx, map[string]any{"title": "Hello", "visits": 1000}))
		for n := range 3 {
			s.click("web", map[string]any{"visits": 1, "seats": 5})
			_, err := s.client.Apply(s.ctx, "hello", []rollup.Change{s.change("web")})
			s.must(nil, err)
			_, err = counter.AddFields(s.ctx, map[string]int64{"seats": 1}, shards.Key{})
			if full := n == 2; errors.Is(err, shards.ErrLimit) != full || !full && err != nil {
				t.Errorf("seat %d: %v", n, err)
			}
			report, err := s.client.Reconcile(s.ctx, "hello", rollup.ReconcileOptions{})
			s.must(nil, err)
			if !strings.Contains(report.Problem, `"seats" has a limit`) {
				t.Errorf("the reconcile's problem is %q", report.Problem)
			}
			page, err := s.page.Get(s.ctx)
			s.must(nil, err)
			shard, err := s.inbox.Doc("web").Get(s.ctx)
			s.must(nil, err)
			if page.Data()["visits"] != int64(1001+n) || page.Data()["seats"] != int64(min(n+1, 2)) || shard.Data()["seats"] != int64(5*(n+1)) || shard.Data()["visits"] != int64(0) {
				t.Errorf("after click %d the page is %v, and the shard %v", n, page.Data(), shard.Data())
			}
		}
	})
}
