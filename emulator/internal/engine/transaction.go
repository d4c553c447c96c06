package engine

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator/internal/document"
	"github.com/firestore-counters/counters/emulator/internal/locks"
	"github.com/firestore-counters/counters/emulator/internal/query"
)

// transaction is one that has begun and has not ended. Its fields are guarded by the database's
// lock.
type transaction struct {
	locks.Owner
	id       uint64
	readOnly bool
	at       int64 // what a read-only transaction reads, and any in Enterprise edition from its first read on
	busy     int   // requests under way in it
	begun    time.Time
	used     time.Time
	expiry   *time.Timer
	reads    []locks.Want // in Enterprise edition: what it has read
}

// maxTransactionAge is when a transaction ends even if it is in use, as in production.
const maxTransactionAge = 270 * time.Second

// transactions are the open transactions of a database.
type transactions struct {
	open     map[uint64]*transaction
	first    uint64 // ids below are of an earlier life
	next     uint64
	arrivals uint64 // ages of owners of locks
	aborted  map[uint64]bool
}

// maxAborted is how many aborted transactions are told from others that have ended.
const maxAborted = 10_000

func (t *transactions) init(started int64) {
	t.open = make(map[uint64]*transaction)
	t.aborted = make(map[uint64]bool)
	t.first = uint64(started) // ids of an earlier life of the database were smaller
	t.next = t.first
}

// A transaction id is one of these bytes, the number of the transaction, and, in one that repeats
// another, the age of the first.
const (
	transactionTag = 0x11
	readOnlyTag    = 0x12
)

func encodeTransaction(tag byte, id, age uint64) []byte {
	b := append(make([]byte, 0, 17), tag)
	b = binary.LittleEndian.AppendUint64(b, id)
	return binary.LittleEndian.AppendUint64(b, age)
}

func decodeTransaction(b []byte) (id, age uint64, err error) {
	if len(b) != 17 || b[0] != transactionTag && b[0] != readOnlyTag {
		return 0, 0, invalid("Invalid transaction.")
	}
	return binary.LittleEndian.Uint64(b[1:]), binary.LittleEndian.Uint64(b[9:]), nil
}

// errTransactionEnded is what a client gets that commits twice, perhaps because its first answer
// was lost: no client runs a transaction again for it, but for Node's.
func errTransactionEnded() error {
	return invalid("The referenced transaction has expired or is no longer valid.")
}

// errTransactionAborted is what makes clients run a transaction again.
func errTransactionAborted() error {
	return status.Error(codes.Aborted, "The transaction was aborted. Please try again.")
}

// Begin starts a transaction.
func (e *Engine) Begin(req *pb.BeginTransactionRequest) (*pb.BeginTransactionResponse, error) {
	db, err := e.database(req.GetDatabase())
	if err != nil {
		return nil, err
	}
	id, err := db.begin(req.GetOptions())
	if err != nil {
		return nil, err
	}
	return &pb.BeginTransactionResponse{Transaction: id}, nil
}

func (db *database) begin(opts *pb.TransactionOptions) (id []byte, err error) {
	tx := &transaction{}
	retryAge := uint64(0)
	switch m := opts.GetMode().(type) {
	case *pb.TransactionOptions_ReadOnly_:
		tx.readOnly = true
		if t := m.ReadOnly.GetReadTime(); t != nil {
			if tx.at, err = db.pastTime(t); err != nil {
				return nil, err
			}
		}
	case *pb.TransactionOptions_ReadWrite_:
		if b := m.ReadWrite.GetRetryTransaction(); len(b) > 0 {
			id, age, err := decodeTransaction(b)
			switch {
			case err == nil && !db.issued(id):
				err = invalid("Invalid retry transaction.")
			case err == nil && b[0] == readOnlyTag:
				err = invalid("Cannot retry a read-only transaction.")
			}
			if err != nil {
				return nil, err
			}
			retryAge, tx.Retried = age, true
		}
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	t := &db.transactions
	tx.id = t.next
	t.next++
	if tx.Age = retryAge; retryAge == 0 {
		t.arrivals++
		tx.Age = t.arrivals
	}
	if tx.readOnly && tx.at == 0 {
		tx.at = db.readTime()
	}
	tx.Aborted = func() { db.abort(tx) }
	tx.begun = time.Now()
	tx.used = tx.begun
	idle := db.engine.opts.TransactionIdle
	tx.expiry = time.AfterFunc(idle, func() { db.expire(tx, idle) })
	t.open[tx.id] = tx
	tag := byte(transactionTag)
	if tx.readOnly {
		tag = readOnlyTag
	}
	return encodeTransaction(tag, tx.id, tx.Age), nil
}

// issued reports whether a transaction id was ever given out, by this process or perhaps by an
// earlier one.
func (db *database) issued(id uint64) bool {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return id < db.transactions.next
}

// expire ends a transaction that was not used for a while, or that is too old: a client that
// vanished must not keep its locks.
func (db *database) expire(tx *transaction, idle time.Duration) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.transactions.open[tx.id] != tx {
		return
	}
	left, rest := idle-time.Since(tx.used), maxTransactionAge-time.Since(tx.begun)
	if tx.busy > 0 {
		left = rest // the request that is under way says when it is done: see leave
	}
	if wait := min(left, rest); wait > 0 {
		tx.expiry.Reset(wait)
		return
	}
	db.end(tx)
}

// drop forgets a transaction; its locks are another matter. The caller holds the lock.
func (db *database) drop(tx *transaction) {
	tx.expiry.Stop()
	delete(db.transactions.open, tx.id)
}

// abort drops a transaction, and remembers that it is to be run again. The caller holds the lock.
func (db *database) abort(tx *transaction) {
	db.drop(tx)
	aborted := db.transactions.aborted
	if len(aborted) >= maxAborted {
		clear(aborted)
	}
	aborted[tx.id] = true
}

// end forgets a transaction, refuses what still waits in it, and gives its locks back. The caller
// holds the lock.
func (db *database) end(tx *transaction) {
	if db.transactions.open[tx.id] != tx {
		return
	}
	db.drop(tx)
	db.locks.Refuse(&tx.Owner, errTransactionEnded())
	db.locks.Release(&tx.Owner)
}

// ended is the error of whoever uses a transaction that is no longer open. The caller holds the
// lock.
func (db *database) ended(id uint64) error {
	if db.transactions.aborted[id] {
		return errTransactionAborted()
	}
	return errTransactionEnded()
}

// enter finds an open transaction for one request; leave is to be called when the request is done.
// The caller holds the lock, for both.
func (db *database) enter(b []byte) (*transaction, error) {
	id, _, err := decodeTransaction(b)
	if err != nil {
		return nil, err
	}
	tx := db.transactions.open[id]
	if tx == nil {
		if id >= db.transactions.next {
			return nil, invalid("Invalid transaction.")
		}
		return nil, db.ended(id)
	}
	tx.busy++
	return tx, nil
}

func (db *database) leave(tx *transaction) {
	tx.busy--
	tx.used = time.Now()
	if db.transactions.open[tx.id] == tx {
		tx.expiry.Reset(min(db.engine.opts.TransactionIdle, maxTransactionAge-time.Since(tx.begun)))
	}
}

// Rollback ends a transaction. It is not an error when it has ended before.
func (e *Engine) Rollback(req *pb.RollbackRequest) error {
	db, err := e.database(req.GetDatabase())
	if err != nil {
		return err
	}
	id, _, err := decodeTransaction(req.GetTransaction())
	if err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if id >= db.transactions.next {
		return invalid("Invalid transaction.")
	}
	if tx := db.transactions.open[id]; tx != nil {
		db.end(tx)
	}
	return nil
}

// lockFor gets a transaction what it is about to read or write, and ends it when that fails. The
// caller holds the lock, and has it again on return.
func (db *database) lockFor(ctx context.Context, tx *transaction, wants []locks.Want) error {
	err := db.locks.Acquire(ctx, &tx.Owner, wants)
	if err == nil && db.transactions.open[tx.id] != tx {
		err = db.ended(tx.id) // another request of the same transaction has ended it
		db.locks.Release(&tx.Owner)
	}
	if err != nil {
		if status.Code(err) == codes.Aborted && db.transactions.open[tx.id] == tx {
			db.abort(tx)
			db.locks.Refuse(&tx.Owner, errTransactionAborted())
			db.locks.Release(&tx.Owner)
		}
		db.end(tx)
	}
	return err
}

// writeWants are the locks of documents that are written.
func (db *database) writeWants(names []string) []locks.Want {
	wants := make([]locks.Want, 0, 4+len(names))
	seen := make(map[locks.Resource]bool, 4+len(names))
	add := func(r locks.Resource, mode locks.Mode) {
		if !seen[r] {
			seen[r] = true
			wants = append(wants, locks.Want{Resource: r, Mode: mode})
		}
	}
	for _, name := range names {
		parent, _ := document.SplitParent(name)
		_, id := document.SplitParent(parent)
		add(locks.Resource{Kind: locks.Document, Name: name}, locks.Exclusive)
		add(locks.Resource{Kind: locks.Collection, Name: parent}, locks.Intent)
		add(locks.Resource{Kind: locks.Group, Name: id}, locks.Intent)
	}
	add(locks.Resource{Kind: locks.Everything}, locks.Intent)
	return wants
}

// readWants are the locks of documents that are read in a transaction; the names are distinct.
func readWants(names []string, mode locks.Mode) []locks.Want {
	wants := make([]locks.Want, len(names))
	for i, name := range names {
		wants[i] = locks.Want{Resource: locks.Resource{Kind: locks.Document, Name: name}, Mode: mode}
	}
	return wants
}

// wantsOf are the locks of a query in a transaction: of all that could come to match, too.
func wantsOf(q *query.Query, mode locks.Mode) []locks.Want {
	switch {
	case q.Collection == "" || q.Missing:
		return []locks.Want{{Resource: locks.Resource{Kind: locks.Everything}, Mode: mode}}
	case q.AllDescendants:
		return []locks.Want{{Resource: locks.Resource{Kind: locks.Group, Name: q.Collection}, Mode: mode}}
	}
	return []locks.Want{{Resource: locks.Resource{Kind: locks.Collection, Name: q.Parent + "/" + q.Collection}, Mode: mode}}
}

// stale reports whether any of what a transaction has read has changed since, in Enterprise edition, where it locks
// nothing. The caller holds the lock.
func (db *database) stale(tx *transaction) bool {
	return slices.ContainsFunc(tx.reads, func(read locks.Want) bool {
		if read.Kind == locks.Document {
			return db.Nodes[read.Name].Changed() > tx.at
		}
		return db.changed[read.Resource] > tx.at
	})
}

// readMode is how a transaction locks what it reads.
func (tx *transaction) readMode() locks.Mode {
	if tx.Retried {
		return locks.Update
	}
	return locks.Shared
}
