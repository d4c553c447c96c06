package ledger

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// ofTotal is a ledger of one field, total.
func ofTotal(s Sum) *Ledger { return &Ledger{Sums: map[string]*Sum{"total": &s}} }

// at is a time in a test: n microseconds after some moment.
func at(n int) time.Time { return time.UnixMicro(1_800_000_000_000_000 + int64(n)).UTC() }

func TestMerge(t *testing.T) {
	t.Parallel()
	state := func(shard string, count int64, asOf int) State {
		return State{Shard: shard, Counts: Counts{"total": count}, AsOf: at(asOf)}
	}
	gone := func(shard string, asOf int) State {
		return State{Shard: shard, Counts: Counts{"total": 0}, AsOf: at(asOf), Gone: true}
	}
	entry := func(shard string, count int64, asOf int) map[string]Entry {
		return map[string]Entry{shard: {Count: count, AsOf: at(asOf)}}
	}
	one := entry("0", 5, 200)
	tests := []struct {
		name    string
		ledger  map[string]Entry
		states  []State
		delta   int64
		changed map[string]Entry
	}{
		{"nothing", one, nil, 0, nil},
		{"newer", one, []State{state("0", 7, 300)}, 2, entry("0", 7, 300)},
		{"the same again", one, []State{state("0", 5, 200)}, 0, nil},
		{"late", one, []State{state("0", 3, 150)}, 0, nil},
		{"newer, and holding the same", one, []State{state("0", 5, 300)}, 0, entry("0", 5, 300)},
		{"unknown shard", one, []State{state("1", 4, 101)}, 4, entry("1", 4, 101)},
		{"unknown shard, of an earlier counter", one, []State{state("1", 4, 99)}, 0, nil},
		{"unknown shard, as old as the floor", one, []State{state("1", 4, 100)}, 0, nil},
		{"deleted", one, []State{gone("0", 201)}, -5, entry("0", 0, 201)},
		{"deleted, as of before the floor", entry("0", 5, 50), []State{gone("0", 51)}, -5, entry("0", 0, 51)},
		{"an unknown shard that is deleted, as of before the floor", one, []State{gone("1", 51)}, 0, entry("1", 0, 51)},
		{"known, and from before the floor", entry("0", 5, 50), []State{state("0", 7, 60)}, 0, nil},
		{"deletion and what came before it", nil, []State{gone("0", 201), state("0", 5, 200)}, 0, entry("0", 0, 201)},
		{"deleted at the same time", one, []State{gone("0", 200)}, 0, nil},
		{"made again at the time of the deletion", entry("0", 0, 201), []State{state("0", 3, 201)}, 3, entry("0", 3, 201)},
		{"deleted and made again at the same time", one, []State{gone("0", 201), state("0", 3, 201)}, -2, entry("0", 3, 201)},
		{"several of one shard, out of order", one, []State{state("0", 6, 300), state("0", 9, 500), state("0", 8, 400)}, 4, entry("0", 9, 500)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := ofTotal(Sum{Shards: tt.ledger, Floor: at(100)})
			before := maps.Clone(l.Sums["total"].Shards)
			d := l.Merge(tt.states)
			if d.Sums["total"].Delta != tt.delta || !maps.Equal(d.Sums["total"].Entries, tt.changed) || len(d.Sums["total"].Removed) != 0 {
				t.Errorf("diff = %+v, want %d, %v", d, tt.delta, tt.changed)
			}
			if !maps.Equal(before, l.Sums["total"].Shards) {
				t.Errorf("merge wrote to the ledger: %v, was %v", l.Sums["total"].Shards, before)
			}
		})
	}
}

func TestCorrect(t *testing.T) {
	t.Parallel()
	const now = 1000
	snapshot := func(at_ int, states ...State) Snapshot { return Snapshot{At: at(at_), States: states} }
	state := func(shard string, count int64, asOf int) State {
		return State{Shard: shard, Counts: Counts{"total": count}, AsOf: at(asOf)}
	}
	tests := []struct {
		name       string
		known      Entry // of shard 0
		snapshot   Snapshot
		want       map[string]Entry // nil: as it was
		floor      int
		impossible bool
	}{
		{"the same", Entry{5, at(200)}, snapshot(now, state("0", 5, 200)), nil, now, false},
		{"a lost event", Entry{5, at(200)}, snapshot(now, state("0", 7, 300)), map[string]Entry{"0": {7, at(300)}}, now, false},
		{"a lost event that changed nothing in the end", Entry{5, at(200)}, snapshot(now, state("0", 5, 300)), map[string]Entry{"0": {5, at(300)}}, now, false},
		{"a shard older than the ledger", Entry{5, at(200)}, snapshot(now, state("0", 5, 200), state("1", 2, 50)), map[string]Entry{"0": {5, at(200)}, "1": {2, at(50)}}, now, true},
		{"a shard that is new", Entry{5, at(200)}, snapshot(now, state("0", 5, 200), state("1", 2, 150)), map[string]Entry{"0": {5, at(200)}, "1": {2, at(150)}}, now, false},
		{"a shard that is gone", Entry{5, at(200)}, snapshot(now), map[string]Entry{}, now, false},
		{"a shard that is not a number now", Entry{5, at(200)}, Snapshot{At: at(now), States: []State{{Shard: "0", AsOf: at(300)}}}, nil, now, false},
		{"counted since the snapshot", Entry{9, at(950)}, snapshot(900, state("0", 7, 300)), nil, 900, false},
		{"made since the snapshot", Entry{9, at(950)}, snapshot(900), nil, 900, false},
		{"deleted since the snapshot, at an earlier time", Entry{0, at(301)}, snapshot(900, state("0", 7, 300)), nil, 900, false},
		{"deleted, and made again at the same time", Entry{0, at(201)}, snapshot(900, state("0", 7, 201)), map[string]Entry{"0": {7, at(201)}}, 900, false},
		{"a change that never was", Entry{99, at(500)}, snapshot(now, state("0", 7, 300)), map[string]Entry{"0": {7, at(300)}}, now, false},
		{"a change in the future", Entry{99, at(5000)}, snapshot(now, state("0", 7, 300)), map[string]Entry{"0": {7, at(300)}}, now, true},
		{"a change in the future, and an earlier snapshot", Entry{99, at(5000)}, snapshot(900, state("0", 7, 300)), map[string]Entry{"0": {7, at(300)}}, 900, true},
		{"a shard in the future that is not there", Entry{99, at(5000)}, snapshot(now), map[string]Entry{}, now, true},
		{"an earlier counter's snapshot", Entry{5, at(200)}, snapshot(100, state("0", 7, 90)), nil, 100, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := ofTotal(Sum{Shards: map[string]Entry{"0": tt.known}, Floor: at(100)})
			before, want := l.Sums["total"].Total(), tt.want
			if want == nil {
				want = map[string]Entry{"0": tt.known}
			}
			d := l.Correct(at(now), tt.snapshot, "total")
			if d.Empty() != (tt.want == nil) || d.Impossible != tt.impossible {
				t.Errorf("diff = %+v", d)
			}
			l.Apply(d)
			if !maps.Equal(l.Sums["total"].Shards, want) || !l.Sums["total"].Floor.Equal(at(tt.floor)) || l.Sums["total"].Total() != before+d.Sums["total"].Delta {
				t.Errorf("ledger = %+v after %+v, want %v and floor %v", l, d, want, at(tt.floor))
			}
		})
	}
}

// A snapshot that is not younger than the floor may be of an earlier counter, whose shards were others.
func TestSnapshotFromBeforeTheFloor(t *testing.T) {
	t.Parallel()
	for _, taken := range []int{400, 500} {
		l := ofTotal(Sum{Shards: map[string]Entry{"0": {5, at(300)}}, Floor: at(500)})
		if d := l.Correct(at(1000), Snapshot{At: at(taken)}, "total"); !d.Empty() {
			t.Errorf("%+v, want that it says nothing", d)
		}
	}
}

// With a floor that has not come, which no snapshot is younger than, every event is passed over: the next snapshot corrects it.
func TestFloorInTheFuture(t *testing.T) {
	t.Parallel()
	for _, taken := range []int{900, 1000} {
		l := ofTotal(Sum{Shards: map[string]Entry{"0": {1, at(50)}}, Floor: at(5000)})
		d := l.Correct(at(1000), Snapshot{At: at(taken), States: []State{{Shard: "0", Counts: Counts{"total": 7}, AsOf: at(300)}}}, "total")
		if !d.Impossible {
			t.Error("want another snapshot: states may have been passed over until now")
		}
		if l.Apply(d); l.Sums["total"].Total() != 7 || !l.Sums["total"].Floor.Equal(at(taken)) {
			t.Errorf("%+v, want a total of 7 and the snapshot's time as the floor", l.Sums["total"])
		}
	}
}

// Whatever a ledger claims, a snapshot of this moment makes it right, and says so where states may have been passed over.
func TestCorrectMakesAnyLedgerRight(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const now = 1000
		times := rapid.SampledFrom([]int{0, 1, 300, 301, 999, now, now + 1, 5000})
		l := ofTotal(Sum{Shards: map[string]Entry{}, Base: 7, Floor: at(times.Filter(func(micros int) bool { return micros != now }).Draw(t, "floor"))})
		shard := rapid.SampledFrom([]string{"0", "1", "2", "3"})
		for _, id := range rapid.SliceOfDistinct(shard, rapid.ID).Draw(t, "entries") {
			l.Sums["total"].Shards[id] = Entry{Count: rapid.Int64Range(-5, 5).Draw(t, "count"), AsOf: at(times.Draw(t, "as of"))}
		}
		s := Snapshot{At: at(now)}
		want := int64(7)
		for _, id := range rapid.SliceOfDistinct(shard, rapid.ID).Draw(t, "shards") {
			count := rapid.Int64Range(-5, 5).Draw(t, "count")
			want += count
			s.States = append(s.States, State{Shard: id, Counts: Counts{"total": count}, AsOf: at(times.Filter(func(micros int) bool { return micros <= now }).Draw(t, "updated"))})
		}
		behind := l.Behind(at(now), "total")
		before := l.Sums["total"].Total()
		d := l.Correct(at(now), s, "total")
		l.Apply(d)
		if got := l.Sums["total"].Total(); got != want || before+d.Sums["total"].Delta != want {
			t.Fatalf("the sum is %d after a difference of %d from %d, want %d", got, d.Sums["total"].Delta, before, want)
		}
		if behind && !d.Impossible || l.Behind(at(now), "total") {
			t.Fatalf("behind before: %t, and after %+v: %t", behind, d, l.Behind(at(now), "total"))
		}
	})
}

// A shard was made and deleted, the event of its deletion is lost, and a reconcile has corrected the ledger since: a late
// event of it counts nothing, although the ledger has never known it.
func TestLateEventOfAShardThatTheLedgerNeverKnew(t *testing.T) {
	t.Parallel()
	l := ofTotal(Sum{Shards: map[string]Entry{}, Floor: at(100)})
	l.Apply(l.Correct(at(300), Snapshot{At: at(300), States: []State{{Shard: "0", Counts: Counts{"total": 1}, AsOf: at(200)}}}, "total"))
	if d := l.Merge([]State{{Shard: "1", Counts: Counts{"total": 1}, AsOf: at(150)}}); !d.Empty() || l.Sums["total"].Total() != 1 {
		t.Errorf("sum %d, and the late event changes %+v", l.Sums["total"].Total(), d)
	}
}

// Sums and deltas end at the largest and smallest int64, in whatever order their terms come, and a total that was there
// is right again once the shards come back.
func TestSumsSaturate(t *testing.T) {
	t.Parallel()
	if got := Add(math.MinInt64, -1); got != math.MinInt64 {
		t.Errorf("Add = %d", got)
	}
	if got := Sub(0, math.MinInt64); got != math.MaxInt64 {
		t.Errorf("Sub = %d", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, 1, -1, 0}))
		l := ofTotal(Sum{Shards: map[string]Entry{}, Floor: at(0), Base: count.Draw(t, "base")})
		total := l.Sums["total"].Total()
		for i := range rapid.IntRange(1, 10).Draw(t, "steps") {
			d := l.Merge([]State{{Shard: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "shard")), Counts: Counts{"total": count.Draw(t, "count")}, AsOf: at(i + 1)}})
			sum := big.NewInt(l.Sums["total"].Base)
			l.Apply(d)
			for _, e := range l.Sums["total"].Shards {
				sum.Add(sum, big.NewInt(e.Count))
			}
			want := int64(math.MaxInt64)
			switch {
			case sum.IsInt64():
				want = sum.Int64()
			case sum.Sign() < 0:
				want = math.MinInt64
			}
			if l.Sums["total"].Total() != want {
				t.Fatalf("sum = %d, want %d", l.Sums["total"].Total(), want)
			}
			if step := new(big.Int).Sub(big.NewInt(want), big.NewInt(total)); step.IsInt64() && Add(total, d.Sums["total"].Delta) != want {
				t.Fatalf("total %d and delta %d make %d, want %d", total, d.Sums["total"].Delta, Add(total, d.Sums["total"].Delta), want)
			}
			total = want
		}
	})
}

// However many shards send events, and however long their ids are, a ledger stays below a document's megabyte.
func TestLedgerIsBounded(t *testing.T) {
	t.Parallel()
	l := ofTotal(Sum{Shards: map[string]Entry{}, Floor: at(0)})
	id := func(i int) string { return fmt.Sprintf("%0*d", maxKey, i) }
	for i := range MaxEntries {
		if d := l.Merge([]State{{Shard: id(i), Counts: Counts{"total": 1}, AsOf: at(1)}}); len(d.Full) > 0 {
			t.Fatalf("full at %d", i)
		} else {
			l.Apply(d)
		}
	}
	d := l.Merge([]State{{Shard: "more", Counts: Counts{"total": 1}, AsOf: at(2)}, {Shard: id(7), Counts: Counts{"total": 3}, AsOf: at(2)}})
	if !d.Full["more"] || len(d.Full) != 1 || d.Sums["total"].Delta != 2 {
		t.Errorf("diff = %+v, want one shard refused and the other counted", d)
	}
	if size := proto.Size(&firestorepb.Document{Fields: l.Fields()}); size > 1<<20 {
		t.Errorf("a full ledger takes %d bytes", size)
	}
	// A snapshot of more shards than that, of which the ledger knows the last ones.
	s := Snapshot{At: at(5)}
	for i := range MaxEntries + 7 {
		s.States = append(s.States, State{Shard: fmt.Sprintf("%0*d", maxKey-1, i), Counts: Counts{"total": 1}, AsOf: at(3)})
	}
	l = ofTotal(Sum{Shards: map[string]Entry{}, Floor: at(0)})
	l.Apply(l.Merge(s.States[7:]))
	d = l.Correct(at(5), s, "total")
	if l.Apply(d); len(d.Full) != 7 || l.entries() != MaxEntries {
		t.Errorf("%d shards are refused and %d known, want 7 and %d", len(d.Full), l.entries(), MaxEntries)
	}
	long := strings.Repeat("x", 1400)
	l = ofTotal(Sum{Shards: map[string]Entry{}, Floor: at(0)})
	l.Apply(l.Merge([]State{{Shard: long, Counts: Counts{"total": 1}, AsOf: at(1)}}))
	l.Apply(l.Merge([]State{{Shard: long, Counts: Counts{"total": 3}, AsOf: at(2)}}))
	if size := proto.Size(&firestorepb.Document{Fields: l.Fields()}); size > 500 || l.Sums["total"].Total() != 3 {
		t.Errorf("a shard with a long id takes %d bytes, and the sum is %d", size, l.Sums["total"].Total())
	}
	// A snapshot without the shards makes room.
	l = ofTotal(Sum{Shards: map[string]Entry{}, Floor: at(0)})
	for i := range MaxEntries {
		l.Sums["total"].Shards[id(i)] = Entry{Count: 0, AsOf: at(1)}
	}
	l.Apply(l.Correct(at(5), Snapshot{At: at(5)}, "total"))
	if len(l.Sums["total"].Shards) != 0 || !l.Merge([]State{{Shard: id(3), Counts: Counts{"total": 9}, AsOf: at(4)}}).Empty() {
		t.Errorf("%d shards are left, or a late event of one that is gone counts", len(l.Sums["total"].Shards))
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
			s := State{Shard: fmt.Sprint(rapid.IntRange(0, shards-1).Draw(t, "shard")), Counts: Counts{"total": count}, AsOf: at(1000 + i)}
			states = append(states, s)
			last[s.Shard] = s
		}
		var want int64
		for _, s := range last {
			want += s.Counts["total"]
		}
		// What arrives.
		var arrived []State
		for _, s := range states {
			if s.AsOf.Equal(last[s.Shard].AsOf) || !rapid.Bool().Draw(t, "drop") {
				for range rapid.IntRange(1, 3).Draw(t, "copies") {
					arrived = append(arrived, s)
				}
			}
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rng.Shuffle(len(arrived), func(i, j int) { arrived[i], arrived[j] = arrived[j], arrived[i] })

		l := ofTotal(Sum{Shards: map[string]Entry{}, Floor: at(0)})
		var total int64
		for len(arrived) > 0 {
			n := rapid.IntRange(1, len(arrived)).Draw(t, "batch")
			d := l.Merge(arrived[:n])
			l.Apply(d)
			total += d.Sums["total"].Delta
			arrived = arrived[n:]
		}
		if total != want || l.Sums["total"].Total() != want {
			t.Fatalf("total %d, ledger %d, want %d", total, l.Sums["total"].Total(), want)
		}
	})
}
