package rollup

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// serverClock knows what Firestore's own clock says at least: the newest time in an answer of
// Firestore, and what has passed here since that answer.
type serverClock struct {
	// holds one while Firestore is asked: one question at a time is enough for all who wait
	asking chan struct{}

	mu     sync.Mutex
	newest time.Time
	at     time.Time // when that answer came, by the clock of this process
}

// saw takes the time of an answer that has just come.
func (c *serverClock) saw(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.newest.IsZero() || t.After(c.newest.Add(now.Sub(c.at))) {
		c.newest, c.at = t, now
	}
}

// passed reports whether Firestore's clock is at t or later, as far as is known here.
func (c *serverClock) passed(t time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.newest.IsZero() && !t.After(c.newest.Add(time.Since(c.at)))
}

// now is what Firestore's clock says at least; the zero time where nothing is known of it.
func (c *serverClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest.IsZero() {
		return c.newest
	}
	return c.newest.Add(time.Since(c.at))
}

// check refuses a change from the future, as [ErrPoison]: nothing is newer than now. Its state
// would hide what the shard really holds for as long as its time is ahead. Firestore is asked for
// its time only where this process doesn't know that it is late enough, which is rare: an event
// takes longer to arrive than Firestore's last answer did.
func (c *Client) check(ctx context.Context, change Change) error {
	t := change.AsOf
	if c.clock.passed(t) {
		return nil
	}
	select { // and no mutex, which would hold those who wait beyond their deadlines
	case c.clock.asking <- struct{}{}:
		defer func() { <-c.clock.asking }()
	case <-ctx.Done():
		return fmt.Errorf("wait for Firestore's time: %w", ctx.Err())
	}
	if c.clock.passed(t) {
		return nil
	}
	_, now, err := c.db.Get(ctx, c.db.LedgerOf(change.Counter))
	if err != nil {
		return fmt.Errorf("ask Firestore for its time: %w", err)
	}
	c.clock.saw(now)
	if t.After(now) {
		return fmt.Errorf("%w: %q of counter %q was changed at %s, and it is only %s", ErrPoison,
			cmp.Or(change.Shard, change.Collection+"/"+change.Document), change.Counter, t.Format(time.RFC3339Nano), now.Format(time.RFC3339Nano))
	}
	return nil
}
