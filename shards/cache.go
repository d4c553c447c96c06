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
	shardsTTL, totalTTL time.Duration
}

// cached is a counter's document as it was read last.
type cached struct {
	Snapshot
	read  time.Time
	stale bool // its total is older than an increment of our own
}

func newCache(shardsTTL, totalTTL time.Duration) *cache {
	counters, err := lru.New[string, cached](cachedCounters)
	if err != nil {
		panic(err) // only for a size below one
	}
	return &cache{counters: counters, shardsTTL: shardsTTL, totalTTL: totalTTL}
}

func (c *cache) put(s Snapshot) { c.counters.Add(s.Counter, cached{Snapshot: s, read: time.Now()}) }

func (c *cache) forget(counter string) { c.counters.Remove(counter) }

// shards is a counter's number of shards, where it is known.
func (c *cache) shards(counter string) (int, bool) {
	known, ok := c.counters.Get(counter)
	if !ok || time.Since(known.read) > c.shardsTTL {
		return 0, false
	}
	return known.NumShards, true
}

// total is a counter as of at most totalTTL ago, unless this client has added to it since.
func (c *cache) total(counter string) (Snapshot, bool) {
	known, ok := c.counters.Get(counter)
	if !ok || known.stale || time.Since(known.read) > c.totalTTL {
		return Snapshot{}, false
	}
	return known.Snapshot, true
}

// added notes an increment of our own.
func (c *cache) added(counter string) {
	if known, ok := c.counters.Peek(counter); ok && !known.stale {
		known.stale = true
		c.counters.Add(counter, known)
	}
}
