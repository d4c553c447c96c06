package shards

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// readsAtOnce is how many reads of unknown counters are under way at once.
const readsAtOnce = 4

// lookups find out which counters are there, many in one read. Who comes after a read has begun waits
// for the next: the counter may have been made meanwhile.
type lookups struct {
	read func(counters []string) (there map[string]bool, err error)

	mu      sync.Mutex
	next    *lookup // has not begun; may be nil
	reading int
}

// lookup is a read of some counters.
type lookup struct {
	done  chan struct{}   // closed once the rest is known
	there map[string]bool // :: counter → whether it is there
	err   error
}

// ask waits until it is known which of the counters are there, or ctx ends.
func (l *lookups) ask(ctx context.Context, counters []string) (there map[string]bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	if l.next == nil {
		l.next = &lookup{done: make(chan struct{}), there: map[string]bool{}}
	}
	of := l.next
	for _, id := range counters {
		of.there[id] = false
	}
	if l.reading < readsAtOnce {
		l.reading++
		go l.run()
	}
	l.mu.Unlock()
	select {
	case <-of.done:
		return of.there, of.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run reads as long as there is something to read.
func (l *lookups) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.next != nil {
		of := l.next
		l.next = nil
		l.mu.Unlock()
		of.there, of.err = l.read(slices.Collect(maps.Keys(of.there)))
		close(of.done)
		l.mu.Lock()
	}
	l.reading--
}
