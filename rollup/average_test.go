package rollup_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
)

const averageFields = "likes,rating=avg(ratings.stars),n=count(ratings),stars=sum(ratings.stars),score=sum(ratings.score) as double"

// averaged is what Firestore says of a collection by itself: its average and the sum of its scores. Of nothing that is
// 0 for us, also where it is null in Enterprise edition.
func (c *counting) averaged(collection string) (rating, score any) {
	c.t.Helper()
	query := c.fs.Collection(collection).NewAggregationQuery().WithAvg("stars", "rating")
	one, err := query.Get(c.ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	two, err := c.fs.Collection(collection).NewAggregationQuery().WithSum("score", "score").Get(c.ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	number := func(v any) any {
		switch n := v.(*firestorepb.Value).GetValueType().(type) {
		case *firestorepb.Value_DoubleValue:
			return n.DoubleValue
		case *firestorepb.Value_IntegerValue:
			return float64(n.IntegerValue)
		}
		return nil
	}
	if score = number(two["score"]); score == nil {
		score = 0.0
	}
	return number(one["rating"]), score
}

// shardEvents delivers what has happened to a shard.
func (c *counting) shardEvents(r *rollup.Roller, path string) {
	c.t.Helper()
	change, err := c.client.Named(path)
	if err != nil {
		c.t.Fatal(err)
	}
	c.deliver(r, change...)
}

// An average is a double, null of none, and beside it count and sum stay integers. What Firestore
// says at the same moment is what the document shows.
func TestAverages(t *testing.T) {
	t.Parallel()
	ours := rollup.Config{Place: rollup.Place{Project: "p", Fields: averageFields}}
	hosted := rollup.Config{Place: rollup.Place{Project: "p", Counters: "posts/{post}", Fields: averageFields, Hosted: true}}
	for _, world := range []struct {
		path       string
		cfg        rollup.Config
		enterprise bool
	}{{"counters/c", ours, false}, {"posts/c", hosted, false}, {"posts/c", hosted, true}} {
		path := world.path
		virtual.Run(t, fmt.Sprintf("%s, enterprise %t", path, world.enterprise), func(t *testing.T) {
			c := newWorldWith(t, emulator.Options{Enterprise: world.enterprise}).counting(world.cfg)
			r := c.roller(rollup.RollerOptions{Interval: 10 * time.Millisecond})
			c.set(path, map[string]any{"rating": nil, "score": 3})
			c.set(path+"/ratings/0", map[string]any{"text": "no stars"})
			c.deliver(r, c.happened()...)
			c.holds(path, map[string]any{"rating": nil, "n": int64(1), "stars": int64(0), "score": 0.0})
			if _, there := c.get(path)["rating"]; !there {
				t.Error("the average of none is not in the document")
			}
			for i := range 60 {
				rating := fmt.Sprint(path, "/ratings/", c.rand.IntN(8))
				if i%5 == 4 {
					c.must(c.fs.Doc(rating).Delete(c.ctx))
				} else {
					c.set(rating, map[string]any{"stars": c.rand.IntN(5) + 1, "score": c.rand.Float64()})
				}
				if i%7 == 0 { // an increment of a shard is flushed with it
					c.must(c.fs.Doc(path+"/shards/0").Set(c.ctx, map[string]any{"likes": firestore.Increment(1)}, firestore.MergeAll))
					c.shardEvents(r, path+"/shards/0")
				}
				c.deliver(r, c.happened()...)
				rating_, score := c.averaged(path + "/ratings")
				c.holds(path, map[string]any{"rating": rating_, "score": score})
			}
			c.holds(path, map[string]any{"likes": int64(9)})

			// Another program's number is gone after the next event, or with a reconcile.
			rating, score := c.averaged(path + "/ratings")
			for _, wrong := range []any{nil, 7, math.NaN(), firestore.Delete} {
				c.must(c.fs.Doc(path).Set(c.ctx, map[string]any{"rating": wrong, "score": wrong}, firestore.MergeAll))
				c.must(c.fs.Doc(path+"/shards/0").Set(c.ctx, map[string]any{"likes": firestore.Increment(1)}, firestore.MergeAll))
				c.shardEvents(r, path+"/shards/0")
				for began := time.Now(); c.get(path)["score"] != score && time.Since(began) < 10*time.Second; { // asked for beside the event
					time.Sleep(5 * time.Millisecond)
				}
				c.holds(path, map[string]any{"rating": rating, "score": score})
				c.must(c.fs.Doc(path).Set(c.ctx, map[string]any{"rating": wrong, "score": wrong}, firestore.MergeAll))
				report, err := c.client.Reconcile(c.ctx, "c", rollup.ReconcileOptions{})
				if err != nil || *report.Doubles["rating"].After != rating {
					t.Errorf("reconcile after %v = %+v, %v", wrong, report, err)
				}
				c.holds(path, map[string]any{"rating": rating, "score": score, "n": c.get(path)["n"]})
			}
			if report, err := c.client.Reconcile(c.ctx, "c", rollup.ReconcileOptions{}); err != nil || report.Repaired() {
				t.Errorf("reconcile of what is right = %+v, %v", report, err)
			}

			// What is no number that JSON has is shown as it is.
			c.set(path+"/ratings/nan", map[string]any{"stars": math.NaN(), "score": math.Inf(1)})
			c.deliver(r, c.happened()...)
			doc := c.get(path)
			if rating, _ := doc["rating"].(float64); !math.IsNaN(rating) || doc["score"] != math.Inf(1) {
				t.Errorf("rating %v and score %v, want NaN and +Inf", doc["rating"], doc["score"])
			}
			if report, err := c.client.Reconcile(c.ctx, "c", rollup.ReconcileOptions{}); err != nil || report.Repaired() {
				t.Errorf("reconcile of NaN = %+v, %v", report, err)
			}
		})
	}
}
