package eventarc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/testbed/slots"
)

func TestMain(m *testing.M) {
	slots.Widen()
	goleak.VerifyTestMain(m)
}

// receiver is a function that events are posted to. It decodes them as a function would, and notes
// them.
type receiver struct {
	*httptest.Server
	answer func(nth int) int // Status for the nth post of an event, counted from 1; nil for 200.

	mu    sync.Mutex
	posts map[string]int // :: event id → posts.
	order []int64        // Counts of the shards, as they came.
}

func newReceiver(t *testing.T, answer func(nth int) int) *receiver {
	r := &receiver{answer: answer, posts: make(map[string]int)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		event, err := cloudevents.NewEventFromHTTPRequest(req)
		if err == nil {
			err = event.Validate()
		}
		var data firestoredata.DocumentEventData
		if err == nil {
			err = proto.Unmarshal(event.Data(), &data)
		}
		if err != nil {
			t.Errorf("an event can't be decoded: %v", err)
			return
		}
		r.mu.Lock()
		r.posts[event.ID()]++
		nth := r.posts[event.ID()]
		r.order = append(r.order, data.GetValue().GetFields()["count"].GetIntegerValue())
		r.mu.Unlock()
		if r.answer != nil {
			w.WriteHeader(r.answer(nth))
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) seen() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.posts)
}

func newDeliverer(t testing.TB, o eventarc.Options, targets ...string) *eventarc.Deliverer {
	t.Helper()
	if o.Pattern == "" {
		o.Pattern = "counters/{counter}/shards/{shard}"
	}
	o.Logger = slog.New(slog.DiscardHandler)
	d, err := eventarc.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if err := d.SetTargets(targets...); err != nil {
		t.Fatal(err)
	}
	return d
}

func change(i int) eventarc.Change {
	name := fmt.Sprintf("projects/p/databases/(default)/documents/counters/c/shards/%d", i%10)
	return eventarc.Change{Name: name, New: document(name, int64(i), committed), CommitTime: committed}
}

func settle(t testing.TB, d *eventarc.Deliverer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestDeliverEachOnce(t *testing.T) {
	t.Parallel()
	a, b := newReceiver(t, nil), newReceiver(t, nil)
	d := newDeliverer(t, eventarc.Options{}, a.URL, b.URL)
	const n = 1000
	for i := range n {
		d.Deliver(change(i))
	}
	settle(t, d)
	posts := a.seen()
	if len(posts) != n/2 {
		t.Errorf("the first of two targets got %d of %d events", len(posts), n)
	}
	for id, count := range b.seen() {
		posts[id] += count
	}
	if len(posts) != n {
		t.Errorf("%d events arrived, want %d", len(posts), n)
	}
	for id, count := range posts {
		if count != 1 {
			t.Errorf("event %s arrived %d times", id, count)
		}
	}
	if got, want := d.Stats(), (eventarc.Stats{Changes: n, Posts: n, Acknowledged: n}); got != want {
		t.Errorf("stats are %+v, want %+v", got, want)
	}
}

func TestDeliverOnlyWhatMatches(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	d := newDeliverer(t, eventarc.Options{Project: "p", Database: "(default)"}, r.URL)
	for _, name := range []string{
		"projects/p/databases/(default)/documents/counters/c",
		"projects/p/databases/(default)/documents/counters/c/counter_rollup/base",
		"projects/q/databases/(default)/documents/counters/c/shards/0",
		"projects/p/databases/other/documents/counters/c/shards/0",
		"not a name",
	} {
		d.Deliver(eventarc.Change{Name: name, New: document(name, 1, committed)})
	}
	d.Deliver(change(7))
	settle(t, d)
	if len(r.order) != 1 || r.order[0] != 7 {
		t.Errorf("got the events of %v, want that of 7 alone", r.order)
	}
}

func TestRetryUntilAcknowledged(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusBadRequest, http.StatusFound} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, func(nth int) int {
				if nth < 3 {
					return status
				}
				return http.StatusNoContent
			})
			d := newDeliverer(t, eventarc.Options{}, r.URL)
			const n = 20
			for i := range n {
				d.Deliver(change(i))
			}
			settle(t, d)
			for id, count := range r.seen() {
				if count != 3 {
					t.Errorf("event %s was posted %d times, want 3", id, count)
				}
			}
			if got, want := d.Stats(), (eventarc.Stats{Changes: n, Posts: 3 * n, Retries: 2 * n, Acknowledged: n}); got != want {
				t.Errorf("stats are %+v, want %+v", got, want)
			}
		})
	}
}

func TestTargetsComeAndGo(t *testing.T) {
	t.Parallel()
	gone := newReceiver(t, nil)
	d := newDeliverer(t, eventarc.Options{})
	for i := range 50 {
		d.Deliver(change(i)) // Nobody is there yet.
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := d.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("waited for events that nobody takes: %v", err)
	}
	if s := d.Stats(); s.Posts != 0 || s.Pending != 50 {
		t.Fatalf("without a target, stats are %+v", s)
	}
	gone.Close() // Now the connection is refused.
	if err := d.SetTargets(gone.URL); err != nil {
		t.Fatal(err)
	}
	there := newReceiver(t, nil)
	if err := d.SetTargets(there.URL); err != nil {
		t.Fatal(err)
	}
	settle(t, d)
	if got := len(there.seen()); got != 50 {
		t.Errorf("%d events arrived, want 50", got)
	}
	if err := d.SetTargets("http://[::1"); err == nil {
		t.Error("a URL that can't be read is taken for a target")
	}
}

func TestInFlightIsBounded(t *testing.T) {
	t.Parallel()
	const limit, n = 5, 40
	arrived, release := make(chan struct{}, n), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	defer server.Close()
	d := newDeliverer(t, eventarc.Options{InFlight: limit}, server.URL)
	for i := range n {
		d.Deliver(change(i))
	}
	for range limit {
		<-arrived
	}
	// The same target again: its posts in flight are still counted.
	if err := d.SetTargets(server.URL); err != nil {
		t.Fatal(err)
	}
	if s := d.Stats(); s.Posts != limit {
		t.Errorf("%d posts are in flight, want %d", s.Posts, limit)
	}
	select {
	case <-arrived:
		t.Error("a post beyond the limit has arrived")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	settle(t, d)
}

func TestDuplicate(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	d := newDeliverer(t, eventarc.Options{Faults: eventarc.Faults{Duplicate: 1}}, r.URL)
	const n = 100
	for i := range n {
		d.Deliver(change(i))
	}
	settle(t, d)
	posts := r.seen()
	if len(posts) != n {
		t.Errorf("%d events arrived, want %d", len(posts), n)
	}
	for id, count := range posts {
		if count != 2 {
			t.Errorf("event %s arrived %d times, want 2", id, count)
		}
	}
}

func TestReorder(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	d := newDeliverer(t, eventarc.Options{InFlight: 1, Faults: eventarc.Faults{Reorder: 0.5, Seed: 1}}, r.URL)
	const n = 200
	for i := range n {
		d.Deliver(change(i))
	}
	settle(t, d)
	if len(r.order) != n {
		t.Fatalf("%d events arrived, want %d", len(r.order), n)
	}
	overtaken := 0
	for i := 1; i < n; i++ {
		if r.order[i] < r.order[i-1] {
			overtaken++
		}
	}
	if overtaken < n/10 {
		t.Errorf("%d of %d events came after one that was written later", overtaken, n)
	}
}

func TestSeedDecides(t *testing.T) {
	t.Parallel()
	deliver := func(f eventarc.Faults) (arrivals func() map[int64]int) {
		r := newReceiver(t, nil)
		d := newDeliverer(t, eventarc.Options{}, r.URL)
		d.SetFaults(f)
		for i := range 300 {
			d.Deliver(change(i))
		}
		return func() map[int64]int {
			settle(t, d)
			arrived := make(map[int64]int)
			for _, i := range r.order {
				arrived[i]++
			}
			return arrived
		}
	}
	faults := eventarc.Faults{Duplicate: 0.3, Drop: 0.3, Seed: 7}
	one, again := deliver(faults), deliver(faults)
	faults.Seed++
	other, first := deliver(faults), one()
	if !maps.Equal(first, again()) {
		t.Error("the same seed dropped or doubled other events")
	}
	if len(first) == 300 {
		t.Error("no event was dropped")
	}
	if maps.Equal(first, other()) {
		t.Error("another seed dropped and doubled the same events")
	}
}

func TestCloseWithPostsInFlight(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // The server notices that the client is gone only once the body is read.
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	d := newDeliverer(t, eventarc.Options{Faults: eventarc.Faults{Reorder: 0.5}}, server.URL)
	for i := range 10 {
		d.Deliver(change(i))
	}
	<-arrived
	d.Close()
	d.Close()
	d.Deliver(change(1))
	if s := d.Stats(); s.Acknowledged != 0 || s.Pending != 10 {
		t.Errorf("after Close, stats are %+v", s)
	}
}

// BenchmarkDeliver measures posts to a server of the same process that does nothing with them.
func BenchmarkDeliver(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer server.Close()
	d := newDeliverer(b, eventarc.Options{InFlight: 200}, server.URL)
	changes := make([]eventarc.Change, 100)
	for i := range changes {
		changes[i] = change(i)
	}
	b.ReportAllocs()
	for i := range b.N {
		d.Deliver(changes[i%len(changes)])
	}
	settle(b, d)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
