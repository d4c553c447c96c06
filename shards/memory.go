package shards

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/firestore-counters/counters/internal/layout"
)

// Snapshot is a counter's document.
type Snapshot struct {
	Counter string `json:"counter"`
	// Total is that of the first field of shards, about a second old; if there is none, of the first
	// other integer; otherwise 0.
	Total int64 `json:"total"`
	// Totals are those of all fields by their names, if there are several; otherwise nil. Fields that
	// count documents are among them.
	Totals map[string]int64 `json:"totals,omitempty"`
	// Doubles are the fields that are no integers, such as rating=avg(ratings.stars), by their names:
	// nil for an average of nothing, and for what JSON has no number for. A total is among them whose
	// document holds a fraction, which something else has written: Total and Totals have its whole part.
	Doubles map[string]*float64 `json:"doubles,omitempty"`
	// NotCounted are fields that the roll-up has not written: they are new, the counter has others, or they hold
	// something else than a number, which no total replaces. Their totals are 0.
	NotCounted []string `json:"not_counted,omitempty"`
	// Limits are those of fields that have one (see [Counter.SetLimit]), by their names, about a second old. Left is
	// what the totals above leave of them: more may be taken by now.
	Limits map[string]int64 `json:"limits,omitempty"`
	Left   map[string]int64 `json:"left,omitempty"`

	NumShards int       `json:"num_shards"` // 0 where documents alone are counted
	UpdatedAt time.Time `json:"updated_at"` // when the total was last written
	// AsOf is the time as of which the totals are: they hold exactly what was committed by then (see
	// [Client.Apply]). It is the earliest of the fields that are shown, and zero where that is not known.
	AsOf time.Time `json:"as_of,omitzero"`

	Reads int64 `json:"-"` // what [Counter.Sum] was billed as, with an error too; 0 of others

	asOf map[string]time.Time // :: field → as of when it is
	// other numbers in the document, if no field that is asked for is there
	there  []string
	kept   []string // fields whose totals are counted and not shown, because no total replaces what they hold
	others error    // an [ErrOthers]: nothing is counted here
	bare   bool     // the document is there, and has no shards yet
}

// total is that of a field, or the only one.
func (s Snapshot) total(field string) int64 {
	if s.Totals == nil {
		return s.Total
	}
	return s.Totals[field]
}

// Of is the snapshot with the AsOf of a field.
func (s Snapshot) Of(field string) Snapshot {
	s.AsOf = s.asOf[field]
	return s
}

// earliest sets AsOf to the earliest of the fields, if it is known of each.
func (s *Snapshot) earliest(fields layout.Fields) {
	s.AsOf = time.Time{}
	for i, field := range fields {
		if field.LimitOf != "" { // which seldom changes
			continue
		}
		at, known := s.asOf[field.Name]
		if !known {
			s.AsOf = time.Time{}
			return
		}
		if i == 0 || at.Before(s.AsOf) {
			s.AsOf = at
		}
	}
}

// Counts says, as [ErrNotCounted], that fields are not counted in this counter, by their
// names, and what is.
func (s Snapshot) Counts(fields ...string) error {
	for _, field := range fields {
		if slices.Contains(s.NotCounted, field) && !slices.Contains(s.kept, field) {
			return fmt.Errorf("%w: %s; its document has %s (FIELDS says what is counted; the next roll-up brings what is new)",
				ErrNotCounted, field, cmp.Or(strings.Join(s.there, ", "), "no numbers"))
		}
	}
	return nil
}

// subtract works out what is left of the limits.
func (s *Snapshot) subtract() {
	if s.Limits == nil {
		return
	}
	s.Left = make(map[string]int64, len(s.Limits))
	for field, limit := range s.Limits {
		s.Left[field] = max(0, limit-s.total(field))
	}
}

// cachedCounters is how many counters a client remembers. One takes about 200 bytes.
const cachedCounters = 10_000

// cache is what a client remembers of counters that it has read lately.
type cache struct{ *lru.Cache[string, cached] }

// cached is a counter's document as it was read last.
type cached struct {
	Snapshot
	// When the read began: it may lack what was written since.
	read time.Time
}

func newCache() cache { return cache{newLRU[string, cached](cachedCounters)} }

func newLRU[K comparable, V any](most int) *lru.Cache[K, V] {
	values, err := lru.New[K, V](most)
	if err != nil {
		panic(err) // only for a size below one
	}
	return values
}

// put remembers a counter whose read began then, unless a later read is known.
func (c cache) put(s Snapshot, began time.Time) {
	if known, ok := c.Peek(s.Counter); !ok || !began.Before(known.read) {
		c.Add(s.Counter, cached{Snapshot: s, read: began})
	}
}

// within is a counter that was read within ttl.
func (c cache) within(ttl time.Duration, counter string) (known cached, ok bool) {
	known, ok = c.Get(counter)
	return known, ok && time.Since(known.read) <= ttl
}

// readsAtOnce is how many reads of unknown counters are under way at once.
const readsAtOnce = 4

// lookups find out which counters exist, many in one read. A call that comes after a read has begun waits for the next
// read, because somebody may have made the counter meanwhile.
type lookups struct {
	read func(counters []string) (there map[string]bool, err error)

	mu      sync.Mutex
	next    *lookup // has not begun; may be nil
	reading int
}

// lookup is a read of some counters.
type lookup struct {
	done  chan struct{}   // closed once the rest is known
	there map[string]bool // :: counter → whether it is there
	err   error
}

// ask waits until it is known which of the counters are there, or ctx ends.
func (l *lookups) ask(ctx context.Context, counters []string) (there map[string]bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	if l.next == nil {
		l.next = &lookup{done: make(chan struct{}), there: map[string]bool{}}
	}
	next := l.next
	for _, id := range counters {
		next.there[id] = false
	}
	if l.reading < readsAtOnce {
		l.reading++
		go l.run()
	}
	l.mu.Unlock()
	select {
	case <-next.done:
		return next.there, next.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run reads as long as there is something to read.
func (l *lookups) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.next != nil {
		begun := l.next
		l.next = nil
		l.mu.Unlock()
		begun.there, begun.err = l.read(slices.Collect(maps.Keys(begun.there)))
		close(begun.done)
		l.mu.Lock()
	}
	l.reading--
}
