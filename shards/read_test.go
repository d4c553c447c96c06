package shards_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/shards"
)

func TestList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	const many = 1003 // three pages
	bulk := w.fs.BulkWriter(t.Context())
	for i := range many {
		if _, err := bulk.Set(w.fs.Collection("counters").Doc(fmt.Sprintf("c%04d", i)), map[string]any{"num_shards": 1, "total": i}); err != nil {
			t.Fatal(err)
		}
	}
	bulk.End()
	i := 0
	for s, err := range client.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Counter != fmt.Sprintf("c%04d", i) || s.Total != int64(i) {
			t.Fatalf("number %d is %+v", i, s)
		}
		i++
	}
	if i != many {
		t.Errorf("%d counters, want %d", i, many)
	}
	for range client.List(t.Context()) {
		break
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 1)
	ref := w.fs.Collection("counters").Doc("a")
	want := int64(0)
	for s, err := range c.Watch(t.Context()) {
		if want == 3 {
			if !errors.Is(err, shards.ErrNotFound) {
				t.Errorf("deleted: %v, want ErrNotFound", err)
			}
			break
		}
		if err != nil || s.Total != want {
			t.Fatalf("watched %+v, %v; want a total of %d", s, err, want)
		}
		if want++; want == 3 {
			err = c.Delete(t.Context())
		} else {
			_, err = ref.Update(t.Context(), []firestore.Update{{Path: "total", Value: want}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for s, err := range c.Watch(ctx) {
		t.Errorf("after its context has ended: %+v, %v", s, err)
	}
}

func TestCachedTotal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{TotalTTL: time.Hour})
	c := w.counter(t, client, "a", 1)
	set := func(total int) {
		t.Helper()
		if _, err := w.fs.Collection("counters").Doc("a").Update(t.Context(), []firestore.Update{{Path: "total", Value: total}}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(total int64) {
		t.Helper()
		if s, err := c.Total(t.Context()); err != nil || s.Total != total {
			t.Errorf("total %+v, %v; want %d", s, err, total)
		}
	}
	want(0)
	set(5)
	want(0) // from memory
	if err := c.Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	want(5) // forgotten on an increment of our own
	set(6)
	want(5)
	brief := w.open(t, shards.Config{TotalTTL: time.Nanosecond})
	c = handle(t, brief, "a")
	want(6)
	set(7)
	want(7)
}
