package shards

import (
	"maps"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/seats"
)

// place is a field of a counter.
type place struct{ counter, field string }

// holding is what a client knows of a shard of a field with a limit.
type holding struct {
	shard   string      // its resource name
	version time.Time   // the update time of its document
	held    escrow.Held // nothing, where something else wrote what can't be a shard's
}

func holdingsOf(docs book.Shards, field layout.Field) (of []holding) {
	for _, doc := range docs {
		held, _ := seats.Of(doc, field)
		of = append(of, holding{shard: doc.GetName(), version: doc.GetUpdateTime().AsTime(), held: held})
	}
	return of
}

// holdings are what a client knows of shards, by their names.
type holdings map[string]holding

// sorted are they in the order of their names.
func (h holdings) sorted() []holding {
	all := make([]holding, 0, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		all = append(all, h[name])
	}
	return all
}

// knownShards remembers shards of fields with limits. Whoever plans a commit takes out the shards
// that it touches, so that others take other ones, and puts them back as the commit has left them.
type knownShards struct {
	mu  sync.Mutex
	of  *lru.Cache[place, holdings]
	all *lru.Cache[place, int] // how many there were when all of them were read last
}

// limitedPlaces is of how many fields of counters a client remembers shards.
const limitedPlaces = 1000

// put remembers what a shard holds now, unless a newer version is known.
func (k *knownShards) put(where place, h holding) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, ok := k.of.Get(where)
	if !ok {
		known = holdings{}
		k.of.Add(where, known)
	}
	if of, ok := known[h.shard]; !ok || of.version.Before(h.version) {
		known[h.shard] = h
	}
}

// forget forgets the shards of a place, but for those that are given.
func (k *knownShards) forget(where place, but ...holding) {
	k.mu.Lock()
	k.of.Remove(where)
	k.all.Remove(where)
	k.mu.Unlock()
	for _, h := range but {
		k.put(where, h)
	}
}

// readAll remembers all shards of a place, and nothing else of it.
func (k *knownShards) readAll(where place, of []holding) {
	k.forget(where, of...)
	k.all.Add(where, len(of))
}

// left is how much is left by what is known of all shards of a place. It reports false if not all are known, as while a
// commit takes of one.
func (k *knownShards) left(where place) (left int64, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, _ := k.of.Peek(where)
	if n, ok := k.all.Peek(where); !ok || len(known) < n {
		return 0, false
	}
	for _, h := range known {
		left += max(0, h.held.Room())
	}
	return left, true
}
