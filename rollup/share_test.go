package rollup_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
)

// shared is what a counter's document met under a load.
type shared struct {
	commits int64 // on it
	worst   time.Duration
	total   map[string]any
}

// underLoad adds two likes and half a comment a second for some minutes, on documents that take one
// write a second, and has every event rolled up, with the fields given.
func underLoad(t *testing.T, fields string) (got shared) {
	t.Helper()
	inVirtualTime(t, func(w *world) {
		client := w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Counters: "posts/{post}", Fields: fields, Hosted: true}})
		post := w.fs.Doc("posts/p")
		w.must(post.Set(w.ctx, map[string]any{"title": "Hello"}))
		w.server.SetFaults(emulator.Faults{DocWriteRate: 1, CommitLatency: 20 * time.Millisecond})
		roller := rollup.NewRoller(client, rollup.RollerOptions{})
		var commits, worst atomic.Int64
		var deliveries sync.WaitGroup
		defer w.server.OnChange(func(c emulator.Change) {
			if strings.HasSuffix(c.Name, "/documents/posts/p") {
				commits.Add(1)
				return
			}
			_, body, err := eventarc.Encode("id", c)
			if err != nil {
				t.Error(err)
			}
			changes, err := client.Decode("application/protobuf", body)
			if err != nil {
				return // of no counter
			}
			happened := time.Now()
			deliveries.Go(func() {
				time.Sleep(50 * time.Millisecond) // in transit
				for roller.Add(context.WithoutCancel(w.ctx), changes...) != nil {
					time.Sleep(10 * time.Second)
				}
				if changes[0].Shard != "" {
					late := int64(time.Since(happened))
					for was := worst.Load(); late > was && !worst.CompareAndSwap(was, late); was = worst.Load() {
					}
				}
			})
		})()
		var writers sync.WaitGroup
		r := rand.New(rand.NewPCG(1, 1))
		for i := range 4 * 220 {
			time.Sleep(250 * time.Millisecond)
			shard, comments := post.Collection("shards").Doc(fmt.Sprint(r.IntN(10))), post.Collection("comments")
			writers.Go(func() {
				if i%2 == 0 {
					_, _ = shard.Set(w.ctx, map[string]any{"likes": firestore.Increment(1)}, firestore.MergeAll)
				}
				if i%8 == 0 {
					_, _ = comments.NewDoc().Create(w.ctx, map[string]any{})
				}
			})
		}
		writers.Wait()
		w.arrived()
		deliveries.Wait()
		if err := roller.Close(w.ctx); err != nil {
			t.Error(err)
		}
		snap, err := post.Get(w.ctx)
		w.must(nil, err)
		got = shared{commits: commits.Load(), worst: time.Duration(worst.Load()), total: snap.Data()}
	})
	return got
}

// What a query says goes with the refresh of the shards: a document that shows likes and comments is
// written as often as one that shows likes alone, and its likes are no later.
func TestAnswersShareTheRefreshOfShards(t *testing.T) {
	t.Parallel()
	likes, both := underLoad(t, "likes"), underLoad(t, "likes,comments=count(comments)")
	t.Logf("commits on the document: %d with likes, %d with comments beside them (%.2f); the latest event: %v and %v (%.2f)",
		likes.commits, both.commits, float64(both.commits)/float64(likes.commits), likes.worst, both.worst, both.worst.Seconds()/likes.worst.Seconds())
	if most := likes.commits + likes.commits/20; both.commits > most {
		t.Errorf("%d commits for likes and comments, and %d for likes alone", both.commits, likes.commits)
	}
	if likes.total["likes"] != both.total["likes"] || both.total["comments"] != int64(110) {
		t.Errorf("%v and %v", likes.total, both.total)
	}
}

// A counter, or any part of its path, may be called as a collection of ours is.
func TestReconcileFindsCountersOfOddNames(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for pattern, ids := range map[string][]string{
			"teams/{team}/posts/{post}": {"counter_rollup/counter_rollup", "counter_rollup/base", "base/counter_rollup", "red/shards"},
			"pages/{page}":              {"counter_rollup", "base"},
		} {
			hosted := !strings.Contains(pattern, "teams")
			client := w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Counters: pattern, Hosted: hosted}})
			for _, id := range ids {
				path := "pages/" + id
				if !hosted {
					team, post, _ := strings.Cut(id, "/")
					path = "teams/" + team + "/posts/" + post
				}
				w.must(w.fs.Doc(path).Set(w.ctx, map[string]any{"num_shards": 1}))
				w.must(w.fs.Doc(path+"/shards/0").Set(w.ctx, map[string]any{"count": 3}))
				if _, err := client.Reconcile(w.ctx, id, rollup.ReconcileOptions{}); err != nil {
					t.Fatal(err)
				}
				// whose event is lost
				w.must(w.fs.Doc(path+"/shards/0").Set(w.ctx, map[string]any{"count": 5}))
			}
			var seen []string
			sum, err := client.ReconcileAll(w.ctx, rollup.ReconcileOptions{Report: func(r rollup.Report, _ error) { seen = append(seen, r.Counter) }})
			slices.Sort(seen)
			slices.Sort(ids)
			if err != nil || sum.Repaired != len(ids) || !slices.Equal(seen, ids) {
				t.Errorf("%s: %+v, %v; seen %q, want %q", pattern, sum, err, seen, ids)
			}
		}
	})
}

// An instance that refreshes a counter once an interval shows only fields of which it has events: no other one leaves
// its own to it.
func TestAFieldOfWhichOthersKnowNothing(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(5)
		w.apply(w.arrived()...)
		w.server.SetFaults(emulator.Faults{CommitLatency: 10 * time.Millisecond, QueryLatency: 20 * time.Millisecond})
		busy, other := w.roller(rollup.RollerOptions{}), rollup.NewRoller(w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: "total=count,likes"}}), rollup.RollerOptions{})
		defer other.Close(w.ctx)
		var deliveries sync.WaitGroup
		for i := range 200 {
			time.Sleep(50 * time.Millisecond)
			w.inc(i%5, 1)
			event := w.arrived()[0]
			deliveries.Go(func() { w.must(nil, busy.Add(w.ctx, event)) })
			if i != 100 {
				continue
			}
			shard := w.counter().Collection("shards").Doc("0")
			wrote, err := shard.Set(w.ctx, map[string]any{"likes": 1}, firestore.MergeAll)
			w.must(wrote, err)
			w.arrived()
			liked := rollup.Change{Counter: w.id, Shard: "0", Fields: []string{"likes"}, At: wrote.UpdateTime}
			deliveries.Go(func() {
				began := time.Now()
				if w.must(nil, other.Add(w.ctx, liked)); time.Since(began) > 1500*time.Millisecond {
					w.t.Errorf("shown after %v", time.Since(began))
				}
			})
		}
		deliveries.Wait()
		w.total(200)
	})
}
