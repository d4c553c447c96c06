package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Locks are first come, first served, in one queue per resource. What is locked, and how:
//
//	document            shared to read it in a transaction; exclusive to write it
//	collection          shared to query or list it in a transaction; intent to write one of its documents
//	collection group    the same, for queries of all collections with one id
//	whole database      the same, for queries of all descendants
//
// Any number of transactions read the same. One that comes to write waits until the others that have read it have
// ended, and of two that both write what both have read, one is aborted at once: its client runs it again.
//
// A transaction that is run again counts as old as the one that it repeats, and its reads lock for update: beside those
// who only read, one at a time. So those who have met once go one after the other, and none of fifty that increment one
// field is aborted twice.
//
// A request names all that it wants and gets it at once, when nobody else has any of it and nobody who came earlier
// waits for any of it. A commit outside of a transaction therefore never holds one lock while it waits for the next.
// Transactions do, so they can wait in a cycle. That is found when the cycle closes: where somebody in it waits only for
// a place in a queue, the one behind gets that place; otherwise the youngest transaction of the cycle is aborted.

type resourceKind uint8

const (
	lockDocument resourceKind = iota
	lockCollection
	lockGroup
	lockEverything
)

type resource struct {
	kind resourceKind
	name string
}

// lockMode is a set of ways in which an owner holds a resource, or wants it.
type lockMode uint8

const (
	intent lockMode = 1 << iota
	shared
	update
	exclusive
)

// opposed are the modes of others that each mode can't be held beside.
var opposed = map[lockMode]lockMode{
	intent:    shared | update | exclusive,
	shared:    intent | exclusive,
	update:    intent | update | exclusive,
	exclusive: intent | shared | update | exclusive,
}

// conflicts is opposed for every set of modes.
var conflicts = func() (table [exclusive << 1]lockMode) {
	for set := range table {
		for mode, others := range opposed {
			if lockMode(set)&mode != 0 {
				table[set] |= others
			}
		}
	}
	return table
}()

func conflict(a, b lockMode) bool { return conflicts[a]&b != 0 }

// covers tells whether who holds a mode needs no lock for another.
func (m lockMode) covers(other lockMode) bool {
	switch {
	case m&exclusive != 0:
		return true
	case other == shared:
		return m&(shared|update) != 0
	}
	return m&other == other
}

type want struct {
	resource
	mode lockMode
}

// owner is who holds locks: a transaction, or one commit outside of any.
type owner struct {
	age     uint64 // smaller is older
	retried bool   // a transaction that repeats one which was aborted
	held    map[resource]lockMode
	waiting []*lockRequest
	// aborted is called, with the database's lock held, when the owner is chosen to open a cycle. It ends what the
	// locks are for; they are released already.
	aborted func()
}

type lockRequest struct {
	owner *owner
	wants []want
	done  chan error // gets one value, when the request is granted or refused
}

type lock struct {
	holders map[*owner]lockMode
	queue   []*lockRequest
}

type lockTable struct {
	locks map[resource]*lock
	stats *stats
}

func (t *lockTable) init(s *stats) {
	t.locks = make(map[resource]*lock)
	t.stats = s
}

// idle tells whether nobody holds or wants anything.
func (t *lockTable) idle() bool { return len(t.locks) == 0 }

// wanted tells whether somebody holds or waits for any of it in a way that conflicts.
func (t *lockTable) wanted(wants []want) bool {
	return !t.idle() && !t.free(&lockRequest{owner: &owner{}, wants: wants})
}

func (t *lockTable) at(r resource) *lock {
	l := t.locks[r]
	if l == nil {
		l = &lock{holders: make(map[*owner]lockMode, 1)}
		t.locks[r] = l
	}
	return l
}

func (t *lockTable) tidy(r resource, l *lock) {
	if len(l.holders) == 0 && len(l.queue) == 0 {
		delete(t.locks, r)
	}
}

// free tells whether a request can be granted now: no other holder, and nobody before it in a queue, conflicts with it.
func (t *lockTable) free(req *lockRequest) bool {
	for range t.blockers(req) {
		return false
	}
	return true
}

// blockers are the owners that a request waits for. ahead is their request where they wait themselves, in the same
// queue further ahead, and nil where they hold what is wanted.
func (t *lockTable) blockers(req *lockRequest) func(yield func(o *owner, ahead *lockRequest) bool) {
	return func(yield func(*owner, *lockRequest) bool) {
		for _, w := range req.wants {
			l := t.locks[w.resource]
			if l == nil {
				continue
			}
			for o, mode := range l.holders {
				if o != req.owner && conflict(mode, w.mode) && !yield(o, nil) {
					return
				}
			}
			for _, other := range l.queue {
				if other == req {
					break
				}
				if other.owner != req.owner && conflict(other.mode(w.resource), w.mode) && !yield(other.owner, other) {
					return
				}
			}
		}
	}
}

func (req *lockRequest) mode(r resource) lockMode {
	for _, w := range req.wants {
		if w.resource == r {
			return w.mode
		}
	}
	return 0
}

// acquire gets an owner all of what it wants. The caller holds mu, the database's lock, and has it again on return;
// while acquire waits, it doesn't.
func (t *lockTable) acquire(ctx context.Context, mu *sync.RWMutex, o *owner, wants []want, limit time.Duration, closed <-chan struct{}) error {
	wants = slices.DeleteFunc(wants, func(w want) bool { return o.held[w.resource].covers(w.mode) })
	if len(wants) == 0 {
		return nil
	}
	req := &lockRequest{owner: o, wants: wants}
	if t.free(req) {
		t.grant(req)
		return nil
	}
	t.stats.lockWaits.Add(1)
	req.done = make(chan error, 1)
	t.enqueue(req)
	if len(o.held) > 0 { // nobody waits for an owner that holds nothing
		t.openCycles(req)
	}
	mu.Unlock()
	settled, err := req.wait(ctx, limit, closed)
	mu.Lock()
	if !settled {
		select {
		case err = <-req.done: // it was, meanwhile
		default:
			t.dequeue(req)
			t.advance(req.wants)
		}
	}
	if status.Code(err) == codes.Aborted {
		t.stats.lockRefused.Add(1)
	}
	return err
}

// wait returns what the request was settled with, or why it stopped waiting.
func (req *lockRequest) wait(ctx context.Context, limit time.Duration, closed <-chan struct{}) (settled bool, err error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-req.done:
		return true, err
	case <-timer.C:
		return false, status.Error(codes.Aborted, "Transaction lock timeout.")
	case <-ctx.Done():
		return false, status.FromContextError(ctx.Err()).Err()
	case <-closed:
		return false, errClosed()
	}
}

func (t *lockTable) grant(req *lockRequest) {
	o := req.owner
	if o.held == nil {
		o.held = make(map[resource]lockMode, len(req.wants))
	}
	for _, w := range req.wants {
		o.held[w.resource] |= w.mode
		t.at(w.resource).holders[o] = o.held[w.resource]
	}
}

func (t *lockTable) enqueue(req *lockRequest) {
	for _, w := range req.wants {
		l := t.at(w.resource)
		l.queue = append(l.queue, req)
	}
	req.owner.waiting = append(req.owner.waiting, req)
}

func (t *lockTable) dequeue(req *lockRequest) {
	for _, w := range req.wants {
		l := t.locks[w.resource]
		if i := slices.Index(l.queue, req); i >= 0 {
			l.queue = slices.Delete(l.queue, i, i+1)
		}
		t.tidy(w.resource, l)
	}
	req.owner.waiting = slices.DeleteFunc(req.owner.waiting, func(r *lockRequest) bool { return r == req })
}

// release gives back all that an owner holds, and grants what has become free.
func (t *lockTable) release(o *owner) {
	freed := make([]want, 0, len(o.held))
	for r, mode := range o.held {
		l := t.locks[r]
		delete(l.holders, o)
		t.tidy(r, l)
		freed = append(freed, want{r, mode})
	}
	o.held = nil
	t.advance(freed)
}

// refuse ends an owner's waiting with an error.
func (t *lockTable) refuse(o *owner, err error) {
	for _, req := range slices.Clone(o.waiting) {
		t.dequeue(req)
		req.done <- err
		t.advance(req.wants)
	}
}

// advance grants, in the order of the queues, what waits for the resources and has become free.
func (t *lockTable) advance(changed []want) {
	for _, w := range changed {
		l := t.locks[w.resource]
		if l == nil {
			continue
		}
		for i := 0; i < len(l.queue); {
			req := l.queue[i]
			if t.free(req) {
				t.grant(req)
				t.dequeue(req) // and the next one moves to i
				req.done <- nil
				continue
			}
			if req.mode(w.resource)&exclusive != 0 {
				break // nobody behind it gets past
			}
			i++
		}
		t.tidy(w.resource, l)
	}
}
