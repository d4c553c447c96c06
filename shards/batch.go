package shards

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-counters/counters/internal/groupcommit"
	"github.com/firestore-counters/counters/internal/layout"
)

// Increment is what is to be added to one field of a counter.
type Increment struct {
	Counter string
	Field   string // its name in the counter's document; "" is the first that is counted
	By      int64  // negative to take off; not zero
}

// MaxIncrements is how many increments one call of [Client.AddAll] may have, of each counted field,
// and how many counters they may be of.
const MaxIncrements = 500

// maxWrites is about how many documents a commit writes at most, markers included. Firestore allows
// more; its limit of 10 MiB for a commit would be reached at several thousand.
const maxWrites = 500

// request is the increments of one call: all of them are applied, or none.
type request struct {
	increments []Increment // at most one per field of a counter, in the order of their counters
	key        string      // id of its key's marker; "" without a key
	asked      string      // fingerprint of what its key came with; "" without a key
	member     *membership // that is made or deleted with it; nil for an increment
	done       chan outcome
	late       <-chan struct{} // closed when its call is not to wait any longer; nil where its context says so

	line  *line     // where it stands, or stood last: the queue's
	alone bool      // it shares no commit with other counters: one that it has left, or is to be made
	until time.Time // when its batches must have ended; zero before the first of them
	// when its key's marker was made alone, so that commits which were in doubt are not applied;
	// zero where that was not so
	settled time.Time
}

// outcome is what became of a request.
type outcome struct {
	// counted by an earlier call with the same key; of a member: it was as asked already
	replayed bool
	pending  bool // the caller went away after its commit had begun: what becomes of it comes later
	err      error
}

// newRequest makes a request of increments, those of the same counter taken together. A key counts
// within its scope, the counter or [several].
func newRequest(names layout.Layout, increments []Increment, key Key, scope string) (*request, error) {
	if err := names.CheckSums(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidIncrement, err)
	}
	if most := MaxIncrements * len(names.Fields); len(increments) == 0 || len(increments) > most {
		return nil, fmt.Errorf("%w: %d increments; want 1 to %d", ErrInvalidIncrement, len(increments), most)
	}
	if err := key.Validate(); err != nil {
		return nil, err
	}
	written, own := increments, false
	for n, i := range increments {
		if err := names.Path.Validate(i.Counter); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalidID, err)
		}
		if i.By == 0 {
			return nil, fmt.Errorf("%w: counter %q: by is 0", ErrInvalidIncrement, i.Counter)
		}
		switch i.Field {
		case "":
		case names.Fields[0].Name:
			if !own {
				increments, own = slices.Clone(increments), true
			}
			increments[n].Field = "" // one name for it
		default:
			if err := names.CheckField(i.Field); err != nil {
				return nil, fmt.Errorf("%w: counter %q: %w", ErrInvalidIncrement, i.Counter, err)
			}
		}
	}
	r := &request{increments: increments, done: make(chan outcome, 1)}
	if len(increments) > 1 {
		var err error
		if r.increments, err = merged(increments); err != nil {
			return nil, err
		}
		if n := counters(r.increments); n > MaxIncrements {
			return nil, fmt.Errorf("%w: increments of %d counters; want 1 to %d", ErrInvalidIncrement, n, MaxIncrements)
		}
	}
	if key.Value != "" {
		r.key, r.asked = key.id(names, scope), fingerprint(written)
	}
	return r, nil
}

// merged sorts increments by counter and field, and adds up those of the same one.
func merged(increments []Increment) ([]Increment, error) {
	sorted := append([]Increment(nil), increments...)
	slices.SortStableFunc(sorted, func(a, b Increment) int {
		return cmp.Or(strings.Compare(a.Counter, b.Counter), strings.Compare(a.Field, b.Field))
	})
	out := sorted[:1]
	for _, next := range sorted[1:] {
		last := &out[len(out)-1]
		if last.Counter != next.Counter || last.Field != next.Field {
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

// counters is how many counters increments are of, which are in their order.
func counters(increments []Increment) (n int) {
	for i := range increments {
		if i == 0 || increments[i].Counter != increments[i-1].Counter {
			n++
		}
	}
	return n
}

// fingerprint is the same for the same increments in any order, as they were asked for: FIELDS may
// change between a request and its repetition, and with it what one that names no field is of.
func fingerprint(increments []Increment) string {
	sorted := slices.Clone(increments)
	slices.SortFunc(sorted, func(a, b Increment) int {
		return cmp.Or(strings.Compare(a.Counter, b.Counter), strings.Compare(a.Field, b.Field), cmp.Compare(a.By, b.By))
	})
	parts := make([]string, 0, 3*len(sorted))
	for _, i := range sorted {
		// always three: hash prefixes each with its length
		parts = append(parts, i.Counter, i.Field, strconv.FormatInt(i.By, 10))
	}
	return hash(parts...)
}

// document names what a request writes besides shards: its key's marker or its
// membership; "" is nothing.
func (r *request) document() string {
	if r.member != nil {
		return r.member.name
	}
	return r.key
}

// several is in the place of a counter's id, where there is more than one.
const several = ""

// counter is the only counter of a request, or several.
func (r *request) counter() string {
	if first := r.increments[0].Counter; first == r.increments[len(r.increments)-1].Counter {
		return first
	}
	return several
}

// group is what a request goes with alone: its counter, or itself, of several.
func (r *request) group() any {
	if counter := r.counter(); counter != several {
		return counter
	}
	return r
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

// sum is what a batch adds to a counter, in one write.
type sum struct {
	counter string
	fields  []Increment // one per field
}

// sums is what a batch adds to each counter.
func (b *batch) sums() []sum {
	if r := b.requests[0]; len(b.requests) == 1 && r.counter() != several {
		return []sum{{r.counter(), r.increments}}
	}
	index := make(map[string]int, 1)
	var sums []sum
	for _, r := range b.requests {
		for _, i := range r.increments {
			at, ok := index[i.Counter]
			if !ok {
				at = len(sums)
				index[i.Counter] = at
				sums = append(sums, sum{counter: i.Counter})
			}
			sums[at].add(i)
		}
	}
	return sums
}

func (s *sum) add(i Increment) {
	for n := range s.fields { // a few at most
		if s.fields[n].Field == i.Field {
			s.fields[n].By += i.By // gathering has made sure that it fits
			return
		}
	}
	s.fields = append(s.fields, i)
}

// gathering puts a batch together.
type gathering struct {
	batch    *batch
	most     int              // requests
	sizes    map[place]uint64 // what is added there and taken off, without its sign
	counters map[string]bool
	keys     map[string]bool // and memberships: documents that a commit can write only once
}

// place is a field of a counter.
type place struct{ counter, field string }

func newGathering(most int) *gathering { return &gathering{batch: &batch{id: newID()}, most: most} }

func (g *gathering) full() bool {
	return len(g.batch.requests) == g.most || len(g.counters) >= groupcommit.MaxCounters
}

// take takes requests into the batch, oldest first, and returns those that are left for a
// later one: because this one is full, has the same key or member, or would hold a sum that
// does not fit into an int64, whichever of its requests drop out of it. The batch's first
// request is always taken.
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
	if g.sizes == nil {
		g.sizes, g.counters, g.keys = map[place]uint64{}, map[string]bool{}, map[string]bool{}
		for _, first := range g.batch.requests {
			g.join(first)
		}
	}
	if len(g.batch.requests) == 0 {
		return true
	}
	if own := r.document(); own != "" && g.keys[own] {
		return false
	}
	// with the request's own document, and the batch's marker
	writes := len(g.counters) + len(g.keys) + 2
	for _, i := range r.increments {
		if !g.counters[i.Counter] {
			writes++
		}
		if held := g.sizes[place{i.Counter, i.Field}]; max(held, held+size(i.By)) > math.MaxInt64 { // of MinInt64 and itself that is 0
			return false
		}
	}
	return writes <= maxWrites
}

func (g *gathering) join(r *request) {
	for _, i := range r.increments {
		g.sizes[place{i.Counter, i.Field}] += size(i.By)
		g.counters[i.Counter] = true
	}
	if own := r.document(); own != "" {
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

// add reports false where the sum does not fit into an int64.
func add(a, b int64) (int64, bool) {
	if b > 0 && a > math.MaxInt64-b || b < 0 && a < math.MinInt64-b {
		return 0, false
	}
	return a + b, true
}
