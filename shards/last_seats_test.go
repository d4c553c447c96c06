//go:build all && !race

package shards_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// The last 100 seats go to a crowd on several processes, whose commits meet. The shards that have room are few by then,
// and those alone are read: at most 2.5 reads a take, and 0.5 writes, with those who are refused.
func TestWhatTheLastSeatsCost(t *testing.T) {
	for _, instances := range []int{1, 3, 8} {
		t.Run(fmt.Sprint(instances), func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				const rounds = 12
				w := newWorld(t)
				var all emulator.Stats
				for n := range rounds {
					s := w.lastSeats(t, fmt.Sprint(n), instances)
					t.Logf("%d writes, %d reads, %d conflicts", s.Writes, s.Reads, s.CommitRequests-s.Commits)
					all.Writes, all.Reads = all.Writes+s.Writes, all.Reads+s.Reads
				}
				writes, reads := float64(all.Writes)/(100*rounds), float64(all.Reads)/(100*rounds)
				if t.Logf("%.2f writes and %.2f reads a take", writes, reads); writes > 0.5 || reads > 2.5 {
					t.Errorf("%.2f writes and %.2f reads a take, want at most 0.5 and 2.5", writes, reads)
				}
			})
		})
	}
}

// lastSeats sells 2,000 seats to 1,000 clients. It returns what the last 100 cost, for which each client asks once.
func (w *world) lastSeats(t *testing.T, id string, instances int) emulator.Stats {
	t.Helper()
	const seats, last, clients = 2000, 100, 1000
	w.of(t, id, 100, seats)
	processes := make([]shards.Counter, instances)
	for i := range processes {
		processes[i] = handle(t, w.open(t, withLimit), id)
	}
	w.Server.SetFaults(emulator.Faults{CommitLatency: 10 * time.Millisecond, QueryLatency: 20 * time.Millisecond})
	defer w.Server.SetFaults(emulator.Faults{})
	take := func(n int) (err error) {
		for err = shards.ErrBusy; errors.Is(err, shards.ErrBusy); {
			err = processes[n%instances].Add(t.Context(), 1)
		}
		return err
	}
	var group sync.WaitGroup
	var left, sold atomic.Int64
	left.Store(seats - last)
	for n := range clients {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := take(n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	w.Server.ResetStats()
	for n := range clients {
		group.Go(func() {
			switch err := take(n); {
			case err == nil:
				sold.Add(1)
			case !errors.Is(err, shards.ErrLimit):
				t.Error(err)
			}
		})
	}
	group.Wait()
	if sold.Load() != last {
		t.Errorf("%d of the last %d seats are sold", sold.Load(), last)
	}
	return w.Server.Stats()
}
