package shards_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// total is what the counter's document says.
func (w *world) total(t *testing.T, id string) int64 {
	t.Helper()
	doc, err := w.fs.Collection("counters").Doc(id).Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return doc.Data()["total"].(int64)
}

// Every command, with its commit's answer lost, refused or cut short, is applied once.
func TestCommandsUnderFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		name    string
		verdict emulator.Verdict
	}{
		{"none", emulator.Verdict{}},
		{"answer lost", emulator.Verdict{After: unavailable}},
		{"not applied", emulator.Verdict{Before: unavailable}},
		{"contention", emulator.Verdict{Before: aborted}},
	} {
		virtual.Run(t, fault.name, func(t *testing.T) {
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			once := func(f func() error) {
				t.Helper()
				var met atomic.Bool
				w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
					if met.CompareAndSwap(false, true) {
						return fault.verdict
					}
					return emulator.Verdict{}
				})
				defer w.Server.SetInterceptor(nil)
				if err := f(); err != nil {
					t.Error(err)
				}
			}
			c := handle(t, client, "a")
			once(func() error { return c.Create(t.Context(), shards.CreateOptions{Shards: 3, Total: 10}) })
			w.wantSum(t, "a", 10)
			for range 10 {
				if err := c.Add(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
			}
			// Nobody rolls up here: a rebase sees for itself what the shards hold.
			once(func() error { return c.Rebase(t.Context(), 100) })
			if got := w.total(t, "a"); got != 100 {
				t.Errorf("after rebase: total %d, want 100", got)
			}
			w.wantSum(t, "a", 100)
			once(func() error { return c.Resize(t.Context(), 7, shards.ResizeOptions{}) })
			w.wantSum(t, "a", 100)
			if n := len(w.counts(t, "a")); n != 7 {
				t.Errorf("after growing: %d shards, want 7", n)
			}
			once(func() error { return c.Resize(t.Context(), 2, shards.ResizeOptions{}) })
			w.wantSum(t, "a", 100)
			if n := len(w.counts(t, "a")); n != 2 {
				t.Errorf("after shrinking: %d shards, want 2", n)
			}
			once(func() error { return c.Reset(t.Context(), shards.ResetOptions{}) })
			w.wantSum(t, "a", 0)
			if got := w.total(t, "a"); got != 0 {
				t.Errorf("after reset: total %d, want 0", got)
			}
			once(func() error { return c.Delete(t.Context(), shards.DeleteOptions{}) })
			if doc, _ := w.fs.Collection("counters").Doc("a").Get(t.Context()); doc.Exists() || len(w.counts(t, "a")) > 0 {
				t.Errorf("after delete: %v, %v", doc.Data(), w.counts(t, "a"))
			}
			once(func() error { return c.Create(t.Context(), shards.CreateOptions{Shards: 1}) })
			w.wantSum(t, "a", 0)
		})
	}
}

// A command asks about many fields, and is done between two refreshes of a busy counter, which are a second apart.
func TestCommandsBesideRefreshes(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := shards.Config{Place: shards.Place{Fields: manyFields()}}
		w.counter(t, w.open(t, cfg), "a", 1)
		c := handle(t, w.open(t, cfg, slowly(40*time.Millisecond)...), "a")
		totals := map[string]int64{}
		for i, name := range strings.Split(manyFields(), ",") {
			totals[name] = int64(i)
		}
		var refreshes sync.WaitGroup
		over := make(chan struct{})
		refreshes.Go(func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(time.Second):
					w.Merge("counters/a", map[string]any{"updated_at": time.Now()})
				}
			}
		})
		if err := c.RebaseFields(t.Context(), totals); err != nil {
			t.Error(err)
		}
		if got := w.Data("counters/a")["f19"]; got != int64(19) {
			t.Errorf("rebased to %v, want 19", got)
		}
		if err := c.Reset(t.Context(), shards.ResetOptions{}); err != nil {
			t.Error(err)
		}
		close(over)
		refreshes.Wait()
		if got := w.Data("counters/a")["f19"]; got != int64(0) {
			t.Errorf("reset to %v, want 0", got)
		}
	})
}

func TestCommandsOnMissingCounters(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		for name, do := range map[string]func(shards.Counter) error{
			"reset":  func(c shards.Counter) error { return c.Reset(t.Context(), shards.ResetOptions{}) },
			"rebase": func(c shards.Counter) error { return c.Rebase(t.Context(), 1) },
		} {
			if err := do(handle(t, client, "unknown")); !errors.Is(err, shards.ErrNotFound) {
				t.Errorf("%s of an unknown counter: %v, want ErrNotFound", name, err)
			}
		}
		unknown := handle(t, client, "unknown")
		if err := unknown.Delete(t.Context(), shards.DeleteOptions{}); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("delete: %v, want ErrNotFound", err)
		}
		if err := unknown.Resize(t.Context(), 3, shards.ResizeOptions{}); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("resize: %v, want ErrNotFound", err)
		}
		for _, n := range []int{0, -1, shards.MaxShards + 1} {
			if err := unknown.Resize(t.Context(), n, shards.ResizeOptions{}); !errors.Is(err, shards.ErrInvalidShards) {
				t.Errorf("resize to %d: %v, want ErrInvalidShards", n, err)
			}
		}
		if err := unknown.Create(t.Context(), shards.CreateOptions{Shards: -1}); !errors.Is(err, shards.ErrInvalidShards) {
			t.Errorf("create with -1 shards: %v, want ErrInvalidShards", err)
		}
		for watched, err := range unknown.Watch(t.Context()) {
			if !errors.Is(err, shards.ErrNotFound) {
				t.Errorf("watch: %v, %v, want ErrNotFound", watched, err)
			}
		}
	})
}
