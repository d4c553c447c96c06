package shards_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

func TestCreateAddRead(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		c := handle(t, client, "post-123")
		if err := c.Add(t.Context(), 1); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("add before create: %v, want ErrNotFound", err)
		}
		if _, err := c.Get(t.Context()); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("get before create: %v, want ErrNotFound", err)
		}
		if _, err := c.Sum(t.Context()); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("sum before create: %v, want ErrNotFound", err)
		}
		if err := c.Create(t.Context(), shards.CreateOptions{Shards: 3, Total: 100}); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), shards.CreateOptions{}); !errors.Is(err, shards.ErrExists) {
			t.Errorf("second create: %v, want ErrExists", err)
		}
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				if err := c.Add(t.Context(), 2); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if err := c.Add(t.Context(), -7); err != nil {
			t.Fatal(err)
		}
		got, err := c.Sum(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got.Total != 193 || got.NumShards != 3 || got.Counter != "post-123" {
			t.Errorf("sum: %+v, want a total of 193 in 3 shards", got)
		}
		got, err = c.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got.Total != 100 {
			t.Errorf("get: %+v, want the total that nobody has rolled up yet, 100", got)
		}
		if got.UpdatedAt.IsZero() {
			t.Errorf("get: %+v has no time", got)
		}
		w.wantSum(t, "post-123", 193)
	})
}

// One commit of a counter begins an interval after the other, and each call is answered.
func TestCommitsAnIntervalApart(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		const interval, calls = 10 * time.Millisecond, 6
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{CommitInterval: interval}), "a", 3)
		began := time.Now()
		for range calls {
			if err := c.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < (calls-1)*interval {
			t.Errorf("%d commits, one after the other, took %v", calls, took)
		}
		w.wantSum(t, "a", calls)
	})
}

func TestAutoCreate(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.open(t, shards.Config{AutoCreate: true, NumShards: 4})
		b := w.open(t, shards.Config{AutoCreate: true, NumShards: 4})
		var group sync.WaitGroup
		for _, client := range []*shards.Client{a, b} {
			for range 10 {
				group.Go(func() {
					if err := handle(t, client, "new").Add(t.Context(), 1); err != nil {
						t.Error(err)
					}
				})
			}
		}
		group.Wait()
		w.wantSum(t, "new", 20)
		if n := len(w.counts(t, "new")); n != 4 {
			t.Errorf("%d shards, want 4", n)
		}
	})
}

// Some public snippets write shards only, and no counter's document: making it must not lose what
// they have counted.
func TestAutoCreateKeepsShards(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{AutoCreate: true, NumShards: 2})
		ref := w.fs.Collection("counters").Doc("a")
		for id, count := range map[string]int64{"0": 40, "7": 2} {
			if _, err := ref.Collection("shards").Doc(id).Set(t.Context(), map[string]any{"count": count}); err != nil {
				t.Fatal(err)
			}
		}
		if err := handle(t, client, "a").Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		w.wantSum(t, "a", 43)
		if got := w.total(t, "a"); got != 42 {
			t.Errorf("total %d, want at once what the shards held, 42", got)
		}
		w.wantRolledUp(t, 43)
	})
}

// What keeps a counter from being made is what the caller hears of, not that there is none.
func TestAutoCreateFails(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{AutoCreate: true})
		w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
			return emulator.Verdict{Before: status.Error(codes.PermissionDenied, "no")}
		})
		if err := handle(t, client, "new").Add(t.Context(), 1); status.Code(err) != codes.PermissionDenied {
			t.Errorf("add: %v, want PERMISSION_DENIED", err)
		}
	})
}

func TestAddAll(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		w.counter(t, client, "a", 2)
		w.counter(t, client, "b", 2)
		if _, err := client.AddAll(t.Context(), []shards.Increment{{Counter: "a", By: 1}, {Counter: "b", By: 5}, {Counter: "a", By: 2}}, shards.Key{}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.AddAll(t.Context(), []shards.Increment{{Counter: "a", By: 1}, {Counter: "gone", By: 1}}, shards.Key{}); !errors.Is(err, shards.ErrNotFound) || !strings.Contains(err.Error(), "gone") {
			t.Errorf("with a counter that doesn't exist: %v, want ErrNotFound that names it", err)
		}
		w.wantSum(t, "a", 3)
		w.wantSum(t, "b", 5)
	})
}

// Of several counters one is being deleted, and one would be made: nothing is.
func TestAddAllBesideADeletion(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{AutoCreate: true})
		w.counter(t, client, "a", 2)
		w.counter(t, client, "half", 2)
		w.cutAfter(1)
		if err := handle(t, client, "half").Delete(t.Context(), shards.DeleteOptions{}); status.Code(err) != codes.PermissionDenied {
			t.Fatalf("cut short: %v", err)
		}
		w.Server.SetInterceptor(nil)
		before := w.markers(t)
		if _, err := client.AddAll(t.Context(), []shards.Increment{{Counter: "a", By: 1}, {Counter: "new", By: 1}, {Counter: "half", By: 1}}, shards.Key{Value: "k"}); !errors.Is(err, shards.ErrNotFound) || !strings.Contains(err.Error(), `"half"`) {
			t.Errorf("%v, want ErrNotFound that names the one", err)
		}
		w.wantSum(t, "a", 0)
		w.wantSum(t, "half", 0)
		if _, err := w.fs.Doc("counters/new").Get(t.Context()); status.Code(err) != codes.NotFound {
			t.Errorf("the new counter: %v, want that it was not made", err)
		}
		if n := w.markers(t) - before; n > 0 {
			t.Errorf("%d markers are left", n)
		}
	})
}

// Counters that public snippets made have no base, may have their number of shards under another
// name, and not all of their shards.
func TestPublicCounters(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		for name, fields := range map[string]map[string]any{
			"num_shards": {"num_shards": 5},
			"numShards":  {"numShards": 5},
			"double":     {"numShards": 5.0},
			"neither":    {},
		} {
			if _, err := w.fs.Collection("counters").Doc(name).Set(t.Context(), fields); err != nil {
				t.Fatal(err)
			}
			c := handle(t, client, name)
			for range 20 {
				if err := c.Add(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
			}
			w.wantSum(t, name, 20)
			for id := range w.counts(t, name) {
				if id > "4" && name != "neither" {
					t.Errorf("%s: shard %s was written", name, id)
				}
			}
			if n := len(w.counts(t, name)); name == "neither" && (n < 2 || n > 10) {
				t.Errorf("%s: %d shards were written, want some of the 10 that a counter has by default", name, n)
			}
		}
	})
}

func TestInvalidIncrements(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		w.counter(t, client, "a", 1)
		const most = 1<<63 - 1
		many := make([]shards.Increment, shards.MaxIncrements+1)
		for i := range many {
			many[i] = shards.Increment{Counter: "a", By: 1}
		}
		for _, c := range []struct {
			name       string
			increments []shards.Increment
			key        shards.Key
			want       error
		}{
			{"none", nil, shards.Key{}, shards.ErrInvalidIncrement},
			{"zero", []shards.Increment{{Counter: "a", By: 1}, {Counter: "a", By: 0}}, shards.Key{}, shards.ErrInvalidIncrement},
			{"sum", []shards.Increment{{Counter: "a", By: most}, {Counter: "a", By: most}}, shards.Key{}, shards.ErrInvalidIncrement},
			{"too many", many, shards.Key{}, shards.ErrInvalidIncrement},
			{"id", []shards.Increment{{Counter: "a/b", By: 1}}, shards.Key{}, shards.ErrInvalidID},
			{"key with a control character", []shards.Increment{{Counter: "a", By: 1}}, shards.Key{Value: "a\tb"}, shards.ErrInvalidKey},
			{"key beyond ASCII", []shards.Increment{{Counter: "a", By: 1}}, shards.Key{Value: "é"}, shards.ErrInvalidKey},
			{"long key", []shards.Increment{{Counter: "a", By: 1}}, shards.Key{Value: strings.Repeat("k", 256)}, shards.ErrInvalidKey},
		} {
			if _, err := client.AddAll(t.Context(), c.increments, c.key); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
		}
		w.wantSum(t, "a", 0)
	})
}

func TestCounterID(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		client := newWorld(t).open(t, shards.Config{})
		for _, id := range []string{"a", "post-123", "…", "日本", "a b", "a\tb", "...", "__a", "a__", "___", strings.Repeat("x", 1500)} {
			if _, err := client.Counter(id); err != nil {
				t.Errorf("%q: %v", id, err)
			}
		}
		for _, id := range []string{"", ".", "..", "a/b", "/", "__a__", "____", "\xff", strings.Repeat("x", 1501)} {
			if _, err := client.Counter(id); !errors.Is(err, shards.ErrInvalidID) {
				t.Errorf("%q: %v, want ErrInvalidID", id, err)
			}
		}
	})
}
