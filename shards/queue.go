package shards

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/groupcommit"
)

// maxIdle is how many goroutines wait for batches. A new one would first grow its stack to a commit's
// depth: 6 % of what a lone increment takes.
const maxIdle = 16

const (
	// waitsForWrites is how long a request waits at most while the budget has no writes for it.
	waitsForWrites = time.Second
	// restsForWrites is how long a counter waits for company after a commit, while there are few: a hot one takes some
	// ten writes a second then, and leaves the others to what can't share.
	restsForWrites = 250 * time.Millisecond
	// looksAgain is how often a queue looks for writes at most, and for requests that have waited long enough at least.
	looksAgainMin, looksAgainMax = 5 * time.Millisecond, 100 * time.Millisecond
)

// bounds are those of a queue.
type bounds struct {
	batch    int           // requests in one batch
	waiting  int           // requests that wait
	interval time.Duration // between the begins of two batches of a counter, but for full ones
	budget   *ceiling.Budget
	fields   int // how many fields a roll-up shows
}

// queue gathers requests while others are in flight, and decides what is committed when, by the numbers
// of package groupcommit. The requests of a counter stand in line. Lines that may send another commit
// are ready, and share commits. A line that is long, or in trouble, sends its own.
type queue struct {
	bounds bounds
	run    func(*flight) // gives each request of the batch its outcome, or has it leave

	mu       sync.Mutex
	lines    map[string]*line // :: counter → where its requests stand
	ready    []*line          // lines that wait for one of the few commits to end
	due      *time.Timer      // fires when ready lines have waited for long enough; nil while none waits
	troubled lately           // counters that go alone: others' increments don't wait for them
	short    []*line          // lines that would send a batch of their own, and for which the budget has no writes
	noWrites *time.Timer      // ends the wait for writes; nil while there are some
	waiting  int              // requests that stand in line, or may be tried for a while
	began    int              // batches
	commits  int              // shared batches in flight; a batch of one line that sends its own is not among them

	workers sync.WaitGroup // goroutines that run batches
	work    chan *flight   // hands a batch to an idle goroutine. It is unbuffered: a send succeeds only if one is idle
	idle    chan struct{}  // one token for each idle goroutine, at most maxIdle. Who gets no token ends
	open    context.Context
	end     context.CancelFunc // of open: no further requests are taken
}

// line is where requests wait that may share a batch of their own: those of one counter, those of one field with a
// limit, or a single call to several counters.
type line struct {
	name     string     // the counter, or a field of it that has a limit, or several
	requests []*request // that wait: those first whose callers have asked for least lately, and of these the oldest
	inFlight int        // batches that have requests of it
	resting  int        // batches of it that began less than an interval ago
	ready    bool       // it is in queue.ready
	short    bool       // it is in queue.short
	began    int        // how many batches had begun with its last one
}

// flight is a batch that was begun, and who waits for it.
type flight struct {
	gathering
	lines    []*line // the lines of its requests
	counted  bool    // it is among queue.commits
	reserved int     // how many of its requests count as waiting
	promised int     // writes of the budget, which are given back when it has ended: what it took has been spent
}

func newQueue(b bounds, run func(*flight)) *queue {
	q := &queue{bounds: b, run: run, lines: map[string]*line{}, work: make(chan *flight), idle: make(chan struct{}, maxIdle)}
	q.open, q.end = context.WithCancel(context.Background())
	return q
}

func (q *queue) newFlight() *flight { return &flight{gathering: newGathering(q.bounds.batch)} }

// await waits for the request's outcome, or until its call ends. If that is before its commit
// has begun, it is never counted; a commit that has begun goes on.
func (q *queue) await(ctx context.Context, r *request) outcome {
	if err := ctx.Err(); err != nil {
		return outcome{err: fmt.Errorf("%w: %w", ErrBusy, err)}
	}
	r.asked = ceiling.Asked(ctx)
	if err := q.enter(r); err != nil {
		return outcome{err: err}
	}
	select {
	case out := <-r.done:
		return out
	case <-ctx.Done():
	case <-r.timedOut:
	}
	why := cmp.Or(ctx.Err(), context.DeadlineExceeded)
	if q.withdraw(r) {
		return outcome{err: fmt.Errorf("%w: %w", ErrBusy, why)}
	}
	r.left.Store(true)
	select {
	case out := <-r.done: // just now
		return out
	default:
		return outcome{pending: true, err: fmt.Errorf("%w: %w", ErrUnknown, why)}
	}
}

func (q *queue) enter(r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lineOf(r)
	// One counter's requests leave a tenth of the room to those of others.
	most := max(1, q.bounds.waiting-q.bounds.waiting/10)
	switch {
	case q.open.Err() != nil:
		return ErrClosed
	case q.waiting >= q.bounds.waiting:
		return fmt.Errorf("%w: %d increments are waiting", ErrBusy, q.waiting)
	case len(l.requests) >= most:
		return fmt.Errorf("%w: %d increments of the counter are waiting", ErrBusy, len(l.requests))
	}
	if q.bounds.budget != nil {
		r.came = time.Now()
	}
	at, _ := slices.BinarySearchFunc(l.requests, r, func(other, r *request) int {
		if !other.deadline.IsZero() || other.asked <= r.asked { // it has left a batch, or its caller has asked for no more
			return -1
		}
		return 1
	})
	q.stand(r, l, at)
	q.consider(l)
	q.schedule(false)
	return nil
}

// lineOf is where a request is to stand: with others of its counter, or of one of its counters that is
// in trouble, or by itself, as one does that has left such a line.
func (q *queue) lineOf(r *request) *line {
	name := r.lineName()
	if name == several && !r.alone {
		name, _ = r.firstCounter(q.troubled.is)
	}
	if l := q.lines[name]; l != nil {
		return l
	}
	return &line{name: name}
}

// stand puts a request into a line.
func (q *queue) stand(r *request, l *line, at int) {
	if l.name != several {
		q.lines[l.name] = l
	}
	l.requests = slices.Insert(l.requests, at, r)
	r.line = l
	q.waiting++
}

// withdraw takes a request back that is still waiting.
func (q *queue) withdraw(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(r.line.requests, r)
	if at < 0 {
		return false
	}
	r.line.requests = slices.Delete(r.line.requests, at, at+1)
	q.waiting--
	q.consider(r.line)
	return true
}

// turn is what a line may do.
type turn int

const (
	stays    turn = iota // for requests, for the end of its batch, or for company
	together             // a commit with other lines, once few are in flight
	sends                // a batch of its own
)

// turnOf is what a line may do now. A line with a batch in flight waits for its end, unless the line is long, or
// requests share no commits at all. A line that rests waits for company, unless it fills a batch, or its first request
// goes alone.
func (q *queue) turnOf(l *line) turn {
	unshared := q.bounds.batch == 1
	long := len(l.requests) >= groupcommit.ManyWaiting
	switch {
	case len(l.requests) == 0,
		l.inFlight > 0 && !unshared && (!long || l.inFlight >= groupcommit.MaxInFlight),
		l.resting > 0 && len(l.requests) < q.bounds.batch && !l.requests[0].alone && q.open.Err() == nil:
		return stays
	case long, q.isAlone(l):
		return sends
	}
	return together
}

// isAlone reports whether a line shares no commit with others.
func (q *queue) isAlone(l *line) bool {
	return q.bounds.batch == 1 || l.requests[0].alone || q.troubled.is(l.name)
}

// consider begins batches of a line that sends its own, lists one that shares as ready, and forgets one
// that is empty.
func (q *queue) consider(l *line) {
	next := q.turnOf(l)
	for ; next == sends; next = q.turnOf(l) {
		f, alone, waiting := q.newFlight(), q.isAlone(l), q.waiting
		if !q.moveFrom(f, l) {
			if !l.short {
				l.short = true
				q.short = append(q.short, l)
			}
			return
		}
		if alone { // they may be tried for a while, and be many
			f.reserved, q.waiting = waiting-q.waiting, waiting
		}
		q.begin(f)
	}
	if next == together && !l.ready {
		l.ready = true
		q.ready = append(q.ready, l)
	}
	if len(l.requests) == 0 && l.inFlight == 0 && l.resting == 0 && !l.ready && !l.short {
		delete(q.lines, l.name)
	}
}

// rest makes a line wait for company for an interval after its batch has begun: a quiet counter is written at once, and
// a busy one once an interval. The interval is longer while the budget has fewer writes than it began with.
func (q *queue) rest(l *line) {
	interval := q.bounds.interval
	if !q.bounds.budget.Has(ceiling.Writes, ceiling.Begins) {
		interval = max(interval, restsForWrites)
	}
	if interval <= 0 || l.name == several {
		return
	}
	l.resting++
	time.AfterFunc(interval, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		l.resting--
		q.consider(l)
		q.schedule(false)
	})
}

// schedule begins batches of ready lines while few commits are in flight. If due says that the lines have waited long
// enough, more may be. A timer calls it again for lines that are left.
func (q *queue) schedule(due bool) {
	for len(q.ready) > 0 && q.noWrites == nil && (q.commits < groupcommit.FewCommits || due && q.commits < groupcommit.MaxCommits) {
		if f := q.gather(); len(f.requests) > 0 {
			q.commits++
			f.counted, due = true, false
			q.begin(f)
		}
	}
	switch {
	case len(q.ready) == 0 && q.due != nil:
		q.due.Stop()
		q.due = nil
	case len(q.ready) > 0 && q.due == nil && q.noWrites == nil:
		q.due = time.AfterFunc(groupcommit.SharedWait, q.waited)
	}
}

// waited says that the ready lines have waited long enough.
func (q *queue) waited() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.due = nil
	q.schedule(true)
}

// gather makes a batch of ready lines, which are not ready any more.
func (q *queue) gather() *flight {
	f := q.newFlight()
	for len(q.ready) > 0 && !f.full() {
		l := q.ready[0]
		if q.turnOf(l) == together && !q.moveFrom(f, l) {
			break // nothing of it fits
		}
		q.ready, l.ready = q.ready[1:], false
		q.consider(l)
	}
	return f
}

// moveFrom moves requests from a line into a batch, and reports whether any fits, and there are writes for it.
func (q *queue) moveFrom(f *flight, l *line) bool {
	was, before := len(f.requests), len(l.requests)
	some, paid := q.promiseWrites(f, l)
	l.take(some, f.fill(some))
	if paid > 0 { // also by those that didn't fit
		fit := q.billOf(f.requests[was:], was == 0, math.Inf(1))
		q.bounds.budget.Spend(ceiling.Writes, float64(fit.paid-paid))
		f.promised += fit.paid - fit.kept
	}
	moved := before - len(l.requests)
	q.waiting -= moved
	if moved > 0 {
		l.inFlight++
		q.began++
		l.began = q.began
		f.lines = append(f.lines, l)
		q.rest(l)
	}
	return moved > 0
}

// take takes requests out of a line, which are in its order, but for those that are left.
func (l *line) take(some, left []*request) {
	if len(some) == len(l.requests) {
		l.requests = left
		return
	}
	next := func(list *[]*request, r *request) bool {
		is := len(*list) > 0 && (*list)[0] == r
		if is {
			*list = (*list)[1:]
		}
		return is
	}
	l.requests = slices.DeleteFunc(l.requests, func(r *request) bool { return next(&some, r) && !next(&left, r) })
}

// promiseWrites takes from the budget what requests of a line cost, and returns these, and what they have paid. If the
// budget has too little, it returns none, and all lines wait, even those that cost less: resume then begins with the
// lines that count most for each write. So a crowd of one counter, which shares commits, goes before requests of many
// counters.
func (q *queue) promiseWrites(f *flight, l *line) (some []*request, paid int) {
	if !q.bounds.budget.Bounds(ceiling.Writes) || q.open.Err() != nil {
		return l.requests, 0
	}
	if q.noWrites != nil {
		return nil, 0
	}
	first := len(f.requests) == 0
	all := q.billOf(l.requests, first, q.left())
	if least := q.billOf(l.requests[:1], first, 0).paid; all.paid == least && len(all.requests) < len(l.requests) {
		// Somebody costs a write more, and would be refused before there are as many again. So one of them goes along, as
		// long as nobody is refused for that.
		wait := q.bounds.budget.Until(ceiling.Writes, float64(least+1))
		if time.Since(l.requests[0].came)+wait < waitsForWrites-2*looksAgainMin {
			all = q.billOf(l.requests, first, float64(least+1))
		}
	}
	if wait := q.bounds.budget.Take(ceiling.Writes, float64(all.paid)); wait > 0 {
		q.bounds.budget.Held()
		q.noWrites = time.AfterFunc(min(max(wait, looksAgainMin), looksAgainMax), q.resume)
		return nil, 0
	}
	return all.requests, all.paid
}

// left is how many writes a line asks for: what the budget has, and at least what it earns while the line rests
// afterwards. Otherwise a crowd with keys, each of which costs a write, would have one request counted at a time.
func (q *queue) left() float64 {
	return max(q.bounds.budget.Left(ceiling.Writes), q.bounds.budget.Second(ceiling.Writes)*restsForWrites.Seconds())
}

// billOf is the bill of the first of some requests, and of those after it that so many writes pay for together. Whoever
// costs nothing more goes along: otherwise a crowd would wait behind others of its counter who have a key each.
func (q *queue) billOf(requests []*request, first bool, left float64) bill {
	all := bill{paidFor: map[place]bool{}, documents: map[string]bool{}}
	if first {
		all.kept = -1 // the batch's marker
	}
	for _, r := range requests {
		all.add(r, q.units, left)
	}
	return all
}

// bill adds up the writes that requests of one batch pay. What is kept of them pays for the roll-up, and is never given
// back.
type bill struct {
	requests   []*request
	paid, kept int
	paidFor    map[place]bool  // counters (without a field), and fields, that have been paid
	documents  map[string]bool // markers, memberships and entries that have been paid: calls of one key share one
}

// add has a request pay, unless more than most would be paid then; the first one pays in any case. Each counter pays for
// a marker, even if it shares one, and for one write more for each further field, about which the roll-up asks one
// question more. So Rollup may write as much as if each increment had its own commit. A long write of Rollup's counts
// several times, and twice as many are paid here.
func (b *bill) add(r *request, units func(counter string) (shard, shown int), most float64) {
	once := r.writtenOnce()
	paid, kept := 0, 0
	for _, name := range once {
		if !b.documents[name] {
			paid++
		}
	}
	for _, delta := range r.deltas {
		further := delta.amounts
		if !b.paidFor[place{counter: delta.counter}] {
			shard, shown := units(delta.counter)
			paid, kept, further = paid+2*shown, kept+2*shown-shard, further[1:]
		}
		for _, a := range further {
			if !b.paidFor[place{delta.counter, a.field}] {
				paid, kept = paid+1, kept+1
			}
		}
	}
	if paid > 0 && len(b.requests) > 0 && float64(b.paid+paid) > most {
		return
	}
	b.requests, b.paid, b.kept = append(b.requests, r), b.paid+paid, b.kept+kept
	if paid == 0 {
		return
	}
	for _, name := range once {
		b.documents[name] = true
	}
	for _, delta := range r.deltas {
		b.paidFor[place{counter: delta.counter}] = true
		for _, a := range delta.amounts {
			b.paidFor[place{delta.counter, a.field}] = true
		}
	}
}

// units are how many writes of a budget it takes to write a counter's shard, and to show its total: see
// [store.DB.Commit].
func (q *queue) units(counter string) (shard, shown int) {
	const ofShard = 100 // bytes, about, besides the id
	return 1 + (ofShard+len(counter))/1024, 1 + book.ShownSize(counter, q.bounds.fields)/1024
}

// resume looks for writes again, for those who wait for them.
func (q *queue) resume() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.goOn()
}

func (q *queue) goOn() {
	if q.noWrites != nil {
		q.noWrites.Stop()
		q.noWrites = nil
	}
	lines := slices.Clone(q.ready)
	lines = append(lines, q.short...)
	if q.open.Err() == nil {
		q.refuse(lines, time.Now().Add(-waitsForWrites))
	}
	left := q.left()
	byWorth := func(a, b *line) int {
		return cmp.Or(cmp.Compare(b.worth(left), a.worth(left)), cmp.Compare(a.began, b.began))
	}
	slices.SortStableFunc(q.ready, byWorth)
	short := q.short
	slices.SortStableFunc(short, byWorth)
	q.short = nil
	for _, l := range short { // long ones first, which count most
		if len(q.ready) > 0 && byWorth(q.ready[0], l) < 0 {
			q.schedule(false)
		}
		l.short = false
		q.consider(l)
	}
	q.schedule(false)
}

// refuse answers [ErrBusy] to requests of lines that have waited for writes since before a time. Requests that have
// left a batch stay until that batch would have ended.
func (q *queue) refuse(lines []*line, before time.Time) {
	for _, l := range lines {
		l.requests = slices.DeleteFunc(l.requests, func(r *request) bool {
			if !r.deadline.IsZero() || !r.came.Before(before) {
				return false
			}
			q.waiting--
			r.done <- outcome{err: fmt.Errorf("%w: the budget has no writes for it", ErrBusy)}
			return true
		})
	}
}

// worth is about how many requests of a line each written document counts, with those that the roll-up writes, of the
// requests that so many writes pay for. A request counts less the more its caller has asked for lately.
func (l *line) worth(left float64) (counts float64) {
	if len(l.requests) == 0 {
		return 0
	}
	documents := 1 + 2*len(l.requests[0].deltas)
	for n, r := range l.requests {
		if once := len(r.writtenOnce()); n == 0 || once == 0 || float64(documents+once) <= 1+left {
			documents += once
			counts += 1 / (1 + r.asked)
		}
	}
	return counts / float64(documents)
}

// begin starts a batch, on an idle goroutine if there is one, or on a new one.
func (q *queue) begin(f *flight) {
	select {
	case q.work <- f:
	default:
		q.workers.Go(func() { q.runAll(f) })
	}
}

// runAll runs one batch after another. Between two it offers itself as idle; if maxIdle others have, it ends.
func (q *queue) runAll(f *flight) {
	for {
		q.run(f)
		q.ended(f)
		select {
		case q.idle <- struct{}{}:
		default:
			return
		}
		select {
		case f = <-q.work:
			<-q.idle
		case <-q.open.Done():
			return
		}
	}
}

// ended says that a batch is over: requests that have left it go on alone.
func (q *queue) ended(f *flight) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting -= f.reserved
	q.bounds.budget.Spend(ceiling.Writes, -float64(f.promised))
	q.uncount(f)
	for _, l := range f.lines {
		l.inFlight--
	}
	var leavers []*request
	for _, r := range f.requests {
		leavers = append(leavers, r.each()...)
	}
	for _, r := range slices.Backward(leavers) {
		r.alone = true
		l := q.lineOf(r)
		q.stand(r, l, 0)
		f.lines = append(f.lines, l)
	}
	for _, l := range f.lines {
		q.consider(l)
	}
	q.schedule(false)
}

func (q *queue) uncount(f *flight) {
	if f.counted {
		f.counted = false
		q.commits--
	}
}

// slow says that a batch takes longer than a commit: others don't wait for it.
func (q *queue) slow(f *flight) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.uncount(f)
	q.schedule(false)
}

// close refuses further requests, and waits for those that it has. It may be called again.
func (q *queue) close() {
	q.mu.Lock()
	q.end()
	for _, l := range q.lines { // none rests any more
		q.consider(l)
	}
	q.goOn() // also beyond the budget: no later request would start what waits
	q.mu.Unlock()
	q.workers.Wait()
}
