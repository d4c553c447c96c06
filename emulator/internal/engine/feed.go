package engine

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator/internal/document"
)

// Change is one document's change by one commit. The documents must not be changed.
type Change struct {
	Name       string       // full resource name: projects/{p}/databases/{d}/documents/…
	Old, New   *pb.Document // nil where there is none
	UpdateMask []string     // for an update, the paths of the fields that differ, sorted
	CommitTime time.Time
}

// maxQueuedChanges is how far the functions of OnCommit may fall behind before commits wait for
// them.
const maxQueuedChanges = 10_000

// feed hands commits to the functions of OnCommit, in the order of commits, on a goroutine of its
// own.
type feed struct {
	listening atomic.Bool
	queued    atomic.Int64 // changes that the functions have not seen
	added     atomic.Int64 // commits so far
	handled   atomic.Int64 // those of them that the functions have seen
	wake      chan struct{}
	stop      chan struct{}

	mu          sync.Mutex
	subscribers []*subscriber
	queue       []committed
	done        chan struct{} // closed when the goroutine has ended; nil before it starts
	closed      bool
}

// committed is a commit that the functions have not been called with.
type committed struct {
	at   int64
	docs []staged
}

type subscriber struct {
	f         func([]Change)
	cancelled atomic.Bool
}

func (f *feed) init() {
	f.wake = make(chan struct{}, 1)
	f.stop = make(chan struct{})
}

// OnCommit has f called for every commit that changes something, with all its changes, one after
// the other, in the order of commits, soon after each. f must be quick, must not commit, and must
// not close the engine: commits wait when it falls 10,000 changes behind. After cancel, no further
// call begins.
func (e *Engine) OnCommit(f func([]Change)) (cancel func()) {
	s := &subscriber{f: f}
	e.feed.subscribe(s)
	return func() {
		s.cancelled.Store(true)
		e.feed.unsubscribe(s)
	}
}

func (f *feed) subscribe(s *subscriber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.subscribers = append(slices.Clip(f.subscribers), s)
	f.listening.Store(true)
	if f.done == nil {
		f.done = make(chan struct{})
		go f.run()
	}
}

func (f *feed) unsubscribe(s *subscriber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subscribers = slices.DeleteFunc(slices.Clone(f.subscribers), func(x *subscriber) bool { return x == s })
	f.listening.Store(len(f.subscribers) > 0)
}

// add queues a commit's documents, of which those that are as they were are no change. It is called
// under a database's lock, in the order of commits.
func (f *feed) add(docs []staged, at int64) {
	if !f.listening.Load() {
		return
	}
	f.mu.Lock()
	f.queue = append(f.queue, committed{at, docs})
	f.added.Add(1)
	f.queued.Add(int64(len(docs)))
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (c committed) changes() []Change {
	at := time.UnixMicro(c.at).UTC()
	out := make([]Change, 0, len(c.docs))
	for _, d := range c.docs {
		if d.before == d.after {
			continue
		}
		change := Change{Name: d.name, Old: d.before, New: d.after, CommitTime: at}
		if d.before != nil && d.after != nil {
			change.UpdateMask = document.ChangedPaths(d.before.Fields, d.after.Fields)
		}
		out = append(out, change)
	}
	return out
}

// WaitForChanges returns when the functions of OnCommit have seen every commit so far, or with an
// error as a call would.
func (e *Engine) WaitForChanges(ctx context.Context) error {
	added := e.feed.added.Load()
	return e.feed.wait(ctx, e, func() bool { return e.feed.handled.Load() >= added })
}

// room waits until the functions have caught up enough for another commit.
func (f *feed) room(ctx context.Context, e *Engine) error {
	return f.wait(ctx, e, func() bool { return f.queued.Load() <= maxQueuedChanges })
}

func (f *feed) wait(ctx context.Context, e *Engine, until func() bool) error {
	for !until() {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-e.done:
			return errClosed()
		}
	}
	return nil
}

func (f *feed) run() {
	defer close(f.done)
	for {
		select {
		case <-f.wake:
		case <-f.stop:
			return
		}
		f.mu.Lock()
		batch, subscribers := f.queue, f.subscribers
		f.queue = nil
		f.mu.Unlock()
		for i, c := range batch {
			if changes := c.changes(); len(changes) > 0 {
				for _, s := range subscribers {
					if !s.cancelled.Load() {
						s.f(changes)
					}
				}
			}
			batch[i] = committed{}
			f.queued.Add(-int64(len(c.docs)))
			f.handled.Add(1)
		}
	}
}

func (f *feed) close() {
	f.mu.Lock()
	done := f.done
	if !f.closed {
		f.closed = true
		close(f.stop)
	}
	f.mu.Unlock()
	if done != nil {
		<-done
	}
}
