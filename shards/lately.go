package shards

import (
	"maps"
	"sync"
	"time"
)

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
