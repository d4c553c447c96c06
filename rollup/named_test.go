package rollup_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
)

// An event that comes without its document counts all the same: a shard is read, and a
// collection is asked for.
func TestEventsWithoutTheirDocuments(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		c := newCounting(t, hostedPosts)
		r := c.roller(rollup.RollerOptions{Interval: 10 * time.Millisecond})
		tell := func(path string) {
			t.Helper()
			change, err := c.client.Named(path)
			if err == nil {
				err = r.Add(c.ctx, change...)
			}
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		c.set("posts/p", map[string]any{})
		c.set("posts/p/shards/0", map[string]any{"likes": 3})
		c.set("posts/p/shards/1", map[string]any{"likes": 4})
		tell("posts/p/shards/0")
		c.holds("posts/p", map[string]any{"likes": int64(7)})
		c.set("posts/p/shards/1", map[string]any{"likes": 5})
		tell("posts/p/shards/1")
		c.holds("posts/p", map[string]any{"likes": int64(8)})
		c.must(c.fs.Doc("posts/p/shards/1").Delete(c.ctx))
		tell("posts/p/shards/1")
		tell("posts/p/shards/1") // again
		c.holds("posts/p", map[string]any{"likes": int64(3)})
		c.set("posts/p/shards/1", map[string]any{"likes": 1}) // made again
		tell("posts/p/shards/1")
		c.holds("posts/p", map[string]any{"likes": int64(4)})

		c.set("posts/p/comments/a ", map[string]any{}) // whose id ends in a space
		tell("posts/p/comments/a ")
		c.holds("posts/p", map[string]any{"comments": int64(1)})
		c.set("posts/p/comments/b", map[string]any{})
		tell("posts/p/comments/b")
		c.must(c.fs.Doc("posts/p/comments/b").Delete(c.ctx))
		tell("posts/p/comments/b")
		c.holds("posts/p", map[string]any{"comments": int64(1)})

		for _, path := range []string{"", "posts/p", "posts/p/comments", "users/u/comments/c", "posts/p/replies/r"} {
			if change, err := c.client.Named(path); !errors.Is(err, rollup.ErrPoison) {
				t.Errorf("%s is %+v, %v", path, change, err)
			}
		}
	})
}

// An event without its document says nothing about when it was: it supersedes none, and is covered
// by none that came before.
func TestAnEventWithoutADocumentWaitsForItself(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		c := w.counting(hostedPosts)
		r := c.roller(rollup.RollerOptions{})
		c.set("posts/p", map[string]any{})
		c.set("posts/p/comments/1", map[string]any{})
		c.deliver(r, c.happened()...)
		c.set("posts/p/comments/2", map[string]any{})
		held := c.happened()
		c.set("posts/p/comments/3", map[string]any{})
		c.happened() // its event has no document
		named, err := c.client.Named("posts/p/comments/3")
		c.must(nil, err)
		c.deliver(r, append(held, named...)...)
		c.holds("posts/p", map[string]any{"comments": int64(3)})
	})
}

// An id that no counter has is refused before anything is read.
func TestReconcileOfAnInvalidID(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		teams := w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Counters: "teams/{team}/posts/{post}"}})
		w.server.ResetStats()
		for _, tt := range []struct {
			client *rollup.Client
			id     string
		}{{w.rollup, ""}, {w.rollup, "a/b"}, {w.rollup, ".."}, {w.rollup, "__x__"}, {w.rollup, strings.Repeat("x", 1501)}, {teams, "blue"}, {teams, "blue//p"}, {teams, "a/b/c"}} {
			if _, err := tt.client.Reconcile(w.ctx, tt.id, rollup.ReconcileOptions{}); !errors.Is(err, rollup.ErrInvalidID) {
				t.Errorf("%.20q: %v, want ErrInvalidID", tt.id, err)
			}
			s := tt.client.ReconcileSome(w.ctx, []string{tt.id}, rollup.ReconcileOptions{Report: func(r rollup.Report, err error) {
				if r.Counter != tt.id || !errors.Is(err, rollup.ErrInvalidID) {
					t.Errorf("%.20q: %+v, %v, want ErrInvalidID", tt.id, r, err)
				}
			}})
			if s.Failed != 1 {
				t.Errorf("%.20q: %+v, want that it failed", tt.id, s)
			}
		}
		if s := w.server.Stats(); s.Reads+s.CommitRequests > 0 {
			t.Errorf("%+v, want that nothing is asked", s)
		}
	})
}
