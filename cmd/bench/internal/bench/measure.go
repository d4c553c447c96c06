package bench

import (
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Measure is a figure that was taken once a round: the median of the rounds, the lowest and the
// highest.
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

// newHistogram takes durations of 1 µs to 10 minutes, with three digits.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 600e6, 3) }

// record adds a duration; one that is out of range counts as the range's end.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), h.LowestTrackableValue()), h.HighestTrackableValue()))
}

// quantile is the duration in seconds that a share q of all doesn't exceed; NaN of none.
func quantile(h *hdrhistogram.Histogram, q float64) float64 {
	if h.TotalCount() == 0 {
		return math.NaN()
	}
	return float64(h.ValueAtQuantile(100*q)) / 1e6
}

// milliseconds are seconds as they are shown.
func milliseconds(seconds float64) float64 { return seconds * 1000 }
