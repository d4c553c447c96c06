package bench

import (
	"math"
	"slices"
	"time"
)

// Measure is a figure that was taken once a round: the median of the rounds, the lowest and the highest.
type Measure struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Rounds int     `json:"rounds"` // 0 when nothing was measured
}

// measure summarizes the rounds, leaving out those in which nothing was measured.
func measure(rounds []float64) Measure {
	rounds = slices.DeleteFunc(slices.Clone(rounds), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	if len(rounds) == 0 {
		return Measure{}
	}
	slices.Sort(rounds)
	n := len(rounds)
	return Measure{Median: (rounds[(n-1)/2] + rounds[n/2]) / 2, Low: rounds[0], High: rounds[n-1], Rounds: n}
}

// ratios divides round by round.
func ratios(a, b []float64) []float64 {
	var out []float64
	for i := range min(len(a), len(b)) {
		out = append(out, a[i]/b[i])
	}
	return out
}

// quantile is the value that a share q of all values doesn't exceed; NaN for no values. It sorts them.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
}

// milliseconds are seconds as they are shown.
func milliseconds(seconds float64) float64 { return seconds * float64(time.Second/time.Millisecond) }
