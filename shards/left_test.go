package shards_test

import (
	"errors"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// What is left is known after each take, without a read, and as this client last knew it.
func TestLeftIsKnown(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := shards.Config{Place: shards.Place{Fields: "likes,seats=limit(10)"}, AutoCreate: true, NumShards: 3}
		counterOf := func() shards.Counter {
			counter, err := w.open(t, cfg).Counter("concert")
			if err != nil {
				t.Fatal(err)
			}
			return counter
		}
		one, other := counterOf(), counterOf()
		take := func(c shards.Counter, by int64) error {
			_, err := c.AddFields(t.Context(), map[string]int64{"seats": by}, shards.Key{})
			return err
		}
		knows := func(c shards.Counter, want int64) {
			t.Helper()
			before := w.Server.Stats()
			if left, ok := c.Left("seats"); !ok || left != want {
				t.Errorf("%d are left, %v; want %d", left, ok, want)
			}
			if after := w.Server.Stats(); after.Reads != before.Reads || after.Writes != before.Writes {
				t.Error("it has asked")
			}
		}
		for _, field := range []string{"seats", "likes", "none"} {
			if left, ok := one.Left(field); ok {
				t.Errorf("%d of %s are left, and nobody has looked", left, field)
			}
		}
		for _, c := range []struct{ by, left int64 }{{3, 7}, {2, 5}, {-1, 6}} {
			if err := take(one, c.by); err != nil {
				t.Fatal(err)
			}
			knows(one, c.left)
		}
		h, _, err := one.Reserve(t.Context(), "seats", 4, time.Hour, shards.Key{Value: "a"})
		if err != nil || h.State != "held" {
			t.Fatal(h, err)
		}
		knows(one, 2)
		if _, err := one.Settle(t.Context(), "seats", 1, shards.Key{Value: "a"}); err != nil {
			t.Fatal(err)
		}
		knows(one, 5)
		if err := take(other, 5); err != nil {
			t.Fatal(err)
		}
		knows(other, 0)
		knows(one, 5) // as it was
		if err := take(one, 1); !errors.Is(err, shards.ErrLimit) {
			t.Fatal(err)
		}
		if left, ok := one.Left("seats"); ok && left != 0 {
			t.Errorf("%d are left, and one was refused", left)
		}
		if _, ok := one.Left("likes"); ok {
			t.Error("likes have no limit")
		}
		if _, ok := (shards.Counter{}).Left("seats"); ok {
			t.Error("the zero Counter knows")
		}
		if err := one.SetLimit(t.Context(), "seats", 20); err != nil {
			t.Fatal(err)
		}
		if left, ok := one.Left("seats"); ok {
			t.Errorf("%d are left, of shards that it doesn't know", left)
		}
	})
}
