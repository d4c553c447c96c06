package store

import (
	"sync"
	"time"
)

// clock is a lower bound of Firestore's clock: the newest time in an answer of Firestore, plus the time
// that has passed here since that answer.
type clock struct {
	mu     sync.Mutex
	newest time.Time
	at     time.Time // when that answer came, by the clock of this process
}

// saw takes the time in an answer that has just come.
func (c *clock) saw(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.newest.IsZero() || t.After(c.newest.Add(now.Sub(c.at))) {
		c.newest, c.at = t, now
	}
}

// now is the lower bound; zero before the first answer.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest.IsZero() {
		return time.Time{}
	}
	return c.newest.Add(time.Since(c.at))
}
