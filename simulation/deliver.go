package simulation

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
)

// EventFaults are what may become of an event, each with its probability.
type EventFaults struct {
	Drop      float64 // it never comes
	Late      float64 // it comes up to a day late
	Duplicate float64 // it comes twice
	Reorder   float64 // it comes up to a minute late
}

const (
	eventsLast  = 24 * time.Hour // Eventarc tries for so long, as of [eventarc.PubSub]
	longestPost = time.Minute
	// A message is tried again after 10 to 600 s.
	shortestBackoff = 10 * time.Second
	longestBackoff  = 10 * time.Minute
	// lateAfter is when an event counts as lost for those who look at totals: [Calm] waits longer.
	lateAfter = 10 * time.Minute
)

// deliver delivers the event of a change to instances of Rollup, as Eventarc does. It is a change
// of documents of that many counters.
func (w *world) deliver(c emulator.Change, docs []Doc) {
	n := w.numberOf(c.Name)
	r := dice(w.plan.Seed, "event of "+c.Name, n)
	f := w.eventFaults()
	drop, late, twice, reorder := r.Float64(), r.Float64(), r.Float64(), r.Float64()
	delay, lateBy, reorderBy := between(r, time.Millisecond, time.Second), between(r, lateAfter, eventsLast), between(r, time.Second, time.Minute)
	if w.deafTo(docs) {
		drop = -1
	}
	if drop < f.Drop || late < f.Late {
		w.lost(docs, c.CommitTime)
	}
	switch {
	case drop < f.Drop:
		w.rec.fault("lost event")
		return
	case late < f.Late:
		w.rec.fault("late event")
		delay = lateBy
	case reorder < f.Reorder:
		w.rec.fault("swapped event")
		delay = reorderBy
	}
	id := "event-" + strconv.FormatUint(n, 10) + "-of-" + c.Name
	copies := 1
	if twice < f.Duplicate {
		w.rec.fault("doubled event")
		copies = 2
	}
	for range copies {
		own, wait := rand.New(rand.NewPCG(r.Uint64(), 0)), delay
		w.deliveries.Go(func() {
			until := time.Now().Add(wait + eventsLast)
			for attempt := 0; w.sleep(wait); attempt++ {
				if attempt == 0 && late < f.Late {
					for _, doc := range docs {
						w.rec.add(Came{Doc: doc, Of: c.CommitTime.UnixMicro()})
					}
				}
				if w.push(own, docs, id, c) {
					return
				}
				if wait = min(longestBackoff, shortestBackoff<<min(attempt, 6)); time.Now().Add(wait).After(until) {
					w.rec.fault("event given up")
					w.lost(docs, c.CommitTime)
					return
				}
			}
		})
		delay = between(r, time.Millisecond, 10*time.Second) // of the copy
	}
}

// pushed is what of a trigger's events is under way. How many may be grows with those that are
// acknowledged. Pauses of a whole trigger, as of [eventarc.Window], are left out: events that come
// late and in any order there are already.
type pushed struct {
	mu          sync.Mutex
	window      *eventarc.Window
	outstanding int
	waiting     []chan struct{}
}

// trigger is that of a document, by its collection.
func (w *world) trigger(name string) *pushed {
	segments := strings.Split(name, "/")
	collection := segments[len(segments)-2]
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pushed[collection]
	if p == nil {
		if w.pushed == nil {
			w.pushed = map[string]*pushed{}
		}
		p = &pushed{window: eventarc.NewWindow(eventarc.PubSub().Window)}
		w.pushed[collection] = p
	}
	return p
}

// enter waits until one more event may be under way.
func (p *pushed) enter(ctx context.Context) bool {
	p.mu.Lock()
	if p.outstanding < p.window.Limit() {
		p.outstanding++
		p.mu.Unlock()
		return true
	}
	room := make(chan struct{})
	p.waiting = append(p.waiting, room)
	p.mu.Unlock()
	select {
	case <-room:
		return true
	case <-ctx.Done():
		return false
	}
}

// leave lets others in.
func (p *pushed) leave(acknowledged bool, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if acknowledged {
		p.window.Acknowledged(took)
	} else {
		p.window.Failed(took)
	}
	for p.outstanding--; len(p.waiting) > 0 && p.outstanding < p.window.Limit(); p.outstanding++ {
		close(p.waiting[0])
		p.waiting = p.waiting[1:]
	}
}

// push sends an event once there is room for it, and reports whether it was acknowledged in time.
// One that wasn't comes again while the first is under way.
func (w *world) push(r *rand.Rand, docs []Doc, id string, c emulator.Change) bool {
	trigger := w.trigger(c.Name)
	if !trigger.enter(w.ctx) {
		return false
	}
	began, answered := time.Now(), make(chan bool, 1)
	own := rand.New(rand.NewPCG(r.Uint64(), 0)) // the next attempt may begin beside this one
	w.deliveries.Go(func() { answered <- w.post(own, docs, id, c) })
	overdue := time.NewTimer(w.ackDeadline())
	defer overdue.Stop()
	in := false
	select {
	case in = <-answered:
	case <-overdue.C:
		w.rec.fault("overdue event")
	}
	trigger.leave(in, time.Since(began))
	return in
}

// ackDeadline is how long an event's answer is waited for: as deployed, or where that was
// forgotten.
func (w *world) ackDeadline() time.Duration {
	if dice(w.plan.Seed, "ack deadline", 0).IntN(2) == 0 {
		return eventarc.PubSub().AckDeadline
	}
	return 70 * time.Second
}

// post sends an event to one of the instances, and reports whether it was acknowledged.
func (w *world) post(r *rand.Rand, docs []Doc, id string, c emulator.Change) bool {
	to := w.rollups.pick(r)
	if to == nil || w.out.Load() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), longestPost)
	defer cancel()
	for _, doc := range docs {
		if w.plan.Older && doc.Kind != "counted" { // a copy of it may be acknowledged by who doesn't show a field
			w.rec.add(Came{Doc: doc, Of: c.CommitTime.UnixMicro(), Fields: to.sums})
		}
	}
	if !w.postTo(ctx, to, id, c) {
		return false
	}
	w.acknowledged(to, docs, c.CommitTime)
	if chance(r, w.eventFaults().Duplicate/2) {
		w.rec.fault("lost acknowledgement") // it comes again
		return false
	}
	return true
}

// postTo sends an event to an instance, and reports whether it was acknowledged.
func (w *world) postTo(ctx context.Context, to *instance, id string, c emulator.Change) bool {
	header, body, err := eventarc.Encode(id, seen(c, to.link.ahead))
	if err != nil {
		w.rec.add(Stuck{What: "an event can't be encoded: " + err.Error()})
		return false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://rollup/", bytes.NewReader(body))
	if err != nil {
		return false
	}
	req.Header = header
	resp, err := to.RoundTrip(req)
	return err == nil && resp.StatusCode/100 == 2
}

// deafTo reports whether nothing is to be heard of a shard.
func (w *world) deafTo(docs []Doc) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(docs) == 1 && docs[0].Kind == "shard" && w.deaf[docs[0].Counter] > 0
}

// deafen has nothing be heard of a counter's shards, once more or less.
func (w *world) deafen(id string, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deaf == nil {
		w.deaf = map[string]int{}
	}
	w.deaf[id] += by
}
