package functions

import (
	"context"
	"sync"
)

// life counts the requests of a process until it ends. A [sync.WaitGroup] would panic if a request began
// during the wait for the last one.
type life struct {
	ending   context.Context // done once no further request may begin
	stop     context.CancelFunc
	answered chan struct{} // closed once, after that, every request is done

	mu   sync.Mutex
	open int // requests that have begun and are not done
}

func newLife() *life {
	l := &life{answered: make(chan struct{})}
	l.ending, l.stop = context.WithCancel(context.Background())
	return l
}

// begin begins a request. It reports false if none may begin any more.
func (l *life) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending.Err() != nil {
		return false
	}
	l.open++
	return true
}

// done ends a request.
func (l *life) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	l.tell()
}

// end lets no further request begin. The returned channel is closed once those under way are answered.
func (l *life) end() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending.Err() == nil {
		l.stop()
		l.tell()
	}
	return l.answered
}

// tell closes answered. It is called once: at the end, or with the last request after it.
func (l *life) tell() {
	if l.ending.Err() != nil && l.open == 0 {
		close(l.answered)
	}
}

// drain answers the requests that a function holds back, at once, before the process ends. It is nil if
// the function holds none back: the process waits for requests under way in any case. It closes no
// connections, because a request might still need one.
type drain func(context.Context) error
