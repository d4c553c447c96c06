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

// sums says why nothing can be set in any counter, as [ErrInvalidField].
func (c *Client) sums() error {
	if err := c.db.CheckSums(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidField, err)
	}
	return nil
}

// mayHave says why a counter can't be given n shards.
func (c *Client) mayHave(n int) error {
	most := c.db.Fields.MaxShards()
	switch {
	case len(c.db.Fields) == 0:
		return fmt.Errorf("%w: %d; a counter of documents alone has none", ErrInvalidShards, n)
	case n >= 1 && n <= most:
		return nil
	case most < MaxShards:
		return fmt.Errorf("%w: %d; a counter of %d fields has 1 to %d", ErrInvalidShards, n, len(c.db.Fields), most)
	}
	return fmt.Errorf("%w: %d; a counter has 1 to %d", ErrInvalidShards, n, most)
}
