package rollup_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// FIELDS shows a field from now on in whose place there is another number, of a query's or of the
// app's; and the app makes its document again without any. Nobody wrote a wrong total, so that is
// no drift, and nothing but the two numbers is ever shown.
func TestWhatIsNoDrift(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"event", "reconcile", "event, in the app's own", "reconcile, in the app's own"} {
		virtual.Run(t, how, func(t *testing.T) {
			how, _, hosted := strings.Cut(how, ",")
			c := newCounting(t, rollup.Config{Place: rollup.Place{Project: "p", Fields: "likes,comments=count(comments)", Hosted: hosted}})
			own, again := map[string]any{"shares": 9}, map[string]any{"title": "again"}
			if !hosted {
				own["num_shards"], again["num_shards"] = 1, 1
			}
			c.set("counters/c", own)
			c.set("counters/c/shards/0", map[string]any{"likes": 1})
			c.set("counters/c/comments/1", map[string]any{})
			c.set("counters/c/comments/2", map[string]any{})
			c.settle(rollup.RollerOptions{Interval: 10 * time.Millisecond}, c.happened()...)
			c.holds("counters/c", map[string]any{"comments": int64(2), "likes": int64(1)})
			var shown []string
			t.Cleanup(c.server.OnChange(func(change emulator.Change) {
				if f := change.New.GetFields(); strings.HasSuffix(change.Name, "/counters/c") && change.New != nil {
					shown = append(shown, fmt.Sprint(f["comments"].GetIntegerValue(), f["shares"].GetIntegerValue()))
				}
			}))

			var log strings.Builder
			c.rollup = c.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: "likes,comments,shares", Hosted: hosted},
				Logger: slog.New(slog.NewTextHandler(&log, nil))})
			brought := func(want map[string]any) {
				t.Helper()
				if events := c.arrived(); how == "event" {
					c.apply(events...)
				} else if r := c.reconcile(); r.Drift != 0 || r.Fields["comments"].Drift != 0 || r.Fields["shares"].Drift != 0 || !r.Repaired() {
					t.Errorf("reconcile = %+v, want no drift", r)
				}
				c.holds("counters/c", want)
				if r := c.reconcile(); !r.Right() {
					t.Errorf("reconcile = %+v, want nothing to do", r)
				}
			}
			c.must(c.fs.Doc("counters/c/shards/0").Update(c.ctx, []firestore.Update{{Path: "comments", Value: 5}, {Path: "shares", Value: 3}}))
			brought(map[string]any{"likes": int64(1), "comments": int64(5), "shares": int64(3)})
			c.arrived()
			for _, numbers := range shown {
				if numbers != "2 9" && numbers != "5 3" {
					t.Errorf("comments and shares were %q", shown)
					break
				}
			}
			c.set("counters/c", again)
			c.must(c.fs.Doc("counters/c/shards/0").Update(c.ctx, []firestore.Update{{Path: "likes", Value: 2}}))
			brought(map[string]any{"title": "again", "likes": int64(2), "comments": int64(5), "shares": int64(3)})
			if strings.Contains(log.String(), "msg=drift") {
				t.Errorf("drift is logged:\n%s", &log)
			}
		})
	}
}

// A field that is added to FIELDS is no drift either, where documents are the deployment's own.
func TestAFieldThatIsAddedIsNoDrift(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(1)
		w.must(w.shard(0).Set(w.ctx, map[string]any{"count": 3, "views": 7}))
		w.apply(w.arrived()...)
		w.rollup = w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: "total=count,views"}})
		if r := w.reconcile(); r.Fields["views"] != (rollup.FieldReport{After: 7, Late: 7}) || !r.Repaired() {
			t.Errorf("reconcile = %+v, want no drift", r)
		}
		w.field("views", int64(7))
	})
}

// Nor is the number that a post of the app's had before its first increment.
func TestTheNumberBeforeTheFirstIncrementIsNoDrift(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"event", "reconcile"} {
		virtual.Run(t, how, func(t *testing.T) {
			w := newWorld(t)
			var log strings.Builder
			w.rollup = w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: "likes", Hosted: true}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			writer, err := shards.Open(w.ctx, shards.Config{Place: shards.Place{Project: "p", Fields: "likes", Hosted: true}}, option.WithGRPCConn(w.connect()))
			w.must(nil, err)
			t.Cleanup(func() { _ = writer.Close() })
			w.post(map[string]any{"likes": 41})
			counter, err := writer.Counter("c")
			w.must(nil, err)
			w.must(nil, counter.Add(w.ctx, 2))
			if events := w.arrived(); how == "event" {
				w.apply(events...)
			} else if r := w.reconcile(); r.Drift != 0 || !r.Repaired() {
				t.Errorf("reconcile = %+v, want no drift", r)
			}
			w.field("likes", int64(2))
			if replaced, _ := w.inBase("replaced").(map[string]any); replaced["likes"] != int64(41) || strings.Contains(log.String(), "msg=drift") {
				t.Errorf("the base has %v in place of 41, and the log:\n%s", replaced, &log)
			}
			// What is written there later is.
			w.must(nil, counter.Add(w.ctx, 1))
			w.apply(w.arrived()...)
			w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "likes", Value: 50}}))
			w.must(nil, counter.Add(w.ctx, 1))
			w.apply(w.arrived()...)
			w.field("likes", int64(4))
			if !strings.Contains(log.String(), "msg=drift counter=c field=likes drift=47") {
				t.Errorf("the log:\n%s", &log)
			}
		})
	}
}

// Nor is what a document doesn't show that the app makes again, once a refresh or a reconcile has found
// it missing: the next one sets its totals, and no other numbers are ever shown. Even where the
// answer is lost.
func TestADocumentThatIsBackIsNoDrift(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"event", "reconcile"} {
		virtual.Run(t, how, func(t *testing.T) {
			w := newWorld(t)
			var log strings.Builder
			w.rollup = w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: "likes,views", Hosted: true}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			count := func() {
				t.Helper()
				if events := w.arrived(); how == "event" {
					w.apply(events...)
				} else if r := w.reconcile(); r.Drift != 0 || r.Fields["views"].Drift != 0 {
					t.Errorf("reconcile = %+v, want no drift", r)
				}
			}
			w.post(map[string]any{"title": "one"})
			w.like(0, 5, 7)
			count()
			w.must(w.counter().Delete(w.ctx))
			w.like(0, 1, 1)
			count() // which finds that it is missing
			w.post(map[string]any{"title": "two"})
			w.arrived()
			var shown []string
			t.Cleanup(w.server.OnChange(func(change emulator.Change) {
				if f := change.New.GetFields(); strings.HasSuffix(change.Name, "/counters/c") {
					shown = append(shown, fmt.Sprint(f["likes"].GetIntegerValue(), f["views"].GetIntegerValue()))
				}
			}))
			direct, once := firestorepb.NewFirestoreClient(w.connect()), false
			w.server.SetInterceptor(func(ctx context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
				if !once && strings.HasSuffix(req.GetWrites()[0].GetUpdate().GetName(), "/counters/c") {
					once = true
					if _, err := direct.Commit(ctx, req); err != nil {
						t.Error(err)
					}
					v.Before = status.Error(codes.Unavailable, "the connection was lost")
				}
				return v
			})
			w.like(1, 1, 1)
			count()
			w.arrived()
			if len(shown) != 1 || shown[0] != "7 9" || !once {
				t.Errorf("likes and views were %q, want 7 and 9 alone", shown)
			}
			if strings.Contains(log.String(), "msg=drift") {
				t.Errorf("drift is logged:\n%s", &log)
			}
		})
	}
}

// A total that grows by 2⁶³ or more, which no increment can, as where the smallest int64 is taken off a
// shard, is set in the same commit: it is no drift, and the document is right at once.
func TestATotalThatGrowsBeyondAnIncrement(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var log strings.Builder
		cfg := likesAndViews
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w.rollup = w.openWith(cfg)
		w.post(map[string]any{"title": "Hello"})
		w.like(0, math.MinInt64, 1)
		w.like(1, 1<<62, 0)
		w.apply(w.arrived()...)
		w.has(map[string]any{"title": "Hello", "likes": int64(-1 << 62), "views": int64(1)})
		w.must(w.shard(0).Update(w.ctx, []firestore.Update{{Path: "likes", Value: 0}}))
		states := w.arrived()
		w.server.ResetStats()
		w.apply(states...)
		w.has(map[string]any{"title": "Hello", "likes": int64(1 << 62), "views": int64(1)})
		if commits := w.server.Stats().Commits; commits != 1 || strings.Contains(log.String(), "drift") {
			t.Errorf("%d commits, want one, and no drift:\n%s", commits, &log)
		}
	})
}

// A refresh mends a field, too, that stays as it is while another one grows: the number there is not the one that was
// written.
func TestAFieldThatStaysAsItIsIsMended(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t).hosted()
		w.post(map[string]any{"title": "Hello"})
		w.like(0, 1, 5)
		w.apply(w.arrived()...)
		w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "views", Value: 77}}))
		w.like(0, 1, 0)
		w.apply(w.arrived()...)
		w.has(map[string]any{"title": "Hello", "likes": int64(2), "views": int64(5)})
	})
}

// A base is deleted by hand while an instance remembers it. Once it asks for all fields there is one again, by which
// walks find the counter.
func TestABaseThatIsDeletedByHand(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(1)
		r := w.roller(rollup.RollerOptions{})
		for n := range 4 {
			w.inc(0, 1)
			for _, s := range w.arrived() {
				w.must(nil, r.Add(w.ctx, s))
			}
			if n == 0 {
				w.must(w.base().Delete(w.ctx))
			}
			time.Sleep(50 * time.Second)
		}
		if w.total(4); !w.exists(w.base()) {
			w.t.Error("there is no base")
		}
	})
}
