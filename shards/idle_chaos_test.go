//go:build !race

package shards_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// A counter is at 0 again and again, and whenever it may be removed, somebody tries: several at a time, whose commits
// fail, lose their answers or arrive late. What was acknowledged is counted in one life or the other, and members stay
// once they have joined.
func TestRemoveIdleLosesNothing(t *testing.T) {
	for seed := range uint64(6) {
		virtual.Run(t, fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t)
			cfg := shards.Config{AutoCreate: true, NumShards: 2}
			late := w.failCommits(12, 10*time.Second, false, nil)
			var sum, maybe, removed atomic.Int64
			var group sync.WaitGroup
			for worker := range 4 {
				c := handle(t, w.open(t, cfg), "a")
				r := rand.New(rand.NewPCG(seed, uint64(worker)))
				group.Go(func() {
					for range 40 {
						time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
						n := int64(0)
						for _, by := range []int64{1, -1} { // back at 0 soon
							switch err := c.Add(t.Context(), by); {
							case err == nil:
								n += by
							case errors.Is(err, shards.ErrUnknown):
								maybe.Add(1)
							case !errors.Is(err, shards.ErrBusy):
								t.Error(err)
							}
						}
						sum.Add(n)
						if r.IntN(8) == 0 {
							member := fmt.Sprint("m", worker, "-", r.IntN(3))
							if _, err := c.Join(t.Context(), "total", member); err == nil {
								time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
								_, err = c.Leave(t.Context(), "total", member)
								for err != nil && (errors.Is(err, shards.ErrBusy) || errors.Is(err, shards.ErrUnknown)) {
									_, err = c.Leave(t.Context(), "total", member)
								}
								if err != nil {
									t.Error("leave:", err)
								}
							}
						}
					}
				})
			}
			done := make(chan struct{})
			var removers sync.WaitGroup
			for range 2 {
				client := w.open(t, cfg)
				removers.Go(func() {
					for {
						select {
						case <-done:
							return
						case <-time.After(20 * time.Millisecond):
						}
						gone, err := client.RemoveIdle(t.Context(), "a", time.Now(), true)
						if err != nil && !errors.Is(err, shards.ErrBusy) && !errors.Is(err, shards.ErrUnknown) {
							t.Error("remove:", err)
						}
						if gone {
							removed.Add(1)
						}
					}
				})
			}
			group.Wait()
			close(done)
			removers.Wait()
			late.Wait()
			w.Server.SetInterceptor(nil)
			members := int64(0)
			for _, err := range handle(t, w.open(t, cfg), "a").Members(t.Context(), "total") {
				if err != nil && !errors.Is(err, shards.ErrNotFound) {
					t.Fatal(err)
				}
				if err == nil {
					members++
				}
			}
			got := w.sum(t, "a")
			if diff := got - sum.Load() - members; diff > maybe.Load() || -diff > maybe.Load() {
				t.Errorf("it adds up to %d, want %d, and %d members; %d may be counted", got, sum.Load(), members, maybe.Load())
			}
			if removed.Load() == 0 {
				t.Error("it was never removed: this shows nothing")
			}
			t.Logf("removed %d times; %d may be counted", removed.Load(), maybe.Load())
		})
	}
}
