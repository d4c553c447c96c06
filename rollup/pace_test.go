package rollup

import (
	"container/heap"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/book"
)

func newPacer() *pacer[int] {
	return &pacer[int]{
		least: time.Second, most: 5 * time.Second, burst: 5, patience: 15 * time.Second, recountMax: time.Minute,
		maxWaiting: 100, maxRunning: 10, spread: func() float64 { return 0 }, backlogs: map[source]*backlog[int]{},
	}
}

// event is a change of field a of counter c, n milliseconds after the start; below 0 it has no time.
func event(n int, fields ...string) Change {
	c := Change{Counter: "c", Fields: fields}
	if len(fields) == 0 {
		c.Fields = []string{"a"}
	}
	if n >= 0 {
		c.At = after(time.Duration(n) * time.Millisecond)
	}
	return c
}

func shownAsOf(n int, fields ...string) map[string]time.Time {
	asOf := map[string]time.Time{}
	for _, f := range fields {
		asOf[f] = after(time.Duration(n) * time.Millisecond)
	}
	return asOf
}

// Whatever comes, goes, or becomes due sooner or later, the first of all, too: the earliest is on top. What is in no
// queue may be moved.
func TestQueue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newPacer()
		q := &p.refreshes
		var in []*backlog[int]
		moment := rapid.Custom(func(t *rapid.T) time.Time {
			return after(time.Duration(rapid.IntRange(0, 9).Draw(t, "second")) * time.Second)
		})
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				b := &backlog[int]{latest: moment.Draw(t, "at")}
				heap.Push(q, b)
				in = append(in, b)
			},
			"pop": func(t *rapid.T) {
				if len(in) == 0 {
					t.Skip("it is empty")
				}
				b := heap.Pop(q).(*backlog[int])
				in = slices.DeleteFunc(in, func(other *backlog[int]) bool { return other == b })
				b.latest = moment.Draw(t, "at")
				p.reorder(b)
			},
			"moved": func(t *rapid.T) {
				if len(in) == 0 {
					t.Skip("it is empty")
				}
				b := rapid.SampledFrom(in).Draw(t, "one of them")
				b.latest = moment.Draw(t, "at")
				p.reorder(b)
			},
			"": func(t *rapid.T) {
				if q.Len() != len(in) {
					t.Fatalf("it has %d, want %d", q.Len(), len(in))
				}
				for _, b := range in {
					if b.due().Before(q.list[0].due()) {
						t.Fatalf("one is due at %v, and the first at %v", b.due(), q.list[0].due())
					}
				}
			},
		})
	})
}

// A quiet counter has its burst at once, and a hot one a refresh each interval.
func TestPacerKeepsTheBucket(t *testing.T) {
	t.Parallel()
	p := newPacer()
	earliest := start
	for i := range 8 {
		if _, ok := p.add(after(0), event(i), time.Hour, i); !ok {
			t.Fatal("no room")
		}
		if i >= 5 { // the bucket is empty
			if _, ok := p.start(earliest.Add(-time.Millisecond)); ok {
				t.Fatalf("refresh %d starts too early", i)
			}
		}
		f, ok := p.start(earliest)
		if !ok {
			t.Fatalf("refresh %d doesn't start", i)
		}
		next := f.nextStart(start.Add(time.Duration(i-4)*time.Second), earliest)
		s := p.done(earliest, f, refreshed{outcome: succeeded, wrote: true, untilNext: next.Sub(earliest), asOf: shownAsOf(i, "a")})
		if !slices.Equal(s.done, []int{i}) {
			t.Fatalf("%v are done", s.done)
		}
		if next.After(earliest) {
			earliest = next
		}
	}
}

// A crowd has one refresh an interval from the start, and what a counter is made with is none: its first click is shown
// at once.
func TestPacerKeepsACrowdToTheInterval(t *testing.T) {
	t.Parallel()
	changed := func(n int, by int64) Change {
		c := event(n)
		c.Shard, c.Delta = "0", map[string]int64{"a": by}
		return c
	}
	for name, tt := range map[string]struct {
		first, then int   // events
		by          int64 // each changes its shard
		due         time.Duration
	}{
		"clicks":              {1, 2, 1, 0},
		"a crowd":             {3, 1, 1, time.Second},
		"a crowd that comes":  {1, 3, 1, time.Second},
		"a counter is made":   {10, 1, 0, 0},
		"its shards are made": {1, 10, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPacer()
			for i := range tt.first {
				p.add(after(0), changed(i, tt.by), time.Hour, i)
			}
			f, ok := p.start(start)
			if !ok {
				t.Fatal("the first refresh doesn't start at once")
			}
			next := f.nextStart(start.Add(-time.Hour), start)
			p.done(start, f, refreshed{outcome: succeeded, wrote: true, untilNext: next.Sub(start), asOf: shownAsOf(tt.first-1, "a")})
			for i := range tt.then {
				p.add(start, changed(100+i, tt.by), time.Hour, 100+i)
			}
			if tt.due > 0 {
				if _, early := p.start(start.Add(tt.due - time.Millisecond)); early {
					t.Error("the next one starts too early")
				}
			}
			if _, ok := p.start(start.Add(tt.due)); !ok {
				t.Errorf("the next one doesn't start after %v", tt.due)
			}
		})
	}
}

// An event need not wait where a later one of its fields does, and where its fields are shown as of its write.
func TestPacerHoldsWhatMustWait(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		first, next  Change
		done         []int // at once
		waiting      int
		firstFlights bool // the first is in flight when the next comes
	}{
		{"later", event(1), event(2), []int{1}, 1, false},
		{"earlier", event(2), event(1), []int{2}, 1, false},
		{"at one time", event(1), event(1), nil, 2, false},
		{"later, of another field", event(1), event(2, "b"), nil, 2, false},
		{"later, of more fields", event(1), event(2, "a", "b"), []int{1}, 1, false},
		{"later, of fewer fields", event(1, "a", "b"), event(2), nil, 2, false},
		{"earlier, of fewer fields", event(2, "a", "b"), event(1), []int{2}, 1, false},
		{"without a time", event(1), event(-1), nil, 2, false},
		{"after one without a time", event(-1), event(1), nil, 2, false},
		{"later than one in flight", event(1), event(2), []int{1}, 1, true},
		{"earlier than one in flight", event(2), event(1), nil, 2, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPacer()
			p.add(start, tt.first, time.Hour, 1)
			if tt.firstFlights {
				p.start(start)
			}
			done, ok := p.add(start, tt.next, time.Hour, 2)
			if !ok || !slices.Equal(done, tt.done) || p.waiting != tt.waiting {
				t.Errorf("%v are done, %d wait; want %v, %d", done, p.waiting, tt.done, tt.waiting)
			}
		})
	}
}

// What came after a refresh began is not covered by its question, unless its write is: a commit says as of when.
func TestPacerCoversWhatCame(t *testing.T) {
	t.Parallel()
	p := newPacer()
	p.add(start, event(-1), time.Hour, 1)
	f, _ := p.start(start)
	p.add(start, event(10), time.Hour, 2)
	p.add(start, event(20, "b"), time.Hour, 3)
	p.add(start, event(-1), time.Hour, 4)
	s := p.done(start, f, refreshed{outcome: succeeded, wrote: true, asOf: shownAsOf(15, "a", "b")})
	if slices.Sort(s.done); !slices.Equal(s.done, []int{1, 2}) {
		t.Errorf("%v are done, want the one in flight, and the one whose write is shown", s.done)
	}
	if p.waiting != 2 {
		t.Errorf("%d wait, want the one of a later write, and the one of which nobody knows when it was", p.waiting)
	}
}

// An event without a time of its own takes that of the first look after it came: it is shown once the document is
// newer than that.
func TestPacerStampsWhatHasNoTime(t *testing.T) {
	t.Parallel()
	p := newPacer()
	p.add(start, event(-1), time.Hour, 1)
	f, _ := p.start(start)
	s := p.done(start, f, refreshed{outcome: leftToOthers, readAt: after(30 * time.Millisecond), asOf: shownAsOf(20, "a"), untilNext: time.Second})
	if len(s.done) > 0 {
		t.Fatalf("%v are done, and what was looked at was older", s.done)
	}
	if _, ok := p.start(after(time.Second)); ok {
		t.Error("it looks again before the other is due")
	}
	f, ok := p.start(after(2 * time.Second))
	if !ok {
		t.Fatal("it doesn't look again")
	}
	s = p.done(start, f, refreshed{outcome: leftToOthers, readAt: after(2 * time.Second), asOf: shownAsOf(1030, "a"), untilNext: time.Second})
	if !slices.Equal(s.done, []int{1}) {
		t.Errorf("%v are done, want the one that was shown since", s.done)
	}
}

// A refresh finds no document, and then the app makes one. An event of an earlier write that came since is looked for
// again, though the refresh in flight was for a later one; where the document shows it, nothing more is asked.
func TestPacerLooksAgainForWhatCameAfterTheLook(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]refreshed{"missing": {readAt: after(5 * time.Millisecond)}, "there": {wrote: true, asOf: shownAsOf(5, "a")}} {
		p := newPacer()
		p.add(start, event(2), time.Hour, 1)
		f, _ := p.start(start)
		p.add(after(30*time.Millisecond), event(1), time.Hour, 2)
		s := p.done(after(40*time.Millisecond), f, r)
		if _, looks := p.start(after(time.Second)); slices.Contains(s.done, 2) == looks || looks != (name == "missing") {
			t.Errorf("%s: %v are done; it looks again: %v", name, s.done, looks)
		}
	}
}

// A deletion comes after the look of the refresh that is in flight, and after its question: neither covers it.
func TestPacerStampsNothingThatCameAfterTheLook(t *testing.T) {
	t.Parallel()
	for _, o := range []outcome{succeeded, leftToOthers} {
		p := newPacer()
		p.add(start, event(1), time.Hour, 1)
		f, _ := p.start(start)
		p.add(after(30*time.Millisecond), event(-1), time.Hour, 2)
		s := p.done(after(40*time.Millisecond), f, refreshed{outcome: o, readAt: after(10 * time.Millisecond), asOf: shownAsOf(20, "a"), wrote: o == succeeded})
		if !slices.Equal(s.done, []int{1}) || p.waiting != 1 {
			t.Errorf("outcome %d: %v are done, and %d wait; want that the deletion waits", o, s.done, p.waiting)
		}
	}
}

// A deletion has no time of its own, and the time of a look covers no event that came since: of two copies of it the
// other may be acknowledged, and this one is gone with the process.
func TestPacerStampsCoverNothing(t *testing.T) {
	t.Parallel()
	p := newPacer()
	p.add(start, event(-1), time.Hour, 1)
	f, _ := p.start(start)
	p.done(start, f, refreshed{outcome: leftToOthers, readAt: after(30 * time.Millisecond), asOf: shownAsOf(20, "a"), untilNext: time.Second})
	if done, ok := p.add(after(40), event(25), time.Hour, 2); len(done) > 0 || !ok {
		t.Fatalf("%v are done", done)
	}
	if done, _ := p.add(after(50), event(45), time.Hour, 3); !slices.Equal(done, []int{2}) {
		t.Fatalf("%v are done, and the later event covers 2", done)
	}
}

// Where there is no document, nothing is shown, and only the events are done that had come before that was seen: it may
// have been made since.
func TestPacerMissesADocumentForWhatHadCome(t *testing.T) {
	t.Parallel()
	p := newPacer()
	p.add(start, event(0), time.Hour, 1)
	f, _ := p.start(start)
	p.add(after(10), event(5, "b"), time.Hour, 2)
	if s := p.done(after(20), f, refreshed{outcome: succeeded, readAt: after(8)}); !slices.Equal(s.done, []int{1}) {
		t.Errorf("%v are done, want 1", s.done)
	}
}

// After failures an event waits until its counter's patience is over. Then it is noted where that is the counter's own
// trouble, and delivered again otherwise.
func TestPacerIsPatient(t *testing.T) {
	t.Parallel()
	for o, want := range map[outcome]string{failed: "refused", contended: "noted", ownFault: "noted at once", permanent: "refused at once"} {
		p := newPacer()
		p.add(start, event(1), time.Hour, 1)
		now, tries, got := start, 0, ""
		for got == "" {
			f, ok := p.start(now)
			if !ok {
				now, _ = p.wake()
				continue
			}
			tries++
			switch s := p.done(now, f, refreshed{outcome: o}); {
			case len(s.redeliver) == 1:
				got = "refused"
			case len(s.noted) == 1:
				got = "noted"
			}
		}
		if tries == 1 {
			got += " at once"
		}
		if waited := now.Sub(start); got != want || tries > 1 && (waited < 15*time.Second || waited > 25*time.Second) {
			t.Errorf("outcome %d: %s after %d tries and %v, want %s", o, got, tries, waited, want)
		}
	}
}

// After its first failure a refresh is tried again soon, and the next ones come as often as before. After more they
// come less often.
func TestPacerForgivesOneFailure(t *testing.T) {
	t.Parallel()
	p := newPacer()
	p.spread = func() float64 { return 1 }
	p.add(start, event(0), time.Hour, 1)
	f, _ := p.start(start)
	now := start
	for n, want := range []struct{ pause, interval time.Duration }{{750 * time.Millisecond, time.Second}, {1500 * time.Millisecond, 2 * time.Second}} {
		p.done(now, f, refreshed{outcome: contended})
		next, _ := p.wake()
		var ok bool
		if f, ok = p.start(next); !ok || next.Sub(now) > want.pause || f.interval != want.interval {
			t.Errorf("after %d failures: %v later, an interval of %v; want %v and %v", n+1, next.Sub(now), f.interval, want.pause, want.interval)
		}
		now = next
	}
}

// Answers that are early are asked again, and land with what they wait for otherwise.
func TestPacerLandsAnswers(t *testing.T) {
	t.Parallel()
	p := newPacer()
	change := Change{Counter: "c", Collection: "comments", Fields: []string{"n"}, At: after(0)}
	got := queried{answers: map[string]book.Answer{"n": {At: after(time.Millisecond)}}, at: after(time.Millisecond)}
	now := start
	p.add(now, change, time.Hour, 1)
	for _, early := range []string{"n", ""} {
		f, ok := p.start(now)
		if !ok || f.documents != "comments" {
			t.Fatalf("%+v, want a recount", f)
		}
		p.recounted(now, f, got)
		if f, ok = p.start(now); !ok || f.answers["n"].At != got.answers["n"].At || !f.makes {
			t.Fatalf("%+v", f)
		}
		s := p.done(now, f, refreshed{askAgain: []string{early}})
		if early != "" && (len(s.done) > 0 || p.waiting != 1) || early == "" && (!slices.Equal(s.done, []int{1}) || p.waiting != 0) {
			t.Errorf("early %q: %+v, %d wait", early, s, p.waiting)
		}
		now = now.Add(time.Second)
	}
}

// All fields are asked for once a minute while one changes.
func TestPacerAsksForAll(t *testing.T) {
	t.Parallel()
	p := newPacer()
	asked := 0
	for i := range 130 {
		now := after(time.Duration(i) * time.Second)
		p.add(now, event(i*1000), time.Hour, i)
		f, ok := p.start(now)
		if !ok {
			t.Fatal(i)
		}
		if f.all {
			asked++
		}
		p.done(now, f, refreshed{outcome: succeeded, wrote: true, asOf: shownAsOf(i*1000, "a")})
	}
	if asked != 2 {
		t.Errorf("all fields were asked for %d times in 130 s, want 2", asked)
	}
}

// Whatever comes and however refreshes end: nothing is held twice or forgotten, no two refreshes of a counter are in
// flight, and nothing waits beyond the bound.
func TestPacerKeepsItsBooks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newPacer()
		p.maxWaiting = 20
		now, n := start, 0
		open, flying := map[int]bool{}, map[string]flight{}
		ends := func(list []int) {
			for _, e := range list {
				if !open[e] {
					t.Fatalf("event %d ends twice", e)
				}
				delete(open, e)
			}
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				c := event(rapid.IntRange(-1, 9).Draw(t, "at"), rapid.SampledFrom([][]string{{"a"}, {"b"}, {"a", "b"}}).Draw(t, "fields")...)
				c.Counter = fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "counter"))
				n++
				open[n] = true
				done, ok := p.add(now, c, time.Hour, n)
				ends(done)
				if !ok {
					delete(open, n)
				}
			case 1:
				p.scarce = rapid.Bool().Draw(t, "scarce")
				if f, ok := p.start(now); ok {
					if _, twice := flying[f.counter]; twice {
						t.Fatalf("two refreshes of counter %s", f.counter)
					}
					flying[f.counter] = f
				}
			default:
				for id, f := range flying {
					delete(flying, id)
					o := rapid.SampledFrom([]outcome{succeeded, leftToOthers, failed, contended, ownFault, permanent}).Draw(t, "outcome")
					r := refreshed{untilNext: time.Second, readAt: after(5 * time.Millisecond)}
					if o == succeeded || o == leftToOthers {
						r.asOf = shownAsOf(rapid.IntRange(0, 9).Draw(t, "as of"), "a", "b")
					}
					r.outcome = o
					s := p.done(now, f, r)
					ends(slices.Concat(s.done, s.noted, s.redeliver))
					break
				}
			}
			if p.waiting != len(open) || p.waiting > p.maxWaiting {
				t.Fatalf("%d wait by its own count, and %d do", p.waiting, len(open))
			}
		}
	})
}
