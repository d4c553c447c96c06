package simulation

import (
	"math"
	"math/bits"
)

// lives are what is known of how a counter's lives begin and end.
type lives struct {
	started   map[int64]bool // :: number that a creation is to start from → a commit has done so
	deletions int            // that were asked for, and not refused
	ended     int            // lives, by deletions
}

// start notes what a creation is to start from.
func (l *lives) start(b Begin) {
	if b.Start == 0 {
		return
	}
	if l.started == nil {
		l.started = map[int64]bool{}
	}
	l.started[b.Start] = false
}

// startedFrom reports whether a commit makes a counter from a number that a call asked for, which is
// done once: whatever becomes of the counter, it doesn't come back.
func (c *checker) startedFrom(id string, k *counter) (start int64, ok bool) {
	done, asked := k.lives.started[k.doc.Total]
	if done && !k.now().holds(k.doc.Total) {
		c.fail("%q is made twice from %d, which one call asked for", id, k.doc.Total)
	}
	if asked && !done {
		k.lives.started[k.doc.Total] = true
	}
	return k.doc.Total, asked && !done
}

// endedOnce checks that no more lives were ended than deletions were asked for. What an app's document
// has left, a reconcile ends too.
func (c *checker) endedOnce(id string, k *counter) {
	if c.hosted == nil && k.lives.ended > k.lives.deletions {
		c.fail("%d lives of %q are ended; %d deletions were asked for, and not refused", k.lives.ended, id, k.lives.deletions)
	}
}

// wide is a sum of int64s, which ends at the largest and the smallest. That is done here again, and not
// by the system's own code, so that a mistake there is no mistake here.
type wide struct {
	hi int64
	lo uint64
}

func (w *wide) add(n int64) {
	lo, carry := bits.Add64(w.lo, uint64(n), 0)
	w.lo, w.hi = lo, w.hi+n>>63+int64(carry)
}

func (w wide) int64() int64 {
	switch {
	case w.hi > 0 || w.hi == 0 && w.lo > math.MaxInt64:
		return math.MaxInt64
	case w.hi < -1 || w.hi == -1 && w.lo <= math.MaxInt64:
		return math.MinInt64
	}
	return int64(w.lo)
}

func wideOf(n int64) (w wide) { w.add(n); return w }

// and is the sum of both.
func (w wide) and(other wide) wide {
	lo, carry := bits.Add64(w.lo, other.lo, 0)
	return wide{w.hi + other.hi + int64(carry), lo}
}
