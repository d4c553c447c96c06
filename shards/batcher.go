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

// batcher gathers additions while others are on their way. Each lane, which is a counter or [manyCounters], has one
// batch in flight at a time: two would halve the wait of whoever comes in between, and double the number of commits,
// which are what is billed.
type batcher struct {
	limits limits
	fly    func(*batch) // gives each addition of the batch its outcome

	mu      sync.Mutex
	lanes   map[string][]*addition // :: lane with a batch in flight → what waits for it to land, oldest first
	waiting int                    // in all lanes
	closed  bool
	flights sync.WaitGroup // one per lane
}

func newBatcher(l limits, fly func(*batch)) *batcher {
	return &batcher{limits: l, fly: fly, lanes: make(map[string][]*addition)}
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

func (b *batcher) enqueue(lane string, a *addition) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	queue, flying := b.lanes[lane]
	if !flying {
		b.lanes[lane] = nil
		first, _ := takeBatch([]*addition{a}, b.limits.additions)
		b.flights.Go(func() { b.run(lane, first) })
		return nil
	}
	if b.waiting >= b.limits.waiting {
		return fmt.Errorf("%w: %d increments are waiting", ErrBusy, b.waiting)
	}
	b.waiting++
	b.lanes[lane] = append(queue, a)
	return nil
}

// run flies a lane's batches, one after the other, until nothing waits.
func (b *batcher) run(lane string, next *batch) {
	for next != nil {
		b.fly(next)
		next = b.take(lane)
	}
}

func (b *batcher) take(lane string) *batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	queue := b.lanes[lane]
	if len(queue) == 0 {
		delete(b.lanes, lane)
		return nil
	}
	next, left := takeBatch(queue, b.limits.additions)
	b.lanes[lane] = left
	b.waiting -= len(next.additions)
	return next
}

// withdraw takes an addition back that is still waiting.
func (b *batcher) withdraw(lane string, a *addition) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.lanes[lane], a)
	if at < 0 {
		return false
	}
	b.lanes[lane] = slices.Delete(b.lanes[lane], at, at+1)
	b.waiting--
	return true
}

// close refuses further additions, and waits for those that it has.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.flights.Wait()
}
