package shards

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// manyCounters is the lane of additions to several counters. It is no counter's id.
const manyCounters = ""

// limits bound a batcher.
type limits struct {
	additions int // in one batch
	waiting   int // for a batch, in all lanes
}

// A lane has one batch in flight as long as few additions wait: a second one would halve the wait of whoever comes in
// between, and double the number of commits, which are what is billed. Once many wait, another commit costs next to
// nothing for each of them, and so does not wait for the one before.
const (
	manyWaiting = 64
	maxFlights  = 4 // of a lane
)

// batcher gathers additions while others are on their way.
type batcher struct {
	limits limits
	fly    func(*batch) // gives each addition of the batch its outcome

	mu      sync.Mutex
	lanes   map[string]*lane // :: counter or manyCounters → its lane, while it has a batch in flight
	waiting int              // additions, in all lanes
	closed  bool
	flights sync.WaitGroup // goroutines that fly batches
	idle    int            // of these, those that wait for a lane
	lanesUp chan laneUp    // a lane for one of them
}

// laneUp is a lane whose first batch is to fly.
type laneUp struct {
	name  string
	lane  *lane
	first *batch
}

// maxIdle is how many goroutines wait for lanes. A new one grows its stack to the depth of a commit first, which was 6 %
// of what a lone increment took; those that wait have it grown already.
const maxIdle = 16

type lane struct {
	queue   []*addition // what waits, oldest first
	flights int         // batches in flight, 1 or more
}

func newBatcher(l limits, fly func(*batch)) *batcher {
	return &batcher{limits: l, fly: fly, lanes: make(map[string]*lane), lanesUp: make(chan laneUp, maxIdle)}
}

// add waits for the addition's outcome, or until ctx ends. What ctx ends before its commit has begun is never counted;
// a commit that has begun goes on regardless.
func (b *batcher) add(ctx context.Context, lane string, a *addition) outcome {
	if err := ctx.Err(); err != nil {
		return outcome{err: fmt.Errorf("%w: %w", ErrBusy, err)}
	}
	if err := b.enqueue(lane, a); err != nil {
		return outcome{err: err}
	}
	select {
	case out := <-a.done:
		return out
	case <-ctx.Done():
	}
	if b.withdraw(lane, a) {
		return outcome{err: fmt.Errorf("%w: %w", ErrBusy, ctx.Err())}
	}
	select {
	case out := <-a.done: // just now
		return out
	default:
		return outcome{err: fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())}
	}
}

func (b *batcher) enqueue(name string, a *addition) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	l := b.lanes[name]
	if l == nil {
		l = &lane{}
		b.lanes[name] = l
	} else if b.waiting >= b.limits.waiting {
		return fmt.Errorf("%w: %d increments are waiting", ErrBusy, b.waiting)
	}
	b.waiting++
	l.queue = append(l.queue, a)
	if l.flights == 0 || len(l.queue) >= manyWaiting && l.flights < maxFlights {
		l.flights++
		first := b.take(l)
		up := laneUp{name, l, first}
		if b.idle > 0 {
			b.idle--
			b.lanesUp <- up // has room for all that are idle
		} else {
			b.flights.Go(func() { b.work(up) })
		}
	}
	return nil
}

// work flies one batch of a lane after the other, as long as there is enough to do, and then those of another lane.
func (b *batcher) work(up laneUp) {
	for {
		for next := up.first; next != nil; next = b.landed(up.name, up.lane) {
			b.fly(next)
		}
		if !b.rest() {
			return
		}
		var ok bool
		if up, ok = <-b.lanesUp; !ok {
			return
		}
	}
}

// rest reports whether a goroutine that has nothing to do is to wait for a lane.
func (b *batcher) rest() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.idle == maxIdle {
		return false
	}
	b.idle++
	return true
}

// landed returns the next batch after one has landed, or nil when what waits, if anything, can wait for the lane's other
// flights.
func (b *batcher) landed(name string, l *lane) *batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case len(l.queue) >= manyWaiting || len(l.queue) > 0 && l.flights == 1:
		return b.take(l)
	case l.flights == 1:
		delete(b.lanes, name)
	}
	l.flights--
	return nil
}

// take takes the next batch off a lane's queue.
func (b *batcher) take(l *lane) *batch {
	var next *batch
	next, l.queue = takeBatch(l.queue, b.limits.additions)
	b.waiting -= len(next.additions)
	return next
}

// withdraw takes an addition back that is still waiting.
func (b *batcher) withdraw(name string, a *addition) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lanes[name]
	if l == nil {
		return false
	}
	at := slices.Index(l.queue, a)
	if at < 0 {
		return false
	}
	l.queue = slices.Delete(l.queue, at, at+1)
	b.waiting--
	return true
}

// close refuses further additions, and waits for those that it has. It may be called again.
func (b *batcher) close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.lanesUp) // those that are idle end; what has been sent to one is flown
	}
	b.mu.Unlock()
	b.flights.Wait()
}
