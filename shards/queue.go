package shards

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/firestore-counters/counters/internal/groupcommit"
)

// When a commit goes, and with whom, is decided by the numbers of package groupcommit and these.
const (
	// troubledFor is how long a counter that met contention goes alone: other counters' increments
	// don't wait for it.
	troubledFor = 10 * time.Second
	// maxIdle is how many goroutines wait for batches. A new one grows its stack to the
	// depth of a commit first, which was 6 % of what a lone increment took; those that wait
	// have it grown already.
	maxIdle = 16
)

// several is the queue of requests to several counters. It can't be a counter's id.
const several = ""

// limits bound the queues.
type limits struct {
	batch   int // requests in one batch
	waiting int // requests that wait, in all queues
}

// queues gather requests while others are in flight, and decide what is committed when.
type queues struct {
	limits limits
	exact  bool
	run    func(*inFlight) // gives each request of the batch its outcome

	mu sync.Mutex
	// :: counter or several → its queue, while a request of it waits or is in flight
	of       map[string]*queue
	ready    []*queue             // those that wait for one of the few commits to end
	due      *time.Timer          // ends their wait; nil while none waits
	troubled map[string]time.Time // :: counter → when it last met contention
	// requests that wait, or have left a shared commit and are tried again
	waiting int
	// in flight, the further ones of one counter and those that are in trouble left out
	commits  int
	starting []*inFlight // to be started by whoever holds the lock
	closed   bool

	workers sync.WaitGroup // goroutines that run batches
	idle    int            // of these, those that wait for one
	work    chan *inFlight // for those
}

// queue is the requests of a counter that wait, oldest first.
type queue struct {
	name     string
	requests []*request
	inFlight int  // batches that have requests of it
	ready    bool // listed as such
}

func newQueues(l limits, exact bool, run func(*inFlight)) *queues {
	return &queues{limits: l, exact: exact, run: run, of: map[string]*queue{}, troubled: map[string]time.Time{}, work: make(chan *inFlight, maxIdle)}
}

// add waits for the request's outcome, or until ctx ends. What ctx ends before its commit has begun
// is never counted; a commit that has begun goes on regardless.
func (q *queues) add(ctx context.Context, r *request) outcome {
	if err := ctx.Err(); err != nil {
		return outcome{err: fmt.Errorf("%w: %w", ErrBusy, err)}
	}
	of, err := q.enqueue(r)
	if err != nil {
		return outcome{err: err}
	}
	select {
	case out := <-r.done:
		return out
	case <-ctx.Done():
	}
	if q.withdraw(of, r) || r.becomes(abandoned) {
		return outcome{err: fmt.Errorf("%w: %w", ErrBusy, ctx.Err())}
	}
	select {
	case out := <-r.done: // just now
		return out
	default:
		return outcome{pending: true, err: fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())}
	}
}

func (q *queues) enqueue(r *request) (*queue, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, ErrClosed
	}
	if q.waiting >= q.limits.waiting {
		return nil, fmt.Errorf("%w: %d increments are waiting", ErrBusy, q.waiting)
	}
	name := r.counter()
	if name == several {
		if counter, is := r.touches(q.isTroubled); is {
			name = counter
		}
	}
	of := q.of[name]
	if of == nil {
		of = &queue{name: name}
		q.of[name] = of
	}
	// One counter's requests leave a tenth of the room to those of others.
	if most := max(1, q.limits.waiting-q.limits.waiting/10); len(of.requests) >= most {
		return nil, fmt.Errorf("%w: %d increments of the counter are waiting", ErrBusy, len(of.requests))
	}
	of.requests = append(of.requests, r)
	q.waiting++
	q.consider(of)
	q.schedule(false)
	q.start(nil)
	return of, nil
}

// withdraw takes a request back that is still waiting.
func (q *queues) withdraw(of *queue, r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(of.requests, r)
	if at < 0 {
		return false
	}
	of.requests = slices.Delete(of.requests, at, at+1)
	q.waiting--
	q.drop(of)
	return true
}

// drop forgets a queue that has nothing to do.
func (q *queues) drop(of *queue) {
	if len(of.requests) == 0 && of.inFlight == 0 && !of.ready {
		delete(q.of, of.name)
	}
}

// consider begins a batch of a queue that has many requests or goes alone, and lists any other as
// ready, unless what waits in it is to wait for its batches in flight.
func (q *queues) consider(of *queue) {
	for len(of.requests) > 0 && !of.ready {
		many := len(of.requests) >= groupcommit.ManyWaiting
		switch {
		case of.name == several:
		case of.inFlight > 0 && (!many || of.inFlight >= groupcommit.MaxInFlight):
			return
		}
		if alone := of.name != several && (many || q.isTroubled(of.name)); !alone {
			of.ready = true
			q.ready = append(q.ready, of)
			return
		}
		first := of.inFlight == 0
		g := newGathering(q.limits.batch)
		q.take(g, of)
		f := q.begin(g, of.name)
		if troubled := q.isTroubled(of.name); troubled {
			q.reserve(f)
		} else if first {
			q.count(f)
		}
	}
}

// schedule begins batches of the ready queues as long as few commits are in flight; of all that fit
// into one when due says that they have waited long enough.
func (q *queues) schedule(due bool) {
	for len(q.ready) > 0 && (q.commits < groupcommit.FewCommits || due && q.commits < groupcommit.MaxCommits) {
		g := newGathering(q.limits.batch)
		var holds []string
		var again *queue
		for len(q.ready) > 0 && !g.full() {
			of := q.ready[0]
			before := len(of.requests)
			q.take(g, of)
			if before > 0 && len(of.requests) == before {
				break // nothing of it fits
			}
			q.ready, of.ready = q.ready[1:], false
			switch {
			case of.name == several && len(of.requests) > 0:
				again = of
			case before > 0 && of.name != several:
				holds = append(holds, of.name)
			}
			q.drop(of)
		}
		if again != nil {
			again.ready = true
			q.ready = append(q.ready, again)
		}
		if len(g.batch.requests) > 0 {
			q.count(q.begin(g, holds...))
			due = false
		}
	}
	switch {
	case len(q.ready) == 0:
		if q.due != nil {
			q.due.Stop()
			q.due = nil
		}
	case q.due == nil:
		q.due = time.AfterFunc(groupcommit.SharedWait, q.overdue)
	}
}

// overdue ends the wait of the ready queues.
func (q *queues) overdue() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.due = nil
	q.schedule(true)
	q.start(nil)
}

// take moves requests from a queue into a batch.
func (q *queues) take(g *gathering, of *queue) {
	if len(of.requests) == 0 {
		return
	}
	before := len(of.requests)
	of.requests = g.take(of.requests)
	taken := before - len(of.requests)
	q.waiting -= taken
	if taken > 0 && of.name != several {
		of.inFlight++
	}
}

func (q *queues) begin(g *gathering, holds ...string) *inFlight {
	f := newInFlight(g.batch, q.exact)
	f.holds = holds
	q.starting = append(q.starting, f)
	return f
}

func (q *queues) count(f *inFlight) {
	f.counted = true
	q.commits++
}

// reserve has a batch's requests count as waiting, because they may be tried for a while.
func (q *queues) reserve(f *inFlight) {
	f.reserved = len(f.requests)
	q.waiting += f.reserved
}

// start starts what was begun, on other goroutines than the caller's; instead of mine, which has
// ended, it returns one that the caller is to run.
func (q *queues) start(mine *inFlight) (next *inFlight) {
	for _, f := range q.starting {
		switch {
		case mine != nil && next == nil:
			next = f
		case q.idle > 0 && !q.closed:
			q.idle--
			q.work <- f // has room for all that are idle
		default:
			q.workers.Go(func() { q.runAll(f) })
		}
	}
	clear(q.starting)
	q.starting = q.starting[:0]
	return next
}

// runAll runs one batch after the other, as long as there are any to run.
func (q *queues) runAll(f *inFlight) {
	for {
		for f != nil {
			q.run(f)
			f = q.ended(f)
		}
		if !q.rest() {
			return
		}
		var ok bool
		if f, ok = <-q.work; !ok {
			return
		}
	}
}

// rest reports whether a goroutine that has nothing to do is to wait for a batch.
func (q *queues) rest() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.idle == maxIdle {
		return false
	}
	q.idle++
	return true
}

// ended says that a batch's requests have their outcomes, or have left it, and returns the
// next batch to run.
func (q *queues) ended(f *inFlight) *inFlight {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting -= f.reserved
	q.uncount(f)
	for _, name := range f.holds {
		of := q.of[name]
		of.inFlight--
		q.consider(of)
		q.drop(of)
	}
	q.schedule(false)
	return q.start(f)
}

func (q *queues) uncount(f *inFlight) {
	if f.counted {
		f.counted = false
		q.commits--
	}
}

// inTrouble says that a batch takes longer than a commit: others don't wait for it.
func (q *queues) inTrouble(f *inFlight) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !f.counted {
		return
	}
	q.uncount(f)
	q.schedule(false)
	q.start(nil)
}

// goOn runs what has left a batch.
func (q *queues) goOn(parts []*inFlight) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, f := range parts {
		q.reserve(f)
	}
	q.starting = append(q.starting, parts...)
	q.start(nil)
}

// contended notes that a counter met contention: for a while its commits are not shared.
func (q *queues) contended(counter string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for id, at := range q.troubled {
		if now.Sub(at) > troubledFor {
			delete(q.troubled, id)
		}
	}
	q.troubled[counter] = now
}

func (q *queues) isTroubled(counter string) bool {
	at, is := q.troubled[counter]
	return is && time.Since(at) <= troubledFor
}

// close refuses further requests, and waits for those that it has. It may be called again.
func (q *queues) close() {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.work) // those that are idle end; what has been sent to one is run
	}
	q.mu.Unlock()
	q.workers.Wait()
}
