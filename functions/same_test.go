//go:build all

package functions

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/settings"
	"github.com/firestore-counters/counters/shards"
)

// Many requests at the same time for the same thing are in each other's way, and read it again: together they owe
// little.
func TestRequestsForTheSame(t *testing.T) {
	t.Parallel()
	const n = 60
	for name, send := range map[string]func(f *flooded, n int) *http.Request{
		"limits": func(f *flooded, n int) *http.Request {
			return f.request("PUT", "/c/limit", fmt.Sprintf(`{"field":"seats","limit":%d}`, 500+n), "")
		},
		"resets": func(f *flooded, n int) *http.Request { return f.request("POST", "/c/reset", "", "") },
		"settles": func(f *flooded, n int) *http.Request {
			return f.request("POST", "/c/seats/holds/x/settle", `{"by":9}`, "")
		},
		"give-backs": func(f *flooded, n int) *http.Request { return f.request("DELETE", "/c/seats/holds/x", "", "") },
		"confirms":   func(f *flooded, n int) *http.Request { return f.request("POST", "/c/seats/m/confirm", "", "") },
		"joins":      func(f *flooded, n int) *http.Request { return f.request("PUT", "/c/seats/m", "", "") },
		"seats": func(f *flooded, n int) *http.Request {
			return f.request("PUT", fmt.Sprintf("/c/seats/m-%d?hold=1s", n), "", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := startFlooded(t, "none", settings.Ceiling{Writes: 3, Reads: 1.5, Creates: 0.1, Bytes: 1e7, Logs: 500}, // $5 a day
					"FIELDS=f0,seats=limit(100)", "MEMBERS=any", "RESET=any", "LIMIT=any", "NUM_SHARDS=25")
				other := f.otherOf(shards.Config{NumShards: 25}, "f0,seats=limit(100)")
				c, err := other.Counter("c")
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Add(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				if _, _, err := c.Reserve(t.Context(), "seats", 5, time.Hour, shards.Key{Value: "x"}); err != nil {
					t.Fatal(err)
				}
				if _, _, err := c.Hold(t.Context(), "seats", "m", time.Hour); err != nil {
					t.Fatal(err)
				}
				time.Sleep(ceiling.Holds)
				f.latency = 20 * time.Millisecond
				f.server.SetFaults(emulator.Faults{CommitLatency: 20 * time.Millisecond, LoseAnswers: 0.2, Seed: 3})
				var all sync.WaitGroup
				statuses, mu := map[int]int{}, sync.Mutex{}
				for i := range n {
					all.Go(func() {
						status, _ := f.do(send(f, i))
						mu.Lock()
						defer mu.Unlock()
						statuses[status]++
					})
				}
				all.Wait()
				synctest.Wait()
				for _, u := range []ceiling.Unit{ceiling.Writes, ceiling.Reads} {
					if left := f.client.Budget().Left(u); left < -60 {
						t.Errorf("%.0f %v are owed; %v", -left, u, statuses)
					} else {
						t.Logf("%.0f %v left; %v", left, u, statuses)
					}
				}
			})
		})
	}
}
