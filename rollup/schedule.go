package rollup

import (
	"container/heap"
	"time"

	"github.com/firestore-counters/counters/internal/ledger"
)

// runs starts tasks when they are due, so many at a time at most, and each once at a time. It forgets a
// task for which nothing waits by then.
type runs[K comparable, T task[K]] struct {
	atOnce  int
	running int
	tasks   map[K]T     // those that run, too
	queue   schedule[T] // those that don't, by the time they may
}

type task[K comparable] interface {
	key() K
	empty() bool
	timed
}

// put takes a new task.
func (r *runs[K, T]) put(t T) {
	ledger.Put(&r.tasks, t.key(), t)
	r.queue.push(t)
}

// next starts a task that may start now, if there is one.
func (r *runs[K, T]) next(now time.Time) (t T, ok bool) {
	for r.running < r.atOnce && len(r.queue) > 0 && !r.queue[0].due().After(now) {
		if t = r.queue.pop(); !t.empty() {
			r.running++
			return t, true
		}
		delete(r.tasks, t.key())
	}
	return t, false
}

// ended takes a task back that has run.
func (r *runs[K, T]) ended(t T) {
	r.running--
	r.queue.push(t)
}

// wake is when to ask next again. It reports false if only put or ended can change its answer.
func (r *runs[K, T]) wake() (time.Time, bool) {
	if r.running >= r.atOnce || len(r.queue) == 0 {
		return time.Time{}, false
	}
	return r.queue[0].due(), true
}

// timed is what may go from a time on.
type timed interface {
	due() time.Time
	place() *int
}

// schedule is a heap of what may go from a time on, the first on top. If its time has changed, fix it.
type schedule[T timed] []T

// slot is where something is in a schedule, from 1; 0 where it is in none.
type slot int

func (s *slot) place() *int { return (*int)(s) }

func (s *schedule[T]) push(t T) { heap.Push(s, t) }
func (s *schedule[T]) pop() T   { return heap.Pop(s).(T) }
func (s *schedule[T]) sort()    { heap.Init(s) }

func (s *schedule[T]) fix(t T) {
	if at := *t.place(); at > 0 {
		heap.Fix(s, at-1)
	}
}

// Len and the rest are [heap.Interface].
func (s schedule[T]) Len() int           { return len(s) }
func (s schedule[T]) Less(i, j int) bool { return s[i].due().Before(s[j].due()) }
func (s schedule[T]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	*s[i].place(), *s[j].place() = i+1, j+1
}

func (s *schedule[T]) Push(x any) {
	*s = append(*s, x.(T))
	*x.(T).place() = len(*s)
}

func (s *schedule[T]) Pop() any {
	last := len(*s) - 1
	t := (*s)[last]
	var none T
	(*s)[last] = none
	*s, *t.place() = (*s)[:last], 0
	return t
}
