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
	"github.com/firestore-counters/counters/rollup"
)

// FIELDS shows what it did in another place, where there is a number of the app's: total=count
// becomes likes=count. That number is no drift, and no sum with it is ever shown.
func TestAnotherNameForAField(t *testing.T) {
	t.Parallel()
	for _, hosted := range []bool{false, true} {
		for _, how := range []string{"event", "reconcile"} {
			t.Run(fmt.Sprint(how, " hosted ", hosted), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.rollup = w.openWith(rollup.Config{Project: "p", Fields: "total=count", Hosted: hosted})
				w.snippet(1)
				w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "likes", Value: 7}}))
				w.inc(0, 4)
				w.apply(w.arrived()...)
				var log strings.Builder
				var err error
				w.rollup, err = rollup.Open(w.ctx, rollup.Config{Project: "p", Fields: "likes=count", Hosted: hosted,
					Logger: slog.New(slog.NewTextHandler(&log, nil))}, option.WithGRPCConn(w.connect()))
				w.must(nil, err)
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

// A reconcile of a counter whose document is gone reports what it does: nothing, whatever FIELDS
// shows now.
func TestReportOfAFieldWithoutADocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rollup = w.openWith(rollup.Config{Project: "p", Fields: "total=count"})
	w.snippet(1)
	w.inc(0, 4)
	w.apply(w.arrived()...)
	w.must(w.counter().Delete(w.ctx))
	w.rollup = w.openWith(rollup.Config{Project: "p", Fields: "likes=count"})
	for range 2 {
		if r := w.reconcile(); !r.Gone || r.Before != 4 || r.After != 4 || r.Late != 0 {
			t.Errorf("reconcile = %+v, want 4 before and after, and nothing late", r)
		}
	}
}

// A query's number that FIELDS has turned into shards, and turns back.
func TestAQueryThatIsShownAgainIsNoDrift(t *testing.T) {
	t.Parallel()
	const queries = "likes,comments=count(comments)"
	c := newCounting(t, rollup.Config{Project: "p", Fields: queries})
	like := func(n int) {
		t.Helper()
		c.must(c.fs.Doc("counters/c/shards/0").Update(c.ctx, []firestore.Update{{Path: "likes", Value: n}}))
		c.apply(c.arrived()...)
	}
	c.set("counters/c", map[string]any{})
	c.set("counters/c/shards/0", map[string]any{"likes": 1, "comments": 5})
	c.set("counters/c/comments/1", map[string]any{})
	c.settle(rollup.RollerOptions{Interval: 10 * time.Millisecond}, c.happened()...)
	c.rollup = c.openWith(rollup.Config{Project: "p", Fields: "likes,comments"})
	like(2)
	c.holds("counters/c", map[string]any{"comments": int64(5), "likes": int64(2)})
	var log strings.Builder
	var err error
	c.rollup, err = rollup.Open(c.ctx, rollup.Config{Project: "p", Fields: queries, Logger: slog.New(slog.NewTextHandler(&log, nil))}, option.WithGRPCConn(c.connect()))
	c.must(nil, err)
	like(3)
	c.holds("counters/c", map[string]any{"comments": int64(1), "likes": int64(3)})
	if strings.Contains(log.String(), "msg=drift") {
		t.Errorf("drift is logged:\n%s", &log)
	}
}
