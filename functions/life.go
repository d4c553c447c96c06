package functions

import (
	"context"
	"sync"
)

// life is a process's, from the point of view of its requests: they begin and are done, until it
// ends. It is no [sync.WaitGroup], which panics when a request begins while the last one is waited
// for.
type life struct {
	ending   context.Context // done once no further request begins
	stop     context.CancelFunc
	answered chan struct{} // closed once, besides, every request is done

	mu   sync.Mutex
	open int // requests that have begun, and are not done
}

func newLife() *life {
	l := &life{answered: make(chan struct{})}
	l.ending, l.stop = context.WithCancel(context.Background())
	return l
}

// begin begins a request. It reports false when none may begin any more.
func (l *life) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending.Err() != nil {
		return false
	}
	l.open++
	return true
}

// done says that a request is answered.
func (l *life) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	l.tell()
}

// end lets no further request begin. What it returns is closed once those under way are answered.
func (l *life) end() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending.Err() == nil {
		l.stop()
		l.tell()
	}
	return l.answered
}

// tell closes answered when it is time. It is called once with the last request, or with the end:
// whichever comes later.
func (l *life) tell() {
	if l.ending.Err() != nil && l.open == 0 {
		close(l.answered)
	}
}
