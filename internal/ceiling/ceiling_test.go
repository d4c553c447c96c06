package ceiling_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/ceiling"
)

// Without a ceiling nothing is bounded, and nothing is counted.
func TestNoCeiling(t *testing.T) {
	t.Parallel()
	for _, b := range []*ceiling.Budget{nil, ceiling.New(ceiling.Rates{}), ceiling.New(ceiling.Rates{Logs: 1})} {
		b.Spend(ceiling.Writes, 1e12)
		b.Held()
		if b != nil || b.Take(ceiling.Writes, 1e12) != 0 || b.Until(ceiling.Reads, 1) != 0 || b.Short(ceiling.Writes) != 0 || !b.Has(ceiling.Bytes, 0) || !math.IsInf(b.Left(ceiling.Writes), 1) {
			t.Errorf("%+v bounds something", b)
		}
		if use, due := b.Tell(0); due {
			t.Errorf("used %+v", use)
		}
	}
	b := ceiling.New(ceiling.Rates{Writes: 1})
	if b.Spend(ceiling.Reads, 1e12); b.Until(ceiling.Reads, 1) != 0 || b.Bounds(ceiling.Reads) || !b.Bounds(ceiling.Writes) {
		t.Error("a unit that is left out has a bound")
	}
}

// What is earned and spent, second by second.
func TestBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := ceiling.New(ceiling.Rates{Writes: 10, Creates: 0.01})
		if left := b.Left(ceiling.Writes); left != 100 {
			t.Errorf("it begins with %v, want what 10 s earn", left)
		}
		if wait := b.Take(ceiling.Writes, 100); wait != 0 {
			t.Errorf("100 of 100: wait for %v", wait)
		}
		if wait := b.Take(ceiling.Writes, 2); wait != 200*time.Millisecond {
			t.Errorf("2 more: wait for %v, want what 2 take", wait)
		}
		b.Spend(ceiling.Writes, 50)
		if b.Has(ceiling.Writes, -5*time.Second) || !b.Has(ceiling.Writes, -6*time.Second) || b.Short(ceiling.Writes) != 10*time.Second {
			t.Errorf("50 are owed: %v, and short for %v", b.Left(ceiling.Writes), b.Short(ceiling.Writes))
		}
		if wait := b.Until(ceiling.Writes, 0); wait != 0 {
			t.Errorf("nothing is asked for: wait for %v", wait)
		}
		time.Sleep(time.Hour)
		if left := b.Left(ceiling.Writes); left != 6000 {
			t.Errorf("after an hour there are %v, want what ten minutes earn", left)
		}
		if wait := b.Take(ceiling.Writes, 10_000); wait != 0 || b.Left(ceiling.Writes) != -4000 {
			t.Errorf("more than it ever holds: wait for %v, %v left; want it taken from a full bucket, and 4,000 owed", wait, b.Left(ceiling.Writes))
		}
		b.Spend(ceiling.Writes, -4000) // promised, and not used
		if b.Left(ceiling.Writes) != 0 {
			t.Errorf("%v left", b.Left(ceiling.Writes))
		}
		for n, want := range []time.Duration{0, 0, 0, 0, 0, 0, 100 * time.Second} { // one at first, and six in ten minutes
			if wait := b.Take(ceiling.Creates, 1); wait != want {
				t.Errorf("creation %d: wait for %v, want %v", n, wait, want)
			}
		}
		use, due := b.Tell(time.Minute)
		if want := 100 + 50 + 10_000.0 - 4000; !due || use.Spent[ceiling.Writes] != want || use.Spent[ceiling.Creates] != 6 || use.Over != time.Hour || len(use.Spent) != 2 {
			t.Errorf("used %+v, %v; want %v writes", use, due, want)
		}
		if _, due := b.Tell(time.Minute); due {
			t.Error("it is told again at once")
		}
	})
}

// Over any time nobody takes more than the bucket held and has earned, whatever is asked for when.
func TestBudgetIsKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		second := rapid.SampledFrom([]float64{0.01, 0.5, 1, 7.5, 40, 20_000}).Draw(r, "second")
		type step struct{ ms, n int }
		steps := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) step {
			return step{rapid.IntRange(0, 5000).Draw(r, "ms"), rapid.IntRange(1, 600).Draw(r, "n")}
		}), 1, 200).Draw(r, "steps")
		wrong := ""
		synctest.Test(t, func(*testing.T) {
			b := ceiling.New(ceiling.Rates{Writes: second})
			began, taken, largest := time.Now(), 0.0, 0.0
			for _, s := range steps {
				time.Sleep(time.Duration(s.ms) * time.Millisecond)
				n := float64(s.n)
				wait := b.Take(ceiling.Writes, n)
				if wait == 0 {
					taken, largest = taken+n, max(largest, n)
				} else if time.Sleep(wait); b.Until(ceiling.Writes, n) != 0 {
					wrong = fmt.Sprintf("after %v there still isn't enough for %v", wait, n)
				}
			}
			most := max(1, second*ceiling.Begins.Seconds()) + time.Since(began).Seconds()*second
			if owed := max(0, largest-max(1, second*ceiling.Holds.Seconds())); taken > most+owed+1e-3 {
				wrong = fmt.Sprintf("%v were taken of %v", taken, most)
			}
		})
		if wrong != "" {
			r.Fatal(wrong)
		}
	})
}

// What may be missing of a promise is owed once, however many ask at the same time, and what must be left stays.
func TestOwe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const missing = 10
		b := ceiling.New(ceiling.Rates{Reads: 10})
		var all sync.WaitGroup
		for range 500 {
			all.Go(func() { b.Owe(ceiling.Amounts{ceiling.Reads: 1}, ceiling.Amounts{ceiling.Reads: missing}) })
		}
		all.Wait()
		if left := b.Left(ceiling.Reads); left != -missing {
			t.Errorf("%v are left", left)
		}
		time.Sleep(5 * time.Second)
		if b.Owe(ceiling.Amounts{ceiling.Reads: 21}, ceiling.Amounts{ceiling.Reads: -20}) || !b.Owe(ceiling.Amounts{ceiling.Reads: 20, ceiling.Writes: 1}, ceiling.Amounts{ceiling.Reads: -20}) {
			t.Errorf("of 40 with 20 that stay 20 are promised, and 21 aren't: %v are left", b.Left(ceiling.Reads))
		}
		b = nil
		if !b.Owe(ceiling.Amounts{ceiling.Reads: 1e12}, ceiling.Amounts{}) {
			t.Error("no budget bounds something")
		}
	})
}

// What is lent while a unit is short is paid back by half of what is earned: others have the other half, and whoever lends
// again has to wait for that. Who has asked for little lately is lent a little more.
func TestLend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const second = 10
		of, nothing := ceiling.Amounts{ceiling.Writes: 20}, ceiling.Amounts{}
		busy := ceiling.WithAsked(t.Context(), ceiling.LeavesFrom)
		b := ceiling.New(ceiling.Rates{Writes: second})
		lends := func(ctx context.Context, before ceiling.Amounts, want time.Duration) {
			t.Helper()
			left := b.Left(ceiling.Writes)
			err := b.Lend(ctx, "it", of, before)
			if short, is := errors.AsType[*ceiling.ShortError](err); is != (want > 0) || is && short.Wait.Round(time.Millisecond) != want {
				t.Errorf("lends: %v; want to wait %v", err, want)
			}
			if now := b.Left(ceiling.Writes); now != left {
				t.Errorf("%v are left after %v", now, left)
			}
		}
		if b.Lend(busy, "it", of, nothing); b.Left(ceiling.Writes) != second*ceiling.Begins.Seconds()-20 {
			t.Errorf("%v are left, as if it were short", b.Left(ceiling.Writes))
		}
		b.Spend(ceiling.Writes, b.Left(ceiling.Writes))
		lends(busy, nothing, 0)
		lends(busy, nothing, 4*time.Second)
		b.Release(of) // it took nothing in the end
		if left := b.Left(ceiling.Writes); left != 20 {
			t.Errorf("%v are left", left)
		}
		b.Spend(ceiling.Writes, 20)
		time.Sleep(time.Second)
		if left := b.Left(ceiling.Writes); left != second/2 {
			t.Errorf("%v are left a second later", left)
		}
		lends(busy, nothing, 3*time.Second)
		lends(busy, of, 0)                         // who has them
		lends(t.Context(), nothing, 2*time.Second) // 25 at most: 35 are lent
		time.Sleep(2 * time.Second)
		lends(t.Context(), nothing, 0)
		time.Sleep(9 * time.Second)
		lends(busy, nothing, 0)
		b = nil
		if err := b.Lend(busy, "it", of, nothing); err != nil {
			t.Error(err)
		}
	})
}
