package engine

import (
	"context"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator/internal/document"
	"github.com/firestore-counters/counters/emulator/internal/locks"
	"github.com/firestore-counters/counters/emulator/internal/versions"
)

// Commit applies all of a request's writes, or none. When it is a transaction's, the transaction
// has ended afterwards, but for INVALID_ARGUMENT, which leaves it open.
func (e *Engine) Commit(ctx context.Context, req *pb.CommitRequest) (*pb.CommitResponse, error) {
	db, err := e.database(req.GetDatabase())
	if err != nil {
		return nil, err
	}
	ops, err := parseWrites(db.name, req.GetWrites())
	if err != nil {
		return nil, err
	}
	if len(req.GetTransaction()) == 0 {
		return db.commit(ctx, nil, ops)
	}
	db.mu.Lock()
	tx, err := db.enter(req.GetTransaction())
	db.mu.Unlock()
	if err != nil {
		return nil, err
	}
	defer func() {
		db.mu.Lock()
		db.leave(tx)
		if status.Code(err) != codes.InvalidArgument {
			db.end(tx)
		}
		db.mu.Unlock()
	}()
	if tx.readOnly && len(ops) > 0 {
		err = invalid("Cannot modify entities in a read-only transaction.")
		return nil, err
	}
	resp, err := db.commit(ctx, tx, ops)
	return resp, err
}

// EndTransaction ends the transaction of a commit that was answered, by an injected fault, without
// being applied.
func (e *Engine) EndTransaction(database string, transaction []byte) {
	_ = e.Rollback(&pb.RollbackRequest{Database: database, Transaction: transaction}) // unknown: it has none
}

// commit applies operations when their documents have a slot for it, and returns when its latency
// is over.
func (db *database) commit(ctx context.Context, tx *transaction, ops []operation) (*pb.CommitResponse, error) {
	e := db.engine
	done, err := e.hot.wait(ctx, e, ops)
	if err != nil {
		return nil, err
	}
	if err := db.waitForStamp(ctx, ops); err != nil {
		return nil, err
	}
	resp, err := db.apply(ctx, tx, ops)
	if !done.IsZero() {
		_ = e.sleep(ctx, time.Until(done)) // whatever ends it, the commit is what it is
	}
	return resp, err
}

func (db *database) apply(ctx context.Context, tx *transaction, ops []operation) (*pb.CommitResponse, error) {
	e := db.engine
	if err := e.feed.room(ctx, e); err != nil {
		return nil, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if tx != nil && db.transactions.open[tx.id] != tx {
		return nil, db.ended(tx.id)
	}
	if tx != nil && len(ops) > 0 && db.stale(tx) {
		db.abort(tx)
		return nil, errTransactionAborted()
	}
	if !db.locks.Idle() && len(ops) > 0 {
		release, err := db.lockWrites(ctx, tx, ops)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	s := staging{db: db, time: db.commitTime(db.nextStamp(ops))}
	resp, err := s.run(ops)
	if err != nil {
		return nil, err
	}
	e.stats.billWrites(ops)
	for _, d := range s.docs {
		if d.after != nil {
			e.stats.writeUnits.Add(units(d.size, writeUnit))
		}
	}
	return resp, nil
}

// lockWrites waits for whoever holds what a commit writes. The caller holds the lock, and has it
// again on return.
func (db *database) lockWrites(ctx context.Context, tx *transaction, ops []operation) (release func(), err error) {
	names := make([]string, len(ops))
	for i := range ops {
		names[i] = ops[i].name
	}
	if tx != nil {
		return func() {}, db.lockFor(ctx, tx, db.writeWants(names))
	}
	db.transactions.arrivals++
	o := &locks.Owner{Age: db.transactions.arrivals}
	if err := db.locks.Acquire(ctx, o, db.writeWants(names)); err != nil {
		return nil, err
	}
	return func() { db.locks.Release(o) }, nil
}

// staging is one commit while it is put together, under the database's lock. Nothing is visible
// before publish.
type staging struct {
	db      *database
	time    int64
	docs    []staged
	byName  map[string]int // index into docs; nil for a commit of one write
	results []*pb.WriteResult
	silent  bool // functions of OnCommit aren't called
}

// staged is a document in a commit.
type staged struct {
	name string
	node *versions. // nil: never heard of
		Node
	before *pb.Document
	after  *pb.Document // nil: deleted
	size   int
}

func (s *staging) run(ops []operation) (*pb.CommitResponse, error) {
	if len(ops) == 0 {
		return &pb.CommitResponse{CommitTime: timestamp(s.time)}, nil
	}
	now := timestamp(s.time)
	s.docs = make([]staged, 0, len(ops))
	s.results = make([]*pb.WriteResult, len(ops))
	if len(ops) > 1 {
		s.byName = make(map[string]int, len(ops))
	}
	touched := make([]int, len(ops))
	for i := range ops {
		k, err := s.apply(&ops[i], now, i)
		if err != nil {
			return nil, err
		}
		touched[i] = k
	}
	for i, k := range touched {
		if d := s.docs[k]; !ops[i].remove && d.after != nil {
			s.results[i].UpdateTime = d.after.UpdateTime
		}
	}
	s.publish()
	return &pb.CommitResponse{WriteResults: s.results, CommitTime: now}, nil
}

// stage finds the commit's view of a document.
func (s *staging) stage(name string) int {
	if k, ok := s.byName[name]; ok {
		return k
	}
	n := s.db.Nodes[name]
	doc := n.Current()
	s.docs = append(s.docs, staged{name: name, node: n, before: doc, after: doc})
	k := len(s.docs) - 1
	if s.byName != nil {
		s.byName[name] = k
	}
	return k
}

// apply runs one operation on the commit's view of its document.
func (s *staging) apply(op *operation, now *timestamppb.Timestamp, i int) (doc int, err error) {
	k := s.stage(op.name)
	d := &s.docs[k]
	if err := op.need.check(op.name, d.before, d.after); err != nil {
		return 0, err
	}
	s.results[i] = &pb.WriteResult{}
	if op.verify {
		return k, nil
	}
	if op.remove {
		d.after = nil
		return k, nil
	}
	fields, results := op.apply(d.after.GetFields(), now)
	s.results[i].TransformResults = results
	switch {
	case d.after == nil:
		d.after = &pb.Document{Name: op.name, Fields: fields, CreateTime: now, UpdateTime: now}
	case d.before != nil && d.after.CreateTime == d.before.CreateTime && document.IdenticalFields(d.before.Fields, fields):
		d.after = d.before // nothing changes, or not any more: update_time stays
		return k, nil
	default:
		d.after = &pb.Document{Name: op.name, Fields: fields, CreateTime: d.after.CreateTime, UpdateTime: now}
	}
	if d.size = document.Size(op.name, fields); d.size > document.MaxBytes {
		return 0, invalid("Document %q cannot be written because its size (%d bytes) exceeds the maximum allowed size of %d bytes.",
			op.name, d.size, document.MaxBytes)
	}
	return k, nil
}

// publish puts the new versions in place, and tells listeners.
func (s *staging) publish() {
	db := s.db
	for i := range s.docs {
		d := &s.docs[i]
		if d.before == d.after {
			continue
		}
		if d.node == nil {
			d.node = db.Node(d.name)
		}
		db.Put(d.node, s.time, d.after, d.size)
		db.engine.indexes.note(s.time, d.before, d.after)
		db.listeners.mark(d.node)
		if db.changed != nil {
			db.changed[locks.Resource{Kind: locks.Collection, Name: d.node.Collection.Name}] = s.time
			db.changed[locks.Resource{Kind: locks.Group, Name: d.node.Collection.ID}] = s.time
			db.changed[locks.Resource{Kind: locks.Everything}] = s.time
		}
	}
	if !s.silent {
		db.engine.feed.add(s.docs, s.time)
	}
	o := &db.engine.opts
	db.Prune(versions.Bounds{Oldest: s.time - o.History.Microseconds(), Versions: o.HistoryVersions, Bytes: o.HistoryBytes})
}
