package shards

import (
	"math/rand/v2"
	"time"

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
func (p limitedPlan) changed(where place) []seats.Shard {
	shards := make([]seats.Shard, len(p.Plan[where]))
	for i, change := range p.Plan[where] {
		shards[i] = p.shards[where][change.Shard]
	}
	return shards
}

// decide decides about requests by what is known of shards, and what all of them hold; nil if nobody has looked.
func decide(shards map[place][]seats.Shard, all map[place]escrow.Held, requests []*request) limitedPlan {
	known := map[place][]escrow.Held{}
	for where, list := range shards {
		for _, shard := range list {
			known[where] = append(known[where], shard.Held)
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
	for where, ask := range r.takes() {
		if all := p.all[where]; !all.Fits(ask) {
			field, _ := names.Fields.ByShard(where.field)
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
