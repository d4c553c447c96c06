package shards

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/store"
)

func drawAddition(t *rapid.T) *addition {
	counters := rapid.SampledFrom([][]string{{"a"}, {"a"}, {"b"}, {"a", "b"}, {"b", "c"}}).Draw(t, "counters")
	var increments []Increment
	for _, c := range counters {
		by := rapid.SampledFrom([]int64{1, 5, -2, math.MaxInt64, math.MinInt64}).Draw(t, "by")
		increments = append(increments, Increment{Counter: c, By: by})
	}
	key := Key{Value: rapid.SampledFrom([]string{"", "", "k1", "k2", "k3"}).Draw(t, "key")}
	a, err := newAddition(flatPath, increments, key, "scope")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Whatever waits: batches take it in order, none of it twice, and hold only what can be committed together.
func TestTakeBatch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		queue := rapid.SliceOfN(rapid.Custom(drawAddition), 1, 40).Draw(t, "queue")
		most := rapid.IntRange(1, 20).Draw(t, "most")
		var taken []*addition
		for left := queue; len(left) > 0; {
			before := left
			var b *batch
			b, left = takeBatch(left, most)
			if len(b.additions) == 0 || len(b.additions) > most || b.additions[0] != before[0] {
				t.Fatalf("%d additions of %d, at most %d", len(b.additions), len(before), most)
			}
			if !inOrder(before, b.additions) || !inOrder(before, left) {
				t.Fatal("out of order")
			}
			keys := map[string]bool{}
			want := map[string]int64{}
			for _, a := range b.additions {
				if keys[a.key] && a.key != "" {
					t.Fatal("a key comes twice: the commit would fail on itself")
				}
				keys[a.key] = true
				for _, i := range a.increments {
					sum, ok := add(want[i.Counter], i.By)
					if !ok {
						t.Fatal("a sum is no int64")
					}
					want[i.Counter] = sum
				}
			}
			got := map[string]int64{}
			for _, sum := range b.sums() {
				if _, twice := got[sum.Counter]; twice {
					t.Fatal("a counter is written twice")
				}
				got[sum.Counter] = sum.By
			}
			if !maps.Equal(got, want) {
				t.Fatalf("sums %v, want %v", got, want)
			}
			taken = append(taken, b.additions...)
		}
		if len(taken) != len(queue) {
			t.Fatalf("%d additions were taken of %d", len(taken), len(queue))
		}
	})
}

// inOrder reports whether part is a part of all, in its order.
func inOrder(all, part []*addition) bool {
	at := 0
	for _, a := range part {
		n := slices.Index(all[at:], a)
		if n < 0 {
			return false
		}
		at += n + 1
	}
	return true
}

func TestTakeBatchBoundsWrites(t *testing.T) {
	t.Parallel()
	var queue []*addition
	for i := range 2000 {
		a, err := newAddition(flatPath, []Increment{{Counter: fmt.Sprint(i), By: 1}}, Key{Value: fmt.Sprint("k", i)}, "")
		if err != nil {
			t.Fatal(err)
		}
		queue = append(queue, a)
	}
	for len(queue) > 0 {
		var b *batch
		b, queue = takeBatch(queue, 500)
		if writes := len(b.sums()) + len(newFlight(b, true).markers()); writes > maxWrites {
			t.Fatalf("%d writes, want at most %d", writes, maxWrites)
		}
	}
}

// firestore is a Firestore in so far as flights see it.
type firestore struct {
	markers map[string]marker
	gone    map[string]bool // counters
	late    []sent          // commits that were sent, and may be applied at any time
	counted map[*addition]int
}

// sent is a commit.
type sent struct {
	additions []*addition
	markers   map[string]marker
}

func (s *firestore) apply(c sent) error {
	for _, a := range c.additions {
		if _, is := a.touches(s.gone); is {
			return status.Error(codes.NotFound, "no document to update")
		}
	}
	for id := range c.markers {
		if _, there := s.markers[id]; there {
			return status.Error(codes.AlreadyExists, "document already exists")
		}
	}
	maps.Copy(s.markers, c.markers)
	for _, a := range c.additions {
		s.counted[a]++
	}
	return nil
}

func (s *firestore) applyLate(n int) {
	c := s.late[n]
	s.late = slices.Delete(s.late, n, n+1)
	_ = s.apply(c)
}

// Several flights at once, callers that repeat their requests, commits that fail, are lost or come late, and counters
// that go away: whatever an addition's outcome says is true of how often it was counted.
func TestFlightsCountOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &firestore{markers: map[string]marker{}, gone: map[string]bool{}, counted: map[*addition]int{}}
		type flying struct {
			*flight
			next step
		}
		var flights []*flying
		var all []*addition
		for range rapid.IntRange(1, 4).Draw(t, "flights") {
			queue := rapid.SliceOfN(rapid.Custom(drawAddition), 1, 5).Draw(t, "queue")
			b, _ := takeBatch(queue, 5)
			all = append(all, b.additions...)
			flights = append(flights, &flying{newFlight(b, rapid.Bool().Draw(t, "exact")), choose})
		}
		for len(flights) > 0 {
			at := rapid.IntRange(0, len(flights)-1).Draw(t, "flight")
			f := flights[at]
			switch f.next {
			case choose, makeShards:
				gone := map[string]bool{}
				for _, sum := range f.sums() {
					if s.gone[sum.Counter] {
						gone[sum.Counter] = true
					}
				}
				f.next = f.without(gone)
			case readMarkers:
				there := map[string]marker{}
				for id := range f.markers() {
					if m, ok := s.markers[id]; ok {
						there[id] = m
					}
				}
				f.next = f.found(there)
			case wait:
				if rapid.IntRange(0, 9).Draw(t, "deadline") == 0 {
					f.next = f.giveUp(ErrBusy, nil)
				} else {
					f.next = choose
				}
			case commit:
				c := sent{slices.Clone(f.additions), f.markers()}
				unavailable := status.Error(codes.Unavailable, "unavailable")
				var err error
				switch rapid.SampledFrom([]string{"", "", "", "lost", "never", "late", "contention", "denied"}).Draw(t, "fault") {
				case "":
					err = s.apply(c)
				case "lost":
					if err = s.apply(c); err == nil {
						err = unavailable
					}
				case "never":
					err = unavailable
				case "late":
					s.late = append(s.late, c)
					err = status.Error(codes.DeadlineExceeded, "deadline exceeded")
				case "contention":
					err = status.Error(codes.Aborted, "too much contention")
				case "denied":
					err = status.Error(codes.PermissionDenied, "denied")
				}
				if err == nil {
					f.next = f.applied()
				} else {
					f.next = f.refused(err)
				}
			}
			if f.next == landed {
				flights = slices.Delete(flights, at, at+1)
			}
			switch rapid.IntRange(0, 30).Draw(t, "meanwhile") {
			case 0:
				s.gone[rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "gone")] = true
			case 1, 2, 3:
				if len(s.late) > 0 {
					s.applyLate(rapid.IntRange(0, len(s.late)-1).Draw(t, "late commit"))
				}
			}
		}
		for len(s.late) > 0 {
			s.applyLate(0)
		}
		ofKey := map[string]int{}
		for _, a := range all {
			if a.key != "" {
				ofKey[a.key] += s.counted[a]
			}
		}
		for _, a := range all {
			var out outcome
			select {
			case out = <-a.done:
			default:
				t.Fatal("an addition has no outcome")
			}
			n := s.counted[a]
			switch {
			case n > 1 || ofKey[a.key] > 1 && a.key != "":
				t.Fatalf("%v was counted %d times, its key %d times", a.increments, n, ofKey[a.key])
			case out.replayed && (n != 0 || ofKey[a.key] != 1):
				t.Fatalf("%v is a replay, was counted %d times and its key %d times", a.increments, n, ofKey[a.key])
			case !out.replayed && out.err == nil && n != 1:
				t.Fatalf("%v was answered, and counted %d times", a.increments, n)
			case out.err != nil && !errors.Is(out.err, ErrUnknown) && n != 0:
				t.Fatalf("%v failed with %v, and was counted", a.increments, out.err)
			}
		}
	})
}

// flatPath is the default one.
var flatPath = func() store.Path {
	path, err := store.ParsePath(store.DefaultPath)
	if err != nil {
		panic(err)
	}
	return path
}()
