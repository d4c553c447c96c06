package engine

import (
	"context"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator/internal/versions"
)

// Watch is one listener: a set of targets whose changes come together. Every message of Next leaves
// it with a state of the database that existed, and commits are never split.
//
// A commit only notes, per target, which documents it has touched; what to say about them is worked
// out when the listener asks. One that doesn't ask costs a note per document, however often that
// changes, and gets the latest state when it asks again.
type Watch struct {
	db   *database
	wake chan struct{}

	// Guarded by the database's lock.
	targets  map[int32]*target
	requests []request
	closed   bool
}

// request is what the client has asked for, and the listener has not answered yet.
type request struct {
	add    *target
	remove int32
	cause  error // of a removal that the client did not ask for
}

// Watch opens a listener on a database. Close it.
func (e *Engine) Watch(database string) (*Watch, error) {
	db, err := e.database(database)
	if err != nil {
		return nil, err
	}
	return &Watch{db: db, wake: make(chan struct{}, 1), targets: make(map[int32]*target)}, nil
}

// signal makes Next look. It never blocks.
func (w *Watch) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// AddTarget adds what the client wants to hear of. A target that makes no sense is answered,
// through Next, with its removal and the cause; an error means that the listener as a whole is of
// no more use.
func (w *Watch) AddTarget(in *pb.Target) error {
	t, err := newTarget(w, in)
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	defer w.signal()
	if w.closed {
		return errClosed()
	}
	id := in.GetTargetId()
	if id < 0 {
		return invalid("Target id %d is negative.", id)
	}
	if _, taken := w.targets[id]; taken {
		return invalid("Target id %d is in use.", id)
	}
	if err != nil {
		w.requests = append(w.requests, request{remove: id, cause: err})
		return nil
	}
	if id == 0 { // the server is to choose
		for id = 1; w.targets[id] != nil; id++ {
		}
		t.id = id
	}
	w.targets[id] = t
	w.db.listeners.add(t)
	w.requests = append(w.requests, request{add: t})
	return nil
}

// RemoveTarget removes a target; an unknown one is ignored.
func (w *Watch) RemoveTarget(id int32) {
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	if w.drop(id) {
		w.requests = append(w.requests, request{remove: id})
		w.signal()
	}
}

func (w *Watch) drop(id int32) bool {
	t := w.targets[id]
	if t == nil {
		return false
	}
	delete(w.targets, id)
	w.db.listeners.remove(t)
	return true
}

// Close removes all targets.
func (w *Watch) Close() {
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	w.closed = true
	for id := range w.targets {
		w.drop(id)
	}
}

// work is what Next has found to do: requests to answer, and documents that were touched, all as of
// one time.
type work struct {
	at       int64
	requests []request
	touched  map[*target]map[string]*versions.

		// Next waits until there is something to say, and returns it. It is for one goroutine.
		Node
}

func (w *Watch) Next(ctx context.Context) ([]*pb.ListenResponse, error) {
	for {
		out, err := w.respond(w.take())
		if err != nil || len(out) > 0 {
			return out, err
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-w.db.engine.done:
			return nil, errClosed()
		}
	}
}

func (w *Watch) take() work {
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	out := work{at: w.db.readTime(), requests: w.requests}
	w.requests = nil
	for _, t := range w.targets {
		if len(t.touched) == 0 {
			continue
		}
		if t.live {
			if out.touched == nil {
				out.touched = make(map[*target]map[string]*versions.Node)
			}
			out.touched[t] = t.touched
		}
		t.touched = make(map[string]*versions. // the first state of one that isn't live yet says it all
							Node)
	}
	for _, c := range out.requests {
		if c.add != nil {
			c.add.live = true
		}
	}
	return out
}

func (w *Watch) respond(todo work) ([]*pb.ListenResponse, error) {
	r := responses{at: todo.at}
	var once []int32
	for _, c := range todo.requests {
		if c.add == nil {
			r.removed(c.remove, c.cause)
			continue
		}
		r.change(pb.TargetChange_ADD, c.add.id)
		c.add.begin(&r)
		r.current(c.add.id)
		if c.add.once {
			once = append(once, c.add.id)
		}
	}
	for t, touched := range todo.touched {
		t.update(&r, touched)
	}
	if err := w.db.checkKept(todo.at); err != nil {
		// The state that was read may have been cut off under our feet, which takes very many
		// writes.
		return nil, status.Error(codes.Unavailable, "The listener fell behind; listen again.")
	}
	if r.consistent {
		r.snapshot()
	}
	w.db.engine.stats.reads.Add(int64(r.reads))
	w.db.engine.stats.readUnits.Add(int64(r.reads))
	for _, id := range once {
		w.db.mu.Lock()
		w.drop(id)
		w.db.mu.Unlock()
		r.removed(id, nil)
	}
	return r.out, nil
}

// responses are the messages for one look at the database.
type responses struct {
	at         int64
	out        []*pb.ListenResponse
	consistent bool // there is something that a snapshot must conclude
	reads      int
}

func (r *responses) add(c *pb.TargetChange) {
	r.out = append(r.out, &pb.ListenResponse{ResponseType: &pb.ListenResponse_TargetChange{TargetChange: c}})
}

func (r *responses) change(typ pb.TargetChange_TargetChangeType, id int32) {
	r.add(&pb.TargetChange{TargetChangeType: typ, TargetIds: []int32{id}})
}

// current says that a target has caught up.
func (r *responses) current(id int32) {
	r.consistent = true
	r.add(&pb.TargetChange{
		TargetChangeType: pb.TargetChange_CURRENT, TargetIds: []int32{id},
		ResumeToken: encodeToken(r.at), ReadTime: timestamp(r.at),
	})
}

// snapshot says that all targets are of one time now; it is what makes clients tell their users.
func (r *responses) snapshot() {
	r.add(&pb.TargetChange{
		TargetChangeType: pb.TargetChange_NO_CHANGE, ResumeToken: encodeToken(r.at), ReadTime: timestamp(r.at),
	})
}

func (r *responses) removed(id int32, cause error) {
	c := &pb.TargetChange{TargetChangeType: pb.TargetChange_REMOVE, TargetIds: []int32{id}}
	if cause != nil {
		s := status.Convert(cause)
		c.Cause = &spb.Status{Code: int32(s.Code()), Message: s.Message()}
	}
	r.add(c)
}

// matching says that a document is among a target's results, new or changed.
func (r *responses) matching(id int32, doc *pb.Document) {
	r.consistent = true
	r.reads++
	r.out = append(r.out, &pb.ListenResponse{ResponseType: &pb.ListenResponse_DocumentChange{
		DocumentChange: &pb.DocumentChange{Document: doc, TargetIds: []int32{id}},
	}})
}

// filter says how many documents a target has, to a client that thought otherwise.
func (r *responses) filter(id int32, count int) {
	r.consistent = true
	r.out = append(r.out, &pb.ListenResponse{ResponseType: &pb.ListenResponse_Filter{
		Filter: &pb.ExistenceFilter{TargetId: id, Count: int32(count)},
	}})
}

// left says that a document is no more among a target's results, though it exists.
func (r *responses) left(id int32, doc *pb.Document) {
	r.consistent = true
	r.out = append(r.out, &pb.ListenResponse{ResponseType: &pb.ListenResponse_DocumentChange{
		DocumentChange: &pb.DocumentChange{Document: doc, RemovedTargetIds: []int32{id}},
	}})
}

// deleted says that a document does not exist, or not any more.
func (r *responses) deleted(id int32, name string) {
	r.consistent = true
	r.out = append(r.out, &pb.ListenResponse{ResponseType: &pb.ListenResponse_DocumentDelete{
		DocumentDelete: &pb.DocumentDelete{Document: name, ReadTime: timestamp(r.at), RemovedTargetIds: []int32{id}},
	}})
}
