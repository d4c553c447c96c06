package shards

import (
	"maps"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/firestore-counters/counters/internal/escrow"
)

// holding is what a client knows of a shard of a counter with a limit.
type holding struct {
	shard   string                 // its resource name
	version time.Time              // the update time of its document
	fields  map[string]escrow.Held // :: field of the shards that has a limit → what the shard holds of it
}

// holdings are what a client knows of shards, by their names.
type holdings map[string]holding

// newer keeps the newer of two versions of a shard.
func (h holdings) newer(of holding) {
	if known, ok := h[of.shard]; !ok || known.version.Before(of.version) {
		h[of.shard] = of
	}
}

// sorted are they in the order of their names.
func (h holdings) sorted() []holding {
	all := make([]holding, 0, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		all = append(all, h[name])
	}
	return all
}

// knownShards remembers shards of counters with limits. Whoever plans a commit takes out the shards
// that it touches, so that others take other ones, and puts them back as the commit has left them.
type knownShards struct {
	mu sync.Mutex
	of *lru.Cache[string, holdings] // :: counter
}

// limitedCounters is how many counters with limits a client remembers shards of.
const limitedCounters = 1000

// put remembers what shards hold now.
func (k *knownShards) put(counter string, shards ...holding) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.add(counter, shards...)
}

func (k *knownShards) add(counter string, shards ...holding) {
	known, ok := k.of.Get(counter)
	if !ok {
		known = make(holdings, len(shards))
		k.of.Add(counter, known)
	}
	for _, h := range shards {
		known.newer(h)
	}
}

// forget forgets the shards of a counter, but for those that are given.
func (k *knownShards) forget(counter string, but ...holding) {
	k.mu.Lock()
	k.of.Remove(counter)
	k.mu.Unlock()
	if len(but) > 0 {
		k.put(counter, but...)
	}
}

// len is how many shards of a counter are known, but for those that commits touch now.
func (k *knownShards) len(counter string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, _ := k.of.Get(counter)
	return len(known)
}

// drop forgets a shard.
func (k *knownShards) drop(counter, shard string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, _ := k.of.Get(counter)
	delete(known, shard)
}
