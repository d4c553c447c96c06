package eventarc

import (
	"math/rand/v2"
	"testing"
	"time"
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
	for _, i := range rand.Perm(n) {
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
	for attempts, longest := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 7: 6400 * time.Millisecond, 8: 10 * time.Second, 1000: 10 * time.Second,
	} {
		for range 100 {
			if got := backoff(attempts); got < longest/2 || got >= longest {
				t.Fatalf("after %d attempts, waits %v: want half of %v or more, and less than all of it", attempts, got, longest)
			}
		}
	}
}
