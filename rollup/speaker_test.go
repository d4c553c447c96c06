package rollup

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/ledger"
)

// A snapshot is worth its reads until three in a row have had no news.
func TestSnapshotsGoOnWhileTheyHaveNews(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		does string // a: others flush, or an event is late; n: a snapshot has news; s: it has none
		want int
	}{
		"nobody else, and in time": {"", 0},
		"asked for":                {"a", 3},
		"news":                     {"assn", 3},
		"no news":                  {"asns", 2},
		"none any more":            {"ansss", 0},
		"and none was asked for":   {"assss", 0},
		"again":                    {"asssa", 3},
	} {
		var s speaker
		for _, c := range tt.does {
			switch c {
			case 'a':
				s.asked()
			default:
				s.spoke(c == 'n')
			}
		}
		if s.worth != tt.want {
			t.Errorf("%s: %d snapshots, want %d", name, s.worth, tt.want)
		}
	}
}

// However events come to however many counters, and however large these are, their snapshots take one
// read and a half an event, and what was in the purse. None that could be paid is refused.
func TestSnapshotsAreBoundedByEvents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		full := purse(2 * fullPurse)
		counters, p := make([]speaker, 3), full
		events, reads := 0, 0
		for range rapid.IntRange(0, 200).Draw(t, "snapshots") {
			s := &counters[rapid.IntRange(0, 2).Draw(t, "counter")]
			for range rapid.IntRange(0, 300).Draw(t, "events") {
				s.earn(&p)
				events++
			}
			before := s.reads(p)
			if want := s.paid + int(p)/2; before != want {
				t.Fatalf("%d reads, and there are %d", before, want)
			}
			if shards := rapid.IntRange(1, 3000).Draw(t, "shards"); shards <= before {
				s.pay(&p, shards)
				reads += shards
				if left := s.reads(p); left != before-shards {
					t.Fatalf("%d reads are left of %d after %d", left, before, shards)
				}
			}
		}
		if 2*reads > 3*events+2*fullPurse {
			t.Fatalf("%d reads for %d events", reads, events)
		}
		if p > full || p < 0 {
			t.Fatalf("%d in the purse", p)
		}
	})
}

// Two snapshots side by side may be allowed the same reads. What they have overdrawn is earned before
// the next one.
func TestAPurseIsOverdrawnOnce(t *testing.T) {
	t.Parallel()
	p := purse(2 * 100)
	var a, b speaker
	if a.reads(p) != 100 || b.reads(p) != 100 {
		t.Fatalf("%d and %d reads, want 100", a.reads(p), b.reads(p))
	}
	a.pay(&p, 100)
	b.pay(&p, 100)
	for range 200 {
		if got := a.reads(p); got != a.paid {
			t.Fatalf("%d reads of an overdrawn purse, and %d are paid", got, a.paid)
		}
		b.earn(&p)
	}
	if b.earn(&p); a.reads(p) != 0 {
		t.Errorf("%d reads of half a one", a.reads(p))
	}
	if b.earn(&p); a.reads(p) != 1 {
		t.Errorf("%d reads, want 1", a.reads(p))
	}
}

func TestSpokenFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		known, floor, made time.Time
		want               bool
	}{
		{at(1), at(2), at(0), true},
		{at(2), at(2), at(0), false},
		{at(2), at(1), at(0), false},
		{at(2), at(3), at(3), false},       // a ledger that was made again
		{time.Time{}, at(2), at(0), false}, // a counter that is new to the instance
	} {
		if got := spokenFor(tt.known, tt.floor, tt.made); got != tt.want {
			t.Errorf("spoken for beside a floor of %v, after one of %v: %v", tt.floor, tt.known, got)
		}
	}
}

// A follower looks after the speaker's next flush, if there is one, and never at the same time as
// all others.
func TestLookIn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		interval, ago time.Duration
		spread        float64
		want          time.Duration
	}{
		{time.Second, 0, 0, 1150 * time.Millisecond},
		{time.Second, 0, 1, 1650 * time.Millisecond},
		{time.Second, 400 * time.Millisecond, 0.5, time.Second},
		{5 * time.Second, time.Second, 0, 4150 * time.Millisecond},
		{time.Second, time.Minute, 1, 650 * time.Millisecond},
	} {
		if got := lookIn(tt.interval, tt.ago, tt.spread); got != tt.want {
			t.Errorf("%v after a flush, at an interval of %v: in %v, want %v", tt.ago, tt.interval, got, tt.want)
		}
	}
}

func TestNews(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		told, untold int
		late         bool
		want         bool
	}{
		"all was told":             {10, 0, false, false},
		"one is on its way":        {1, 1, false, false},
		"some are on their way":    {9, 4, false, false},
		"a third was not told":     {9, 5, false, true},
		"next to nothing was told": {1, 2, false, true},
		"one was not told in time": {90, 1, true, true},
	} {
		told, later := map[string]ledger.Entry{}, map[string]ledger.Entry{}
		now := after(time.Minute)
		for i := range tt.told { // whenever it was written
			told[fmt.Sprint("told ", i)] = ledger.Entry{AsOf: after(0)}
		}
		later["told 0"] = ledger.Entry{AsOf: now} // and once more since
		for i := range tt.untold {
			age := lateAfter
			if tt.late {
				age++
			}
			later[fmt.Sprint("untold ", i)] = ledger.Entry{AsOf: now.Add(-age)}
		}
		if got := news(told, later, now); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestHopes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		now, floor int // seconds after the ledger was made
		want       bool
	}{
		{12, 10, true},
		{13, 10, false},
		{1, 0, false}, // nobody has spoken yet
	} {
		if got := hopes(after(time.Duration(tt.now)*time.Second), after(time.Duration(tt.floor)*time.Second), after(0), time.Second); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// shard is a state of a shard, as new as a time.
func shard(id string, asOf int) ledger.State {
	return ledger.State{Shard: id, Counts: ledger.Counts{"count": int64(asOf)}, AsOf: at(asOf)}
}

// What the last snapshot covers is done as it comes, and what was held meanwhile once the flush is
// back. A deletion isn't: its time is that of the version before.
func TestCoalescerAcknowledgesWhatIsCovered(t *testing.T) {
	t.Parallel()
	c := newCoalescer(100, 10)
	c.add(after(0), "a", shard("0", 10), 1)
	b := mustStart(t, c, after(0), 1)
	c.add(after(0), "a", shard("1", 19), 2)
	c.add(after(0), "a", shard("2", 20), 3)
	c.add(after(0), "a", shard("3", 21), 4)
	gone := shard("4", 15)
	gone.Gone, gone.Counts = true, nil
	c.add(after(0), "a", gone, 5)
	s := c.done(after(10*time.Millisecond), b, committed, flushed{speech: speech{floor: at(20), spoke: true}})
	if want := []int{1, 2, 3}; !sameEvents(s.counted, want) || c.waiting != 2 {
		t.Errorf("counted %v, want %v; %d wait, want 2", s.counted, want, c.waiting)
	}
	for i, tt := range []struct {
		state ledger.State
		done  bool
	}{{shard("5", 20), true}, {shard("0", 1), true}, {shard("5", 21), false}, {gone, false}} {
		done, ok := c.add(after(20*time.Millisecond), "a", tt.state, 10+i)
		if (len(done) == 1 && done[0] == 10+i) != tt.done || !ok {
			t.Errorf("an event as of %v: done %v, want %v", tt.state.AsOf, done, tt.done)
		}
	}
	// A flush that didn't say what the floor is leaves it.
	b = mustStart(t, c, after(time.Second), 8)
	c.done(after(time.Second), b, failed, flushed{})
	if done, _ := c.add(after(time.Second), "a", shard("6", 20), 20); len(done) != 1 {
		t.Errorf("after a flush that failed, %v is done", done)
	}
}

func sameEvents(got, want []int) bool {
	seen := map[int]int{}
	for _, n := range got {
		seen[n]++
	}
	for _, n := range want {
		seen[n]--
	}
	for _, n := range seen {
		if n != 0 {
			return false
		}
	}
	return len(got) == len(want)
}

// Where another has spoken, what it hasn't counted waits until a little after its next flush.
func TestCoalescerFollows(t *testing.T) {
	t.Parallel()
	c := newCoalescer(100, 10)
	c.add(after(0), "a", shard("0", 10), 1)
	c.add(after(0), "a", shard("1", 30), 2)
	b := mustStart(t, c, after(0), 2)
	if !b.follows {
		t.Error("a flush of states may not follow")
	}
	s := c.done(after(100*time.Millisecond), b, followed, flushed{otherFlushes: 1, speech: speech{floor: at(20), ago: 50 * time.Millisecond, open: map[string]bool{"1": true}}})
	if !sameEvents(s.counted, []int{1}) || len(s.refused)+len(s.noted) > 0 || c.waiting != 1 {
		t.Errorf("%+v, and %d wait", s, c.waiting)
	}
	// 50 ms before 100 ms, plus an interval, plus 150 ms and half of 500
	mustNotStart(t, c, after(1449*time.Millisecond))
	b = mustStart(t, c, after(1450*time.Millisecond), 1)
	if len(b.states) != 1 || b.states[0].Shard != "1" || !b.speaks {
		t.Errorf("%+v", b)
	}
	// A newer state that came meanwhile has taken the older's place.
	c.add(after(1450*time.Millisecond), "a", shard("1", 40), 3)
	s = c.done(after(1400*time.Millisecond), b, followed, flushed{otherFlushes: 1, speech: speech{floor: at(20), open: map[string]bool{"1": true}}})
	if b = mustStart(t, c, after(3*time.Second), 2); len(s.counted) != 0 || len(b.states) != 1 || !b.states[0].AsOf.Equal(at(40)) {
		t.Errorf("%+v, then %+v", s, b)
	}
	c.done(after(3*time.Second), b, committed, flushed{})
	if c.waiting != 0 {
		t.Errorf("%d wait", c.waiting)
	}
}

// What queries have answered is in no snapshot, so whoever holds it flushes; and so does an instance
// that ends.
func TestCoalescerFlushesWhatNobodyElseCan(t *testing.T) {
	t.Parallel()
	c := newCoalescer(100, 10)
	c.add(after(0), "a", shard("0", 10), 1)
	c.answer(after(0), "a", answered[int]{collection: "comments", answers: map[string]ledger.Answer{"comments": {ReadTime: at(5), Value: int64(1)}}})
	if b := mustStart(t, c, after(0), 1); b.follows {
		t.Error("a flush with an answer follows")
	}
	c.drain(after(0))
	c.add(after(0), "b", shard("0", 10), 1)
	if b := mustStart(t, c, after(0), 1); b.follows {
		t.Error("a flush of an instance that ends follows")
	}
}

// The first flush of a counter that was quiet takes no snapshot, however late its event is: nothing
// waits behind it. One that finds others takes one all the same, as far as it is paid for.
func TestCoalescerSpeaks(t *testing.T) {
	t.Parallel()
	c := newCoalescer(100, 10)
	c.purse = 2 * 50
	c.add(after(0), "a", shard("0", 10), 1)
	c.late(after(0), "a")
	b := mustStart(t, c, after(0), 1)
	if b.speaks || b.reads != 51 {
		t.Errorf("a first flush: %+v", b)
	}
	c.add(after(0), "a", shard("0", 11), 2)
	c.done(after(0), b, committed, flushed{})
	b = mustStart(t, c, after(time.Second), 1)
	if !b.speaks || b.reads != 53 {
		t.Errorf("a second flush: %+v", b)
	}
	c.done(after(time.Second), b, committed, flushed{speech: speech{spoke: true, reads: 40}})
	for n := 2; n < 5; n++ {
		now := after(time.Duration(n) * time.Second)
		c.add(now, "a", shard("0", 10+n), n)
		b = mustStart(t, c, now, 1)
		if want := n < 4; b.speaks != want {
			t.Errorf("flush %d: %+v", n, b)
		}
		c.done(now, b, committed, flushed{speech: speech{spoke: b.speaks}})
	}
	c.late(after(0), "none") // of a counter of which nothing is held
}

// Who speaks flushes once an interval, beside however many others.
func TestCoalescerSpeakerTakesNoTurns(t *testing.T) {
	t.Parallel()
	for spoke, want := range map[bool]time.Duration{true: time.Second, false: 3750 * time.Millisecond} {
		c := newCoalescer(100, 10)
		c.burst = 5
		c.add(after(0), "a", shard("0", 10), 1)
		b := mustStart(t, c, after(0), 1)
		c.add(after(0), "a", shard("0", 11), 2)
		c.done(after(0), b, committed, flushed{otherFlushes: 2, speech: speech{spoke: spoke}})
		if due, _ := c.wake(); due.Sub(after(0)) != want {
			t.Errorf("spoke %v: the next flush after %v, want %v", spoke, due.Sub(after(0)), want)
		}
	}
}

// What is late need not wait for a long interval, once, unless another instance may speak.
func TestCoalescerHurriesOnce(t *testing.T) {
	t.Parallel()
	newSlow := func() *coalescer[int] {
		c := newCoalescer(1000, 100)
		c.least = 5 * time.Second
		return c
	}
	c := newSlow()
	c.add(after(0), "a", shard("0", 1), 1)
	b := mustStart(t, c, after(0), 1)
	c.add(after(0), "a", shard("0", 2), 2)
	c.late(after(0), "a")
	c.done(after(20*time.Millisecond), b, committed, flushed{})
	b = mustStart(t, c, after(20*time.Millisecond), 1)
	c.done(after(40*time.Millisecond), b, committed, flushed{})
	c.add(after(50*time.Millisecond), "a", shard("0", 3), 3)
	c.late(after(50*time.Millisecond), "a")
	mustNotStart(t, c, after(5019*time.Millisecond))
	mustStart(t, c, after(5020*time.Millisecond), 1)

	c = newSlow()
	c.add(after(0), "a", shard("0", 1), 1)
	b = mustStart(t, c, after(0), 1)
	c.done(after(0), b, committed, flushed{otherFlushes: 1, speech: speech{spoke: true}})
	c.add(after(0), "a", shard("0", 2), 2)
	c.late(after(0), "a")
	mustNotStart(t, c, after(4999*time.Millisecond))

	c = newCoalescer(1000, 100)
	c.add(after(0), "a", shard("0", 1), 1)
	b = mustStart(t, c, after(0), 1)
	c.done(after(0), b, committed, flushed{})
	c.add(after(0), "a", shard("0", 2), 2)
	c.late(after(0), "a")
	mustNotStart(t, c, after(999*time.Millisecond))
}

// A flush that had to wait for its document has another's before its next, if there is one.
func TestCoalescerLeavesRoom(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{20 * time.Millisecond: time.Second, 900 * time.Millisecond: 1900 * time.Millisecond} {
		c := newCoalescer(100, 10)
		c.add(after(0), "a", shard("0", 10), 1)
		b := mustStart(t, c, after(0), 1)
		c.add(after(0), "a", shard("0", 11), 2)
		c.done(after(took), b, committed, flushed{})
		if due, _ := c.wake(); due.Sub(after(0)) != want {
			t.Errorf("a flush that took %v: the next one after %v, want %v", took, due.Sub(after(0)), want)
		}
	}
}
