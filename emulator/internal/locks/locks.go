// Package locks is who may read and write what, and in which order: the locks of transactions,
// which know nothing of documents but their names.
//
// Locks are first come, first served, in one queue per resource. What is locked, and how:
//
//	document            shared to read it in a transaction; exclusive to write it
//	collection          shared to query or list it in a transaction; intent to write one of its
//	                    documents
//	collection group    the same, for queries of all collections with one id
//	whole database      the same, for queries of all descendants
//
// Any number of transactions read the same. One that comes to write waits until the others that
// have read it have ended, and of two that both write what both have read, one is aborted at once:
// its client runs it again.
//
// A transaction that is run again counts as old as the one that it repeats, and its reads lock for
// update: beside those who only read, one at a time. So those who have met once go one after the
// other, and none of fifty that increment one field is aborted twice.
//
// A request names all that it wants and gets it at once, when no other owner has any of it and no
// earlier request waits for any of it. A commit outside of a transaction therefore never holds one
// lock while it waits for the next. Transactions do, so they can wait in a cycle. That is found
// when the cycle closes: where one of its owners waits only for a place in a queue, the one behind
// gets that place; otherwise the youngest transaction of the cycle is aborted.
package locks

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Kind is what is locked.
type Kind uint8

const (
	Document Kind = iota
	Collection
	Group
	Everything
)

// Resource is a document, or what encloses documents. Of the whole database there is one, without a
// name.
type Resource struct {
	Kind Kind
	Name string
}

// Mode is a set of ways in which an owner holds a resource, or wants it.
type Mode uint8

const (
	Intent Mode = 1 << iota
	Shared
	Update
	Exclusive
)

// opposed are the modes of others that each mode can't be held beside.
var opposed = map[Mode]Mode{
	Intent:    Shared | Update | Exclusive,
	Shared:    Intent | Exclusive,
	Update:    Intent | Update | Exclusive,
	Exclusive: Intent | Shared | Update | Exclusive,
}

// conflicts is opposed for every set of modes.
var conflicts = func() (table [Exclusive << 1]Mode) {
	for set := range table {
		for mode, others := range opposed {
			if Mode(set)&mode != 0 {
				table[set] |= others
			}
		}
	}
	return table
}()

func conflict(a, b Mode) bool { return conflicts[a]&b != 0 }

// covers reports whether who holds a mode needs no lock for another.
func (m Mode) covers(other Mode) bool {
	switch {
	case m&Exclusive != 0:
		return true
	case other == Shared:
		return m&(Shared|Update) != 0
	}
	return m&other == other
}

// Want is a resource, and how it is wanted.
type Want struct {
	Resource
	Mode Mode
}

// Owner is who holds locks: a transaction, or one commit outside of any.
type Owner struct {
	Age     uint64 // smaller is older
	Retried bool   // a transaction that repeats one which was aborted
	// Aborted is called, with the table's mutex held, when the owner is chosen to open a cycle. It
	// ends what the locks are for; they are released without it. It may be nil.
	Aborted func()

	held    map[Resource]Mode
	waiting []*request
	seen    uint64 // by which search for a cycle
}

type request struct {
	owner *Owner
	wants []Want
	done  chan error // gets one value, when the request is granted or refused

	// While it waits, of each of its wants: the lock, and where it is in the queue, as of the last search that came to
	// it.
	locks  []*lock
	places []int
}

// waiter is a request in the queue of one of the resources that it wants.
type waiter struct {
	*request
	mode Mode
	want int // which of its wants
}

type lock struct {
	holders map[*Owner]Mode
	queue   []waiter

	search uint64 // for a cycle, the last that came to it
	// How much of holders and queue that search has looked at, as somebody who wants the resource in each mode: 0 is
	// nothing, 1 the holders, 2 the first of the queue as well, and so on.
	passed [Exclusive << 1]int
}

// place is where a request is in the queue; -1 where it isn't.
func (l *lock) place(req *request) int {
	return slices.IndexFunc(l.queue, func(w waiter) bool { return w.request == req })
}

// Config is what a Table needs; all of it is required.
type Config struct {
	Mu        *sync.RWMutex // guards the table; whoever calls a method holds it for writing
	Wait      time.Duration // how long a request waits before it fails with ABORTED
	Closed    <-chan struct{}
	ErrClosed error         // of those that wait when Closed is closed
	Waits     *atomic.Int64 // counts requests that wait
	Refused   *atomic.Int64 // counts those of them that end with ABORTED
}

// Table holds the locks of a database.
type Table struct {
	Config
	locks    map[Resource]*lock
	searches uint64 // for cycles
}

// New makes a table without locks.
func New(c Config) *Table { return &Table{Config: c, locks: make(map[Resource]*lock)} }

// Idle reports whether there is neither a holder nor a waiter.
func (t *Table) Idle() bool { return len(t.locks) == 0 }

// Len is the number of resources that are held or wanted.
func (t *Table) Len() int { return len(t.locks) }

// Wanted reports whether another owner holds or waits for any of it in a way that conflicts.
func (t *Table) Wanted(wants []Want) bool {
	return !t.Idle() && !t.free(&request{owner: &Owner{}, wants: wants})
}

func (t *Table) at(r Resource) *lock {
	l := t.locks[r]
	if l == nil {
		l = &lock{holders: make(map[*Owner]Mode, 1)}
		t.locks[r] = l
	}
	return l
}

func (t *Table) tidy(r Resource, l *lock) {
	if len(l.holders) == 0 && len(l.queue) == 0 {
		delete(t.locks, r)
	}
}

// free reports whether a request can be granted now: neither another holder nor a request before it
// in a queue conflicts with it.
func (t *Table) free(req *request) bool {
	for range t.blockers(req) {
		return false
	}
	return true
}

// blockers are the owners that a request waits for. ahead is their request where they wait
// themselves, in the same queue further ahead, and nil where they hold what is wanted.
func (t *Table) blockers(req *request) func(yield func(o *Owner, ahead *request) bool) {
	return func(yield func(*Owner, *request) bool) {
		for _, w := range req.wants {
			l := t.locks[w.Resource]
			if l == nil {
				continue
			}
			for o, mode := range l.holders {
				if o != req.owner && conflict(mode, w.Mode) && !yield(o, nil) {
					return
				}
			}
			for _, other := range l.queue {
				if other.request == req {
					break
				}
				if other.owner != req.owner && conflict(other.mode, w.Mode) && !yield(other.owner, other.request) {
					return
				}
			}
		}
	}
}

// Acquire gets an owner all of what it wants. While it waits, the mutex is not held.
func (t *Table) Acquire(ctx context.Context, o *Owner, wants []Want) error {
	wants = slices.DeleteFunc(wants, func(w Want) bool { return o.held[w.Resource].covers(w.Mode) })
	if len(wants) == 0 {
		return nil
	}
	req := &request{owner: o, wants: wants}
	if t.free(req) {
		t.grant(req)
		return nil
	}
	t.Waits.Add(1)
	req.done = make(chan error, 1)
	t.enqueue(req)
	if len(o.held) > 0 { // no request waits for an owner that holds nothing
		t.openCycles(req)
	}
	t.Mu.Unlock()
	settled, err := t.wait(ctx, req)
	t.Mu.Lock()
	if !settled {
		select {
		case err = <-req.done: // it was, meanwhile
		default:
			t.dequeue(req)
			t.advance(req.wants)
		}
	}
	if status.Code(err) == codes.Aborted {
		t.Refused.Add(1)
	}
	return err
}

// wait returns what a request was settled with, or why it stopped waiting.
func (t *Table) wait(ctx context.Context, req *request) (settled bool, err error) {
	timer := time.NewTimer(t.Wait)
	defer timer.Stop()
	select {
	case err := <-req.done:
		return true, err
	case <-timer.C:
		return false, status.Error(codes.Aborted, "Transaction lock timeout.")
	case <-ctx.Done():
		return false, status.FromContextError(ctx.Err()).Err()
	case <-t.Closed:
		return false, t.ErrClosed
	}
}

func (t *Table) grant(req *request) {
	o := req.owner
	if o.held == nil {
		o.held = make(map[Resource]Mode, len(req.wants))
	}
	for _, w := range req.wants {
		o.held[w.Resource] |= w.Mode
		t.at(w.Resource).holders[o] = o.held[w.Resource]
	}
}

func (t *Table) enqueue(req *request) {
	req.places = make([]int, len(req.wants))
	for i, w := range req.wants {
		l := t.at(w.Resource)
		l.queue = append(l.queue, waiter{req, w.Mode, i})
		req.locks = append(req.locks, l)
	}
	req.owner.waiting = append(req.owner.waiting, req)
}

func (t *Table) dequeue(req *request) {
	for _, w := range req.wants {
		l := t.locks[w.Resource]
		if i := l.place(req); i >= 0 {
			l.queue = slices.Delete(l.queue, i, i+1)
		}
		t.tidy(w.Resource, l)
	}
	req.owner.waiting = slices.DeleteFunc(req.owner.waiting, func(r *request) bool { return r == req })
}

// Release gives back all that an owner holds, and grants what has become free.
func (t *Table) Release(o *Owner) {
	freed := make([]Want, 0, len(o.held))
	for r, mode := range o.held {
		l := t.locks[r]
		delete(l.holders, o)
		t.tidy(r, l)
		freed = append(freed, Want{r, mode})
	}
	o.held = nil
	t.advance(freed)
}

// Refuse ends an owner's waiting with an error.
func (t *Table) Refuse(o *Owner, err error) {
	for _, req := range slices.Clone(o.waiting) {
		t.dequeue(req)
		req.done <- err
		t.advance(req.wants)
	}
}

// advance grants, in the order of the queues, what waits for the resources and has become free.
func (t *Table) advance(changed []Want) {
	for _, w := range changed {
		l := t.locks[w.Resource]
		if l == nil {
			continue
		}
		for i := 0; i < len(l.queue); {
			next := l.queue[i]
			if t.free(next.request) {
				t.grant(next.request)
				t.dequeue(next.request) // and the one after it moves to i
				next.done <- nil
				continue
			}
			if next.mode&Exclusive != 0 {
				break // nothing behind it gets past
			}
			i++
		}
		t.tidy(w.Resource, l)
	}
}
