package ledger

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// at is a time in a test: n microseconds after some moment.
func at(n int) time.Time { return time.UnixMicro(1_800_000_000_000_000 + int64(n)).UTC() }

func TestMerge(t *testing.T) {
	t.Parallel()
	ledger := func(entries map[string]Entry) *Ledger {
		return &Ledger{Shards: entries, Created: at(100)}
	}
	one := map[string]Entry{"0": {Count: 5, AsOf: at(200)}}
	tests := []struct {
		name    string
		ledger  *Ledger
		floor   time.Time
		states  []State
		delta   int64
		changed map[string]Entry
	}{
		{"nothing", ledger(one), at(100), nil, 0, nil},
		{"newer", ledger(one), at(100), []State{{"0", 7, at(300)}}, 2, map[string]Entry{"0": {Count: 7, AsOf: at(300)}}},
		{"the same again", ledger(one), at(100), []State{{"0", 5, at(200)}}, 0, nil},
		{"late", ledger(one), at(100), []State{{"0", 3, at(150)}}, 0, nil},
		{"newer, and holding the same", ledger(one), at(100), []State{{"0", 5, at(300)}}, 0, map[string]Entry{"0": {Count: 5, AsOf: at(300)}}},
		{"unknown shard", ledger(one), at(100), []State{{"1", 4, at(101)}}, 4, map[string]Entry{"1": {Count: 4, AsOf: at(101)}}},
		{"unknown shard, of an earlier counter", ledger(one), at(100), []State{{"1", 4, at(99)}}, 0, nil},
		{"unknown shard, as old as the ledger", ledger(one), at(100), []State{{"1", 4, at(100)}}, 0, nil},
		{"unknown shard in a snapshot", ledger(one), time.Time{}, []State{{"1", 4, at(99)}}, 4, map[string]Entry{"1": {Count: 4, AsOf: at(99)}}},
		{"deleted", ledger(one), at(100), []State{{"0", 0, at(201)}}, -5, map[string]Entry{"0": {Count: 0, AsOf: at(201)}}},
		{"deletion and what came before it", ledger(nil), at(100), []State{{"0", 0, at(201)}, {"0", 5, at(200)}}, 0, map[string]Entry{"0": {Count: 0, AsOf: at(201)}}},
		{"several of one shard, out of order", ledger(one), at(100), []State{{"0", 6, at(300)}, {"0", 9, at(500)}, {"0", 8, at(400)}}, 4, map[string]Entry{"0": {Count: 9, AsOf: at(500)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := maps.Clone(tt.ledger.Shards)
			changed, delta := tt.ledger.Merge(tt.floor, tt.states)
			if delta != tt.delta || !maps.Equal(changed, tt.changed) {
				t.Errorf("merge = %v, %+d, want %v, %+d", changed, delta, tt.changed, tt.delta)
			}
			if !maps.Equal(before, tt.ledger.Shards) {
				t.Errorf("merge wrote to the ledger: %v, was %v", tt.ledger.Shards, before)
			}
		})
	}
}

// Any sequence of states, shuffled, repeated and with all but each shard's last dropped, in batches of any size, gives
// the same total.
func TestMergeCountsExactlyOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// What happened: versions of shards, each with a time of its own.
		counts := rapid.SliceOfN(rapid.Int64Range(-1000, 1000), 1, 40).Draw(t, "counts")
		shards := rapid.IntRange(1, 5).Draw(t, "shards")
		last := map[string]State{}
		var states []State
		for i, count := range counts {
			s := State{Shard: fmt.Sprint(rapid.IntRange(0, shards-1).Draw(t, "shard")), Count: count, AsOf: at(1000 + i)}
			states = append(states, s)
			last[s.Shard] = s
		}
		var want int64
		for _, s := range last {
			want += s.Count
		}
		// What arrives.
		var arrived []State
		for _, s := range states {
			if s == last[s.Shard] || !rapid.Bool().Draw(t, "drop") {
				for range rapid.IntRange(1, 3).Draw(t, "copies") {
					arrived = append(arrived, s)
				}
			}
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rng.Shuffle(len(arrived), func(i, j int) { arrived[i], arrived[j] = arrived[j], arrived[i] })

		l := &Ledger{Shards: map[string]Entry{}, Created: at(0)}
		var total int64
		for len(arrived) > 0 {
			n := rapid.IntRange(1, len(arrived)).Draw(t, "batch")
			changed, delta := l.Merge(l.Created, arrived[:n])
			maps.Copy(l.Shards, changed)
			total += delta
			arrived = arrived[n:]
		}
		if total != want || l.Sum() != want {
			t.Fatalf("total %d, ledger %d, want %d", total, l.Sum(), want)
		}
	})
}
