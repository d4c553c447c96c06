package eventarc_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firestore-counters/counters/emulator/eventarc"
)

// gate is a function that answers when it is told to.
type gate struct {
	*httptest.Server
	arrived chan *http.Request
	release chan int // the status of an answer
}

func newGate(t *testing.T) *gate {
	g := &gate{arrived: make(chan *http.Request, 1000), release: make(chan int)}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server doesn't notice when the other side is gone
		g.arrived <- r
		select {
		case status := <-g.release:
			w.WriteHeader(status)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(g.Close)
	return g
}

func (g *gate) staysShut(t *testing.T) {
	t.Helper()
	select {
	case <-g.arrived:
		t.Fatal("a post came beyond the window")
	case <-time.After(30 * time.Millisecond):
	}
}

// Posts begin with the window that there is; each acknowledgement makes room for two.
func TestPushWindow(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	d := newDeliverer(t, eventarc.Options{Push: eventarc.Push{Window: 5}}, g.URL)
	const n = 60
	for i := range n {
		d.Deliver(change(i))
	}
	for range 5 {
		<-g.arrived
	}
	g.staysShut(t)
	for range 10 {
		g.release <- http.StatusNoContent
		<-g.arrived
		<-g.arrived
		g.staysShut(t)
	}
	if s := d.Stats(); s.Posts != 25 || s.Acknowledged != 10 {
		t.Errorf("with a window of 15, stats are %+v", s)
	}
	for range n - 10 {
		g.release <- http.StatusNoContent
	}
	settle(t, d)
}

// A failure takes room away, and makes a pause.
func TestPushWindowShrinks(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	d := newDeliverer(t, eventarc.Options{Push: eventarc.Push{Window: 1, Shortest: time.Hour, Longest: time.Hour}}, g.URL)
	for i := range 8 {
		d.Deliver(change(i))
	}
	<-g.arrived
	g.release <- http.StatusNoContent // 2
	<-g.arrived
	<-g.arrived
	g.release <- http.StatusServiceUnavailable // 1
	g.staysShut(t)
	g.release <- http.StatusNoContent // 2
	<-g.arrived
	<-g.arrived
	g.staysShut(t)
	if s := d.Stats(); s.Posts != 5 || s.Retries != 1 {
		t.Errorf("stats are %+v", s)
	}
}

// Each trigger has a window of its own: events that are held for long hold no others up.
func TestPushWindowIsATriggers(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	d := newDeliverer(t, eventarc.Options{Pattern: "posts/{post}/comments/{comment}", Further: []string{"counters/{counter}/shards/{shard}"}, Push: eventarc.Push{Window: 2}}, g.URL)
	for range 10 {
		const name = "projects/p/databases/(default)/documents/posts/p/comments/c"
		d.Deliver(eventarc.Change{Name: name, New: document(name, 1, committed), CommitTime: committed})
	}
	<-g.arrived
	<-g.arrived
	g.staysShut(t)
	d.Deliver(change(1))
	if r := <-g.arrived; !strings.HasPrefix(r.Header.Get("Ce-Document"), "counters/") {
		t.Errorf("got the event of %s", r.Header.Get("Ce-Document"))
	}
	for range 11 {
		g.release <- http.StatusNoContent
	}
	settle(t, d)
}

// An event that isn't answered in time is delivered a second time, beside the first.
func TestPushAckDeadline(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var came sync.Once
	first, second := "", make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		again := first != ""
		if again && first != r.Header.Get("Ce-Id") {
			t.Errorf("another event came")
		}
		first = r.Header.Get("Ce-Id")
		mu.Unlock()
		if again {
			came.Do(func() { close(second) })
			return
		}
		<-second // the first is answered after the second
	}))
	defer server.Close()
	d := newDeliverer(t, eventarc.Options{Push: eventarc.Push{AckDeadline: 100 * time.Millisecond, Shortest: time.Millisecond}}, server.URL)
	d.Deliver(change(1))
	<-second
	settle(t, d)
	// On a busy machine the second may be overdue, too.
	if s := d.Stats(); s.Posts < 2 || s.Acknowledged != 1 || s.Retries != s.Posts-1 || s.Overdue != s.Retries {
		t.Errorf("stats are %+v", s)
	}
}

// An event whose time is over is dropped.
func TestPushRetention(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(int) int { return http.StatusInternalServerError })
	d := newDeliverer(t, eventarc.Options{Push: eventarc.Push{Shortest: time.Millisecond, Longest: 10 * time.Millisecond, Retention: 50 * time.Millisecond}}, r.URL)
	for i := range 5 {
		d.Deliver(change(i))
	}
	settle(t, d)
	if s := d.Stats(); s.Expired != 5 || s.Pending != 0 || s.Acknowledged != 0 || s.Retries != s.Posts-5 {
		t.Errorf("stats are %+v", s)
	}
}

// With the times of production, everything arrives once where nothing fails.
func TestPushPubSub(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	d := newDeliverer(t, eventarc.Options{Push: eventarc.PubSub()}, r.URL)
	const n = 500
	for i := range n {
		d.Deliver(change(i))
	}
	settle(t, d)
	if s := d.Stats(); s.Posts != n || s.Acknowledged != n {
		t.Errorf("stats are %+v", s)
	}
}

func TestPushCloses(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	d := newDeliverer(t, eventarc.Options{Push: eventarc.Push{Window: 3, AckDeadline: time.Millisecond, Shortest: time.Hour}}, g.URL)
	for i := range 9 {
		d.Deliver(change(i))
	}
	<-g.arrived
	d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if d.Wait(ctx) == nil {
		t.Error("events that nobody acknowledged are waited for no more")
	}
}

func TestPushChecks(t *testing.T) {
	t.Parallel()
	for _, p := range []eventarc.Push{{Window: -1}, {Transit: -1}, {AckDeadline: -1}, {Shortest: 2, Longest: 1}, {Retention: -1}} {
		if _, err := eventarc.New(eventarc.Options{Pattern: "a/{b}", Push: p}); err == nil {
			t.Errorf("%+v is taken", p)
		}
	}
}
