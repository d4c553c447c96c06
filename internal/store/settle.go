package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/status"
)

// Errors of [DB.Settle] and [DB.Transact], beside the plan's and those of Firestore that no
// repetition helps.
var (
	// ErrContention says that nothing was applied, because too much is asked of the documents or
	// of the database.
	ErrContention = errors.New("too busy")
	// ErrDoubt says that a commit may have been applied, or may yet be.
	ErrDoubt = errors.New("outcome unknown")
)

// Patience says how long [DB.Settle] goes on.
type Patience struct {
	Conflicts int  // commits that others were faster than
	Doubts    int  // commits whose answers were lost; twelve take some three seconds
	Yield     bool // contention ends it at once: whoever asked comes again, later than it would
	// Smaller is what is sent instead of a plan's writes once Firestore has refused some as too large;
	// nil is nothing.
	Smaller func(writes []*firestorepb.Write) []*firestorepb.Write

	// The plan reads within a transaction. So no earlier commit can come once it has read, what it
	// finds wrong is wrong, and a condition that fails will fail again; but reads may meet
	// contention.
	locks bool
}

// lastLook bounds the look at what became of a commit whose answer was lost, when there is no time
// left for another one.
const lastLook = 3 * time.Second

// Settle commits what a plan makes of the documents as they are. A plan reads, and returns the
// commit that is to be made of what it has read, on condition that it is still so; no writes
// are nothing to do. After a commit that others were faster than, and one whose answer was
// lost, the plan looks again: so it must recognize its own work, by a difference that is gone
// or by an id that it has left.
//
// It returns the answer to the commit that was made, and nil where there was nothing to do.
func (db *DB) Settle(ctx context.Context, p Patience, plan func(context.Context) ([]*firestorepb.Write, error)) (*firestorepb.CommitResponse, error) {
	return db.settle(ctx, p, func(ctx context.Context) (*firestorepb.CommitRequest, error) {
		writes, err := plan(ctx)
		return &firestorepb.CommitRequest{Database: db.Database, Writes: writes}, err
	})
}

// settle is the one loop of everything that is committed on a condition.
func (db *DB) settle(ctx context.Context, p Patience, plan func(context.Context) (*firestorepb.CommitRequest, error)) (*firestorepb.CommitResponse, error) {
	pause := Pauses()
	var doubt error // of a commit that may have been applied, or may still be
	smaller := false
	for conflicts, doubts := 0, 0; ; {
		req, err := plan(ctx)
		planned := err == nil
		if planned && len(req.Writes) == 0 && !p.locks {
			return nil, nil
		}
		if planned {
			if smaller && len(req.Writes) > 0 {
				req.Writes = p.Smaller(req.Writes)
			}
			var resp *firestorepb.CommitResponse
			if resp, err = db.commit(ctx, req); err == nil {
				return resp, nil
			}
		}
		db.rollback(ctx, req)
		switch {
		case planned:
		case !FromFirestore(err) && doubt != nil && (!p.locks || errors.Is(err, ErrClosed)):
			return nil, fmt.Errorf("%w: %w", ErrDoubt, err) // the commit may yet come
		case !FromFirestore(err) || doubt == nil && !p.locks:
			return nil, err
		}
		if p.Smaller != nil && !smaller && planned && IsTooLarge(err) {
			smaller = true
			continue
		}
		kind := KindOf(err)
		switch {
		case doubt == nil && (Refused(err) || kind == Permanent || kind == Conflict && p.locks):
			return nil, err
		case doubt == nil && kind == Contention && p.Yield:
			return nil, fmt.Errorf("%w: %w", ErrContention, err)
		case kind == Contention || kind == Conflict:
			conflicts++
		default:
			doubts++
		}
		if planned && kind == Doubtful && len(req.Writes) > 0 {
			doubt = err
		}
		if kind == Conflict && conflicts == 1 && doubt == nil {
			continue // at once: another commit came first, and that one is done
		}
		if conflicts < p.Conflicts && doubts < p.Doubts && gax.Sleep(ctx, pause.Pause()) == nil {
			continue
		}
		switch {
		case doubt == nil && kind == Doubtful: // of a read
			return nil, err
		case doubt == nil:
			return nil, fmt.Errorf("%w: gave up at attempt %d: %w", ErrContention, conflicts+doubts, err)
		}
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
		defer cancel()
		req, err = plan(look)
		db.rollback(look, req)
		if err == nil && len(req.Writes) == 0 {
			return nil, nil
		}
		return nil, fmt.Errorf("%w: %w", ErrDoubt, doubt)
	}
}

// FromFirestore tells an error of Firestore's, or of the way there, from one of a plan's own.
func FromFirestore(err error) bool {
	_, ok := status.FromError(err)
	return ok || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
