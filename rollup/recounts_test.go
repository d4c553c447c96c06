package rollup

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// recounting drives the recounts of a pacer by a clock of seconds.
type recounting struct {
	*testing.T
	*pacer[string]
	clock time.Time
}

func newRecounting(t *testing.T) *recounting {
	return &recounting{T: t, clock: time.Unix(1000, 0), pacer: &pacer[string]{
		least: time.Second, most: 5 * time.Second, burst: 1000, patience: 15 * time.Second, recountMax: time.Minute,
		maxWaiting: 5, maxRunning: 2, spread: func() float64 { return 0 }, backlogs: map[source]*backlog[string]{},
	}}
}

func (r *recounting) pass(seconds float64) {
	r.clock = r.clock.Add(time.Duration(seconds * float64(time.Second)))
}

// comment is a change of a comment, n seconds after the start.
func comment(n int, gone bool) Change {
	return Change{Counter: "c", Collection: "comments", Fields: []string{"comments"}, At: at(n), Gone: gone}
}

func (r *recounting) event(name string, n int, gone bool, superseded ...string) {
	r.Helper()
	got, ok := r.add(r.clock, comment(n, gone), time.Hour, name)
	if !ok || !slices.Equal(got, superseded) {
		r.Errorf("%s supersedes %q, %v, want %q", name, got, ok, superseded)
	}
}

func (r *recounting) begins() flight {
	r.Helper()
	f, ok := r.start(r.clock)
	if !ok || f.documents != "comments" {
		r.Fatal("no recount begins")
	}
	return f
}

func (r *recounting) waits() {
	r.Helper()
	if f, ok := r.start(r.clock); ok {
		r.Errorf("a recount begins: %+v", f)
	}
}

// counted is what a recount was told.
func (r *recounting) counted(reads int64) queried {
	return queried{largest: reads, at: r.clock, answers: map[string]book.Answer{"comments": {At: r.clock}}}
}

// ends ends a recount, which covers events: they wait for the counter's next refresh, or for nothing where Firestore
// refuses the queries.
func (r *recounting) ends(f flight, o outcome, reads int64, covered ...string) {
	r.Helper()
	told := r.counted(reads)
	if told.outcome = o; o == unchanged {
		told.answers = nil
	}
	s := r.recounted(r.clock, f, told)
	got := s.done
	if c := r.backlogs[source{counter: "c"}]; c != nil && !c.empty() {
		refresh, _ := r.start(r.clock)
		got = append(got, r.done(r.clock, refresh, refreshed{}).done...)
	}
	if !slices.Equal(got, covered) || len(s.redeliver) != 0 {
		r.Errorf("covered %q and refused %q, want %q", got, s.redeliver, covered)
	}
}

// fails ends a recount, whose events are refused.
func (r *recounting) fails(f flight, o outcome, refused ...string) {
	r.Helper()
	if s := r.recounted(r.clock, f, queried{outcome: o}); !slices.Equal(s.redeliver, refused) {
		r.Errorf("refused %q, want %q", s.redeliver, refused)
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
	r.ends(first, succeeded, 1, "a")
	r.waits()
	r.pass(1)
	second := r.begins()
	r.ends(second, succeeded, 1, "b")
	r.pass(61)
	r.waits()
	if len(r.backlogs) != 0 || r.waiting != 0 || r.recounts.running != 0 {
		t.Errorf("%d backlogs, %d waiting and %d running are left", len(r.backlogs), r.waiting, r.recounts.running)
	}
}

// A recount is promised what the last one of its collection took: those that begin at the same time would otherwise owe
// that many times as much, and no total would be shown until it is earned.
func TestRecountIsPromisedWhatTheLastOneTook(t *testing.T) {
	t.Parallel()
	fields, err := layout.ParseFields("likes,comments=count(comments),score=sum(comments.points)")
	if err != nil {
		t.Fatal(err)
	}
	budget := ceiling.New(ceiling.Rates{Reads: 1})
	_, counted := fields.Split()
	roller := &Roller{client: &Client{db: &store.DB{Layout: layout.Layout{Counted: counted}, Budget: budget}}}
	r := newRecounting(t)
	begins := func(want float64) flight {
		t.Helper()
		f, before := r.begins(), budget.Left(ceiling.Reads)
		roller.promise(&f)
		if took := before - budget.Left(ceiling.Reads); math.Abs(took-want) > 1 { // what is earned meanwhile
			t.Errorf("%v reads are promised, want %v: two fields, each of which took as much", took, want)
		}
		return f
	}
	r.event("a", 1, true)
	r.ends(begins(2), succeeded, 4000, "a")
	r.pass(61)
	r.event("b", 2, true)
	r.pass(61)
	r.ends(begins(8000), succeeded, 4000, "b")
}

// While reads are scarce, those who make large collections count, or many counters, don't keep a total waiting that
// others ask for, and theirs come to their turn. What is counted less often than each minute is still known to be dear.
func TestScarceReadsAreShared(t *testing.T) {
	t.Parallel()
	const second = 4.6 // reads, at $5 a day
	for name, c := range map[string]struct {
		forged int
		reads  int64         // that each takes
		every  time.Duration // in which it changes again
		honest time.Duration // in which an honest counter changes
		late   time.Duration // how late that one is shown at most
	}{
		"large collections":          {33, 1000, time.Minute, 20 * time.Second, 10 * time.Minute}, // it was 2 hours
		"which seldom change":        {33, 1000, 3 * time.Hour, 20 * time.Second, 10 * time.Minute},
		"many counters, and a crowd": {300, 1, 5 * time.Minute, time.Second, time.Minute}, // it was 4 minutes
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecounting(t)
			r.pacer.maxWaiting, r.pacer.maxRunning = 2*c.forged, 64
			type counter struct {
				id            string
				next, asked   time.Time
				every, latest time.Duration
			}
			counters := map[string]*counter{"honest": {id: "honest", every: c.honest}}
			for i := range c.forged {
				id := fmt.Sprint("forged-", i)
				counters[id] = &counter{id: id, every: c.every}
			}
			for began, left := r.clock, second*ceiling.Begins.Seconds(); r.clock.Sub(began) < 5*time.Hour; r.pass(1) {
				for _, at := range counters {
					if r.clock.Before(at.next) {
						continue
					}
					if at.next = r.clock.Add(at.every); at.asked.IsZero() {
						at.asked = r.clock
					}
					r.add(r.clock, Change{Counter: at.id, Collection: "comments", Fields: []string{"comments"}, At: r.clock}, time.Hour, at.id)
				}
				for left = min(left+second, second*ceiling.Holds.Seconds()); left >= 1; {
					r.scarce = left < 5*second
					f, ok := r.start(r.clock)
					if !ok {
						break
					}
					at, told := counters[f.counter], r.counted(1)
					if f.documents == "" {
						left -= 3
						if r.done(r.clock, f, refreshed{}); !at.asked.IsZero() { // or it has come since the recount
							at.asked, at.latest = time.Time{}, max(at.latest, r.clock.Sub(at.asked))
						}
						continue
					}
					if f.counter != "honest" {
						told.largest = c.reads
					}
					left -= float64(told.largest)
					r.recounted(r.clock, f, told)
				}
			}
			late, forged := counters["honest"].latest, time.Duration(0)
			for _, at := range counters {
				if forged = max(forged, at.latest); at.latest == 0 {
					t.Errorf("%s is never shown", at.id)
				}
			}
			if late > c.late {
				t.Errorf("an honest total is shown within %v, and forged ones within %v", late, forged)
			}
		})
	}
}

// A large collection waits for about as many events as its query takes reads, superseded ones
// included, or for a minute.
func TestLargeCollectionsWait(t *testing.T) {
	t.Parallel()
	r := newRecounting(t)
	r.event("a", 1, true)
	r.ends(r.begins(), succeeded, 4, "a")
	r.pass(10)
	r.event("b", 2, false)
	r.event("c", 3, false, "b")
	r.event("d", 3, false)
	r.waits()
	r.event("e", 4, false, "c", "d")
	r.ends(r.begins(), succeeded, 4, "e")

	r.pass(10)
	r.event("f", 5, false)
	r.pass(59)
	r.waits()
	r.pass(1)
	r.ends(r.begins(), succeeded, 4, "f")

	// An event that must be answered sooner is.
	r.pass(10)
	if _, ok := r.add(r.clock, comment(6, false), 15*time.Second, "g"); !ok {
		t.Fatal("refused")
	}
	if due := r.recounts.list[0].due(); !due.Equal(r.clock.Add(15 * time.Second)) {
		t.Errorf("due at %v", due)
	}
	r.pass(15)
	r.ends(r.begins(), succeeded, 1, "g")
}

// The first event's deadline holds, whatever supersedes it: a change every 35 s keeps no large
// collection from being counted within a minute.
func TestALargeCollectionDoesNotStarve(t *testing.T) {
	t.Parallel()
	r := newRecounting(t)
	r.event("a", 1, true)
	r.ends(r.begins(), succeeded, 50, "a")
	r.pass(10)
	r.event("0", 10, false)
	r.pass(35)
	r.event("1", 11, false, "0")
	r.pass(24)
	r.waits()
	r.pass(1)
	r.ends(r.begins(), succeeded, 50, "1")
}

// A strictly later change makes an earlier one done, in flight or not, and one that comes while it waits. One of the
// same time, and a deletion, wait.
func TestSupersededChanges(t *testing.T) {
	t.Parallel()
	r := newRecounting(t)
	r.event("late", 5, false)
	first := r.begins()
	r.event("early", 4, false)
	r.event("earlier", 3, false, "earlier")
	r.event("deletion", 3, true)
	r.event("twin", 5, false, "early")
	r.event("later", 6, false, "twin", "late")
	r.ends(first, succeeded, 1)
	r.pass(1)
	r.ends(r.begins(), succeeded, 1, "deletion", "later")
}

// What fails goes again with what has come meanwhile, until it has failed too often; what can't
// succeed doesn't.
func TestRecountsThatFail(t *testing.T) {
	t.Parallel()
	r := newRecounting(t)
	r.event("a", 1, true)
	r.fails(r.begins(), failed)
	r.event("b", 2, true)
	r.pass(2)
	again := r.begins()
	if again.events != 2 {
		t.Errorf("%d events", again.events)
	}
	r.fails(again, failed)
	r.waits() // for longer each time
	r.pass(15)
	r.fails(r.begins(), failed, "a", "b")
	r.event("c", 3, true)
	r.waits()
	r.pass(5)
	r.fails(r.begins(), permanent, "c")
	r.pass(5)
	r.event("d", 4, true)
	r.ends(r.begins(), unchanged, 0, "d")
	if r.waiting != 0 || r.recounts.running != 0 {
		t.Errorf("%d wait, %d run", r.waiting, r.recounts.running)
	}
}

// Only so many events wait, and what is drained goes at once.
func TestTooManyEventsForRecounts(t *testing.T) {
	t.Parallel()
	r := newRecounting(t)
	r.event("a", 1, true)
	r.ends(r.begins(), succeeded, 9, "a")
	for i, name := range []string{"b", "c", "d", "e", "f"} {
		r.event(name, i, true)
	}
	if _, ok := r.add(r.clock, comment(9, true), time.Hour, "g"); ok {
		t.Error("a sixth event is held")
	}
	if _, ok := r.add(r.clock, Change{Counter: "other", Collection: "comments", At: at(9)}, time.Hour, "g"); ok {
		t.Error("a sixth event is held, of another counter")
	}
	r.pass(2)
	r.waits()
	r.drain(r.clock)
	r.ends(r.begins(), succeeded, 9, "b", "c", "d", "e", "f")
	r.event("h", 20, true)
	if left := r.unbegun(); !slices.Equal(left, []string{"h"}) {
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
	names.Sharded, names.Counted = fields.Split()
	const name = "projects/p/databases/(default)/documents/counters/post-123/comments/c1"
	encode := func(value, old *firestoredata.Document) []byte {
		data, err := proto.Marshal(&firestoredata.DocumentEventData{Value: value, OldValue: old})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	want := Change{Counter: "post-123", Fields: []string{"comments"}, Collection: "comments", Document: "c1", Gone: true}
	got, err := decode(names, "application/protobuf", encode(nil, shardDoc(name, at(2), text("count is a text"))))
	if diff := cmp.Diff([]Change{want}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	want.Gone, want.At = false, at(3)
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
// written before. Of deletions alone no counter is made, so what was written has to be told of by an
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
		r.recounted(r.clock, r.begins(), r.counted(1))
		if f, ok := r.start(r.clock); !ok || !f.makes {
			t.Errorf("%+v: want a refresh that makes a counter", f)
		}
	}
	r := newRecounting(t)
	r.event("deletion", 30, true)
	r.recounted(r.clock, r.begins(), r.counted(1))
	if f, ok := r.start(r.clock); !ok || f.makes {
		t.Errorf("%+v: want one for a deletion", f)
	}
}
