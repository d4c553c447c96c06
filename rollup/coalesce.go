package rollup

import (
	"container/heap"
	"maps"
	"time"

	"github.com/firestore-counters/counters/internal/ledger"
)

// coalescer decides which states are flushed together, and when. It holds no clock and starts nothing: its methods are passed
// the time. W is an event that waits for its state to be counted.
//
// A counter has at most one flush in flight, and flushes of it start at least an interval apart. When other instances turn
// out to flush the same counter, the interval becomes this instance's fair share: with three instances each flushes every
// third time, so that together they still write about once per least interval. Contention doubles it, and success eases
// it back.
//
// Of each shard only the newest state is held, with its event and duplicates of it. Events of older states need not wait:
// the newer one is not acknowledged, so it comes again if this process dies, and it covers them. That holds for strictly
// newer ones only. A duplicate waits with its twin: they are the same event, and once one delivery of it is acknowledged, it
// does not come again.
type coalescer[W any] struct {
	least, most time.Duration // of an interval
	maxWaiting  int           // events, those in flight included
	maxFlushes  int           // in flight at a time
	maxFailures int           // of a counter's flushes in a row, before its events are answered

	backlogs map[string]*backlog[W] // :: counter id → what waits, and when it may go
	queue    schedule[W]            // backlogs without a flush in flight, by the time they may go
	waiting  int
	flushes  int // in flight
}

// backlog is what waits for a counter's next flush, and what is in flight.
type backlog[W any] struct {
	counter  string
	next     map[string]*held[W] // :: shard id → its newest state
	inFlight map[string]*held[W] // of shards that are in next too, without events
	events   int                 // that came for the next flush, superseded ones included
	interval time.Duration
	due      time.Time // no flush starts before
	failures int       // flushes that failed in a row
}

// held is a state, and the events that wait for it: one, and its duplicates.
type held[W any] struct {
	state  ledger.State
	events []W
}

// batch is a flush: it is handed out by start, and handed back to done.
type batch struct {
	counter string
	states  []ledger.State
	events  int // that it stands for
	started time.Time
}

// outcome is what became of a flush.
type outcome int

const (
	committed  outcome = iota
	unchanged          // there was nothing to commit
	failed             // not committed: to go again
	permanent          // not committed, and going again will not help
	unanswered         // of a recount: a query's time was over, and whether it is only slow is not known
)

// add takes an event of a state, and returns the events that are superseded, and done: older ones of the shard, or this
// one. It reports false when too many wait already.
func (c *coalescer[W]) add(now time.Time, counter string, s ledger.State, event W) (superseded []W, ok bool) {
	b := c.backlogs[counter]
	newest := b.newest(s.Shard)
	switch {
	case newest != nil && newest.state.Supersedes(s):
		if len(s.Missing(newest.state)) > 0 {
			return nil, false // to come again once the newer one is flushed, which lacks one of its fields
		}
		b.events++
		return []W{event}, true
	case newest != nil && s.Supersedes(newest.state): // takes their place, so there is room
		if missing := newest.state.Missing(s); len(missing) > 0 { // no integers any more: the older ones are what is known of them
			maps.Copy(missing, s.Counts)
			s.Counts = missing
		}
		superseded = newest.events
		newest.events = nil
	case c.waiting >= c.maxWaiting:
		return nil, false
	}
	c.waiting += 1 - len(superseded)
	if b == nil {
		b = &backlog[W]{counter: counter, next: map[string]*held[W]{}, interval: c.least, due: now}
		c.backlogs[counter] = b
		heap.Push(&c.queue, b)
	}
	b.events++
	if newest != nil && len(newest.events) > 0 {
		newest.events = append(newest.events, event) // a duplicate
	} else {
		b.next[s.Shard] = &held[W]{state: s, events: []W{event}}
	}
	return superseded, true
}

func (b *backlog[W]) newest(shard string) *held[W] {
	if b == nil {
		return nil
	}
	if h := b.next[shard]; h != nil {
		return h
	}
	return b.inFlight[shard]
}

// start hands out a flush that may start now, if there is one.
func (c *coalescer[W]) start(now time.Time) (batch, bool) {
	for c.flushes < c.maxFlushes && len(c.queue) > 0 && !c.queue[0].due.After(now) {
		b := heap.Pop(&c.queue).(*backlog[W])
		if len(b.next) == 0 { // quiet for an interval: forgotten
			delete(c.backlogs, b.counter)
			continue
		}
		flush := batch{counter: b.counter, states: make([]ledger.State, 0, len(b.next)), events: b.events, started: now}
		for _, h := range b.next {
			flush.states = append(flush.states, h.state)
		}
		b.inFlight, b.next, b.events = b.next, make(map[string]*held[W], len(b.next)), 0
		c.flushes++
		return flush, true
	}
	return batch{}, false
}

// wake is when start should be asked again. It reports false when only done or add can change its answer.
func (c *coalescer[W]) wake() (time.Time, bool) {
	if c.flushes >= c.maxFlushes || len(c.queue) == 0 {
		return time.Time{}, false
	}
	return c.queue[0].due, true
}

// done takes a flush back, with how many flushes others made since the last one of this instance and the keys of shards
// that were refused, and returns the events that need not wait any longer: those whose state was counted, and those that
// are to be delivered again. The states of a failed flush go again with what has come meanwhile, and their events wait on,
// until too many have failed in a row.
func (c *coalescer[W]) done(now time.Time, flush batch, o outcome, otherFlushes int64, full map[string]bool) (counted, refused []W) {
	c.flushes--
	b := c.backlogs[flush.counter]
	switch o {
	case unchanged: // no write was taken: what comes next need not wait
		b.due = flush.started
	case committed:
		b.interval = max(c.share(otherFlushes), b.interval/2)
		if b.due = flush.started.Add(b.interval); otherFlushes > 0 {
			// Counted from the end, those who got into each other's way move apart.
			b.due = now.Add(b.interval)
		}
	case failed, permanent:
		b.interval = min(c.most, b.interval*2)
		b.due = now.Add(c.least) // what waits has waited for an interval already
	}
	if b.failures++; o != failed {
		b.failures = 0
	}
	again := o == failed && b.failures <= c.maxFailures
	for shard, h := range b.inFlight {
		switch {
		case again && b.next[shard] == nil:
			b.next[shard] = h
		case again: // superseded: its events are done
		case o == failed || o == permanent || full[ledger.Key(shard)]:
			refused = append(refused, h.events...)
		default:
			counted = append(counted, h.events...)
		}
	}
	if again {
		b.events += flush.events
	} else if o == failed {
		b.failures = 0
	}
	b.inFlight = nil
	c.waiting -= len(counted) + len(refused)
	heap.Push(&c.queue, b)
	return counted, refused
}

// share is the interval at which this instance and as many others write once per least interval, and a quarter less than
// that, so that they find room for each other.
func (c *coalescer[W]) share(otherFlushes int64) time.Duration {
	if otherFlushes == 0 {
		return c.least
	}
	otherFlushes = min(otherFlushes, int64(c.most/c.least)) // no overflow
	return min(c.most, c.least*time.Duration(otherFlushes+1)*5/4)
}

// drain lets what waits go now. What fails then waits its interval as before.
func (c *coalescer[W]) drain(now time.Time) {
	for _, b := range c.queue {
		b.due = now
	}
	heap.Init(&c.queue)
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
