package shards_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// What moves counts from one shard to another keeps their sum, whatever becomes of the events: after a reconcile, and
// the next event, the total is right.
func TestMovesWhoseEventsAreLost(t *testing.T) {
	t.Parallel()
	// each leaves shards of that sum, and shard 0
	for name, move := range map[string]func(t *testing.T, w *world, c shards.Counter) (sum int64){
		"a shrink": func(t *testing.T, w *world, c shards.Counter) int64 {
			w.set(t, 4, 10)
			w.rollUp(t, "a")
			if err := c.Resize(t.Context(), 1, shards.ResizeOptions{}); err != nil {
				t.Fatal(err)
			}
			return 40
		},
		"a shrink that keeps its shards": func(t *testing.T, w *world, c shards.Counter) int64 {
			w.set(t, 4, 10)
			w.rollUp(t, "a")
			if err := c.Resize(t.Context(), 1, shards.ResizeOptions{KeepShards: true}); err != nil {
				t.Fatal(err)
			}
			return 40
		},
		"a reset that was cut short when members were off": func(t *testing.T, w *world, c shards.Counter) int64 {
			w.rollUp(t, "a")
			w.populate(t, 495) // whose events are lost
			w.cutAfter(1)
			if err := c.Reset(t.Context(), shards.ResetOptions{RemoveMembers: true}); err == nil {
				t.Fatal("it was not cut short")
			}
			return 0
		},
		"a reset from 0": func(t *testing.T, w *world, c shards.Counter) int64 {
			w.inc(t, "0", 5)
			w.rollUp(t, "a")
			w.inc(t, "1", -5)
			w.rollUp(t, "a")
			if err := c.Reset(t.Context(), shards.ResetOptions{}); err != nil {
				t.Fatal(err)
			}
			return 0
		},
	} {
		for _, how := range []string{"a walk", "another walk", "a reconcile by name"} {
			virtual.Run(t, fmt.Sprint(name, ", ", how), func(t *testing.T) {
				w := newWorld(t)
				c := w.counter(t, w.open(t, shards.Config{}), "a", 4)
				want := move(t, w, c)
				w.Server.SetInterceptor(nil)
				client, err := rollup.Open(t.Context(), rollup.Config{Place: rollup.Place{Project: "p"}}, option.WithGRPCConn(w.Conn()))
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				if how != "a reconcile by name" { // one of the two may look by chance
					_, err = client.ReconcileAll(t.Context(), rollup.ReconcileOptions{})
				} else {
					_, err = client.Reconcile(t.Context(), "a", rollup.ReconcileOptions{})
				}
				if err != nil {
					t.Fatal(err)
				}
				w.inc(t, "0", 1)
				w.told(t, client, "0")
				if got := w.Data("counters/a")["total"]; got != want+1 {
					t.Errorf("the total is %v, want %d", got, want+1)
				}
			})
		}
	}
}

// set sets the first shards of the counter a.
func (w *world) set(t *testing.T, n, count int) {
	t.Helper()
	for i := range n {
		w.Put(fmt.Sprint("counters/a/shards/", i), map[string]any{"count": count})
	}
}

// told has a roll-up hear of a shard of the counter a.
func (w *world) told(t *testing.T, client *rollup.Client, shard string) {
	t.Helper()
	r := rollup.NewRoller(client, rollup.RollerOptions{})
	changes, err := client.Named("counters/a/shards/" + shard)
	err = errors.Join(err, r.Add(t.Context(), changes...), r.Close(context.Background()))
	if err != nil {
		t.Fatal(err)
	}
}

// A total that is asked for is what the counter shows at once and for good, whatever events have not
// come yet, or never do: of a reset, say, or of increments.
func TestATotalIsWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(t *testing.T, w *world, c shards.Counter) error{
		"rebase after a reset": func(t *testing.T, w *world, c shards.Counter) error {
			if err := c.Reset(t.Context(), shards.ResetOptions{}); err != nil {
				t.Fatal(err)
			}
			return c.Rebase(t.Context(), 100)
		},
		"rebase": func(t *testing.T, w *world, c shards.Counter) error {
			w.inc(t, "2", 9)
			return c.Rebase(t.Context(), 100)
		},
		"create": func(t *testing.T, w *world, c shards.Counter) error {
			w.inc(t, "0", -9)
			w.inc(t, "3", -22)
			w.Delete("counters/a")
			return c.Create(t.Context(), shards.CreateOptions{Shards: 4, Total: 100})
		},
		"create after shards went": func(t *testing.T, w *world, c shards.Counter) error {
			for _, doc := range []string{"counters/a", "counters/a/shards/2", "counters/a/shards/3"} {
				w.Delete(doc)
			}
			return c.Create(t.Context(), shards.CreateOptions{Shards: 2, Total: 100})
		},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			c := w.counter(t, w.open(t, shards.Config{}), "a", 4)
			w.set(t, 4, 10)
			w.rollUp(t, "a")
			if err := set(t, w, c); err != nil {
				t.Fatal(err)
			}
			shows := func(want int64) {
				t.Helper()
				if got := w.total(t, "a"); got != want {
					t.Errorf("the total is %v, want %d", got, want)
				}
				w.wantSum(t, "a", want)
			}
			shows(100)
			w.inc(t, "0", 1)
			if r := w.rollUp(t, "a"); r.Late != 1 || r.Drift != 0 {
				t.Errorf("%+v, want 1 late", r)
			}
			shows(101)
		})
	}
}

// A reset takes off what was counted of a field that became a text before it, whenever that is
// heard of.
func TestAResetOfATextThatIsHeardOfLater(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 1)
		w.inc(t, "0", 7)
		w.rollUp(t, "a")
		w.Put("counters/a/shards/0", map[string]any{"count": "oops"})
		doc, err := w.fs.Doc("counters/a/shards/0").Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Reset(t.Context(), shards.ResetOptions{}); err != nil {
			t.Fatal(err)
		}
		client, err := rollup.Open(t.Context(), rollup.Config{Place: rollup.Place{Project: "p"}}, option.WithGRPCConn(w.Conn()))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		r := rollup.NewRoller(client, rollup.RollerOptions{})
		if err := errors.Join(r.Add(t.Context(), rollup.Change{Counter: "a", Shard: "0", At: doc.UpdateTime, Fields: []string{"total"}}), r.Close(context.Background())); err != nil {
			t.Fatal(err)
		}
		w.inc(t, "0", 1)
		w.told(t, client, "0")
		if got := w.total(t, "a"); got != 1 {
			t.Errorf("the total is %d, want 1", got)
		}
		w.wantSum(t, "a", 1)
	})
}
