// Package groupcommit says when increments that are made at the same time share a commit, and so
// how many commits a second they come to. The queues of package shards go by its numbers, and the
// cost model by its three laws, which tests of shards hold against those queues.
package groupcommit

import (
	"math"
	"time"
)

const (
	// ManyWaiting and MaxInFlight: a counter has one commit in flight as long as few of its
	// requests wait. A second one would halve the wait of those that come in between, and double
	// the number of commits, which are what is billed. Once many wait, another commit costs next to
	// nothing for each of them, and doesn't wait for the one before.
	ManyWaiting = 64
	MaxInFlight = 4
	// FewCommits is how many commits of different counters are in flight before further counters
	// share one. Below it, the first request of a counter is committed at once.
	FewCommits = 4
	// SharedWait bounds how long a counter waits for one of those few to end, when they are slow.
	SharedWait = 10 * time.Millisecond
	// MaxCommits is how many of them are in flight at most, however slow.
	MaxCommits = 64
	// MaxCounters is how many counters share a commit at most, besides those of one call. One that
	// is in trouble costs the others another commit.
	MaxCounters = 64
)

// Rate is about how many commits a second one instance makes for one counter that gets increments
// at random times, rate of them a second, when each commit takes as long as given. An increment
// that finds no commit in flight begins one, and what comes meanwhile shares the next; where many
// wait, further commits are in flight beside it.
func Rate(rate float64, commit time.Duration) float64 {
	if rate <= 0 {
		return 0
	}
	seconds := commit.Seconds()
	one := 1 / (seconds + math.Exp(-rate*seconds)/rate) // a commit follows the last one at once unless nothing has come
	return max(one, min(rate/ManyWaiting, MaxInFlight/seconds))
}

// SharedRate is about how many commits a second one instance makes for several counters together,
// each of which gets increments at random times, rate of them a second: counters times [Rate] as
// long as few of those are in flight at once, and then far fewer, because counters share them. Each
// commit makes one marker, however many counters are in it.
func SharedRate(counters int, rate float64, commit time.Duration) float64 {
	alone := float64(counters) * Rate(rate, commit)
	seconds := commit.Seconds()
	if rate*seconds >= ManyWaiting {
		return alone // hot counters share no commits
	}
	// The few that are in flight follow one another without a pause; where they are slow, one more
	// begins whenever a counter has waited for long enough, as long as there is room.
	most := max(FewCommits/seconds, min(1/SharedWait.Seconds(), MaxCommits/seconds))
	return min(alone, max(most, alone/MaxCounters))
}

// Wait is about how long an increment waits, on average, until its own commit begins: for the
// commit of its counter that is in flight, or until many wait, and where counters share commits for
// the next of those. Counters, rate and commit are those of [SharedRate]. Half a commit's time is
// the most that sharing costs a counter alone.
func Wait(counters int, rate float64, commit time.Duration) time.Duration {
	own := Rate(rate, commit)
	if own <= 0 {
		return 0
	}
	seconds := commit.Seconds()
	// A commit in flight is met in so much of the time, and half of it is still to come. Of several
	// in flight, it is the next one that begins.
	wait := min(own*seconds*seconds/2, 1/(2*own))
	if shared := SharedRate(counters, rate, commit); shared < float64(counters)*own {
		wait += 1 / (2 * shared)
	}
	return time.Duration(wait * float64(time.Second))
}
