package bench

import (
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
)

// meter watches every change of a contestant's Firestore.
type meter struct {
	mu      sync.Mutex
	markers int                  // documents that a TTL policy will delete
	lags    map[string]*lagMeter // :: counter that is followed
}

// lagMeter follows one counter: what its shards hold, and what its total does.
type lagMeter struct {
	base   int64  // what both held before
	shards []mark // what the shards have come to hold in all
	totals []mark // what the total has
}

// mark is a value since a time.
type mark struct {
	at    time.Time
	value int64
}

// see is called for every change, in the order of commits.
func (m *meter) see(c emulator.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.Old == nil && strings.Contains(c.Name, "/documents/"+layout.Requests+"/") {
		m.markers++
		return
	}
	_, path, _ := strings.Cut(c.Name, "/documents/counters/")
	counter, below, _ := strings.Cut(path, "/")
	l := m.lags[counter]
	switch {
	case l == nil:
	case below == "":
		total := field(c.New, layout.Total)
		if len(l.totals) == 0 || l.totals[len(l.totals)-1].value != total {
			l.totals = append(l.totals, mark{c.CommitTime, total})
		}
	case strings.HasPrefix(below, layout.DefaultShards+"/"):
		name := "count"
		if strings.Contains(below, "~") { // a shard of a field with a limit, which has its own name there
			name = layout.Total
		}
		delta := field(c.New, name) - field(c.Old, name)
		before := l.base
		if n := len(l.shards); n > 0 {
			before = l.shards[n-1].value
		}
		l.shards = append(l.shards, mark{c.CommitTime, before + delta})
	}
}

func field(d *firestorepb.Document, name string) int64 {
	return d.GetFields()[name].GetIntegerValue()
}

// follow begins to measure the lag of counters whose shards and totals are zero, instead of those
// before.
func (m *meter) follow(counters ...string) { m.followFrom(0, counters...) }

// followFrom is follow of counters whose shards, and totals, come to a number.
func (m *meter) followFrom(base int64, counters ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lags = make(map[string]*lagMeter, len(counters))
	for _, id := range counters {
		m.lags[id] = &lagMeter{base: base}
	}
}

// followed is what was measured of a counter since follow, so far.
func (m *meter) followed(counter string) lagMeter {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lags[counter]
	return lagMeter{base: l.base, shards: slices.Clip(l.shards), totals: slices.Clip(l.totals)}
}

func (m *meter) markerCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.markers
}

// lags are, for each commit on a shard, the time until the total was as large as the shards
// together were then. A commit that the total had not reached by the end has waited until the end,
// at least; open is how many those are.
//
// Nothing tells increments apart, so the first to be committed is taken to be the first in the
// total.
func (l lagMeter) lags(end time.Time) (lags []time.Duration, open int) {
	t := 0
	for _, s := range l.shards {
		for t < len(l.totals) && l.totals[t].value < s.value {
			t++
		}
		reached := end
		if t < len(l.totals) {
			reached = l.totals[t].at
		} else {
			open++
		}
		lags = append(lags, max(0, reached.Sub(s.at)))
	}
	return lags, open
}

// ageAt is how many seconds, at a time, the oldest commit had been waiting for that the total did
// not hold.
func (l lagMeter) ageAt(at time.Time) float64 {
	total := l.base
	for _, t := range l.totals {
		if t.at.After(at) {
			break
		}
		total = t.value
	}
	for _, s := range l.shards {
		if s.at.After(at) {
			break
		}
		if s.value > total {
			return at.Sub(s.at).Seconds()
		}
	}
	return 0
}

// writes is how often a second the total was written once it was hot, which is half a second after
// the first write, until the last one; zero for fewer than two.
func (l lagMeter) writes() float64 {
	hot := slices.IndexFunc(l.totals, func(m mark) bool { return m.at.Sub(l.totals[0].at) >= time.Second/2 })
	n := len(l.totals) - 1
	if hot < 0 || hot == n {
		return 0
	}
	return float64(n-hot) / l.totals[n].at.Sub(l.totals[hot].at).Seconds()
}
