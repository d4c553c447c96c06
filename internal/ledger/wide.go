package ledger

import (
	"math"
	"math/bits"
)

// Add is a plus b, or the largest or smallest int64 where the sum is beyond, as Firestore's own increments have it.
func Add(a, b int64) int64 {
	var w wide
	w.add(a)
	w.add(b)
	return w.clamp()
}

// Sub is a minus b, or the largest or smallest int64 where the difference is beyond.
func Sub(a, b int64) int64 {
	var w wide
	w.add(a)
	w.sub(b)
	return w.clamp()
}

// wide is a sum of int64s that doesn't overflow, so that the order of its terms doesn't matter.
type wide struct {
	hi int64
	lo uint64
}

func (w *wide) add(n int64) {
	var carry uint64
	w.lo, carry = bits.Add64(w.lo, uint64(n), 0)
	w.hi += n>>63 + int64(carry) // n with its sign extended
}

func (w *wide) sub(n int64) {
	var borrow uint64
	w.lo, borrow = bits.Sub64(w.lo, uint64(n), 0)
	w.hi -= n>>63 + int64(borrow)
}

func (w wide) clamp() int64 {
	switch n := int64(w.lo); {
	case w.hi == n>>63:
		return n
	case w.hi < 0:
		return math.MinInt64
	default:
		return math.MaxInt64
	}
}
