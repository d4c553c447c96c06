package shards

import (
	"maps"
	"slices"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/firestore-counters/counters/internal/seats"
)

// knownShards remembers shards of fields with limits, by their names. A commit's plan takes out the shards that the
// commit changes, so that other plans use others. If the commit is applied, it puts them back as it has left them.
type knownShards struct {
	mu     sync.Mutex
	places *lru.Cache[place, *knownPlace]
}

// knownPlace is what a client knows of the shards of a place.
type knownPlace struct {
	shards map[string]seats.Shard // :: name → as it was last
	room   []string               // names of those that had all the room there was; none where others may have some
}

// rememberedPlaces is of how many fields of counters a client remembers shards.
const rememberedPlaces = 1000

func newPlaces() *knownShards {
	return &knownShards{places: newLRU[place, *knownPlace](rememberedPlaces)}
}

// inOrder are the shards that are known of a place, in the order of their names.
func (k *knownShards) inOrder(where place) []seats.Shard {
	known, ok := k.places.Get(where)
	if !ok {
		return nil
	}
	shards := slices.Collect(maps.Values(known.shards))
	slices.SortFunc(shards, func(a, b seats.Shard) int { return strings.Compare(a.Name, b.Name) })
	return shards
}

// plan plans requests by what is known of shards. It reports false where that takes a look at all of them.
func (k *knownShards) plan(places []place, requests []*request) (p limitedPlan, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	shards := map[place][]seats.Shard{}
	for _, where := range places {
		shards[where] = k.inOrder(where)
	}
	if p = decide(shards, nil, requests); p.Look {
		return limitedPlan{}, false
	}
	k.takeOut(p)
	return p, true
}

// takeOut forgets shards that a plan changes.
func (k *knownShards) takeOut(p limitedPlan) {
	for where := range p.Plan {
		known, _ := k.places.Get(where)
		for _, shard := range p.changed(where) {
			if known != nil {
				delete(known.shards, shard.Name)
			}
		}
	}
}

// rememberLook remembers the shards that were read for a plan, but for those that it changes. Where sums refused, none
// were.
func (k *knownShards) rememberLook(p limitedPlan) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for where, shards := range p.shards {
		if len(shards) == 0 {
			continue
		}
		known, room := &knownPlace{shards: map[string]seats.Shard{}}, int64(0)
		was, _ := k.places.Get(where)
		for _, shard := range shards {
			known.room = append(known.room, shard.Name)
			room += shard.Held.Room()
			if was != nil && was.shards[shard.Name].Version.After(shard.Version) { // a commit that ended during the look
				shard = was.shards[shard.Name]
			}
			known.shards[shard.Name] = shard
		}
		if room < p.all[where].Room() {
			known.room = nil
		}
		k.places.Add(where, known)
	}
	k.takeOut(p)
}

// remember remembers what shards hold now, unless newer versions are known.
func (k *knownShards) remember(where place, shards []seats.Shard) {
	if len(shards) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	known, ok := k.places.Get(where)
	if !ok {
		known = &knownPlace{shards: map[string]seats.Shard{}}
		k.places.Add(where, known)
	}
	for _, shard := range shards {
		if was, ok := known.shards[shard.Name]; !ok || was.Version.Before(shard.Version) {
			known.shards[shard.Name] = shard
		}
	}
}

func (k *knownShards) forget(where place) { k.places.Remove(where) }

// left is how much is left by what is known of the shards of a place that had room. It reports false if one of these is
// missing, as while a commit changes it.
func (k *knownShards) left(where place) (left int64, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	remembered, _ := k.places.Peek(where)
	if remembered == nil || len(remembered.room) == 0 {
		return 0, false
	}
	for _, name := range remembered.room {
		if _, is := remembered.shards[name]; !is {
			return 0, false
		}
	}
	for _, shard := range remembered.shards {
		left += max(0, shard.Held.Room())
	}
	return left, true
}
