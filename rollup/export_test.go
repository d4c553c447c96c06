package rollup

import (
	"context"
	"math"

	"github.com/firestore-counters/counters/internal/book"
)

// What tests drive below a Roller.

// Applied is what a refresh did.
type Applied struct {
	Committed bool
	Yielded   bool // the rest was left to another instance
	Delta     int64
	Reads     int
	Changes   []book.FieldDiff
	Unknown   []string // fields that count documents, which are asked beside it
}

// Apply is a refresh for changes.
func (c *Client) Apply(ctx context.Context, counter string, changes []Change) (Applied, error) {
	return c.refreshFor(ctx, counter, changes, true)
}

// Follow is a refresh that leaves to others what it can.
func (c *Client) Follow(ctx context.Context, counter string, changes []Change) (Applied, error) {
	return c.refreshFor(ctx, counter, changes, false)
}

func (c *Client) refreshFor(ctx context.Context, counter string, changes []Change, spare bool) (a Applied, err error) {
	f := flight{source: source{counter: counter}, gathered: gathered{events: int64(len(changes))}, hurries: spare, interval: 1e9, ahead: 4e9, started: c.db.Now()}
	for _, change := range changes {
		f.addExtensionShards(change.Fields)
		f.needs = append(f.needs, need{fields: change.Fields, at: change.At})
		f.makes = f.makes || !change.Gone
	}
	r, err := c.refresh(ctx, f)
	a = Applied{Committed: r.wrote, Yielded: r.outcome == leftToOthers, Reads: r.reads, Changes: r.changes, Unknown: r.unknown.Names()}
	for _, change := range r.changes {
		if change.Field.Name == "total" {
			a.Delta = change.Delta
		}
	}
	return a, err
}

// Looks has a client's walks look at each shard, or at none without a reason.
func (c *Client) Looks(each bool) {
	if c.looksOnceIn = 1; !each {
		c.looksOnceIn = math.MaxInt
	}
}

// Forget has a client remember nothing of a counter.
func (c *Client) Forget(counter string) { c.memories.Remove(counter) }

// UsedSince is whether a walk looks at a counter before others.
var UsedSince = usedSince
