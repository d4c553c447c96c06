package ledger

import (
	"fmt"
	"testing"
)

// BenchmarkMerge merges a second's worth of states, one per shard, into a ledger that knows all of them, and makes what
// the commit writes.
func BenchmarkMerge(b *testing.B) {
	for _, shards := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			l := ofTotal(Sum{Shards: make(map[string]Entry, shards)})
			states := make([]State, shards)
			for n := range states {
				id := fmt.Sprint(n)
				l.Sums["total"].Shards[id] = Entry{Count: int64(n), AsOf: at(10)}
				states[n] = State{Shard: id, Counts: Counts{"total": int64(n + 1)}, AsOf: at(20)}
			}
			b.ReportAllocs()
			for b.Loop() {
				d := l.Merge(states)
				if d.Sums["total"].Delta != int64(shards) {
					b.Fatalf("delta = %d, want %d", d.Sums["total"].Delta, shards)
				}
				d.Fields()
			}
		})
	}
}
