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

func drawRequest(t *rapid.T) *request {
	counters := rapid.SampledFrom([][]string{{"a"}, {"a"}, {"b"}, {"c"}, {"a", "b"}, {"b", "c"}}).Draw(t, "counters")
	var increments []Increment
	for _, c := range counters {
		by := rapid.SampledFrom([]int64{1, 5, -2, math.MaxInt64, math.MinInt64}).Draw(t, "by")
		increments = append(increments, Increment{Counter: c, By: by})
	}
	key := Key{Value: rapid.SampledFrom([]string{"", "", "k1", "k2", "k3"}).Draw(t, "key")}
	r, err := newRequest(flat, increments, key, "scope")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// gather puts a batch together of what waits.
func gather(queue []*request, most int) (*batch, []*request) {
	g := newGathering(most)
	left := g.take(queue)
	return g.batch, left
}

// Whatever waits: batches take it in order, none of it twice, and hold only what can be committed together, also when
// some of it drops out.
func TestGathering(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		queue := rapid.SliceOfN(rapid.Custom(drawRequest), 1, 40).Draw(t, "queue")
		most := rapid.IntRange(1, 20).Draw(t, "most")
		var taken []*request
		for left := queue; len(left) > 0; {
			before := slices.Clone(left)
			var b *batch
			b, left = gather(left, most)
			if len(b.requests) == 0 || len(b.requests) > most || b.requests[0] != before[0] {
				t.Fatalf("%d requests of %d, at most %d", len(b.requests), len(before), most)
			}
			if !inOrder(before, b.requests) || !inOrder(before, left) {
				t.Fatal("out of order")
			}
			keys := map[string]bool{}
			for _, r := range b.requests {
				if keys[r.key] && r.key != "" {
					t.Fatal("a key comes twice: the commit would fail on itself")
				}
				keys[r.key] = true
			}
			taken = append(taken, b.requests...)
			stay := rapid.SliceOfN(rapid.Bool(), len(b.requests), len(b.requests)).Draw(t, "stay")
			n := -1
			b.requests = slices.DeleteFunc(slices.Clone(b.requests), func(*request) bool { n++; return !stay[n] && n > 0 })
			want := map[string]int64{}
			for _, r := range b.requests {
				for _, i := range r.increments {
					sum, ok := add(want[i.Counter], i.By)
					if !ok {
						t.Fatalf("a sum of what is left does not fit: %d and %d", want[i.Counter], i.By)
					}
					want[i.Counter] = sum
				}
			}
			got := map[string]int64{}
			for _, sum := range b.sums() {
				if _, twice := got[sum.counter]; twice {
					t.Fatal("a counter is written twice")
				}
				got[sum.counter] = sum.fields[0].By
			}
			if !maps.Equal(got, want) {
				t.Fatalf("sums %v, want %v", got, want)
			}
		}
		if len(taken) != len(queue) {
			t.Fatalf("%d requests were taken of %d", len(taken), len(queue))
		}
	})
}

// A replay that drops out of a batch of −1, 2⁶² and 2⁶² leaves a sum that fits.
func TestSumOfWhatIsLeftOfABatch(t *testing.T) {
	t.Parallel()
	var queue []*request
	for _, by := range []int64{-1, 1 << 62, 1 << 62} {
		r, err := newRequest(flat, []Increment{{Counter: "a", By: by}}, Key{}, "")
		if err != nil {
			t.Fatal(err)
		}
		queue = append(queue, r)
	}
	b, _ := gather(queue, 500)
	b.requests = b.requests[1:]
	var want int64
	for _, r := range b.requests {
		want += r.increments[0].By
	}
	if got := b.sums()[0].fields[0].By; got != want || got < 0 {
		t.Errorf("what is left adds up to %d, want %d, which is more than nothing", got, want)
	}
}

// inOrder reports whether part is a part of all, in its order.
func inOrder(all, part []*request) bool {
	at := 0
	for _, r := range part {
		n := slices.Index(all[at:], r)
		if n < 0 {
			return false
		}
		at += n + 1
	}
	return true
}

func TestGatheringBoundsWrites(t *testing.T) {
	t.Parallel()
	var queue []*request
	for i := range 2000 {
		r, err := newRequest(flat, []Increment{{Counter: fmt.Sprint(i), By: 1}}, Key{Value: fmt.Sprint("k", i)}, "")
		if err != nil {
			t.Fatal(err)
		}
		queue = append(queue, r)
	}
	for len(queue) > 0 {
		var b *batch
		b, queue = gather(queue, 500)
		if writes := len(b.sums()) + len(newInFlight(b, true).markers()); writes > maxWrites {
			t.Fatalf("%d writes, want at most %d", writes, maxWrites)
		}
	}
}

// firestore is a Firestore in so far as batches see it.
type firestore struct {
	markers map[string]marker
	gone    map[string]bool // counters
	bad     map[string]bool // counters that Firestore won't have
	late    []sent          // commits that were sent, and may be applied at any time
	counted map[*request]int

	shardsFirst bool // it looks at the shards before the markers
}

// sent is a commit.
type sent struct {
	requests []*request
	markers  map[string]marker
}

func (s *firestore) apply(c sent) error {
	var missing, exists error
	for _, r := range c.requests {
		if _, is := r.touches(func(id string) bool { return s.bad[id] }); is {
			return status.Error(codes.InvalidArgument, "not this one")
		}
		if _, is := r.touches(func(id string) bool { return s.gone[id] }); is {
			missing = status.Error(codes.NotFound, "no document to update")
		}
	}
	for id := range c.markers {
		if _, there := s.markers[id]; there {
			exists = status.Error(codes.AlreadyExists, "document already exists")
		}
	}
	if s.shardsFirst && missing != nil {
		return missing
	}
	if exists != nil {
		return exists
	}
	if missing != nil {
		return missing
	}
	maps.Copy(s.markers, c.markers)
	for _, r := range c.requests {
		s.counted[r]++
	}
	return nil
}

func (s *firestore) applyLate(n int) {
	c := s.late[n]
	s.late = slices.Delete(s.late, n, n+1)
	_ = s.apply(c)
}

// send sends a commit that may meet a fault.
func (s *firestore) send(t *rapid.T, c sent) error {
	unavailable := status.Error(codes.Unavailable, "unavailable")
	switch rapid.SampledFrom([]string{"", "", "", "lost", "never", "late", "contention", "denied", "quota", "torn"}).Draw(t, "fault") {
	case "lost":
		if err := s.apply(c); err != nil {
			return err
		}
		return unavailable
	case "never":
		return unavailable
	case "late":
		s.late = append(s.late, c)
		return status.Error(codes.DeadlineExceeded, "deadline exceeded")
	case "contention":
		return status.Error(codes.Aborted, "too much contention")
	case "denied":
		return status.Error(codes.PermissionDenied, "denied")
	case "quota":
		return status.Error(codes.ResourceExhausted, "quota exceeded")
	case "torn":
		s.late = append(s.late, c)
		return status.Error(codes.ResourceExhausted, "stream terminated by RST_STREAM with error code: ENHANCE_YOUR_CALM")
	}
	return s.apply(c)
}

// Several batches at once, shared by counters or not, callers that repeat their requests, commits that fail, are lost or
// come late, counters that go away and come back, and requests that leave a batch in trouble: whatever a request's outcome
// says is true of how often it was counted.
func TestBatchesCountOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &firestore{
			markers: map[string]marker{}, gone: map[string]bool{}, bad: map[string]bool{}, counted: map[*request]int{},
			shardsFirst: rapid.Bool().Draw(t, "shards first"),
		}
		if rapid.IntRange(0, 5).Draw(t, "one is bad") == 0 {
			s.bad[rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "bad")] = true
		}
		type running struct {
			*inFlight
			next step
		}
		var batches []*running
		var all []*request
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			queue := rapid.SliceOfN(rapid.Custom(drawRequest), 1, 5).Draw(t, "queue")
			b, _ := gather(queue, 5)
			all = append(all, b.requests...)
			batches = append(batches, &running{newInFlight(b, rapid.Bool().Draw(t, "exact")), pickShards})
		}
		for len(batches) > 0 {
			at := rapid.IntRange(0, len(batches)-1).Draw(t, "batch")
			f := batches[at]
			switch f.next {
			case pickShards, makeShards:
				if f.next == pickShards && !f.doubt && rapid.IntRange(0, 5).Draw(t, "unknown counters") == 0 {
					known := func(r *request) bool { _, is := r.touches(func(id string) bool { return id == "b" }); return !is }
					if others := f.takeOut(known); others != nil {
						batches = append(batches, &running{others, pickShards})
					}
				}
				gone := map[string]bool{}
				for _, sum := range f.sums() {
					if s.gone[sum.counter] {
						gone[sum.counter] = true
					}
				}
				f.next = f.without(gone)
			case readMarkers:
				if rapid.IntRange(0, 9).Draw(t, "unreadable") == 0 {
					f.next = f.unread(status.Error(codes.Unavailable, "unavailable"))
					break
				}
				there := map[string]marker{}
				for id := range f.markers() {
					if m, ok := s.markers[id]; ok {
						there[id] = m
					}
				}
				f.next = f.found(there)
			case settle:
				if err := s.send(t, sent{markers: map[string]marker{f.id: {batch: f.id, settled: true}}}); err == nil {
					f.next = f.settled()
				} else {
					f.next = f.unsettled(err)
				}
			case pause:
				if rapid.IntRange(0, 9).Draw(t, "deadline") == 0 {
					f.next = f.conclude(ErrBusy, nil)
				} else {
					f.next = f.resume()
				}
			case leave:
				for _, part := range f.split(func(*request) bool { return true }) {
					batches = append(batches, &running{part, pickShards})
				}
				f.next = finished
			case sendCommit:
				if err := s.send(t, sent{slices.Clone(f.requests), f.markers()}); err == nil {
					f.next = f.applied()
				} else {
					f.next = f.failed(err)
				}
			}
			if f.next == finished {
				batches = slices.Delete(batches, at, at+1)
			}
			switch rapid.IntRange(0, 30).Draw(t, "meanwhile") {
			case 0:
				counter := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "goes or comes")
				s.gone[counter] = !s.gone[counter]
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
		for _, r := range all {
			if r.key != "" {
				ofKey[r.key] += s.counted[r]
			}
		}
		for _, r := range all {
			var out outcome
			select {
			case out = <-r.done:
			default:
				t.Fatal("a request has no outcome")
			}
			if len(r.done) > 0 {
				t.Fatal("a request has two outcomes")
			}
			n := s.counted[r]
			switch {
			case n > 1 || ofKey[r.key] > 1 && r.key != "":
				t.Fatalf("%v was counted %d times, its key %d times", r.increments, n, ofKey[r.key])
			case out.replayed && (n != 0 || ofKey[r.key] != 1):
				t.Fatalf("%v is a replay, was counted %d times and its key %d times", r.increments, n, ofKey[r.key])
			case !out.replayed && out.err == nil && n != 1:
				t.Fatalf("%v was answered, and counted %d times", r.increments, n)
			case out.err != nil && !errors.Is(out.err, ErrUnknown) && n != 0:
				t.Fatalf("%v failed with %v, and was counted", r.increments, out.err)
			}
		}
	})
}

// flat is the default layout.
var flat = func() store.Layout {
	path, err := store.ParsePath(store.DefaultPath)
	if err != nil {
		panic(err)
	}
	return store.Layout{Path: path, Fields: store.Fields{{Name: "total", Shard: "count"}, {Name: "views", Shard: "views"}}, Shards: store.DefaultShards}
}()

// Without a marker for each commit, a batch that has a key in it can still find out what became of it.
func TestBatchWithAKeyIsMarked(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{{"k"}, {"k", ""}, {"k", "l"}} {
		b := &batch{id: newID()}
		for _, key := range keys {
			r, err := newRequest(flat, []Increment{{Counter: "a", By: 1}}, Key{Value: key}, "")
			if err != nil {
				t.Fatal(err)
			}
			b.requests = append(b.requests, r)
		}
		f := newInFlight(b, false)
		if next := f.failed(status.Error(codes.Unavailable, "lost")); !f.marked() || next != pause {
			t.Errorf("keys %q: marked %v, then step %d; want another try with the same markers", keys, f.marked(), next)
		}
	}
}
