package locks

import (
	"cmp"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// step is one owner's waiting in a cycle: a request waits for the next owner, which holds what it
// wants, or is ahead of it in a queue.
type step struct {
	req   *request
	next  *Owner
	ahead *request // nil: next holds it
}

// maxOvertakes is how often places in queues are changed to open one cycle, before a transaction is
// aborted instead.
const maxOvertakes = 100

// openCycles opens all cycles that a request has closed, which has just been queued.
func (t *Table) openCycles(closing *request) {
	overtakes := 0
	for suspects := []*request{closing}; len(suspects) > 0; {
		req := suspects[len(suspects)-1]
		cycle := t.cycle(req)
		if cycle == nil {
			suspects = suspects[:len(suspects)-1]
			continue
		}
		i := slices.IndexFunc(cycle, func(s step) bool { return s.ahead != nil })
		if i >= 0 && overtakes < maxOvertakes {
			overtakes++
			t.overtake(cycle[i].req, cycle[i].ahead)
			suspects = append(suspects, cycle[i].ahead, cycle[i].req) // they wait for others now
			continue
		}
		t.abortYoungest(cycle)
	}
}

// abortYoungest ends the youngest transaction of a cycle, but none that was aborted before if there
// is another. Who holds nothing is spared if possible: it is in the way in queues only.
func (t *Table) abortYoungest(cycle []step) {
	victim := slices.MaxFunc(cycle, func(a, b step) int {
		return cmp.Or(falseFirst(len(a.next.held) > 0, len(b.next.held) > 0),
			falseFirst(!a.next.Retried, !b.next.Retried), cmp.Compare(a.next.Age, b.next.Age))
	}).next
	if victim.Aborted != nil {
		victim.Aborted()
	}
	t.Refuse(victim, status.Error(codes.Aborted, "Transaction deadlock: it was aborted so that an older one can go on. Please try again."))
	t.Release(victim)
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// cycle finds a cycle of owners that wait for each other, through a request that waits; nil when
// there is none.
func (t *Table) cycle(req *request) []step {
	if !slices.Contains(req.owner.waiting, req) {
		return nil
	}
	t.searches++
	var path []step
	var reaches func(blockers func(func(*Owner, *request) bool), from *request) bool
	reaches = func(blockers func(func(*Owner, *request) bool), from *request) bool {
		for next, ahead := range blockers {
			path = append(path, step{from, next, ahead})
			if next == req.owner {
				return true
			}
			if next.seen != t.searches {
				next.seen = t.searches
				if slices.ContainsFunc(next.waiting, func(r *request) bool { return reaches(t.unseen(r), r) }) {
					return true
				}
			}
			path = path[:len(path)-1]
		}
		return false
	}
	if reaches(t.blockers(req), req) { // of these none is passed over later: it leaves out its own owner, who closes a cycle
		return path
	}
	return nil
}

// unseen is blockers without those whom the search under way has looked at from another request, which wanted the same.
// So it goes once through a queue in which thousands wait, and not once for each of them.
func (t *Table) unseen(req *request) func(yield func(o *Owner, ahead *request) bool) {
	return func(yield func(*Owner, *request) bool) {
		for k, w := range req.wants {
			l := req.locks[k]
			if l.search != t.searches {
				l.search, l.passed = t.searches, [len(l.passed)]int{}
				for i, waits := range l.queue {
					waits.places[waits.want] = i
				}
			}
			passed := &l.passed[w.Mode]
			if *passed == 0 {
				*passed = 1
				for o, mode := range l.holders {
					if o != req.owner && conflict(mode, w.Mode) && !yield(o, nil) {
						return
					}
				}
			}
			for i := *passed - 1; i < req.places[k]; i = max(i+1, *passed-1) { // yield may have gone further
				*passed = i + 2
				other := l.queue[i]
				if other.owner != req.owner && conflict(other.mode, w.Mode) && !yield(other.owner, other.request) {
					return
				}
			}
		}
	}
}

// overtake moves a request ahead of another one, wherever both wait for the same.
func (t *Table) overtake(req, other *request) {
	for _, w := range req.wants {
		l := t.locks[w.Resource]
		from, to := l.place(req), l.place(other)
		if to >= 0 && to < from {
			behind := l.queue[from]
			copy(l.queue[to+1:from+1], l.queue[to:from])
			l.queue[to] = behind
		}
	}
	if t.free(req) {
		t.grant(req)
		t.dequeue(req)
		req.done <- nil
	}
}
