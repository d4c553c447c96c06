package rollup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
)

// The embedded Firestore rolls up as Google's emulator does: see TestOfficialRollsUp.
func TestEmbeddedRollsUp(t *testing.T) {
	rollsUpInVirtualTime(t, emulator.Options{})
}

// In Enterprise edition the sum of nothing is null, and transactions fail at their commit: totals are the same.
func TestEnterpriseRollsUp(t *testing.T) {
	rollsUpInVirtualTime(t, emulator.Options{Enterprise: true})
}

func rollsUpInVirtualTime(t *testing.T, opts emulator.Options) {
	t.Helper()
	virtual.Test(t, func(t *testing.T) {
		rollsUp(t, virtual.StartWith(t, opts).Conn(), func(name string, walk func(*testing.T, bool)) {
			t.Log(name)
			walk(t, true)
		})
	})
}

// ground is a post in some Firestore, and an instance that rolls it up.
type ground struct {
	t       *testing.T
	fs      *firestore.Client
	client  *Client
	virtual bool // time passes where something waits, and nowhere else
	counter string
	last    time.Time // when something was written last
}

func (g *ground) must(_ any, err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *ground) doc(below string) *firestore.DocumentRef {
	return g.fs.Doc("posts/" + g.counter + below)
}

// set sets a document of the post's; nil deletes it.
func (g *ground) set(below string, fields map[string]any) {
	g.t.Helper()
	var wrote *firestore.WriteResult
	var err error
	if fields == nil {
		wrote, err = g.doc(below).Delete(g.t.Context())
	} else {
		wrote, err = g.doc(below).Set(g.t.Context(), fields)
	}
	g.must(wrote, err)
	g.last = wrote.UpdateTime
}

// count sets a shard, and an instance is told of it.
func (g *ground) count(shard int, likes, views any) {
	g.t.Helper()
	g.set(fmt.Sprint("/shards/", shard), map[string]any{"likes": likes, "views": views})
	g.told(g.client)
}

func (g *ground) told(by *Client) {
	g.t.Helper()
	g.must(by.Apply(g.t.Context(), g.counter, []Change{{Counter: g.counter, Fields: []string{"likes", "views"}, At: g.last}}))
}

// has fails unless the post has these fields, beside our map.
func (g *ground) has(want map[string]any) {
	g.t.Helper()
	snap, err := g.doc("").Get(g.t.Context())
	g.must(snap, err)
	got := snap.Data()
	delete(got, "counter_rollup")
	if diff := cmp.Diff(want, got); diff != "" {
		g.t.Errorf("the post (-want +got)\n%s", diff)
	}
}

// rollsUp holds a Firestore to what a roll-up needs of it, by walks that are run one after the other.
func rollsUp(t *testing.T, conn *grpc.ClientConn, run func(name string, walk func(t *testing.T, virtual bool))) {
	t.Helper()
	ctx := t.Context()
	fs, err := firestore.NewClient(ctx, "p", option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Place: Place{Project: "p", Counters: "posts/{post}", Fields: "likes,views,comments=count(comments)", Hosted: true}}
	open := func() *Client {
		c, err := Open(ctx, cfg, option.WithGRPCConn(conn))
		if err != nil {
			t.Fatal(err)
		}
		c.Looks(false)
		return c
	}
	all := func(likes, views int64) map[string]any {
		return map[string]any{"title": "Hello", "likes": likes, "views": views}
	}
	for n, tt := range []struct {
		name string
		walk func(g *ground)
	}{
		{"shards come, change, and go", func(g *ground) {
			g.count(0, 5, 1)
			g.has(all(5, 1))
			g.count(1, -7, 2)
			g.has(all(-2, 3))
			g.set("/shards/0", nil)
			g.told(g.client)
			g.has(all(-7, 2))
		}},
		{"what is no integer", func(g *ground) {
			g.count(0, 5, 1)
			g.count(1, "many", 0.5)
			g.has(all(5, 1))
			g.count(2, nil, 0.5)
			g.has(all(5, 2))
			g.count(3, math.NaN(), 1)
			g.has(all(5, 3))
			g.count(3, int64(math.MaxInt64), 1) // and with the 5 it is more
			g.has(all(5, 3))
			g.count(3, 1, 1)
			g.has(all(6, 3))
		}},
		{"what is no number in a slow counter", func(g *ground) {
			g.count(0, 5, 1)
			g.has(all(5, 1))
			for n := range int64(3) {
				m, ok := g.client.memories.Get(g.counter)
				if !ok {
					g.t.Fatal("the counter is forgotten")
				}
				m.bound = bound{since: time.Now(), slow: true, events: quiet} // its shards are listed
				g.count(1, math.NaN(), 1)
				g.count(0, 5+n, 1)
				g.has(all(5+n, 2))
			}
		}},
		{"a slow counter's sums are bounded", func(g *ground) {
			for n := range 3 {
				g.count(n, 100, 100)
			}
			g.has(all(300, 300))
			m, ok := g.client.memories.Get(g.counter)
			if !ok {
				g.t.Fatal("the counter is forgotten")
			}
			m.bound.slow, m.bound.events = true, quiet
			g.count(0, 102, 100)
			g.has(all(302, 300))
			if len(m.bound.least) != 2 {
				g.t.Errorf("%+v is remembered, want the least numbers", m)
			}
			g.count(0, 200, 100)
			g.has(all(400, 300))
			g.count(1, 3, 100)
			g.has(all(303, 300))
			g.count(3, 1, 1)
			g.has(all(304, 301))
			g.count(2, "many", 100)
			g.has(all(204, 301))
			g.count(2, 0.5, 100)
			g.has(all(204, 301))
			g.set("/shards/1", nil)
			g.told(g.client)
			g.has(all(201, 201))
		}},
		{"another instance, and the app, were faster", func(g *ground) {
			other := open()
			g.count(0, 1, 1)
			g.set("/shards/0", map[string]any{"likes": 2, "views": 2})
			g.told(other)
			g.count(0, 3, 3) // on condition of a version that is no more
			g.has(all(3, 3))
			g.must(g.doc("").Update(ctx, []firestore.Update{{Path: "likes", Value: 77}}))
			g.count(0, 4, 4)
			g.has(all(4, 4))
			g.set("", map[string]any{"title": "Hello"})
			g.count(0, 5, 5)
			g.has(map[string]any{"title": "Hello", "likes": int64(5), "views": int64(5)})
		}},
		{"only numbers are replaced", func(g *ground) {
			g.set("", map[string]any{"title": "Hello", "likes": []any{"a"}, "views": nil})
			g.count(0, 1, 1)
			g.has(map[string]any{"title": "Hello", "likes": []any{"a"}, "views": int64(1)})
		}},
		{"a command beside increments", func(g *ground) {
			g.count(0, 5, 1)
			g.must(nil, g.client.books.Edit(ctx, g.counter, func(ctx context.Context, e *book.Edit) (bool, error) {
				field, _ := g.client.db.Layout.Field("likes")
				return true, e.SetTotal(ctx, field, 100)
			}))
			g.has(all(100, 1))
			g.count(0, 7, 2)
			g.has(all(102, 2))
		}},
		{"a document that is gone", func(g *ground) {
			g.count(0, 5, 1)
			g.set("", nil)
			g.count(0, 6, 2)
			if _, err := g.doc("").Get(ctx); err == nil {
				g.t.Error("an app's document is made")
			}
			g.set("", map[string]any{"title": "Hello"})
			g.count(0, 7, 2)
			g.has(all(7, 2))
		}},
		{"a reconcile", func(g *ground) {
			g.set("/shards/0", map[string]any{"likes": 5, "views": "many"})
			g.set("/comments/a", map[string]any{})
			for n := range 2 {
				r, err := g.client.Reconcile(ctx, g.counter, ReconcileOptions{})
				if err != nil || r.Problem == "" || (r.Late != 0) != (n == 0) {
					g.t.Errorf("%+v, %v; want that it shows the total once, and names the text", r, err)
				}
				g.has(map[string]any{"title": "Hello", "likes": int64(5), "views": int64(0), "comments": int64(1)})
			}
			sum, err := g.client.ReconcileAll(ctx, ReconcileOptions{})
			if err != nil || !sum.Done || sum.Seen == 0 || sum.Failed > 0 {
				g.t.Errorf("all: %+v, %v", sum, err)
			}
		}},
		{"counted documents, and several events at once", func(g *ground) {
			r := NewRoller(g.client, RollerOptions{Interval: 10 * time.Millisecond, RecountMax: 10 * time.Millisecond})
			defer func() { g.must(nil, r.Close(ctx)) }()
			g.set("/comments/a", map[string]any{})
			first := g.last
			g.set("/shards/0", map[string]any{"likes": 1, "views": 1})
			changes := []Change{
				{Counter: g.counter, Fields: []string{"comments"}, Collection: "comments", Document: "a", At: first},
				{Counter: g.counter, Fields: []string{"likes", "views"}, Shard: "0", At: g.last},
			}
			g.must(nil, r.Add(ctx, changes...))
			g.has(map[string]any{"title": "Hello", "likes": int64(1), "views": int64(1), "comments": int64(1)})
			g.set("/comments/b", map[string]any{})
			g.set("/comments/a", nil)
			g.set("/comments/c", map[string]any{})
			g.must(nil, r.Add(ctx, Change{Counter: g.counter, Fields: []string{"comments"}, Collection: "comments", Document: "c", At: g.last}, changes[0]))
			g.has(map[string]any{"title": "Hello", "likes": int64(1), "views": int64(1), "comments": int64(2)})
		}},
		{"another version's base", func(g *ground) {
			g.count(0, 1, 1)
			g.must(g.doc("/counter_rollup/base").Update(ctx, []firestore.Update{{Path: "format", Value: 99}}))
			g.client.Forget(g.counter)
			g.set("/shards/0", map[string]any{"likes": 2, "views": 2})
			if _, err := g.client.Apply(ctx, g.counter, []Change{{Counter: g.counter, Fields: []string{"likes"}, At: g.last}}); !errors.Is(err, ErrDamagedBase) {
				g.t.Errorf("err = %v, want that the base is of another format", err)
			}
			g.has(all(1, 1))
			g.must(g.doc("/counter_rollup/base").Delete(ctx)) // or the walk above fails
		}},
	} {
		run(tt.name, func(t *testing.T, virtual bool) {
			g := &ground{t: t, fs: fs, client: open(), virtual: virtual, counter: fmt.Sprint("p", n)}
			g.set("", map[string]any{"title": "Hello"})
			tt.walk(g)
		})
	}
}
