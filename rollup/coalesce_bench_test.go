package rollup

import (
	"fmt"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/ledger"
)

// BenchmarkCoalesce queues a thousand events, hands them out and takes them back: an event's share
// of it is what the numbers are per. They are of one counter with a hundred shards, or of a
// thousand counters.
func BenchmarkCoalesce(b *testing.B) {
	const events = 1000
	for _, counters := range []int{1, 1000} {
		b.Run(fmt.Sprintf("counters=%d", counters), func(b *testing.B) {
			ids, shards := make([]string, counters), make([]string, 100)
			for i := range ids {
				ids[i] = fmt.Sprintf("counter-%d", i)
			}
			for i := range shards {
				shards[i] = fmt.Sprint(i)
			}
			c := newCoalescer(events, counters)
			now, queued := after(0), 0
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := c.add(now, ids[queued%counters], ledger.State{Shard: shards[queued%100], Counts: ledger.Counts{"total": 1}, AsOf: now}, queued); !ok {
					b.Fatal("an event was refused")
				}
				if queued++; queued < events {
					continue
				}
				queued = 0
				now = now.Add(time.Minute) // beyond every interval
				for flush, ok := c.start(now); ok; flush, ok = c.start(now) {
					c.done(now, flush, committed, flushed{})
				}
				if c.waiting != 0 {
					b.Fatalf("%d events are still waiting", c.waiting)
				}
			}
		})
	}
}
