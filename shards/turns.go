package shards

import (
	"context"
	"sync"
)

// turns has those who want the same take turns, in the order in which they came. Of a member's
// operations side by side, the later one might be carried out first.
type turns struct {
	mu   sync.Mutex
	last map[string]chan struct{} // :: what is wanted → closed when the last of those turns is over
}

// take waits for a turn, or until ctx ends. Whoever has it calls over in the end.
func (t *turns) take(ctx context.Context, what string) (over func(), err error) {
	mine := make(chan struct{})
	t.mu.Lock()
	before, waits := t.last[what]
	t.last[what] = mine
	t.mu.Unlock()
	end := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.last[what] == mine {
			delete(t.last, what)
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
