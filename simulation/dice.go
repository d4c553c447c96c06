package simulation

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

// dice are random numbers that depend on what they are for and on nothing else.
func dice(seed uint64, what string, number uint64) *rand.Rand {
	h := fnv.New128a()
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], seed)
	binary.BigEndian.PutUint64(b[8:], number)
	_, _ = h.Write(b[:])
	_, _ = h.Write([]byte(what))
	sum := h.Sum(nil)
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:])))
}

// chance is true with probability p.
func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

// between is a number between two, as likely of one order of magnitude as of another.
func between[T time.Duration | float64](r *rand.Rand, least, most T) T {
	lo, hi := math.Log(float64(least)), math.Log(float64(most))
	return T(math.Exp(lo + r.Float64()*(hi-lo)))
}
