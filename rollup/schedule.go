package rollup

import (
	"container/heap"
	"time"
)

// schedule is a heap of what may go from a time on, the first on top. If its time has changed, fix it.
type schedule[T interface {
	due() time.Time
	place() *int
}] []T

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
