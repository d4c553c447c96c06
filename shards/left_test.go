package shards_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
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
		if _, _, ok := (shards.Counter{}).Remembered(); ok {
			t.Error("the zero Counter remembers")
		}
		if err := one.SetLimit(t.Context(), "seats", 20); err != nil {
			t.Fatal(err)
		}
		if left, ok := one.Left("seats"); ok {
			t.Errorf("%d are left, of shards that it doesn't know", left)
		}
	})
}

// What was known stays known after a repetition, which changes no shard.
func TestLeftIsKnownAfterARepetition(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Fields: "likes,seats=limit(10)"}, AutoCreate: true, NumShards: 3})
		c := handle(t, client, "concert")
		knows := func(want int64) {
			t.Helper()
			if left, ok := c.Left("seats"); !ok || left != want {
				t.Errorf("%d are left, %v; want %d", left, ok, want)
			}
		}
		for range 3 {
			if _, err := c.AddFields(t.Context(), map[string]int64{"seats": 4}, shards.Key{Value: "a"}); err != nil {
				t.Fatal(err)
			}
			knows(6)
		}
		for range 3 {
			if _, _, err := c.Reserve(t.Context(), "seats", 2, time.Hour, shards.Key{Value: "b"}); err != nil {
				t.Fatal(err)
			}
			knows(4)
		}
		for range 3 {
			if _, err := c.Join(t.Context(), "seats", "alice"); err != nil {
				t.Fatal(err)
			}
			knows(3)
		}
	})
}

// Where the answer to a settle is lost, nobody knows here what it has left.
func TestLeftAfterALostAnswer(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Fields: "likes,seats=limit(10)"}, AutoCreate: true, NumShards: 3})
		c, key := handle(t, client, "concert"), shards.Key{Value: "a"}
		if _, _, err := c.Reserve(t.Context(), "seats", 6, time.Hour, key); err != nil {
			t.Fatal(err)
		}
		if left, ok := c.Left("seats"); !ok || left != 4 {
			t.Fatalf("%d are left, %v", left, ok)
		}
		lost := false
		w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
			if !lost {
				lost, v.After = true, status.Error(codes.Unavailable, "lost")
			}
			return v
		})
		if h, err := c.Settle(t.Context(), "seats", 1, key); err != nil || h.Settled != 1 || !h.At.IsZero() || !lost {
			t.Fatal(h, err, lost)
		}
		if left, ok := c.Left("seats"); ok {
			t.Errorf("%d are left, and nobody has seen that", left)
		}
		if _, err := c.AddFields(t.Context(), map[string]int64{"seats": 2}, shards.Key{}); err != nil {
			t.Fatal(err)
		}
		if left, ok := c.Left("seats"); ok && left != 7 {
			t.Errorf("%d are left, want 7", left)
		}
	})
}

// Nothing is remembered of shards where nothing of them was changed.
func TestNothingIsKnownOfAFieldWithoutALimit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Fields: "likes,seats=limit(10)"}, AutoCreate: true, NumShards: 3})
		c, key := handle(t, client, "concert"), shards.Key{Value: "a"}
		if _, _, err := c.Reserve(t.Context(), "likes", 2, time.Hour, key); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Settle(t.Context(), "likes", 1, key); err != nil {
			t.Fatal(err)
		}
		if _, err := c.GiveBack(t.Context(), "seats", shards.Key{Value: "nobody"}); !errors.Is(err, shards.ErrHoldEnded) && err != nil {
			t.Fatal(err)
		}
		if n := shards.KnownPlaces(client); n != 0 {
			t.Errorf("shards of %d fields are known", n)
		}
	})
}
