package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/googleapis/gax-go/v2"
	"github.com/valyala/fasthttp"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// caller sends requests to an instance of a function. fasthttp's client takes half of what
// net/http's takes for a request, which is as much as the functions that are measured.
type caller struct {
	fasthttp.HostClient

	received, answers atomic.Int64 // bytes that came, and the answers that whoever sends the requests has counted

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func newCaller(addr string) *caller {
	c := &caller{conns: map[net.Conn]bool{}}
	c.Addr = addr
	// it is a while until a contestant's next turn
	c.MaxConns, c.MaxIdleConnDuration = 1<<16, time.Minute
	// A request that is sent again behind our back is no longer one.
	c.MaxIdemponentCallAttempts = 1
	c.NoDefaultUserAgentHeader, c.DisableHeaderNamesNormalizing, c.DisablePathNormalizing = true, true, true
	c.Dial = func(addr string) (net.Conn, error) {
		conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.conns[conn] = true
			conn = &calling{conn, c}
		}
		return conn, err
	}
	return c
}

// calling is a connection that its caller knows of.
type calling struct {
	net.Conn
	of *caller
}

func (c *calling) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.of.received.Add(int64(n))
	return n, err
}

func (c *calling) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	delete(c.of.conns, c.Conn)
	return c.Conn.Close()
}

// interrupt makes all requests under way fail. It may be called at any time.
func (c *caller) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		_ = conn.Close()
	}
}

// connected is how many connections there are.
func (c *caller) connected() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.conns)
}

func (c *caller) close() {
	c.interrupt()
	c.CloseIdleConnections()
}

// client is one of those that send requests, each to its instance.
type client struct {
	*caller
	instance int
}

// requests fills in the nth request, of all clients together. It returns false when there is none.
// Each client has a request of its own, that it fills in again and again.
type requests func(n int, r *fasthttp.Request) bool

// post is a POST request without a body, again and again.
func post(paths ...string) requests { return call(fasthttp.MethodPost, paths) }

// get is a GET request, again and again.
func get(paths ...string) requests { return call(fasthttp.MethodGet, paths) }

// call sends requests to paths in turn.
func call(method string, paths []string) requests {
	return func(n int, r *fasthttp.Request) bool {
		r.Header.SetMethod(method)
		r.Header.SetHost("localhost") // what stands behind a gateway answers to no other name
		r.SetRequestURI(paths[n%len(paths)])
		return true
	}
}

// upTo ends requests after the nth.
func (next requests) upTo(n int) requests {
	return func(i int, r *fasthttp.Request) bool { return i < n && next(i, r) }
}

// sample is one request. Times count from the load's begin.
type sample struct {
	due      time.Duration // when it was to be sent: in a closed loop, when it was
	sent     time.Duration
	ended    time.Duration
	status   int // 0 when no answer came
	instance int
}

func (s sample) ok() bool { return s.status/100 == 2 }

// load is what a number of requests came to.
type load struct {
	began   time.Time
	window  time.Duration // of a closed loop: how long its clients sent
	elapsed time.Duration // until the last answer
	samples []sample
	unsent  int   // requests that were due and found no client
	cause   error // why one of those without an answer has none
}

// answered is how many requests were answered with success.
func (l *load) answered() int {
	n := 0
	for _, s := range l.samples {
		if s.ok() {
			n++
		}
	}
	return n
}

// rate is successful answers a second. Those of a closed loop are counted while its clients send: an event that comes
// last may wait for an interval, in which nobody else asks for anything.
func (l *load) rate() float64 {
	within, until := 0, min(l.window, l.elapsed)
	for _, s := range l.samples {
		if s.ok() && s.ended <= until {
			within++
		}
	}
	switch {
	case within > 0:
		return float64(within) / until.Seconds()
	case l.elapsed <= 0:
		return 0
	}
	return float64(l.answered()) / l.elapsed.Seconds()
}

// latencies are those of the successful requests, from when they were due.
func (l *load) latencies() *hdrhistogram.Histogram {
	h := newHistogram()
	for _, s := range l.samples {
		if s.ok() {
			record(h, s.ended-s.due)
		}
	}
	return h
}

// errors counts what was not a success, by status.
func (l *load) errors() map[string]int {
	errs := map[string]int{}
	if l.unsent > 0 {
		errs["not sent"] = l.unsent
	}
	for _, s := range l.samples {
		switch {
		case s.ok():
		case s.status == 0:
			errs["no answer"]++
		default:
			errs[strconv.Itoa(s.status)]++
		}
	}
	return errs
}

// failed is an error when no request was answered with success: there is no figure then, and this
// is why.
func (l *load) failed() error {
	switch {
	case l.answered() > 0:
		return nil
	case l.cause != nil:
		return fmt.Errorf("no request was answered with success (%s): %w", failures(l.errors()), l.cause)
	}
	return fmt.Errorf("no request was answered with success (%s)", failures(l.errors()))
}

// periods are the times in which requests were in flight, by instance.
func (l *load) periods(since time.Time) map[int][]cost.Period {
	offset := l.began.Sub(since)
	out := map[int][]cost.Period{}
	for _, s := range l.samples {
		out[s.instance] = append(out[s.instance], cost.Period{Begin: offset + s.sent, End: offset + s.ended})
	}
	return out
}

// patience is how long an answer may take after a load has ended.
const patience = 5 * time.Second

// closedLoop has each client send one request after the other until the time is over or there is no
// further request. The first one is sent in any case: on a busy machine a short time may be over
// before anything has begun.
func closedLoop(ctx context.Context, clients []client, window time.Duration, next requests) *load {
	var n atomic.Int64
	began := time.Now()
	l := drive(ctx, clients, window, func(r *fasthttp.Request) (sample, bool) {
		turn := int(n.Add(1) - 1)
		return sample{}, (turn == 0 || time.Since(began) < window) && next(turn, r)
	})
	l.window = window
	return l
}

// openLoop sends rate requests a second, evenly spaced, each as soon as it is due and a client is
// free. The time that it waits for a client counts as latency, and what never got one counts as an
// error.
func openLoop(ctx context.Context, clients []client, window time.Duration, rate float64, next requests) *load {
	return openLoopAt(ctx, clients, window, evenly(rate, window), next)
}

// openLoopAt is openLoop of requests that are due when it is said.
func openLoopAt(ctx context.Context, clients []client, window time.Duration, due []time.Duration, next requests) *load {
	var n atomic.Int64
	l := drive(ctx, clients, window, func(r *fasthttp.Request) (sample, bool) {
		turn := int(n.Add(1) - 1)
		if turn >= len(due) {
			return sample{}, false
		}
		return sample{due: due[turn]}, next(turn, r)
	})
	if ctx.Err() == nil {
		l.unsent = len(due) - len(l.samples)
	}
	return l
}

// evenly is when requests are due that come one after the other at the same distance.
func evenly(rate float64, window time.Duration) []time.Duration {
	due := make([]time.Duration, int(rate*window.Seconds()))
	for i := range due {
		due[i] = time.Duration(float64(i) / rate * float64(time.Second))
	}
	return due
}

// randomly is when requests are due that come at random, as those of many people do. It is the same
// times for all contestants.
func randomly(rate float64, window time.Duration) []time.Duration {
	dice := rand.New(rand.NewPCG(1, 2))
	var due []time.Duration
	for at := 0.0; at < window.Seconds(); at += dice.ExpFloat64() / rate {
		due = append(due, time.Duration(at*float64(time.Second)))
	}
	return due
}

// drive has each client send the requests that turn gives it, none before it is due, until turn
// gives none or patience ends after the window.
func drive(ctx context.Context, clients []client, window time.Duration, turn func(*fasthttp.Request) (sample, bool)) *load {
	l := &load{began: time.Now()}
	all := make([][]sample, len(clients))
	causes := make([]error, len(clients))
	ctx, cancel := context.WithTimeout(ctx, window+patience)
	defer cancel()
	callers := map[*caller]bool{}
	for _, c := range clients {
		callers[c.caller] = true
	}
	done := make(chan struct{})
	defer close(done)
	defer context.AfterFunc(ctx, func() {
		for waiting := true; waiting; { // again and again: one may just be connecting
			for c := range callers {
				c.interrupt()
			}
			select {
			case <-done:
				waiting = false
			case <-time.After(10 * time.Millisecond):
			}
		}
	})()
	var running sync.WaitGroup
	for i, c := range clients {
		running.Go(func() {
			var request fasthttp.Request
			var response fasthttp.Response
			for ctx.Err() == nil {
				s, ok := turn(&request)
				if !ok {
					break
				}
				if wait := s.due - time.Since(l.began); wait > 0 && gax.Sleep(ctx, wait) != nil {
					break
				}
				s.instance, s.sent = c.instance, time.Since(l.began)
				if s.due == 0 {
					s.due = s.sent
				}
				if err := c.Do(&request, &response); err != nil {
					causes[i] = err
				} else {
					s.status = response.StatusCode()
				}
				s.ended = time.Since(l.began)
				all[i] = append(all[i], s)
			}
		})
	}
	running.Wait()
	for i, samples := range all {
		l.samples = append(l.samples, samples...)
		if causes[i] != nil {
			l.cause = causes[i]
		}
		for _, s := range samples {
			l.elapsed = max(l.elapsed, s.ended)
		}
	}
	return l
}
