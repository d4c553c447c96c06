package shards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

func drawRequest(t *rapid.T) *request {
	if rapid.IntRange(0, 4).Draw(t, "member") == 0 {
		return drawMember(t, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "counter"))
	}
	counters := rapid.SampledFrom([][]string{{"a"}, {"a"}, {"b"}, {"c"}, {"a", "b"}, {"b", "c"}}).Draw(t, "counters")
	var increments []Increment
	for _, c := range counters {
		by := rapid.SampledFrom([]int64{1, 5, -2, math.MaxInt64, math.MinInt64}).Draw(t, "by")
		increments = append(increments, Increment{Counter: c, By: by})
	}
	key := Key{Value: rapid.SampledFrom([]string{"", "", "k1", "k2", "k3"}).Draw(t, "key")}
	r, err := newRequest(flat, increments, key)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// drawMember draws one who joins or leaves.
func drawMember(t *rapid.T, counter string) *request {
	who, join, by := rapid.SampledFrom([]string{"u", "u", "v"}).Draw(t, "who"), rapid.Bool().Draw(t, "join"), int64(-1)
	if join {
		by = 1
	}
	r, err := newRequest(flat, []Increment{{Counter: counter, Field: "views", By: by}}, Key{})
	if err != nil {
		t.Fatal(err)
	}
	seat := hold.Seat{Counter: counter, Field: "views", Member: who}
	r.member = &membership{seat: seat, name: seat.Membership(flat), join: join}
	if join && rapid.Bool().Draw(t, "hold") {
		r.member.until, r.member.entry = time.Now(), flat.Hold(r.member.name)
	}
	return r
}

// gather puts a batch together of what waits.
func gather(queue []*request, most int) (*batch, []*request) {
	g := newGathering(most)
	left := g.fill(queue)
	return g.batch, left
}

// Whatever waits: batches take it in order, none of it twice, and hold only what can be committed
// together, also when some of it drops out.
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
				if len(r.writtenOnce()) > 0 && keys[r.writtenOnce()[0]] {
					t.Fatal("a key or a member comes twice: the commit would fail on itself")
				}
				for _, own := range r.writtenOnce() {
					keys[own] = true
				}
				for _, same := range r.same {
					if taken = append(taken, same); same.key != r.key || r.key == "" {
						t.Fatal("a request shares the outcome of another key")
					}
				}
			}
			taken = append(taken, b.requests...)
			stay := rapid.SliceOfN(rapid.Bool(), len(b.requests), len(b.requests)).Draw(t, "stay")
			n := -1
			b.requests = slices.DeleteFunc(slices.Clone(b.requests), func(*request) bool { n++; return !stay[n] && n > 0 })
			want := map[place]int64{}
			for _, r := range b.requests {
				for _, of := range r.deltas {
					at := place{of.counter, of.amounts[0].field}
					sum := want[at] + of.amounts[0].by
					if sum != store.Add(want[at], of.amounts[0].by) {
						t.Fatalf("a sum of what is left does not fit: %d and %d", want[at], of.amounts[0].by)
					}
					want[at] = sum
				}
			}
			got := map[place]int64{}
			counters := map[string]bool{}
			for _, sum := range b.deltas() {
				if counters[sum.counter] {
					t.Fatal("a counter is written twice")
				}
				counters[sum.counter] = true
				for _, a := range sum.amounts {
					got[place{sum.counter, a.field}] = a.by
				}
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
		r, err := newRequest(flat, []Increment{{Counter: "a", By: by}}, Key{})
		if err != nil {
			t.Fatal(err)
		}
		queue = append(queue, r)
	}
	b, _ := gather(queue, 500)
	b.requests = b.requests[1:]
	var want int64
	for _, r := range b.requests {
		want += r.deltas[0].amounts[0].by
	}
	if got := b.deltas()[0].amounts[0].by; got != want || got < 0 {
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
		r, err := newRequest(flat, []Increment{{Counter: fmt.Sprint(i), By: 1}}, Key{Value: fmt.Sprint("k", i)})
		if err != nil {
			t.Fatal(err)
		}
		queue = append(queue, r)
	}
	for len(queue) > 0 {
		var b *batch
		b, queue = gather(queue, 500)
		b.exact = true
		if writes := len(b.deltas()) + len(b.markers()); writes > maxWrites {
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

	clock   int
	members map[string][]toggled // :: membership → how it came and went
	views   map[string]int64     // :: counter → the sum of the field that has members

	shardsFirst bool // it looks at the shards before the markers
}

// toggled says that a membership is there from a time on, or isn't.
type toggled struct {
	at    int
	there bool
}

func (s *firestore) isThere(membership string) bool {
	all := s.members[membership]
	return len(all) > 0 && all[len(all)-1].there
}

// was reports whether a membership was once there, or wasn't, at a time from since to now.
func (s *firestore) was(membership string, there bool, since int) bool {
	is := false
	for _, change := range s.members[membership] {
		if change.at > since && is == there {
			return true
		}
		is = change.there
	}
	return is == there
}

// sent is a commit.
type sent struct {
	requests []*request
	sums     []delta
	markers  map[string]marker
}

func (s *firestore) apply(c sent) error {
	var missing, exists error
	for _, r := range c.requests {
		if _, is := r.firstCounter(func(id string) bool { return s.bad[id] }); is {
			return status.Error(codes.InvalidArgument, "not this one")
		}
		if _, is := r.firstCounter(func(id string) bool { return s.gone[id] }); is {
			missing = status.Error(codes.NotFound, "no document to update")
		}
	}
	for id, m := range c.markers {
		if is, there := s.markers[id]; there && m.at.IsZero() {
			exists = status.Error(codes.AlreadyExists, "document already exists")
		} else if !is.at.Equal(m.at) {
			exists = status.Error(codes.FailedPrecondition, "document was changed")
		}
	}
	if s.shardsFirst && missing != nil {
		return missing
	}
	if exists != nil {
		return exists
	}
	for _, r := range c.requests {
		switch {
		case r.member == nil || r.member.join != s.isThere(r.member.name):
		case r.member.join:
			return status.Error(codes.AlreadyExists, "document already exists")
		default:
			return status.Error(codes.NotFound, "no document to delete")
		}
	}
	if missing != nil {
		return missing
	}
	s.clock++
	for id, m := range c.markers {
		was := s.markers[id]
		if was.at = m.at; was != m { // what changes nothing leaves the document as old as it is
			m.at = time.UnixMicro(int64(s.clock))
		}
		s.markers[id] = m
	}
	for _, r := range c.requests {
		s.counted[r]++
		if r.member != nil {
			s.members[r.member.name] = append(s.members[r.member.name], toggled{s.clock, r.member.join})
		}
	}
	for _, sum := range c.sums {
		for _, a := range sum.amounts {
			if a.field == "views" {
				s.views[sum.counter] += a.by
			}
		}
	}
	return nil
}

// commit sends a batch's commit.
func (s *firestore) commit(t *rapid.T, b *batch) step {
	if err := s.send(t, sent{slices.Clone(b.requests), b.deltas(), b.markers()}); err != nil {
		return b.afterCommitError(err)
	}
	return b.answer(outcome{})
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

// Several batches at once, shared by counters or not, callers that repeat their requests, commits
// that fail, are lost or come late, counters that go away and come back, members who join and leave
// in several batches at once, and requests that leave a batch in trouble: whatever a request's
// outcome says is true of how often it was counted, and of the membership at some time between its
// beginning and its answer; and a field's sum is the number of its members.
func TestBatchesCountOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { countOnce(t, drawRequest) })
}

// The same with hardly anything but members of one counter, so that they meet more often.
func TestMembersCountOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		countOnce(t, func(t *rapid.T) *request {
			if rapid.IntRange(0, 5).Draw(t, "other") == 0 {
				return drawRequest(t)
			}
			return drawMember(t, "a")
		})
	})
}

func countOnce(t *rapid.T, draw func(*rapid.T) *request) {
	s := &firestore{
		markers: map[string]marker{}, gone: map[string]bool{}, bad: map[string]bool{}, counted: map[*request]int{},
		members: map[string][]toggled{}, views: map[string]int64{},
		shardsFirst: rapid.Bool().Draw(t, "shards first"),
	}
	if rapid.IntRange(0, 5).Draw(t, "one is bad") == 0 {
		s.bad[rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "bad")] = true
	}
	type running struct {
		*batch
		next step
	}
	var batches []*running
	began := map[*request]int{}
	outcomes := map[*request]outcome{}
	var all []*request
	for range rapid.IntRange(1, 4).Draw(t, "batches") {
		queue := rapid.SliceOfN(rapid.Custom(draw), 1, 5).Draw(t, "queue")
		b, _ := gather(queue, 5)
		all = append(all, b.requests...)
		b.exact = rapid.Bool().Draw(t, "exact")
		batches = append(batches, &running{b, sendCommit})
	}
	for len(batches) > 0 {
		at := rapid.IntRange(0, len(batches)-1).Draw(t, "batch")
		f := batches[at]
		for _, r := range f.requests {
			if _, already := began[r]; !already {
				began[r] = s.clock
			}
		}
		switch f.next {
		case makeMissing:
			gone := map[string]bool{}
			for _, sum := range f.deltas() {
				if s.gone[sum.counter] {
					gone[sum.counter] = true
				}
			}
			if len(gone) > 0 {
				f.next = f.afterMissing(gone)
				break
			}
			f.next = s.commit(t, f.batch)
		case readMarkers:
			if rapid.IntRange(0, 9).Draw(t, "unreadable") == 0 {
				f.next = f.afterMarkersUnread(status.Error(codes.Unavailable, "unavailable"))
				break
			}
			there := map[string]marker{}
			for id := range f.markers() {
				if m, ok := s.markers[id]; ok {
					there[id] = m
				}
			}
			for _, r := range f.requests {
				if r.member != nil && s.isThere(r.member.name) {
					there[r.member.name] = marker{}
				}
			}
			f.next = f.afterMarkers(there)
		case fence:
			id := f.deciding()
			alone := marker{batch: f.id, fenced: true, at: f.markers()[id].at}
			if err := s.send(t, sent{markers: map[string]marker{id: alone}}); err == nil {
				f.next = f.afterFence(s.markers[id].at)
			} else {
				f.next = f.afterFenceError(err)
			}
		case pause:
			if rapid.IntRange(0, 9).Draw(t, "deadline") == 0 {
				f.next = f.giveUp(ErrBusy, context.DeadlineExceeded)
			} else {
				f.next = f.afterPause()
			}
		case disband:
			if f.doubt != nil {
				t.Fatal("a batch in doubt is left")
			}
			parts := map[any]*batch{}
			for _, r := range f.requests {
				var group any = r.counter()
				if group == several {
					group = r // alone
				}
				if parts[group] == nil {
					parts[group] = &batch{id: newID(), exact: f.exact}
					batches = append(batches, &running{parts[group], sendCommit})
				}
				parts[group].requests = append(parts[group].requests, r)
			}
			f.next = finished
		case sendCommit:
			f.next = s.commit(t, f.batch)
		}
		if f.next == finished {
			batches = slices.Delete(batches, at, at+1)
		}
		for _, r := range all {
			if _, answered := outcomes[r]; answered || len(r.done) == 0 {
				continue
			}
			out := <-r.done
			outcomes[r] = out
			switch {
			case r.member == nil || out.err != nil:
			case !out.already && s.counted[r] != 1:
				t.Fatalf("%s was answered, and was counted %d times then", r.member.name, s.counted[r])
			case out.already && !s.was(r.member.name, r.member.join, began[r]):
				t.Fatalf("%s (join %v) is said to have been as asked, and never was since it was", r.member.name, r.member.join)
			}
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
		out, answered := outcomes[r]
		if !answered {
			t.Fatal("a request has no outcome")
		}
		if len(r.done) > 0 {
			t.Fatal("a request has two outcomes")
		}
		n := s.counted[r]
		switch {
		case n > 1 || ofKey[r.key] > 1 && r.key != "":
			t.Fatalf("%v was counted %d times, its key %d times", r.deltas, n, ofKey[r.key])
		case out.already && r.member != nil && n != 0:
			t.Fatalf("%s was as asked, and was counted %d times", r.member.name, n)
		case out.already && r.member == nil && (n != 0 || ofKey[r.key] != 1):
			t.Fatalf("%v is a replay, was counted %d times and its key %d times", r.deltas, n, ofKey[r.key])
		case !out.already && out.err == nil && n != 1:
			t.Fatalf("%v was answered, and counted %d times", r.deltas, n)
		case out.err != nil && !errors.Is(out.err, ErrUnknown) && n != 0:
			t.Fatalf("%v failed with %v, and was counted", r.deltas, out.err)
		}
	}
	members := map[string]int64{}
	for name := range s.members {
		if s.isThere(name) {
			counter, _, _ := strings.Cut(strings.TrimPrefix(name, flat.Counters()+"/"), "/")
			members[counter]++
		}
	}
	for _, counter := range []string{"a", "b"} {
		if s.views[counter] != members[counter] {
			t.Fatalf("counter %s has %d members and adds up to %d", counter, members[counter], s.views[counter])
		}
	}
}

// flat is the default layout.
var flat = func() layout.Layout {
	path, err := layout.ParsePath(layout.DefaultPath)
	if err != nil {
		panic(err)
	}
	return layout.Layout{Path: path, Sharded: layout.Fields{{Name: "total", Shard: "count"}, {Name: "views", Shard: "views"}}, Shards: layout.DefaultShards}
}()

// Without a marker for each commit, a batch that has a key in it can still find out
// what became of it.
func TestBatchWithAKeyIsMarked(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{{"k"}, {"k", ""}, {"k", "l"}} {
		f := &batch{id: newID()}
		for _, key := range keys {
			r, err := newRequest(flat, []Increment{{Counter: "a", By: 1}}, Key{Value: key})
			if err != nil {
				t.Fatal(err)
			}
			f.requests = append(f.requests, r)
		}
		if next := f.afterCommitError(status.Error(codes.Unavailable, "lost")); next != fence {
			t.Errorf("keys %q: step %d; want that its marker fences it", keys, next)
		}
	}
}

// A request that leaves a batch, and goes on in another, has no more time for that than it had.
func TestLeavingABatchGivesNoMoreTime(t *testing.T) {
	t.Parallel()
	began := time.Now()
	left, fresh := &request{}, &request{}
	first := (&batch{requests: []*request{{}, left}}).due(began)
	again := (&batch{requests: []*request{left}}).due(began.Add(time.Minute))
	if !first.Equal(began) || !again.Equal(began) {
		t.Errorf("the batches are due after %v and %v; want the time of the first", first.Sub(began), again.Sub(began))
	}
	if newer := (&batch{requests: []*request{fresh, {}}}).due(began.Add(time.Hour)); newer.Equal(began) {
		t.Error("others have no time of their own")
	}
}

// The marker of a commit in doubt is in the way of the one that fences it, and by the time it is read
// TTL has taken it: that says nothing of the commit, which is fenced once more.
func TestAMarkerThatIsGoneFencesNothing(t *testing.T) {
	t.Parallel()
	r := &request{done: make(chan outcome, 1)}
	f := &batch{id: newID(), exact: true, requests: []*request{r}}
	steps := []step{
		f.afterCommitError(status.Error(codes.Unavailable, "lost")),
		f.afterFenceError(status.Error(codes.AlreadyExists, "it is there")),
		f.afterMarkers(nil),
		f.afterPause(),
	}
	if want := []step{fence, readMarkers, pause, fence}; !slices.Equal(steps, want) {
		t.Errorf("steps %v, want %v", steps, want)
	}
	f.giveUp(ErrBusy, context.DeadlineExceeded)
	if out := <-r.done; !errors.Is(out.err, ErrUnknown) {
		t.Errorf("%v, want ErrUnknown", out.err)
	}
}

// A key's marker that another batch has made alone says that the commit in doubt is not applied, and
// never will be: what follows is no doubt of that.
func TestAnothersMarkerEndsTheDoubt(t *testing.T) {
	t.Parallel()
	r := &request{key: "k", fingerprint: "a", done: make(chan outcome, 1)}
	f := &batch{id: newID(), requests: []*request{r}}
	f.afterCommitError(status.Error(codes.Unavailable, "lost"))
	f.afterFenceError(status.Error(codes.AlreadyExists, "it is there"))
	if next := f.afterMarkers(map[string]marker{"k": {batch: "another", fenced: true, at: time.UnixMicro(1)}}); next != sendCommit {
		t.Errorf("step %d, want that another commit goes", next)
	}
	f.giveUp(ErrBusy, status.Error(codes.Aborted, "contention"))
	if out := <-r.done; !errors.Is(out.err, ErrBusy) || errors.Is(out.err, ErrUnknown) {
		t.Errorf("%v, want ErrBusy: it is certain that nothing was counted", out.err)
	}
}

// Where it is unknown whether holds were ended, nothing was counted of who waits for that.
func TestWhatWasNotSentIsNotUnknown(t *testing.T) {
	t.Parallel()
	r, err := newRequest(flat, []Increment{{Counter: "a", By: 1}}, Key{})
	if err != nil {
		t.Fatal(err)
	}
	f := &batch{id: newID(), requests: []*request{r}, exact: true, failures: maxFailures - 1}
	lost := fmt.Errorf("end holds: %w: %w", ErrUnknown, status.Error(codes.Unavailable, "lost"))
	if next := f.afterLookError(lost); next != finished {
		t.Fatalf("step %d after the last attempt", next)
	}
	if out := <-r.done; !errors.Is(out.err, ErrBusy) || errors.Is(out.err, ErrUnknown) || !strings.Contains(out.err.Error(), "lost") {
		t.Errorf("%v, want ErrBusy and why", out.err)
	}
}
