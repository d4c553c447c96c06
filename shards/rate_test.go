//go:build !race

package shards

import (
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-counters/counters/internal/groupcommit"
)

// waits adds up how long increments take from the call to the answer.
type waits struct{ sum, n atomic.Int64 }

func (w *waits) add(q *queue, t *testing.T, counter string) {
	began := time.Now()
	q.await(t.Context(), &request{deltas: deltas{{counter, []amount{{"count", 1}}}}, done: make(chan outcome, 1)})
	w.sum.Add(int64(time.Since(began)))
	w.n.Add(1)
}

// check holds the mean against the formula: within a fifth of a commit's time, or of the wait
// itself.
func (w *waits) check(t *testing.T, counters int, rate float64, commit, interval time.Duration) {
	t.Helper()
	got := time.Duration(w.sum.Load()/w.n.Load()) - commit
	want := groupcommit.Wait(counters, rate, commit, interval)
	if (got - want).Abs() > max(commit, want)/5 {
		t.Errorf("%d counters with %v increments a second each, %v a commit, one each %v: they wait for %v on average, and the formula says %v", counters, rate, commit, interval, got, want)
	}
}

// The formulas against the queues themselves, with increments at random times.
func TestCommitRate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate             float64
		commit, interval time.Duration
	}{
		{1, 10 * time.Millisecond, 0}, {30, 30 * time.Millisecond, 0}, {100, 10 * time.Millisecond, 0}, {1000, 30 * time.Millisecond, 0},
		{1000, 200 * time.Millisecond, 0}, // a second commit begins where 64 wait
		{20_000, 30 * time.Millisecond, 0},
		{0.5, 10 * time.Millisecond, 50 * time.Millisecond}, {10, 10 * time.Millisecond, 50 * time.Millisecond},
		{100, 10 * time.Millisecond, 50 * time.Millisecond}, {1000, 10 * time.Millisecond, 50 * time.Millisecond},
		{20_000, 10 * time.Millisecond, 50 * time.Millisecond}, // full ones don't wait for it
		{1000, 200 * time.Millisecond, 100 * time.Millisecond}, // a second one begins where many wait, and not sooner
		{1000, 50 * time.Millisecond, 10 * time.Millisecond},   // the commit lasts longer
		{5000, 10 * time.Millisecond, 200 * time.Millisecond}, {0.2, 10 * time.Millisecond, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var commits atomic.Int64
			var waits waits
			q := newQueue(bounds{batch: 500, waiting: 1 << 20, interval: tt.interval}, func(f *flight) {
				commits.Add(1)
				time.Sleep(tt.commit)
				f.answer(outcome{})
			})
			dice := rand.New(rand.NewPCG(1, 2))
			began := time.Now()
			var adding sync.WaitGroup
			for range increments(tt.rate) {
				time.Sleep(time.Duration(dice.ExpFloat64() / tt.rate * float64(time.Second)))
				adding.Go(func() { waits.add(q, t, "a") })
			}
			adding.Wait()
			got := float64(commits.Load()) / time.Since(began).Seconds()
			q.close()
			waits.check(t, 1, tt.rate, tt.commit, tt.interval)
			if want := groupcommit.Rate(tt.rate, tt.commit, tt.interval); math.Abs(got-want) > 0.15*want {
				t.Errorf("%v increments a second, %v a commit, one each %v: %.1f commits a second, and the formula says %.1f", tt.rate, tt.commit, tt.interval, got, want)
			}
		})
	}
	if got := groupcommit.Rate(0, time.Second, 0); got != 0 {
		t.Errorf("without increments: %v commits a second", got)
	}
	if got := groupcommit.Wait(1, 0, time.Second, 0); got != 0 {
		t.Errorf("without increments they wait for %v", got)
	}
}

// rateIncrements are those of each row; there are four times as many of more than 1,000 a second, and 16 times of
// 10,000.
const rateIncrements = 2500

// increments are so many that there are many commits, at so many increments a second.
func increments(rate float64) int {
	switch {
	case rate >= 10_000: // of less than some seconds, the last commits' ends would be a part
		return 16 * rateIncrements
	case rate > 1000:
		return 4 * rateIncrements
	}
	return rateIncrements
}

// The same of many counters, which share commits.
func TestSharedRate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		counters int
		rate     float64 // of each
		commit   time.Duration
		within   float64
		interval time.Duration
	}{
		{1, 100, 10 * time.Millisecond, 0.15, 0},
		{1000, 0.02, 10 * time.Millisecond, 0.15, 0}, // hardly two at once
		{1000, 0.1, 10 * time.Millisecond, 0.15, 0},
		{1000, 0.4, 10 * time.Millisecond, 0.3, 0}, // about four at once: where it begins
		{1000, 1, 10 * time.Millisecond, 0.15, 0},
		{1000, 5, 10 * time.Millisecond, 0.15, 0},
		{100, 50, 10 * time.Millisecond, 0.15, 0},
		{1000, 1, 30 * time.Millisecond, 0.2, 0},
		{1000, 1, 200 * time.Millisecond, 0.2, 0}, // slow ones: whoever has waited begins another
		{10_000, 2, 10 * time.Millisecond, 0.15, 0},
		{100, 10, 10 * time.Millisecond, 0.15, 100 * time.Millisecond},
		{100, 50, 10 * time.Millisecond, 0.15, 50 * time.Millisecond},
		{10, 1000, 10 * time.Millisecond, 0.15, 50 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			var commits atomic.Int64
			var waits waits
			q := newQueue(bounds{batch: 500, waiting: 1 << 20, interval: tt.interval}, func(f *flight) {
				commits.Add(1)
				time.Sleep(tt.commit)
				f.answer(outcome{})
			})
			dice := rand.New(rand.NewPCG(1, 2))
			began := time.Now()
			var adding sync.WaitGroup
			for range increments(tt.rate * float64(tt.counters)) {
				time.Sleep(time.Duration(dice.ExpFloat64() / (tt.rate * float64(tt.counters)) * float64(time.Second)))
				counter := strconv.Itoa(dice.IntN(tt.counters))
				adding.Go(func() { waits.add(q, t, counter) })
			}
			adding.Wait()
			got := float64(commits.Load()) / time.Since(began).Seconds()
			q.close()
			if tt.counters <= 1000 { // with more, commits are full, and some wait for the one after next
				waits.check(t, tt.counters, tt.rate, tt.commit, tt.interval)
			}
			if want := groupcommit.SharedRate(tt.counters, tt.rate, tt.commit, tt.interval); math.Abs(got-want) > tt.within*want {
				t.Errorf("%d counters with %v increments a second each, %v a commit, one each %v: %.1f commits a second, and the formula says %.1f", tt.counters, tt.rate, tt.commit, tt.interval, got, want)
			}
		})
	}
}
