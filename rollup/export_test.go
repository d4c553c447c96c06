package rollup

import (
	"context"

	"github.com/firestore-counters/counters/internal/ledger"
)

// What tests drive below a Roller.

type Applied struct {
	Shards       int
	Delta        int64
	OtherFlushes int64
	Gone         bool
	Full         int
	Lagged       bool // there was a state to measure a lag by
}

func (c *Client) Apply(ctx context.Context, counter string, states []ledger.State) (Applied, error) {
	a, err := c.apply(ctx, counter, states)
	return Applied{a.shards, a.deltas["total"], a.otherFlushes, a.gone, len(a.full), !a.oldest.IsZero()}, err
}

func (c Change) State() ledger.State { return c.state() }
