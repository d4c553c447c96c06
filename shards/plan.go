package shards

import (
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

// knownShards remembers shards of fields with limits. A commit's plan takes out the shards that the commit changes, so
// that other plans use others. If the commit is applied, they come back as it has left them.
type knownShards struct {
	mu     sync.Mutex
	places *lru.Cache[place, *knownPlace]
}

// knownPlace is what a client knows of the shards of a place.
type knownPlace struct {
	shards map[string]knownShard // :: name → as it was last
	whole  bool                  // they had all the room there was, or else others may have some
}

type knownShard struct {
	seats.Shard
	out bool // a commit may have changed it
}

// rememberedPlaces is of how many fields of counters a client remembers shards.
const rememberedPlaces = 1000

func newPlaces() *knownShards {
	return &knownShards{places: newLRU[place, *knownPlace](rememberedPlaces)}
}

// inOrder are the shards that are known of a place, in the order of their names.
func (k *knownShards) inOrder(where place) (shards []seats.Shard) {
	known, ok := k.places.Get(where)
	if !ok {
		return nil
	}
	for _, shard := range known.shards {
		if !shard.out {
			shards = append(shards, shard.Shard)
		}
	}
	slices.SortFunc(shards, func(a, b seats.Shard) int { return strings.Compare(a.Name, b.Name) })
	return shards
}

// plan plans requests by what is known of shards. It reports false where that takes a look at all of them.
func (k *knownShards) plan(places []place, requests []*request) (p limitedPlan, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := map[place]seen{}
	for _, where := range places {
		known[where] = seen{shards: k.inOrder(where)}
	}
	if p = decide(known, false, requests); p.Look {
		return limitedPlan{}, false
	}
	k.takeOut(p)
	return p, true
}

// takeOut has no other plan use the shards that a plan changes.
func (k *knownShards) takeOut(p limitedPlan) {
	for where := range p.Plan {
		if known, ok := k.places.Get(where); ok {
			for _, shard := range p.changed(where) {
				known.shards[shard.Name] = knownShard{shard, true}
			}
		}
	}
}

// putBack is for a plan whose commit has changed nothing: others may use its shards again.
func (k *knownShards) putBack(p limitedPlan) {
	for where := range p.Plan {
		k.remember(where, p.changed(where))
	}
}

// rememberLook remembers the shards that were read for a plan, but for those that it changes. Where sums refused, none
// were.
func (k *knownShards) rememberLook(p limitedPlan) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for where, look := range p.places {
		if len(look.shards) == 0 {
			continue
		}
		known := &knownPlace{shards: map[string]knownShard{}, whole: escrow.Sum(seats.HeldOf(look.shards)...).Room() >= look.all.Room()}
		was, _ := k.places.Get(where)
		for _, shard := range look.shards {
			known.shards[shard.Name] = knownShard{Shard: shard}
			if was != nil && was.shards[shard.Name].Version.After(shard.Version) { // a commit that ended during the look
				known.shards[shard.Name] = was.shards[shard.Name]
			}
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
		known = &knownPlace{shards: map[string]knownShard{}}
		k.places.Add(where, known)
	}
	for _, shard := range shards {
		if !shard.Version.Before(known.shards[shard.Name].Version) {
			known.shards[shard.Name] = knownShard{Shard: shard}
		}
	}
}

func (k *knownShards) forget(where place) { k.places.Remove(where) }

// left is how much is left by what is known of the shards of a place. It reports false where others may have room, and
// while a commit changes one of them.
func (k *knownShards) left(where place) (left int64, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, ok := k.places.Peek(where)
	if !ok || !known.whole {
		return 0, false
	}
	for _, shard := range known.shards {
		if shard.out {
			return 0, false
		}
		left += max(0, shard.Balance.Room())
	}
	return left, true
}

// seen is what is known of a place.
type seen struct {
	shards []seats.Shard
	all    escrow.Balance // what all shards held at a time, if that was looked for; of sums without what members and holds had of it
	at     time.Time      // that time
}

// limitedPlan is what a batch commits to fields with limits.
type limitedPlan struct {
	escrow.Decision[place]
	places map[place]seen // by which it was decided
}

// changed are the shards of a place that the plan changes, as they are known.
func (p limitedPlan) changed(where place) []seats.Shard {
	shards := make([]seats.Shard, len(p.Plan[where]))
	for i, change := range p.Plan[where] {
		shards[i] = p.places[where].shards[change.Shard]
	}
	return shards
}

// further is how many shards the plan changes beyond one of each place, which the queue was promised.
func (p limitedPlan) further() (n int) {
	for _, changes := range p.Plan {
		n += len(changes) - 1
	}
	return n
}

// decide decides about requests by what is known of places, or by what all of their shards hold, if that was looked
// for.
func decide(places map[place]seen, looked bool, requests []*request) limitedPlan {
	known, all := map[place][]escrow.Balance{}, map[place]escrow.Balance{}
	for where, is := range places {
		known[where], all[where] = seats.HeldOf(is.shards), is.all
	}
	if !looked {
		all = nil
	}
	asked := make([]escrow.Request[place], len(requests))
	for i, r := range requests {
		asked[i] = r.takes()
	}
	return limitedPlan{escrow.Decide(known, all, asked, rand.IntN), places}
}

// noRoom says why a plan refuses a request.
func noRoom(names layout.Layout, r *request, p limitedPlan) error {
	for where, ask := range r.takes() {
		if all := p.places[where].all; !all.Fits(ask) {
			field, _ := names.Sharded.ByShard(where.field)
			full := &LimitError{Counter: where.counter, Field: field.Name, By: ask.Count, Limit: all.Share, Left: all.Room(), Taken: all.Count}
			if full.By < 0 { // sums, by which takes are refused, leave members out
				full.Members, full.Held = all.Members, all.Holds
			}
			return full
		}
	}
	return nil
}

// byIndex are the requests that have these indexes.
func byIndex(requests []*request, indexes []int) []*request {
	list := make([]*request, len(indexes))
	for i, at := range indexes {
		list[i] = requests[at]
	}
	return list
}
