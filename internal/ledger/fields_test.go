package ledger

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// of is a state of shard 0.
func of(asOf int, counts Counts) State { return State{Shard: "0", Counts: counts, AsOf: at(asOf)} }

func TestMergeOfSeveralFields(t *testing.T) {
	t.Parallel()
	likes, views := Entry{5, at(200)}, Entry{50, at(300)}
	tests := []struct {
		name   string
		states []State
		want   map[string]Entry // :: field → its new entry of shard 0
		deltas Counts
	}{
		{"both newer", []State{of(400, Counts{"likes": 6, "views": 52})}, map[string]Entry{"likes": {6, at(400)}, "views": {52, at(400)}}, Counts{"likes": 1, "views": 2}},
		{"newer for one of them", []State{of(250, Counts{"likes": 6, "views": 49})}, map[string]Entry{"likes": {6, at(250)}}, Counts{"likes": 1}},
		{"one that it doesn't know is not moved on", []State{of(400, Counts{"likes": 6})}, map[string]Entry{"likes": {6, at(400)}}, Counts{"likes": 1}},
		{"and counts with the same state later", []State{of(400, Counts{"likes": 6}), of(400, Counts{"likes": 6, "views": 51})},
			map[string]Entry{"likes": {6, at(400)}, "views": {51, at(400)}}, Counts{"likes": 1, "views": 1}},
		{"one without a sum", []State{of(400, Counts{"shares": 9})}, nil, nil},
		{"one that is newer and the same", []State{of(400, Counts{"likes": 5, "views": 51})}, map[string]Entry{"likes": {5, at(400)}, "views": {51, at(400)}}, Counts{"likes": 0, "views": 1}},
		{"late for both", []State{of(150, Counts{"likes": 4, "views": 40})}, nil, nil},
		{"deleted", []State{{Shard: "0", Counts: Counts{"likes": 0, "views": 0}, AsOf: at(301), Gone: true}},
			map[string]Entry{"likes": {0, at(301)}, "views": {0, at(301)}}, Counts{"likes": -5, "views": -50}},
		{"deleted, as a revision tells that knows one of them", []State{{Shard: "0", Counts: Counts{"likes": 0}, AsOf: at(301), Gone: true}},
			map[string]Entry{"likes": {0, at(301)}}, Counts{"likes": -5}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := &Ledger{Sums: map[string]*Sum{
				"likes": {Shards: map[string]Entry{"0": likes}, Floor: at(100)},
				"views": {Shards: map[string]Entry{"0": views}, Floor: at(100)},
			}}
			d := l.Merge(tt.states)
			got := map[string]Entry{}
			for name, sum := range d.Sums {
				got[name] = sum.Entries["0"]
			}
			if !maps.Equal(got, tt.want) || !maps.Equal(d.Deltas(), tt.deltas) {
				t.Errorf("diff = %+v, want %v and %v", d, tt.want, tt.deltas)
			}
			if d.Empty() != (len(tt.want) == 0) {
				t.Errorf("empty = %t of %+v", d.Empty(), d)
			}
		})
	}
}

// A field that is counted from now on begins with what the shards hold, whatever its times and the other fields' are, and the
// events that come after the snapshot go on from there.
func TestAFieldIsAdded(t *testing.T) {
	t.Parallel()
	l := &Ledger{Sums: map[string]*Sum{"likes": {Shards: map[string]Entry{"0": {5, at(200)}}, Base: 7, Floor: at(100)}}}
	if !l.Behind(at(1000), "likes", "views") || l.Behind(at(1000), "likes") {
		t.Fatalf("behind with views: %t, without: %t", l.Behind(at(1000), "likes", "views"), l.Behind(at(1000), "likes"))
	}
	d := l.Correct(at(900), Snapshot{At: at(900), States: []State{of(200, Counts{"likes": 5, "views": 30}), {Shard: "1", Counts: Counts{"likes": 0, "views": 4}, AsOf: at(50)}}}, "likes", "views")
	if views := d.Sums["views"]; !views.New || views.Delta != 34 || d.Sums["likes"].Delta != 0 {
		t.Errorf("diff = %+v", d)
	}
	fields, mask := d.Fields()
	if Get(fields, "views", FieldBase).GetIntegerValue() != 0 || !slices.Contains(mask, "fields.views.base") || slices.Contains(mask, "fields.likes.base") {
		t.Errorf("it writes %v of %v", mask, fields)
	}
	l.Apply(d)
	if l.Behind(at(1000), "likes", "views") || l.Sums["views"].Total() != 34 || l.Sums["likes"].Total() != 12 {
		t.Errorf("ledger = %+v", l)
	}
	for _, late := range []State{of(200, Counts{"likes": 5, "views": 30}), of(150, Counts{"likes": 1, "views": 29})} {
		if d := l.Merge([]State{late}); !d.Empty() {
			t.Errorf("a state that the snapshot covers changes %+v", d)
		}
	}
	l.Apply(l.Merge([]State{of(901, Counts{"likes": 6, "views": 31})}))
	if l.Sums["views"].Total() != 35 || l.Sums["likes"].Total() != 13 {
		t.Errorf("ledger = %+v", l)
	}
}

// A snapshot of a revision that doesn't know a field says nothing about it.
func TestCorrectLeavesOtherFieldsAlone(t *testing.T) {
	t.Parallel()
	l := &Ledger{Sums: map[string]*Sum{
		"likes": {Shards: map[string]Entry{"0": {5, at(200)}, "1": {1, at(200)}}, Floor: at(100)},
		"views": {Shards: map[string]Entry{"0": {50, at(300)}, "1": {1, at(200)}}, Floor: at(100)},
	}}
	d := l.Correct(at(900), Snapshot{At: at(900), States: []State{of(400, Counts{"likes": 6})}}, "likes")
	l.Apply(d)
	if views := l.Sums["views"]; views.Total() != 51 || !views.Floor.Equal(at(100)) || l.Sums["likes"].Total() != 6 {
		t.Errorf("likes %+v, views %+v", l.Sums["likes"], l.Sums["views"])
	}
}

// A ledger whose counter was gone for a while is behind, whatever fields it has.
func TestBehindAfterItsDocumentWasGone(t *testing.T) {
	t.Parallel()
	l := &Ledger{Sums: map[string]*Sum{"likes": {}}, Gone: at(5)}
	if !l.Behind(at(1000), "likes") {
		t.Error("not behind")
	}
}

// A ledger from before there were several fields is read as that of total, and other fields are added beside it.
func TestALedgerOfTotalIsGivenFields(t *testing.T) {
	t.Parallel()
	old := &firestorepb.Document{CreateTime: timestamppb.New(at(1)), UpdateTime: timestamppb.New(at(2)), Fields: map[string]*firestorepb.Value{
		FieldID: store.String("id"), FieldFlushes: store.Int(3), FieldOps: store.Array(), FieldBase: store.Int(7),
		FieldShards: store.Map(map[string]*firestorepb.Value{"0": store.Map(map[string]*firestorepb.Value{"count": store.Int(5), "as_of": store.Time(at(2))})}),
	}}
	l, err := Decode(old)
	if err != nil || l.Sums["total"].Total() != 12 || !l.Behind(at(1000), "likes", "views") {
		t.Fatalf("decoded %+v, %v", l, err)
	}
	fields, mask := l.Correct(at(9), Snapshot{At: at(9), States: []State{of(3, Counts{"likes": 2, "views": 0})}}, "likes", "views").Fields()
	for _, path := range mask {
		if path == FieldBase || path == FieldFloor || len(path) > 7 && path[:7] == "shards." {
			t.Errorf("it writes %s, which is total's", path)
		}
	}
	maps.Copy(old.Fields, fields) // as the masked update does, there being no fields yet
	if l, err = Decode(old); err != nil || l.Sums["total"].Total() != 12 || l.Sums["likes"].Total() != 2 || l.Sums["views"].Total() != 0 || l.Behind(at(1000), "likes", "views") {
		t.Errorf("decoded %+v, %v", l, err)
	}
}

// Whose ledger it is: by the id that both have, and for a document of the app's own by its place, so that whoever sets it
// without merging, or makes it again, doesn't lose what is in its base.
func TestOf(t *testing.T) {
	t.Parallel()
	doc := func(fields map[string]*firestorepb.Value) *firestorepb.Document {
		return &firestorepb.Document{Fields: fields}
	}
	own := doc(map[string]*firestorepb.Value{FieldID: store.String("mine")})
	named := doc(map[string]*firestorepb.Value{layout.LedgerID: store.String("mine")})
	for _, tt := range []struct {
		name            string
		hosted          bool
		ledger, counter *firestorepb.Document
		want            bool
	}{
		{"named", false, own, named, true},
		{"an earlier counter's", false, own, doc(map[string]*firestorepb.Value{layout.LedgerID: store.String("another")}), false},
		{"not named", false, own, doc(nil), false},
		{"no ledger", false, nil, named, false},
		{"no counter", false, own, nil, false},
		{"hosted, and named", true, own, doc(map[string]*firestorepb.Value{layout.Rollup: store.Map(named.Fields)}), true},
		{"hosted, and set without merging or made again", true, own, doc(nil), true},
		{"hosted, and no ledger", true, nil, named, false},
		{"hosted, and missing", true, own, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Of(layout.Layout{Hosted: tt.hosted}, tt.ledger, tt.counter); got != tt.want {
				t.Errorf("Of = %t, want %t", got, tt.want)
			}
		})
	}
}

// States of several fields come in any order, again and again, to revisions of which not all know each field. Each field is in
// the end what its newest state held that a revision counted which knows it.
func TestFieldsOfTwoRevisions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"likes", "views", "shares"}[:rapid.IntRange(1, 3).Draw(t, "fields")]
		l := &Ledger{Sums: map[string]*Sum{}}
		for _, name := range names {
			l.Sums[name] = &Sum{Shards: map[string]Entry{}, Floor: at(0), Base: rapid.Int64Range(0, 9).Draw(t, "base")}
		}
		totals := l.Totals()
		// What happened.
		var states []State
		counts := map[string]Counts{}
		for i := range rapid.IntRange(1, 12).Draw(t, "changes") {
			shard := fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "shard"))
			next := maps.Clone(counts[shard])
			if next == nil {
				next = Counts{}
			}
			next[rapid.SampledFrom(names).Draw(t, "field")] += rapid.Int64Range(-3, 5).Draw(t, "by")
			counts[shard] = next
			whole := Counts{}
			for _, name := range names {
				whole[name] = next[name]
			}
			states = append(states, State{Shard: shard, Counts: whole, AsOf: at(i + 1)})
		}
		// What arrives: a revision counts the fields that it knows.
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		arrived := slices.Concat(states, states)[:rapid.IntRange(1, 2*len(states)).Draw(t, "deliveries")]
		rng.Shuffle(len(arrived), func(i, j int) { arrived[i], arrived[j] = arrived[j], arrived[i] })
		want := map[string]map[string]Entry{}
		for _, name := range names {
			want[name] = map[string]Entry{}
		}
		for _, s := range arrived {
			known := Counts{}
			for _, name := range names[:rapid.IntRange(1, len(names)).Draw(t, "known")] {
				known[name] = s.Counts[name]
				if s.AsOf.After(want[name][s.Shard].AsOf) {
					want[name][s.Shard] = Entry{s.Counts[name], s.AsOf}
				}
			}
			d := l.Merge([]State{{Shard: s.Shard, Counts: known, AsOf: s.AsOf}})
			l.Apply(d)
			for name, delta := range d.Deltas() {
				totals[name] += delta
			}
		}
		for _, name := range names {
			if !maps.EqualFunc(l.Sums[name].Shards, want[name], func(a, b Entry) bool { return a.Count == b.Count && a.AsOf.Equal(b.AsOf) }) {
				t.Fatalf("%s: %v, want %v", name, l.Sums[name].Shards, want[name])
			}
			if totals[name] != l.Sums[name].Total() {
				t.Fatalf("%s: the deltas add up to %d, and the sum is %d", name, totals[name], l.Sums[name].Total())
			}
		}
	})
}

// Fields share a ledger's room, and what there is room for is counted.
func TestFieldsShareALedgersRoom(t *testing.T) {
	t.Parallel()
	l := &Ledger{Sums: map[string]*Sum{"likes": {Shards: map[string]Entry{}}, "views": {Shards: map[string]Entry{}}}}
	for i := range MaxEntries - 1 {
		l.Sums["likes"].Shards[fmt.Sprint(i)] = Entry{1, at(1)}
	}
	d := l.Merge([]State{{Shard: "new", Counts: Counts{"likes": 1, "views": 1}, AsOf: at(2)}})
	if !d.Full["new"] || len(d.Sums) != 1 {
		t.Errorf("diff = %+v, want one field entered and one refused", d)
	}
	var past time.Time
	full := l.Correct(at(5), Snapshot{At: at(5), States: slices.Repeat([]State{{Shard: "s", Counts: Counts{"views": 1}, AsOf: past}}, 1)}, "likes", "views")
	if len(full.Full) != 0 || len(full.Sums["likes"].Removed) != MaxEntries-1 {
		t.Errorf("a snapshot makes no room: %d are removed", len(full.Sums["likes"].Removed))
	}
}
