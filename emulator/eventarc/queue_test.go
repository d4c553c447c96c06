package eventarc

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/testbed/chance"
)

func TestFIFO(t *testing.T) {
	t.Parallel()
	var q fifo
	var pushed, popped uint64
	dice := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		if dice.IntN(2) == 0 {
			q.push(&event{seq: pushed})
			pushed++
		} else if q.len() > 0 {
			if got := q.pop().seq; got != popped {
				t.Fatalf("event %d came out in the place of %d", got, popped)
			}
			popped++
		}
	}
	if uint64(q.len()) != pushed-popped {
		t.Errorf("%d events are left, want %d", q.len(), pushed-popped)
	}
	if most := 8*q.len() + 64; cap(q.events) > most+2000 {
		t.Errorf("%d events take room for %d", q.len(), cap(q.events))
	}
}

func TestHeldComeInOrderOfTime(t *testing.T) {
	t.Parallel()
	var h held
	start := time.Now()
	const n = 1000
	for _, i := range chance.Of(t).Perm(n) {
		h.hold(&event{seq: uint64(i)}, start.Add(time.Duration(i)*time.Second))
	}
	for i := range n {
		if at := start.Add(time.Duration(i)*time.Second - 1); h.due(at) != nil {
			t.Fatalf("event %d is due too early", i)
		}
		if e := h.due(start.Add(time.Duration(i) * time.Second)); e == nil || e.seq != uint64(i) {
			t.Fatalf("event %d is not due in time", i)
		}
	}
	if h.due(start.Add(time.Hour)) != nil {
		t.Error("an event came out twice")
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	quick := Push{Shortest: 100 * time.Millisecond, Longest: 10 * time.Second}
	for _, test := range []struct {
		push     Push
		attempts int
		longest  time.Duration
	}{
		{quick, 1, 100 * time.Millisecond}, {quick, 2, 200 * time.Millisecond}, {quick, 7, 6400 * time.Millisecond}, {quick, 8, 10 * time.Second}, {quick, 1000, 10 * time.Second},
		{PubSub(), 1, 10 * time.Second}, {PubSub(), 3, 40 * time.Second}, {PubSub(), 7, 600 * time.Second}, {PubSub(), 1000, 600 * time.Second},
	} {
		for range 100 {
			if got := test.push.backoff(test.attempts); got < max(test.push.Shortest, test.longest/2) || got > test.longest {
				t.Fatalf("after %d attempts, waits %v: want half of %v or more, no more than all of it, and no less than %v", test.attempts, got, test.longest, test.push.Shortest)
			}
		}
	}
}

func TestTransit(t *testing.T) {
	t.Parallel()
	p := Push{Transit: 100 * time.Millisecond}
	for range 100 {
		if got := p.transit(); got < 50*time.Millisecond || got >= 150*time.Millisecond {
			t.Fatalf("%v, want half to one and a half times %v", got, p.Transit)
		}
	}
}
