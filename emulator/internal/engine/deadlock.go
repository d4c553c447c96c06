package engine

import (
	"cmp"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// step is one owner's waiting in a cycle: a request waits for the next owner, which holds what it wants, or is ahead of
// it in a queue.
type step struct {
	req   *lockRequest
	next  *owner
	ahead *lockRequest // nil: next holds it
}

// maxOvertakes is how often places in queues are changed to open one cycle, before a transaction is aborted instead.
const maxOvertakes = 100

// openCycles opens all cycles that a request has closed, which has just been queued.
func (t *lockTable) openCycles(closing *lockRequest) {
	overtakes := 0
	for suspects := []*lockRequest{closing}; len(suspects) > 0; {
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

// abortYoungest ends the youngest transaction of a cycle, but none that was aborted before if there is another. Who holds
// nothing is spared if possible: it is in nobody's way but in a queue.
func (t *lockTable) abortYoungest(cycle []step) {
	victim := slices.MaxFunc(cycle, func(a, b step) int {
		return cmp.Or(compareBool(len(a.next.held) > 0, len(b.next.held) > 0),
			compareBool(!a.next.retried, !b.next.retried), cmp.Compare(a.next.age, b.next.age))
	}).next
	if victim.aborted != nil {
		victim.aborted()
	}
	t.refuse(victim, status.Error(codes.Aborted, "Transaction deadlock: it was aborted so that an older one can go on. Please try again."))
	t.release(victim)
}

// cycle finds a cycle of owners that wait for each other, through a request that waits; nil when there is none.
func (t *lockTable) cycle(req *lockRequest) []step {
	if !slices.Contains(req.owner.waiting, req) {
		return nil
	}
	seen := make(map[*owner]bool)
	var path []step
	var reaches func(from *lockRequest) bool
	reaches = func(from *lockRequest) bool {
		for next, ahead := range t.blockers(from) {
			path = append(path, step{from, next, ahead})
			if next == req.owner {
				return true
			}
			if !seen[next] {
				seen[next] = true
				if slices.ContainsFunc(next.waiting, reaches) {
					return true
				}
			}
			path = path[:len(path)-1]
		}
		return false
	}
	if reaches(req) {
		return path
	}
	return nil
}

// overtake moves a request ahead of another one, wherever both wait for the same.
func (t *lockTable) overtake(req, other *lockRequest) {
	for _, w := range req.wants {
		queue := t.locks[w.resource].queue
		from, to := slices.Index(queue, req), slices.Index(queue, other)
		if to >= 0 && to < from {
			copy(queue[to+1:from+1], queue[to:from])
			queue[to] = req
		}
	}
	if t.free(req) {
		t.grant(req)
		t.dequeue(req)
		req.done <- nil
	}
}
