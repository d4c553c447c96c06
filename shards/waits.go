package shards

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"
)

// turns lets calls that want the same thing take turns, in the order in which they came. Otherwise a member's later
// call might be carried out before an earlier one.
type turns struct {
	mu   sync.Mutex
	last map[string]chan struct{} // :: what is wanted → closed when the last of those turns is over
	open map[string]int           // :: what is wanted → turns that aren't over
}

// maxTurns is how many calls want the same thing at most, the one included whose turn it is. Each waits for all before
// it, and whoever sends hundreds would fill an instance.
const maxTurns = 20

// wait waits for a turn, or until ctx ends. The caller calls over when its turn ends.
func (t *turns) wait(ctx context.Context, what string) (endTurn func(), err error) {
	mine := make(chan struct{})
	t.mu.Lock()
	if t.open[what] == maxTurns {
		t.mu.Unlock()
		return nil, fmt.Errorf("%d calls of the same wait", maxTurns)
	}
	before, waits := t.last[what]
	t.last[what] = mine
	t.open[what]++
	t.mu.Unlock()
	end := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.open[what]--; t.last[what] == mine {
			delete(t.last, what)
			delete(t.open, what)
		}
		close(mine)
	}
	if !waits {
		return end, nil
	}
	select {
	case <-before:
		return end, nil
	case <-ctx.Done():
		go func() { <-before; end() }() // whoever comes later waits for both
		return nil, ctx.Err()
	}
}

// sharedTimer is how long calls wait if their contexts have no deadline: see Config.Wait. With 0 they wait for their
// outcomes.
type sharedTimer struct {
	after time.Duration

	mu    sync.Mutex
	begun time.Time
	fired chan struct{} // closed when those are to end that begin soon after it was made
}

// forCall is closed when a call that begins now has waited for long enough, or up to a hundredth before. It
// is nil if nothing ends it so.
func (p *sharedTimer) forCall(ctx context.Context) <-chan struct{} {
	if _, has := ctx.Deadline(); has || p.after == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.fired == nil || now.Sub(p.begun) > p.after/100 {
		ended := make(chan struct{})
		time.AfterFunc(p.after, func() { close(ended) })
		p.begun, p.fired = now, ended
	}
	return p.fired
}

// lately remembers for a while what happened to counters.
type lately struct {
	mu    sync.Mutex
	until map[string]time.Time // :: counter → when it is forgotten
}

// remember marks a counter for a while, and drops marks that are over.
func (l *lately) remember(counter string, lasts time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(l.until, func(_ string, until time.Time) bool { return now.After(until) })
	if l.until == nil {
		l.until = map[string]time.Time{}
	}
	l.until[counter] = now.Add(lasts)
}

func (l *lately) is(counter string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until[counter])
}

// newLRU remembers so many values, those that were used last.
func newLRU[K comparable, V any](most int) *lru.Cache[K, V] {
	values, err := lru.New[K, V](most)
	if err != nil {
		panic(err) // only for a size below one
	}
	return values
}

// sideBySide is how many reads, or makings of counters, of a call are under way at once.
const sideBySide = 16

// each calls do for all items, for some of them side by side, and returns one of the errors.
func each[T any](items []T, do func(i int, item T) error) error {
	var group errgroup.Group
	group.SetLimit(sideBySide)
	for i, item := range items {
		group.Go(func() error { return do(i, item) })
	}
	return group.Wait()
}
