package rollup

import (
	"time"

	"github.com/firestore-counters/counters/internal/ledger"
)

// speaker decides on one instance when a flush of a counter speaks for all instances: when it takes a
// snapshot of the shards, which counts whatever was written before, whoever holds the event. Like the
// coalescer it holds no clock and starts nothing.
//
// A snapshot is worth its reads while others flush the counter too, and while events come late: a
// subscription that was quiet delivers a few at a time, and more only as these are acknowledged. A
// snapshot tells whether either goes on: it finds what no event has told in time. After three that
// found nothing, events are enough again.
//
// Who has just spoken flushes again an interval later; the others look a little after that. What they
// hold is counted then, and they write nothing. Where nobody has spoken since, they speak themselves: a
// speaker is no office, and one that dies costs that little while.
//
// Reads are bounded by events. Each event pays for one read of its counter's next snapshot, and for
// half a one of any counter's, from a purse that the instance has full to begin with: a crowd comes
// before it has paid. What can't be paid for isn't read. Then another instance speaks that can pay, and
// is waited for. Where nobody has for a while, instances take turns, each with what it holds itself: see
// share.
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
	// fullPurse are the reads that an instance may be ahead of its events, $0.0015 worth: enough for
	// five snapshots of a thousand shards, or one of 500 counters with ten shards each.
	fullPurse = 5000
	// A follower looks so long after the speaker's next flush is due, at random, so that the first
	// one to find that there is no speaker any more is done before the next one looks.
	soonest, spreadOver = 150 * time.Millisecond, 500 * time.Millisecond
	// believed is how many intervals after the last snapshot the next one is waited for.
	believed = 3
	// aloneAfter is how many intervals after another's flush an instance has a counter for itself.
	aloneAfter = 10
)

// purse is what an instance's counters may read beyond what their own events have paid, in half reads.
type purse int

// earn takes what an event pays.
func (s *speaker) earn(p *purse) {
	s.paid = min(s.paid+1, fullPurse)
	*p = min(*p+1, 2*fullPurse)
}

// reads is how many a snapshot may take now.
func (s *speaker) reads(p purse) int { return s.paid + max(0, int(p)/2) }

// pay takes the reads of a snapshot. Those that were in flight side by side may have been allowed the
// same of the purse: it is less than empty then, and they have read what later ones don't.
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

// news reports whether a snapshot tells of others, or of a subscription that is behind: something that
// no event has told in time, or a third of all. Less than that is on its way: of what was written in
// an interval of a second, a tenth of a second's.
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

// spokenFor reports whether somebody has spoken since an instance knew the floor of a ledger, the time of
// its last snapshot or, without one, when it was made. One that knew none can't tell.
func spokenFor(known, floor, made time.Time) bool {
	return !known.IsZero() && floor.After(known) && floor.After(made)
}

// hopes reports whether somebody else may be waited for who can pay for a snapshot, where this instance
// can't: one was taken lately, with a floor later than the time when the ledger was made.
func hopes(now, floor, made time.Time, interval time.Duration) bool {
	return floor.After(made) && now.Sub(floor) < believed*interval
}

// lookIn is how long to wait with what a speaker hasn't counted, so long after its last flush.
func lookIn(interval, ago time.Duration, spread float64) time.Duration {
	return max(0, interval-ago) + soonest + time.Duration(spread*float64(spreadOver))
}
