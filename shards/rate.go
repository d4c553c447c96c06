package shards

import (
	"math"
	"time"
)

// CommitRate is about how many commits a second one instance makes for one counter that gets increments at random times,
// rate of them a second, when each commit takes as long as given: what a cost or a number of shards is worked out from.
// An increment that finds no commit in flight begins one, and what comes meanwhile shares the next; where many wait,
// further commits are in flight beside it.
func CommitRate(rate float64, commit time.Duration) float64 {
	if rate <= 0 {
		return 0
	}
	seconds := commit.Seconds()
	one := 1 / (seconds + math.Exp(-rate*seconds)/rate) // a commit follows the last one at once unless nothing has come
	return max(one, min(rate/manyWaiting, maxInFlight/seconds))
}

// SharedRate is about how many commits a second one instance makes for several counters together, each of which gets
// increments at random times, rate of them a second: counters times [CommitRate] as long as few of those are in flight at
// once, and then far fewer, because counters share them. Each commit makes one marker, however many counters are in it.
func SharedRate(counters int, rate float64, commit time.Duration) float64 {
	alone := float64(counters) * CommitRate(rate, commit)
	seconds := commit.Seconds()
	if rate*seconds >= manyWaiting {
		return alone // hot counters share no commits
	}
	// The few that are in flight follow one another without a pause; where they are slow, one more begins whenever a
	// counter has waited for long enough, as long as there is room.
	most := max(fewCommits/seconds, min(1/sharedWait.Seconds(), maxCommits/seconds))
	return min(alone, max(most, alone/maxCounters))
}
