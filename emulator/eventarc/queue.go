package eventarc

import (
	"container/heap"
	"time"
)

// event is one event that waits for its acknowledgement. It is kept encoded: a few hundred bytes.
type event struct {
	trigger   *subscription
	seq       uint64
	name      string
	data      []byte
	at        time.Time // When the change was committed, by its database's clock.
	published time.Time // When it came here, by ours.
	attempts  int       // Posts so far.
}

// fifo holds the events that are to be sent now.
type fifo struct {
	events []*event
	head   int
}

func (q *fifo) len() int { return len(q.events) - q.head }

func (q *fifo) push(e *event) {
	// Room at the front is used again once it is the larger part, so that pushing stays constant on
	// average.
	if q.head > len(q.events)/2 && len(q.events) == cap(q.events) {
		n := copy(q.events, q.events[q.head:])
		clear(q.events[n:])
		q.events, q.head = q.events[:n], 0
	}
	q.events = append(q.events, e)
}

func (q *fifo) pop() *event {
	e := q.events[q.head]
	q.events[q.head] = nil
	q.head++
	if q.head == len(q.events) {
		q.events, q.head = q.events[:0], 0
	}
	return e
}

// held are the events that are to be sent at some later time, the earliest first.
type held []heldEvent

type heldEvent struct {
	until time.Time
	event *event
}

func (h *held) hold(e *event, until time.Time) { heap.Push(h, heldEvent{until, e}) }

// due takes an event whose time has come, or returns nil.
func (h *held) due(now time.Time) *event {
	if len(*h) == 0 || (*h)[0].until.After(now) {
		return nil
	}
	return heap.Pop(h).(heldEvent).event
}

// The five methods of [heap.Interface].

func (h held) Len() int           { return len(h) }
func (h held) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h held) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *held) Push(x any)        { *h = append(*h, x.(heldEvent)) }
func (h *held) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = heldEvent{}
	*h = (*h)[:last]
	return e
}
