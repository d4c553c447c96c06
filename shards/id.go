package shards

import (
	"fmt"

	"github.com/firestore-counters/counters/internal/layout"
)

const (
	// MaxShards is the largest number of shards of a counter.
	MaxShards = layout.MaxShards
	// DefaultNumShards is how many shards a counter gets where nothing says otherwise.
	DefaultNumShards = layout.DefaultNumShards
)

// validShards says why a counter can't have n shards.
func (c *Client) validShards(n int) error {
	most := c.db.Fields.MaxShards()
	switch {
	case n >= 1 && n <= most:
		return nil
	case most < MaxShards:
		return fmt.Errorf("%w: %d; a counter of %d fields has 1 to %d", ErrInvalidShards, n, len(c.db.Fields), most)
	}
	return fmt.Errorf("%w: %d; a counter has 1 to %d", ErrInvalidShards, n, most)
}
