package rollup

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func newCoalescer(maxWaiting, maxFlights int) *coalescer[int] {
	return &coalescer[int]{
		least: time.Second, most: 5 * time.Second,
		maxWaiting: maxWaiting, maxFlights: maxFlights, maxFailures: 2,
		backlogs: map[string]*backlog[int]{},
	}
}

var start = time.Unix(1_800_000_000, 0)

// after is a time in a test.
func after(d time.Duration) time.Time { return start.Add(d) }

// mustNext fails unless a flush of a number of waiters may start.
func mustNext(t *testing.T, c *coalescer[int], now time.Time, waiters int) batch[int] {
	t.Helper()
	b, ok := c.next(now)
	if !ok || len(b.waiters) != waiters {
		t.Fatalf("next = %v, %v, want %d waiters", b, ok, waiters)
	}
	return b
}

func mustNotNext(t *testing.T, c *coalescer[int], now time.Time) {
	t.Helper()
	if b, ok := c.next(now); ok {
		t.Fatalf("next = %v, want nothing to flush", b)
	}
}

func TestCoalescerQuietCounterIsFlushedAtOnce(t *testing.T) {
	t.Parallel()
	c := newCoalescer(10, 10)
	c.add(after(0), "a", State{Shard: "0", Count: 1, AsOf: at(1)}, 1)
	b := mustNext(t, c, after(0), 1)
	c.done(after(0), b, committed, 0)
	// It stays quiet for an interval, and is forgotten.
	mustNotNext(t, c, after(2*time.Second))
	if len(c.backlogs) != 0 {
		t.Errorf("%d counters remembered, want 0", len(c.backlogs))
	}
	c.add(after(3*time.Second), "a", State{Shard: "0", Count: 2, AsOf: at(2)}, 2)
	mustNext(t, c, after(3*time.Second), 1)
}

func TestCoalescerHotCounterWaitsForItsInterval(t *testing.T) {
	t.Parallel()
	c := newCoalescer(10, 10)
	c.add(after(0), "a", State{Shard: "0", Count: 1, AsOf: at(1)}, 1)
	b := mustNext(t, c, after(0), 1)
	// What comes while a flush is in flight waits for the next one, also past the interval.
	c.add(after(time.Millisecond), "a", State{Shard: "0", Count: 2, AsOf: at(2)}, 2)
	c.add(after(2*time.Millisecond), "a", State{Shard: "0", Count: 3, AsOf: at(3)}, 3)
	mustNotNext(t, c, after(1500*time.Millisecond))
	c.done(b.started, b, committed, 0)
	b = mustNext(t, c, after(1500*time.Millisecond), 2)
	if len(b.states) != 1 || b.states[0].Count != 3 {
		t.Errorf("states %v, want the newest one of the shard", b.states)
	}
	c.done(b.started, b, committed, 0)
	c.add(after(1600*time.Millisecond), "a", State{Shard: "0", Count: 4, AsOf: at(4)}, 4)
	mustNotNext(t, c, after(2499*time.Millisecond))
	if due, ok := c.wake(); !ok || !due.Equal(after(2500*time.Millisecond)) {
		t.Errorf("wake = %v, %v, want an interval after the start of the last flush", due, ok)
	}
	mustNext(t, c, after(2500*time.Millisecond), 1)
}

func TestCoalescerIntervalFollowsContention(t *testing.T) {
	t.Parallel()
	c := newCoalescer(10, 10)
	now := after(0)
	const took = 100 * time.Millisecond // a flush
	for i, tt := range []struct {
		outcome outcome
		others  int64
		want    time.Duration // from the start of a flush to the next
	}{
		{committed, 0, time.Second},
		// One more instance, two, and more than there is room for; counted from the end of the flush.
		{committed, 1, 2500*time.Millisecond + took},
		{committed, 2, 3750*time.Millisecond + took},
		{committed, 40, 5*time.Second + took},
		{committed, 1 << 62, 5*time.Second + took},
		{committed, 0, 2500 * time.Millisecond}, {committed, 0, 1250 * time.Millisecond}, {committed, 0, time.Second}, {committed, 0, time.Second},
		// A failed flush goes again after the least interval, and the one after it waits for longer.
		{failed, 0, time.Second + took}, {failed, 0, time.Second + took}, {committed, 0, 2 * time.Second}, {committed, 0, time.Second},
		{hopeless, 0, time.Second + took}, {committed, 0, time.Second},
	} {
		c.add(now, "a", State{Shard: "0", Count: int64(i), AsOf: at(i)}, i)
		b, ok := c.next(now)
		if !ok {
			t.Fatalf("step %d: nothing to flush at the due time", i)
		}
		c.done(now.Add(took), b, tt.outcome, tt.others)
		due, _ := c.wake()
		if got := due.Sub(now); got != tt.want {
			t.Errorf("step %d: next flush after %v, want %v", i, got, tt.want)
		}
		now = due
	}
}

func TestCoalescerUnchangedTakesNoInterval(t *testing.T) {
	t.Parallel()
	c := newCoalescer(10, 10)
	c.add(after(0), "a", State{Shard: "0", Count: 1, AsOf: at(1)}, 1)
	c.done(after(0), mustNext(t, c, after(0), 1), unchanged, 0)
	c.add(after(1), "a", State{Shard: "0", Count: 2, AsOf: at(2)}, 2)
	mustNext(t, c, after(1), 1)
}

func TestCoalescerFailedFlushGoesAgain(t *testing.T) {
	t.Parallel()
	c := newCoalescer(10, 10)
	c.add(after(0), "a", State{Shard: "0", Count: 5, AsOf: at(5)}, 1)
	c.add(after(0), "a", State{Shard: "1", Count: 1, AsOf: at(1)}, 2)
	b := mustNext(t, c, after(0), 2)
	c.add(after(0), "a", State{Shard: "0", Count: 4, AsOf: at(4)}, 3) // older than the one in flight
	if told := c.done(b.started, b, failed, 0); len(told) != 0 {
		t.Errorf("told %v of the first failure", told)
	}
	b = mustNext(t, c, after(time.Minute), 3)
	for _, s := range b.states {
		if s.Shard == "0" && s.Count != 5 {
			t.Errorf("an older state took the place of the newer: %v", s)
		}
	}
	if told := c.done(b.started, b, failed, 0); len(told) != 0 {
		t.Errorf("told %v of the second failure", told)
	}
	b = mustNext(t, c, after(2*time.Minute), 3)
	if told := c.done(b.started, b, failed, 0); len(told) != 3 || c.waiting != 0 {
		t.Errorf("told %v of the third failure, %d waiting, want all and none", told, c.waiting)
	}
	mustNotNext(t, c, after(time.Hour))
}

func TestCoalescerBounds(t *testing.T) {
	t.Parallel()
	c := newCoalescer(3, 2)
	for i, counter := range []string{"a", "b", "c"} {
		if !c.add(after(0), counter, State{Shard: "0", Count: 1, AsOf: at(1)}, i) {
			t.Fatalf("add %d refused", i)
		}
	}
	if c.add(after(0), "d", State{Shard: "0", Count: 1, AsOf: at(1)}, 4) {
		t.Error("a fourth was taken, want at most three")
	}
	first := mustNext(t, c, after(0), 1)
	mustNext(t, c, after(0), 1)
	mustNotNext(t, c, after(0)) // two in flight
	if _, ok := c.wake(); ok {
		t.Error("to be woken while nothing can start")
	}
	if c.add(after(0), "d", State{Shard: "0", Count: 1, AsOf: at(1)}, 4) {
		t.Error("those in flight don't count as waiting")
	}
	c.done(after(0), first, committed, 0)
	mustNext(t, c, after(0), 1)
	if !c.add(after(0), "d", State{Shard: "0", Count: 1, AsOf: at(1)}, 4) {
		t.Error("no room after one was told")
	}
}

func TestCoalescerDrains(t *testing.T) {
	t.Parallel()
	c := newCoalescer(10, 10)
	c.add(after(0), "a", State{Shard: "0", Count: 1, AsOf: at(1)}, 1)
	c.done(after(0), mustNext(t, c, after(0), 1), committed, 0)
	c.add(after(1), "a", State{Shard: "0", Count: 2, AsOf: at(2)}, 2)
	mustNotNext(t, c, after(1))
	c.drain()
	mustNext(t, c, after(1), 1)
}

// Whatever happens, every waiter is told once, whoever is told of success had its state flushed, or a newer one of the
// same shard, and no counter has two flushes at a time or one within an interval of one that wrote.
func TestCoalescerProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newCoalescer(1000, rapid.IntRange(1, 3).Draw(t, "flights"))
		now := after(0)
		told := map[int]int{}
		flushed := map[string]time.Time{}
		waitsFor := map[int]string{}
		since := map[int]time.Time{}
		lastCommit := map[string]time.Time{}
		var flights []batch[int]
		added := 0
		finish := func(o outcome) {
			i := rapid.IntRange(0, len(flights)-1).Draw(t, "which")
			b := flights[i]
			flights = append(flights[:i:i], flights[i+1:]...)
			success := o != failed
			for _, s := range b.states {
				if key := b.counter + s.Shard; success && s.AsOf.After(flushed[key]) {
					flushed[key] = s.AsOf
				}
			}
			if o != unchanged {
				lastCommit[b.counter] = b.started
			}
			for _, w := range c.done(now, b, o, rapid.Int64Range(0, 3).Draw(t, "others")) {
				told[w]++
				if success && flushed[waitsFor[w]].Before(since[w]) {
					t.Fatalf("waiter %d was told of success before its state was flushed", w)
				}
			}
		}
		begin := func() {
			b, ok := c.next(now)
			if !ok {
				return
			}
			for _, other := range flights {
				if other.counter == b.counter {
					t.Fatalf("two flushes of %s at a time", b.counter)
				}
			}
			if last, ok := lastCommit[b.counter]; ok && now.Sub(last) < c.least {
				t.Fatalf("a flush of %s %v after one that committed", b.counter, now.Sub(last))
			}
			flights = append(flights, b)
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				counter, shard := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "counter"), fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "shard"))
				asOf := at(rapid.IntRange(1, 100).Draw(t, "asOf"))
				if c.add(now, counter, State{Shard: shard, Count: 1, AsOf: asOf}, added) {
					waitsFor[added], since[added] = counter+shard, asOf
					added++
				}
			},
			"start": func(*rapid.T) { begin() },
			"finish": func(t *rapid.T) {
				if len(flights) == 0 {
					t.Skip()
				}
				finish(rapid.SampledFrom([]outcome{committed, unchanged, failed}).Draw(t, "outcome"))
			},
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
			},
		})
		for len(flights) > 0 || c.waiting > 0 {
			now = now.Add(10 * time.Second)
			begin()
			for len(flights) > 0 {
				finish(committed)
			}
		}
		for w := range added {
			if told[w] != 1 {
				t.Fatalf("waiter %d was told %d times", w, told[w])
			}
		}
	})
}
