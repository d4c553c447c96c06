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
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, transactionTimeout)
		defer cancel()
	}
	var last []byte // the id of the last attempt: the next one inherits its age
	patience := Patience{Conflicts: transactionTries, Doubts: transactionTries, locks: true}
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

// Errors of [DB.CommitIf] and [DB.Transact]. They also return the plan's errors, and those of Firestore
// that a repetition can't change.
var (
	// ErrContention says that nothing was applied, because the documents or the database are too busy.
	ErrContention = errors.New("too busy")
	// ErrDoubt says that a commit may have been applied, or may yet be.
	ErrDoubt = errors.New("outcome unknown")
)

// Patience says how long [DB.CommitIf] keeps trying.
type Patience struct {
	Conflicts int  // so many commits may find that another was faster
	Doubts    int  // so many may lose their answers; twelve take some three seconds
	Yield     bool // end at the first contention, because the caller tries again later anyway
	// Smaller returns what to send instead of a plan's writes, once Firestore has refused some as too
	// large. It may be nil.
	Smaller func(writes []*firestorepb.Write) []*firestorepb.Write

	// locks says that the plan reads within a transaction. Once it has read, no earlier commit can
	// arrive, so its errors and failed conditions are final. But its reads may meet contention.
	locks bool
}

// lastLook bounds the last look for a commit whose answer was lost, once there is no time for another
// commit.
const lastLook = 3 * time.Second

// CommitIf commits what a plan makes of the documents as they are: writes on condition that what it
// read hasn't changed, or none if there is nothing to do. If another commit was faster, or an answer
// was lost, the plan runs again. So it must recognize its own work, by a difference that is gone or by
// an id that it has left. After contention the same commit is sent, because its conditions say whether
// what it was planned by has changed. CommitIf returns the answer to its commit, or nil.
func (db *DB) CommitIf(ctx context.Context, p Patience, plan func(context.Context) ([]*firestorepb.Write, error)) (*firestorepb.CommitResponse, error) {
	return db.commitIf(ctx, p, func(ctx context.Context) (*firestorepb.CommitRequest, error) {
		writes, err := plan(ctx)
		return &firestorepb.CommitRequest{Database: db.Layout.Database, Writes: writes}, err
	})
}

// commitIf is the one loop that all commits on a condition go through.
func (db *DB) commitIf(ctx context.Context, p Patience, plan func(context.Context) (*firestorepb.CommitRequest, error)) (*firestorepb.CommitResponse, error) {
	pause := Pauses()
	s := attempts{Patience: p}
	var req *firestorepb.CommitRequest
	for planned := false; ; {
		var err error
		if !planned {
			req, err = plan(ctx)
		}
		a := attempt{err: err, sent: err == nil, writes: len(req.Writes) > 0}
		if a.sent && !a.writes && !p.locks {
			return nil, nil
		}
		if a.sent {
			if s.smaller && a.writes {
				req.Writes = p.Smaller(req.Writes)
			}
			var resp *firestorepb.CommitResponse
			if resp, a.err = db.commit(ctx, req); a.err == nil {
				return resp, nil
			}
		}
		db.rollback(ctx, req)
		planned = a.sent && KindOf(a.err) == Contention && !p.locks
		switch next, err := s.failed(a); {
		case next == end:
			return nil, err
		case next == again, next == afterAPause && gax.Sleep(ctx, pause.Pause()) == nil:
			continue
		}
		if s.doubt == nil {
			return nil, s.gaveUp(a.err)
		}
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
		defer cancel()
		req, err = plan(look)
		db.rollback(look, req)
		if err == nil && len(req.Writes) == 0 {
			return nil, nil
		}
		return nil, fmt.Errorf("%w: %w", ErrDoubt, s.doubt)
	}
}

// attempts is what is known of a commit after some attempts. It says what follows from one more, and
// does nothing itself.
type attempts struct {
	Patience
	conflicts, doubts int   // attempts that ended so
	doubt             error // of a commit that may have been applied, or may yet be
	smaller           bool  // less is sent from now on
}

// attempt is an attempt that failed.
type attempt struct {
	err    error
	sent   bool // the commit was sent; otherwise err is the plan's
	writes bool // there was something to write
}

// verdict is what follows from an attempt.
type verdict int

const (
	again       verdict = iota // at once
	afterAPause                // if there is time
	giveUp                     // no patience is left
	end                        // with an error
)

// failed says what follows from an attempt that failed.
func (s *attempts) failed(a attempt) (next verdict, err error) {
	kind, theirs := KindOf(a.err), FromFirestore(a.err)
	switch {
	case a.sent: // see the next switch
	case !theirs && s.doubt != nil && (!s.locks || errors.Is(a.err, ErrClosed)):
		return end, fmt.Errorf("%w: %w", ErrDoubt, a.err) // the commit may yet come
	case !theirs, s.doubt == nil && !s.locks:
		return end, a.err
	}
	switch {
	case a.sent && s.Smaller != nil && !s.smaller && IsTooLarge(a.err):
		s.smaller = true
		return again, nil
	case s.doubt != nil: // the doubt must be settled first, whatever the error says
	case Refused(a.err), kind == Permanent, kind == Conflict && s.locks:
		return end, a.err
	case kind == Contention && s.Yield:
		return end, fmt.Errorf("%w: %w", ErrContention, a.err)
	}
	if kind == Contention || kind == Conflict {
		s.conflicts++
	} else {
		s.doubts++
	}
	if a.sent && a.writes && kind == Doubtful {
		s.doubt = a.err
	}
	switch {
	case kind == Conflict && s.conflicts == 1 && s.doubt == nil:
		return again, nil // another commit came first, and is done
	case s.conflicts < s.Conflicts && s.doubts < s.Doubts:
		return afterAPause, nil
	}
	return giveUp, nil
}

// gaveUp is the error after the last attempt, if nothing is in doubt.
func (s *attempts) gaveUp(err error) error {
	if KindOf(err) == Doubtful { // of a read
		return err
	}
	return fmt.Errorf("%w: gave up at attempt %d: %w", ErrContention, s.conflicts+s.doubts, err)
}

// FromFirestore reports whether an error is from Firestore, or from the way there, and not a plan's own.
func FromFirestore(err error) bool {
	_, ok := status.FromError(err)
	return ok || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
