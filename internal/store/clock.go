package store

import (
	"sync"
	"time"
)

// clock knows what Firestore's own clock says at least: the newest time in an answer of Firestore,
// and what has passed here since that answer.
type clock struct {
	mu     sync.Mutex
	newest time.Time
	at     time.Time // when that answer came, by the clock of this process
}

// saw takes the time of an answer that has just come.
func (c *clock) saw(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.newest.IsZero() || t.After(c.newest.Add(now.Sub(c.at))) {
		c.newest, c.at = t, now
	}
}

// Now is what Firestore's clock says at least, as its answers to reads of documents and to commits
// have it. Before the first of them it is what the clock of this machine says.
func (db *DB) Now() time.Time {
	db.clock.mu.Lock()
	defer db.clock.mu.Unlock()
	if db.clock.newest.IsZero() {
		return time.Now()
	}
	return db.clock.newest.Add(time.Since(db.clock.at))
}

// Passed reports whether Firestore's clock is at t or later, as far as its answers tell.
func (db *DB) Passed(t time.Time) bool {
	db.clock.mu.Lock()
	defer db.clock.mu.Unlock()
	return !db.clock.newest.IsZero() && !t.After(db.clock.newest.Add(time.Since(db.clock.at)))
}
