package shards

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// cachedCounters is how many counters a client remembers. One takes about 200 bytes.
const cachedCounters = 10_000

// cache is what a client remembers of counters that it has read lately.
type cache struct{ *lru.Cache[string, cached] }

// cached is a counter's document as it was read last.
type cached struct {
	Snapshot
	// When the read began: it may lack what was written since.
	read time.Time
}

func newCache() cache { return cache{newLRU[string, cached](cachedCounters)} }

func newLRU[K comparable, V any](most int) *lru.Cache[K, V] {
	values, err := lru.New[K, V](most)
	if err != nil {
		panic(err) // only for a size below one
	}
	return values
}

// put remembers a counter that was read from began on, unless a later read is known.
func (c cache) put(s Snapshot, began time.Time) {
	if known, ok := c.Peek(s.Counter); !ok || !began.Before(known.read) {
		c.Add(s.Counter, cached{Snapshot: s, read: began})
	}
}

// within is a counter that was read so long ago at most.
func (c cache) within(ttl time.Duration, counter string) (known cached, ok bool) {
	known, ok = c.Get(counter)
	return known, ok && time.Since(known.read) <= ttl
}
