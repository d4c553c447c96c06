package store

import (
	"context"
	"sync"
	"time"

	apiv1 "cloud.google.com/go/firestore/apiv1"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"
)

// Commit applies the writes as one, or none of them. It is sent once: no layer below resends it.
// [KindOf] tells what its error says about whether it was applied.
func (db *DB) Commit(ctx context.Context, writes []*firestorepb.Write) (*firestorepb.CommitResponse, error) {
	return db.commit(ctx, &firestorepb.CommitRequest{Database: db.Database, Writes: writes})
}

func (db *DB) commit(ctx context.Context, req *firestorepb.CommitRequest) (resp *firestorepb.CommitResponse, err error) {
	err = db.api.call(ctx, func(ctx context.Context, api *apiv1.Client) error {
		resp, err = api.Commit(db.outgoing(ctx), req)
		return err
	})
	if err == nil {
		db.clock.saw(resp.GetCommitTime().AsTime())
	}
	return resp, err
}

const (
	// transactionTries is how often a transaction is tried that meets contention or doubt: about
	// fifteen seconds.
	transactionTries   = 20
	transactionTimeout = time.Minute
	// rollbackTimeout bounds giving a transaction's locks back. Whatever keeps them, Firestore
	// takes them after a minute.
	rollbackTimeout = 2 * time.Second
)

// Tx is a read-write transaction: what it has read is not changed by others before its commit.
type Tx struct {
	reader
	mu     sync.Mutex
	writes []*firestorepb.Write
}

// Write adds writes to the transaction's commit. It may be called side by side.
func (tx *Tx) Write(writes ...*firestorepb.Write) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.writes = append(tx.writes, writes...)
}

// Transact is [DB.CommitIf] with a body that reads and writes in a transaction. Body runs again after
// contention and after a commit whose outcome is in doubt, so it must be harmless to apply twice.
// An error of body that is not Firestore's ends the transaction and is returned as it is; so is one
// of the kinds [Permanent] and [Conflict]. Others are an [ErrContention] or an [ErrDoubt] in the
// end. Without a deadline of ctx it has a minute.
func (db *DB) Transact(ctx context.Context, body func(context.Context, *Tx) error) error {
	return db.TransactOr(ctx, nil, body)
}

// TransactOr is [DB.Transact] that sends less where Firestore refuses what body writes as too large:
// see [Patience].
func (db *DB) TransactOr(ctx context.Context, smaller func([]*firestorepb.Write) []*firestorepb.Write, body func(context.Context, *Tx) error) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, transactionTimeout)
		defer cancel()
	}
	var last []byte // the id of the last attempt, whose age the next one takes over
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

// TransactOnce is one attempt of [DB.Transact], and tells whether it came to a commit that writes.
// Where it did, [KindOf] tells what the error says about the commit.
func (db *DB) TransactOnce(ctx context.Context, body func(context.Context, *Tx) error) (sent bool, err error) {
	req, err := db.begin(ctx, nil, body)
	if err == nil {
		sent = len(req.Writes) > 0
		_, err = db.commit(ctx, req)
	}
	if err != nil {
		db.rollback(ctx, req)
	}
	return sent, err
}

// begin begins a transaction, and is the commit of what body writes in it. One whose answer is
// never heard of holds no locks.
func (db *DB) begin(ctx context.Context, last []byte, body func(context.Context, *Tx) error) (*firestorepb.CommitRequest, error) {
	var begun *firestorepb.BeginTransactionResponse
	err := db.api.read(ctx, func(ctx context.Context, api *apiv1.Client) (err error) {
		begun, err = api.BeginTransaction(db.outgoing(ctx), &firestorepb.BeginTransactionRequest{
			Database: db.Database,
			Options: &firestorepb.TransactionOptions{Mode: &firestorepb.TransactionOptions_ReadWrite_{
				ReadWrite: &firestorepb.TransactionOptions_ReadWrite{RetryTransaction: last},
			}},
		})
		return err
	})
	req := &firestorepb.CommitRequest{Database: db.Database, Transaction: begun.GetTransaction()}
	if err == nil {
		tx := &Tx{reader: reader{db: db, transaction: req.Transaction}}
		err = body(ctx, tx)
		req.Writes = tx.writes
	}
	return req, err
}

// rollback ends the transaction of a commit that was not made, where it has one.
func (db *DB) rollback(ctx context.Context, req *firestorepb.CommitRequest) {
	if len(req.GetTransaction()) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = db.api.call(ctx, func(ctx context.Context, api *apiv1.Client) error {
		return api.Rollback(db.outgoing(ctx), &firestorepb.RollbackRequest{Database: db.Database, Transaction: req.GetTransaction()})
	})
}

// Pauses are how long to wait between attempts: up to 10 ms, and up to twice as long each time,
// to a second at most. They are random, so that those who wait at the same time don't come back
// at the same time.
func Pauses() *gax.Backoff {
	return &gax.Backoff{Initial: 10 * time.Millisecond, Multiplier: 2, Max: time.Second}
}
