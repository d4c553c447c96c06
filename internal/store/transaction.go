package store

import (
	"context"
	"sync"
	"time"

	apiv1 "cloud.google.com/go/firestore/apiv1"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

const (
	// transactionTries is how often a transaction is tried after contention or doubt, for about
	// fifteen seconds.
	transactionTries   = 20
	transactionTimeout = time.Minute
)

// Tx is a read-write transaction: nobody else changes what it has read before its commit.
type Tx struct {
	reader
	mu     sync.Mutex
	writes []*firestorepb.Write
}

// Write adds writes to the transaction's commit. It is safe for concurrent use.
func (tx *Tx) Write(writes ...*firestorepb.Write) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.writes = append(tx.writes, writes...)
}

// Transact is [DB.CommitIf] with a body that reads and writes in a transaction. Body runs again after
// contention and doubt, so applying it twice must do no harm. Its own errors, and Firestore's of the
// kinds [Permanent] and [Conflict], end the transaction. After others it is tried again, and in the end
// the error is an [ErrContention] or an [ErrDoubt]. If ctx has no deadline, it takes a minute at most.
func (db *DB) Transact(ctx context.Context, body func(context.Context, *Tx) error) error {
	return db.TransactOr(ctx, nil, body)
}

// TransactOr is [DB.Transact] that sends less if Firestore refuses body's writes as too large: see
// [Patience].
func (db *DB) TransactOr(ctx context.Context, smaller func([]*firestorepb.Write) []*firestorepb.Write, body func(context.Context, *Tx) error) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, transactionTimeout)
		defer cancel()
	}
	var last []byte // the id of the last attempt: the next one inherits its age
	patience := Patience{Conflicts: transactionTries, Doubts: transactionTries, Smaller: smaller, locks: true}
	_, err := db.commitIf(ctx, patience, func(ctx context.Context) (*firestorepb.CommitRequest, error) {
		req, err := db.begin(ctx, last, body)
		if len(req.Transaction) > 0 {
			last = req.Transaction
		}
		return req, err
	})
	return err
}

// TransactOnce is one attempt of [DB.Transact]. It reports whether it sent a commit that writes. If so,
// [KindOf] tells what the error says about that commit, and at is when it was committed without one.
func (db *DB) TransactOnce(ctx context.Context, body func(context.Context, *Tx) error) (at time.Time, sent bool, err error) {
	req, err := db.begin(ctx, nil, body)
	var resp *firestorepb.CommitResponse
	if err == nil {
		sent = len(req.Writes) > 0
		resp, err = db.commit(ctx, req)
	}
	if err != nil {
		db.rollback(ctx, req)
		return time.Time{}, sent, err
	}
	return resp.GetCommitTime().AsTime(), sent, nil
}

// begin begins a transaction, runs body in it, and returns the commit of body's writes. A transaction
// whose answer gets lost holds no locks.
func (db *DB) begin(ctx context.Context, last []byte, body func(context.Context, *Tx) error) (*firestorepb.CommitRequest, error) {
	var begun *firestorepb.BeginTransactionResponse
	err := db.api.read(ctx, func(ctx context.Context, api *apiv1.Client) (err error) {
		begun, err = api.BeginTransaction(db.outgoing(ctx), &firestorepb.BeginTransactionRequest{
			Database: db.Layout.Database,
			Options: &firestorepb.TransactionOptions{Mode: &firestorepb.TransactionOptions_ReadWrite_{
				ReadWrite: &firestorepb.TransactionOptions_ReadWrite{RetryTransaction: last},
			}},
		})
		return err
	})
	req := &firestorepb.CommitRequest{Database: db.Layout.Database, Transaction: begun.GetTransaction()}
	if err == nil {
		tx := &Tx{reader: reader{db: db, transaction: req.Transaction}}
		err = body(ctx, tx)
		req.Writes = tx.writes
	}
	return req, err
}
