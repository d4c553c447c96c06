package shards

import (
	"fmt"

	"github.com/firestore-counters/counters/internal/store"
)

// MaxShards is the largest number of shards of a counter.
const MaxShards = store.MaxShards

// validShards reports whether a counter can have n shards.
func validShards(n int) error {
	if n < 1 || n > MaxShards {
		return fmt.Errorf("%w: %d; a counter has 1 to %d", ErrInvalidShards, n, MaxShards)
	}
	return nil
}
