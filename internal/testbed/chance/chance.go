// Package chance draws what a test leaves to chance, from a seed that is printed where the test fails. TEST_SEED=N
// draws the same again. Where goroutines draw side by side, who draws first is the scheduler's chance.
package chance

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Of draws for a test. Its goroutines may share it.
func Of(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(&shared{pcg: rand.NewPCG(Seed(t), 0)})
}

// Seed is TEST_SEED, or drawn. It is logged, and go test prints that where the test fails.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("TEST_SEED: %v", err)
		}
	}
	t.Logf("again with TEST_SEED=%d", seed)
	return seed
}

// shared is a source that goroutines share.
type shared struct {
	mu  sync.Mutex
	pcg *rand.PCG
}

func (s *shared) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pcg.Uint64()
}

// Below is at least 0, and below n, which is above 0.
func Below[N int64 | time.Duration](r *rand.Rand, n N) N { return N(r.Int64N(int64(n))) }
