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
