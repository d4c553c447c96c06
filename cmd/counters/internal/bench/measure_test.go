package bench

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMeasure(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rounds []float64
		want   Measure
	}{
		{nil, Measure{}},
		{[]float64{math.NaN(), math.Inf(1)}, Measure{}},
		{[]float64{3}, Measure{Median: 3, Low: 3, High: 3, Rounds: 1}},
		{[]float64{9, 1, 2}, Measure{Median: 2, Low: 1, High: 9, Rounds: 3}},
		{[]float64{4, 1, 3, 2}, Measure{Median: 2.5, Low: 1, High: 4, Rounds: 4}},
	} {
		if diff := cmp.Diff(tt.want, measure(tt.rounds)); diff != "" {
			t.Errorf("%v: %s", tt.rounds, diff)
		}
	}
	if got := measure(ratios([]float64{10, 30, 20}, []float64{5, 10})); got.Median != 2.5 || got.Rounds != 2 {
		t.Errorf("ratios by round = %+v", got)
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	values := make([]float64, 1000)
	for i := range values {
		values[i] = float64(1000 - i)
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 500, 0.99: 990, 0.999: 999, 1: 1000} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile %v = %v, want %v", q, got, want)
		}
	}
	if !math.IsNaN(quantile(nil, 0.5)) {
		t.Error("the median of nothing is a number")
	}
}

// A total that follows in two steps, and leaves the last commit out.
func TestLags(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	l := lagMeter{
		shards: []mark{{at(0), 1}, {at(0.5), 2}, {at(1), 5}, {at(3), 6}},
		totals: []mark{{at(0.25), 1}, {at(2), 5}},
	}
	lags, open := l.lags(at(10))
	if diff := cmp.Diff([]float64{0.25, 1.5, 1, 7}, lags); diff != "" || open != 1 {
		t.Errorf("open %d, lags %s", open, diff)
	}
	for seconds, want := range map[float64]float64{0.2: 0.2, 0.3: 0, 1.5: 1, 2.5: 0, 5: 2} {
		if got := l.ageAt(at(seconds)); math.Abs(got-want) > 1e-9 {
			t.Errorf("age at %v s = %v, want %v", seconds, got, want)
		}
	}
	if got := l.writes(); math.Abs(got-1/1.75) > 1e-9 {
		t.Errorf("writes a second = %v, want one in 1.75 s", got)
	}
}

func TestBeyond(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ total, answered, sent, want int64 }{
		{100, 100, 100, 0}, {103, 100, 105, 0}, {99, 100, 105, -1}, {107, 100, 105, 2},
	} {
		if got := beyond(tt.total, tt.answered, tt.sent); got != tt.want {
			t.Errorf("a total of %d for %d answers of %d requests is off by %d, want %d", tt.total, tt.answered, tt.sent, got, tt.want)
		}
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 1: "1", -603: "-603", 0.04567: "0.046", 0.2534: "0.253", 1.5749: "1.57", 18.72: "18.7", 999.6: "1000", 1234.4: "1,234", 1234567: "1,234,567", -1234: "-1,234",
	} {
		if got := short(v); got != want {
			t.Errorf("short(%v) = %q, want %q", v, got, want)
		}
	}
}
