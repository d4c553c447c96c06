package engine

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// hotBurst is how many commits a quiet document takes at once.
	hotBurst = 5
	// hotPatience is how long a commit waits for its slot before it fails instead.
	hotPatience = time.Second
)

// hotDocuments is a model of what happens to a document that is written too often.
//
// Each document is a leaky bucket: it takes a burst of five commits at once, and rate commits a second for as long as
// it goes on. Commits beyond that queue, first come, first served; one that touches several documents waits for the
// slowest of them. One that would wait for more than a second fails with ABORTED at once, before it is applied, and
// takes no slot. Commits that change nothing take slots too.
//
// It rests on what Google's documentation used to give as "one write per second to a document, sustained", and calls
// workload-dependent today: short bursts succeed, then latency rises, then commits fail with ABORTED "Too much
// contention on these documents". The figures of production differ from document to document and from day to day;
// what the model is good for is to tell a design that spreads its writes from one that doesn't.
type hotDocuments struct {
	rate atomic.Uint64 // float64 bits; commits a second, 0: no limit

	mu   sync.Mutex
	free map[string]time.Time // when the bucket of a document will have drained
	tidy int                  // size of free at which the drained ones are forgotten
}

// SetDocWriteRate limits how many commits a second one document takes; 0 lifts the limit.
func (e *Engine) SetDocWriteRate(rate float64) {
	h := &e.hot
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rate.Store(math.Float64bits(max(rate, 0)))
	h.free, h.tidy = nil, 0
}

// wait takes a slot for a commit and waits for it.
func (h *hotDocuments) wait(ctx context.Context, e *Engine, ops []operation) error {
	rate := math.Float64frombits(h.rate.Load())
	if rate == 0 || len(ops) == 0 {
		return nil
	}
	delay, ok := h.reserve(time.Now(), rate, ops)
	if !ok {
		e.stats.hotRefused.Add(1)
		return status.Error(codes.Aborted, "Too much contention on these documents. Please try again.")
	}
	if delay <= 0 {
		return nil
	}
	e.stats.hotWaits.Add(1)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-e.done:
		return errClosed()
	}
}

// reserve finds how long a commit has to wait for its slot, and takes it; not when it is beyond hotPatience.
func (h *hotDocuments) reserve(now time.Time, rate float64, ops []operation) (delay time.Duration, ok bool) {
	interval := time.Duration(float64(time.Second) / rate)
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range ops {
		if ops[i].verify {
			continue
		}
		// A bucket that is to drain at time d has room for one more at d - (burst-1) intervals. (One that isn't there
		// has drained; the zero time's distance from now would be out of range.)
		if drains, ok := h.free[ops[i].name]; ok {
			delay = max(delay, drains.Sub(now)-(hotBurst-1)*interval)
		}
	}
	if delay > hotPatience {
		return 0, false
	}
	if h.free == nil {
		h.free = make(map[string]time.Time)
	}
	slot := now.Add(delay)
	after := make(map[string]time.Time, len(ops)) // a document that is written twice in one commit takes one slot
	for i := range ops {
		if ops[i].verify {
			continue
		}
		drained := h.free[ops[i].name]
		if drained.Before(slot) {
			drained = slot
		}
		after[ops[i].name] = drained.Add(interval)
	}
	for name, t := range after {
		h.free[name] = t
	}
	h.forget(now)
	return delay, true
}

// forget drops buckets that have drained, now and then, so that the table does not grow with every document written.
func (h *hotDocuments) forget(now time.Time) {
	if len(h.free) <= max(h.tidy, 1000) {
		return
	}
	for name, t := range h.free {
		if t.Before(now) {
			delete(h.free, name)
		}
	}
	h.tidy = 2 * len(h.free)
}
