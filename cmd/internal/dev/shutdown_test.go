package dev

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
)

// SIGTERM, as Cloud Run sends it: what waits for its interval is flushed and answered, and the
// process ends.
func TestRollupFlushesOnSIGTERM(t *testing.T) {
	t.Parallel()
	s := startSystem(t, Config{Faults: Faults{Events: eventarc.Faults{Drop: 1}}, Environ: []string{"ROLLUP_INTERVAL=5s", "ROLLUP_BURST=1"}})
	client := s.client(t)
	url, started := s.rollup(t), s.adopted(t)
	// Rollup looks at the shards themselves where events come late, as on a slow machine.
	if _, err := client.Doc("counters/c/shards/0").Set(t.Context(), map[string]any{"count": 3}); err != nil {
		t.Fatal(err)
	}
	post := func(n int, at time.Time) (int, error) {
		return postEvent(t.Context(), http.DefaultClient, url, s.Project, n, 1, at)
	}
	if code, err := post(1, started); err != nil || code != http.StatusNoContent {
		t.Fatalf("the first event: %d, %v", code, err)
	}
	// Two more of the same shard, of a write that the first refresh has not seen, wait for the rest of the five
	// seconds, the older one only until the newer one is there.
	answered := make(chan int, 2)
	for n := 2; n <= 3; n++ {
		go func() {
			code, err := post(n, started.Add(time.Minute))
			if err != nil {
				t.Error(err)
			}
			answered <- code
		}()
	}
	if code := <-answered; code != http.StatusNoContent {
		t.Errorf("the older event: %d, want an acknowledgement", code)
	}
	s.signal(t, rollupFunction, syscall.SIGTERM)
	if code := <-answered; code != http.StatusNoContent {
		t.Errorf("the event that waited: %d, want that it was counted", code)
	}
	snap, err := client.Doc("counters/c").Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := snap.Data()["total"]; got != int64(3) {
		t.Errorf("total = %v, want 3", got)
	}
	eventually(t, "the process has ended and is started again", func() bool { return s.rollup(t) != url })
}

// What Increment has taken before SIGTERM is committed and answered.
func TestIncrementAnswersOnSIGTERM(t *testing.T) {
	t.Parallel()
	s := startSystem(t, Config{})
	if code, err := s.post(t.Context(), "c", "", ""); err != nil || code != http.StatusOK { // makes the counter
		t.Fatalf("increment: %d, %v", code, err)
	}
	waitForTotal(t, s.client(t), "c", 1)
	if err := s.WaitForEvents(t.Context()); err != nil { // from here on, all commits are the next increment's
		t.Fatal(err)
	}
	if err := s.SetFaults(Faults{Commits: emulator.Faults{CommitLatency: 800 * time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	before := s.server.Stats().CommitRequests
	answered := make(chan int, 1)
	go func() {
		code, err := s.post(t.Context(), "c", `{"by": 2}`, "")
		if err != nil {
			t.Error(err)
		}
		answered <- code
	}()
	eventually(t, "its commit is in flight", func() bool { return s.server.Stats().CommitRequests > before })
	s.signal(t, incrementFunction, syscall.SIGTERM)
	if code := <-answered; code != http.StatusOK {
		t.Errorf("the increment in flight: %d, want that it was counted", code)
	}
	waitForTotal(t, s.client(t), "c", 3)
}

func (s *System) signal(t *testing.T, function string, sig syscall.Signal) {
	t.Helper()
	for _, i := range s.supervisor.all {
		if i.function == function {
			i.mu.Lock()
			err := i.process.Signal(sig)
			i.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
