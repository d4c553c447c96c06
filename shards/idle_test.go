package shards_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// A counter that nothing has written for long goes with all that is below it, unless somebody holds something of it, or
// it isn't ours. At zero, one goes that a new one is like.
func TestRemoveIdle(t *testing.T) {
	t.Parallel()
	limited := shards.Config{Place: shards.Place{Fields: "total=limit(9)"}, NumShards: 2}
	plain := shards.Config{NumShards: 2}
	add := func(n int64) func(*testing.T, *world, shards.Counter) {
		return func(t *testing.T, _ *world, c shards.Counter) {
			if err := c.Add(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, s := range map[string]struct {
		cfg          shards.Config
		do           func(*testing.T, *world, shards.Counter)
		idle, atZero bool // whether it goes
	}{
		"new":              {plain, func(*testing.T, *world, shards.Counter) {}, true, true},
		"new, and a limit": {limited, func(*testing.T, *world, shards.Counter) {}, true, true},
		"counted":          {plain, add(3), true, false},
		"back at 0":        {plain, func(t *testing.T, w *world, c shards.Counter) { add(3)(t, w, c); add(-3)(t, w, c) }, true, true},
		"reset to 0": {plain, func(t *testing.T, w *world, c shards.Counter) {
			add(3)(t, w, c)
			must(t, c.Reset(t.Context(), shards.ResetOptions{}))
		}, true, true},
		"members that come to 0": {plain, func(t *testing.T, w *world, c shards.Counter) {
			_, err := c.Join(t.Context(), "total", "m")
			must(t, err)
			add(-1)(t, w, c)
		}, true, false},
		"a field that isn't shown here": {plain, func(t *testing.T, w *world, _ shards.Counter) {
			w.Merge("counters/a/shards/0", map[string]any{"views": 1})
		}, true, false},
		"a double": {plain, func(t *testing.T, w *world, _ shards.Counter) {
			w.Merge("counters/a/shards/0", map[string]any{"count": 0.5})
		}, true, false},
		"an app's field": {plain, func(t *testing.T, w *world, _ shards.Counter) { w.Merge("counters/a", map[string]any{"title": "x"}) }, false, false},
		"no document of ours": {plain, func(t *testing.T, w *world, _ shards.Counter) {
			w.Put("counters/a", map[string]any{"num_shards": 2})
		}, false, false},
		"a seat that is held": {plain, func(t *testing.T, _ *world, c shards.Counter) {
			_, _, err := c.Hold(t.Context(), "total", "m", 2*time.Hour)
			must(t, err)
		}, false, false},
		"an amount that is held":   {plain, reserves(0), false, false},
		"the same, and a limit":    {limited, reserves(0), false, false},
		"an amount that came back": {plain, reserves(time.Minute), true, true},
		"the same of a limit":      {limited, reserves(time.Minute), true, true},
		"taken of a limit":         {limited, add(2), true, false},
		"another limit":            {limited, func(t *testing.T, _ *world, c shards.Counter) { must(t, c.SetLimit(t.Context(), "total", 5)) }, true, false},
		"many members":             {plain, func(t *testing.T, w *world, _ shards.Counter) { w.populate(t, 600) }, true, false},
	} {
		for _, atZero := range []bool{false, true} {
			virtual.Run(t, fmt.Sprintf("%s, at zero %t", name, atZero), func(t *testing.T) {
				w := newWorld(t)
				client := w.open(t, s.cfg)
				c := w.counter(t, client, "a", 2)
				s.do(t, w, c)
				time.Sleep(time.Second)
				w.reconcile(t, rollup.Config{Place: s.cfg.Place}, "a", rollup.ReconcileOptions{})
				written := time.Now()
				time.Sleep(time.Hour)
				before := w.everything(t)
				remove := func(since time.Time, want bool) {
					t.Helper()
					removed, err := client.RemoveIdle(t.Context(), "a", since, atZero)
					if err != nil || removed != want {
						t.Errorf("removed %t, %v; want %t", removed, err, want)
					}
					if removed {
						w.wantNothing(t)
					} else if diff := cmp.Diff(before, w.everything(t)); diff != "" {
						t.Errorf("(-before +after)\n%s", diff)
					}
				}
				remove(written.Add(-10*time.Second), false)
				want := s.idle
				if atZero {
					want = s.atZero
				}
				remove(time.Now(), want)
				if want {
					before = w.everything(t)
					remove(time.Now(), false) // there is nothing
				}
			})
		}
	}
}

// reserves holds an amount, for two hours or until it is settled for 0 after a time.
func reserves(after time.Duration) func(*testing.T, *world, shards.Counter) {
	return func(t *testing.T, _ *world, c shards.Counter) {
		key := shards.Key{Value: "a hold"}
		_, _, err := c.Reserve(t.Context(), "total", 4, 2*time.Hour, key)
		must(t, err)
		if after > 0 {
			time.Sleep(after)
			_, err := c.Settle(t.Context(), "total", 0, key)
			must(t, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Somebody writes an idle counter's document after its removal has read that, and before it commits. Either the write
// was first, and spares the counter, or there is none any more.
func TestRemoveIdleBesideAWrite(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(context.Context, *world, shards.Counter) error{
		"a command": func(ctx context.Context, _ *world, c shards.Counter) error { return c.Rebase(ctx, 5) },
		"an app's field": func(ctx context.Context, w *world, _ shards.Counter) error {
			_, err := w.fs.Doc("counters/a").Update(ctx, []firestore.Update{{Path: "title", Value: "x"}})
			return err
		},
	} {
		for _, members := range []int{0, 600} { // one commit, and several
			virtual.Run(t, fmt.Sprint(name, " ", members), func(t *testing.T) {
				w := newWorld(t)
				client := w.open(t, shards.Config{NumShards: 2})
				c := w.counter(t, client, "a", 2)
				w.populate(t, members)
				w.reconcile(t, rollup.Config{}, "a", rollup.ReconcileOptions{})
				since := time.Now()
				time.Sleep(time.Hour)
				wrote := make(chan error, 1)
				once := sync.OnceFunc(func() {
					go func() { wrote <- write(t.Context(), w, c) }()
					time.Sleep(time.Second)
				})
				removes := deletes("/counters/a")
				w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
					if removes(req) {
						once()
					}
					return emulator.Verdict{}
				})
				removed, err := client.RemoveIdle(t.Context(), "a", since, false)
				must(t, err)
				err = <-wrote
				if missed := errors.Is(err, shards.ErrNotFound) || status.Code(err) == codes.NotFound; removed != missed || err != nil && !missed {
					t.Errorf("removed %t, and the write says %v", removed, err)
				}
				if removed {
					w.wantNothing(t)
				}
			})
		}
	}
}

// Who confirms a seat writes no shard: the counter isn't idle all the same.
func TestAConfirmedSeatIsNotIdle(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Fields: "total=limit(9)"}, NumShards: 2})
		c := w.counter(t, client, "a", 2)
		_, _, err := c.Hold(t.Context(), "total", "m", 48*time.Hour)
		must(t, err)
		time.Sleep(time.Second)
		w.reconcile(t, rollup.Config{Place: shards.Place{Fields: "total=limit(9)"}}, "a", rollup.ReconcileOptions{})
		time.Sleep(24 * time.Hour)
		since := time.Now()
		time.Sleep(time.Minute)
		must(t, c.Confirm(t.Context(), "total", "m"))
		time.Sleep(time.Second)
		for _, s := range []struct {
			since time.Time
			want  bool
		}{{since, false}, {time.Now(), true}} {
			removed, err := client.RemoveIdle(t.Context(), "a", s.since, false)
			if err != nil || removed != s.want {
				t.Errorf("removed %t, %v; want %t", removed, err, s.want)
			}
		}
	})
}

// Who settles a hold of a field without a limit for all of what was held takes nothing off the shards: the counter
// isn't idle all the same, and at 0 it goes as before.
func TestASettledHoldIsNotIdle(t *testing.T) {
	for used, back := range map[int64]int64{0: 0, 3: -3, 4: -4, 6: -6} {
		virtual.Run(t, fmt.Sprint("settled for ", used), func(t *testing.T) {
			w := newWorld(t)
			client := w.open(t, shards.Config{NumShards: 2})
			c := w.counter(t, client, "a", 2)
			key := shards.Key{Value: "a hold"}
			_, _, err := c.Reserve(t.Context(), "total", 4, 48*time.Hour, key)
			must(t, err)
			time.Sleep(time.Second)
			w.rollUp(t, "a")
			time.Sleep(24 * time.Hour)
			since := time.Now()
			time.Sleep(time.Minute)
			_, err = c.Settle(t.Context(), "total", used, key)
			must(t, err)
			time.Sleep(time.Second)
			if removed, err := client.RemoveIdle(t.Context(), "a", since, false); removed || err != nil {
				t.Errorf("removed %t, %v, though it was settled lately", removed, err)
			}
			if back != 0 {
				must(t, c.Add(t.Context(), back))
			}
			time.Sleep(time.Second)
			w.rollUp(t, "a")
			time.Sleep(time.Hour)
			if removed, err := client.RemoveIdle(t.Context(), "a", time.Now(), true); !removed || err != nil {
				t.Errorf("removed %t, %v, though it is at 0 and idle", removed, err)
			}
		})
	}
}

// A client remembers shards of a field with a limit, and the counter is removed because it is idle. What the client
// takes at that moment, or after it, either spares the counter, or is of its next life, which has the whole limit.
func TestATakeBesideTheRemovalOfWhatIsIdle(t *testing.T) {
	t.Parallel()
	for _, beside := range []bool{true, false} {
		for _, taken := range []int64{2, 5} { // of 5
			for _, by := range []int64{3, -1} {
				virtual.Run(t, fmt.Sprintf("%d to %d, beside it %t", by, taken, beside), func(t *testing.T) {
					w := newWorld(t)
					cfg := shards.Config{Place: shards.Place{Fields: "total=limit(5)"}, NumShards: 2, AutoCreate: true}
					client, other := w.open(t, cfg), w.open(t, cfg)
					c := handle(t, client, "a")
					must(t, c.Add(t.Context(), taken))
					time.Sleep(time.Second)
					w.reconcile(t, rollup.Config{Place: cfg.Place}, "a", rollup.ReconcileOptions{})
					time.Sleep(time.Hour)
					since := time.Now().Add(-time.Minute)
					took := make(chan error, 1)
					take := sync.OnceFunc(func() {
						go func() { took <- c.Add(t.Context(), by) }()
						time.Sleep(time.Second)
					})
					removes := deletes("/counters/a")
					w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
						if beside && removes(req) {
							take()
						}
						return emulator.Verdict{}
					})
					removed, err := other.RemoveIdle(t.Context(), "a", since, false)
					must(t, err)
					take()
					was := taken
					if removed {
						was = 0
					}
					fits := func(was int64) bool { return was+by >= 0 && was+by <= 5 }
					want, refused := was, beside && !fits(taken) || !fits(was) // perhaps before it was removed
					switch err = <-took; {
					case err == nil && fits(was):
						want += by
					case !refused || !errors.Is(err, shards.ErrLimit):
						t.Errorf("removed %t, and the take says %v", removed, err)
					}
					w.wantSum(t, "a", want)
					for left := 5 - want; left >= 0; left-- {
						if err := c.Add(t.Context(), 1); errors.Is(err, shards.ErrLimit) != (left == 0) {
							t.Errorf("%v, where %d are left", err, left)
						}
					}
					if !beside && !removed {
						t.Error("it was not removed: this shows nothing")
					}
				})
			}
		}
	}
}
