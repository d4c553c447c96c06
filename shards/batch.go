package shards

import (
	"fmt"
	"math"
	"sort"
	"strconv"

	"github.com/firestore-counters/counters/internal/store"
)

// Increment is what is to be added to one counter.
type Increment struct {
	Counter string `json:"counter"`
	By      int64  `json:"by"` // negative to take off; not zero
}

// MaxIncrements is how many increments one call of [Client.AddAll] may have.
const MaxIncrements = 500

// maxWrites is about how many documents a commit writes at most, markers included. Firestore allows more; its limit of
// 10 MiB for a commit would be reached at several thousand.
const maxWrites = 500

// addition is the increments of one call: all of them are applied, or none.
type addition struct {
	increments []Increment // at most one per counter
	key        string      // id of its key's marker; "" without a key
	asked      string      // what is asked, hashed; "" without a key
	done       chan outcome
}

// outcome is what became of an addition.
type outcome struct {
	replayed bool // counted by an earlier call with the same key
	err      error
}

// newAddition makes an addition of increments, those of the same counter taken together. A key counts within its
// scope, which names the collection too: several deployments may share the markers of one database.
func newAddition(path store.Path, increments []Increment, key Key, scope string) (*addition, error) {
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
	a := &addition{increments: increments, done: make(chan outcome, 1)}
	if len(increments) > 1 {
		var err error
		if a.increments, err = merged(increments); err != nil {
			return nil, err
		}
	}
	if key.Value != "" {
		a.key = key.id(scope)
		a.asked = fingerprint(a.increments)
	}
	return a, nil
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
			return nil, fmt.Errorf("%w: counter %q: the sum of its increments is no int64", ErrInvalidIncrement, next.Counter)
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

// batch is the additions that share one commit.
type batch struct {
	id        string
	additions []*addition
}

// sums is what a batch adds to each counter. Each of them is written once.
func (b *batch) sums() []Increment {
	if len(b.additions) == 1 {
		return b.additions[0].increments
	}
	index := make(map[string]int, 1)
	var sums []Increment
	for _, a := range b.additions {
		for _, i := range a.increments {
			at, ok := index[i.Counter]
			if !ok {
				at = len(sums)
				index[i.Counter] = at
				sums = append(sums, Increment{Counter: i.Counter})
			}
			sums[at].By += i.By // takeBatch has made sure that it fits
		}
	}
	return sums
}

// takeBatch takes the additions of the next batch from a queue, oldest first, and returns those that are left. An
// addition waits for a later batch when this one is full, has the same key, or would hold a sum that is no int64. The
// first addition is always taken.
func takeBatch(queue []*addition, maxAdditions int) (*batch, []*addition) {
	b := &batch{id: newID()}
	sums := make(map[string]int64, 1)
	keys := make(map[string]bool)
	var left []*addition
	for n, a := range queue {
		if len(b.additions) == maxAdditions {
			left = append(left, queue[n:]...)
			break
		}
		if len(b.additions) > 0 && !joins(a, sums, keys) {
			left = append(left, a)
			continue
		}
		for _, i := range a.increments {
			sums[i.Counter] += i.By
		}
		if a.key != "" {
			keys[a.key] = true
		}
		b.additions = append(b.additions, a)
	}
	return b, left
}

// joins reports whether an addition can be part of a commit that has these sums and keys.
func joins(a *addition, sums map[string]int64, keys map[string]bool) bool {
	if a.key != "" && keys[a.key] {
		return false
	}
	writes := len(sums) + len(keys) + 2 // with the addition's own marker, and the batch's
	for _, i := range a.increments {
		sum, there := sums[i.Counter]
		if !there {
			writes++
		}
		if _, ok := add(sum, i.By); !ok {
			return false
		}
	}
	return writes <= maxWrites
}

// add reports false where the sum is no int64.
func add(a, b int64) (int64, bool) {
	if b > 0 && a > math.MaxInt64-b || b < 0 && a < math.MinInt64-b {
		return 0, false
	}
	return a + b, true
}
