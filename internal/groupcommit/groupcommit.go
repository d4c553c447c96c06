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
	// MaxRequests is how many requests share a commit, where nothing says less.
	MaxRequests = 500
)

// Rate is about how many commits a second one instance makes for one counter that gets increments
// at random times, rate of them a second, when each commit takes as long as given, and one begins
// at most every interval (0 is no bound). An increment that finds no commit in flight, and none
// begun within the interval, begins one; what comes meanwhile shares the next. Where many wait,
// further commits are in flight beside it, and one that is full doesn't wait for the interval.
func Rate(rate float64, commit, interval time.Duration) float64 {
	if rate <= 0 {
		return 0
	}
	// A commit follows the last one at once, or after the interval, unless nothing has come.
	seconds := max(commit, interval).Seconds()
	one := 1 / (seconds + math.Exp(-rate*seconds)/rate)
	most := MaxInFlight / commit.Seconds()
	many := min(rate/ManyWaiting, most)
	if interval > 0 {
		many = max(min(many, 1/interval.Seconds()), min(rate/MaxRequests, most))
	}
	return max(one, many)
}

// SharedRate is about how many commits a second one instance makes for several counters together,
// each of which gets increments at random times, rate of them a second: counters times [Rate] as
// long as few of those are in flight at once, and then far fewer, because counters share them. Each
// commit makes one marker, however many counters are in it.
func SharedRate(counters int, rate float64, commit, interval time.Duration) float64 {
	alone := float64(counters) * Rate(rate, commit, interval)
	if rate*max(commit, interval).Seconds() >= ManyWaiting {
		return alone // hot counters share no commits
	}
	// The few that are in flight follow one another without a pause; where they are slow, one more
	// begins whenever a counter has waited for long enough, as long as there is room.
	seconds := commit.Seconds()
	most := max(FewCommits/seconds, min(1/SharedWait.Seconds(), MaxCommits/seconds))
	return min(alone, max(most, alone/MaxCounters))
}

// Wait is about how long an increment waits, on average, until its own commit begins: for the
// commit of its counter that is in flight, for the end of the interval, or until many wait, and
// where counters share commits for the next of those. Counters, rate, commit and interval are those
// of [SharedRate]. Half a commit's time, or half an interval, is the most that sharing costs a
// counter alone.
func Wait(counters int, rate float64, commit, interval time.Duration) time.Duration {
	alone := Rate(rate, commit, interval)
	if alone <= 0 {
		return 0
	}
	seconds := max(commit, interval).Seconds()
	// A commit in flight, or an interval, is met in so much of the time, and half of it is still to
	// come. Of several in flight, it is the next one that begins.
	wait := min(alone*seconds*seconds/2, 1/(2*alone))
	if shared := SharedRate(counters, rate, commit, interval); shared < float64(counters)*alone {
		wait += 1 / (2 * shared)
	}
	return time.Duration(wait * float64(time.Second))
}
