package shards

import (
	"errors"
	"fmt"
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
	all    int                    // how many were read, if these had all the room there was; 0 where others may have some
}

// limitedPlaces is of how many fields of counters a client remembers shards.
const limitedPlaces = 1000

func newPlaces() *knownShards {
	return &knownShards{places: newLRU[place, *knownPlace](limitedPlaces)}
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
		for _, shard := range shards {
			known.shards[shard.Name] = shard
			room += shard.Held.Room()
		}
		if room >= p.all[at].Room() {
			known.all = len(shards)
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
	if known == nil || known.all == 0 || len(known.shards) < known.all {
		return 0, false
	}
	for _, shard := range known.shards {
		left += max(0, shard.Held.Room())
	}
	return left, true
}

var (
	// ErrLimit says that there was no room for an increment below its limit, or less to give back than it
	// asks. Nothing was counted. A [LimitError] says how much there was.
	ErrLimit = errors.New("limit reached")
	// ErrInvalidLimit says that a field can't have that limit, and why.
	ErrInvalidLimit = errors.New("invalid limit")
	// ErrHoldEnded says that a hold which is to be confirmed or settled has ended, or that there was none.
	// Nothing was changed.
	ErrHoldEnded = errors.New("the hold is over, or there was none")
	// ErrSettled says that a hold is settled, for another amount than is asked, or that it can't be given back any
	// more. The [Hold] says for which amount. Nothing was changed.
	ErrSettled = errors.New("the hold is settled")
	// ErrNoHold says that there is no hold of that key, or none any more.
	ErrNoHold = errors.New("there is no such hold")
	// ErrInvalidHold says that nothing can be held for so long.
	ErrInvalidHold = errors.New("invalid hold")
)

// LimitError is an [ErrLimit] that says how much there was, at one time between call and return.
type LimitError struct {
	Counter string
	Field   string
	By      int64 // what was asked, or 0 where the limit was to be lowered
	Limit   int64
	Left    int64 // below the limit
	Taken   int64 // of the limit
	Members int64 // of Taken, which only they give back; 0 if By is more than 0
	Held    int64 // of Taken, by holds of an amount; 0 if By is more than 0
}

func (e *LimitError) Error() string {
	switch {
	case e.By == 0:
		return fmt.Sprintf("limit reached: %d of %s are taken, so the limit can't be %d", e.Taken, e.Field, e.Limit)
	case e.By < 0 && e.Held > 0:
		return fmt.Sprintf("limit reached: %d of %s can be given back, beside %d that are held and those of %d members; asked for %d", e.Taken-e.Members-e.Held, e.Field, e.Held, e.Members, -e.By)
	case e.By < 0 && e.Members > 0:
		return fmt.Sprintf("limit reached: %d of %s can be given back, beside those of %d members; asked for %d", e.Taken-e.Members, e.Field, e.Members, -e.By)
	case e.By < 0:
		return fmt.Sprintf("limit reached: %d of %s can be given back; asked for %d", e.Taken, e.Field, -e.By)
	}
	return fmt.Sprintf("limit reached: %d of %d %s are left; asked for %d", e.Left, e.Limit, e.Field, e.By)
}

// Is has the error be an [ErrLimit].
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

func newLRU[K comparable, V any](most int) *lru.Cache[K, V] {
	values, err := lru.New[K, V](most)
	if err != nil {
		panic(err) // only for a size below one
	}
	return values
}
