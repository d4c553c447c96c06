// Package ledger is the idea of the project: what a counter's total is made of.
//
// Beside each counter lies a ledger. It holds, per shard, the newest state that is already counted in the total: what the
// shard held, and since when, by the document's own update time. An event tells a state too. Counting it is the difference
// between the two, and writes the newer one down:
//
//	known = ledger[shard], or (0, the ledger's create time)
//	state is newer than known:  total += state.count - known.count;  ledger[shard] = state
//
// So an event that comes twice, late or out of order changes nothing, and one that never came is made up for by the next
// state of its shard. A ledger is a last-writer-wins map: applying states is idempotent, commutative and associative.
//
// Everything here is pure: no client, no clock, no logger. Package rollup reads ledgers, merges states into them and
// commits both with the total; package shards writes them when it creates, resets or imports.
package ledger

import (
	"math"
	"time"
)

// State is what a shard held as of a time. Of two states of one shard the one with the later time counts.
type State struct {
	Shard string
	Count int64
	AsOf  time.Time // the document's own update time, in microseconds
}

// Entry is one shard's newest counted state.
type Entry struct {
	Count int64
	AsOf  time.Time
}

// Ledger says what a counter's total is made of.
type Ledger struct {
	ID       string           // which the counter's document names too: see [Of]
	Shards   map[string]Entry // :: shard id → the newest state counted
	Base     int64            // what the total holds beyond the shards
	Ops      []string         // ids of the last commands that were applied, oldest first
	Replaced *int64           // the total that adoption replaced, where there was one
	Flushes  int64            // how often it was rolled up: tells an instance how many others write it
	Imported map[string]int64 // :: hash of a counter of another kind → what base holds of it; a new ledger has none

	Created time.Time // the document's create time: nothing older is counted for a shard that Shards doesn't know
	Updated time.Time // the document's update time: every commit's precondition
}

// Sum is what the total should be: base plus every shard's count.
func (l *Ledger) Sum() int64 {
	sum := l.Base
	for _, e := range l.Shards {
		sum += e.Count
	}
	return sum
}

// Merge tells what states add to the total, and which of the ledger's entries they replace. Of several states of a shard
// the newest counts. A shard that the ledger doesn't know counts as 0 since floor: the ledger's own create time for
// events, so that late ones of an earlier counter under the same id count nothing, and the zero time for a snapshot,
// which is no older than the ledger as a whole. The ledger itself is left as it is.
func (l *Ledger) Merge(floor time.Time, states []State) (changed map[string]Entry, delta int64) {
	for _, s := range states {
		known, ok := changed[s.Shard]
		if !ok {
			if known, ok = l.Shards[s.Shard]; !ok {
				known.AsOf = floor
			}
		}
		if !s.AsOf.After(known.AsOf) {
			continue
		}
		if changed == nil {
			changed = make(map[string]Entry, len(states))
		}
		delta += s.Count - known.Count
		changed[s.Shard] = Entry{Count: s.Count, AsOf: s.AsOf}
	}
	return changed, delta
}

// Add is the sum of two counts, which stays at the largest or smallest int64 as Firestore's own increments do.
func Add(a, b int64) int64 {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	}
	return sum
}
