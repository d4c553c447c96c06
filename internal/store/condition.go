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

// Errors of [DB.CommitIf] and [DB.Transact], beside the plan's and those of Firestore that no
// repetition helps.
var (
	// ErrContention says that nothing was applied, because too much is asked of the documents or
	// of the database.
	ErrContention = errors.New("too busy")
	// ErrDoubt says that a commit may have been applied, or may yet be.
	ErrDoubt = errors.New("outcome unknown")
)

// Patience says how long [DB.CommitIf] goes on.
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

// CommitIf commits what a plan makes of the documents as they are. A plan reads, and returns the
// commit that is to be made of what it has read, on condition that it is still so; no writes
// are nothing to do. After a commit that others were faster than, and one whose answer was
// lost, the plan looks again: so it must recognize its own work, by a difference that is gone
// or by an id that it has left.
//
// It returns the answer to the commit that was made, and nil where there was nothing to do.
func (db *DB) CommitIf(ctx context.Context, p Patience, plan func(context.Context) ([]*firestorepb.Write, error)) (*firestorepb.CommitResponse, error) {
	return db.commitIf(ctx, p, func(ctx context.Context) (*firestorepb.CommitRequest, error) {
		writes, err := plan(ctx)
		return &firestorepb.CommitRequest{Database: db.Database, Writes: writes}, err
	})
}

// commitIf is the one loop of everything that is committed on a condition.
func (db *DB) commitIf(ctx context.Context, p Patience, plan func(context.Context) (*firestorepb.CommitRequest, error)) (*firestorepb.CommitResponse, error) {
	pause := Pauses()
	s := attempts{Patience: p}
	for {
		req, err := plan(ctx)
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

// attempts is what is known of a commit on its way, after some attempts. It says what follows from
// one more, and does nothing by itself.
type attempts struct {
	Patience
	conflicts, doubts int   // attempts that ended so
	doubt             error // of a commit that may have been applied, or may still be
	smaller           bool  // less is sent from now on
}

// attempt is one that came to nothing.
type attempt struct {
	err    error
	sent   bool // the commit was; or else it is the plan's error
	writes bool // there was something to write
}

// verdict is what follows from an attempt.
type verdict int

const (
	again       verdict = iota // at once
	afterAPause                // again, where there is time
	giveUp                     // there is no patience left
	end                        // with an error
)

// failed says what follows from an attempt that came to nothing.
func (s *attempts) failed(a attempt) (next verdict, err error) {
	kind, theirs := KindOf(a.err), FromFirestore(a.err)
	switch {
	case a.sent: // what is below
	case !theirs && s.doubt != nil && (!s.locks || errors.Is(a.err, ErrClosed)):
		return end, fmt.Errorf("%w: %w", ErrDoubt, a.err) // the commit may yet come
	case !theirs, s.doubt == nil && !s.locks:
		return end, a.err
	}
	switch {
	case a.sent && s.Smaller != nil && !s.smaller && IsTooLarge(a.err):
		s.smaller = true
		return again, nil
	case s.doubt != nil: // which has to end, whatever the error says
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
		return again, nil // another commit came first, and that one is done
	case s.conflicts < s.Conflicts && s.doubts < s.Doubts:
		return afterAPause, nil
	}
	return giveUp, nil
}

// gaveUp is the error of the last attempt, where nothing is in doubt.
func (s *attempts) gaveUp(err error) error {
	if KindOf(err) == Doubtful { // of a read
		return err
	}
	return fmt.Errorf("%w: gave up at attempt %d: %w", ErrContention, s.conflicts+s.doubts, err)
}

// FromFirestore tells an error of Firestore's, or of the way there, from one of a plan's own.
func FromFirestore(err error) bool {
	_, ok := status.FromError(err)
	return ok || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
