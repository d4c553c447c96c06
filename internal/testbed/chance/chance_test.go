package chance_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/testbed/chance"
)

// A seed draws the same again, and goroutines may share it.
func TestTheSameAgain(t *testing.T) {
	t.Setenv("TEST_SEED", "42")
	if seed := chance.Seed(t); seed != 42 {
		t.Errorf("the seed is %d", seed)
	}
	draw := func() (drawn []int64) {
		dice := chance.Of(t)
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 100 {
					n := dice.Int64()
					mu.Lock()
					drawn = append(drawn, n)
					mu.Unlock()
				}
			})
		}
		all.Wait()
		slices.Sort(drawn)
		return drawn
	}
	if one, two := draw(), draw(); !slices.Equal(one, two) {
		t.Error("the same seed drew other numbers")
	}
	t.Setenv("TEST_SEED", "")
	if one, two := chance.Seed(t), chance.Seed(t); one == two {
		t.Error("two seeds that are drawn are the same")
	}
	for range 1000 {
		if d := chance.Below(chance.Of(t), 3*time.Nanosecond); d < 0 || d >= 3 {
			t.Fatalf("%d is not below 3", d)
		}
	}
}
