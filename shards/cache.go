package shards

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// cachedCounters is how many counters a client remembers. One takes about 200 bytes.
const cachedCounters = 10_000

// cache is what a client remembers of counters that it has read lately.
type cache struct {
	counters            *lru.Cache[string, cached]
	shardsTTL, readsTTL time.Duration
}

// cached is a counter's document as it was read last.
type cached struct {
	Snapshot
	// when the read began: what was written since may not be in it, however long it took
	read time.Time
}

func newCache(cfg Config) *cache {
	counters, err := lru.New[string, cached](cachedCounters)
	if err != nil {
		panic(err) // only for a size below one
	}
	return &cache{counters: counters, shardsTTL: cfg.CacheTTL, readsTTL: cfg.ReadCache}
}

// put remembers a counter that was read from began on, unless a later read is known.
func (c *cache) put(s Snapshot, began time.Time) {
	if known, ok := c.counters.Peek(s.Counter); !ok || !began.Before(known.read) {
		c.counters.Add(s.Counter, cached{Snapshot: s, read: began})
	}
}

func (c *cache) forget(counter string) { c.counters.Remove(counter) }

// shards is the number of shards that a counter is written to, where it is known.
func (c *cache) shards(counter string) (int, bool) {
	known, ok := c.counters.Get(counter)
	if !ok || time.Since(known.read) > c.shardsTTL {
		return 0, false
	}
	return known.NumShards, true
}

// lastShards is the number of shards that a counter had when it was read last.
func (c *cache) lastShards(counter string) (int, bool) {
	known, ok := c.counters.Get(counter)
	return known.NumShards, ok
}

// snapshot is a counter that was read within readsTTL, and how long ago that was.
func (c *cache) snapshot(counter string) (Snapshot, time.Duration, bool) {
	known, ok := c.counters.Get(counter)
	if !ok {
		return Snapshot{}, 0, false
	}
	age := time.Since(known.read)
	return known.Snapshot, age, age <= c.readsTTL
}
