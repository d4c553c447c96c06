// Package escrow says how a field with a limit is counted over shards: seats, tickets, a quota. It is
// pure, without client or clock; docs/spec/limits.tla specifies it.
//
// Each shard has a share beside its count (escrow: O'Neil 1986). The shares add up to the limit, and no
// shard counts more than its share. A commit is on condition of each shard that it touches, so it counts
// what [Decide] has planned, or nothing. What doesn't fit into one shard is spread over several in one
// commit, so shares only change with the limit. A request is refused after one look at all shards, or at their
// sums, at one time since it was made.
package escrow

import (
	"cmp"
	"slices"
)

// Held is what a shard holds of a field, or what several hold together.
type Held struct {
	Count   int64 // what is taken
	Members int64 // the part of Count that members took, one each: nobody else gives it back
	Share   int64 // how much may be taken
}

// Valid reports whether a shard holds what one can: 0 <= Members <= Count <= Share.
func (h Held) Valid() bool { return 0 <= h.Members && h.Members <= h.Count && h.Count <= h.Share }

// Room is what is left.
func (h Held) Room() int64 { return h.Share - h.Count }

// Own is what callers took, and may give back.
func (h Held) Own() int64 { return h.Count - h.Members }

// Sum is what shards hold together.
func Sum(shards ...Held) (sum Held) {
	for _, s := range shards {
		sum.Count, sum.Members, sum.Share = sum.Count+s.Count, sum.Members+s.Members, sum.Share+s.Share
	}
	return sum
}

// Net is what requests take and give back together. Each number is 0 or more. What is given back makes
// room for what is taken by the same commit.
type Net struct {
	Take, Give  int64 // by callers
	Join, Leave int64 // by members
}

// By is what one request asks: to take, or to give back where by is below 0.
func By(by int64, member bool) Net {
	switch {
	case member && by > 0:
		return Net{Join: by}
	case member:
		return Net{Leave: -by}
	case by > 0:
		return Net{Take: by}
	}
	return Net{Give: -by}
}

func (n Net) plus(m Net) Net {
	return Net{Take: n.Take + m.Take, Give: n.Give + m.Give, Join: n.Join + m.Join, Leave: n.Leave + m.Leave}
}

// Fits reports whether shards that hold this together have room for it, and hold what is given back. A
// sum beyond an int64 doesn't fit.
func (h Held) Fits(n Net) bool {
	if n.Take < 0 || n.Give < 0 || n.Join < 0 || n.Leave < 0 { // a sum has wrapped, or -math.MinInt64 has
		return false
	}
	taken := n.Take + n.Join
	return n.Give <= h.Own() && n.Leave <= h.Members && taken >= 0 && taken <= h.Room()+n.Give+n.Leave
}

// Request is what one call asks of places, such as the fields of counters: all of it, or nothing.
type Request[P comparable] map[P]Net

// fits reports whether there is room in all places, beside what is taken already.
func (r Request[P]) fits(held map[P]Held, beside Request[P]) bool {
	for place, n := range r {
		if !held[place].Fits(n.plus(beside[place])) {
			return false
		}
	}
	return true
}

// gives reports whether the request takes nothing.
func (r Request[P]) gives() bool {
	for _, n := range r {
		if n.Take > 0 || n.Join > 0 {
			return false
		}
	}
	return true
}

// Change is what a commit adds to a shard, on condition that the shard is as it was known. Both may be 0:
// what is taken there was given back by the same commit.
type Change struct {
	Shard          int // its index
	Count, Members int64
}

// Of is what a shard holds after the change.
func (c Change) Of(h Held) Held {
	h.Count, h.Members = h.Count+c.Count, h.Members+c.Members
	return h
}

// Decision is what follows for requests from what is known of the shards.
type Decision[P comparable] struct {
	Look    bool           // read all shards of all places, at one time, and decide again
	Refused []int          // requests, by their indexes, for which there was no room at the time of the look
	Taken   []int          // requests that the plan's commit counts; others wait for the next decision
	Plan    map[P][]Change // :: place → changes, one for each shard
}

// Decide says what to do for requests, by what is known of the shards of each place. Looked says that
// these are all shards, as of one time since the requests were made: then a request for which there was no
// room at that time is refused. One for which others of the same commit leave no room waits, because what
// there was may not go to them. Pick is a random number below n, by which commits that are sent side by
// side go to different shards.
func Decide[P comparable](known map[P][]Held, looked bool, requests []Request[P], pick func(n int) int) (d Decision[P]) {
	held := make(map[P]Held, len(known))
	for place, shards := range known {
		held[place] = Sum(shards...)
	}
	fit := make([]int, 0, len(requests))
	for i, r := range requests {
		switch {
		case r.fits(held, nil):
			fit = append(fit, i)
		case looked:
			d.Refused = append(d.Refused, i)
		default:
			return Decision[P]{Look: true}
		}
	}
	slices.SortStableFunc(fit, func(a, b int) int { // what is given back makes room
		return cmp.Compare(order(requests[a]), order(requests[b]))
	})
	all := Request[P]{}
	for _, i := range fit {
		if !requests[i].fits(held, all) {
			if !looked { // there may be more elsewhere
				return Decision[P]{Look: true}
			}
			continue
		}
		for place, n := range requests[i] {
			all[place] = all[place].plus(n)
		}
		d.Taken = append(d.Taken, i)
	}
	d.Plan = make(map[P][]Change, len(all))
	for place, n := range all {
		d.Plan[place] = Spread(known[place], n, pick)
	}
	return d
}

// order has what only gives back come first.
func order[P comparable](r Request[P]) int {
	if r.gives() {
		return 0
	}
	return 1
}

// Spread distributes what fits into shards together: to a random one where it fits into one, or else to as
// few as it takes. It panics where it doesn't fit.
func Spread(shards []Held, n Net, pick func(n int) int) (changes []Change) {
	first := 0
	if len(shards) > 1 {
		first = pick(len(shards))
	}
	for i := range shards {
		at := (first + i) % len(shards)
		if shards[at].Fits(n) {
			return []Change{{Shard: at, Count: n.Take + n.Join - n.Give - n.Leave, Members: n.Join - n.Leave}}
		}
	}
	left := slices.Clone(shards)
	index := map[int]int{} // :: shard → its change
	// part spreads a part of it, over those that have most for it
	part := func(n int64, has func(Held) int64, apply func(c *Change, n int64)) {
		order := make([]int, len(left))
		for i := range order {
			order[i] = (first + i) % len(left)
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(has(left[b]), has(left[a])) })
		for _, at := range order {
			some := min(n, has(left[at]))
			if some <= 0 {
				break
			}
			if _, is := index[at]; !is {
				index[at] = len(changes)
				changes = append(changes, Change{Shard: at})
			}
			c := &changes[index[at]]
			before := *c
			apply(c, some)
			left[at].Count += c.Count - before.Count
			left[at].Members += c.Members - before.Members
			n -= some
		}
		if n > 0 {
			panic("escrow: what is spread doesn't fit")
		}
	}
	part(n.Give, Held.Own, func(c *Change, n int64) { c.Count -= n })
	part(n.Leave, func(h Held) int64 { return h.Members }, func(c *Change, n int64) { c.Count -= n; c.Members -= n })
	part(n.Take, Held.Room, func(c *Change, n int64) { c.Count += n })
	part(n.Join, Held.Room, func(c *Change, n int64) { c.Count += n; c.Members += n })
	return changes
}

// Limit is by how much each share changes for a new limit, of all shards: it goes evenly to shards, or
// comes evenly from their room. It reports false where more than the new limit is taken.
func Limit(shards []Held, limit int64) (shares []int64, ok bool) {
	sum := Sum(shards...)
	if limit < sum.Count || len(shards) == 0 {
		return nil, false
	}
	shares = make([]int64, len(shards))
	if more := limit - sum.Share; more >= 0 {
		return Even(more, len(shards)), true
	}
	order := make([]int, len(shards)) // least room first: what one can't give, the others do
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(shards[a].Room(), shards[b].Room()) })
	less := sum.Share - limit
	for i, at := range order {
		others := int64(len(order) - i)
		part := min(shards[at].Room(), (less+others-1)/others)
		shares[at] -= part
		less -= part
	}
	return shares, true
}

// Even splits a number of 0 or more into parts that differ by 1 at most. Each part of a smaller number is
// no larger.
func Even(n int64, parts int) []int64 {
	of := make([]int64, parts)
	for i := range of {
		of[i] = n / int64(parts)
		if int64(i) < n%int64(parts) {
			of[i]++
		}
	}
	return of
}
