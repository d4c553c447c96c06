package shards

import (
	"maps"
	"math/rand/v2"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/escrow"
)

// limitedPlan is what a batch commits to counters with limits.
type limitedPlan struct {
	escrow.Decision[place]
	shards map[string][]holding  // :: counter with a limit → its shards, as they are known
	sums   map[place]escrow.Held // what all shards hold, but for members, where these are only some
	read   map[place]time.Time   // as of when all of them were read, or their sums
}

// held is what all shards hold of a field with a limit, as they are known. It reports false for others.
func (p limitedPlan) held(where place) (all escrow.Held, limited bool) {
	if sum, ok := p.sums[where]; ok {
		return sum, true
	}
	for _, h := range p.shards[where.counter] {
		of, has := h.fields[where.field]
		all, limited = escrow.Sum(all, of), limited || has
	}
	return all, limited
}

// touches are the shards of a counter that the plan is on condition of, by their indexes.
func (p limitedPlan) touches(counter string) map[int]bool {
	at := map[int]bool{}
	for place, changes := range p.Plan {
		for _, c := range changes {
			if place.counter == counter {
				at[c.Shard] = true
			}
		}
	}
	return at
}

// takers separates requests that only take from others, which a look for room doesn't decide about. Places are
// those with a limit, as far as is known, of which they take.
func (c *Client) takers(requests []*request) (takers, others []*request, places map[place]bool) {
	places = map[place]bool{}
	for _, r := range requests {
		from := c.takes(r)
		if len(from) == 0 {
			others = append(others, r)
			continue
		}
		takers = append(takers, r)
		for _, at := range from {
			places[at] = true
		}
	}
	return takers, others, places
}

// takes are the places with a limit of which a request takes. There are none if it gives back to one, or takes of
// none of a counter that has limits.
func (c *Client) takes(r *request) (places []place) {
	for _, sum := range r.sums {
		known, _ := c.known.Peek(sum.counter)
		before := len(places)
		for _, a := range sum.amounts {
			field, _ := c.db.Layout.Fields.Sum(a.field)
			_, limited := known.Limits[field.Name]
			switch {
			case limited && a.by <= 0: // of 0 there may be no shard with room
				return nil
			case limited:
				places = append(places, place{sum.counter, a.field})
			}
		}
		if known.limited && len(places) == before {
			return nil
		}
	}
	return places
}

// covers reports whether the shards have shares of no other places that requests ask of: one that got a limit
// lately.
func covers(places map[place]bool, shards map[string][]holding, requests []*request) bool {
	for _, r := range requests {
		for _, sum := range r.sums {
			for _, a := range sum.amounts {
				for _, h := range shards[sum.counter] {
					if _, limited := h.fields[a.field]; limited && !places[place{sum.counter, a.field}] {
						return false
					}
				}
			}
		}
	}
	return true
}

// decide decides about requests by what is known of shards, which may be none of places that have a limit.
func decide(shards map[string][]holding, looked bool, requests []*request, limited map[place]bool) limitedPlan {
	known := map[place][]escrow.Held{}
	for counter, of := range shards {
		fields := map[string]bool{}
		for _, h := range of {
			for field := range h.fields {
				fields[field] = true
			}
		}
		for field := range fields {
			held := make([]escrow.Held, len(of))
			for i, h := range of {
				held[i] = h.fields[field]
			}
			known[place{counter, field}] = held
		}
	}
	for at := range limited {
		if known[at] == nil {
			known[at] = []escrow.Held{}
		}
	}
	asked := make([]escrow.Request[place], len(requests))
	for i, r := range requests {
		asked[i] = escrow.Request[place]{}
		for _, sum := range r.sums {
			for _, a := range sum.amounts {
				if at := (place{sum.counter, a.field}); known[at] != nil {
					asked[i][at] = escrow.By(a.by, r.member != nil)
				}
			}
		}
	}
	return limitedPlan{Decision: escrow.Decide(known, looked, asked, rand.IntN), shards: shards}
}

// fromKnown plans a batch by what is known of the shards of counters with limits: by those that were last written
// before a time, or else by all, which it reports as busy. It reports false where that takes a look at others.
func (k *knownShards) fromKnown(counters []string, requests []*request, rested time.Time) (p limitedPlan, busy, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, busy := range []bool{false, true} {
		shards := map[string][]holding{}
		for _, counter := range counters {
			known, _ := k.of.Get(counter)
			for _, h := range known.sorted() {
				if busy || h.version.Before(rested) {
					shards[counter] = append(shards[counter], h)
				}
			}
		}
		if len(shards) < len(counters) {
			continue
		}
		if p := decide(shards, false, requests, nil); !p.Look {
			k.takeOut(p)
			return p, busy, true
		}
	}
	return limitedPlan{}, false, false
}

// takeOut takes those out that a plan touches.
func (k *knownShards) takeOut(p limitedPlan) {
	for counter, shards := range p.shards {
		known, _ := k.of.Get(counter)
		for at := range p.touches(counter) {
			delete(known, shards[at].shard)
		}
	}
}

// noRoom says why a request is refused by a plan; nil if it isn't.
func (c *Client) noRoom(r *request, p limitedPlan) error {
	for _, sum := range r.sums {
		for _, a := range sum.amounts {
			all, limited := p.held(place{sum.counter, a.field})
			if !limited || all.Fits(escrow.By(a.by, r.member != nil)) {
				continue
			}
			field, _ := c.db.Layout.Fields.Sum(a.field)
			full := &LimitError{Counter: sum.counter, Field: field.Name, By: a.by, Limit: all.Share, Left: all.Room(), Taken: all.Count}
			if a.by < 0 { // sums, by which takes are refused, leave members out
				full.Members = all.Members
			}
			return full
		}
	}
	return nil
}

// touch is a shard that a batch's commit writes.
type touch struct {
	counter string
	after   holding
	at      int // of the commit's writes
	write   book.HeldWrite
}

// touch is the write of a plan to a shard of a counter.
func (p limitedPlan) touch(counter string, shard int) *touch {
	h := p.shards[counter][shard]
	t := &touch{counter: counter, after: holding{shard: h.shard, version: h.version, fields: maps.Clone(h.fields)}}
	for place, changes := range p.Plan {
		for _, change := range changes {
			if place.counter != counter || change.Shard != shard {
				continue
			}
			before := t.after.fields[place.field]
			after := change.Of(before)
			t.write.Change(place.field, before, after)
			t.after.fields[place.field] = after
		}
	}
	return t
}
