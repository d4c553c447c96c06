package verify

import (
	"fmt"
	"sync"
	"time"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// meter adds up what a trial costs at most: list prices, no free tier.
type meter struct {
	prices cost.Prices
	most   float64

	mu   sync.Mutex
	used cost.Usage
}

// perIncrement is what an increment with a key costs at most: its shard and its marker are written, and
// the marker is deleted; it is an event of its own; and it is rolled up alone: document and base are read,
// the shards' sum is asked for, and the document is written, the first time with the base.
var perIncrement = cost.Usage{
	Reads: 3, Writes: 4, Deletes: 1,
	Increment: cost.Function{Requests: 1, Busy: 0.1},
	Rollup:    cost.Function{Requests: 1, Busy: 0.1},
}

func (m *meter) add(u cost.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used = m.used.Plus(u)
}

func (m *meter) dollars() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.prices.Bill(m.used, cost.ByRequest).Total()
}

// allow says that so much more may be used.
func (m *meter) allow(u cost.Usage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if then := m.prices.Bill(m.used.Plus(u), cost.ByRequest).Total(); then > m.most {
		return fmt.Errorf("that would cost up to $%.4f, and --most is $%.4f", then, m.most)
	}
	return nil
}

// Bound is what a whole trial costs at most in documents and requests, in US dollars, if a document is written so long.
func Bound(p cost.Prices, t time.Duration) float64 {
	all := perIncrement.Times(increments*(1+1.0/twice) + crowd + lags + takers + 40)
	hot := cost.Usage{Reads: float64(len(behind) * asks * (parts + 3)), Writes: rewrites + parts}
	for _, rate := range rates {
		hot.Writes += float64(60 * rate)
	}
	return p.Bill(all.Plus(cost.Usage{Reads: 2000, Writes: 500, Deletes: 2000}).Plus(hot.Times(t.Minutes())), cost.ByRequest).Total()
}
