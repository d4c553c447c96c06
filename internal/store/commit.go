package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apiv1 "cloud.google.com/go/firestore/apiv1"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/status"
)

// once switches the generated client's own retries off.
var once = gax.WithRetry(func() gax.Retryer { return nil })

// Commit applies the writes as one, or none of them. It is sent once: no layer below resends it.
// [KindOf] tells what its error says about whether it was applied.
func (db *DB) Commit(ctx context.Context, writes []*firestorepb.Write) (*firestorepb.CommitResponse, error) {
	return db.commit(ctx, &firestorepb.CommitRequest{Database: db.Database, Writes: writes})
}

func (db *DB) commit(ctx context.Context, req *firestorepb.CommitRequest) (resp *firestorepb.CommitResponse, err error) {
	err = db.api.call(ctx, func(ctx context.Context, api *apiv1.Client) error {
		resp, err = api.Commit(db.outgoing(ctx), req, once)
		return err
	})
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

// Transact runs body in a transaction and commits what it writes. Body runs again after contention
// and after a commit whose outcome is in doubt, so it must be harmless to apply twice. An error of
// body that is not Firestore's ends the transaction and is returned as it is; so is one of the
// kinds [Permanent] and [Conflict]. Others are an [ErrContention] or an [ErrDoubt] in the end;
// before that, body looks once more whether there is nothing left to write. Without a deadline of
// ctx it has a minute.
func (db *DB) Transact(ctx context.Context, body func(context.Context, *Tx) error) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, transactionTimeout)
		defer cancel()
	}
	var before []byte // the id of the last attempt, whose age the next one takes over
	pause := Pauses()
	doubt := false // of one of its commits
	for try := 1; ; try++ {
		committing := false
		err := db.transact(ctx, body, &before, func(writes []*firestorepb.Write) error {
			committing = len(writes) > 0
			return nil
		})
		_, answered := status.FromError(err)
		kind := KindOf(err)
		doubt = doubt || err != nil && committing && kind == Doubtful
		switch {
		case err == nil:
			return nil
		case doubt && errors.Is(err, ErrClosed): // before a commit was made sure of
			return fmt.Errorf("%w: %w", ErrDoubt, err)
		case !FromFirestore(err) || answered && (kind == Permanent || kind == Conflict) && !doubt:
			return err
		case try < transactionTries && ctx.Err() == nil && gax.Sleep(ctx, pause.Pause()) == nil:
		case doubt:
			look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
			defer cancel()
			if errors.Is(db.transact(look, body, &before, justLook), errSettled) {
				return nil
			}
			return fmt.Errorf("%w: %w", ErrDoubt, err)
		case kind == Contention:
			return fmt.Errorf("%w: %w", ErrContention, err)
		default:
			return err
		}
	}
}

// TransactOnce is one attempt of [DB.Transact], and tells whether it came to a commit that writes.
// Where it did, [KindOf] tells what the error says about the commit.
func (db *DB) TransactOnce(ctx context.Context, body func(context.Context, *Tx) error) (sent bool, err error) {
	var before []byte
	err = db.transact(ctx, body, &before, func(writes []*firestorepb.Write) error {
		sent = len(writes) > 0
		return nil
	})
	return sent, err
}

// errSettled and errUnsettled end a transaction in the place of its commit, and say whether there
// was something to write.
var (
	errSettled   = errors.New("there is nothing to write")
	errUnsettled = errors.New("there is something to write")
)

func justLook(writes []*firestorepb.Write) error {
	if len(writes) == 0 {
		return errSettled
	}
	return errUnsettled
}

// transact tries a transaction once. may is asked before its commit.
func (db *DB) transact(ctx context.Context, body func(context.Context, *Tx) error, before *[]byte, may func([]*firestorepb.Write) error) error {
	var begun *firestorepb.BeginTransactionResponse
	err := db.api.read(ctx, func(ctx context.Context, api *apiv1.Client) (err error) {
		// one that is never heard of holds no locks
		begun, err = api.BeginTransaction(db.outgoing(ctx), &firestorepb.BeginTransactionRequest{
			Database: db.Database,
			Options: &firestorepb.TransactionOptions{Mode: &firestorepb.TransactionOptions_ReadWrite_{
				ReadWrite: &firestorepb.TransactionOptions_ReadWrite{RetryTransaction: *before},
			}},
		})
		return err
	})
	if err != nil {
		return err
	}
	*before = begun.GetTransaction()
	tx := &Tx{reader: reader{db: db, transaction: begun.GetTransaction()}}
	if err = body(ctx, tx); err == nil {
		err = may(tx.writes)
	}
	if err == nil {
		_, err = db.commit(ctx, &firestorepb.CommitRequest{Database: db.Database, Writes: tx.writes, Transaction: begun.GetTransaction()})
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = db.api.call(ctx, func(ctx context.Context, api *apiv1.Client) error {
			return api.Rollback(db.outgoing(ctx), &firestorepb.RollbackRequest{Database: db.Database, Transaction: begun.GetTransaction()}, once)
		})
	}
	return err
}

// Pauses are how long to wait between attempts: up to 10 ms, and up to twice as long each time,
// to a second at most. They are random, so that those who wait at the same time don't come back
// at the same time.
func Pauses() *gax.Backoff {
	return &gax.Backoff{Initial: 10 * time.Millisecond, Multiplier: 2, Max: time.Second}
}
