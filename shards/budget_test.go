package shards_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// What was acknowledged is counted once, and what was refused isn't, also where a budget holds commits up while
// Firestore refuses some and loses the answers of others. Requests that have left such a commit are no exception.
func TestBudgetUnderFaults(t *testing.T) {
	t.Parallel()
	for _, writes := range []float64{5, 50} {
		t.Run(fmt.Sprint(writes, " a second"), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				near := w.open(t, shards.Config{})
				for _, id := range []string{"c0", "c1", "c2", "c3", "both"} {
					w.counter(t, near, id, 2)
				}
				client := w.open(t, shards.Config{Budget: ceiling.New(ceiling.Rates{Writes: writes}), Timeout: 18 * time.Second, Wait: 20 * time.Second})
				w.SetFaults(emulator.Faults{Abort: 0.2, Unavailable: 0.1, LoseAnswers: 0.3, CommitLatency: 10 * time.Millisecond, Seed: 1})
				began, before := time.Now(), w.Stats()
				var all sync.WaitGroup
				var counted, refused, doubtful [4]atomic.Int64
				for n := range 2000 {
					time.Sleep(10 * time.Millisecond)
					all.Go(func() {
						at := n % 4
						increments := []shards.Increment{{Counter: fmt.Sprint("c", at), By: 1}}
						if n%10 == 0 { // of two counters
							at = 0
							increments = []shards.Increment{{Counter: "c0", By: 1}, {Counter: "both", By: 1}}
						}
						var key shards.Key
						if n%5 == 0 {
							key.Value = fmt.Sprint("key", n)
						}
						_, _, err := client.Apply(t.Context(), increments, key)
						switch {
						case err == nil:
							counted[at].Add(1)
						case errors.Is(err, shards.ErrBusy):
							refused[at].Add(1)
						case errors.Is(err, shards.ErrUnknown):
							doubtful[at].Add(1)
						default:
							t.Error(err)
						}
					})
				}
				all.Wait()
				over, spent := time.Since(began).Seconds(), w.Stats()
				if err := client.Close(); err != nil {
					t.Fatal(err)
				}
				w.SetFaults(emulator.Faults{})
				for n := range 4 {
					s, err := handle(t, near, fmt.Sprint("c", n)).Sum(t.Context())
					if least := counted[n].Load(); err != nil || s.Total < least || s.Total > least+doubtful[n].Load() {
						t.Errorf("c%d: %d, %v; %d were acknowledged, of %d nobody knows", n, s.Total, err, least, doubtful[n].Load())
					}
				}
				if got, most := float64(spent.Writes-before.Writes), writes*(over+ceiling.Begins.Seconds())+600; got > most {
					t.Errorf("%v documents were written in %v s, want at most %v", got, over, most)
				}
				t.Logf("in %.0f s: %d writes; of c0 %d counted, %d refused, %d in doubt", over, spent.Writes-before.Writes, counted[0].Load(), refused[0].Load(), doubtful[0].Load())
			})
		})
	}
}

// A document over 1 KiB is more than one write, as Enterprise edition bills it, and its event is longer.
func TestBudgetOfLongIDs(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w, budget := newWorld(t), ceiling.New(ceiling.Rates{Writes: 1000})
		client := w.open(t, shards.Config{Budget: budget})
		spent := map[int]float64{}
		for _, n := range []int{10, 1400} {
			counter := w.counter(t, client, strings.Repeat("x", n), 1)
			before := budget.Left(ceiling.Writes)
			if err := counter.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			spent[n] = before - budget.Left(ceiling.Writes)
		}
		if spent[10] != 2 || spent[1400] <= 2 {
			t.Errorf("an increment spends %v; want 2 of a short id, and more of a long one", spent)
		}
	})
}

// Making many counters at once takes no more than the budget has: what is owed, others would have to wait for. So it is
// with documents of the app's own that have no shards yet, and where two ask at the same time.
func TestBudgetOfNewCounters(t *testing.T) {
	t.Parallel()
	const n = 200
	for _, hosted := range []bool{false, true} {
		t.Run(fmt.Sprint("hosted ", hosted), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, budget := newWorld(t), ceiling.New(ceiling.Rates{Writes: 100, Reads: 100})
				client := w.open(t, shards.Config{Place: shards.Place{Hosted: hosted}, AutoCreate: !hosted, Budget: budget})
				if hosted {
					for i := range 2*n + 1 {
						w.Put(fmt.Sprint("counters/c", i), map[string]any{"title": "a"})
					}
				}
				add := func(from int, n int) error {
					var increments []shards.Increment
					for i := range n {
						increments = append(increments, shards.Increment{Counter: fmt.Sprint("c", from+i), By: 1})
					}
					_, err := client.AddAll(t.Context(), increments, shards.Key{})
					return err
				}
				owes := func(when string) {
					t.Helper()
					synctest.Wait()
					if writes, reads := budget.Left(ceiling.Writes), budget.Left(ceiling.Reads); writes < 0 || reads < 0 {
						t.Errorf("%s: %v writes and %v reads are left", when, writes, reads)
					}
				}
				if err := add(0, n); !errors.Is(err, shards.ErrBusy) {
					t.Errorf("%d counters with what 10 s have earned: %v", n, err)
				}
				owes("after that")
				time.Sleep(time.Minute)
				var all sync.WaitGroup
				var made atomic.Int64
				writes, reads := budget.Left(ceiling.Writes), budget.Left(ceiling.Reads)
				for _, from := range []int{0, n} {
					all.Go(func() {
						switch err := add(from, n); {
						case err == nil:
							made.Add(1)
						case !errors.Is(err, shards.ErrBusy):
							t.Error(err)
						}
					})
				}
				all.Wait()
				owes("two at the same time")
				if made.Load() != 1 {
					t.Errorf("of two with room for one %d were let in", made.Load())
				}
				writes, reads = writes-budget.Left(ceiling.Writes), reads-budget.Left(ceiling.Reads)
				one := client.CostOfCounter()
				// A single one is made with what its commit takes: beside a flood there is never more.
				budget.Spend(ceiling.Writes, budget.Left(ceiling.Writes)-2)
				budget.Spend(ceiling.Reads, budget.Left(ceiling.Reads)-2)
				if err := add(2*n, 1); err != nil {
					t.Errorf("one more, with 2 writes and 2 reads: %v", err)
				}
				t.Logf("a counter takes %v writes and %v reads of %v and %v", writes/n, reads/n, one[ceiling.Writes], one[ceiling.Reads])
			})
		})
	}
}

// More new counters than the budget can ever have room for are not refused as something that passes: whoever asks again
// would ask for ever.
func TestBudgetThatNeverHasRoom(t *testing.T) {
	for _, hosted := range []bool{false, true} {
		virtual.Run(t, fmt.Sprint("hosted ", hosted), func(t *testing.T) {
			w := newWorld(t)
			client := w.open(t, shards.Config{Place: shards.Place{Hosted: hosted}, AutoCreate: !hosted, Budget: ceiling.New(ceiling.Rates{Writes: 3, Reads: 3})})
			var increments []shards.Increment
			for i := range 90 {
				id := fmt.Sprint("c", i)
				increments = append(increments, shards.Increment{Counter: id, By: 1})
				if hosted {
					w.Put("counters/"+id, map[string]any{"title": "a"})
				}
			}
			add := func(n int) error { _, err := client.AddAll(t.Context(), increments[:n], shards.Key{}); return err }
			time.Sleep(ceiling.Holds)
			if err := add(90); !errors.Is(err, shards.ErrInvalidIncrement) || errors.Is(err, shards.ErrBusy) || !strings.Contains(err.Error(), "make 90 counters, and the ceiling has room for 78 at once") {
				t.Errorf("with all that can be saved: %v", err)
			}
			time.Sleep(ceiling.Holds)
			if err := add(78); err != nil {
				t.Errorf("as many as there is room for: %v", err)
			}
		})
	}
}

// What a client knows is trusted for longer while there are no reads: whoever adds to thousands of counters that it
// knows would otherwise have it read them again each minute.
func TestBudgetOfLooks(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		const reads, n, minutes = 2, 300, 20
		w := newWorld(t)
		client := w.open(t, shards.Config{Budget: ceiling.New(ceiling.Rates{Reads: reads})})
		for i := range n {
			w.counter(t, client, fmt.Sprint("c", i), 1)
		}
		time.Sleep(12 * time.Hour) // what that took is earned
		w.ResetStats()
		for range minutes {
			var all sync.WaitGroup
			for i := range n {
				all.Go(func() {
					if err := handle(t, client, fmt.Sprint("c", i)).Add(t.Context(), 1); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			time.Sleep(time.Minute + time.Second)
		}
		if got, most := float64(w.Stats().Reads), reads*(ceiling.Holds.Seconds()+minutes*61); got > most || got < most/2 {
			t.Errorf("%v documents were read in %d minutes, want at most %v, and not far less", got, minutes, most)
		}
	})
}

// While Firestore is away nothing is billed, and next to nothing is owed afterwards, though each commit in doubt is
// fenced again and again: whoever comes then would be refused until that is earned.
func TestBudgetWhileFirestoreIsAway(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		const n = 100
		w, budget := newWorld(t), ceiling.New(ceiling.Rates{Writes: 3})
		client := w.open(t, shards.Config{Budget: budget, Timeout: 18 * time.Second})
		for i := range n {
			w.counter(t, client, fmt.Sprint("c", i), 1)
		}
		time.Sleep(ceiling.Holds) // what that took is earned, and as much as there can be
		w.SetFaults(emulator.Faults{Unavailable: 1})
		var all sync.WaitGroup
		for i := range 20 * 60 {
			all.Go(func() { _ = handle(t, client, fmt.Sprint("c", i%n)).Add(t.Context(), 1) })
			time.Sleep(time.Second / 20)
		}
		w.SetFaults(emulator.Faults{})
		all.Wait()
		if left := budget.Left(ceiling.Writes); left < -10 {
			t.Errorf("%.0f writes are owed", -left)
		}
		time.Sleep(10 * time.Second)
		if err := handle(t, client, "c0").Add(t.Context(), 1); err != nil {
			t.Errorf("an increment soon after that: %v", err)
		}
	})
}

// Whether a commit was applied whose answer was lost says its own marker, however many keys it has made markers of.
func TestADoubtTakesOneRead(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		const n = 50
		w := newWorld(t)
		client := w.open(t, shards.Config{CommitInterval: 100 * time.Millisecond})
		counter := w.counter(t, client, "c", 1)
		if err := counter.Add(t.Context(), 1); err != nil { // it rests now
			t.Fatal(err)
		}
		w.ResetStats()
		w.AfterLost(func() {})
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				if _, _, err := client.Apply(t.Context(), []shards.Increment{{Counter: "c", By: 1}}, shards.Key{Value: fmt.Sprint(i)}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := w.Stats(); got.Reads != 1 {
			t.Errorf("%d reads, want one", got.Reads)
		}
		if s, err := counter.Sum(t.Context()); err != nil || s.Total != n+1 {
			t.Errorf("%d, %v; want %d", s.Total, err, n+1)
		}
	})
}
