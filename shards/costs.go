package shards

import (
	"fmt"
	"math"
	"time"

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

// costOfBelow is what it takes to look for a member of a counter whose document is missing, and costOfConfirm to confirm
// a seat that somebody joins, besides the writes, which are lent.
var (
	costOfBelow   = ceiling.Amounts{ceiling.Reads: 2}
	costOfConfirm = ceiling.Amounts{ceiling.Reads: 1}
)

// costOfApart is what it takes to make the shards of a field with a limit.
func (c *Client) costOfApart() ceiling.Amounts {
	shards := float64(min(c.cfg.NumShards, layout.MostApart))
	return ceiling.Amounts{ceiling.Writes: shards, ceiling.Reads: book.Reads + 2}
}

// affordShards promises the writes of further shards of a field with a limit, which nobody knew of when others were
// promised. What a few seconds earn may be owed.
func (c *Client) affordShards(n int) (promised ceiling.Amounts, err error) {
	if n <= 0 {
		return promised, nil
	}
	promised[ceiling.Writes] = float64(n)
	owed := ceiling.Amounts{ceiling.Writes: c.cfg.Budget.Second(ceiling.Writes) * owedForShards.Seconds()}
	if !c.cfg.Budget.Owe(promised, owed) {
		return ceiling.Amounts{}, fmt.Errorf("%w for %d shards", errShort, n)
	}
	return promised, nil
}

// owedForShards is the time in which is earned what may be owed for further shards.
const owedForShards = 2 * time.Second
