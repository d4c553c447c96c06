package bench

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

func clientsOf(t *testing.T, n int, h http.HandlerFunc) []client {
	t.Helper()
	first := serve(t, h)
	clients := []client{{httpConn: first}}
	for range n - 1 {
		c, err := dialHTTP(t.Context(), first.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.close)
		clients = append(clients, client{httpConn: c})
	}
	return clients
}

func TestClosedLoopCountsErrors(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	clients := clientsOf(t, 4, func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) % 10 {
		case 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 7:
			panic(http.ErrAbortHandler)
		}
	})
	const requests = 200
	l := closedLoop(t.Context(), clients, time.Minute, func(n int) []byte {
		if n >= requests {
			return nil
		}
		return post("/")
	})
	errs := l.errors()
	if len(l.samples) != requests || l.answered() != 160 || errs["503"] != 20 || errs["no answer"] != 20 {
		t.Errorf("%d requests, %d answered, errors %v; want 200, 160, 20 of each", len(l.samples), l.answered(), errs)
	}
	if len(l.latencies()) != l.answered() {
		t.Errorf("%d latencies of %d answers", len(l.latencies()), l.answered())
	}
}

// In an open loop a slow answer delays the requests behind it, and their latency says so: the one client is held by the
// first request until all others are due.
func TestOpenLoopTimesFromWhenARequestWasDue(t *testing.T) {
	t.Parallel()
	const rate, window = 100, 200 * time.Millisecond
	var n atomic.Int64
	clients := clientsOf(t, 1, func(http.ResponseWriter, *http.Request) {
		if n.Add(1) == 1 {
			time.Sleep(2 * window)
		}
	})
	l := openLoop(t.Context(), clients, window, rate, func(int) []byte { return post("/") })
	if len(l.samples) != 20 || l.answered() != 20 || l.unsent != 0 {
		t.Fatalf("%d requests, %d answered, %d not sent; want 20, 20, 0", len(l.samples), l.answered(), l.unsent)
	}
	for i, s := range l.samples[1:] {
		due := time.Duration(i+1) * time.Second / rate
		if s.due != due || s.sent < 2*window || s.ended-s.due < 2*window-due {
			t.Errorf("request %d was due at %v, sent at %v, ended at %v", i+1, s.due, s.sent, s.ended)
		}
	}
}

// What no client was free for is an error, not a request that never was.
func TestOpenLoopCountsWhatWasNotSent(t *testing.T) {
	t.Parallel()
	clients := clientsOf(t, 1, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	l := openLoop(t.Context(), clients, 100*time.Millisecond, 100, func(int) []byte { return post("/") })
	if errs := l.errors(); errs["no answer"] != 1 || errs["not sent"] != 9 {
		t.Errorf("errors = %v, want one without an answer and nine that were not sent", errs)
	}
}
