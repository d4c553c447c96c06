package shards

import (
	"math"
	"slices"

	"github.com/firestore-counters/counters/internal/groupcommit"
)

// maxWrites is about how many documents a commit writes at most. Firestore allows more; its 10 MiB
// would be reached at several thousand.
const maxWrites = 500

// gathering puts a batch together.
type gathering struct {
	*batch
	most     int              // requests
	sizes    map[place]uint64 // what is added there and taken off, without its sign
	counters map[string]bool
	keys     map[string]bool // and memberships: documents that a commit can write only once
}

func newGathering(most int) gathering {
	return gathering{batch: &batch{id: newID()}, most: most}
}

func (g *gathering) full() bool {
	return len(g.requests) == g.most || len(g.counters) >= groupcommit.MaxCounters
}

// take takes requests into the batch, oldest first, and returns those that are left: the batch is full,
// they have another time to end, or the same key or member, or a sum would not fit into an int64,
// whichever requests drop out. The first request always fits.
func (g *gathering) take(requests []*request) (left []*request) {
	if len(requests) == 1 && len(g.requests) == 0 {
		g.requests = requests // the usual case, which needs no maps
		return nil
	}
	for n, r := range requests {
		if len(g.requests) == g.most {
			return append(left, requests[n:]...)
		}
		if g.joins(r) {
			g.join(r)
			g.requests = append(g.requests, r)
		} else {
			left = append(left, r)
		}
	}
	return left
}

// joins reports whether a request can be part of the batch.
func (g *gathering) joins(r *request) bool {
	if g.sizes == nil {
		g.sizes, g.counters, g.keys = map[place]uint64{}, map[string]bool{}, map[string]bool{}
		for _, first := range g.requests {
			g.join(first)
		}
	}
	if len(g.requests) == 0 {
		return true
	}
	if !r.until.Equal(g.requests[0].until) {
		return false // who has left a batch has less time, and goes with those who left it too
	}
	own := r.documents()
	if slices.ContainsFunc(own, func(name string) bool { return g.keys[name] }) {
		return false
	}
	// with the request's own documents, and the batch's marker
	writes := len(g.counters) + len(g.keys) + len(own) + 1
	for _, sum := range r.sums {
		if !g.counters[sum.counter] {
			writes++
		}
		for _, a := range sum.amounts {
			if held := g.sizes[place{sum.counter, a.field}]; max(held, held+size(a.by)) > math.MaxInt64 { // of MinInt64 and itself that is 0
				return false
			}
		}
	}
	return writes <= maxWrites
}

func (g *gathering) join(r *request) {
	for _, sum := range r.sums {
		g.counters[sum.counter] = true
		for _, a := range sum.amounts {
			g.sizes[place{sum.counter, a.field}] += size(a.by)
		}
	}
	for _, own := range r.documents() {
		g.keys[own] = true
	}
}

// size is a number without its sign.
func size(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}
