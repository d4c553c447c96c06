package rollup

import (
	"slices"
	"time"

	"github.com/firestore-counters/counters/internal/ledger"
)

// coalescer decides which states are flushed together, and when. It has no clock and starts nothing:
// its methods are passed the time. W is an event that waits for its state to be counted.
//
// A counter has at most one flush in flight. Flushes are taken from a bucket that holds burst of them,
// and earns one per least interval. So those of a quiet counter start at once, and a hot one has one
// per interval. An instance with many flushes in flight spends none of it early: 1,000 counters that
// begin together would flush 5,000 times. Other instances that flush the same counter have emptied the
// bucket, and one of them speaks for all: see [speaker]. Contention empties it too, and doubles the
// interval; success halves that again.
//
// An event is done at once if the ledger's last snapshot, as this instance knows it, covers it.
//
// Of each shard only the newest state waits, with its event and that event's duplicates. Events of
// older states are done: the newer one comes again if this process dies, and covers them. A duplicate
// waits with its twin, because neither comes again once one of them is acknowledged. An event that says
// what a field held before it was no integer waits, too: no newer state says that.
type coalescer[W any] struct {
	least, most time.Duration // in which a flush is earned
	burst       int           // flushes that a full bucket holds, at least 1
	maxWaiting  int           // events, those in flight included
	// from the first of a row of failures until a counter's events are noted, or answered with an error
	patience time.Duration
	spread   func() float64 // at random, from 0 to 1
	purse    purse          // for snapshots

	runs[string, *backlog[W]] // flushes, by their counters

	waiting  int
	draining bool // nothing waits for its interval any more
}

// backlog is what waits for a counter's next flush, and what is in flight.
type backlog[W any] struct {
	counter  string
	next     map[string]*waitingState[W] // :: shard id → its newest state
	inFlight map[string]*waitingState[W] // of shards that are in next too, without events
	answered []answered[W]               // what queries have said, for the next flush
	flying   []answered[W]               // the same, in flight
	events   int                         // that came for the next flush, superseded ones included
	interval time.Duration               // in which a flush is earned
	earliest time.Time                   // of the next flush: the bucket holds one then
	full     time.Time                   // when the bucket is full
	failing  time.Time                   // since when, if its last flush failed: when the first of those began
	flushed  bool
	hurries  bool // its next flush is at once
	hurried  bool // one was
	speaker
	mine    time.Time // version of the ledger that this instance last committed
	noticed time.Time // when another's flush was last noticed
	floor   time.Time // of the ledger, as it was last known: no state of before is news to it
	slot
}

// busyFlushes in flight, beside one that ends, make an instance busy. At 10 to 40 ms a commit they are 200
// to 800 flushes a second, about what a core makes.
const busyFlushes = 8

// slowFlush is how long a flush takes at least that had to wait for its document.
const slowFlush = 250 * time.Millisecond

// due is when the next flush may start, or a quiet counter is forgotten.
func (b *backlog[W]) due() time.Time {
	switch {
	case b.empty():
		return b.full
	case b.hurries:
		return time.Time{}
	}
	return b.earliest
}

func (b *backlog[W]) key() string { return b.counter }
func (b *backlog[W]) empty() bool { return len(b.next) == 0 && len(b.answered) == 0 }

// ahead is how long it takes to earn all flushes of a bucket but one.
func (c *coalescer[W]) ahead() time.Duration { return c.least * time.Duration(c.burst-1) }

// wait has the bucket hold a flush again at a time.
func (c *coalescer[W]) wait(b *backlog[W], next time.Time) {
	b.earliest, b.full = next, next.Add(c.ahead())
}

// shared reports whether others have flushed a counter lately.
func (c *coalescer[W]) shared(b *backlog[W], now time.Time) bool {
	return !b.noticed.IsZero() && now.Sub(b.noticed) < aloneAfter*c.least
}

// covers reports whether the ledger's last snapshot covers a state. It never covers a deletion, whose
// time doesn't tell when it was.
func (b *backlog[W]) covers(s ledger.State) bool {
	return b != nil && !s.Gone && !s.AsOf.After(b.floor)
}

// waitingState is a state, and the events that wait for it: one, and its duplicates.
type waitingState[W any] struct {
	state  ledger.State
	older  []ledger.State // what is known of fields in which it, or one of these, is no integer; mostly none
	events []W
}

// keep keeps older states if a field is no integer in the newer one: they say what was counted of it.
func (h *waitingState[W]) keep(older ...ledger.State) {
	if len(h.state.Odd)+len(h.state.Blank) > 0 || slices.ContainsFunc(slices.Concat(older, h.older), isMixed) {
		h.older = append(h.older, older...)
	}
}

// tells reports whether the events of a state are covered by no newer one's.
func (h *waitingState[W]) tells() bool { return tells(h.state) || slices.ContainsFunc(h.older, tells) }

// tells reports whether an event says what no other one does: what a field held before it was no
// integer. A text after a text doesn't.
func tells(s ledger.State) bool { return len(s.Was) > 0 || s.WasOdd }

func isMixed(s ledger.State) bool { return len(s.Odd)+len(s.Blank) > 0 }

// answered is what the queries of one collection have said, and the events that are covered once it
// is in the ledger.
type answered[W any] struct {
	collection string
	elsewhere  bool                     // its documents are not below the counter, and make none where there is none
	answers    map[string]ledger.Answer // :: key of a field's definition → what was asked for it
	events     []waitingEvent[W]
}

// has reports whether one of the answers is among the keys.
func (a answered[W]) has(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { _, is := a.answers[key]; return is })
}

// counts reports whether the collection holds something, or has no answer.
func (a answered[W]) counts() bool {
	if a.elsewhere {
		return false
	}
	for _, answer := range a.answers {
		if answer.Counts() {
			return true
		}
	}
	return len(a.answers) == 0
}

// add takes an event of a state, and returns the events that are done: older ones of the shard, or this
// one. It reports false if too many wait already.
func (c *coalescer[W]) add(now time.Time, counter string, s ledger.State, event W) (superseded []W, ok bool) {
	b := c.tasks[counter]
	if b != nil {
		b.earn(&c.purse)
	}
	if b.covers(s) {
		b.events++
		return []W{event}, true
	}
	newest := b.newest(s.Shard)
	older := newest != nil && newest.state.Supersedes(s)
	switch {
	case older && (!tells(s) || b.next[s.Shard] == nil):
		newest.keep(s)
		b.events++
		return []W{event}, true
	case newest != nil && s.Supersedes(newest.state) && !newest.tells(): // takes their place, so there is room
		superseded = newest.events
		newest.events = nil
	case c.waiting >= c.maxWaiting:
		return nil, false
	}
	c.waiting += 1 - len(superseded)
	if b == nil {
		b = c.backlog(now, counter)
		b.earn(&c.purse)
	}
	b.events++
	switch {
	case older:
		newest.keep(s)
		newest.events = append(newest.events, event)
	case newest != nil && !s.Supersedes(newest.state) && len(newest.events) > 0:
		newest.events = append(newest.events, event) // a duplicate
	default:
		h := &waitingState[W]{state: s}
		if newest != nil {
			h.keep(append(newest.older, newest.state)...)
			h.events, newest.events = newest.events, nil
		}
		h.events = append(h.events, event)
		b.next[s.Shard] = h
		c.queue.fix(b)
	}
	return superseded, true
}

// late notes that an event came late. If the interval is longer than a second, and nobody else may
// speak, the counter's next flush is at once: Pub/Sub sends more once these events are done. That
// happens once until the counter has been quiet.
func (c *coalescer[W]) late(now time.Time, counter string) {
	if b := c.tasks[counter]; b != nil {
		b.asked()
		b.hurries = c.least > time.Second && !b.hurried && !c.shared(b, now)
		c.queue.fix(b)
	}
}

// answer takes what queries have said of a collection, with the events that wait for that.
func (c *coalescer[W]) answer(now time.Time, counter string, a answered[W]) {
	b := c.backlog(now, counter)
	b.answered = append(b.answered, a)
	b.events += len(a.events)
	c.waiting += len(a.events)
	c.queue.fix(b)
}

// backlog is a counter's, made if there is none.
func (c *coalescer[W]) backlog(now time.Time, counter string) *backlog[W] {
	b := c.tasks[counter]
	if b == nil {
		b = &backlog[W]{counter: counter, next: map[string]*waitingState[W]{}, interval: c.least}
		c.wait(b, now.Add(-c.ahead()))
		c.put(b)
	}
	return b
}

func (b *backlog[W]) newest(shard string) *waitingState[W] {
	if b == nil {
		return nil
	}
	if h := b.next[shard]; h != nil {
		return h
	}
	return b.inFlight[shard]
}

// start returns a flush that may start now, if there is one.
func (c *coalescer[W]) start(now time.Time) (batch, bool) {
	b, ok := c.next(now)
	if !ok {
		return batch{}, false
	}
	if b.hurries {
		b.hurries, b.hurried = false, true
		b.earliest = slices.MinFunc([]time.Time{b.earliest, now}, time.Time.Compare)
	}
	flush := batch{counter: b.counter, states: make([]ledger.State, 0, len(b.next)), events: b.events, started: now}
	flush.mine, flush.floor = b.mine, b.floor
	flush.speaks, flush.reads = b.flushed && b.worth > 0, b.reads(c.purse)
	flush.follows, flush.least = len(b.answered) == 0 && !c.draining, c.least
	flush.shared = c.shared(b, now)
	for _, h := range b.next {
		slices.SortFunc(h.older, func(a, b ledger.State) int { return a.AsOf.Compare(b.AsOf) })
		flush.states = append(append(flush.states, h.older...), h.state)
		flush.adopts = flush.adopts || !h.state.Gone
	}
	for _, a := range b.answered {
		flush.answer(a.answers)
		flush.counts = flush.counts || a.counts()
		flush.adopts = flush.adopts || slices.ContainsFunc(a.events, func(e waitingEvent[W]) bool { return !e.gone })
	}
	b.inFlight, b.next, b.events = b.next, make(map[string]*waitingState[W], len(b.next)), 0
	b.flying, b.answered = b.answered, nil
	return flush, true
}

// released is what becomes of the events of a flush that need not wait any longer.
type released[W any] struct {
	counted []W           // their states, or answers, are in the ledger
	noted   []W           // they can't be, for a reason of their counter's own: done once that is noted
	refused []W           // to be delivered again
	early   []answered[W] // asked too early: to be asked again
}

// fate is what becomes of a state, or an answer, whose flush has ended.
type fate int

const (
	counts    fate = iota // it is in the ledger
	goesAgain             // with the next flush
	isNoted               // it can't be counted, for a reason of its counter's own
	isRefused             // its events are to be delivered again
)

// fateOf is the fate of a part of a flush, which may have found the ledger full.
func fateOf(o outcome, again, full bool) fate {
	switch {
	case again:
		return goesAgain
	case o == failed || o == permanent:
		return isRefused
	case o == contended || o == own || full:
		return isNoted
	}
	return counts
}

// add adds events by their fate.
func (s *released[W]) add(f fate, events []W) {
	of := map[fate]*[]W{counts: &s.counted, isNoted: &s.noted, isRefused: &s.refused}[f]
	*of = append(*of, events...)
}

// done takes a flush back. What a failed flush held goes again, with what has come meanwhile, until its
// patience is over.
func (c *coalescer[W]) done(now time.Time, flush batch, o outcome, f flushed) (s released[W]) {
	b := c.tasks[flush.counter]
	b.flushed = true
	b.pay(&c.purse, f.reads)
	if !f.version.IsZero() {
		b.mine = f.version
	}
	if f.otherFlushes > 0 {
		b.asked()
		b.noticed = now
	}
	if f.spoke {
		b.spoke(f.news)
	}
	c.pace(now, b, flush, o, f)
	again := c.again(now, b, flush, o)
	for shard, h := range b.inFlight {
		if of := fateOf(o, again || f.open[shard], slices.Contains(f.diff.Full, ledger.Key(shard))); of != goesAgain {
			s.add(of, h.events)
		} else if b.next[shard] == nil { // or else superseded: its events are done
			b.next[shard] = h
		}
	}
	for _, a := range b.flying {
		switch of := fateOf(o, again, a.has(f.diff.Full)); {
		case of == goesAgain:
			b.answered = append(b.answered, a)
		case of == counts && a.has(f.diff.Early):
			s.early = append(s.early, a)
			c.waiting -= len(a.events)
		default:
			s.add(of, events(a.events))
		}
	}
	if f.floor.After(b.floor) {
		b.floor = f.floor
		for shard, h := range b.next {
			if b.covers(h.state) { // it came meanwhile
				s.counted = append(s.counted, h.events...)
				delete(b.next, shard)
			}
		}
	}
	b.events += len(f.open)
	b.inFlight, b.flying = nil, nil
	c.waiting -= len(s.counted) + len(s.noted) + len(s.refused)
	c.ended(b)
	return s
}

// pace says when a counter's next flush may start.
func (c *coalescer[W]) pace(now time.Time, b *backlog[W], flush batch, o outcome, f flushed) {
	waited := now.Sub(flush.started) // for the document, as the speaker does
	if waited <= slowFlush {
		waited = 0
	}
	switch o {
	case unchanged: // no write was taken: what comes next need not wait
	case followed:
		b.interval = c.least
		c.wait(b, now.Add(lookIn(c.least+waited, f.ago, c.spread())))
	case committed:
		b.interval = max(c.share(f), b.interval/2)
		next := b.earliest.Add(b.interval)
		if full := flush.started.Add(c.least - c.ahead()); next.Before(full) {
			next = full // the bucket was: it holds no more for a longer quiet
		}
		if c.running > busyFlushes {
			next = slices.MaxFunc([]time.Time{next, flush.started.Add(b.interval)}, time.Time.Compare)
		}
		last := next.After(flush.started) // that the bucket held
		if f.otherFlushes > 0 || f.spoke && c.shared(b, now) || waited > 0 && last {
			// Counted from the end, those who were in each other's way move apart. One that had to wait
			// for its document leaves room for another's flush, so that it can notice it.
			next = now.Add(b.interval)
		}
		c.wait(b, next)
	case failed, contended, own, permanent:
		b.interval = min(c.most, b.interval*2)
		// What waits has waited already. At random, or two instances that meet once meet each time.
		least := c.least / 2
		if o == contended && c.shared(b, now) { // somebody's commit is in line, and will be done then
			least = c.least
		}
		c.wait(b, now.Add(least+time.Duration(c.spread()*float64(c.least))))
	}
	if c.draining && o != failed && o != contended {
		c.wait(b, now.Add(-c.ahead()))
	}
}

// again reports whether what a flush held goes again: it failed, and its counter's patience isn't over.
func (c *coalescer[W]) again(now time.Time, b *backlog[W], flush batch, o outcome) bool {
	if o != failed && o != contended {
		b.failing = time.Time{}
		return false
	}
	if b.failing.IsZero() {
		b.failing = flush.started
	}
	if now.Sub(b.failing) < c.patienceNow() {
		b.events += flush.events
		return true
	}
	if o == failed { // of one that is contended, what comes next need not wait for as long again
		b.failing = time.Time{}
	}
	return false
}

// patienceNow is the patience; a few attempts if the process ends.
func (c *coalescer[W]) patienceNow() time.Duration {
	if c.draining {
		return min(c.patience, 3*c.least)
	}
	return c.patience
}

// share is the interval at which this instance and as many others write once per least interval, and a
// quarter longer, so that they find room for each other. These turns are what is left if no flush
// speaks for all, because a snapshot would take more reads than events have paid for: with a thousand
// shards and five writes a second, say.
func (c *coalescer[W]) share(f flushed) time.Duration {
	if f.otherFlushes == 0 || f.spoke {
		return c.least
	}
	otherFlushes := min(f.otherFlushes, int64(c.most/c.least)) // no overflow
	return min(c.most, c.least*time.Duration(otherFlushes+1)*5/4)
}

// drain lets what waits go now. What fails then waits as before.
func (c *coalescer[W]) drain(now time.Time) {
	c.draining = true
	for _, b := range c.queue {
		c.wait(b, now.Add(-c.ahead()))
	}
	c.queue.sort()
}

// left are the events that wait for a flush that has not begun.
func (c *coalescer[W]) left() (left []W) {
	for _, b := range c.tasks {
		for _, h := range b.next {
			left = append(left, h.events...)
			h.events = nil
		}
		for _, a := range b.answered {
			left = append(left, events(a.events)...)
		}
		b.answered = nil
	}
	return left
}
