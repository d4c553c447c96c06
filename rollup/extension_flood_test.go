package rollup_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/rollup"
)

// A look at the extension's shards may read hundreds of them, which nobody may ever take: of many pages at once that
// owes no more than one of them takes.
func TestLooksAtTheExtensionsShardsAtTheSameTime(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		const pages, odd, reads = 64, 300, 6
		place := rollup.Place{Project: "p", Counters: "pages/{page}", Fields: "visits", Hosted: true, Extension: true}
		var changes []rollup.Change
		for p := range pages {
			page := w.fs.Doc(fmt.Sprint("pages/p", p))
			w.must(page.Set(w.ctx, map[string]any{"visits": 0}))
			inbox := page.Collection("_counter_shards_")
			for n := range odd {
				w.must(inbox.Doc(fmt.Sprint("odd-", n)).Set(w.ctx, map[string]any{"visits": 1e300}))
			}
			at, err := inbox.Doc("web").Set(w.ctx, map[string]any{"visits": 1})
			w.must(at, err)
			changes = append(changes, rollup.Change{Counter: page.ID, Extension: "web", Fields: []string{"_counter_shards_/web"}, At: at.UpdateTime})
		}
		r := w.rollsSlowly(place, ceiling.Rates{Reads: reads})
		began := time.Now()
		if least := w.leastLeft(reads, func(s emulator.Stats) int64 { return s.Reads }, r, changes); least < -2*odd {
			w.t.Errorf("%.0f reads were owed", -least)
		}
		if took := time.Since(began); took > 5*time.Minute {
			w.t.Errorf("%d roll-ups took %v", pages, took)
		}
		for p := range pages {
			doc, err := w.fs.Doc(fmt.Sprint("pages/p", p)).Get(w.ctx)
			if w.must(doc, err); doc.Data()["visits"] != int64(1) {
				w.t.Errorf("page %d shows %v", p, doc.Data()["visits"])
			}
		}
	})
}

// Idle shards of the extension's are deleted as there are writes for it.
func TestBudgetOfIdleShards(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		const pages, visitors, writes = 64, 60, 6
		place := rollup.Place{Project: "p", Counters: "pages/{page}", Fields: "visits", Hosted: true, Extension: true}
		for p := range pages {
			page := w.fs.Doc(fmt.Sprint("pages/p", p))
			w.must(page.Set(w.ctx, map[string]any{"visits": 0}))
			for n := range visitors {
				w.must(page.Collection("_counter_shards_").Doc(fmt.Sprint("idle-", n)).Set(w.ctx, map[string]any{"visits": 0}))
			}
		}
		time.Sleep(32 * 24 * time.Hour)
		var changes []rollup.Change
		for p := range pages {
			for n := range visitors {
				page, id := w.fs.Doc(fmt.Sprint("pages/p", p)), fmt.Sprint("web-", n)
				at, err := page.Collection("_counter_shards_").Doc(id).Set(w.ctx, map[string]any{"visits": 1})
				w.must(at, err)
				changes = append(changes, rollup.Change{Counter: page.ID, Extension: id, Fields: []string{"_counter_shards_/" + id}, At: at.UpdateTime})
			}
		}
		r := w.rollsSlowly(place, ceiling.Rates{Writes: writes})
		if least := w.leastLeft(writes, func(s emulator.Stats) int64 { return s.Writes + s.Deletes }, r, changes); least < -2*visitors {
			w.t.Errorf("%.0f writes were owed", -least)
		}
	})
}

// rollsSlowly is a roller with a full bucket, where questions and commits take long.
func (w *world) rollsSlowly(place rollup.Place, rates ceiling.Rates) *rollup.Roller {
	client, err := rollup.Open(w.ctx, rollup.Config{Place: place, Budget: ceiling.New(rates)}, option.WithGRPCConn(w.connect()))
	w.must(client, err)
	time.Sleep(ceiling.Holds)
	w.server.SetFaults(emulator.Faults{QueryLatency: 60 * time.Millisecond, CommitLatency: 100 * time.Millisecond})
	r := rollup.NewRoller(client, rollup.RollerOptions{})
	w.t.Cleanup(func() { _ = r.Close(w.ctx) })
	return r
}

// leastLeft is how much was left when least was, by what Firestore bills, until a roller with a full bucket has rolled
// up all changes.
func (w *world) leastLeft(second float64, spent func(emulator.Stats) int64, r *rollup.Roller, changes []rollup.Change) (least float64) {
	began, before := time.Now(), spent(w.server.Stats())
	var all sync.WaitGroup
	for _, change := range changes {
		all.Go(func() { w.must(nil, r.Add(w.ctx, change)) })
	}
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		earned := second * (ceiling.Holds + time.Since(began)).Seconds()
		least = min(least, earned-float64(spent(w.server.Stats())-before))
		select {
		case <-look.C:
		case <-over:
			return least
		}
	}
}

// A walk takes over what waits in the extension's shards as the budget allows, a commit at a time, however much waits.
func TestBudgetStretchesATakeOver(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		const clicks, writes, reads = 8000, 20, 40
		place := rollup.Place{Project: "p", Counters: "pages/{page}", Fields: "visits", Hosted: true, Extension: true}
		page := w.fs.Doc("pages/hello")
		w.must(page.Set(w.ctx, map[string]any{"visits": 0}))
		w.must(page.Collection("shards").Doc("0").Set(w.ctx, map[string]any{"visits": 1}))
		bulk := w.fs.BulkWriter(w.ctx)
		for n := range clicks {
			_, err := bulk.Set(page.Collection("_counter_shards_").Doc(fmt.Sprint("web-", n)), map[string]any{"visits": 1})
			w.must(nil, err)
		}
		bulk.End()
		w.openWith(rollup.Config{Place: place}).Apply(w.ctx, "hello", nil)
		client, err := rollup.Open(w.ctx, rollup.Config{Place: place, Budget: ceiling.New(ceiling.Rates{Writes: writes, Reads: reads})}, option.WithGRPCConn(w.connect()))
		w.must(client, err)
		client.Looks(false)
		began, before := time.Now(), w.server.Stats()
		for {
			ctx, cancel := context.WithTimeout(w.ctx, 240*time.Second)
			_, err := client.ReconcileAll(ctx, rollup.ReconcileOptions{Resume: true})
			cancel()
			w.must(nil, err)
			earned, s := (time.Since(began) + ceiling.Begins).Seconds(), w.server.Stats()
			if spent := float64(s.Writes + s.Deletes - before.Writes - before.Deletes); spent > writes*earned+1000 {
				w.t.Fatalf("%v documents were written in %v, want at most %v", spent, time.Since(began), writes*earned+1000)
			}
			if spent := float64(s.Reads - before.Reads); spent > reads*earned+2000 {
				w.t.Fatalf("%v documents were read in %v, want at most %v", spent, time.Since(began), reads*earned+2000)
			}
			doc, err := page.Get(w.ctx)
			before.Reads--
			if w.must(doc, err); doc.Data()["visits"] == int64(clicks+1) {
				break
			}
			if time.Sleep(time.Minute); time.Since(began) > time.Hour {
				w.t.Fatalf("after an hour the page shows %v", doc.Data()["visits"])
			}
		}
	})
}

// What can't be taken off the extension's shards is named, in few words: whoever writes hundreds of such shards, with
// long ids, would have the owner pay for lines of a megabyte, or have nothing else logged.
func TestOddShardsOfTheExtensionAreNamedInFewWords(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		s := w.succeeds()
		for n := range 300 {
			s.click(fmt.Sprint(strings.Repeat("\x01", 1000), n), map[string]any{"visits": 1e300, "likes": math.MaxInt64})
		}
		s.must(s.page.Collection("shards").Doc("0").Set(s.ctx, map[string]any{"visits": 1}))
		report, err := s.client.Reconcile(s.ctx, "hello", rollup.ReconcileOptions{})
		if s.must(nil, err); len(report.Problem) > 2000 || !strings.Contains(report.Problem, "set it right") {
			t.Errorf("a problem of %d bytes: %.1000s", len(report.Problem), report.Problem)
		}
	})
}
