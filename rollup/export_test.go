package rollup

import (
	"context"
	"maps"
	"slices"
	"time"

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
	Unasked      []string
}

// Apply is a flush of states.
func (c *Client) Apply(ctx context.Context, counter string, states []ledger.State) (Applied, error) {
	b := batch{counter: counter, states: states}
	for _, s := range states {
		b.adopts = b.adopts || !s.Gone
	}
	f, err := c.flush(ctx, b)
	return Applied{len(f.diff.States), f.deltas["total"], f.otherFlushes, f.gone, len(f.diff.Full), !f.diff.Oldest().IsZero(), f.unasked}, err
}

// Looks has a client's walks look at each shard, or at none without a reason.
func (c *Client) Looks(each bool) { c.looks = func() bool { return each } }

func (c Change) State() ledger.State { return c.state() }

// Spoken is what a flush did that may speak for others, or follow.
type Spoken struct {
	Spoke, News bool
	Committed   bool
	Reads       int
	Floor       time.Time
	Open        []string // shards that wait on
}

// Speak is a flush of states by an instance to which snapshots are worth so many reads.
func (c *Client) Speak(ctx context.Context, counter string, reads int, follows bool, states ...ledger.State) (Spoken, error) {
	b := batch{counter: counter, states: states, adopts: true, speaks: true, reads: reads, follows: follows, shared: follows, least: time.Second}
	f, err := c.flush(ctx, b)
	return Spoken{f.spoke, f.news, f.committed, f.reads, f.floor, slices.Sorted(maps.Keys(f.open))}, err
}
