package shards

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/groupcommit"
)

// While there are few writes, what counts most for each of them goes first: a crowd of one counter is counted whole,
// and what is spread over many counters waits, and is then refused. The writes stay within the budget.
func TestBudgetLetsACrowdThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const writes, seconds = 40, 60
		budget := ceiling.New(ceiling.Rates{Writes: writes})
		var written, most, refused, counted atomic.Int64
		q := newQueue(bounds{batch: 500, waiting: 10_000, budget: budget}, func(f *flight) {
			n := int64(1 + len(f.deltas()))
			time.Sleep(10 * time.Millisecond)
			written.Add(n)
			budget.Spend(ceiling.Writes, float64(n))
			most.Store(max(most.Load(), int64(len(f.requests))))
			f.answer(outcome{})
		})
		var all sync.WaitGroup
		send := func(every time.Duration, add func(n int)) {
			all.Go(func() {
				for n := range int(seconds * time.Second / every) {
					time.Sleep(every)
					all.Go(func() { add(n) })
				}
			})
		}
		increment := func(counters ...string) outcome {
			r := &request{done: make(chan outcome, 1)}
			for _, counter := range counters {
				r.deltas = append(r.deltas, delta{counter, []amount{{"count", 1}}})
			}
			return q.await(t.Context(), r)
		}
		send(30*time.Millisecond, func(int) { // the crowd, whose line is never so long that it sends its own
			began := time.Now()
			if out := increment("hot"); out.err != nil || time.Since(began) > time.Second {
				t.Errorf("one of the crowd, after %v: %v", time.Since(began), out.err)
			}
		})
		flood := func(counters ...string) {
			began := time.Now()
			out := increment(counters...)
			if took := time.Since(began); out.err != nil && !errors.Is(out.err, ErrBusy) || took > waitsForWrites+2*looksAgainMax {
				t.Errorf("one of the flood, after %v: %v", took, out.err)
			}
			if out.err != nil {
				refused.Add(1)
			} else {
				counted.Add(1)
			}
		}
		dice := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		any := func() string {
			mu.Lock()
			defer mu.Unlock()
			return fmt.Sprint(dice.IntN(100_000))
		}
		send(5*time.Millisecond, func(int) { flood(any()) })
		send(50*time.Millisecond, func(int) {
			var counters []string
			for range 20 {
				counters = append(counters, any())
			}
			flood(counters...)
		})
		all.Wait()
		if got, bound := written.Load(), int64(writes*(seconds+ceiling.Begins.Seconds()+1)+500); got > bound || got < writes*seconds*3/4 {
			t.Errorf("%d documents were written, want at most %d, and not far less", got, bound)
		}
		if refused.Load() == 0 || counted.Load() == 0 {
			t.Errorf("of the flood %d were refused, and %d counted; want some of each", refused.Load(), counted.Load())
		}
		q.close()
		time.Sleep(restsForWrites)
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.waiting != 0 || len(q.ready) != 0 || len(q.short) != 0 || len(q.lines) != 0 {
			t.Errorf("%d wait still, %d ready, %d short, %d lines", q.waiting, len(q.ready), len(q.short), len(q.lines))
		}
	})
}

// Whoever waits for writes is counted when the queue closes: nothing that was accepted is lost, and nobody hangs.
func TestBudgetDoesNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budget := ceiling.New(ceiling.Rates{Writes: 1})
		budget.Spend(ceiling.Writes, 1000)
		var counted atomic.Int64
		q := newQueue(bounds{batch: 500, waiting: 10_000, budget: budget}, func(f *flight) {
			counted.Add(int64(len(f.requests)))
			f.answer(outcome{})
		})
		var all sync.WaitGroup
		for n := range 200 {
			all.Go(func() {
				r := &request{deltas: deltas{{"a", []amount{{"count", 1}}}}, done: make(chan outcome, 1)}
				if n%2 == 0 {
					r.deltas = append(r.deltas, delta{"b", []amount{{"count", 1}}})
				}
				if out := q.await(t.Context(), r); out.err != nil {
					t.Error(out.err)
				}
			})
		}
		time.Sleep(500 * time.Millisecond)
		began := time.Now()
		q.close()
		all.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the end took %v", took)
		}
		if counted.Load() != 200 {
			t.Errorf("%d were counted, want 200", counted.Load())
		}
	})
}

// Requests of many counters write no more shards than those of one each would: each has an event and a roll-up of its
// own, and Rollup may show no more.
func TestBudgetOfManyCountersARequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const writes, seconds = 100, 60
		budget := ceiling.New(ceiling.Rates{Writes: writes})
		var written atomic.Int64
		q := newQueue(bounds{batch: 500, waiting: 10_000, budget: budget}, func(f *flight) {
			n := int64(len(f.deltas()))
			budget.Spend(ceiling.Writes, float64(1+n)) // with a marker
			written.Add(n)
			f.answer(outcome{})
		})
		var all sync.WaitGroup
		for n := range 20 * seconds {
			time.Sleep(time.Second / 20)
			all.Go(func() {
				r := &request{done: make(chan outcome, 1)}
				for c := range 20 {
					r.deltas = append(r.deltas, delta{fmt.Sprint(n, " ", c), []amount{{"count", 1}}})
				}
				if out := q.await(t.Context(), r); out.err != nil && !errors.Is(out.err, ErrBusy) {
					t.Error(out.err)
				}
			})
		}
		all.Wait()
		if got, most := float64(written.Load()), writes/2*(seconds+ceiling.Begins.Seconds()+1); got > most || got < most/2 {
			t.Errorf("%v shards were written in %d s, want at most %v, and not far less", got, seconds, most)
		}
		q.close()
	})
}

// Each field beyond the first that a counter's requests add to counts as a document, whether in one request or in
// several: the roll-up asks for its sum. So does each counter of a request that stands in the line of another one.
func TestBudgetOfFields(t *testing.T) {
	t.Parallel()
	of := func(counter string, fields ...int) delta {
		s := delta{counter: counter}
		for _, field := range fields {
			s.amounts = append(s.amounts, amount{fmt.Sprint("f", field), 1})
		}
		return s
	}
	for name, c := range map[string]struct {
		requests []deltas // that wait together
		kept     float64
	}{
		"one field":              {[]deltas{{of("a", 1)}}, 2},
		"ten fields":             {[]deltas{{of("a", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)}}, 11},
		"ten requests":           {[]deltas{{of("a", 1)}, {of("a", 1)}, {of("a", 2)}, {of("a", 2, 3)}}, 4},
		"several counters":       {[]deltas{{of("a", 1), of("b", 1, 2), of("c", 3)}}, 7},
		"several beside a crowd": {[]deltas{{of("a", 1)}, {of("a", 1), of("b", 1, 2)}}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				budget := ceiling.New(ceiling.Rates{Writes: 100})
				var batches []int
				q := newQueue(bounds{batch: 500, waiting: 10_000, budget: budget}, func(f *flight) {
					time.Sleep(time.Second)
					batches = append(batches, len(f.requests))
					budget.Spend(ceiling.Writes, float64(1+len(f.deltas()))) // with a marker
					f.answer(outcome{})
				})
				q.troubled.remember("a", time.Hour) // whose line others join who name it
				var all sync.WaitGroup
				for _, s := range append([]deltas{{of("a", 1)}}, c.requests...) { // which go once the first is over
					all.Go(func() {
						if out := q.await(t.Context(), &request{deltas: s, done: make(chan outcome, 1)}); out.err != nil {
							t.Error(out.err)
						}
					})
					synctest.Wait()
				}
				all.Wait()
				synctest.Wait()
				if use, _ := budget.Tell(0); use.Spent[ceiling.Writes] != 2+c.kept || len(batches) != 2 {
					t.Errorf("%v are spent by batches of %v requests; want 2 and %v", use.Spent[ceiling.Writes], batches, c.kept)
				}
				q.close()
			})
		})
	}
}

// A caller of a key who gives up, after its batch has left it waiting once more, takes nobody else's outcome with it.
func TestCallsOfOneKeyGoOnApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budget := ceiling.New(ceiling.Rates{Writes: 10})
		var batches atomic.Int64
		q := newQueue(bounds{batch: 500, waiting: 10_000, budget: budget}, func(f *flight) {
			time.Sleep(100 * time.Millisecond)
			if batches.Add(1) == 2 {
				f.due(time.Now().Add(time.Minute))
				budget.Spend(ceiling.Writes, 150) // what has left waits for these
				return
			}
			f.answer(outcome{})
			f.requests = nil
		})
		var all sync.WaitGroup
		var counted, replayed atomic.Int64
		ctx, gone := context.WithCancel(t.Context())
		for n := range 4 { // the first goes at once, the others together
			ctx, key := ctx, "k"
			if n != 1 {
				ctx = t.Context()
			}
			if n == 0 {
				key = "before"
			}
			all.Go(func() {
				switch out := q.await(ctx, &request{deltas: deltas{{"a", []amount{{"count", 1}}}}, key: key, done: make(chan outcome, 1)}); {
				case n == 1 && errors.Is(out.err, ErrBusy):
				case out.err != nil:
					t.Error(n, out.err)
				case out.already:
					replayed.Add(1)
				default:
					counted.Add(1)
				}
			})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		gone()
		all.Wait()
		if counted.Load() != 2 || replayed.Load() != 1 || batches.Load() != 3 {
			t.Errorf("%d counted, %d replays, of %d batches", counted.Load(), replayed.Load(), batches.Load())
		}
		q.close()
	})
}

// What doesn't fit into a batch pays nothing for it, or whoever sends requests of hundreds of counters would have the
// budget pay for them again and again.
func TestBudgetOfWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budget := ceiling.New(ceiling.Rates{Writes: 1000})
		q := newQueue(bounds{batch: 500, waiting: 10_000, budget: budget}, func(f *flight) {
			time.Sleep(time.Millisecond)
			budget.Spend(ceiling.Writes, float64(1+len(f.deltas()))) // with a marker
			f.answer(outcome{})
		})
		var all sync.WaitGroup
		send := func(name string, counters int) {
			r := &request{done: make(chan outcome, 1)}
			for c := range counters {
				r.deltas = append(r.deltas, delta{fmt.Sprint(name, " ", c), []amount{{"count", 1}}})
			}
			all.Go(func() {
				if out := q.await(t.Context(), r); out.err != nil {
					t.Error(out.err)
				}
			})
			synctest.Wait()
		}
		for n := range groupcommit.FewCommits {
			send(fmt.Sprint("few-", n), 1)
		}
		const requests, counters = 6, 300
		for n := range requests {
			send(fmt.Sprint("large-", n), counters)
		}
		all.Wait()
		synctest.Wait()
		if use, _ := budget.Tell(0); use.Spent[ceiling.Writes] != 2*(groupcommit.FewCommits+requests*counters) {
			t.Errorf("%v are spent, want 2 for each of %d counters", use.Spent[ceiling.Writes], groupcommit.FewCommits+requests*counters)
		}
		q.close()
	})
}

// Those of a counter who have a key each cost a write each, and a crowd of the counter passes those for whom there is
// none. They also make the crowd count no less than others who wait.
func TestBudgetLetsACrowdPassKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const crowd, keys = 20, 300
		budget := ceiling.New(ceiling.Rates{Writes: 3})
		budget.Spend(ceiling.Writes, budget.Left(ceiling.Writes)-1)
		var first []*request
		q := newQueue(bounds{batch: 500, waiting: 10_000, budget: budget}, func(f *flight) {
			if first == nil {
				first = f.requests
			}
			f.answer(outcome{})
		})
		var all sync.WaitGroup
		send := func(counter, key string, asked float64) {
			all.Go(func() {
				q.await(ceiling.WithAsked(t.Context(), asked), &request{deltas: deltas{{counter, []amount{{"count", 1}}}}, key: key, done: make(chan outcome, 1)})
			})
			synctest.Wait()
		}
		send("other", "", 0)
		for n := range keys {
			send("hot", fmt.Sprint(n), float64(30*min(n/2, 1)))
		}
		for range crowd {
			send("hot", "", 0)
		}
		all.Wait()
		if q.close(); len(first) != 1+crowd || first[0].deltas[0].counter != "hot" {
			t.Errorf("the first batch has %d requests, want one with a key, and a crowd of %d", len(first), crowd)
		}
	})
}

// Who costs a write more than a crowd of the counter goes along once there is one, and isn't refused because each batch
// goes when there are just enough for the crowd. The crowd doesn't wait until it is refused for that.
func TestBudgetHasRoomForOneBesideACrowd(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]func(n int) *request{
		"with a key": func(n int) *request {
			return &request{deltas: deltas{{"hot", []amount{{"count", 1}}}}, key: fmt.Sprint(n), done: make(chan outcome, 1)}
		},
		"of another field": func(int) *request {
			return &request{deltas: deltas{{"hot", []amount{{"views", 1}}}}, done: make(chan outcome, 1)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				budget := ceiling.New(ceiling.Rates{Writes: 3.09}) // $5 a day
				budget.Spend(ceiling.Writes, budget.Left(ceiling.Writes))
				q := newQueue(bounds{batch: 500, waiting: 10_000, budget: budget, fields: 2}, func(f *flight) {
					time.Sleep(10 * time.Millisecond)
					budget.Spend(ceiling.Writes, float64(len(f.deltas())+len(f.markers())))
					f.answer(outcome{})
				})
				var all sync.WaitGroup
				var refused, ones atomic.Int64
				for n := range 40 * 80 {
					time.Sleep(time.Second / 80)
					all.Go(func() {
						r := &request{deltas: deltas{{"hot", []amount{{"count", 1}}}}, done: make(chan outcome, 1)}
						if out := q.await(t.Context(), r); out.err != nil {
							refused.Add(1)
						}
					})
					if n%83 == 40 {
						all.Go(func() {
							if out := q.await(t.Context(), one(n)); out.err != nil {
								ones.Add(1)
							}
						})
					}
				}
				all.Wait()
				if q.close(); ones.Load() > 0 || refused.Load() > 0 {
					t.Errorf("%d of 38 were refused, and %d of the crowd", ones.Load(), refused.Load())
				}
			})
		})
	}
}

// While there are few writes, who has asked for least lately goes first: in the line of a counter, and where others wait
// that go alone.
func TestBudgetGoesToWhoHasAskedForLeast(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]func(r *request){
		"of the same counter": func(*request) {},
		"of others":           func(r *request) { r.deltas[0].counter = "other " + r.key },
		"that go alone":       func(r *request) { r.deltas[0].counter, r.alone = "alone", true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				budget := ceiling.New(ceiling.Rates{Writes: 3})
				q := newQueue(bounds{batch: 500, waiting: 10_000, budget: budget}, func(f *flight) {
					time.Sleep(10 * time.Millisecond)
					budget.Spend(ceiling.Writes, float64(len(f.deltas())+len(f.markers())))
					f.answer(outcome{})
				})
				var all sync.WaitGroup
				send := func(n int, asked float64, of func(r *request)) {
					all.Go(func() {
						r := &request{deltas: deltas{{"hot", []amount{{"count", 1}}}}, key: fmt.Sprint(asked, " ", n), done: make(chan outcome, 1)}
						of(r)
						if out := q.await(ceiling.WithAsked(t.Context(), asked), r); out.err != nil && asked == 0 {
							t.Errorf("one who asks for the first time: %v", out.err)
						}
					})
				}
				for n := range 2000 {
					time.Sleep(20 * time.Millisecond)
					send(n, 30, busy)
					if n%70 == 69 { // it takes 3 writes, of which one is given back: what 0.7 s earn
						send(n, 0, func(*request) {})
					}
				}
				all.Wait()
				q.close()
			})
		})
	}
}
