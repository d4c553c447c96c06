package shards

import (
	"math/rand/v2"
	"time"

	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/seats"
)

// seen is what is known of a place.
type seen struct {
	shards []seats.Shard
	all    escrow.Held // what all shards held at a time, if that was looked for; of sums without what members and holds had of it
	at     time.Time   // that time
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

// decide decides about requests by what is known of places, or by what all of their shards hold, if that was looked
// for.
func decide(places map[place]seen, looked bool, requests []*request) limitedPlan {
	known, all := map[place][]escrow.Held{}, map[place]escrow.Held{}
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
