package engine

import (
	"context"
	"maps"
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
// A commit takes its latency, and for as long a document that it writes takes no other commit:
// writes to one document are serialized, as by Firestore's locks. Besides, each document is a leaky
// bucket: it takes a burst of five commits at once, and rate commits a second for as long as it
// goes on. Commits beyond either queue, first come, first served; one that touches several
// documents waits for the slowest of them. One that would wait for more than a second fails with
// ABORTED at once, before it is applied, and takes no slot. Commits that change nothing take slots
// too.
//
// It rests on what Google's documentation used to give as "one write per second to a document,
// sustained", and calls workload-dependent today: short bursts succeed, then latency rises, then
// commits fail with ABORTED "Too much contention on these documents". The figures of production
// differ from document to document and from day to day; what the model is good for is to tell a
// design that spreads its writes from one that doesn't.
type hotDocuments struct {
	rate    atomic.Uint64 // float64 bits; commits a second, 0: no limit
	latency atomic.Int64  // time.Duration; of a commit

	mu   sync.Mutex
	docs map[string]heat
	tidy int // size of docs at which the cold ones are forgotten
}

// heat is what earlier commits left of a document's time.
type heat struct {
	drained time.Time // when its bucket will have drained
	free    time.Time // when the last commit that has a slot will be done
}

// SetDocWriteRate limits how many commits a second one document takes; 0 lifts the limit.
func (e *Engine) SetDocWriteRate(rate float64) {
	h := &e.hot
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rate.Store(math.Float64bits(max(rate, 0)))
	h.docs, h.tidy = nil, 0
}

// SetCommitLatency makes every commit take at least so long, and the documents that it writes with
// it.
func (e *Engine) SetCommitLatency(d time.Duration) { e.hot.latency.Store(int64(max(d, 0))) }

// wait takes a slot for a commit and waits for it. The commit is to be answered when done is over.
func (h *hotDocuments) wait(ctx context.Context, e *Engine, ops []operation) (done time.Time, err error) {
	rate, latency := math.Float64frombits(h.rate.Load()), time.Duration(h.latency.Load())
	if rate == 0 && latency == 0 || len(ops) == 0 {
		return time.Time{}, nil
	}
	now := time.Now()
	delay, ok := h.reserve(now, rate, latency, ops)
	if !ok {
		e.stats.hotRefused.Add(1)
		return time.Time{}, status.Error(codes.Aborted, "Too much contention on these documents. Please try again.")
	}
	if delay > 0 {
		e.stats.hotWaits.Add(1)
		if err := e.sleep(ctx, delay); err != nil {
			return time.Time{}, err
		}
	}
	return now.Add(delay + latency), nil
}

// sleep waits, unless the context or the engine ends first.
func (e *Engine) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
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

// reserve finds how long a commit has to wait for its slot, and takes it; not when it is beyond
// hotPatience.
func (h *hotDocuments) reserve(now time.Time, rate float64, latency time.Duration, ops []operation) (delay time.Duration, ok bool) {
	var interval time.Duration
	if rate > 0 {
		interval = time.Duration(float64(time.Second) / rate)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range ops {
		d, ok := h.docs[ops[i].name]
		if ops[i].verify || !ok { // one that isn't there is cold; the zero time's distance from now would be out of range
			continue
		}
		// A bucket that is to drain at time t has room for one more at t - (burst-1) intervals.
		delay = max(delay, d.drained.Sub(now)-(hotBurst-1)*interval, d.free.Sub(now))
	}
	if delay > hotPatience {
		return 0, false
	}
	if h.docs == nil {
		h.docs = make(map[string]heat)
	}
	slot := now.Add(delay)
	after := make(map[string]heat, len(ops)) // a document that is written twice in one commit takes one slot
	for i := range ops {
		if ops[i].verify {
			continue
		}
		drained := h.docs[ops[i].name].drained
		if drained.Before(slot) {
			drained = slot
		}
		after[ops[i].name] = heat{drained: drained.Add(interval), free: slot.Add(latency)}
	}
	maps.Copy(h.docs, after)
	h.forget(now)
	return delay, true
}

// forget drops documents that are cold, now and then, so that the table does not grow with every
// document written.
func (h *hotDocuments) forget(now time.Time) {
	if len(h.docs) <= max(h.tidy, 1000) {
		return
	}
	for name, d := range h.docs {
		if d.drained.Before(now) && d.free.Before(now) {
			delete(h.docs, name)
		}
	}
	h.tidy = 2 * len(h.docs)
}
