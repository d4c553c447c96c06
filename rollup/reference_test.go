package rollup_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
)

const referringFields = "likes,comments=count(/comments where post=={post}),public=count(/comments where post=={post} and public==true)," +
	"stars=sum(**/reviews.stars where of.post=={post}),rating=avg(**/reviews.stars where of.post=={post})"

var referring = rollup.Config{Place: rollup.Place{Project: "p", Counters: "posts/{post}", Fields: referringFields, Hosted: true}}

// A document names the post that it belongs to, by its id, its path or a reference. What happens to
// it is counted at the post that it named before, and at the one that it names now.
func TestByReference(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		c := newCounting(t, referring)
		r := c.roller(rollup.RollerOptions{Interval: 10 * time.Millisecond})
		a, b := c.fs.Doc("posts/a"), c.fs.Doc("posts/b")
		c.set("posts/a", map[string]any{})
		c.set("posts/b", map[string]any{})
		c.set("comments/1", map[string]any{"post": "a", "public": true})
		c.set("comments/2", map[string]any{"post": "posts/a"})
		c.set("comments/3", map[string]any{"post": a, "public": true})
		c.set("comments/4", map[string]any{"post": b})
		c.set("reviews/1", map[string]any{"of": map[string]any{"post": "a"}, "stars": 5})
		c.set("users/u/reviews/2", map[string]any{"of": map[string]any{"post": a}, "stars": 2})
		c.set("users/u/reviews/3", map[string]any{"of": map[string]any{"post": "posts/b"}, "stars": 4})
		c.deliver(r, c.happened()...)
		c.holds("posts/a", map[string]any{"comments": int64(3), "public": int64(2), "stars": int64(7), "rating": 3.5})
		c.holds("posts/b", map[string]any{"comments": int64(1), "public": int64(0), "stars": int64(4), "rating": 4.0})

		// From one to the other, in another form, and back to the same.
		c.set("comments/1", map[string]any{"post": b})
		c.set("comments/2", map[string]any{"post": "a", "public": true})
		c.set("users/u/reviews/3", map[string]any{"of": map[string]any{"post": a}, "stars": 4})
		moves := c.happened()
		if len(moves) != 5 { // two for each that moves
			t.Errorf("%d changes: %+v", len(moves), moves)
		}
		c.deliver(r, moves...)
		c.holds("posts/a", map[string]any{"comments": int64(2), "public": int64(2), "stars": int64(11)})
		c.holds("posts/b", map[string]any{"comments": int64(2), "public": int64(0), "stars": int64(0), "rating": nil})
		c.deliver(r, moves...) // once more
		c.holds("posts/a", map[string]any{"comments": int64(2), "public": int64(2), "stars": int64(11)})

		// To nobody, and to a post that isn't there, for which nothing is made.
		for i, post := range []any{nil, "", 7, "..", "pages/a", c.fs.Doc("pages/a"), c.fs.Doc("posts/a/comments/c"), []any{"a"}, "gone", c.fs.Doc("posts/gone")} {
			c.set("comments/1", map[string]any{"post": post})
			c.set("comments/none", map[string]any{"post": post})
			c.deliver(r, c.happened()...)
			c.holds("posts/b", map[string]any{"comments": int64(1)})
			c.set("comments/1", map[string]any{"post": "b", "n": i})
			c.must(c.fs.Doc("comments/none").Delete(c.ctx))
			c.deliver(r, c.happened()...)
			c.holds("posts/b", map[string]any{"comments": int64(2)})
		}
		if docs, err := c.fs.Doc("posts/gone").Collection("counter_rollup").Documents(c.ctx).GetAll(); err != nil || len(docs) > 0 {
			t.Errorf("a post that isn't there has got %d documents, %v", len(docs), err)
		}
		// Once it is there, the next event, or a reconcile by name, brings all.
		c.set("comments/early", map[string]any{"post": "late"})
		c.deliver(r, c.happened()...)
		c.set("posts/late", map[string]any{})
		if _, err := c.client.Reconcile(c.ctx, "late", rollup.ReconcileOptions{}); err != nil {
			t.Fatal(err)
		}
		c.holds("posts/late", map[string]any{"comments": int64(1), "likes": int64(0)})

		// An event without its data is of the post that the document names now.
		tell := func(path string) {
			t.Helper()
			changes, err := c.client.Named(path)
			if err == nil {
				err = r.Add(c.ctx, changes...)
			}
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		c.set("comments/large", map[string]any{"post": b})
		c.happened()
		tell("comments/large")
		c.holds("posts/b", map[string]any{"comments": int64(3)})
		c.must(c.fs.Doc("comments/large").Delete(c.ctx))
		c.happened()
		tell("comments/large") // whose it was is not known
		c.holds("posts/b", map[string]any{"comments": int64(3)})
		if _, err := c.client.Reconcile(c.ctx, "b", rollup.ReconcileOptions{}); err != nil {
			t.Fatal(err)
		}
		c.holds("posts/b", map[string]any{"comments": int64(2)})
	})
}

// A counter of a path without wildcards shows what a whole collection, or a group, comes to, and is
// found by every reconcile.
func TestWholeCounter(t *testing.T) {
	t.Parallel()
	for _, hosted := range []bool{false, true} {
		virtual.Run(t, fmt.Sprint("hosted=", hosted), func(t *testing.T) {
			c := newCounting(t, rollup.Config{Place: rollup.Place{Project: "p", Counters: "stats/site", Fields: "visits,users=count(/users),comments=count(**/comments)", Hosted: hosted}})
			r := c.roller(rollup.RollerOptions{Interval: 10 * time.Millisecond})
			c.set("stats/site", map[string]any{})
			c.set("stats/other", map[string]any{})
			for i := range 3 {
				c.set(fmt.Sprint("users/", i), map[string]any{})
				c.set(fmt.Sprintf("posts/%d/comments/c", i), map[string]any{})
			}
			c.set("comments/c", map[string]any{})
			c.deliver(r, c.happened()...)
			c.holds("stats/site", map[string]any{"users": int64(3), "comments": int64(4), "visits": int64(0)})
			c.set("stats/site/shards/0", map[string]any{"visits": 5})
			c.shardEvents(r, "stats/site/shards/0")
			c.holds("stats/site", map[string]any{"users": int64(3), "visits": int64(5)})

			c.must(c.fs.Doc("users/1").Delete(c.ctx))
			c.happened() // and lost
			sum, err := c.client.ReconcileAll(c.ctx, rollup.ReconcileOptions{RecountAge: time.Nanosecond})
			if err != nil || sum.Seen != 1 || !sum.Done || sum.Failed > 0 {
				t.Errorf("reconcile = %+v, %v", sum, err)
			}
			c.holds("stats/site", map[string]any{"users": int64(2), "comments": int64(4), "visits": int64(5)})
			if other := c.get("stats/other"); len(other) > 0 {
				t.Errorf("another document holds %v", other)
			}
		})
	}
}

var referenceOperations = flag.Int("reference.operations", 700, "creations, moves, edits and deletions of TestReferencesThroughFaults")

// Documents that name one of 20 posts are made, moved from one to the other, edited and deleted at
// random, with events that come twice, late, in any order, and some never, and instances that die.
// When it is quiet, each field is what a fresh query says; where an event was lost, it is once a
// reconcile of the posts that it was of has come by.
func TestReferencesThroughFaults(t *testing.T) {
	t.Parallel()
	for _, drop := range []float64{0, 0.02} {
		t.Run(fmt.Sprintf("drop=%v", drop), func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(w *world) { referThroughFaults(w, drop) })
		})
	}
}

func referThroughFaults(w *world, drop float64) {
	const posts = 20
	c := w.counting(referring)
	for p := range posts {
		c.set(fmt.Sprintf("posts/%d", p), map[string]any{"title": "hello"})
	}
	shaken := c.shake(3, drop)
	refer := func() any {
		p := fmt.Sprint(w.rand.IntN(posts))
		switch w.rand.IntN(10) {
		case 0:
			return nil
		case 1, 2, 3:
			return "posts/" + p
		case 4, 5, 6:
			return c.fs.Doc("posts/" + p)
		}
		return p
	}
	var documents []string
	for n := range *referenceOperations {
		post := refer()
		data := map[string]any{"post": post, "of": map[string]any{"post": post}, "public": w.rand.IntN(2) == 0, "stars": w.rand.IntN(6)}
		switch at := w.rand.IntN(20); {
		case at < 8 || len(documents) == 0:
			path := fmt.Sprintf([]string{"comments/%d", "reviews/%d", "users/u/reviews/%d"}[w.rand.IntN(3)], n)
			documents = append(documents, path)
			c.set(path, data)
		case at < 14: // most of these move
			c.set(documents[w.rand.IntN(len(documents))], data)
		case at < 15: // two that change places
			one, other := documents[w.rand.IntN(len(documents))], documents[w.rand.IntN(len(documents))]
			if one == other {
				continue
			}
			w.commit(func(tx *firestore.Transaction) error {
				snaps, err := tx.GetAll([]*firestore.DocumentRef{c.fs.Doc(one), c.fs.Doc(other)})
				if err != nil {
					return err
				}
				if err := tx.Set(snaps[0].Ref, snaps[1].Data()); err != nil {
					return err
				}
				return tx.Set(snaps[1].Ref, snaps[0].Data())
			})
		default:
			i := w.rand.IntN(len(documents))
			c.must(c.fs.Doc(documents[i]).Delete(c.ctx))
			documents = append(documents[:i], documents[i+1:]...)
		}
		if n%500 == 499 {
			shaken.kill()
		}
		time.Sleep(time.Duration(w.rand.IntN(10)) * time.Millisecond)
	}
	shaken.calm()
	check := func(left func(post string) bool) (checked int) {
		for p := range posts {
			post := fmt.Sprint("posts/", p)
			if left(fmt.Sprint(p)) {
				continue
			}
			checked++
			ways := []any{fmt.Sprint(p), post, c.fs.Doc(post)}
			comments, reviews := c.fs.Collection("comments").Where("post", "in", ways), c.fs.CollectionGroup("reviews").Where("of.post", "in", ways)
			public := comments.Where("public", "==", true)
			is := c.get(post)
			for field, q := range map[string]*firestore.AggregationQuery{
				"comments": comments.NewAggregationQuery().WithCount("n"),
				"public":   public.NewAggregationQuery().WithCount("n"),
				"stars":    reviews.NewAggregationQuery().WithSum("stars", "n"),
				"rating":   reviews.NewAggregationQuery().WithAvg("stars", "n"),
			} {
				result, err := q.Get(c.ctx)
				if err != nil {
					w.t.Fatal(err)
				}
				var want any
				switch v := result["n"].(*firestorepb.Value).GetValueType().(type) {
				case *firestorepb.Value_IntegerValue:
					want = v.IntegerValue
				case *firestorepb.Value_DoubleValue:
					want = v.DoubleValue
				}
				if is[field] != want {
					w.t.Errorf("%s of %s is %v, want %v", field, post, is[field], want)
				}
			}
		}
		return checked
	}
	right := check(shaken.lacks)
	w.t.Logf("%d events, %d of them lost, %d commits; %d of %d posts have lost none, and are right",
		shaken.events.Load(), shaken.lost.Load(), shaken.commits.Load(), right, posts)
	shaken.mend()
	check(func(string) bool { return false })
}
