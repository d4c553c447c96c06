package rollup

import (
	"container/heap"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// pacer decides when a counter is refreshed, for which events, and when a collection's queries are asked again, which
// is a recount. It has no clock and starts nothing: its methods are passed the time. W is who waits for an event.
//
// A counter has at most one refresh in flight. A bucket holds burst refreshes, and earns one per least interval: a
// quiet counter is refreshed at once, a hot one once per interval. The instance that wrote last goes on from memory.
// The others come a little later, look at the document, and find that their events are shown: see [pacer.done].
//
// A collection has at most one recount in flight, which covers the events that came before it began. After N reads the
// next one waits for about N events, but no longer than recountMax. Its answers, and the events that they cover, wait
// for the counter's next refresh.
type pacer[W any] struct {
	least, most time.Duration  // between two refreshes, or recounts, and what failures stretch that to
	burst       int            // refreshes that a quiet counter has at once, at least 1
	patience    time.Duration  // how long refreshes or recounts may fail in a row before their events wait no longer
	recountMax  time.Duration  // how long a recount waits for more events
	maxWaiting  int            // events, those in flight included
	maxRunning  int            // refreshes in flight, and recounts beside them
	spread      func() float64 // within [0, 1)

	backlogs            map[source]*backlog[W] // those in flight, too
	refreshes, recounts dueHeap[W]
	waiting             int   // events, with those in flight: see maxWaiting
	draining            bool  // nothing else comes: what waits goes now
	scarce              bool  // there are few reads or writes, for which much waits: see urgent
	usual               int64 // reads that recounts took lately, on average
}

// allEvery is how often all fields of a counter are asked for while some change: the events of the others may be lost.
const allEvery = time.Minute

// busyRefreshes in flight make an instance busy: it spends no bucket at once any more, or 1,000 counters that begin
// together would be refreshed 5,000 times. At 10 to 40 ms each, 8 are about what a core makes.
const busyRefreshes = 8

// slowCommit is how long a commit takes at least that had to wait for its document.
const slowCommit = 250 * time.Millisecond

// backlog is what waits for a counter's next refresh, or a collection's next recount, and what is in flight.
type backlog[W any] struct {
	source
	next, inFlight []*pending[W]
	gathered                     // of next
	interval       time.Duration // least, or what failures have stretched it to
	since          time.Time     // when the first of next came
	earliest       time.Time     // when the next one may start
	latest         time.Time     // when a recount starts at the latest; where nothing waits, when the backlog is forgotten
	failingSince   time.Time     // since when all have failed; zero if the last one didn't
	heapIndex      int           // in its queue; -1 in flight

	// of a refresh
	all   time.Time // when all fields were last asked for
	spent time.Time // when the next one may start if the bucket is empty

	// of a recount
	largest  int64 // the reads that the largest query took last time
	wanted   bool  // it is to be asked, though no event waits
	hopeless bool  // nothing is gained by asking again soon
}

// gathered is what is to be done together: a flight takes it all.
type gathered struct {
	events  int64                  // that it stands for, those that need not wait included
	oldest  time.Time              // the earliest time of these
	moves   int                    // those that change a number: a counter that is made has one of a 0 for each shard
	delta   map[string]int64       // by how much they say that fields have changed
	answers map[string]book.Answer // of recounts, by the names of their fields
}

// noCrowd is up to how many events at once that change a number are no crowd. A crowd spends no bucket at once: those
// refreshes show nothing that the next one doesn't, and another instance's commit would wait for all of them.
const noCrowd = 2

// crowd reports whether so many events have come that other instances get some, too.
func (g *gathered) crowd() bool { return g.moves > noCrowd }

// pending is an event that waits to be covered.
type pending[W any] struct {
	need
	event     W
	delta     map[string]int64 // by how much it says that fields have changed
	moves     bool             // it changes a number
	timed     bool             // it has the time of its own write: without one it stands for no other event
	gone      bool             // no counter is made for it
	stoodFor  bool             // it is done, because a later one stands for it
	recounted string           // the collection that was counted since it came; empty while that is to come
}

func (b *backlog[W]) hurry(now time.Time) { b.earliest, b.latest, b.spent = now, now, now }

func (b *backlog[W]) empty() bool { return len(b.next)+len(b.answers) == 0 && !b.wanted }

// due is when the next refresh or recount may start, or the backlog is forgotten.
func (b *backlog[W]) due() time.Time {
	switch {
	case b.empty() || b.events < b.largest && b.latest.After(b.earliest):
		return b.latest
	case b.crowd() && b.spent.After(b.earliest):
		return b.spent
	}
	return b.earliest
}

// ahead is how long it takes to earn all refreshes of a bucket but one.
func (p *pacer[W]) ahead() time.Duration { return p.least * time.Duration(p.burst-1) }

// backlog is a source's, made if there is none.
func (p *pacer[W]) backlog(now time.Time, src source) *backlog[W] {
	b := p.backlogs[src]
	if b == nil {
		b = &backlog[W]{source: src, interval: p.least, earliest: now.Add(-p.ahead()), latest: now, all: now}
		p.backlogs[src] = b
		heap.Push(p.queue(src), b)
	}
	return b
}

// add takes an event. It returns the events for which a later one stands: those whose fields are all among its fields.
// They are done. If this process dies, the later event is delivered again, and the refresh for it covers them too. It
// reports false if too many wait already. A recount starts in time for the event's patience.
func (p *pacer[W]) add(now time.Time, change Change, patience time.Duration, event W) (done []W, ok bool) {
	e := &pending[W]{need: need{fields: change.Fields}, event: event, gone: change.Gone, delta: change.Delta, moves: change.moves()}
	if e.timed = !change.At.IsZero() && !e.gone; e.timed { // of deletions alone no counter is made: they stand for nothing else
		e.at = change.At
	}
	backlog := p.backlog(now, source{change.Counter, change.Collection})
	defer p.reorder(backlog)
	for _, other := range backlog.next { // not those in flight: they may have found no document, and there is one by now
		if other.covers(e) {
			backlog.tally(e)
			return []W{event}, true
		}
	}
	waited := !backlog.empty() // the first event's patience counts, whatever follows it
	for _, other := range slices.Concat(backlog.next, backlog.inFlight) {
		if e.covers(other) {
			done = append(done, other.event)
			other.stoodFor = true
		}
	}
	backlog.next = slices.DeleteFunc(backlog.next, func(other *pending[W]) bool { return other.stoodFor })
	if p.waiting -= len(done); p.waiting >= p.maxWaiting {
		return done, false
	}
	if !waited {
		backlog.since = now
	}
	if limit := now.Add(min(p.recountMax, patience)); !waited || limit.Before(backlog.latest) {
		backlog.latest = limit
	}
	backlog.tally(e)
	p.waiting++
	backlog.next = append(backlog.next, e)
	return done, true
}

// want has a recount ask for a field without an event, because nobody knows as of when the document shows it.
func (p *pacer[W]) want(now time.Time, counter string, field layout.Field) {
	backlog := p.backlog(now, source{counter, field.Counted.Documents()})
	_, brings := p.backlog(now, source{counter: counter}).answers[field.Name]
	if inFlight := backlog.heapIndex < 0; brings || p.draining || !backlog.empty() || inFlight || backlog.hopeless {
		return
	}
	backlog.wanted, backlog.since, backlog.latest = true, now, now.Add(p.recountMax)
	backlog.events++
	p.reorder(backlog)
}

// tally adds an event to those that the backlog stands for, and keeps the earliest time of a write, for the log. A
// recount waits until there are as many events as the last one took reads, or until it is late: see due.
func (b *backlog[W]) tally(e *pending[W]) {
	if b.events++; e.moves {
		b.moves++
	}
	if e.timed && (b.oldest.IsZero() || e.at.Before(b.oldest)) {
		b.oldest = e.at
	}
	for field, by := range e.delta {
		if b.delta == nil {
			b.delta = map[string]int64{}
		}
		b.delta[field] = store.Add(b.delta[field], by)
	}
}

// covers reports whether whatever covers an event covers the other, too: it is later, and of all its fields. An event
// without a time of its own covers nothing: a copy of it may have been acknowledged elsewhere for an older answer.
func (e *pending[W]) covers(other *pending[W]) bool {
	return e.timed && other.timed && !other.stoodFor && e.at.After(other.at) &&
		!slices.ContainsFunc(other.fields, func(f string) bool { return !slices.Contains(e.fields, f) })
}

// start returns a refresh or a recount that may start now, if there is one.
func (p *pacer[W]) start(now time.Time) (flight, bool) {
	var backlog *backlog[W]
	if p.scarce {
		backlog = p.worthMost(now)
	} else if backlog = p.next(now, &p.refreshes); backlog == nil {
		backlog = p.next(now, &p.recounts)
	}
	switch {
	case backlog == nil:
		return flight{}, false
	case backlog.documents == "":
		return p.refresh(now, backlog), true
	}
	f := flight{source: backlog.source, gathered: backlog.gathered, started: now, largest: backlog.largest}
	backlog.inFlight, backlog.next, backlog.gathered, backlog.wanted = backlog.next, nil, gathered{}, false
	return f, true
}

// refresh is a refresh that starts now.
func (p *pacer[W]) refresh(now time.Time, backlog *backlog[W]) flight {
	f := flight{source: backlog.source, gathered: backlog.gathered, started: now, interval: backlog.interval, hurries: p.draining}
	if !f.crowd() && p.refreshes.running <= busyRefreshes {
		f.ahead = p.ahead()
	}
	backlog.earliest = f.nextStart(backlog.earliest, now)
	if f.all = now.Sub(backlog.all) >= allEvery; f.all {
		backlog.all = now
	}
	var later []*pending[W]
	flying := backlog.next[:0:0]
	for _, e := range backlog.next {
		if !f.addExtensionShards(e.fields) {
			later = append(later, e)
			continue
		}
		flying = append(flying, e)
		f.needs = append(f.needs, e.need)
		f.makes = f.makes || !e.gone
	}
	backlog.inFlight, backlog.next, backlog.gathered = flying, later, gathered{}
	for _, e := range later {
		backlog.tally(e)
	}
	return f
}

// dismissed is what becomes of the events of a refresh or a recount that need not wait any longer.
type dismissed[W any] struct {
	done      []W // their fields are shown as of their write, or were asked for after they came
	noted     []W // they can't be, for a reason of their counter's own: done once that is noted
	redeliver []W // to be delivered again
}

// done takes a refresh back. If it failed, its events go again, until its patience is over. If another instance had
// just written, the next refresh is left to that, and this one looks again a little later.
func (p *pacer[W]) done(now time.Time, f flight, got refreshed) (out dismissed[W]) {
	backlog := p.backlogs[f.source]
	again, o := p.again(now, backlog, got.outcome), got.outcome
	p.pace(now, backlog, f, got)
	events := backlog.inFlight
	backlog.inFlight = nil
	if again || o == leftToOthers {
		backlog.bring(f.answers)
	}
	// An event is over if a later one stands for it. It is asked again if its answer was too early. It goes back in line
	// if the refresh goes again, or is left to another instance that hasn't shown it yet. Otherwise it is released.
	for _, e := range events {
		if o == leftToOthers && e.at.IsZero() { // its write was no later than the first look since it came
			e.at = got.readAt
		}
		switch {
		case e.stoodFor:
		case o == succeeded && e.waitsForOne(got.askAgain):
			p.askAgain(now, f.counter, e)
		case again, o == leftToOthers && !e.shown(got.asOf):
			backlog.next, backlog.events = append(backlog.next, e), backlog.events+1
		default:
			out.add(o, e)
		}
	}
	if got.asOf != nil {
		backlog.next = slices.DeleteFunc(backlog.next, func(e *pending[W]) bool {
			shown := e.shown(got.asOf)
			if shown {
				out.done = append(out.done, e.event)
			}
			return shown
		})
	}
	for _, field := range got.unknown {
		_, answered := f.answers[field.Name]
		if answered && o == succeeded && !slices.Contains(got.askAgain, field.Name) { // the answer can't be shown, nor could the next
			p.backlog(now, source{f.counter, field.Counted.Documents()}).hopeless = true
		}
		p.want(now, f.counter, field)
	}
	p.ended(now, backlog, out)
	return out
}

// askAgain has an event wait for its question to be asked again at once: by a recount of what was counted for it, or by
// the counter's next refresh.
func (p *pacer[W]) askAgain(now time.Time, counter string, e *pending[W]) {
	backlog := p.backlog(now, source{counter, e.recounted})
	backlog.next, backlog.events = append(backlog.next, e), backlog.events+1
	backlog.earliest, backlog.latest = now, now
	p.reorder(backlog)
}

// bring has the next refresh show answers, but for those to which it has newer ones.
func (b *backlog[W]) bring(answers map[string]book.Answer) {
	for field, a := range answers {
		if b.answers == nil {
			b.answers = map[string]book.Answer{}
		}
		if !a.At.Before(b.answers[field].At) {
			b.answers[field] = a
		}
	}
}

// recounted takes a recount back. Its answers go to the counter's next refresh, and its events wait there for these to
// be shown. If it failed, they go again. If Firestore didn't answer in time they are noted, so that no others wait.
func (p *pacer[W]) recounted(now time.Time, f flight, got queried) (out dismissed[W]) {
	backlog := p.backlogs[f.source]
	again, events := p.again(now, backlog, got.outcome), slices.DeleteFunc(backlog.inFlight, func(e *pending[W]) bool { return e.stoodFor })
	backlog.inFlight, backlog.hopeless = nil, got.outcome == unchanged
	nextRefresh := p.backlog(now, source{counter: f.counter})
	nextRefresh.bring(got.answers)
	switch {
	case again:
		backlog.next, backlog.wanted = append(events, backlog.next...), true
		backlog.events += f.events
	case got.outcome != succeeded && got.outcome != unchanged:
		out.add(got.outcome, events...)
	case got.unanswered:
		out.add(ownFault, events...)
	case len(got.answers) == 0: // Firestore refuses all of the queries
		out.add(succeeded, events...)
	default:
		for _, e := range events {
			e.recounted, e.at, e.timed, e.gone = f.documents, got.at, false, e.gone || got.elsewhere
		}
		nextRefresh.next = append(nextRefresh.next, events...)
		nextRefresh.events += int64(len(events))
	}
	p.reorder(nextRefresh)
	if got.outcome == succeeded {
		backlog.largest, backlog.interval = got.largest, max(p.least, backlog.interval/2)
		p.usual += (got.largest - p.usual) / 4
		backlog.earliest = f.started.Add(backlog.interval)
	} else {
		backlog.interval = min(p.most, backlog.interval*2)
		backlog.earliest = now.Add(backlog.interval)
	}
	p.ended(now, backlog, out)
	return out
}

// add adds events by what became of their refresh or recount.
func (s *dismissed[W]) add(o outcome, list ...*pending[W]) {
	for _, e := range list {
		switch o {
		case succeeded, leftToOthers:
			s.done = append(s.done, e.event)
		case contended, ownFault:
			s.noted = append(s.noted, e.event)
		default:
			s.redeliver = append(s.redeliver, e.event)
		}
	}
}

// pace says when a counter's next refresh may start: the document itself says from when on it may be written again.
func (p *pacer[W]) pace(now time.Time, backlog *backlog[W], f flight, got refreshed) {
	switch {
	case got.outcome == succeeded && got.wrote:
		backlog.interval, backlog.earliest = max(p.least, backlog.interval/2), now.Add(got.untilNext)
		if got.commitTook > slowCommit {
			// counted from the end, those who are in each other's way move apart
			backlog.earliest = now.Add(max(got.untilNext, backlog.interval))
		}
	case got.outcome == succeeded || got.outcome == leftToOthers:
		backlog.interval = p.least
		if got.untilNext > 0 {
			// a little after the other's next one, and apart from those who look, too
			backlog.earliest = now.Add(got.untilNext + time.Duration((1+p.spread())*float64(p.least)/10))
		}
	default:
		pause := p.least
		if backlog.failingSince.Equal(now) { // once is mostly chance, and who waits for this has waited for an interval already
			pause /= 2
		} else {
			backlog.interval = min(p.most, backlog.interval*2)
		}
		// At random, or two instances that meet once meet each time.
		backlog.earliest = now.Add(pause/2 + time.Duration(p.spread()*float64(pause)))
	}
	backlog.spent = backlog.earliest
	if !backlog.earliest.After(now) {
		backlog.spent = f.started.Add(backlog.interval)
	}
}

// again reports whether what a refresh or recount was for goes again: it failed, and its patience isn't over.
func (p *pacer[W]) again(now time.Time, backlog *backlog[W], o outcome) bool {
	if o != failed && o != contended {
		backlog.failingSince = time.Time{}
		return false
	}
	if backlog.failingSince.IsZero() {
		backlog.failingSince = now
	}
	patience := p.patience
	if p.draining { // a few attempts, if the process ends
		patience = min(patience, 3*p.least)
	}
	if now.Sub(backlog.failingSince) < patience {
		return true
	}
	if o == failed { // of one that is contended, what comes next need not wait for as long again
		backlog.failingSince = time.Time{}
	}
	return false
}

// ended has a source wait for its next turn.
func (p *pacer[W]) ended(now time.Time, backlog *backlog[W], out dismissed[W]) {
	p.waiting -= len(out.done) + len(out.noted) + len(out.redeliver)
	if p.draining && backlog.failingSince.IsZero() {
		backlog.hurry(now)
	}
	if backlog.empty() { // by then its bucket is full, and nobody remembers how much a recount takes, unless that is much
		backlog.latest = backlog.earliest.Add(max(allEvery, p.recountMax, time.Duration(backlog.largest)*time.Minute))
	}
	q := p.queue(backlog.source)
	q.running--
	heap.Push(q, backlog)
}

// drain lets what waits go now. What fails then waits as before.
func (p *pacer[W]) drain(now time.Time) {
	p.draining = true
	for _, backlog := range p.backlogs {
		backlog.hurry(now)
	}
	heap.Init(&p.refreshes)
	heap.Init(&p.recounts)
}

// unbegun are the events that wait for a refresh or a recount that has not begun.
func (p *pacer[W]) unbegun() (left []W) {
	for _, backlog := range p.backlogs {
		for _, e := range backlog.next {
			left = append(left, e.event)
		}
		backlog.next, backlog.answers, backlog.wanted = nil, nil, false
	}
	return left
}

// dueHeap has backlogs in the order in which they are due, the first on top, but those in flight.
type dueHeap[W any] struct {
	list    []*backlog[W]
	running int // in flight
}

// queue is that of a source. Recounts have their own: they may take a minute.
func (p *pacer[W]) queue(src source) *dueHeap[W] {
	if src.documents == "" {
		return &p.refreshes
	}
	return &p.recounts
}

// worthMost takes the backlog for which most has waited for longest, for each read that it costs: what is cheap or hot
// goes before what is dear or forged, and whatever waits long enough comes to its turn. Answers are paid, and go before
// all.
func (p *pacer[W]) worthMost(now time.Time) (first *backlog[W]) {
	mostWorth, taken := 0.0, []*backlog[W](nil)
	for _, q := range []*dueHeap[W]{&p.refreshes, &p.recounts} {
		for _, backlog := range q.list {
			takes := backlog.largest
			if takes == 0 && backlog.documents != "" {
				takes = p.usual
			}
			worth := now.Sub(backlog.since).Seconds() * float64(backlog.events) / float64(book.Reads+1+takes)
			if len(backlog.answers) > 0 {
				worth = math.Inf(1)
			}
			switch {
			case backlog.due().After(now), q.running >= p.maxRunning:
			case backlog.empty():
				taken = append(taken, backlog)
				delete(p.backlogs, backlog.source)
			case first == nil, worth > mostWorth:
				first, mostWorth = backlog, worth
			}
		}
	}
	if first != nil {
		taken = append(taken, first)
		p.queue(first.source).running++
	}
	for _, backlog := range taken {
		heap.Remove(p.queue(backlog.source), backlog.heapIndex)
	}
	return first
}

// next takes the first backlog that may start now; nil if none may. It forgets those for which nothing waits.
func (p *pacer[W]) next(now time.Time, q *dueHeap[W]) *backlog[W] {
	for q.running < p.maxRunning && len(q.list) > 0 && !q.list[0].due().After(now) {
		backlog := heap.Pop(q).(*backlog[W])
		if !backlog.empty() {
			q.running++
			return backlog
		}
		delete(p.backlogs, backlog.source)
	}
	return nil
}

// reorder puts a backlog where it belongs in its queue: it may be due at another time now.
func (p *pacer[W]) reorder(backlog *backlog[W]) {
	if backlog.heapIndex >= 0 {
		heap.Fix(p.queue(backlog.source), backlog.heapIndex)
	}
}

// wake is when to start next. It reports false if only an event, or one that ends, can change that.
func (p *pacer[W]) wake() (at time.Time, ok bool) {
	for _, q := range []*dueHeap[W]{&p.refreshes, &p.recounts} {
		if q.running < p.maxRunning && len(q.list) > 0 && (!ok || q.list[0].due().Before(at)) {
			at, ok = q.list[0].due(), true
		}
	}
	return at, ok
}

// Len and the rest are [heap.Interface].
func (q *dueHeap[W]) Len() int           { return len(q.list) }
func (q *dueHeap[W]) Less(i, j int) bool { return q.list[i].due().Before(q.list[j].due()) }

func (q *dueHeap[W]) Swap(i, j int) {
	q.list[i], q.list[j] = q.list[j], q.list[i]
	q.list[i].heapIndex, q.list[j].heapIndex = i, j
}

func (q *dueHeap[W]) Push(x any) {
	b := x.(*backlog[W])
	b.heapIndex = len(q.list)
	q.list = append(q.list, b)
}

func (q *dueHeap[W]) Pop() any {
	last := len(q.list) - 1
	b := q.list[last]
	q.list[last] = nil
	q.list, b.heapIndex = q.list[:last], -1
	return b
}

// source is what fields of a counter are made of.
type source struct {
	counter   string
	documents string // which documents queries count, as [Change] has it; empty for the counter's shards
}

// outcome is what became of a refresh, or of a recount.
type outcome int

const (
	succeeded    outcome = iota // what was asked for is shown, or was already, or can't be, which is logged
	unchanged                   // of a recount: nothing is gained by asking again soon
	leftToOthers                // the rest is left to the instance that has just written
	failed                      // it is tried again; after its patience its events are refused, and delivered again
	contended                   // others were faster, or have locked it: it goes again; after its patience its events are noted
	ownFault                    // for a reason that is the counter's own, and stays: its events are noted
	permanent                   // going again doesn't help: its events are delivered again
)

// failure is the outcome of a refresh or recount that returned an error. A commit without an answer may wait for the
// locks of an app's transaction, so it counts as contended. What isn't known is failed, and never noted: while
// Firestore answers nobody, no note can be written.
func failure(err error) outcome {
	switch {
	case errors.Is(err, ErrDamagedBase), errors.Is(err, ErrExtensionRuns):
		return ownFault
	case errors.Is(err, ErrContention), errors.Is(err, store.ErrDoubt):
		return contended
	case errors.Is(err, ErrPoison), store.KindOf(err) == store.Permanent:
		return permanent
	}
	return failed
}

// refreshed is what one refresh did, and saw.
type refreshed struct {
	outcome    outcome
	asOf       map[string]time.Time // as of when the document shows its fields
	readAt     time.Time            // when the document was read last; zero if it never was
	untilNext  time.Duration        // until the document may be refreshed again, since this one ended; below 0 where it may already
	wrote      bool                 // it was committed
	commitTook time.Duration        // how long the commit took
	askAgain   []string             // fields whose answers must be asked again
	unknown    layout.Fields        // fields that count documents, and of which nobody knows as of when they are shown
	changes    []book.FieldDiff
	reads      int // documents, and answers of queries
}

// queried is what queries have said.
type queried struct {
	outcome  outcome
	answers  map[string]book.Answer // by the names of their fields
	at       time.Time              // as of when they are
	reads    int64                  // the reads of all queries
	largest  int64                  // the reads of the query that took most
	problems []string               // why fields stay as they are
	// unanswered: the time was over, and Firestore had said nothing over two connections.
	unanswered bool
	elsewhere  bool // the documents name their counter themselves: what a user writes there makes no base
}

// flight is what one refresh or recount is for.
type flight struct {
	source
	gathered
	needs   []need
	shards  []string // ids of the extension's that events name: what they hold is taken over
	makes   bool     // not all of it is deletions, of which no counter is made
	all     bool     // all sums are asked for
	hurries bool     // nothing is left to others

	started time.Time
	largest int64 // that the largest query of the last recount took
	// of the bucket: in which it earns a refresh, and how long it takes to earn all but one. Where ahead is 0, the next
	// one is an interval later, whatever the bucket holds.
	interval, ahead time.Duration

	promised ceiling.Amounts // what the budget keeps for it until it ends
}

// addExtensionShards adds the extension's shards among the fields that an event names, up to [extension.AtOnce] a refresh. It
// reports false if they are too many: the event waits for the next refresh. Those that were added before stay.
func (f *flight) addExtensionShards(fields []string) bool {
	for _, field := range fields {
		shard, is := strings.CutPrefix(field, ofExtension)
		switch {
		case !is, slices.Contains(f.shards, shard):
		case len(f.shards) == extension.AtOnce:
			return false
		default:
			f.shards = append(f.shards, shard)
		}
	}
	return true
}

// nextStart is when the next refresh may start after one that starts now, and might have started earlier. It is a token
// bucket, kept as one time: no bucket is fuller than full, however long nobody came.
func (f *flight) nextStart(earliest, now time.Time) time.Time {
	if full := now.Add(-f.ahead); earliest.Before(full) {
		earliest = full
	}
	return earliest.Add(f.interval)
}

// need is what an event waits for: that its fields are shown as of a time or later; zero where nobody knows one.
type need struct {
	fields []string // sorted
	at     time.Time
}

// waitsForOne reports whether the event waits for one of these fields.
func (n need) waitsForOne(fields []string) bool {
	return slices.ContainsFunc(fields, func(field string) bool { return slices.Contains(n.fields, field) })
}

// shown reports whether its fields are shown as of its write or later.
func (n need) shown(asOf map[string]time.Time) bool {
	return !n.at.IsZero() && !slices.ContainsFunc(n.fields, func(f string) bool { return asOf[f].Before(n.at) })
}
