package rollup_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// FIELDS shows what it did in another place, where there is a number of the app's: total=count
// becomes likes=count. That number is no drift, and no sum with it is ever shown.
func TestAnotherNameForAField(t *testing.T) {
	t.Parallel()
	for _, hosted := range []bool{false, true} {
		for _, how := range []string{"event", "reconcile"} {
			virtual.Run(t, fmt.Sprint(how, " hosted ", hosted), func(t *testing.T) {
				w := newWorld(t)
				w.rollup = w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: "total=count", Hosted: hosted}})
				w.snippet(1)
				w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "likes", Value: 7}}))
				w.inc(0, 4)
				w.apply(w.arrived()...)
				w.arrived() // and so the app's 7 has been seen by all
				var log strings.Builder
				w.rollup = w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: "likes=count", Hosted: hosted},
					Logger: slog.New(slog.NewTextHandler(&log, nil))})
				var shown []int64
				t.Cleanup(w.server.OnChange(func(change emulator.Change) {
					if strings.HasSuffix(change.Name, "/counters/c") {
						shown = append(shown, change.New.GetFields()["likes"].GetIntegerValue())
					}
				}))
				w.inc(0, 1)
				if events := w.arrived(); how == "event" {
					w.apply(events...)
				} else if r := w.reconcile(); r.Drift != 0 {
					t.Errorf("reconcile = %+v, want no drift", r)
				}
				w.arrived()
				if len(shown) != 1 || shown[0] != 5 || strings.Contains(log.String(), "msg=drift") {
					t.Errorf("likes were %v, want 5 alone; and the log:\n%s", shown, &log)
				}
			})
		}
	}
}

// A query's number that FIELDS has turned into shards, and turns back.
func TestAQueryThatIsShownAgainIsNoDrift(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		const queries = "likes,comments=count(comments)"
		c := newCounting(t, rollup.Config{Place: rollup.Place{Project: "p", Fields: queries}})
		like := func(n int) {
			t.Helper()
			c.must(c.fs.Doc("counters/c/shards/0").Update(c.ctx, []firestore.Update{{Path: "likes", Value: n}}))
			c.apply(c.arrived()...)
		}
		c.set("counters/c", map[string]any{})
		c.set("counters/c/shards/0", map[string]any{"likes": 1, "comments": 5})
		c.set("counters/c/comments/1", map[string]any{})
		c.settle(rollup.RollerOptions{Interval: 10 * time.Millisecond}, c.happened()...)
		c.rollup = c.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: "likes,comments"}})
		like(2)
		c.holds("counters/c", map[string]any{"comments": int64(5), "likes": int64(2)})
		var log strings.Builder
		c.rollup = c.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: queries}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		c.must(c.fs.Doc("counters/c/shards/0").Update(c.ctx, []firestore.Update{{Path: "likes", Value: 3}}))
		r := c.rollerOf(c.rollup, rollup.RollerOptions{Interval: 10 * time.Millisecond})
		c.deliver(r, c.arrived()...)
		w := time.Now()
		for c.get("counters/c")["comments"] != int64(1) && time.Since(w) < 10*time.Second { // it is asked beside the event
			time.Sleep(10 * time.Millisecond)
		}
		c.holds("counters/c", map[string]any{"comments": int64(1), "likes": int64(3)})
		if strings.Contains(log.String(), "msg=drift") {
			t.Errorf("drift is logged:\n%s", &log)
		}
	})
}

// While revisions take turns that count other documents for the same field, it shows what one of
// them has counted, and never a sum of both. That is no drift.
func TestTwoQueriesForAField(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"events", "reconciles"} {
		virtual.Run(t, how, func(t *testing.T) {
			c := newCounting(t, rollup.Config{Place: rollup.Place{Project: "p", Fields: "likes,comments=count(comments)"}})
			var log strings.Builder
			var revisions []*rollup.Client
			for _, comments := range []string{"count(comments)", "count(comments where public==true)"} {
				revision, err := rollup.Open(c.ctx, rollup.Config{Place: rollup.Place{Project: "p", Fields: "likes,comments=" + comments},
					Logger: slog.New(slog.NewTextHandler(&log, nil))}, option.WithGRPCConn(c.connect()))
				c.must(nil, err)
				revisions = append(revisions, revision)
			}
			c.set("counters/c", map[string]any{})
			c.set("counters/c/shards/0", map[string]any{"likes": 1})
			c.set("counters/c/comments/public", map[string]any{"public": true})
			var shown []int64
			t.Cleanup(c.server.OnChange(func(change emulator.Change) {
				if strings.HasSuffix(change.Name, "/counters/c") {
					shown = append(shown, change.New.GetFields()["comments"].GetIntegerValue())
				}
			}))
			for turn := range 6 {
				c.set(fmt.Sprintf("counters/c/comments/%d", turn), map[string]any{})
				changes := c.happened()
				if c.rollup = revisions[turn%2]; how == "reconciles" {
					if r := c.reconcile(); r.Drift != 0 || r.Fields["comments"].Drift != 0 {
						t.Errorf("reconcile = %+v, want no drift", r)
					}
				} else {
					r := c.rollerOf(c.rollup, rollup.RollerOptions{Interval: time.Millisecond})
					c.deliver(r, changes...)
					c.must(nil, r.Close(c.ctx))
				}
				c.holds("counters/c", map[string]any{"likes": int64(1), "comments": []int64{int64(turn) + 2, 1}[turn%2]})
			}
			c.arrived()
			for _, n := range shown {
				if n > 1 && n%2 != 0 { // the older has 2, 4 and 6
					t.Errorf("comments were %v", shown)
				}
			}
			if strings.Contains(log.String(), "msg=drift") {
				t.Errorf("drift is logged:\n%s", &log)
			}
		})
	}
}

// A newer revision makes a document again, in which it shows another field of the shards by the same
// name. What the older one finds there is no drift.
func TestADocumentMadeAgainByAnotherRevision(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var log strings.Builder
		w.rollup = w.openWith(rollup.Config{Place: rollup.Place{Project: "p"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		newer, err := shards.Open(w.ctx, shards.Config{Place: shards.Place{Project: "p", Fields: "total=likes"}}, option.WithGRPCConn(w.connect()))
		w.must(nil, err)
		t.Cleanup(func() { _ = newer.Close() })
		w.snippet(1)
		w.must(w.shard(0).Set(w.ctx, map[string]any{"count": 5, "likes": 3}))
		w.apply(w.arrived()...)
		w.must(w.counter().Delete(w.ctx))
		counter, err := newer.Counter("c")
		w.must(nil, err)
		w.must(nil, counter.Create(w.ctx, shards.CreateOptions{}))
		w.total(3)
		w.inc(0, 1)
		w.apply(w.arrived()...)
		w.total(6)
		if strings.Contains(log.String(), "msg=drift") {
			t.Errorf("drift is logged:\n%s", &log)
		}
	})
}
