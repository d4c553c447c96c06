//go:build !race

package rollup_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
)

// However many counters somebody makes and nobody uses again, the first walk looks at those that have changed, and each
// walk at some of the others, until all have had their turn.
func TestAWalkLooksFirstAtWhatChanged(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		const changed, latency = 100, 20 * time.Millisecond
		long := time.Duration(*idleCounters)/20*latency + 12*time.Second // for listing all five times, and some more
		var used []*firestore.DocumentRef
		for i := range changed {
			doc := w.fs.Doc(fmt.Sprintf("counters/used-%d", i))
			w.must(doc.Set(w.ctx, map[string]any{"num_shards": 1, "total": 0}))
			used = append(used, doc)
		}
		time.Sleep(48 * time.Hour)
		w.idle("counters", *idleCounters)
		for _, doc := range used {
			w.must(doc.Update(w.ctx, []firestore.Update{{Path: "total", Value: 1}}))
			w.must(doc.Collection("shards").Doc("0").Set(w.ctx, map[string]any{"count": 2})) // whose event never came
		}
		w.events = nil
		client, err := rollup.Open(w.ctx, rollup.Config{Place: rollup.Place{Project: "p"}}, option.WithGRPCConn(w.slow(latency)))
		w.must(client, err)
		client.Looks(false)
		walk := func() rollup.Summary {
			w.t.Helper()
			ctx, cancel := context.WithTimeout(w.ctx, long)
			defer cancel()
			sum, err := client.ReconcileAll(ctx, rollup.ReconcileOptions{Resume: true})
			w.must(sum, err)
			time.Sleep(time.Hour)
			return sum
		}
		right := func(want int64) (n int) {
			for _, doc := range used {
				snap, err := doc.Get(w.ctx)
				w.must(snap, err)
				if total, _ := snap.DataAt("total"); total == want {
					n++
				}
			}
			return n
		}
		first := walk()
		if n := right(2); n != changed || first.Done {
			w.t.Errorf("%d of %d counters that were used are right after a walk: %+v", n, changed, first)
		}
		if *idleCounters > 10_000 { // the embedded server takes long to list so many
			return
		}
		for _, doc := range used { // again
			w.must(doc.Collection("shards").Doc("0").Set(w.ctx, map[string]any{"count": 3}))
			w.must(doc.Update(w.ctx, []firestore.Update{{Path: "title", Value: "changed"}}))
		}
		second := walk()
		if n := right(3); n != changed || second.Done || second.Seen < 2*changed {
			w.t.Errorf("%d of %d are right after the second one: %+v; want others looked at, too", n, changed, second)
		}
		if third := walk(); third.Repaired == 0 || third.Done {
			w.t.Errorf("the third one: %+v; want counters that no walk has looked at", third)
		}
	})
}

var mostVisitors = flag.Int("extension.visitors", 10_000, "visitors of the largest page")

// A click costs the same on a page of a million visitors as on one of few: what Firestore bills of it, one at a time
// and in a crowd.
func TestClicksOfManyVisitors(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		type cost struct{ reads, writes, deletes int64 }
		const clicks = 50
		alone := map[int]cost{}
		for visitors := 1_000; visitors <= *mostVisitors; visitors *= 10 {
			w := newWorld(t)
			s := w.succeeds()
			batch := w.fs.BulkWriter(w.ctx)
			for n := range visitors {
				_, err := batch.Set(s.inbox.Doc(fmt.Sprintf("visitor-%d", n)), map[string]any{"visits": 0, "likes": 0})
				w.must(nil, err)
				if n%400 == 399 {
					batch.Flush()
				}
			}
			batch.End()
			measured := func(do func()) cost {
				before := s.server.Stats()
				do()
				after := s.server.Stats()
				return cost{after.Reads - before.Reads, after.Writes - before.Writes, after.Deletes - before.Deletes}
			}
			dice := rand.New(rand.NewPCG(1, 1))
			click := func() {
				id := fmt.Sprint("visitor-", dice.IntN(visitors*11/10)) // some are new
				s.must(s.inbox.Doc(id).Set(s.ctx, map[string]any{"visits": firestore.Increment(1)}, firestore.MergeAll))
			}
			r := s.hears()
			click()
			time.Sleep(time.Hour)
			alone[visitors] = measured(func() {
				for range clicks {
					click()
					time.Sleep(2 * time.Second)
				}
			})
			s.shows(1001+clicks, 7)
			crowd := measured(func() {
				for range 10 * clicks {
					click()
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(2 * time.Second)
			})
			s.must(nil, r.Close(s.ctx))
			s.shows(1001+11*clicks, 7)
			each := func(c cost, clicks float64) string {
				return fmt.Sprintf("%.2f reads and %.2f writes", float64(c.reads)/clicks, float64(c.writes)/clicks)
			}
			t.Logf("%d visitors: one at a time a click costs %s; of 100 a second %s", visitors, each(alone[visitors], clicks), each(crowd, 10*clicks))
			if a := alone[visitors]; a != alone[1_000] {
				t.Errorf("%d visitors: %d clicks cost %+v, and %+v with 1,000", visitors, clicks, a, alone[1_000])
			}
		}
	})
}
