package cost

import (
	"math"
	"time"

	"github.com/firestore-counters/counters/internal/layout"
)

// What bounds a large deployment: Firestore's published limits, and what an instance was measured
// to do.
const (
	// LukewarmCounters is how many counters there are beside the hot one.
	LukewarmCounters = 1_000_000
	// HotShare is the hot counter's share of all increments.
	HotShare = 0.5

	// A new collection, and documents whose names are neighbours, take 500 operations a second to
	// begin with, and half as many again every five minutes. It is no rule for a database; here all
	// is new: https://cloud.google.com/firestore/docs/best-practices#ramping_up_traffic.
	rampStart, rampFactor, rampEvery = 500, 1.5, 5 * time.Minute

	// LargeCommit is how long a commit of production's lasts here, in one region, and LargeQuery a sum().
	LargeCommit = 40 * time.Millisecond
	LargeQuery  = LargeCommit

	// perIncrement and perRollup are how many increments and events a second an instance with one
	// CPU takes: less than docs/benchmarks.md has of cores that also ran the load and Firestore.
	perIncrement, perRollup = 8_000, 4_000
	// rollupFlushes is the default of ROLLUP_FLUSHES: roll-ups that one instance has in flight.
	rollupFlushes = 64
	// mostInstances is what Cloud Run lets a service grow to without asking for more.
	mostInstances = 1_000
)

// Large is a million lukewarm counters and a hot one under a rate of increments, and how far each
// bound is used: above 1 it does not hold.
type Large struct {
	Rate float64 `json:"rate"` // increments a second

	HotCommits float64       `json:"hot_commits_per_second"` // of the hot counter: writes of its shards
	Writes     float64       `json:"writes_per_second"`      // of the database
	Events     float64       `json:"events_per_second"`
	Increment  int           `json:"increment_instances"`
	Rollup     int           `json:"rollup_instances"`
	Ramp       time.Duration `json:"ramp_ns"` // until so many writes are taken, where all collections are new

	Shards, Increments, Rollups float64 `json:"-"` // shares of their bounds
}

// AtLarge works out what a rate of increments takes.
func AtLarge(rate float64) Large {
	l := Large{Rate: rate, Increment: int(math.Ceil(rate / perIncrement))}
	load := func(rate float64, counters int) Design {
		return Load{
			Rate: rate, Counters: counters, PerShard: HotRate, Commit: LargeCommit, Interval: time.Second, Instances: l.Increment,
		}.ours()
	}
	hot, lukewarm := load(rate*HotShare, 1), load(rate*(1-HotShare), LukewarmCounters)
	l.HotCommits = hot.Commits
	l.Writes = hot.Usage.Writes + lukewarm.Usage.Writes
	l.Events = hot.Commits + lukewarm.Commits
	refreshing := (hot.RollUps + lukewarm.RollUps) * (LargeQuery + LargeCommit).Seconds() / rollupFlushes
	l.Rollup = int(math.Ceil(max(l.Events/perRollup, refreshing)))
	if l.Writes > rampStart {
		l.Ramp = time.Duration(math.Ceil(math.Log(l.Writes/rampStart)/math.Log(rampFactor))) * rampEvery
	}
	l.Shards = l.HotCommits / (layout.MaxShards * HotRate)
	l.Increments, l.Rollups = float64(l.Increment)/mostInstances, float64(l.Rollup)/mostInstances
	return l
}

// LargeTable is [AtLarge] at rates from a thousand to a million increments a second: a table, and
// the points of a plot.
func LargeTable() []Large {
	var table []Large
	for _, rate := range []float64{1e3, 3e3, 1e4, 3e4, 1e5, 1.3e5, 3e5, 1e6} {
		table = append(table, AtLarge(rate))
	}
	return table
}

// Ramped is how much of what new collections take is used once they have grown for a while.
func (l Large) Ramped(after time.Duration) float64 {
	return l.Writes / (rampStart * math.Pow(rampFactor, math.Floor(float64(after)/float64(rampEvery))))
}
