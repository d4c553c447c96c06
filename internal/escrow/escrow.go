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
	Holds   int64 // the part of Count that open holds have: it is given back with their records, and otherwise by nobody
	Share   int64 // how much may be taken
}

// Valid reports whether a shard holds what one can: what members and holds took is in Count, which Share bounds.
func (h Held) Valid() bool {
	return h.Members >= 0 && h.Holds >= 0 && h.Members <= h.Count && h.Holds <= h.Count-h.Members && h.Count <= h.Share
}

// Room is what is left.
func (h Held) Room() int64 { return h.Share - h.Count }

// Own is what callers took, and may give back.
func (h Held) Own() int64 { return h.Count - h.Members - h.Holds }

// Plus adds up what two hold, or what one holds and what is added to it.
func (h Held) Plus(more Held) Held {
	return Held{Count: h.Count + more.Count, Members: h.Members + more.Members, Holds: h.Holds + more.Holds, Share: h.Share + more.Share}
}

// Sum is what shards hold together.
func Sum(shards ...Held) (sum Held) {
	for _, s := range shards {
		sum = sum.Plus(s)
	}
	return sum
}

// Net is what requests take or give back together, and never both: see [Decide]. Each number is 0 or more.
type Net struct {
	Take, Give  int64 // by callers
	Join, Leave int64 // by members
	Hold        int64 // until a time, or until it is settled: see package hold
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

// By is the inverse of the function, but for who asks.
func (n Net) By() int64 { return n.Take + n.Join + n.Hold - n.Give - n.Leave }

func (n Net) plus(m Net) Net {
	return Net{Take: n.Take + m.Take, Give: n.Give + m.Give, Join: n.Join + m.Join, Leave: n.Leave + m.Leave, Hold: n.Hold + m.Hold}
}

// Fits reports whether shards that hold this together have room for it, and hold what is given back. A
// sum beyond an int64 doesn't fit.
func (h Held) Fits(n Net) bool {
	if n.Take < 0 || n.Give < 0 || n.Join < 0 || n.Leave < 0 || n.Hold < 0 { // a sum has wrapped, or -math.MinInt64 has
		return false
	}
	room := h.Room()
	return n.Give <= h.Own() && n.Leave <= h.Members && n.Take <= room && n.Join <= room-n.Take && n.Hold <= room-n.Take-n.Join
}

// Request is what one call asks of places, such as the fields of counters: all of it, or nothing.
type Request[P comparable] map[P]Net

// fits reports whether there is room in all places for the request, and for others.
func (r Request[P]) fits(held map[P]Held, others Request[P]) bool {
	for place, n := range r {
		if !held[place].Fits(n.plus(others[place])) {
			return false
		}
	}
	return true
}

// takes reports whether something is taken.
func (n Net) takes() bool { return n.Take > 0 || n.Join > 0 || n.Hold > 0 }

// mixes reports whether the request takes where others give back, or the other way round.
func (r Request[P]) mixes(others Request[P]) bool {
	for place, n := range r {
		if other, is := others[place]; is && other.takes() != n.takes() {
			return true
		}
	}
	return false
}

// Change is what a commit adds to a shard, on condition that the shard is as it was known.
type Change struct {
	Shard                 int // its index
	Count, Members, Holds int64
}

// Of is what a shard holds after the change.
func (c Change) Of(h Held) Held { return h.Plus(c.By()) }

// By is what the change adds.
func (c Change) By() Held { return Held{Count: c.Count, Members: c.Members, Holds: c.Holds} }

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
//
// No commit takes where it gives back. So a commit that takes of a place fails once all its shards together have less
// room than it takes: what was sent before such a look, and hasn't landed, never will, and a refusal is the last word.
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
	all := Request[P]{}
	for _, i := range fit {
		if requests[i].mixes(all) {
			continue
		}
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
			return []Change{{Shard: at, Count: n.By(), Members: n.Join - n.Leave, Holds: n.Hold}}
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
			apply(c, some)
			left[at] = c.Of(shards[at])
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
	part(n.Hold, Held.Room, func(c *Change, n int64) { c.Count += n; c.Holds += n })
	return changes
}

// Parts says where each of several holds has its amount, by the changes of a commit that takes all of them: by the
// shard's index, how much. Together they are what the changes add to holds.
func Parts(changes []Change, amounts []int64) []map[int]int64 {
	parts := make([]map[int]int64, len(amounts))
	left := slices.Clone(changes)
	for i, n := range amounts {
		parts[i] = map[int]int64{}
		for n > 0 {
			if len(left) == 0 {
				panic("escrow: holds have more than a commit takes for them")
			}
			some := min(n, left[0].Holds)
			if some > 0 {
				parts[i][left[0].Shard] += some
			}
			n, left[0].Holds = n-some, left[0].Holds-some
			if left[0].Holds == 0 {
				left = left[1:]
			}
		}
	}
	return parts
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
