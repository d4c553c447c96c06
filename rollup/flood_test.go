package rollup_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// Whoever writes documents so large that their events come without them has each looked up, which is a read. These are
// promised like any other, or an hour of such events, which come again while they are refused, would keep all totals
// from being shown for days.
func TestBudgetOfEventsWithoutTheirData(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		const large, reads = 3000, 6
		place := rollup.Place{Project: "p", Counters: "posts/{post}", Fields: "likes,comments=count(/comments where post=={post})", Hosted: true}
		for _, post := range []string{"flooded", "honest"} {
			w.must(w.fs.Doc("posts/"+post).Set(w.ctx, map[string]any{"title": post}))
		}
		w.must(w.fs.Doc("posts/honest/shards/0").Set(w.ctx, map[string]any{"likes": 1}))
		for n := range large {
			w.must(w.fs.Doc(fmt.Sprint("comments/", n)).Set(w.ctx, map[string]any{"post": "flooded"}))
		}
		client, err := rollup.Open(w.ctx, rollup.Config{Place: place, Budget: ceiling.New(ceiling.Rates{Reads: reads})}, option.WithGRPCConn(w.connect()))
		w.must(client, err)
		r := rollup.NewRoller(client, rollup.RollerOptions{})
		w.t.Cleanup(func() { _ = r.Close(w.ctx) })
		began, before := time.Now(), w.server.Stats().Reads
		var all sync.WaitGroup
		deliver := func(change rollup.Change) {
			all.Go(func() {
				for {
					ctx, cancel := context.WithTimeout(w.ctx, 55*time.Second)
					err := r.Add(ctx, change)
					if cancel(); err == nil || time.Since(began) > 2*time.Hour {
						return
					}
					time.Sleep(time.Minute)
				}
			})
		}
		for n := range large {
			deliver(rollup.Change{Fields: []string{"comments"}, Collection: "/comments where post=={post}", Document: fmt.Sprint("comments/", n)})
			time.Sleep(20 * time.Millisecond)
		}
		liked := time.Now()
		deliver(rollup.Change{Counter: "honest", Shard: "0", Fields: []string{"likes"}, At: liked})
		for shown := false; !shown && time.Since(liked) < time.Hour; time.Sleep(time.Second) {
			doc, err := w.fs.Doc("posts/honest").Get(w.ctx)
			before++
			w.must(doc, err)
			shown = doc.Data()["likes"] == int64(1)
		}
		if waited := time.Since(liked); waited > time.Minute {
			w.t.Errorf("a like waited for %v", waited)
		}
		if spent, most := w.server.Stats().Reads-before, reads*(time.Since(began)+ceiling.Begins).Seconds()+20; float64(spent) > most {
			w.t.Errorf("%d documents were read in %v, want at most %.0f", spent, time.Since(began), most)
		}
		all.Wait()
	})
}

// A read of a ceiling is priced as four units of Enterprise edition, where a sum scans all shards. So many are spent as
// that takes, however long the counter's id is, and of however many fields.
func TestScansOfLongShardsAreSpent(t *testing.T) {
	t.Parallel()
	const scannedUnits = 4
	for _, c := range []struct{ fields, id, shards int }{{1, 5, 10}, {1, 5, 100}, {1, 5, 1000}, {20, 5, 100}, {1, 1400, 10}, {1, 1400, 100}, {20, 1400, 100}} {
		t.Run(fmt.Sprintf("%d fields, %d shards, ids of %d bytes", c.fields, c.shards, c.id), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorldWith(t, emulator.Options{Enterprise: true})
				place, id := rollup.Place{Project: "p", Fields: fieldsOf(c.fields)}, strings.Repeat("x", c.id)
				budget := ceiling.New(ceiling.Rates{Reads: 1e6})
				counting, err := shards.Open(w.ctx, shards.Config{Place: shards.Place(place), Budget: budget, AutoCreate: true, NumShards: c.shards}, option.WithGRPCConn(w.connect()))
				w.must(counting, err)
				defer counting.Close()
				counter, err := counting.Counter(id)
				w.must(nil, err)
				w.must(nil, counter.Create(w.ctx, shards.CreateOptions{}))
				budget.Tell(0)
				before := w.server.Stats().ReadUnits
				w.must(counter.Sum(w.ctx))
				spent, _ := budget.Tell(0)
				if units := w.server.Stats().ReadUnits - before; float64(units) > scannedUnits*spent.Spent[ceiling.Reads] {
					t.Errorf("%v reads are spent on %d units", spent.Spent[ceiling.Reads], units)
				}
			})
		})
	}
}
