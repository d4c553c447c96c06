package rollup

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
)

func newCoalescer(maxWaiting, maxFlushes int) *coalescer[int] {
	return &coalescer[int]{
		least: time.Second, most: 5 * time.Second, burst: 1,
		maxWaiting: maxWaiting, patience: 15 * time.Second, spread: func() float64 { return 0.5 },
		runs: runs[string, *backlog[int]]{atOnce: maxFlushes},
	}
}

var start = time.Unix(1_800_000_000, 0)

// after is a time in a test.
func after(d time.Duration) time.Time { return start.Add(d) }

// mustStart fails unless a flush of a number of events may start.
func mustStart(t *testing.T, c *coalescer[int], now time.Time, events int) batch {
	t.Helper()
	b, ok := c.start(now)
	if !ok || b.events != events {
		t.Fatalf("start = %v, %v, want %d events", b, ok, events)
	}
	return b
}

func mustNotStart(t *testing.T, c *coalescer[int], now time.Time) {
	t.Helper()
	if b, ok := c.start(now); ok {
		t.Fatalf("start = %v, want nothing to flush", b)
	}
}

func TestCoalescerQuietCounterIsFlushedAtOnce(t *testing.T) {
	t.Parallel()
	c := newCoalescer(10, 10)
	c.add(after(0), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: at(1)}, 1)
	b := mustStart(t, c, after(0), 1)
	c.done(after(0), b, committed, flushed{})
	// It stays quiet for an interval, and is forgotten.
	mustNotStart(t, c, after(2*time.Second))
	if len(c.tasks) != 0 {
		t.Errorf("%d counters remembered, want 0", len(c.tasks))
	}
	c.add(after(3*time.Second), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 2}, AsOf: at(2)}, 2)
	mustStart(t, c, after(3*time.Second), 1)
}

// An instance knows the ledger as it has last committed it, also where that didn't succeed since: any
// other version is another's.
func TestCoalescerKnowsItsOwnFlushes(t *testing.T) {
	t.Parallel()
	c := newCoalescer(10, 10)
	for n, tt := range []struct {
		want    time.Time
		outcome outcome
		version time.Time
	}{
		{time.Time{}, failed, time.Time{}}, {time.Time{}, committed, at(1)}, {at(1), failed, time.Time{}}, {at(1), committed, at(2)}, {at(2), committed, at(3)},
	} {
		now := after(2 * time.Duration(n) * time.Second)
		c.add(now, "a", ledger.State{Shard: "0", AsOf: at(n)}, n)
		b, ok := c.start(now)
		if !ok || !b.mine.Equal(tt.want) {
			t.Errorf("flush %d: %v, its own last one %v, want %v", n, ok, b.mine, tt.want)
		}
		c.done(now, b, tt.outcome, flushed{speech: speech{version: tt.version}})
	}
}

func TestCoalescerHotCounterWaitsForItsInterval(t *testing.T) {
	t.Parallel()
	c := newCoalescer(10, 10)
	c.add(after(0), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: at(1)}, 1)
	b := mustStart(t, c, after(0), 1)
	// What comes while a flush is in flight waits for the next one, also past the interval.
	c.add(after(time.Millisecond), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 2}, AsOf: at(2)}, 2)
	c.add(after(2*time.Millisecond), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 3}, AsOf: at(3)}, 3)
	mustNotStart(t, c, after(1500*time.Millisecond))
	c.done(b.started, b, committed, flushed{})
	b = mustStart(t, c, after(1500*time.Millisecond), 2)
	if len(b.states) != 1 || b.states[0].Counts["count"] != 3 {
		t.Errorf("states %v, want the newest one of the shard", b.states)
	}
	c.done(b.started, b, committed, flushed{})
	c.add(after(1600*time.Millisecond), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 4}, AsOf: at(4)}, 4)
	mustNotStart(t, c, after(2499*time.Millisecond))
	if due, ok := c.wake(); !ok || !due.Equal(after(2500*time.Millisecond)) {
		t.Errorf("wake = %v, %v, want an interval after the start of the last flush", due, ok)
	}
	mustStart(t, c, after(2500*time.Millisecond), 1)
}

func TestCoalescerIntervalFollowsContention(t *testing.T) {
	t.Parallel()
	c := newCoalescer(10, 10)
	now := after(0)
	const took = 100 * time.Millisecond // a flush
	for i, tt := range []struct {
		outcome outcome
		other   int64
		want    time.Duration // from the start of a flush to the next
	}{
		{committed, 0, time.Second},
		// One more instance, two, and more than there is room for; counted from the end of the
		// flush.
		{committed, 1, 2500*time.Millisecond + took},
		{committed, 2, 3750*time.Millisecond + took},
		{committed, 40, 5*time.Second + took},
		{committed, 1 << 62, 5*time.Second + took},
		{committed, 0, 2500 * time.Millisecond}, {committed, 0, 1250 * time.Millisecond}, {committed, 0, time.Second}, {committed, 0, time.Second},
		// A failed flush goes again after the least interval, and the one after it waits for
		// longer.
		{failed, 0, time.Second + took}, {failed, 0, time.Second + took}, {committed, 0, 2 * time.Second}, {committed, 0, time.Second},
		{permanent, 0, time.Second + took}, {committed, 0, time.Second},
	} {
		c.add(now, "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": int64(i)}, AsOf: at(i)}, i)
		b, ok := c.start(now)
		if !ok {
			t.Fatalf("step %d: nothing to flush at the due time", i)
		}
		c.done(now.Add(took), b, tt.outcome, flushed{otherFlushes: tt.other})
		due, _ := c.wake()
		if got := due.Sub(now); got != tt.want {
			t.Errorf("step %d: next flush after %v, want %v", i, got, tt.want)
		}
		now = due
	}
}

// A quiet counter has a few flushes at once, a hot one has one per interval, and one that was quiet
// for a while some again.
func TestCoalescerBurst(t *testing.T) {
	t.Parallel()
	c := newCoalescer(1000, 10)
	c.burst = 3
	const took = 20 * time.Millisecond // a flush
	flushes := func(from, until time.Duration) (at []time.Duration) {
		for now := from; now < until; now += took {
			c.add(after(now), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: after(now)}, 0)
			if b, ok := c.start(after(now)); ok {
				at = append(at, now)
				c.done(after(now+took), b, committed, flushed{})
			}
		}
		return at
	}
	want := []time.Duration{0, took, 2 * took, time.Second, 2 * time.Second}
	if got := flushes(0, 2500*time.Millisecond); !slices.Equal(got, want) {
		t.Errorf("flushed at %v, want %v", got, want)
	}
	// What waits goes at 3 s; at 4.5 s the bucket holds one, and half of another.
	mustStart(t, c, after(3*time.Second), 24)
	c.done(after(3*time.Second), batch{counter: "a", started: after(3 * time.Second)}, committed, flushed{})
	want = []time.Duration{4500 * time.Millisecond, 5 * time.Second, 6 * time.Second}
	if got := flushes(4500*time.Millisecond, 6500*time.Millisecond); !slices.Equal(got, want) {
		t.Errorf("flushed at %v, want %v", got, want)
	}
	// After a minute it is full, and holds no more than that.
	want = []time.Duration{time.Minute, time.Minute + took, time.Minute + 2*took, 61 * time.Second}
	if got := flushes(time.Minute, 61500*time.Millisecond); !slices.Equal(got, want) {
		t.Errorf("flushed at %v, want %v", got, want)
	}
}

// An instance that is busy spends no flush early; one that isn't any more does again.
func TestABusyInstanceSpendsNothingEarly(t *testing.T) {
	t.Parallel()
	const burst = 3
	for flushing, want := range map[int][]time.Duration{
		busyFlushes - 1: {0, 100 * time.Millisecond, 200 * time.Millisecond, time.Second},
		busyFlushes:     {0, time.Second},
	} {
		c := newCoalescer(1000, 2*busyFlushes)
		c.burst = burst
		for i := range flushing {
			c.add(after(0), fmt.Sprint("other", i), ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: after(0)}, 0)
			if _, ok := c.start(after(0)); !ok {
				t.Fatal("nothing starts")
			}
		}
		var at []time.Duration
		for now := time.Duration(0); now < 1500*time.Millisecond; now += 100 * time.Millisecond {
			c.add(after(now), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: after(now)}, 0)
			if b, ok := c.start(after(now)); ok {
				at = append(at, now)
				c.done(after(now+20*time.Millisecond), b, committed, flushed{})
			}
		}
		if !slices.Equal(at, want) {
			t.Errorf("%d in flight: flushed at %v, want %v", flushing, at, want)
		}
	}
}

// Instances that share a counter share the bucket: what others flush is taken from it as well.
func TestCoalescersShareABucket(t *testing.T) {
	t.Parallel()
	const instances, seconds, burst = 3, 60, 5
	var all [instances]*coalescer[int]
	for i := range all {
		all[i] = newCoalescer(1000, 10)
		all[i].burst = burst
	}
	var flights [instances]*batch
	var ends [instances]time.Time
	var seen [instances]int64 // the ledger's flushes, as of the instance's last one
	ledgers, first := int64(0), 0
	for ms := range seconds * 1000 {
		now := after(time.Duration(ms) * time.Millisecond)
		for i, c := range all {
			if b := flights[i]; b != nil && !ends[i].After(now) {
				others := ledgers - seen[i]
				if seen[i] == 0 {
					others = 0 // it hasn't read the ledger before
				}
				ledgers++
				seen[i], flights[i] = ledgers, nil
				c.done(now, *b, committed, flushed{otherFlushes: others})
			}
			c.add(now, "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: now}, 0)
			if b, ok := c.start(now); ok {
				flights[i], ends[i] = &b, now.Add(time.Duration(20+i)*time.Millisecond)
			}
		}
		if ms == 1000 {
			first = int(ledgers)
		}
	}
	if first < burst || first > 2*burst {
		t.Errorf("%d flushes in the first second, want a burst of %d, and not that of each instance", first, burst)
	}
	if rest := int(ledgers) - first; rest > seconds || rest < seconds/2 {
		t.Errorf("%d flushes in the other %d seconds, want about one a second", rest, seconds-1)
	}
}

// Two instances that fail at one time don't try again at one time, each within half an interval of
// the other's least.
func TestCoalescerFailuresMoveApart(t *testing.T) {
	t.Parallel()
	for spread, want := range map[float64]time.Duration{0: 500 * time.Millisecond, 0.5: time.Second, 0.99: 1490 * time.Millisecond} {
		c := newCoalescer(10, 10)
		c.spread = func() float64 { return spread }
		c.add(after(0), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: at(1)}, 1)
		c.done(after(0), mustStart(t, c, after(0), 1), failed, flushed{})
		if due, _ := c.wake(); due.Sub(after(0)) != want {
			t.Errorf("again after %v, want %v", due.Sub(after(0)), want)
		}
	}
}

// A process that ends waits for a contended counter no longer than a few attempts take.
func TestCoalescerDrainingIsImpatient(t *testing.T) {
	t.Parallel()
	c := newCoalescer(10, 10)
	c.add(after(0), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: at(1)}, 1)
	c.drain(after(0))
	if refused := c.done(after(0), mustStart(t, c, after(0), 1), failed, flushed{}).refused; len(refused) != 0 {
		t.Errorf("refused %v at the first failure", refused)
	}
	b := mustStart(t, c, after(3*time.Second), 1)
	if refused := c.done(b.started, b, failed, flushed{}).refused; len(refused) != 1 {
		t.Errorf("refused %v after three intervals, want all", refused)
	}
}

func TestCoalescerUnchangedTakesNoInterval(t *testing.T) {
	t.Parallel()
	c := newCoalescer(10, 10)
	c.add(after(0), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: at(1)}, 1)
	c.done(after(0), mustStart(t, c, after(0), 1), unchanged, flushed{})
	c.add(after(1), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 2}, AsOf: at(2)}, 2)
	mustStart(t, c, after(1), 1)
}

func TestCoalescerFailedFlushGoesAgain(t *testing.T) {
	t.Parallel()
	c := newCoalescer(10, 10)
	c.add(after(0), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 5}, AsOf: at(5)}, 1)
	c.add(after(0), "a", ledger.State{Shard: "1", Counts: ledger.Counts{"count": 1}, AsOf: at(1)}, 2)
	b := mustStart(t, c, after(0), 2)
	c.add(after(0), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 4}, AsOf: at(4)}, 3) // older than the one in flight
	if refused := c.done(b.started, b, failed, flushed{}).refused; len(refused) != 0 {
		t.Errorf("refused %v at the first failure", refused)
	}
	b = mustStart(t, c, after(time.Second), 3)
	for _, s := range b.states {
		if s.Shard == "0" && s.Counts["count"] != 5 {
			t.Errorf("an older state took the place of the newer: %v", s)
		}
	}
	if refused := c.done(after(15*time.Second-1), b, failed, flushed{}).refused; len(refused) != 0 {
		t.Errorf("refused %v a moment before the patience ends", refused)
	}
	b = mustStart(t, c, after(16*time.Second), 3)
	if refused := c.done(b.started, b, failed, flushed{}).refused; len(refused) != 2 || c.waiting != 0 {
		t.Errorf("refused %v at its end, %d waiting, want all and none", refused, c.waiting)
	}
	mustNotStart(t, c, after(time.Hour))
}

// Patience begins with the first flush that fails, which may take long: events wait no longer than that.
func TestCoalescerCountsFromWhenTheFirstFailureBegan(t *testing.T) {
	t.Parallel()
	c := newCoalescer(10, 10)
	c.add(after(0), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 5}, AsOf: at(5)}, 1)
	if s := c.done(after(8*time.Second), mustStart(t, c, after(0), 1), contended, flushed{}); len(s.noted) != 0 {
		t.Errorf("%+v, want that it goes again", s)
	}
	if s := c.done(after(17*time.Second), mustStart(t, c, after(9*time.Second), 1), contended, flushed{}); len(s.noted) != 1 {
		t.Errorf("%+v, want it noted", s)
	}
}

func TestCoalescerBounds(t *testing.T) {
	t.Parallel()
	c := newCoalescer(3, 2)
	for i, counter := range []string{"a", "b", "c"} {
		if _, ok := c.add(after(0), counter, ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: at(1)}, i); !ok {
			t.Fatalf("add %d refused", i)
		}
	}
	if _, ok := c.add(after(0), "d", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: at(1)}, 4); ok {
		t.Error("a fourth was taken, want at most three")
	}
	first := mustStart(t, c, after(0), 1)
	mustStart(t, c, after(0), 1)
	mustNotStart(t, c, after(0)) // two in flight
	if _, ok := c.wake(); ok {
		t.Error("to be woken while nothing can start")
	}
	if _, ok := c.add(after(0), "d", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: at(1)}, 4); ok {
		t.Error("those in flight don't count as waiting")
	}
	c.done(after(0), first, committed, flushed{})
	mustStart(t, c, after(0), 1)
	if _, ok := c.add(after(0), "d", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: at(1)}, 4); !ok {
		t.Error("no room after one was answered")
	}
}

func TestCoalescerDrains(t *testing.T) {
	t.Parallel()
	c := newCoalescer(10, 10)
	c.add(after(0), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: at(1)}, 1)
	c.done(after(0), mustStart(t, c, after(0), 1), committed, flushed{})
	c.add(after(1), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 2}, AsOf: at(2)}, 2)
	mustNotStart(t, c, after(1))
	c.drain(after(1))
	mustStart(t, c, after(1), 1)
}

// Events that a strictly newer one of their shard supersedes are done at once, waiting and in
// flight; duplicates wait with their twin.
func TestCoalescerSupersedes(t *testing.T) {
	t.Parallel()
	c := newCoalescer(100, 10)
	event := 0
	add := func(count int64, asOf int, gone bool, want ...int) {
		t.Helper()
		event++
		superseded, ok := c.add(after(0), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": count}, AsOf: at(asOf), Gone: gone}, event)
		if !ok || !slices.Equal(superseded, want) {
			t.Errorf("event %d superseded %v, %v, want %v", event, superseded, ok, want)
		}
	}
	add(1, 10, false)
	add(1, 10, false)       // 2, a duplicate
	add(0, 9, false, 3)     // older
	add(2, 20, false, 1, 2) // 4
	b := mustStart(t, c, after(0), 4)
	add(2, 20, false)       // 5, a duplicate of the one in flight
	add(1, 10, false, 6)    // older than the one in flight
	add(0, 30, true, 4, 5)  // 7, a deletion, newer than the one in flight
	add(0, 30, true)        // 8, its duplicate
	add(2, 20, false, 9)    // a late duplicate of the one in flight, which waits no more
	add(3, 30, false, 7, 8) // 10: made again at the same time
	add(0, 30, true, 11)
	if c.waiting != 1 {
		t.Errorf("%d events are waiting, want 1", c.waiting)
	}
	// What is in flight fails, and has been superseded: the newer state goes next.
	if s := c.done(after(0), b, failed, flushed{}); len(s.counted)+len(s.refused) != 0 {
		t.Errorf("answered %v, %v", s.counted, s.refused)
	}
	b = mustStart(t, c, after(time.Minute), 11)
	if len(b.states) != 1 || b.states[0].Counts["count"] != 3 {
		t.Errorf("states %v, want the newest one", b.states)
	}
	done := c.done(after(time.Minute), b, committed, flushed{})
	if !slices.Equal(done.counted, []int{10}) || len(done.refused) != 0 || c.waiting != 0 {
		t.Errorf("answered %v, %v, %d waiting, want the tenth", done.counted, done.refused, c.waiting)
	}
}

// An event that takes another's place needs no room.
func TestCoalescerSupersedesWhenFull(t *testing.T) {
	t.Parallel()
	c := newCoalescer(1, 1)
	c.add(after(0), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: at(1)}, 1)
	if _, ok := c.add(after(0), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: at(1)}, 2); ok {
		t.Error("there was room for a duplicate")
	}
	if _, ok := c.add(after(0), "a", ledger.State{Shard: "1", Counts: ledger.Counts{"count": 1}, AsOf: at(1)}, 3); ok {
		t.Error("there was room for another shard")
	}
	if superseded, ok := c.add(after(0), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 2}, AsOf: at(2)}, 4); !ok || !slices.Equal(superseded, []int{1}) {
		t.Errorf("superseded %v, %v, want the first", superseded, ok)
	}
}

// An event of a shard for which the ledger has no room is to be noted, and the others are counted.
func TestCoalescerNotesWhatHasNoRoom(t *testing.T) {
	t.Parallel()
	c := newCoalescer(10, 1)
	c.add(after(0), "a", ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: at(1)}, 1)
	c.add(after(0), "a", ledger.State{Shard: "1", Counts: ledger.Counts{"count": 1}, AsOf: at(1)}, 2)
	s := c.done(after(0), mustStart(t, c, after(0), 2), committed, flushed{diff: ledger.Diff{Full: []string{"1"}}})
	if !slices.Equal(s.counted, []int{1}) || !slices.Equal(s.noted, []int{2}) || len(s.refused) != 0 || c.waiting != 0 {
		t.Errorf("%+v, %d waiting", s, c.waiting)
	}
}

// What is its counter's own trouble is never answered with an error: what stays is noted at once, and
// contention once it has gone on for too long; from then on at once, until a flush succeeds.
func TestCoalescerNotesWhatIsItsCounters(t *testing.T) {
	t.Parallel()
	c := newCoalescer(10, 1)
	n := 0
	flush := func(now time.Duration, o outcome) released[int] {
		t.Helper()
		n++
		c.add(after(now), "a", ledger.State{Shard: fmt.Sprint(n), Counts: ledger.Counts{"count": 1}, AsOf: at(1)}, n)
		b, ok := c.start(after(now))
		if !ok {
			t.Fatalf("nothing to flush after %v", now)
		}
		return c.done(after(now), b, o, flushed{})
	}
	want := func(what string, s released[int], noted int) {
		t.Helper()
		if len(s.refused) > 0 || len(s.noted) != noted || c.waiting != n && noted > 0 && c.waiting != 0 {
			t.Errorf("%s: %+v, %d waiting, want %d noted", what, s, c.waiting, noted)
		}
	}
	want("a damaged ledger", flush(0, own), 1)
	want("others were faster", flush(10*time.Second, contended), 0)
	want("again", flush(20*time.Second, contended), 0)
	want("for too long", flush(25*time.Second, contended), 3)
	want("and on", flush(40*time.Second, contended), 1)
	if s := flush(60*time.Second, committed); len(s.counted) != 1 {
		t.Errorf("%+v", s)
	}
	want("another time", flush(80*time.Second, contended), 0)
	if s := flush(100*time.Second, failed); len(s.refused) != 2 || len(s.noted) > 0 {
		t.Errorf("of the database's: %+v", s)
	}
}

// Whatever happens, every event is answered once; one that is answered with success had its state
// flushed, or a newer one of the shard flushed or held; flushes of a counter don't overlap, and a
// burst apart keep their distance; and at most one state of a shard is held beside the one in
// flight.
func TestCoalescerProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newCoalescer(20, 2)
		c.burst = rapid.IntRange(1, 5).Draw(t, "burst")
		now := after(0)
		answers := map[int]int{}
		newest := map[string]ledger.State{}
		states := map[int]ledger.State{}
		shardOf := map[int]string{}
		commits := map[string][]time.Time{} // when those of a counter started
		var flushes []batch
		added := 0
		covered := func(event int) bool {
			s, key := states[event], shardOf[event]
			if f, ok := newest[key]; ok && !s.Supersedes(f) {
				return true
			}
			for other, o := range states {
				if shardOf[other] == key && answers[other] == 0 && o.Supersedes(s) {
					return true
				}
			}
			return false
		}
		success := func(events []int) {
			for _, event := range events {
				answers[event]++
			}
			for _, event := range events {
				if !covered(event) {
					t.Fatalf("event %d was answered before its state was newest, and nothing newer waits", event)
				}
			}
		}
		finish := func(o outcome) {
			i := rapid.IntRange(0, len(flushes)-1).Draw(t, "which")
			b := flushes[i]
			flushes = append(flushes[:i:i], flushes[i+1:]...)
			for _, s := range b.states {
				key := b.counter + s.Shard
				if f, ok := newest[key]; (o == committed || o == unchanged) && (!ok || s.Supersedes(f)) {
					newest[key] = s
				}
			}
			if o != unchanged {
				commits[b.counter] = append(commits[b.counter], b.started)
			}
			done := c.done(now, b, o, flushed{otherFlushes: rapid.Int64Range(0, 3).Draw(t, "others")})
			if o != committed && o != unchanged && len(done.counted) > 0 {
				t.Fatalf("%v were counted by a flush that failed", done.counted)
			}
			if o != contended && o != own && len(done.noted) > 0 {
				t.Fatalf("%v are to be noted, after %d", done.noted, o)
			}
			for _, event := range done.noted { // a reconcile finds them
				if f, ok := newest[shardOf[event]]; !ok || states[event].Supersedes(f) {
					newest[shardOf[event]] = states[event]
				}
			}
			success(append(done.counted, done.noted...))
			for _, event := range done.refused {
				answers[event]++
			}
		}
		begin := func() {
			b, ok := c.start(now)
			if !ok {
				return
			}
			for _, other := range flushes {
				if other.counter == b.counter {
					t.Fatalf("two flushes of %s at a time", b.counter)
				}
			}
			before := commits[b.counter]
			for n := c.burst; n <= len(before); n++ {
				if d := now.Sub(before[len(before)-n]); d < c.least*time.Duration(n-c.burst+1) {
					t.Fatalf("%d flushes of %s within %v, with a burst of %d", n+1, b.counter, d, c.burst)
				}
			}
			flushes = append(flushes, b)
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				waiting := 0
				for event := range added {
					if answers[event] == 0 {
						waiting++
					}
				}
				if waiting != c.waiting || waiting > c.maxWaiting {
					t.Fatalf("%d events wait, and the coalescer says %d", waiting, c.waiting)
				}
			},
			"add": func(t *rapid.T) {
				counter, shard := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "counter"), fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "shard"))
				s := ledger.State{Shard: shard, Counts: ledger.Counts{"count": 1}, AsOf: at(rapid.IntRange(1, 20).Draw(t, "asOf")), Gone: rapid.Bool().Draw(t, "gone")}
				if superseded, ok := c.add(now, counter, s, added); ok {
					states[added], shardOf[added] = s, counter+shard
					added++
					success(superseded)
				}
			},
			"start": func(*rapid.T) { begin() },
			"finish": func(t *rapid.T) {
				if len(flushes) == 0 {
					t.Skip()
				}
				finish(rapid.SampledFrom([]outcome{committed, unchanged, failed, contended, own, permanent}).Draw(t, "outcome"))
			},
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
			},
		})
		for len(flushes) > 0 || c.waiting > 0 {
			now = now.Add(10 * time.Second)
			begin()
			for len(flushes) > 0 {
				finish(committed)
			}
		}
		for event := range added {
			if answers[event] != 1 {
				t.Fatalf("event %d was answered %d times", event, answers[event])
			}
		}
	})
}

// Where a shard holds no integer in a field any more, what the state before it said of the field
// goes with it.
func TestStateOfAFieldThatIsNoIntegerAnyMore(t *testing.T) {
	t.Parallel()
	whole := ledger.State{Shard: "0", Counts: ledger.Counts{"likes": 3, "views": 5}, AsOf: at(1)}
	half := ledger.State{Shard: "0", Counts: ledger.Counts{"likes": 4}, Odd: []string{"views"}, AsOf: at(2)}
	still := ledger.State{Shard: "0", Counts: ledger.Counts{"likes": 4}, Odd: []string{"views"}, AsOf: at(3)}
	for _, states := range [][]ledger.State{{whole, half}, {half, whole}, {still, half, whole}, {whole, still, half}, {half, still, whole}} {
		c := newCoalescer(10, 1)
		for i, s := range states {
			if superseded, ok := c.add(after(0), "a", s, i); !ok || len(superseded) != min(i, 1) {
				t.Errorf("superseded %v, %v", superseded, ok)
			}
		}
		b := mustStart(t, c, after(0), len(states))
		for _, test := range []struct {
			known, views int64 // that the ledger has as of a time, and that it is to have
			asOf         time.Time
		}{{9, 5, time.Time{}}, {9, 9, at(1).Add(500 * time.Nanosecond)}} {
			l := &ledger.Ledger{States: map[string]ledger.Entry{"0": {AsOf: test.asOf, Counts: ledger.Counts{"views": test.known}}}}
			l.Apply(l.Merge(b.states, nil))
			if got := l.States["0"].Counts; got["likes"] != 4 || got["views"] != test.views {
				t.Errorf("after 9 views as of %s it has %v, want 4 likes and %d views", test.asOf, got, test.views)
			}
		}
	}
	if len(half.Counts) != 1 {
		t.Error("an event's own counts were written to")
	}
}

// A state in which a field is no number any more goes along with those before it, whatever order they
// come in, and its event waits where it says what was counted before: no newer state says that. Of the
// text after a text, a time in each version of a shard say, there is nothing to be told.
func TestStateOfAFieldThatIsNoNumberAnyMore(t *testing.T) {
	t.Parallel()
	seven := ledger.State{Shard: "0", Counts: ledger.Counts{"likes": 7}, AsOf: at(1)}
	text := ledger.State{Shard: "0", Blank: []string{"likes"}, Was: ledger.Counts{"likes": 7}, AsOf: at(2)}
	one := ledger.State{Shard: "0", Counts: ledger.Counts{"likes": 1}, AsOf: at(3)}
	two := ledger.State{Shard: "0", Counts: ledger.Counts{"likes": 2}, AsOf: at(4)}
	other := ledger.State{Shard: "0", Blank: []string{"likes"}, AsOf: at(5)}
	still := ledger.State{Shard: "0", Blank: []string{"likes"}, AsOf: at(6)}
	three := ledger.State{Shard: "0", Counts: ledger.Counts{"likes": 3}, AsOf: at(7)}
	half := ledger.State{Shard: "0", Odd: []string{"likes"}, Was: ledger.Counts{"likes": 7}, AsOf: at(2)}
	mixed := ledger.State{Shard: "0", Blank: []string{"likes"}, WasOdd: true, AsOf: at(2).Add(500 * time.Nanosecond)}
	for _, tt := range []struct {
		states []ledger.State
		waits  []int // of these, those whose events do
	}{
		{[]ledger.State{seven, text, one, two}, []int{1, 2, 3}},
		{[]ledger.State{text, one}, []int{0, 1}},
		{[]ledger.State{two, one, text, seven}, []int{0, 2}},
		{[]ledger.State{two, text, one, seven, text}, []int{0, 1, 4}},
		{[]ledger.State{one, text, two}, []int{0, 1, 2}},
		{[]ledger.State{seven, text, other, still}, []int{1, 2, 3}},
		{[]ledger.State{other, still}, []int{1}},
		{[]ledger.State{still, other}, []int{0}},
		{[]ledger.State{seven, other, three}, []int{2}},
		{[]ledger.State{three, still, seven, text, other}, []int{0, 3}},
		{[]ledger.State{seven, half, mixed, one}, []int{1, 2, 3}},
		{[]ledger.State{mixed, one}, []int{0, 1}},
		{[]ledger.State{one, mixed, half}, []int{0, 1, 2}},
	} {
		c := newCoalescer(10, 1)
		var done []int
		for i, s := range tt.states {
			superseded, ok := c.add(after(0), "a", s, i)
			if done = append(done, superseded...); !ok {
				t.Error("no room")
			}
		}
		b := mustStart(t, c, after(0), len(tt.states))
		for range 2 {
			l := &ledger.Ledger{States: map[string]ledger.Entry{"0": {Counts: ledger.Counts{"likes": 7}}}}
			l.Apply(l.Merge(b.states, nil))
			newest := slices.MaxFunc(tt.states, func(a, b ledger.State) int { return a.AsOf.Compare(b.AsOf) })
			if total, _ := l.Total(layout.Field{Shard: "likes"}); total != 7+newest.Counts["likes"] {
				t.Errorf("%v: the total is %d, want 7 and what was counted since", tt.states, total)
			}
		}
		settled := c.done(after(0), b, committed, flushed{})
		counted, refused := settled.counted, slices.Concat(settled.refused, settled.noted)
		if slices.Sort(counted); !slices.Equal(counted, tt.waits) || len(refused) > 0 || len(counted)+len(done) != len(tt.states) || c.waiting != 0 {
			t.Errorf("%v: events %v waited, %v were refused, %d wait; want %v", tt.states, counted, refused, c.waiting, tt.waits)
		}
	}
	// There may be no room for that, and while a flush is in flight what it holds stays.
	c := newCoalescer(2, 1)
	for i, s := range []ledger.State{text, one, two} {
		if _, ok := c.add(after(0), "a", s, i); ok != (i < 2) {
			t.Errorf("event %d: %v", i, ok)
		}
	}
}

// One shard's versions, whose events all wait for one flush, come to the same total in whatever order they arrive.
func TestOneFlushIsTheSameInAnyOrder(t *testing.T) {
	t.Parallel()
	for name, alone := range map[string]bool{"of a field beside others": false, "of a field alone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sameInAnyOrder(t, alone)
		})
	}
}

// sameInAnyOrder tries the versions of a field. If a shard has it alone, a fraction that says nothing of what was
// counted before is poison.
func sameInAnyOrder(t *testing.T, alone bool) {
	const kinds = "iftd" // an integer, a fraction, a text, deleted
	bad := map[string]int{}
	total := func(states []ledger.State) int64 {
		known := ledger.Entry{AsOf: at(1), Counts: ledger.Counts{"likes": 3, "views": 1}}
		l := &ledger.Ledger{States: map[string]ledger.Entry{"0": known}, Base: ledger.Counts{}}
		l.Apply(l.Merge(states, nil))
		n, _ := l.Total(layout.Field{Name: "likes", Shard: "likes"})
		return n
	}
	var each func(seq string)
	each = func(seq string) {
		if len(seq) > 1 {
			states := history(seq)
			if alone {
				states = slices.DeleteFunc(states, func(s ledger.State) bool { return len(s.Odd) > 0 && !tells(s) })
			}
			want := total(states)
			permute(len(states), func(order []int) {
				c := newCoalescer(10, 10)
				for n, i := range order {
					c.add(after(0), "a", states[i], n)
				}
				b, _ := c.start(after(0))
				if got := total(b.states); got != want {
					bad[fmt.Sprintf("%s: want %d, got %d", seq, want, got)]++
				}
				for split := 1; split < len(order); split++ { // the flush of the first ones fails
					c := newCoalescer(10, 10)
					for n, i := range order[:split] {
						c.add(after(0), "a", states[i], n)
					}
					b, _ := c.start(after(0))
					for n, i := range order[split:] {
						c.add(after(0), "a", states[i], n+split)
					}
					c.done(after(0), b, failed, flushed{})
					b, _ = c.start(after(10 * time.Second))
					if got := total(b.states); got != want {
						bad[fmt.Sprintf("%s: want %d, got %d after a failure", seq, want, got)]++
					}
				}
			})
		}
		if len(seq) == 4 {
			return
		}
		for _, k := range kinds {
			if !(k == 'd' && strings.HasSuffix(seq, "d")) {
				each(seq + string(k))
			}
		}
	}
	each("")
	for what, n := range bad {
		t.Errorf("%s in %d orders", what, n)
	}
}

// history are the states that the events of these versions tell, after a first one of 3.
func history(seq string) (states []ledger.State) {
	was, n, made, updated := byte('i'), int64(3), at(0), at(1)
	for i := range len(seq) {
		k := seq[i]
		now := at(10 * (i + 1))
		s := ledger.State{Shard: "0", AsOf: now, Made: made, Counts: ledger.Counts{"views": int64(i + 2)}}
		if was == 'd' {
			made, s.Made = now, now
		}
		before := func() {
			switch was {
			case 'i':
				ledger.Put(&s.Was, "likes", n)
			case 'f':
				s.WasOdd = k == 't'
			}
		}
		switch k {
		case 'i':
			n = int64(10 * (i + 1))
			s.Counts["likes"] = n
		case 'f':
			s.Odd = []string{"likes"}
			before()
		case 't':
			s.Blank = []string{"likes"}
			before()
		case 'd':
			s = ledger.State{Shard: "0", AsOf: updated.Add(time.Microsecond), Gone: true}
		}
		was, updated = k, now
		states = append(states, s)
	}
	return states
}

// permute calls each with every order of n things.
func permute(n int, each func([]int)) {
	order := make([]int, 0, n)
	used := make([]bool, n)
	var next func()
	next = func() {
		if len(order) == n {
			each(order)
			return
		}
		for i := range n {
			if !used[i] {
				used[i] = true
				order = append(order, i)
				next()
				order = order[:len(order)-1]
				used[i] = false
			}
		}
	}
	next()
}

// However many others write, an instance waits for no longer than the longest interval, and for no
// less than the shortest: a number that a clock or a ledger got wrong doesn't overflow.
func TestShare(t *testing.T) {
	t.Parallel()
	c := newCoalescer(1, 1)
	for others, want := range map[int64]time.Duration{
		0: time.Second, 1: 2500 * time.Millisecond, 2: 3750 * time.Millisecond, 3: 5 * time.Second, 1 << 40: 5 * time.Second, math.MaxInt64: 5 * time.Second,
	} {
		if got := c.share(flushed{otherFlushes: others}); got != want {
			t.Errorf("beside %d flushes of others: %v, want %v", others, got, want)
		}
	}
}
