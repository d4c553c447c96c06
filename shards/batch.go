package shards

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"sync/atomic"

	"github.com/firestore-counters/counters/internal/store"
)

// Increment is what is to be added to one counter.
type Increment struct {
	Counter string `json:"counter"`
	By      int64  `json:"by"` // negative to take off; not zero
}

// MaxIncrements is how many increments one call of [Client.AddAll] may have.
const MaxIncrements = 500

const (
	// maxWrites is about how many documents a commit writes at most, markers included. Firestore allows more; its limit
	// of 10 MiB for a commit would be reached at several thousand.
	maxWrites = 500
	// maxCounters is how many counters share a commit at most, besides those of one call. One that is in trouble costs
	// the others another commit.
	maxCounters = 64
)

// request is the increments of one call: all of them are applied, or none.
type request struct {
	increments []Increment // at most one per counter
	key        string      // id of its key's marker; "" without a key
	asked      string      // what is asked, hashed; "" without a key
	done       chan outcome

	// fate: a commit of it may have been sent, or its caller went away before. Whichever comes first
	// holds.
	fate atomic.Int32
}

const (
	committing int32 = iota + 1
	abandoned
)

// becomes reports whether a request's fate is that.
func (r *request) becomes(fate int32) bool {
	return r.fate.CompareAndSwap(0, fate) || r.fate.Load() == fate
}

// outcome is what became of a request.
type outcome struct {
	replayed bool // counted by an earlier call with the same key
	err      error
}

// newRequest makes a request of increments, those of the same counter taken together. A key counts within its scope,
// which names the collection too: several deployments may share the markers of one database.
func newRequest(path store.Path, increments []Increment, key Key, scope string) (*request, error) {
	if len(increments) == 0 || len(increments) > MaxIncrements {
		return nil, fmt.Errorf("%w: %d increments; want 1 to %d", ErrInvalidIncrement, len(increments), MaxIncrements)
	}
	if err := key.validate(); err != nil {
		return nil, err
	}
	for _, i := range increments {
		if err := path.Validate(i.Counter); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalidID, err)
		}
		if i.By == 0 {
			return nil, fmt.Errorf("%w: counter %q: by is 0", ErrInvalidIncrement, i.Counter)
		}
	}
	r := &request{increments: increments, done: make(chan outcome, 1)}
	if len(increments) > 1 {
		var err error
		if r.increments, err = merged(increments); err != nil {
			return nil, err
		}
	}
	if key.Value != "" {
		r.key = key.id(scope)
		r.asked = fingerprint(r.increments)
	}
	return r, nil
}

// merged sorts increments by counter and adds up those of the same one.
func merged(increments []Increment) ([]Increment, error) {
	sorted := append([]Increment(nil), increments...)
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].Counter < sorted[j].Counter })
	out := sorted[:1]
	for _, next := range sorted[1:] {
		last := &out[len(out)-1]
		if last.Counter != next.Counter {
			out = append(out, next)
			continue
		}
		var ok bool
		if last.By, ok = add(last.By, next.By); !ok {
			return nil, fmt.Errorf("%w: counter %q: the sum of its increments does not fit into an int64", ErrInvalidIncrement, next.Counter)
		}
	}
	return out, nil
}

// fingerprint tells requests apart that came under the same key.
func fingerprint(increments []Increment) string {
	parts := make([]string, 0, 2*len(increments))
	for _, i := range increments {
		parts = append(parts, i.Counter, strconv.FormatInt(i.By, 10))
	}
	return hash(parts...)
}

// touches returns a counter of the request for which the condition holds.
func (r *request) touches(is func(counter string) bool) (string, bool) {
	for _, i := range r.increments {
		if is(i.Counter) {
			return i.Counter, true
		}
	}
	return "", false
}

// batch is the requests that share one commit.
type batch struct {
	id       string // and that of the marker which its commits make
	requests []*request
}

// sums is what a batch adds to each counter. Each of them is written once.
func (b *batch) sums() []Increment {
	if len(b.requests) == 1 {
		return b.requests[0].increments
	}
	index := make(map[string]int, 1)
	var sums []Increment
	for _, r := range b.requests {
		for _, i := range r.increments {
			at, ok := index[i.Counter]
			if !ok {
				at = len(sums)
				index[i.Counter] = at
				sums = append(sums, Increment{Counter: i.Counter})
			}
			sums[at].By += i.By // gathering has made sure that it fits
		}
	}
	return sums
}

// gathering puts a batch together.
type gathering struct {
	batch    *batch
	most     int              // requests
	up, down map[string]int64 // :: counter → the sum of what is added, and of what is taken off
	keys     map[string]bool
}

func newGathering(most int) *gathering { return &gathering{batch: &batch{id: newID()}, most: most} }

func (g *gathering) full() bool { return len(g.batch.requests) == g.most || len(g.up) >= maxCounters }

// take takes requests into the batch, oldest first, and returns those that are left for a later one: because this one is
// full, has the same key, or would hold a sum that does not fit into an int64, whichever of its requests drop out of it.
// The batch's first request is always taken.
func (g *gathering) take(requests []*request) (left []*request) {
	if len(requests) == 1 && len(g.batch.requests) == 0 {
		g.batch.requests = requests // the usual case, which needs no maps
		return nil
	}
	for n, r := range requests {
		if len(g.batch.requests) == g.most {
			return append(left, requests[n:]...)
		}
		if g.joins(r) {
			g.join(r)
			g.batch.requests = append(g.batch.requests, r)
		} else {
			left = append(left, r)
		}
	}
	return left
}

// joins reports whether a request can be part of the batch.
func (g *gathering) joins(r *request) bool {
	if g.up == nil {
		g.up, g.down, g.keys = map[string]int64{}, map[string]int64{}, map[string]bool{}
		for _, first := range g.batch.requests {
			g.join(first)
		}
	}
	if len(g.batch.requests) == 0 {
		return true
	}
	if r.key != "" && g.keys[r.key] {
		return false
	}
	writes := len(g.up) + len(g.keys) + 2 // with the request's own marker, and the batch's
	for _, i := range r.increments {
		if _, there := g.up[i.Counter]; !there {
			writes++
		}
		if _, fits := add(g.up[i.Counter], max(i.By, 0)); !fits {
			return false
		}
		if _, fits := add(g.down[i.Counter], min(i.By, 0)); !fits {
			return false
		}
	}
	return writes <= maxWrites
}

func (g *gathering) join(r *request) {
	for _, i := range r.increments {
		g.up[i.Counter] += max(i.By, 0)
		g.down[i.Counter] += min(i.By, 0)
	}
	if r.key != "" {
		g.keys[r.key] = true
	}
}

// add reports false where the sum does not fit into an int64.
func add(a, b int64) (int64, bool) {
	if b > 0 && a > math.MaxInt64-b || b < 0 && a < math.MinInt64-b {
		return 0, false
	}
	return a + b, true
}
