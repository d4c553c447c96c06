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

// Balance is what a shard counts of a field, or what several count together; or what is added to that.
type Balance struct {
	Count   int64 // what is taken
	Members int64 // the part of Count that members took, one each: nobody else gives it back
	Holds   int64 // the part of Count that open holds have: it is given back with their records, and otherwise by nobody
	Share   int64 // how much may be taken
}

// Valid reports whether a shard holds what one can: what members and holds took is in Count, which Share bounds.
func (h Balance) Valid() bool {
	return h.Members >= 0 && h.Holds >= 0 && h.Members <= h.Count && h.Holds <= h.Count-h.Members && h.Count <= h.Share
}

// Room is what is left.
func (h Balance) Room() int64 { return h.Share - h.Count }

// CallersOwn is what callers took, and may give back.
func (h Balance) CallersOwn() int64 { return h.Count - h.Members - h.Holds }

// Plus adds up what two hold, or what one holds and what is added to it.
func (h Balance) Plus(more Balance) Balance {
	return Balance{Count: h.Count + more.Count, Members: h.Members + more.Members, Holds: h.Holds + more.Holds, Share: h.Share + more.Share}
}

func (h Balance) minus(less Balance) Balance {
	return Balance{Count: h.Count - less.Count, Members: h.Members - less.Members, Holds: h.Holds - less.Holds, Share: h.Share - less.Share}
}

// Sum is what shards hold together.
func Sum(shards ...Balance) (sum Balance) {
	for _, s := range shards {
		sum = sum.Plus(s)
	}
	return sum
}

// By is what one request adds where by is above 0, and else gives back: for a caller, a member, or a hold.
func By(by int64, member, hold bool) Balance {
	ask := Balance{Count: by}
	if member {
		ask.Members = by
	}
	if hold {
		ask.Holds = by
	}
	return ask
}

// Fits reports whether shards that hold this together have room for what is asked, and hold what is given back. What
// is beyond an int64 doesn't fit: it wraps to less than nothing.
func (h Balance) Fits(ask Balance) bool { return h.Plus(ask).Valid() }

// part is as much of what one request asks as there is room for, or is there to be given back.
func (h Balance) part(ask Balance) Balance {
	most := max(ask.Count, -h.CallersOwn())
	switch {
	case ask.Count > 0:
		most = min(ask.Count, h.Room())
	case ask.Members != 0:
		most = max(ask.Count, -h.Members)
	}
	return By(most, ask.Members != 0, ask.Holds != 0)
}

// Request is what one call asks of places, such as the fields of counters: all of it, or nothing.
type Request[P comparable] map[P]Balance

// fits reports whether there is room in all places for the request, and for others.
func (r Request[P]) fits(balances, others map[P]Balance) bool {
	for place, ask := range r {
		if !balances[place].Plus(others[place]).Fits(ask) {
			return false
		}
	}
	return true
}

// mixes reports whether the request takes where others give back, or the other way round.
func (r Request[P]) mixes(others map[P]Balance) bool {
	for place, ask := range r {
		if other, is := others[place]; is && other.Count > 0 != (ask.Count > 0) {
			return true
		}
	}
	return false
}

// Addition is what a commit adds to a shard, on condition that the shard is as it was known.
type Addition struct {
	Shard int // its index
	By    Balance
}

// Decision is what follows for requests from what is known of the shards.
type Decision[P comparable] struct {
	Look    bool               // see what all shards of each place hold, at one time, and decide again
	Refused []int              // requests, by their indexes, for which there was no room at the time of the look
	Taken   []int              // requests that the plan's commit counts
	Waiting []int              // requests that the next decision is about, because of those that are taken
	Plan    map[P][]Addition   // :: place → changes, one for each shard
	Parts   map[P][][]Addition // :: place → the part of the plan that each of Taken has
}

// Decide says what to do for requests, by what is known of shards of each place. All is what all of its shards held
// together, at one time since the requests were made: a request for which there was no room at that time is refused.
// One for which there was some waits, if what is known has none, or others of the same commit leave none. Nil says that
// nobody has looked. Pick is a random number below n, by which commits that are sent side by side go to different
// shards.
//
// No commit takes where it gives back. So a commit that takes of a place fails once all its shards together have less
// room than it takes: what was sent before such a look, and hasn't landed, never will, and a refusal is the last word.
func Decide[P comparable](known map[P][]Balance, all map[P]Balance, requests []Request[P], pick func(n int) int) (d Decision[P]) {
	balances, taken := make(map[P]Balance, len(known)), map[P]Balance{}
	for place, shards := range known {
		balances[place] = Sum(shards...)
	}
	for i, r := range requests {
		mixes := r.mixes(taken)
		switch room := r.fits(balances, taken); {
		case all == nil && !(mixes && r.fits(balances, nil) || room): // there may be more elsewhere
			return Decision[P]{Look: true}
		case room && !mixes:
			for place, ask := range r {
				taken[place] = taken[place].Plus(ask)
			}
			d.Taken = append(d.Taken, i)
		case all != nil && !r.fits(all, nil):
			d.Refused = append(d.Refused, i)
		default:
			d.Waiting = append(d.Waiting, i)
		}
	}
	d.Plan, d.Parts = make(map[P][]Addition, len(taken)), make(map[P][][]Addition, len(taken))
	for place := range taken {
		asks := make([]Balance, len(d.Taken))
		for n, i := range d.Taken {
			asks[n] = requests[i][place]
		}
		d.Plan[place], d.Parts[place] = Spread(known[place], asks, pick)
	}
	return d
}

// Spread distributes over shards what they have together for what is asked: to a random one that has all of it, or else
// to few. It returns what is added to each shard, and of that the part of each who asks. It panics where it doesn't
// fit.
func Spread(shards, asks []Balance, pick func(n int) int) (plan []Addition, parts [][]Addition) {
	all, rest := Sum(asks...), slices.Clone(asks)
	if parts = make([][]Addition, len(asks)); all == (Balance{}) {
		return nil, parts
	}
	first := 0
	if len(shards) > 1 {
		first = pick(len(shards))
	}
	order := make([]int, len(shards)) // those that have most first
	for i := range order {
		order[i] = (first + i) % len(order)
	}
	if i := slices.IndexFunc(order, func(at int) bool { return shards[at].Fits(all) }); i >= 0 {
		order = order[i : i+1]
	} else {
		slices.SortStableFunc(order, func(a, b int) int {
			if all.Count > 0 {
				return cmp.Compare(shards[b].Room(), shards[a].Room())
			}
			return cmp.Compare(shards[b].Count, shards[a].Count)
		})
	}
	for _, at := range order {
		change := Addition{Shard: at}
		for i, ask := range rest {
			if by := shards[at].Plus(change.By).part(ask); by != (Balance{}) {
				rest[i], change.By = ask.minus(by), change.By.Plus(by)
				parts[i] = append(parts[i], Addition{at, by})
			}
		}
		if change.By != (Balance{}) {
			plan = append(plan, change)
		}
	}
	if Sum(rest...) != (Balance{}) {
		panic("escrow: what is spread doesn't fit")
	}
	return plan, parts
}

// ShareChanges is by how much each share changes for a new limit, of all shards: it goes evenly to shards, or
// comes evenly from their room. It reports false where more than the new limit is taken.
func ShareChanges(shards []Balance, limit int64) (shares []int64, ok bool) {
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
		part := min(shards[at].Room(), Even(less, len(order)-i)[0])
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
