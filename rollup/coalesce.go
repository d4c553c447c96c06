package rollup

import (
	"container/heap"
	"time"
)

// coalescer decides which states are flushed together, and when. It holds no clock and starts nothing: whoever drives it
// says what time it is. W is who waits for a state to be counted.
//
// A counter has at most one flush in flight, and flushes of it start at least an interval apart, its own: doubled up to
// the most whenever others turn out to write the same ledger or the document is contended, halved down to the least by
// every flush that meets neither. Instances that share a hot counter thereby slow each other down.
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
	committed outcome = iota // and nobody else wrote
	contested                // committed, and others write the same ledger
	failed                   // not committed: to go again
	hopeless                 // not committed, and going again will not help
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

// done takes a flush back, and returns those who need not wait any longer. They are to be told of success where the
// flush was committed, and else of failure; a failed flush goes again with what has come meanwhile, and its waiters
// wait on, until too many have failed in a row.
func (c *coalescer[W]) done(flush batch[W], o outcome) (told []W) {
	c.flights--
	b := c.backlogs[flush.counter]
	if o == committed {
		b.interval = max(c.least, b.interval/2)
	} else {
		b.interval = min(c.most, b.interval*2)
	}
	b.due = flush.started.Add(b.interval)
	switch o {
	case committed, contested, hopeless:
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
