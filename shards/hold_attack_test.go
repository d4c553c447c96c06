package shards_test

import (
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// A deployment knows its holds again when COUNTERS calls a wildcard otherwise, such as {uid}, whom RESET goes by.
func TestHoldsWhenAWildcardIsRenamed(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		before, after := withLimit, withLimit
		after.Counters = "counters/{uid}"
		c := w.counter(t, w.open(t, before), "a", 1)
		limit(t, c, 10)
		reserved(t, c, 4, "x")
		over, err := c.ReserveBriefly(t.Context(), 6, time.Second, named("y"))
		if err != nil {
			t.Fatal(err)
		}
		renamed := handle(t, w.open(t, after), "a")
		settled(t, renamed, 1, "x")
		time.Sleep(time.Until(over.Until) + time.Millisecond)
		if err := renamed.Add(t.Context(), 9); err != nil {
			t.Error(err)
		}
	})
}

// An app deletes its document with all that is below it, and makes it again. What was held doesn't come back to it.
func TestHoldsOfADocumentThatWasDeletedWithAllBelow(t *testing.T) {
	t.Parallel()
	for name, rolledUp := range map[string]bool{"an increment": false, "a roll-up before": true} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			cfg := shards.Config{Place: shards.Place{Hosted: true}, NumShards: 1}
			make := func() {
				w.Put("counters/a", map[string]any{"title": "a post"})
			}
			make()
			reserved(t, handle(t, w.open(t, cfg), "a"), 10, "x")
			for _, path := range []string{"counters/a/shards/0", "counters/a/counter_rollup/base", "counters/a"} {
				w.Delete(path)
			}
			if make(); rolledUp {
				w.reconcile(t, rollup.Config{Place: cfg.Place}, "a", rollup.ReconcileOptions{})
			}
			c := handle(t, w.open(t, cfg), "a")
			if err := c.Add(t.Context(), 4); err != nil {
				t.Fatal(err)
			}
			if _, err := c.GiveBack(t.Context(), "total", named("x")); err != nil {
				t.Fatal(err)
			}
			w.wantSum(t, "a", 4)
		})
	}
}

// A counter that is made again beside its shards begins with a total: what is held of them comes on top of it, and
// back.
func TestATotalToBeginWithBesideHolds(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
		reserved(t, c, 4, "x")
		w.Delete("counters/a")
		if err := c.Create(t.Context(), shards.CreateOptions{Total: 10}); err != nil {
			t.Fatal(err)
		}
		w.wantSum(t, "a", 14)
		if _, err := c.GiveBack(t.Context(), "total", named("x")); err != nil {
			t.Fatal(err)
		}
		w.wantSum(t, "a", 10)
	})
}
