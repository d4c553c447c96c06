package rollup

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/internal/layout"
)

// recounting drives recounts by a clock of seconds.
type recounting struct {
	*testing.T
	recounts[string]
	clock time.Time
}

func newRecounting(t *testing.T) *recounting {
	return &recounting{T: t, clock: time.Unix(1000, 0), recounts: recounts[string]{
		least: time.Second, most: time.Minute, longest: 5 * time.Second, maxWaiting: 5, maxFailures: 1,
		runs: runs[collection, *recountTask[string]]{atOnce: 2},
	}}
}

var comments = collection{"c", "comments"}

func (r *recounting) pass(seconds float64) {
	r.clock = r.clock.Add(time.Duration(seconds * float64(time.Second)))
}

func (r *recounting) event(name string, n int, gone bool, superseded ...string) {
	r.Helper()
	got, ok := r.add(r.clock, comments, waitingEvent[string]{at: at(n), timeless: gone, gone: gone, event: name}, time.Hour)
	if !ok || !slices.Equal(got, superseded) {
		r.Errorf("%s supersedes %q, %v, want %q", name, got, ok, superseded)
	}
}

func (r *recounting) begins() recount {
	r.Helper()
	b, ok := r.start(r.clock)
	if !ok {
		r.Fatal("no recount begins")
	}
	return b
}

func (r *recounting) waits() {
	r.Helper()
	if b, ok := r.start(r.clock); ok {
		r.Errorf("a recount begins: %+v", b)
	}
}

func (r *recounting) ends(b recount, o outcome, reads int64, covered ...string) {
	r.Helper()
	waited, refused := r.done(r.clock, b, o, reads)
	got := events(waited)
	if !slices.Equal(got, covered) || len(refused) != 0 {
		r.Errorf("covered %q and refused %q, want %q", got, refused, covered)
	}
}

// An event that comes while a recount is in flight waits for the next one, an interval later.
func TestEventsAreCoveredByALaterRecount(t *testing.T) {
	t.Parallel()
	r := newRecounting(t)
	r.event("a", 1, true)
	first := r.begins()
	r.event("b", 2, true)
	r.waits()
	r.ends(first, committed, 1, "a")
	r.waits()
	r.pass(1)
	second := r.begins()
	r.ends(second, committed, 1, "b")
	r.pass(61)
	r.waits()
	if len(r.tasks) != 0 || r.waiting != 0 || r.running != 0 {
		t.Errorf("%d tasks, %d waiting and %d running are left", len(r.tasks), r.waiting, r.running)
	}
}

// A large collection waits for about as many events as its query takes reads, superseded ones
// included, or for a minute.
func TestLargeCollectionsWait(t *testing.T) {
	t.Parallel()
	r := newRecounting(t)
	r.event("a", 1, true)
	r.ends(r.begins(), committed, 4, "a")
	r.pass(10)
	r.event("b", 2, false)
	r.event("c", 3, false, "b")
	r.event("d", 3, false)
	r.waits()
	r.event("e", 4, false, "c", "d")
	r.ends(r.begins(), committed, 4, "e")

	r.pass(10)
	r.event("f", 5, false)
	r.pass(59)
	r.waits()
	r.pass(1)
	r.ends(r.begins(), committed, 4, "f")

	// An event that must be answered sooner is.
	r.pass(10)
	if _, ok := r.add(r.clock, comments, waitingEvent[string]{at: at(6), event: "g"}, 15*time.Second); !ok {
		t.Fatal("refused")
	}
	if due, ok := r.wake(); !ok || !due.Equal(r.clock.Add(15*time.Second)) {
		t.Errorf("due at %v, %v", due, ok)
	}
	r.pass(15)
	r.ends(r.begins(), committed, 1, "g")
}

// The first event's deadline holds, whatever supersedes it: a change every 35 s keeps no large
// collection from being counted within a minute.
func TestALargeCollectionDoesNotStarve(t *testing.T) {
	t.Parallel()
	r := newRecounting(t)
	r.event("a", 1, true)
	r.ends(r.begins(), committed, 50, "a")
	r.pass(10)
	r.event("0", 10, false)
	r.pass(35)
	r.event("1", 11, false, "0")
	r.pass(24)
	r.waits()
	r.pass(1)
	r.ends(r.begins(), committed, 50, "1")
}

// A strictly later change that is held, in flight or not, makes an earlier one done. One of the
// same time, and a deletion, wait.
func TestSupersededChanges(t *testing.T) {
	t.Parallel()
	r := newRecounting(t)
	r.event("late", 5, false)
	first := r.begins()
	r.event("early", 4, false, "early")
	r.event("deletion", 3, true)
	r.event("twin", 5, false)
	r.event("later", 6, false, "twin", "late")
	r.ends(first, committed, 1)
	r.pass(1)
	r.ends(r.begins(), committed, 1, "deletion", "later")
}

// What fails goes again with what has come meanwhile, until it has failed too often; what can't
// succeed doesn't.
func TestRecountsThatFail(t *testing.T) {
	t.Parallel()
	r := newRecounting(t)
	r.event("a", 1, true)
	r.ends(r.begins(), failed, 1)
	r.event("b", 2, true)
	r.pass(2)
	again := r.begins()
	if again.events != 2 {
		t.Errorf("%d events", again.events)
	}
	if covered, refused := r.done(r.clock, again, failed, 1); len(covered) != 0 || !slices.Equal(refused, []string{"a", "b"}) {
		t.Errorf("covered %d, refused %q", len(covered), refused)
	}
	r.event("c", 3, true)
	r.waits() // for longer each time
	r.pass(5)
	if covered, refused := r.done(r.clock, r.begins(), permanent, 1); len(covered) != 0 || !slices.Equal(refused, []string{"c"}) {
		t.Errorf("covered %d, refused %q", len(covered), refused)
	}
	r.pass(5)
	r.event("d", 4, true)
	r.ends(r.begins(), unchanged, 0, "d")
	if r.waiting != 0 || r.running != 0 {
		t.Errorf("%d wait, %d run", r.waiting, r.running)
	}
}

// Only so many events wait, and what is drained goes at once.
func TestTooManyEventsForRecounts(t *testing.T) {
	t.Parallel()
	r := newRecounting(t)
	r.event("a", 1, true)
	r.ends(r.begins(), committed, 9, "a")
	for i, name := range []string{"b", "c", "d", "e", "f"} {
		r.event(name, i, true)
	}
	if _, ok := r.add(r.clock, comments, waitingEvent[string]{at: at(9), gone: true, event: "g"}, time.Hour); ok {
		t.Error("a sixth event is held")
	}
	if _, ok := r.add(r.clock, collection{"other", "comments"}, waitingEvent[string]{at: at(9), event: "g"}, time.Hour); ok {
		t.Error("a sixth event is held, of another counter")
	}
	r.pass(2)
	r.waits()
	r.drain(r.clock)
	r.ends(r.begins(), committed, 9, "b", "c", "d", "e", "f")
	r.event("h", 20, true)
	if left := r.left(); !slices.Equal(left, []string{"h"}) {
		t.Errorf("left: %q", left)
	}
}

// Of a document that is counted, only its names and times are read, whatever it holds. What is of
// no field is poison.
func TestDecodeOfCountedDocuments(t *testing.T) {
	t.Parallel()
	names := testLayout
	fields, err := layout.ParseFields("total=count,comments=count(comments)")
	if err != nil {
		t.Fatal(err)
	}
	names.Fields, names.Counted = fields.Split()
	const name = "projects/p/databases/(default)/documents/counters/post-123/comments/c1"
	encode := func(value, old *firestoredata.Document) []byte {
		data, err := proto.Marshal(&firestoredata.DocumentEventData{Value: value, OldValue: old})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	want := Change{Counter: "post-123", Collection: "comments", Document: "c1", AsOf: at(3), Gone: true}
	got, err := decode(names, "application/protobuf", encode(nil, shardDoc(name, at(2), text("count is a text"))))
	if diff := cmp.Diff([]Change{want}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	want.Gone = false
	got, err = decode(names, "application/protobuf", encode(shardDoc(name, at(3), double(0.5)), nil))
	if diff := cmp.Diff([]Change{want}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for _, name := range []string{name + "/replies/r1", strings.Replace(name, "comments", "replies", 1), strings.Replace(name, "counters", "posts", 1)} {
		if _, err := decode(names, "application/protobuf", encode(shardDoc(name, at(3), integer(1)), nil)); !errors.Is(err, ErrPoison) {
			t.Errorf("%s: %v, want poison", name, err)
		}
	}
}

// A deletion's event that has the time of the deletion itself is later than those of what was
// written before. Deletions alone make no ledger, so what was written has to be told of by an
// event that waits.
func TestDeletionSupersedesNothing(t *testing.T) {
	t.Parallel()
	for _, deletionFirst := range []bool{true, false} {
		r := newRecounting(t)
		if deletionFirst {
			r.event("deletion", 30, true)
			r.event("written", 10, false)
		} else {
			r.event("written", 10, false)
			r.event("deletion", 30, true)
		}
		r.pass(60)
		b := r.begins()
		covered, _ := r.done(r.clock, b, committed, 1)
		c := newCoalescer(10, 10)
		a := answered[int]{collection: "comments"}
		for _, e := range covered {
			a.events = append(a.events, waitingEvent[int]{gone: e.gone})
		}
		c.answer(r.clock, "c", a)
		if flush, ok := c.start(r.clock); !ok || !flush.adopts {
			t.Errorf("%+v: want a flush that makes a ledger", flush)
		}
	}
	c := newCoalescer(10, 10)
	c.answer(start, "c", answered[int]{collection: "comments", events: []waitingEvent[int]{{gone: true}}})
	if flush, ok := c.start(start); !ok || flush.adopts {
		t.Errorf("%+v: want one for a deletion", flush)
	}
}
