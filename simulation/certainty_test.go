//go:build !race

package simulation

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/settings"
)

// TestCertainty is for the rules of group commit that protect no count, but how often callers are
// told what became of their increments. It sends 2,000 in each weather, one after the other, and
// counts those that end with 504: nobody knows. None of them is sent again.
//
// How many there are when all rules hold is behind each bound. Without one of them there are half
// as many again, or more.
func TestCertainty(t *testing.T) {
	t.Parallel()
	for _, weather := range []struct {
		name   string
		faults MessageFaults
		keyed  bool
		most   int
	}{
		{"lost answers", MessageFaults{LostAnswer: 0.6}, false, 40},                                    // 6 to 12
		{"lost answers and a quota", MessageFaults{LostAnswer: 0.2, Quota: 0.6}, false, 210},           // 131 to 147
		{"lost answers and a quota, with keys", MessageFaults{LostAnswer: 0.2, Quota: 0.6}, true, 110}, // 45 to 51
		{"silence", MessageFaults{LostSilence: 0.3}, false, 130},                                       // 68 to 84
	} {
		t.Run(weather.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				statuses := weathered(t, weather.faults, weather.keyed)
				time.Sleep(time.Hour) // what is under way arrives
				if statuses[http.StatusGatewayTimeout] > weather.most {
					t.Errorf("of 2,000 answers, %d are 504; want at most %d (by status: %v)", statuses[http.StatusGatewayTimeout], weather.most, statuses)
				}
			})
		})
	}
}

// weathered sends 2,000 increments, each when the one before has its answer or nearly so, and
// returns how many were answered with which status.
func weathered(t *testing.T, faults MessageFaults, keyed bool) map[int]int {
	s, err := settings.Parse([]string{"GOOGLE_CLOUD_PROJECT=" + project, "AUTO_CREATE=true"})
	if err != nil {
		t.Fatal(err)
	}
	server := emulator.New(emulator.Options{})
	defer server.Close()
	l := newLink(1, "increment")
	i, err := newIncrement(server.Connect, l, s)
	if err != nil {
		t.Fatal(err)
	}
	defer i.end()
	send := func(key string) int {
		req, err := newRequest(t.Context(), http.MethodPost, "/a", nil)
		if err != nil {
			t.Error(err)
			return 0
		}
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		resp, err := i.RoundTrip(req)
		if err != nil {
			t.Error(err)
			return 0
		}
		return resp.StatusCode
	}
	if status := send(""); status != http.StatusOK { // which makes the counter
		t.Fatalf("in fair weather: %d", status)
	}
	l.setFaults(faults)
	statuses := map[int]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for n := range 2000 {
		time.Sleep(20 * time.Second)
		key := ""
		if keyed {
			key = fmt.Sprint(n)
		}
		all.Go(func() {
			status := send(key)
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	all.Wait()
	return statuses
}
