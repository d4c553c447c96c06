package rollup_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/rollup"
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
