package shards

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/seats"
)

// limitedPlan is what a batch commits to fields with limits.
type limitedPlan struct {
	escrow.Decision[place]
	shards map[place][]seats.Shard // as they are known
	all    map[place]escrow.Held   // what all shards held at a time; of sums without what members and holds had of it
	read   map[place]time.Time     // that time
}

// changed are the shards of a place that the plan changes, as they are known.
func (p limitedPlan) changed(at place) []seats.Shard {
	shards := make([]seats.Shard, len(p.Plan[at]))
	for i, change := range p.Plan[at] {
		shards[i] = p.shards[at][change.Shard]
	}
	return shards
}

// decide decides about requests by what is known of shards, and what all of them hold; nil if nobody has looked.
func decide(shards map[place][]seats.Shard, all map[place]escrow.Held, requests []*request) limitedPlan {
	known := map[place][]escrow.Held{}
	for at, list := range shards {
		for _, shard := range list {
			known[at] = append(known[at], shard.Held)
		}
	}
	asked := make([]escrow.Request[place], len(requests))
	for i, r := range requests {
		asked[i] = r.takes()
	}
	return limitedPlan{Decision: escrow.Decide(known, all, asked, rand.IntN), shards: shards, all: all}
}

// noRoom says why a plan refuses a request.
func noRoom(names layout.Layout, r *request, p limitedPlan) error {
	for at, ask := range r.takes() {
		if all := p.all[at]; !all.Fits(ask) {
			field, _ := names.Fields.ByShard(at.field)
			full := &LimitError{Counter: at.counter, Field: field.Name, By: ask.Count, Limit: all.Share, Left: all.Room(), Taken: all.Count}
			if full.By < 0 { // sums, by which takes are refused, leave members out
				full.Members, full.Held = all.Members, all.Holds
			}
			return full
		}
	}
	return nil
}

// some are the requests that have these indexes.
func some(requests []*request, indexes []int) []*request {
	list := make([]*request, len(indexes))
	for i, at := range indexes {
		list[i] = requests[at]
	}
	return list
}

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

// sorted are the shards that are known of a place, in the order of their names.
func (k *knownShards) sorted(where place) []seats.Shard {
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
	for _, at := range places {
		shards[at] = k.sorted(at)
	}
	if p = decide(shards, nil, requests); p.Look {
		return limitedPlan{}, false
	}
	k.takeOut(p)
	return p, true
}

// takeOut forgets shards that a plan changes.
func (k *knownShards) takeOut(p limitedPlan) {
	for at := range p.Plan {
		known, _ := k.places.Get(at)
		for _, shard := range p.changed(at) {
			if known != nil {
				delete(known.shards, shard.Name)
			}
		}
	}
}

// read remembers the shards that were read for a plan, but for those that it changes. Where sums refused, none were.
func (k *knownShards) read(p limitedPlan) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for at, shards := range p.shards {
		if len(shards) == 0 {
			continue
		}
		known, room := &knownPlace{shards: map[string]seats.Shard{}}, int64(0)
		was, _ := k.places.Get(at)
		for _, shard := range shards {
			known.room = append(known.room, shard.Name)
			room += shard.Held.Room()
			if was != nil && was.shards[shard.Name].Version.After(shard.Version) { // a commit that ended during the look
				shard = was.shards[shard.Name]
			}
			known.shards[shard.Name] = shard
		}
		if room < p.all[at].Room() {
			known.room = nil
		}
		k.places.Add(at, known)
	}
	k.takeOut(p)
}

// put remembers what shards hold now, unless newer versions are known.
func (k *knownShards) put(where place, shards []seats.Shard) {
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
	known, _ := k.places.Peek(where)
	if known == nil || len(known.room) == 0 {
		return 0, false
	}
	for _, name := range known.room {
		if _, is := known.shards[name]; !is {
			return 0, false
		}
	}
	for _, shard := range known.shards {
		left += max(0, shard.Held.Room())
	}
	return left, true
}
