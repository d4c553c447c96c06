package dev

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/firestore-counters/counters/emulator"
)

// SIGTERM, as Cloud Run sends it: what waits for its interval is flushed and answered, and the process ends.
func TestRollupFlushesOnSIGTERM(t *testing.T) {
	t.Parallel()
	s := startSystem(t, Config{Environ: []string{"ROLLUP_INTERVAL=5s"}})
	client := s.client(t)
	url, started := s.rollup(t), s.adopted(t)
	post := func(n int) (int, error) {
		return postEvent(t.Context(), http.DefaultClient, url, s.Project, n, 1, started)
	}
	if code, err := post(1); err != nil || code != http.StatusNoContent {
		t.Fatalf("the first event: %d, %v", code, err)
	}
	// The second waits for the rest of the five seconds.
	answered := make(chan int, 1)
	go func() {
		code, err := post(2)
		if err != nil {
			t.Error(err)
		}
		answered <- code
	}()
	time.Sleep(200 * time.Millisecond)
	s.signal(t, rollupFunction, syscall.SIGTERM)
	signalled := time.Now()
	if code := <-answered; code != http.StatusNoContent {
		t.Errorf("the event that waited: %d, want that it was counted", code)
	}
	if waited := time.Since(signalled); waited > 4*time.Second {
		t.Errorf("answered %v after SIGTERM, as if it had waited for its interval", waited)
	}
	snap, err := client.Doc("counters/c").Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := snap.Data()["total"]; got != int64(2) {
		t.Errorf("total = %v, want 2", got)
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
	if err := s.SetFaults(Faults{Commits: emulator.Faults{CommitLatency: 800 * time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	answered := make(chan int, 1)
	go func() {
		code, err := s.post(t.Context(), "c", `{"by": 2}`, "")
		if err != nil {
			t.Error(err)
		}
		answered <- code
	}()
	time.Sleep(300 * time.Millisecond) // in flight now
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
