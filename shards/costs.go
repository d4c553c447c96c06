package shards

import (
	"fmt"
	"math"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/layout"
)

// errShort says that the budget has too little left.
var errShort = fmt.Errorf("%w: the budget is short", ErrBusy)

// afford promises what n things cost, or returns [errShort]. One of them may be owed: otherwise, beside a flood of
// other calls, there would never be enough for any. It may not by whoever has asked for much lately.
func (c *Client) afford(one ceiling.Amounts, n int, asked float64, what string) (all ceiling.Amounts, err error) {
	owed := one
	if asked >= ceiling.LeavesFrom {
		owed = ceiling.Amounts{}
	}
	if all = one.Times(n); !c.cfg.Budget.Owe(all, owed) {
		return ceiling.Amounts{}, fmt.Errorf("%w for %d %s", errShort, n, what)
	}
	return all, nil
}

// costOfLook is about what a look at a place takes: two sums, whether holds of seats or amounts are over, and its
// shards.
func (c *Client) costOfLook() ceiling.Amounts {
	return ceiling.Amounts{ceiling.Reads: float64(4 + min(c.cfg.NumShards, layout.MostApart))}
}

// CheckNew refuses more new counters, or counters without shards, than the budget can ever have room for at once. It
// never refuses a single one. Its error is an [ErrInvalidIncrement].
func (c *Client) CheckNew(n int) error {
	most := math.Inf(1)
	if c.cfg.AutoCreate {
		most = c.cfg.Budget.Most(ceiling.Creates)
	}
	look := ceiling.Amounts{ceiling.Reads: book.Reads} // that comes before
	for u, takes := range c.CostOfCounter().Plus(look) {
		most = min(most, c.cfg.Budget.Most(ceiling.Unit(u))/takes)
	}
	if most = max(1, math.Floor(most)); float64(n) > most {
		return fmt.Errorf("%w: it would make %d counters, and the ceiling has room for %.0f at once", ErrInvalidIncrement, n, most)
	}
	return nil
}

// CostOfCounter is about what a new counter takes of the budget: what is written are its document, its base, a marker
// and its shards, and what is read are these, and what may lie there of an earlier one.
func (c *Client) CostOfCounter() ceiling.Amounts {
	shards := len(c.db.Layout.Apart()) * min(c.cfg.NumShards, layout.MostApart) // those of fields that have their own
	return c.costOfShards().Plus(ceiling.Amounts{ceiling.Writes: float64(shards + 5), ceiling.Reads: float64(shards + len(c.db.Layout.Sharded) + 8)})
}

// costOfShards is what the shards of a counter take that is there.
func (c *Client) costOfShards() ceiling.Amounts {
	return ceiling.Amounts{ceiling.Writes: float64(c.cfg.NumShards), ceiling.Reads: float64(c.cfg.NumShards + book.Reads)}
}

// costOfHoldEnd is about what it takes to end a hold that is over, with what follows.
var costOfHoldEnd = ceiling.Amounts{ceiling.Reads: 4, ceiling.Writes: 3}
