package simulation

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
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
	eventsLast  = 24 * time.Hour // Eventarc tries for so long
	longestPost = time.Minute
	// A message is tried again after 10 to 600 s.
	shortestBackoff = 10 * time.Second
	longestBackoff  = 10 * time.Minute
	// lateAfter is when an event counts as lost for those who look at totals: [Calm] waits longer.
	lateAfter = 10 * time.Minute
)

// deliver delivers the event of a change to instances of Rollup, as Eventarc does.
func (w *world) deliver(c emulator.Change, doc Doc) {
	n := w.numberOf(c.Name)
	r := dice(w.plan.Seed, "event of "+c.Name, n)
	f := w.eventFaults()
	drop, late, twice, reorder := r.Float64(), r.Float64(), r.Float64(), r.Float64()
	delay, lateBy, reorderBy := between(r, time.Millisecond, time.Second), between(r, lateAfter, eventsLast), between(r, time.Second, time.Minute)
	if drop < f.Drop || late < f.Late {
		w.lost(doc, c.CommitTime)
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
	header, body, err := eventarc.Encode("event-"+strconv.FormatUint(n, 10)+"-of-"+c.Name, c)
	if err != nil {
		w.rec.add(Stuck{What: "an event can't be encoded: " + err.Error()})
		return
	}
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
				if w.post(own, doc, c.CommitTime, header, body) {
					return
				}
				if wait = min(longestBackoff, shortestBackoff<<min(attempt, 6)); time.Now().Add(wait).After(until) {
					w.rec.fault("event given up")
					w.lost(doc, c.CommitTime)
					return
				}
			}
		})
		delay = between(r, time.Millisecond, 10*time.Second) // of the copy
	}
}

// post sends an event to one of the instances, and reports whether it was acknowledged.
func (w *world) post(r *rand.Rand, doc Doc, of time.Time, header http.Header, body []byte) bool {
	to := w.rollups.pick(r)
	if to == nil || w.out.Load() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), longestPost)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://rollup/", bytes.NewReader(body))
	if err != nil {
		return false
	}
	req.Header = header.Clone()
	resp, err := to.RoundTrip(req)
	if err != nil || resp.StatusCode/100 != 2 {
		return false
	}
	w.acknowledged(to, doc, of)
	if chance(r, w.eventFaults().Duplicate/2) {
		w.rec.fault("lost acknowledgement") // it comes again
		return false
	}
	return true
}
