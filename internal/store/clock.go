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

// Now is a lower bound of Firestore's clock, by its answers to reads and commits. Before the first
// answer, it is this machine's time.
func (db *DB) Now() time.Time {
	db.clock.mu.Lock()
	defer db.clock.mu.Unlock()
	if db.clock.newest.IsZero() {
		return time.Now()
	}
	return db.clock.newest.Add(time.Since(db.clock.at))
}

// Passed reports whether Firestore's clock is certainly at t or later.
func (db *DB) Passed(t time.Time) bool {
	db.clock.mu.Lock()
	defer db.clock.mu.Unlock()
	return !db.clock.newest.IsZero() && !t.After(db.clock.newest.Add(time.Since(db.clock.at)))
}
