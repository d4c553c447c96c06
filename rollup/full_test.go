package rollup_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
)

// The app has filled its document to a megabyte, and no number fits into it any more. Its events
// are acknowledged, and counted in its shards; a reconcile says what is wrong, and once there is
// room the next event shows everything. Nobody wrote a wrong number meanwhile, so that is no drift.
func TestADocumentThatIsFull(t *testing.T) {
	t.Parallel()
	for _, full := range []string{"before its first event", "later"} {
		virtual.Run(t, full, func(t *testing.T) {
			w := newWorld(t).hosted()
			var log strings.Builder
			w.rollup = w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: "likes,views," + strings.Repeat("x", 60), Hosted: true},
				Logger: slog.New(slog.NewTextHandler(&log, nil))})
			want := int64(0)
			fill := func() {
				// To the last bytes: no further field fits.
				for size := 1 << 20; ; size -= 8 {
					if _, err := w.counter().Set(w.ctx, map[string]any{"body": strings.Repeat("x", size), "likes": want}); err == nil {
						return
					}
				}
			}
			w.post(map[string]any{"body": ""})
			if full == "later" {
				w.like(0, 1, 1)
				w.apply(w.arrived()...)
				want++
			}
			fill()
			r := w.roller(rollup.RollerOptions{Interval: time.Millisecond})
			for range 3 {
				w.like(0, 1, 1)
				want++
				for _, s := range w.arrived() {
					if err := r.Add(w.ctx, s); err != nil {
						t.Errorf("the event is not acknowledged: %v", err)
					}
				}
			}
			w.like(0, 1, 1)
			want++
			w.arrived() // and lost
			report := w.reconcile()
			if !strings.Contains(report.Problem, "make room in it") || report.Drift != 0 {
				t.Errorf("reconcile = %+v, want the problem, and no drift", report)
			}
			w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "body", Value: "short"}}))
			w.like(1, 1, 1) // of another shard
			want++
			w.apply(w.arrived()...)
			w.field("likes", want)
			w.field("views", want)
			if report := w.reconcile(); !report.Right() {
				t.Errorf("reconcile = %+v, want nothing to do", report)
			}
			if strings.Contains(log.String(), "msg=drift") {
				t.Errorf("drift is logged:\n%s", &log)
			}
		})
	}
}

// The base of such a document is written alone, by which walks find the counter; also where others were in the way
// first.
func TestTheBaseOfAFullDocumentIsWritten(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t).hosted()
		w.post(map[string]any{"body": ""})
		for size := 1 << 20; ; size -= 8 {
			if _, err := w.counter().Set(w.ctx, map[string]any{"body": strings.Repeat("x", size)}); err == nil {
				break
			}
		}
		var refused int
		w.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
			if writes := req.GetWrites(); len(writes) == 1 && strings.HasSuffix(writes[0].GetUpdate().GetName(), "/base") && refused == 0 {
				refused++
				v.Before = status.Error(codes.Aborted, "others were faster")
			}
			return v
		})
		w.like(0, 1, 1)
		w.arrived() // and lost
		if report := w.reconcile(); !strings.Contains(report.Problem, "make room in it") {
			t.Errorf("reconcile = %+v, want the problem", report)
		}
		if base, err := w.counter().Collection("counter_rollup").Doc("base").Get(w.ctx); err != nil || refused != 1 {
			t.Errorf("base: %v, %v, refused %d times; want one, refused once", base.Exists(), err, refused)
		}
	})
}
