package rollup

import (
	"slices"
	"time"
)

// recounts decides when the queries of a collection are asked again, which is a recount, and which
// events that covers. It has no clock and starts nothing. W is an event that waits to be covered.
//
// A recount covers only events that came before it began. Times in events don't tell whether it saw the
// change: a deletion's is that of the version before. An event need not wait if a strictly later change
// of the collection waits: that one comes again if this process dies, and what covers it covers both.
// Deletions neither wait for others like that nor replace them: they may be later than their time, and
// make no ledger.
//
// A query costs a read per 1,000 documents. So after N reads, the next recount waits for about N
// events, but no longer than most.
type recounts[W any] struct {
	least, most time.Duration // between two recounts of a collection, and how late one may be
	longest     time.Duration // what failures stretch least to
	maxWaiting  int           // events, those in flight included
	maxFailures int           // in a row, before events are answered

	runs[collection, *recountTask[W]]

	waiting int
}

// collection is one of a counter's.
type collection struct{ counter, id string }

// recountTask is what waits for the next recount of a collection, and what is in flight.
type recountTask[W any] struct {
	of       collection
	next     []waitingEvent[W]
	inFlight []waitingEvent[W]
	events   int64         // that have come since the last recount began, superseded ones included
	reads    int64         // that the largest query of the last recount took
	interval time.Duration // least time to the next
	earliest time.Time     // of the next one
	latest   time.Time     // of the next one; where nothing waits, when the task is forgotten
	failures int           // in a row
	first    time.Time     // when the ledger was made whose first flush had it asked
	slot                   // in the queue
}

// waitingEvent is an event of a document that changed.
type waitingEvent[W any] struct {
	at time.Time // newest update time in it
	// that says nothing about when it was: the document was deleted, or did not come along
	timeless bool
	gone     bool // the document was deleted
	event    W
}

// recount is one that is handed out by start, and handed back to done.
type recount struct {
	of      collection
	events  int64
	started time.Time
}

// add takes an event that may wait for patience at most, and returns the events that are done. It
// reports false if too many wait already.
func (r *recounts[W]) add(now time.Time, of collection, e waitingEvent[W], patience time.Duration) (superseded []W, ok bool) {
	t := r.tasks[of]
	if t != nil && !e.timeless && slices.ContainsFunc(slices.Concat(t.next, t.inFlight), func(h waitingEvent[W]) bool { return !h.timeless && h.at.After(e.at) }) {
		t.events++
		r.queue.fix(t)
		return []W{e.event}, true
	}
	if t == nil {
		if r.waiting >= r.maxWaiting {
			return nil, false
		}
		t = &recountTask[W]{of: of, interval: r.least, earliest: now}
		r.put(t)
	}
	waited := len(t.next) > 0 // the first event's deadline holds, whatever follows it
	for _, list := range []*[]waitingEvent[W]{&t.next, &t.inFlight} {
		*list = slices.DeleteFunc(*list, func(h waitingEvent[W]) bool {
			done := !h.timeless && !e.timeless && e.at.After(h.at)
			if done {
				superseded = append(superseded, h.event)
			}
			return done
		})
	}
	if r.waiting -= len(superseded); r.waiting >= r.maxWaiting {
		return superseded, false
	}
	if limit := now.Add(min(r.most, patience)); !waited || limit.Before(t.latest) {
		t.latest = limit
	}
	if patience <= 0 {
		t.earliest = now
	}
	t.next = append(t.next, e)
	t.events++
	r.waiting++
	r.queue.fix(t)
	return superseded, true
}

func (t *recountTask[W]) key() collection { return t.of }
func (t *recountTask[W]) empty() bool     { return len(t.next) == 0 }

// due is when the next recount may start, or the task is forgotten.
func (t *recountTask[W]) due() time.Time {
	if len(t.next) == 0 || t.events < t.reads && t.latest.After(t.earliest) {
		return t.latest
	}
	return t.earliest
}

// start returns a recount that may start now, if there is one.
func (r *recounts[W]) start(now time.Time) (recount, bool) {
	t, ok := r.next(now)
	if !ok {
		return recount{}, false
	}
	begun := recount{of: t.of, events: t.events, started: now}
	t.inFlight, t.next, t.events = t.next, nil, 0
	return begun, true
}

// done takes a recount back, with the reads of its largest query. It returns the events that are
// covered, and those to be delivered again. After a failure events wait on, until too many fail in a
// row.
func (r *recounts[W]) done(now time.Time, begun recount, o outcome, reads int64) (covered []waitingEvent[W], refused []W) {
	t := r.tasks[begun.of]
	goesAgain := o == failed || o == contended
	if t.failures++; !goesAgain {
		t.failures = 0
	}
	switch o {
	case committed:
		t.reads = reads
		t.interval = max(r.least, t.interval/2)
		t.earliest = begun.started.Add(t.interval)
	default:
		t.interval = min(r.longest, t.interval*2)
		t.earliest = now.Add(t.interval)
	}
	switch {
	case goesAgain && t.failures <= r.maxFailures:
		t.next = append(t.inFlight, t.next...)
		t.events += begun.events
	case o == committed || o == unchanged:
		covered = t.inFlight
	default:
		t.failures = 0
		refused = events(t.inFlight)
	}
	t.inFlight = nil
	if len(t.next) == 0 {
		t.latest = now.Add(max(t.interval, r.most)) // how much it takes is remembered until then
	}
	r.waiting -= len(covered) + len(refused)
	r.ended(t)
	return covered, refused
}

// drain lets what waits go now.
func (r *recounts[W]) drain(now time.Time) {
	for _, t := range r.tasks {
		t.earliest, t.latest = now, now
	}
	r.queue.sort()
}

// left are the events that wait for a recount that has not begun.
func (r *recounts[W]) left() (left []W) {
	for _, t := range r.tasks {
		left = append(left, events(t.next)...)
		t.next = nil
	}
	return left
}

func events[W any](list []waitingEvent[W]) []W {
	all := make([]W, len(list))
	for i, h := range list {
		all[i] = h.event
	}
	return all
}
