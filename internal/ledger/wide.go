package ledger

import "math"

// Add is the sum of all terms. A sum beyond the int64s is the largest or smallest int64, as with
// Firestore's own increments. The order of the terms doesn't matter.
func Add(terms ...int64) int64 {
	var w wide
	for _, n := range terms {
		w.add(n)
	}
	return w.clamp()
}

// Sub is a minus b, with the limits of [Add].
func Sub(a, b int64) int64 {
	var w wide
	w.add(a)
	w.sub(b)
	return w.clamp()
}

// Parts are int64s that add up to the sum of all terms: one, or as few as a sum beyond the int64s
// takes. They are never more than the terms.
func Parts(terms ...int64) (parts []int64) {
	var w wide
	for _, n := range terms {
		w.add(n)
	}
	for more := true; more; more = w.hi != 0 || w.lo != 0 {
		n := w.clamp()
		w.sub(n)
		w.hi, w.lo = w.hi+w.lo>>32, w.lo&math.MaxUint32
		parts = append(parts, n)
	}
	return parts
}

// wide is hi<<32 + lo, a sum of int64s. It doesn't overflow with fewer than 2³¹ terms, so their
// order doesn't matter.
type wide struct{ hi, lo int64 }

func (w *wide) add(n int64) { w.hi += n >> 32; w.lo += n & math.MaxUint32 }
func (w *wide) sub(n int64) { w.hi -= n >> 32; w.lo -= n & math.MaxUint32 }

func (w wide) clamp() int64 {
	hi, lo := w.hi+w.lo>>32, w.lo&math.MaxUint32
	switch {
	case hi > math.MaxInt32:
		return math.MaxInt64
	case hi < math.MinInt32:
		return math.MinInt64
	}
	return hi<<32 | lo
}
