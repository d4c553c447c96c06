package bench

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/firestore-counters/counters/cmd/counters/internal/cost"
)

// sample is one request. Times count from the load's begin.
type sample struct {
	due    time.Duration // when it was to be sent: in a closed loop, when it was
	sent   time.Duration
	ended  time.Duration
	status int // 0 when no answer came
	addr   int // index of the instance
}

func (s sample) ok() bool { return s.status/100 == 2 }

// load is what a number of requests came to.
type load struct {
	began   time.Time
	elapsed time.Duration // until the last answer
	samples []sample
	unsent  int // requests that were due and found no client
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

// rate is successful answers a second.
func (l *load) rate() float64 {
	if l.elapsed <= 0 {
		return 0
	}
	return float64(l.answered()) / l.elapsed.Seconds()
}

// latencies are those of the successful requests, in seconds from when they were due.
func (l *load) latencies() []float64 {
	var out []float64
	for _, s := range l.samples {
		if s.ok() {
			out = append(out, (s.ended - s.due).Seconds())
		}
	}
	return out
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

// periods are the times in which requests were in flight, by instance.
func (l *load) periods(since time.Time) map[int][]cost.Period {
	offset := l.began.Sub(since)
	out := map[int][]cost.Period{}
	for _, s := range l.samples {
		out[s.addr] = append(out[s.addr], cost.Period{Begin: offset + s.sent, End: offset + s.ended})
	}
	return out
}

// patience is how long an answer may take after a load has ended.
const patience = 5 * time.Second

// client is one connection to an instance.
type client struct {
	*httpConn
	addr int // index of the instance
}

// closedLoop has each client send one request after the other until the time is over or there is no further request.
// The nth request, of all clients together, is next(n); nil is none.
func closedLoop(ctx context.Context, clients []client, window time.Duration, next func(n int) []byte) *load {
	var n atomic.Int64
	began := time.Now()
	return drive(ctx, clients, window, func() (sample, []byte) {
		if time.Since(began) >= window {
			return sample{}, nil
		}
		return sample{}, next(int(n.Add(1) - 1))
	})
}

// openLoop sends rate requests a second, evenly spaced, each as soon as it is due and a client is free. The time that
// it waits for a client counts as latency, and what never got one counts as an error.
func openLoop(ctx context.Context, clients []client, window time.Duration, rate float64, next func(n int) []byte) *load {
	var n atomic.Int64
	all := int(rate * window.Seconds())
	l := drive(ctx, clients, window, func() (sample, []byte) {
		turn := int(n.Add(1) - 1)
		if turn >= all {
			return sample{}, nil
		}
		return sample{due: time.Duration(float64(turn) / rate * float64(time.Second))}, next(turn)
	})
	if ctx.Err() == nil {
		l.unsent = all - len(l.samples)
	}
	return l
}

// drive has each client send the requests that turn gives it, none before it is due, until turn gives none or patience
// ends after the window.
func drive(ctx context.Context, clients []client, window time.Duration, turn func() (sample, []byte)) *load {
	l := &load{began: time.Now()}
	all := make([][]sample, len(clients))
	ctx, cancel := context.WithTimeout(ctx, window+patience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		for _, c := range clients {
			c.interrupt()
		}
	})
	defer stop()
	var running sync.WaitGroup
	for i, c := range clients {
		running.Go(func() {
			samples := make([]sample, 0, 1024)
			for ctx.Err() == nil {
				s, request := turn()
				if request == nil {
					break
				}
				if wait := s.due - time.Since(l.began); wait > 0 && !sleep(ctx, wait) {
					break
				}
				s.addr, s.sent = c.addr, time.Since(l.began)
				if s.due == 0 {
					s.due = s.sent
				}
				s.status, _ = c.do(ctx, request)
				s.ended = time.Since(l.began)
				samples = append(samples, s)
			}
			all[i] = samples
		})
	}
	running.Wait()
	for _, samples := range all {
		l.samples = append(l.samples, samples...)
		for _, s := range samples {
			l.elapsed = max(l.elapsed, s.ended)
		}
	}
	return l
}

// sleep reports false when the context ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
