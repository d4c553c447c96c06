package ledger

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/layout"
	"pgregory.net/rapid"
)

// total is a field of the counter's document that is the sum of the shards' count.
var total = layout.Field{Name: "total", Shard: "count"}

func of(count int64) Counts {
	if count == 0 {
		return nil
	}
	return Counts{"count": count}
}

func (l *Ledger) total() int64 {
	n, _ := l.Total(total)
	return n
}

// at is a time in a test: n microseconds after some moment.
func at(n int) time.Time { return time.UnixMicro(1_800_000_000_000_000 + int64(n)).UTC() }

func TestMerge(t *testing.T) {
	t.Parallel()
	state := func(shard string, count int64, asOf int) State {
		return State{Shard: shard, Counts: of(count), AsOf: at(asOf)}
	}
	gone := func(shard string, asOf int) State {
		return State{Shard: shard, AsOf: at(asOf), Gone: true}
	}
	entry := func(shard string, count int64, asOf int) map[string]Entry {
		return map[string]Entry{shard: {Counts: of(count), AsOf: at(asOf)}}
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
			l := &Ledger{States: tt.ledger, Floor: at(100)}
			before, was := maps.Clone(l.States), l.total()
			d := l.Merge(tt.states, nil)
			if !maps.EqualFunc(d.States, tt.changed, sameEntry) || len(d.Removed) != 0 {
				t.Errorf("diff = %+v, want %v", d, tt.changed)
			}
			if !maps.EqualFunc(before, l.States, sameEntry) {
				t.Errorf("merge wrote to the ledger: %v, was %v", l.States, before)
			}
			l = &Ledger{States: maps.Clone(tt.ledger)}
			if l.Apply(d); l.total()-was != tt.delta {
				t.Errorf("the total grows by %d, want %d", l.total()-was, tt.delta)
			}
		})
	}
}

// The newer replaces the older whole, in all fields: one that the state lacks is 0, and one that is
// no integer any more keeps what was last known of it.
func TestMergeSeveralFields(t *testing.T) {
	t.Parallel()
	l := New([]State{{Shard: "0", AsOf: at(100), Counts: Counts{"likes": 5, "views": 7, "shares": 2}}})
	l.Apply(l.Merge([]State{{Shard: "0", AsOf: at(200), Counts: Counts{"likes": 6}, Odd: []string{"views", "title"}}}, nil))
	if got := l.States["0"].Counts; !maps.Equal(got, Counts{"likes": 6, "views": 7}) {
		t.Errorf("the shard's entry is %v", got)
	}
	l.Apply(l.Merge([]State{{Shard: "0", AsOf: at(150), Counts: Counts{"views": 9}}}, nil)) // late
	if got := l.States["0"].Counts; !maps.Equal(got, Counts{"likes": 6, "views": 7}) {
		t.Errorf("after a late state: %v", got)
	}
}

// Whatever the order in which an instance hears of states, the newest integer is what was last
// known of a field that is none any more. What the ledger has is newer than what that instance has
// heard late, and stays: it took its place before.
func TestMergeWhatIsNoIntegerAnyMore(t *testing.T) {
	t.Parallel()
	first := State{Shard: "0", AsOf: at(100), Counts: Counts{"count": 17}}
	second := State{Shard: "0", AsOf: at(200), Counts: Counts{"count": 24}}
	odd := State{Shard: "0", AsOf: at(300), Odd: []string{"count"}}
	still := State{Shard: "0", AsOf: at(400), Odd: []string{"count"}}
	gone := State{Shard: "0", AsOf: at(250), Gone: true}
	again := State{Shard: "0", AsOf: at(400), Made: at(300), Odd: []string{"count"}}
	for _, tt := range []struct {
		name   string
		states []State
		ledger map[string]Entry
		floor  time.Time
		want   int64
	}{
		{"nothing else is known", []State{odd}, nil, at(0), 0},
		{"what the ledger has", []State{odd}, map[string]Entry{"0": {at(200), Counts{"count": 24}}}, at(0), 24},
		{"what this instance has heard", []State{second, odd}, map[string]Entry{"0": {at(100), Counts{"count": 17}}}, at(0), 24},
		{"what this instance has heard late", []State{first, odd}, map[string]Entry{"0": {at(200), Counts{"count": 24}}}, at(0), 24},
		{"the newest of what was heard", []State{first, second, odd}, nil, at(0), 24},
		{"it is none for longer", []State{first, second, odd, still}, nil, at(0), 24},
		{"nothing is known of when it was none", []State{odd, still}, map[string]Entry{"0": {at(200), Counts{"count": 24}}}, at(0), 24},
		{"the shard was gone in between", []State{second, gone, odd}, map[string]Entry{"0": {at(200), Counts{"count": 24}}}, at(0), 0},
		{"of an earlier life", []State{first, odd}, nil, at(150), 0},
		{"the shard was made again, and nobody has heard that it was gone", []State{again}, map[string]Entry{"0": {at(200), Counts{"count": 24}}}, at(0), 0},
		{"the same, of what was counted since", []State{again}, map[string]Entry{"0": {at(350), Counts{"count": 24}}}, at(0), 24},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := &Ledger{States: maps.Clone(tt.ledger), Floor: tt.floor}
			l.Apply(l.Merge(tt.states, nil))
			if got := l.States["0"]; got.Counts["count"] != tt.want || !got.AsOf.Equal(tt.states[len(tt.states)-1].AsOf) {
				t.Errorf("%+v, want %d", got, tt.want)
			}
		})
	}
	if len(odd.Counts) > 0 {
		t.Errorf("the state itself was written to: %+v", odd)
	}
}

// A ledger that was restored has counted of other documents, which were its shards in another database,
// and of its shards since.
func TestMergeIntoALedgerThatWasRestored(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		known time.Time
		want  int64
	}{
		{"of before", at(200), 24},
		{"of since", at(600), 0},
	} {
		for what, s := range map[string]State{"odd": {Odd: []string{"count"}}, "blank": {Blank: []string{"count"}}} {
			s.Shard, s.Made, s.AsOf = "0", at(700), at(700)
			for how, change := range map[string]func(l *Ledger) Diff{
				"event":    func(l *Ledger) Diff { return l.Merge([]State{s}, nil) },
				"snapshot": func(l *Ledger) Diff { return l.Correct(at(800), Snapshot{At: at(800), States: []State{s}}) },
			} {
				l := &Ledger{States: map[string]Entry{"0": {tt.known, Counts{"count": 24}}}, Floor: at(100), Created: at(500), Restored: true}
				l.Apply(change(l))
				if got, _ := l.Total(layout.Field{Shard: "count"}); got != tt.want {
					t.Errorf("%s, %s, %s: the total is %d, want %d", tt.name, what, how, got, tt.want)
				}
			}
		}
	}
}

// What was counted of a field stays when that becomes a text or null: it goes into the base once,
// however often states come and in whichever way, and what the field counts from there is added.
func TestMergeWhatIsBlank(t *testing.T) {
	t.Parallel()
	seven := State{Shard: "0", AsOf: at(100), Counts: Counts{"count": 7, "likes": 2}}
	text := State{Shard: "0", AsOf: at(200), Counts: Counts{"likes": 2}, Blank: []string{"count"}}
	half := State{Shard: "0", AsOf: at(250), Odd: []string{"count"}}
	still := State{Shard: "0", AsOf: at(300), Blank: []string{"count"}}
	one := State{Shard: "0", AsOf: at(400), Counts: Counts{"count": 1}}
	nine := State{Shard: "0", AsOf: at(300), Blank: []string{"count"}, Was: Counts{"count": 9}}
	zero := State{Shard: "0", AsOf: at(300), Blank: []string{"count"}, Was: Counts{"count": 0}}
	gone := State{Shard: "0", AsOf: at(500), Gone: true}
	again := State{Shard: "0", AsOf: at(300), Made: at(300), Blank: []string{"count"}}
	snapshot := func(s ...State) Snapshot { return Snapshot{At: at(1000), States: s} }
	for _, tt := range []struct {
		name   string
		states []State
		shards Snapshot
		total  int64
	}{
		{"a text", []State{text}, snapshot(), 7},
		{"twice", []State{text, text}, snapshot(), 7},
		{"for longer", []State{text, still}, snapshot(), 7},
		{"a number again", []State{text, one}, snapshot(), 8},
		{"a number again, and a late text", []State{text, one, still}, snapshot(), 8},
		{"a fraction on the way", []State{text, half, one}, snapshot(), 8},
		{"a shard that is gone", []State{text, one, gone}, snapshot(), 7},
		{"a fraction before", []State{half, still, one}, snapshot(), 8},
		{"a snapshot", nil, snapshot(text), 7},
		{"a snapshot of what is known", []State{text}, snapshot(text), 7},
		{"a snapshot of a number again", []State{text}, snapshot(one), 8},
		{"a snapshot in which the shard is gone", []State{text, one}, Snapshot{At: at(1000)}, 7},
		{"nobody has seen the text", []State{one}, snapshot(), 1},
		{"nobody has seen what was before it", []State{nine, still}, snapshot(), 9},
		{"nobody has seen a reset before it", []State{zero, one}, snapshot(), 1},
		{"nobody has seen a number between two", []State{text, nine, still}, snapshot(), 16},
		{"a shard that is made again, and nobody has seen that it was gone", []State{again, one}, snapshot(), 1},
		{"a snapshot of a shard that was made again", nil, snapshot(again), 0},
	} {
		for _, atOnce := range []bool{true, false} {
			t.Run(fmt.Sprint(tt.name, ", at once: ", atOnce), func(t *testing.T) {
				t.Parallel()
				l := New([]State{seven})
				l.Base["likes"] = 10
				if atOnce {
					l.Apply(l.Merge(tt.states, nil))
				} else {
					for _, s := range tt.states {
						l.Apply(l.Merge([]State{s}, nil))
					}
				}
				if tt.shards.States != nil || tt.name == "a snapshot in which the shard is gone" {
					for range 2 {
						l.Apply(l.Correct(at(1000), tt.shards))
					}
				}
				if got, _ := l.Total(layout.Field{Shard: "count"}); got != tt.total {
					t.Errorf("the total is %d, want %d: %+v", got, tt.total, l)
				}
				if likes := l.Base["likes"]; likes != 10 {
					t.Errorf("the base of another field is %d, want 10", likes)
				}
			})
		}
	}
}

// A shard's fields that can't be counted are none of a ledger's business, and zeros are left out.
func TestSet(t *testing.T) {
	t.Parallel()
	var s State
	s.Set("likes", 3, Integer)
	s.Set("views", 0, Integer)
	s.Set("half", 0, Odd)
	s.Set("title", 0, Blank)
	s.Set("a.b", 9, Integer)
	s.Set("request", 9, Integer)
	s.Set(strings.Repeat("x", 65), 9, Integer)
	if !maps.Equal(s.Counts, Counts{"likes": 3}) || !slices.Equal(s.Odd, []string{"half"}) || !slices.Equal(s.Blank, []string{"title"}) {
		t.Errorf("%+v", s)
	}
}

func TestMergeAnswers(t *testing.T) {
	t.Parallel()
	answer := func(value int64, read int) Answer { return Answer{Value: value, ReadTime: at(read)} }
	for _, tt := range []struct {
		name   string
		known  map[string]Answer
		answer Answer
		want   *Answer // nil: as it was
		early  bool
	}{
		{"the first", nil, answer(5, 200), new(answer(5, 200)), false},
		{"newer", map[string]Answer{"k": answer(5, 200)}, answer(4, 300), new(answer(4, 300)), false},
		{"newer, and the same", map[string]Answer{"k": answer(5, 200)}, answer(5, 300), new(answer(5, 300)), false},
		{"late", map[string]Answer{"k": answer(5, 200)}, answer(9, 150), nil, false},
		{"as old", map[string]Answer{"k": answer(5, 200)}, answer(9, 200), nil, false},
		{"of before the ledger", nil, answer(5, 99), nil, true},
		{"of the ledger's very time", nil, answer(5, 100), new(answer(5, 100)), false},
		{"no integer any more", map[string]Answer{"k": answer(5, 200)}, Answer{ReadTime: at(300), Odd: true}, &Answer{ReadTime: at(300), Value: int64(5), Odd: true}, false},
		{"never an integer", nil, Answer{ReadTime: at(300), Odd: true}, &Answer{ReadTime: at(300), Odd: true}, false},
	} {
		l := &Ledger{Answers: tt.known, Created: at(100), Floor: at(100)}
		d := l.Merge(nil, map[string]Answer{"k": tt.answer})
		if got, ok := d.Answers["k"]; ok != (tt.want != nil) || ok && got != *tt.want || slices.Contains(d.Early, "k") != tt.early {
			t.Errorf("%s: %+v", tt.name, d)
		}
	}
}

// A field that counts documents shows its answer, and nothing before there is one.
func TestTotalOfAnAnswer(t *testing.T) {
	t.Parallel()
	fields, err := layout.ParseFields("total=count,comments=count(comments)")
	if err != nil {
		t.Fatal(err)
	}
	l := New([]State{{Shard: "0", AsOf: at(1), Counts: of(3)}})
	if got := l.Totals(fields...); !maps.Equal(got, map[string]int64{"total": 3}) {
		t.Errorf("before any answer: %v", got)
	}
	l.Apply(l.Merge(nil, map[string]Answer{fields[1].Key(): {Value: int64(9), ReadTime: at(2)}}))
	if got := l.Totals(fields...); !maps.Equal(got, map[string]int64{"total": 3, "comments": 9}) {
		t.Errorf("after it: %v", got)
	}
}

func TestCorrect(t *testing.T) {
	t.Parallel()
	const now = 1000
	snapshot := func(at_ int, states ...State) Snapshot { return Snapshot{At: at(at_), States: states} }
	state := func(shard string, count int64, asOf int) State {
		return State{Shard: shard, Counts: of(count), AsOf: at(asOf)}
	}
	tests := []struct {
		name     string
		known    Entry // of shard 0
		snapshot Snapshot
		want     map[string]Entry // nil: as it was
		floor    int
	}{
		{"the same", Entry{at(200), of(5)}, snapshot(now, state("0", 5, 200)), nil, now},
		{"a lost event", Entry{at(200), of(5)}, snapshot(now, state("0", 7, 300)), map[string]Entry{"0": {at(300), of(7)}}, now},
		{"a lost event that changed nothing in the end", Entry{at(200), of(5)}, snapshot(now, state("0", 5, 300)), map[string]Entry{"0": {at(300), of(5)}}, now},
		{"a shard older than the ledger", Entry{at(200), of(5)}, snapshot(now, state("0", 5, 200), state("1", 2, 50)), map[string]Entry{"0": {at(200), of(5)}, "1": {at(50), of(2)}}, now},
		{"a shard that is new", Entry{at(200), of(5)}, snapshot(now, state("0", 5, 200), state("1", 2, 150)), map[string]Entry{"0": {at(200), of(5)}, "1": {at(150), of(2)}}, now},
		{"a shard that is gone", Entry{at(200), of(5)}, snapshot(now), map[string]Entry{}, now},
		{"a shard that is not a number now", Entry{at(200), of(5)}, Snapshot{At: at(now), States: []State{{Shard: "0", AsOf: at(300), Odd: []string{"count"}}}}, map[string]Entry{"0": {at(300), of(5)}}, now},
		{"counted since the snapshot", Entry{at(950), of(9)}, snapshot(900, state("0", 7, 300)), nil, 900},
		{"made since the snapshot", Entry{at(950), of(9)}, snapshot(900), nil, 900},
		{"deleted since the snapshot, at an earlier time", Entry{at(301), of(0)}, snapshot(900, state("0", 7, 300)), nil, 900},
		{"deleted, and made again at the same time", Entry{at(201), of(0)}, snapshot(900, state("0", 7, 201)), map[string]Entry{"0": {at(201), of(7)}}, 900},
		{"a change that never was", Entry{at(500), of(99)}, snapshot(now, state("0", 7, 300)), map[string]Entry{"0": {at(300), of(7)}}, now},
		{"a change in the future", Entry{at(5000), of(99)}, snapshot(now, state("0", 7, 300)), map[string]Entry{"0": {at(300), of(7)}}, now},
		{"a change in the future, and an earlier snapshot", Entry{at(5000), of(99)}, snapshot(900, state("0", 7, 300)), map[string]Entry{"0": {at(300), of(7)}}, 900},
		{"a shard in the future that is not there", Entry{at(5000), of(99)}, snapshot(now), map[string]Entry{}, now},
		{"an earlier counter's snapshot", Entry{at(200), of(5)}, snapshot(100, state("0", 7, 90)), nil, 100},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := &Ledger{States: map[string]Entry{"0": tt.known}, Floor: at(100)}
			want := tt.want
			if want == nil {
				want = map[string]Entry{"0": tt.known}
			}
			d := l.Correct(at(now), tt.snapshot)
			if d.Empty() != (tt.want == nil) || d.Floor.IsZero() != (tt.floor == 100) {
				t.Errorf("diff = %+v", d)
			}
			if l.Apply(d); !maps.EqualFunc(l.States, want, sameEntry) || !l.Floor.Equal(at(tt.floor)) {
				t.Errorf("ledger = %+v after %+v, want %v and floor %v", l, d, want, at(tt.floor))
			}
		})
	}
}

func sameEntry(a, b Entry) bool { return a.AsOf.Equal(b.AsOf) && maps.Equal(a.Counts, b.Counts) }

// A snapshot that is not younger than the floor may be of an earlier life, whose
// shards were others.
func TestSnapshotFromBeforeTheFloor(t *testing.T) {
	t.Parallel()
	for _, taken := range []int{400, 500} {
		l := &Ledger{States: map[string]Entry{"0": {at(300), of(5)}}, Floor: at(500)}
		if d := l.Correct(at(1000), Snapshot{At: at(taken)}); !d.Empty() || !d.Floor.IsZero() {
			t.Errorf("%+v, want that it says nothing", d)
		}
	}
}

// With a floor that has not come, which no snapshot is younger than, every event is passed over:
// the next snapshot corrects it.
func TestFloorInTheFuture(t *testing.T) {
	t.Parallel()
	for _, taken := range []int{900, 1000} {
		l := &Ledger{States: map[string]Entry{"0": {at(50), of(1)}}, Floor: at(5000)}
		d := l.Correct(at(1000), Snapshot{At: at(taken), States: []State{{Shard: "0", Counts: of(7), AsOf: at(300)}}})
		if l.Apply(d); l.total() != 7 || !l.Floor.Equal(at(taken)) {
			t.Errorf("%+v, want a total of 7 and the snapshot's time as the floor", l)
		}
	}
}

// Whatever a ledger claims, a snapshot of this moment makes it right.
func TestCorrectMakesAnyLedgerRight(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const now = 1000
		times := rapid.SampledFrom([]int{0, 1, 300, 301, 999, now, now + 1, 5000})
		l := &Ledger{States: map[string]Entry{}, Base: Counts{"count": 7}, Floor: at(times.Filter(func(micros int) bool { return micros != now }).Draw(t, "floor"))}
		shard := rapid.SampledFrom([]string{"0", "1", "2", "3"})
		for _, id := range rapid.SliceOfDistinct(shard, rapid.ID).Draw(t, "entries") {
			l.States[id] = Entry{Counts: of(rapid.Int64Range(-5, 5).Draw(t, "count")), AsOf: at(times.Draw(t, "as of"))}
		}
		s := Snapshot{At: at(now)}
		want := int64(7)
		for _, id := range rapid.SliceOfDistinct(shard, rapid.ID).Draw(t, "shards") {
			count := rapid.Int64Range(-5, 5).Draw(t, "count")
			want += count
			s.States = append(s.States, State{Shard: id, Counts: of(count), AsOf: at(times.Filter(func(micros int) bool { return micros <= now }).Draw(t, "updated"))})
		}
		d := l.Correct(at(now), s)
		if l.Apply(d); l.total() != want {
			t.Fatalf("the sum is %d, want %d", l.total(), want)
		}
	})
}

// A shard was made and deleted, the event of its deletion is lost, and a reconcile has corrected
// the ledger since: a late event of it counts nothing, although the ledger has never known it.
func TestLateEventOfAShardThatTheLedgerNeverKnew(t *testing.T) {
	t.Parallel()
	l := &Ledger{Floor: at(100)}
	d := l.Correct(at(300), Snapshot{At: at(300), States: []State{{Shard: "0", Counts: of(1), AsOf: at(200)}}})
	l.Apply(d)
	if d := l.Merge([]State{{Shard: "1", Counts: of(1), AsOf: at(150)}}, nil); !d.Empty() || l.total() != 1 {
		t.Errorf("sum %d, and the late event changes %+v", l.total(), d)
	}
}

// Shards whose fields become texts together are one sum: near the ends of int64 the base would else
// depend on which of them came first.
func TestBlankShardsAreOneSum(t *testing.T) {
	t.Parallel()
	before := []State{
		{Shard: "0", AsOf: at(100), Counts: Counts{"count": 30}},
		{Shard: "1", AsOf: at(100), Counts: Counts{"count": -30}},
	}
	for _, order := range [][]string{{"0", "1"}, {"1", "0"}} {
		var texts []State
		for _, shard := range order {
			texts = append(texts, State{Shard: shard, AsOf: at(200), Blank: []string{"count"}})
		}
		for name, become := range map[string]func(l *Ledger) Diff{
			"events":     func(l *Ledger) Diff { return l.Merge(texts, nil) },
			"a snapshot": func(l *Ledger) Diff { return l.Correct(at(1000), Snapshot{At: at(1000), States: texts}) },
		} {
			for _, end := range []int64{math.MaxInt64, math.MinInt64} {
				l := New(before)
				l.Base["count"] = end
				d := become(l)
				l.Apply(d)
				if got := l.Base["count"]; got != end {
					t.Errorf("by %s of shards %v the base of %d becomes %d", name, order, end, got)
				}
				if got := Add(d.Kept["count"]...); len(d.Kept["count"]) != 2 || got != 0 {
					t.Errorf("by %s of shards %v %v is kept, want 30 and -30", name, order, d.Kept)
				}
			}
		}
	}
}

// Sums and deltas end at the largest and smallest int64, in whatever order their terms come, and a
// total that was there is right again once the shards come back.
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
		l := &Ledger{Base: Counts{"count": count.Draw(t, "base")}, Floor: at(0)}
		before := l.total()
		for i := range rapid.IntRange(1, 10).Draw(t, "steps") {
			l.Apply(l.Merge([]State{{Shard: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "shard")), Counts: of(count.Draw(t, "count")), AsOf: at(i + 1)}}, nil))
			sum := big.NewInt(l.Base["count"])
			for _, e := range l.States {
				sum.Add(sum, big.NewInt(e.Counts["count"]))
			}
			want := int64(math.MaxInt64)
			switch {
			case sum.IsInt64():
				want = sum.Int64()
			case sum.Sign() < 0:
				want = math.MinInt64
			}
			if l.total() != want {
				t.Fatalf("sum = %d, want %d", l.total(), want)
			}
			if delta := Sub(want, before); new(big.Int).Sub(big.NewInt(want), big.NewInt(before)).IsInt64() && Add(before, delta) != want {
				t.Fatalf("total %d and delta %d make %d, want %d", before, delta, Add(before, delta), want)
			}
			before = want
		}
	})
}

// However many shards send events, with however many fields, a ledger holds so many
// numbers and no more.
func TestLedgerIsBounded(t *testing.T) {
	t.Parallel()
	id := func(i int) string { return fmt.Sprintf("%0*d", maxKey, i) }
	l := &Ledger{Floor: at(0)}
	for i := range MaxNumbers / 2 {
		d := l.Merge([]State{{Shard: id(i), Counts: Counts{"count": 1, "views": 1}, AsOf: at(1)}}, nil)
		if len(d.Full) > 0 {
			t.Fatalf("full at %d", i)
		}
		l.Apply(d)
	}
	d := l.Merge([]State{
		{Shard: "more", Counts: of(1), AsOf: at(2)}, {Shard: id(7), Counts: Counts{"count": 3, "views": 1}, AsOf: at(2)}, {Shard: id(8), Counts: Counts{"count": 1, "views": 1, "likes": 1}, AsOf: at(2)},
	}, map[string]Answer{"comments": {ReadTime: at(3)}})
	if !slices.Equal(d.Full, []string{"more", id(8), "comments"}) || len(d.States) != 1 {
		t.Errorf("diff = %+v, want that only a shard that takes no more room is counted", d)
	}
	if l.Apply(d); l.Numbers() != MaxNumbers {
		t.Errorf("%d numbers", l.Numbers())
	}
	// A shard that is deleted makes room for another one.
	d = l.Merge([]State{{Shard: id(9), AsOf: at(5), Gone: true}}, nil)
	l.Apply(d)
	if d := l.Merge([]State{{Shard: "more", Counts: of(1), AsOf: at(6)}}, nil); len(d.Full) > 0 {
		t.Errorf("there is no room beside a deleted shard: %+v", d)
	}
	long := strings.Repeat("x", 1400)
	l = &Ledger{Floor: at(0)}
	l.Apply(l.Merge([]State{{Shard: long, Counts: of(1), AsOf: at(1)}}, nil))
	l.Apply(l.Merge([]State{{Shard: long, Counts: of(3), AsOf: at(2)}}, nil))
	if l.total() != 3 || len(l.States) != 1 || len(slices.Collect(maps.Keys(l.States))[0]) > maxKey {
		t.Errorf("a shard with a long id: %v", l.States)
	}
	// A snapshot without the shards makes room.
	l = &Ledger{States: map[string]Entry{}, Floor: at(0)}
	for i := range MaxNumbers {
		l.States[id(i)] = Entry{AsOf: at(1)}
	}
	d = l.Correct(at(5), Snapshot{At: at(5)})
	l.Apply(d)
	if len(l.States) != 0 || !l.Merge([]State{{Shard: id(3), Counts: of(9), AsOf: at(4)}}, nil).Empty() {
		t.Errorf("%d shards are left, or a late event of one that is gone counts", len(l.States))
	}
}

// Any sequence of states, shuffled, repeated and with all but each shard's last dropped, in batches
// of any size, gives the same total.
func TestMergeCountsExactlyOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// What happened: versions of shards, each with a time of its own.
		counts := rapid.SliceOfN(rapid.Int64Range(-1000, 1000), 1, 40).Draw(t, "counts")
		shards := rapid.IntRange(1, 5).Draw(t, "shards")
		last := map[string]State{}
		var states []State
		for i, count := range counts {
			s := State{Shard: fmt.Sprint(rapid.IntRange(0, shards-1).Draw(t, "shard")), Counts: of(count), AsOf: at(1000 + i)}
			states = append(states, s)
			last[s.Shard] = s
		}
		var want int64
		for _, s := range last {
			want += s.Counts["count"]
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

		l := &Ledger{Floor: at(0)}
		for len(arrived) > 0 {
			n := rapid.IntRange(1, len(arrived)).Draw(t, "batch")
			l.Apply(l.Merge(arrived[:n], nil))
			arrived = arrived[n:]
		}
		if l.total() != want {
			t.Fatalf("the total is %d, want %d", l.total(), want)
		}
	})
}

// An answer of a time that has not come would hide what is asked until then.
func TestForget(t *testing.T) {
	t.Parallel()
	l := New(nil)
	l.Answers = map[string]Answer{"past": {ReadTime: at(1), Value: int64(1)}, "now": {ReadTime: at(2)}, "future": {ReadTime: at(3)}}
	l.Forget(at(2))
	if len(l.Answers) != 2 || l.Answers["past"].Value != int64(1) {
		t.Errorf("%v is left, want what was asked until now", l.Answers)
	}
}

// What is beyond an int64 is kept in as few as it takes, and lost in none.
func TestParts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		terms := rapid.SliceOfN(rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 1 << 62, -1, 0})), 0, 9).Draw(t, "terms")
		of := func(terms []int64) *big.Int {
			sum := new(big.Int)
			for _, n := range terms {
				sum.Add(sum, big.NewInt(n))
			}
			return sum
		}
		parts := Parts(terms...)
		if of(parts).Cmp(of(terms)) != 0 || len(parts) > max(1, len(terms)) {
			t.Fatalf("%d are %s in %d, want %s", terms, of(parts), parts, of(terms))
		}
		if of(terms).IsInt64() && len(parts) != 1 {
			t.Fatalf("%d takes %d", of(terms), parts)
		}
	})
}
