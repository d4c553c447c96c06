package virtual

import (
	"context"
	"sync/atomic"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
)

// ErrLost is what a sender is told whose commit, or its answer, was lost: nobody knows which.
var ErrLost = status.Error(codes.Unavailable, "the connection was lost")

// Next has do see the next commit, which has been sent and is not applied yet, and say what becomes of it.
func (f *Firestore) Next(do func(context.Context, *firestorepb.CommitRequest) emulator.Verdict) {
	f.SetInterceptor(func(ctx context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		f.SetInterceptor(nil)
		return do(ctx, req)
	})
}

// Before does something just before the next commit is applied.
func (f *Firestore) Before(do func()) {
	f.Next(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		do()
		return emulator.Verdict{}
	})
}

// AfterLost does something after the next commit was applied, whose answer gets lost, and before anything follows it.
func (f *Firestore) AfterLost(do func()) {
	f.t.Helper()
	direct := firestorepb.NewFirestoreClient(f.Conn())
	f.Next(func(ctx context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		if _, err := direct.Commit(ctx, req); err != nil {
			f.t.Errorf("the commit whose answer is to be lost: %v", err)
		}
		do()
		return emulator.Verdict{Before: ErrLost}
	})
}

// Late keeps the next commit on its way while first happens. Its sender is told [ErrLost], and sends another: the first
// one arrives just before that.
func (f *Firestore) Late(first func()) {
	f.t.Helper()
	direct := firestorepb.NewFirestoreClient(f.Conn())
	f.Next(func(ctx context.Context, late *firestorepb.CommitRequest) emulator.Verdict {
		first()
		f.Before(func() {
			if _, err := direct.Commit(context.WithoutCancel(ctx), late); err != nil {
				f.t.Errorf("the commit that is late: %v", err)
			}
		})
		return emulator.Verdict{Before: ErrLost}
	})
}

// Delay keeps the next commit of a kind on its way, until arrives has it applied, or refused. Its sender is told
// [ErrLost]; so is, from then on, whoever sends one that is lost, too: none where lost is nil.
func (f *Firestore) Delay(is, lost func(*firestorepb.CommitRequest) bool) (sent func() bool, arrives func() error) {
	f.t.Helper()
	var first atomic.Pointer[firestorepb.CommitRequest]
	direct := firestorepb.NewFirestoreClient(f.Conn())
	f.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		if is(req) && first.CompareAndSwap(nil, req) || lost != nil && first.Load() != nil && lost(req) {
			return emulator.Verdict{Before: ErrLost}
		}
		return emulator.Verdict{}
	})
	return func() bool { return first.Load() != nil }, func() error {
		f.SetInterceptor(nil)
		if first.Load() == nil {
			f.t.Fatal("there was no such commit")
		}
		_, err := direct.Commit(f.t.Context(), first.Load())
		return err
	}
}
