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
	h := newHistogram()
	for i := range 1000 {
		record(h, time.Duration(1000-i)*time.Millisecond)
	}
	for q, want := range map[float64]float64{0: 0.001, 0.5: 0.5, 0.99: 0.99, 0.999: 0.999, 1: 1} {
		if got := quantile(h, q); math.Abs(got-want) > 0.001*want { // three digits
			t.Errorf("quantile %v = %v, want %v", q, got, want)
		}
	}
	if !math.IsNaN(quantile(newHistogram(), 0.5)) {
		t.Error("the median of nothing is a number")
	}
	record(h, time.Hour)
	record(h, -1)
	if h.TotalCount() != 1002 || quantile(h, 1) < 599 {
		t.Errorf("%d durations, the longest %v s; one that is out of range is left out", h.TotalCount(), quantile(h, 1))
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
	if diff := cmp.Diff([]time.Duration{250 * time.Millisecond, 1500 * time.Millisecond, time.Second, 7 * time.Second}, lags); diff != "" || open != 1 {
		t.Errorf("open %d, lags %s", open, diff)
	}
	for seconds, want := range map[float64]float64{0.2: 0.2, 0.3: 0, 1.5: 1, 2.5: 0, 5: 2} {
		if got := l.ageAt(at(seconds)); math.Abs(got-want) > 1e-9 {
			t.Errorf("age at %v s = %v, want %v", seconds, got, want)
		}
	}
	if got := l.writes(); got != 0 {
		t.Errorf("writes a second = %v of the first one and another", got)
	}
	l.totals = append(l.totals, mark{at(2.5), 6}, mark{at(4), 7})
	if got := l.writes(); math.Abs(got-1) > 1e-9 {
		t.Errorf("writes a second = %v, want two in the 2 s since it was hot", got)
	}
}

// Two counters: one whose total follows in two steps, and one whose total never comes.
func TestArrivals(t *testing.T) {
	t.Parallel()
	start := time.Now().Add(-time.Minute)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	m := &meter{lags: map[string]*lagMeter{
		"a": {shards: []mark{{at(0), 10}, {at(1), 190}}, totals: []mark{{at(0.05), 10}, {at(4), 190}}},
		"b": {shards: []mark{{at(1), 10}}},
	}}
	want := []Metric{
		{Name: "99 % after", Unit: "s", AtLeast: true}, {Name: "lag p99", Unit: "s", AtLeast: true}, one("in 100ms", "%", 5), one("in 1s", "%", 5), one("in 5s", "%", 95), one("in 10s", "%", 95),
	}
	got := m.arrivals([]string{"a", "b"}, start)
	for i := range 2 { // b's increment waits for as long as it is there
		if got[i].Median < 58 {
			t.Errorf("%s: %v s", got[i].Name, got[i].Median)
		}
		got[i].Measure = Measure{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = m.arrivals([]string{"a"}, start)
	if diff := cmp.Diff(one("99 % after", "s", 4), got[0]); diff != "" {
		t.Error(diff)
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
