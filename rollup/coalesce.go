package rollup

import (
	"container/heap"
	"time"
)

// coalescer decides which states are flushed together, and when. It holds no clock and starts nothing: whoever drives it
// says what time it is. W is who waits for a state to be counted.
//
// A counter has at most one flush in flight, and flushes of it start at least an interval apart. When others turn out
// to flush the same counter, the interval becomes this instance's fair share: with three instances each flushes every
// third time, so that together they still write about once per least interval. Contention doubles it, and success eases
// it back.
type coalescer[W any] struct {
	least, most time.Duration // of an interval
	maxWaiting  int           // waiters, those in flight included
	maxFlights  int           // flushes at a time
	maxFailures int           // of a counter's flushes in a row, before its waiters are told

	backlogs map[string]*backlog[W] // :: counter id → what waits, and when it may go
	queue    schedule[W]            // backlogs that are not in flight, by the time they may go
	waiting  int
	flights  int
	draining bool // nothing waits for its interval any more
}

// backlog is what waits for a counter's next flush.
type backlog[W any] struct {
	counter  string
	states   map[string]State // :: shard id → its newest state
	waiters  []W
	interval time.Duration
	due      time.Time // no flush starts before
	failures int       // flushes that failed in a row
}

// batch is a flush: it is handed out by next, and handed back to done.
type batch[W any] struct {
	counter string
	states  []State
	waiters []W
	started time.Time
}

// outcome is what became of a flush.
type outcome int

const (
	committed outcome = iota
	unchanged         // there was nothing to commit
	failed            // not committed: to go again
	hopeless          // not committed, and going again will not help
)

// add queues a state, and reports false when too many wait already.
func (c *coalescer[W]) add(now time.Time, counter string, s State, w W) bool {
	if c.waiting >= c.maxWaiting {
		return false
	}
	c.waiting++
	b := c.backlogs[counter]
	if b == nil {
		b = &backlog[W]{counter: counter, states: map[string]State{}, interval: c.least, due: now}
		c.backlogs[counter] = b
		heap.Push(&c.queue, b)
	}
	b.put(s)
	b.waiters = append(b.waiters, w)
	return true
}

// next hands out a flush that may start now, if there is one.
func (c *coalescer[W]) next(now time.Time) (batch[W], bool) {
	for c.flights < c.maxFlights && len(c.queue) > 0 {
		b := c.queue[0]
		if b.due.After(now) && !c.draining {
			break
		}
		heap.Pop(&c.queue)
		if len(b.waiters) == 0 { // quiet for an interval: forgotten
			delete(c.backlogs, b.counter)
			continue
		}
		flush := batch[W]{counter: b.counter, states: make([]State, 0, len(b.states)), waiters: b.waiters, started: now}
		for _, s := range b.states {
			flush.states = append(flush.states, s)
		}
		clear(b.states)
		b.waiters = nil
		c.flights++
		return flush, true
	}
	return batch[W]{}, false
}

// wake is when next should be asked again. It reports false when only done or add can change its answer.
func (c *coalescer[W]) wake() (time.Time, bool) {
	if c.flights >= c.maxFlights || len(c.queue) == 0 {
		return time.Time{}, false
	}
	return c.queue[0].due, true
}

// done takes a flush back, with how many flushes others made since the last one of this instance, and returns those who
// need not wait any longer. They are to be told of success where the flush was committed, and else of failure; a failed
// flush goes again with what has come meanwhile, and its waiters wait on, until too many have failed in a row.
func (c *coalescer[W]) done(now time.Time, flush batch[W], o outcome, others int64) (told []W) {
	c.flights--
	b := c.backlogs[flush.counter]
	switch o {
	case unchanged: // no write was taken: what comes next need not wait
		b.due = flush.started
	case committed:
		b.interval = max(c.share(others), b.interval/2)
		if b.due = flush.started.Add(b.interval); others > 0 {
			// Counted from the end, those who got into each other's way move apart.
			b.due = now.Add(b.interval)
		}
	case failed, hopeless:
		b.interval = min(c.most, b.interval*2)
		b.due = now.Add(c.least) // what waits has waited for an interval already
	}
	switch o {
	case committed, unchanged, hopeless:
		b.failures = 0
		told = flush.waiters
	case failed:
		if b.failures++; b.failures > c.maxFailures {
			b.failures = 0
			told = flush.waiters
			break
		}
		for _, s := range flush.states {
			b.put(s)
		}
		b.waiters = append(flush.waiters, b.waiters...)
	}
	c.waiting -= len(told)
	heap.Push(&c.queue, b)
	return told
}

// share is the interval at which this instance and as many others write once per least interval, and a quarter less than
// that, so that they find room for each other.
func (c *coalescer[W]) share(others int64) time.Duration {
	if others == 0 {
		return c.least
	}
	others = min(others, int64(c.most/c.least)) // no overflow
	return min(c.most, c.least*time.Duration(others+1)*5/4)
}

// drain makes everything due, now and from now on.
func (c *coalescer[W]) drain() { c.draining = true }

func (b *backlog[W]) put(s State) {
	if known, ok := b.states[s.Shard]; !ok || s.AsOf.After(known.AsOf) {
		b.states[s.Shard] = s
	}
}

// schedule is a heap of backlogs, the one that is due first on top.
type schedule[W any] []*backlog[W]

func (s schedule[W]) Len() int           { return len(s) }
func (s schedule[W]) Less(i, j int) bool { return s[i].due.Before(s[j].due) }
func (s schedule[W]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
}
func (s *schedule[W]) Push(x any) { *s = append(*s, x.(*backlog[W])) }
func (s *schedule[W]) Pop() any {
	old := *s
	b := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	return b
}
