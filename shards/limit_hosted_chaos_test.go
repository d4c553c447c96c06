package shards_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// A document of the app's own has limits that change, while the app deletes it, makes it again and writes old
// copies back, and processes take, give back, hold, confirm and leave, with faults and late commits.
func TestHostedLimitsChange(t *testing.T) {
	t.Parallel()
	for _, removes := range []bool{false, true} {
		virtual.Run(t, fmt.Sprint(removes), func(t *testing.T) {
			hostedChaos(t, removes)
		})
	}
}

func hostedChaos(t *testing.T, removes bool) {
	w := newWorld(t)
	of := ours
	of.Fields = "total=limit(9),likes=limit(9)"
	w.Put("counters/a", map[string]any{"title": "x"})
	setter := handle(t, w.open(t, of), "a")
	limit(t, setter, 10)
	w.checkTwoLimits(t)
	late := w.failCommits(24, 30*time.Millisecond, true, func(req *firestorepb.CommitRequest) bool { // the app's own
		return len(req.GetWrites()) == 1 && strings.HasSuffix(req.GetWrites()[0].GetUpdate().GetName()+req.GetWrites()[0].GetDelete(), "/counters/a")
	})
	var ended atomic.Bool
	var others, group sync.WaitGroup
	others.Go(func() { // the app
		for !ended.Load() {
			time.Sleep(time.Duration(5+w.rand.IntN(40)) * time.Millisecond)
			var old map[string]any
			if snap, err := w.fs.Doc("counters/a").Get(context.Background()); err == nil {
				old = snap.Data()
			}
			switch w.rand.IntN(4) {
			case 0, 1:
				_, _ = w.fs.Doc("counters/a").Delete(context.Background())
				time.Sleep(time.Duration(w.rand.IntN(20)) * time.Millisecond)
				_, _ = w.fs.Doc("counters/a").Set(context.Background(), map[string]any{"title": "again"})
			case 2:
				time.Sleep(20 * time.Millisecond)
				if old != nil {
					_, _ = w.fs.Doc("counters/a").Set(context.Background(), old)
				}
			default:
				_, _ = w.fs.Doc("counters/a").Set(context.Background(), map[string]any{"title": "z", "likes_limit": 99, "total_limit": 99})
			}
		}
	})
	others.Go(func() { // limits
		names := []string{"total", "likes"}
		for !ended.Load() {
			_ = setter.SetLimit(context.Background(), names[w.rand.IntN(2)], 5+w.rand.Int64N(20))
			time.Sleep(time.Duration(w.rand.IntN(15)) * time.Millisecond)
		}
	})
	place := rollup.Place{Project: "p", Hosted: true, Fields: of.Fields}
	client, err := rollup.Open(t.Context(), rollup.Config{Place: place}, option.WithGRPCConn(w.Conn()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	remover := w.open(t, of)
	others.Go(func() {
		for !ended.Load() {
			r, err := client.Reconcile(context.Background(), "a", rollup.ReconcileOptions{})
			if err == nil && r.Problem != "" {
				t.Errorf("%+v", r)
			}
			if removes && w.rand.IntN(3) == 0 {
				if l, err := w.fs.Doc("counters/a/counter_rollup/base").Get(context.Background()); err == nil {
					since, _ := l.Data()["gone_at"].(time.Time)
					_, _ = remover.Remove(context.Background(), "a", since)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	var counted [2]atomic.Int64
	var refused, ok atomic.Int64
	for process := range 3 {
		client := w.open(t, of)
		c := handle(t, client, "a")
		for caller := range 5 {
			group.Go(func() {
				member := fmt.Sprint(process, caller)
				for n := range 14 {
					key := shards.Key{Value: fmt.Sprintf("%s-%d", member, n)}
					by, field, what := int64(1+w.rand.IntN(3)), w.rand.IntN(2), w.rand.IntN(8)
					if w.rand.IntN(3) == 0 {
						by = -by
					}
					names := []string{"total", "likes"}
					var err error
					for try := 0; try == 0 || errors.Is(err, shards.ErrBusy) || errors.Is(err, shards.ErrUnknown) || errors.Is(err, shards.ErrNotFound); try++ {
						if try > 0 {
							time.Sleep(time.Millisecond)
						}
						if try > 2000 {
							t.Errorf("%v", err)
							return
						}
						switch what {
						case 0:
							_, err = c.Join(t.Context(), names[field], member)
						case 1:
							_, err = c.Leave(t.Context(), names[field], member)
						case 2:
							_, _, err = c.HoldBriefly(t.Context(), member, brief)
						case 3:
							if err = c.Confirm(t.Context(), names[field], member); errors.Is(err, shards.ErrHoldEnded) {
								err = nil
							}
						case 4:
							if _, err = c.AddFields(t.Context(), map[string]int64{"total": by, "likes": -by}, key); err == nil {
								counted[0].Add(by)
								counted[1].Add(-by)
							}
						case 5:
							_, err = client.AddAll(t.Context(), []shards.Increment{{Counter: "a", Field: names[field], By: by}, {Counter: "a", Field: names[field], By: -by}}, key)
						default:
							if _, err = c.AddFields(t.Context(), map[string]int64{names[field]: by}, key); err == nil {
								counted[field].Add(by)
							}
						}
					}
					switch {
					case err == nil:
						ok.Add(1)
					case errors.Is(err, shards.ErrLimit):
						refused.Add(1)
					default:
						t.Error(err)
					}
				}
			})
		}
	}
	group.Wait()
	ended.Store(true)
	others.Wait()
	late.Wait()
	w.Server.SetInterceptor(nil)
	w.Put("counters/a", map[string]any{"title": "end", "likes_limit": 99})
	time.Sleep(2 * brief)
	w.reconcile(t, rollup.Config{Place: place}, "a", rollup.ReconcileOptions{}) // which ends the holds that are over
	r := w.reconcile(t, rollup.Config{Place: place}, "a", rollup.ReconcileOptions{})
	t.Logf("%d counted, %d refused; %+v", ok.Load(), refused.Load(), r)
	audits, err := handle(t, w.open(t, of), "a").Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range audits {
		if a.Total != a.Exact || !removes && a.Otherwise != counted[i].Load() {
			t.Errorf("%+v, want %d beside the members", a, counted[i].Load())
		}
	}
}
