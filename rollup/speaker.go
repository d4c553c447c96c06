package rollup

import (
	"time"

	"github.com/firestore-counters/counters/internal/ledger"
)

// speaker decides on one instance when a flush of a counter speaks for all: it takes a snapshot of the
// shards, which counts whatever was written before, whoever has the event. It has no clock and starts
// nothing.
//
// A snapshot is worth its reads while others flush the counter too, and while events come late: a quiet
// subscription delivers a few, and more only once these are acknowledged. Snapshots find out whether
// either goes on: after three without news, events are enough again.
//
// Who has just spoken flushes again an interval later, and the others look a little after that. If what
// they hold is counted, they write nothing. If not, they speak themselves. A speaker that dies costs
// that little while.
//
// Events pay for reads: each for one of its counter's next snapshot, and for half a one of any
// counter's, from a purse that is full at first, because a crowd comes before it has paid. If this
// instance can't pay, another speaks, and is waited for. If nobody has for a while, instances take
// turns: see share.
type speaker struct {
	worth int // snapshots, as far as is known
	paid  int // reads, by events since the last one
}

const (
	// lateAfter is how long after its document's write an event is late. A few hundredths of a second
	// are usual.
	lateAfter = 750 * time.Millisecond
	// lastSnapshots is how many have to find nothing.
	lastSnapshots = 3
	// fullPurse are the reads that an instance may be ahead of its events, $0.0015 worth: five
	// snapshots of a thousand shards, or one of each of 500 counters with ten shards.
	fullPurse = 5000
	// A follower looks so long after the speaker's next flush is due, at random: the first to find that
	// there is no speaker is done before the next looks.
	soonest, spreadOver = 150 * time.Millisecond, 500 * time.Millisecond
	// believed is how many intervals after the last snapshot the next one is waited for.
	believed = 3
	// aloneAfter is how many intervals after another's flush an instance has a counter for itself.
	aloneAfter = 10
)

// purse is what an instance may read beyond what its counters' own events have paid, in half reads.
type purse int

// earn takes what an event pays.
func (s *speaker) earn(p *purse) {
	s.paid = min(s.paid+1, fullPurse)
	*p = min(*p+1, 2*fullPurse)
}

// reads is how many a snapshot may take now.
func (s *speaker) reads(p purse) int { return s.paid + max(0, int(p)/2) }

// pay takes a snapshot's reads. Snapshots side by side may each have been allowed the same of the
// purse. Then it is less than empty, and later ones wait for it.
func (s *speaker) pay(p *purse, reads int) {
	own := min(s.paid, reads)
	s.paid -= own
	*p -= purse(2 * (reads - own))
}

// asked notes that others flush the counter, or that an event came late.
func (s *speaker) asked() { s.worth = lastSnapshots }

// spoke notes a snapshot that is counted, and whether it had news: what no event has told in time.
func (s *speaker) spoke(news bool) {
	if news {
		s.worth = lastSnapshots
	} else {
		s.worth = max(0, s.worth-1)
	}
}

// news reports whether a snapshot tells something that no event has told in time, or a third of all. A
// tenth or so of an interval's events are always on their way.
func news(told, later map[string]ledger.Entry, at time.Time) bool {
	untold := 0
	for key, e := range later {
		if _, is := told[key]; is {
			continue
		}
		if untold++; at.Sub(e.AsOf) > lateAfter {
			return true
		}
	}
	return untold > 1 && 3*untold > len(told)+untold
}

// spokenFor reports whether somebody has spoken since an instance knew the floor of a ledger, which a
// snapshot raises. An instance that knew none can't tell.
func spokenFor(known, floor, made time.Time) bool {
	return !known.IsZero() && floor.After(known) && floor.After(made)
}

// hopes reports whether to wait for another who can pay for a snapshot: the last one isn't long ago.
func hopes(now, floor, made time.Time, interval time.Duration) bool {
	return floor.After(made) && now.Sub(floor) < believed*interval
}

// lookIn is how long to wait with what a speaker hasn't counted, so long after its last flush.
func lookIn(interval, ago time.Duration, spread float64) time.Duration {
	return max(0, interval-ago) + soonest + time.Duration(spread*float64(spreadOver))
}
