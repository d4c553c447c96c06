package shards

import (
	"math/rand/v2"
	"time"

	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/layout"
)

// limitedPlan is what a batch commits to fields with limits.
type limitedPlan struct {
	escrow.Decision[place]
	shards map[place][]holding   // as they are known
	all    map[place]escrow.Held // what all shards hold, but for members where these are sums
	read   map[place]time.Time   // as of when that was
}

// decide decides about requests by what is known of shards.
func decide(shards map[place][]holding, looked bool, requests []*request) limitedPlan {
	p := limitedPlan{shards: shards, all: map[place]escrow.Held{}}
	known := map[place][]escrow.Held{}
	for at, of := range shards {
		for _, h := range of {
			known[at] = append(known[at], h.held)
		}
		p.all[at] = escrow.Sum(known[at]...)
	}
	asked := make([]escrow.Request[place], len(requests))
	for i, r := range requests {
		asked[i] = r.asks()
	}
	p.Decision = escrow.Decide(known, looked, asked, rand.IntN)
	return p
}

// fromKnown plans a batch by what is known of shards. It reports false where that takes a look at all of them.
func (k *knownShards) fromKnown(places []place, requests []*request) (p limitedPlan, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	shards := map[place][]holding{}
	for _, at := range places {
		known, _ := k.of.Get(at)
		shards[at] = known.sorted()
	}
	if p = decide(shards, false, requests); p.Look {
		return limitedPlan{}, false
	}
	k.takeOut(p)
	return p, true
}

// takeOut takes those out that a plan touches.
func (k *knownShards) takeOut(p limitedPlan) {
	for at, changes := range p.Plan {
		known, _ := k.of.Get(at)
		for _, c := range changes {
			delete(known, p.shards[at][c.Shard].shard)
		}
	}
}

// noRoom says why a request is refused by a plan; nil if it isn't.
func noRoom(names layout.Layout, r *request, p limitedPlan) *LimitError {
	for at, n := range r.asks() {
		all := p.all[at]
		if all.Fits(n) {
			continue
		}
		field, _ := names.Fields.Sum(at.field)
		full := &LimitError{Counter: at.counter, Field: field.Name, By: n.By(), Limit: all.Share, Left: all.Room(), Taken: all.Count}
		if full.By < 0 { // sums, by which takes are refused, leave members out
			full.Members, full.Held = all.Members, all.Holds
		}
		return full
	}
	return nil
}
