package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Who asks while reads are under way shares the next one, however many those are; a read that has
// begun before is not theirs: it may not know of a counter that was made since.
func TestLookupsShareReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		made := map[string]bool{}
		var reads [][]string
		l := &lookups{most: 100, read: func(counters []string) (map[string]bool, error) {
			slices.Sort(counters)
			reads = append(reads, counters)
			there := map[string]bool{}
			for _, id := range counters {
				there[id] = made[id]
			}
			time.Sleep(time.Second)
			return there, nil
		}}
		var group sync.WaitGroup
		ask := func(want bool, counters ...string) {
			group.Go(func() {
				there, err := l.wait(t.Context(), nil, counters, false)
				for _, id := range counters {
					if err != nil || there[id] != want {
						t.Errorf("%s is there: %v, %v; want %v", id, there[id], err, want)
					}
				}
			})
			synctest.Wait()
		}
		for range readsAtOnce {
			ask(false, "a")
		}
		made["a"], made["b"] = true, true
		for range 100 {
			ask(true, "a", "b")
		}
		ask(false, "c")
		group.Wait()
		if len(reads) != readsAtOnce+1 || !slices.Equal(reads[readsAtOnce], []string{"a", "b", "c"}) {
			t.Errorf("reads of %q, want %d of a, and one of a, b and c", reads, readsAtOnce)
		}
	})
}

// A read is of as many counters as it may be, and whoever finds no room in the next one waits for a later one, unless
// what it asks for is known. A single call may ask for more.
func TestLookupsOfManyWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var reads []int
		l := &lookups{most: 10, read: func(counters []string) (map[string]bool, error) {
			mu.Lock()
			reads = append(reads, len(counters))
			mu.Unlock()
			time.Sleep(time.Second)
			return nil, nil
		}}
		var group sync.WaitGroup
		ask := func(n, from int) {
			group.Go(func() {
				var counters []string
				for i := range n {
					counters = append(counters, fmt.Sprint(from+i))
				}
				if _, err := l.wait(t.Context(), nil, counters, false); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		for n := range 50 {
			ask(4, 4*n)
		}
		ask(20, 1000)
		ask(4, 20) // which others wait for
		if _, err := l.wait(t.Context(), nil, []string{"a", "known", "counter"}, true); !errors.Is(err, errManyLookedUp) {
			t.Errorf("beside many: %v", err)
		}
		began := time.Now()
		group.Wait()
		if took := time.Since(began); took != 7*time.Second || len(reads) != readsAtOnce+(50-readsAtOnce)/2+1 || slices.Max(reads[:len(reads)-1]) > 10 {
			t.Errorf("reads of %d in %v", reads, took)
		}
	})
}

// Who has gone already reads nothing: whether an answer is there at once is a matter of luck.
func TestLookupsOfWhoHasGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		l := &lookups{most: 100, read: func([]string) (map[string]bool, error) {
			reads++
			return nil, nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		there, err := l.wait(ctx, nil, []string{"a"}, false)
		synctest.Wait()
		if !errors.Is(err, context.Canceled) || reads > 0 {
			t.Errorf("%v, %v after %d reads, want that it was cancelled, and no read", there, err, reads)
		}
	})
}
