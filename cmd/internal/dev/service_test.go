package dev

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/testbed/freeport"
)

// An instance has a processor while it has a request, and none in between.
func TestCloudRunTakesTheProcessorAway(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	s := startSystem(t, Config{CloudRun: CloudRun{Concurrency: 10, Idle: time.Hour}})
	state := func() string {
		service := s.services[incrementFunction]
		service.mu.Lock()
		defer service.mu.Unlock()
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", service.instances[0].process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		return after[:1]
	}
	for range 3 {
		eventually(t, "the instance is stopped", func() bool { return state() == "T" })
		if code, err := s.post(t.Context(), "c", "", ""); err != nil || code != http.StatusOK {
			t.Fatalf("increment: %d, %v", code, err)
		}
	}
	waitForTotal(t, s.client(t), "c", 3)
}

// A request that no instance has room for is refused once it has waited for long enough, or with
// its context.
func TestServiceWithoutInstances(t *testing.T) {
	t.Parallel()
	s := newService(CloudRun{Concurrency: 1}, func() bool { return false }, func(string) {})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://service/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.RoundTrip(r); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	closing := make(chan error)
	go func() {
		_, err := s.RoundTrip(r.WithContext(t.Context()))
		closing <- err
	}()
	eventually(t, "it waits", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.waiting) == 1 })
	s.close()
	if err := <-closing; err != errNoInstance {
		t.Errorf("got %v", err)
	}
}

// An instance that can't be reached gets no more requests, and so it is ended.
func TestAnInstanceOutOfReachIsEnded(t *testing.T) {
	t.Parallel()
	process := exec.Command("sleep", "60")
	if err := process.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { _, _ = process.Process.Kill(), process.Wait() }()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	addr, ended := "127.0.0.1:"+port, ""
	ctx, cancel := context.WithCancel(t.Context())
	s := newService(CloudRun{Concurrency: 1}, func() bool { return false }, func(of string) { ended = of; cancel() })
	defer s.close()
	s.set([]answering{{addr, process.Process}})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://service/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.RoundTrip(r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if ended != addr {
		t.Errorf("%q was ended, want %s", ended, addr)
	}
}

// However many requests wait, as many instances are on their way as they need, and no more.
func TestMissingInstances(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		waiting, concurrency := rapid.IntRange(0, 5000).Draw(t, "waiting"), rapid.IntRange(1, 1000).Draw(t, "concurrency")
		starting := rapid.IntRange(0, 20).Draw(t, "starting")
		n := missing(waiting, starting, concurrency)
		room := (n + starting) * concurrency
		if n < 0 || room < waiting || n > 0 && room-waiting >= concurrency {
			t.Fatalf("%d more beside %d for %d requests", n, starting, waiting)
		}
	})
}
