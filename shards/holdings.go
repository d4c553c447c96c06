package shards

import (
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
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

// holdingOf is what a shard's document holds. A field whose numbers can't be a shard's has no room, and
// holds nothing that is given back: something else wrote it.
func holdingOf(doc *firestorepb.Document) holding {
	h := holding{shard: doc.GetName(), version: doc.GetUpdateTime().AsTime()}
	for name := range doc.GetFields() {
		if field, ok := layout.SharedField(name); ok {
			if h.fields == nil {
				h.fields = make(map[string]escrow.Held, 1)
			}
			h.fields[field], _ = heldOf(doc, field)
		}
	}
	return h
}

// heldOf is what a shard's document holds of a field with a limit. It reports false for numbers that can't
// be a shard's.
func heldOf(doc *firestorepb.Document, field string) (held escrow.Held, ok bool) {
	ok = true
	for name, n := range map[string]*int64{field: &held.Count, layout.MembersIn(field): &held.Members, layout.ShareOf(field): &held.Share} {
		value := doc.GetFields()[name]
		*n = value.GetIntegerValue()
		ok = ok && (value == nil || store.IsInteger(value))
	}
	if !ok || !held.Valid() {
		return escrow.Held{}, false
	}
	return held, true
}

// knownShards remembers shards of counters with limits. Whoever plans a commit takes out those that it
// touches, so that the next one goes to others meanwhile, and puts them back as the commit has left them.
type knownShards struct {
	mu sync.Mutex
	of *lru.Cache[string, holdings] // :: counter
}

// limitedCounters is how many counters with limits a client remembers shards of.
const limitedCounters = 1000

func newKnownShards() *knownShards {
	of, err := lru.New[string, holdings](limitedCounters)
	if err != nil {
		panic(err) // only for a size below one
	}
	return &knownShards{of: of}
}

// put remembers what shards hold now.
func (k *knownShards) put(counter string, shards ...holding) {
	k.mu.Lock()
	defer k.mu.Unlock()
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

// drop forgets a shard.
func (k *knownShards) drop(counter, shard string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, _ := k.of.Get(counter)
	delete(known, shard)
}
