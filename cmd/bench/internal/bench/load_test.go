package bench

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// clientsOf are clients of a server for a handler.
func clientsOf(t *testing.T, n int, h http.HandlerFunc) []client {
	t.Helper()
	s := httptest.NewServer(h)
	c := newCaller(strings.TrimPrefix(s.URL, "http://"))
	t.Cleanup(func() {
		c.close()
		s.Close()
	})
	return clients(n, []*process{{caller: c}})
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
	l := closedLoop(t.Context(), clients, time.Minute, post("/").upTo(requests))
	errs := l.errors()
	if len(l.samples) != requests || l.answered() != 160 || errs["503"] != 20 || errs["no answer"] != 20 {
		t.Errorf("%d requests, %d answered, errors %v; want 200, 160, 20 of each", len(l.samples), l.answered(), errs)
	}
	if n := l.latencies().TotalCount(); int(n) != l.answered() {
		t.Errorf("%d latencies of %d answers", n, l.answered())
	}
}

// A rate is of the time in which clients send: what waits longer at the end is no less fast.
func TestRateIsOfTheTimeInWhichClientsSend(t *testing.T) {
	t.Parallel()
	answers := func(ended ...time.Duration) *load {
		l := &load{window: 2 * time.Second}
		for _, at := range ended {
			l.samples = append(l.samples, sample{status: http.StatusOK, ended: at})
			l.elapsed = max(l.elapsed, at)
		}
		return l
	}
	for want, l := range map[float64]*load{
		0: answers(), 1: answers(time.Second, 2*time.Second, 3*time.Second), // one came late
		4:  answers(time.Second/4, time.Second/2), // there was no more to send
		.5: answers(4*time.Second, 4*time.Second), // all came late
	} {
		if got := l.rate(); got != want {
			t.Errorf("%v ended: %v a second; want %v", l.samples, got, want)
		}
	}
}

// A time that is over before anything has begun leaves one figure, and not none.
func TestClosedLoopSendsOneAtLeast(t *testing.T) {
	t.Parallel()
	l := closedLoop(t.Context(), clientsOf(t, 4, func(http.ResponseWriter, *http.Request) {}), 0, post("/"))
	if l.answered() != 1 || l.failed() != nil {
		t.Errorf("%d answered, %v; want 1", l.answered(), l.failed())
	}
}

// In an open loop a slow answer delays the requests behind it, and their latency says so: the one
// client is held by the first request until all others are due.
func TestOpenLoopTimesFromWhenARequestWasDue(t *testing.T) {
	t.Parallel()
	const rate, window = 100, 200 * time.Millisecond
	var n atomic.Int64
	clients := clientsOf(t, 1, func(http.ResponseWriter, *http.Request) {
		if n.Add(1) == 1 {
			time.Sleep(2 * window)
		}
	})
	l := openLoop(t.Context(), clients, window, rate, post("/"))
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
	l := openLoop(t.Context(), clients, 100*time.Millisecond, 100, post("/"))
	if errs := l.errors(); errs["no answer"] != 1 || errs["not sent"] != 9 {
		t.Errorf("errors = %v, want one without an answer and nine that were not sent", errs)
	}
}

// What is counted as a request was sent once: after an answer that broke off, or one that was the
// connection's last, the next request goes over a new connection, and none is sent again.
func TestCallerSendsNothingTwice(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	clients := clientsOf(t, 1, func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		switch r.URL.Path {
		case "/broken":
			panic(http.ErrAbortHandler)
		case "/last":
			w.Header().Set("Connection", "close")
		}
	})
	for _, next := range []func(...string) requests{post, get} {
		n.Store(0)
		l := closedLoop(t.Context(), clients, time.Minute, next("/", "/broken", "/last", "/").upTo(40))
		if n.Load() != 40 || len(l.samples) != 40 || l.answered() != 30 || l.errors()["no answer"] != 10 {
			t.Errorf("%d requests arrived of %d, %d answered, errors %v; want 40, 40, 30, and 10 without an answer", n.Load(), len(l.samples), l.answered(), l.errors())
		}
	}
}

// A load that is called off ends although requests wait for their answers.
func TestLoadIsCalledOff(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	clients := clientsOf(t, 3, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	ended := make(chan *load)
	go func() { ended <- closedLoop(ctx, clients, time.Hour, post("/")) }()
	select {
	case l := <-ended:
		if err := l.failed(); err == nil || l.answered() != 0 {
			t.Errorf("%d answered, and no error says that nothing was: %v", l.answered(), err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it still waits")
	}
}
