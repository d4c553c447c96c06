package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// A commit that others were faster than says nothing about one before it whose answer was lost: that
// may have been applied, or may yet be. Whoever goes no further is told so.
func TestADoubtOutlastsConflicts(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Aborted, codes.FailedPrecondition} {
		for _, yield := range []bool{false, true} {
			t.Run(fmt.Sprint(code, ", yield ", yield), func(t *testing.T) {
				t.Parallel()
				instance := emulator.Start(t)
				db, err := store.Open(t.Context(), layout.Place{Project: "p"}, option.WithGRPCConn(instance.Conn(t)))
				if err != nil {
					t.Fatal(err)
				}
				var sent atomic.Int64
				instance.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
					if sent.Add(1) == 1 {
						return emulator.Verdict{After: status.Error(codes.Unavailable, "the answer is lost")}
					}
					return emulator.Verdict{Before: status.Error(code, "others were faster")}
				})
				name := db.Layout.Database + "/documents/counters/c"
				_, err = db.CommitIf(t.Context(), store.Patience{Conflicts: 3, Doubts: 3, Yield: yield}, func(context.Context) ([]*firestorepb.Write, error) {
					return []*firestorepb.Write{store.Update(name, nil, map[string]*firestorepb.Value{"total": store.Int(1)}, nil)}, nil
				})
				if !errors.Is(err, store.ErrDoubt) || errors.Is(err, store.ErrContention) || sent.Load() != 4 {
					t.Errorf("%v after %d commits, want ErrDoubt after 4", err, sent.Load())
				}
			})
		}
	}
}

// A commit that met contention is sent again as it is: what it was planned by costs no second read. If something has
// changed, its conditions say so, and it is planned again.
func TestContentionTakesNoOtherPlan(t *testing.T) {
	t.Parallel()
	instance := emulator.Start(t)
	db, err := store.Open(t.Context(), layout.Place{Project: "p"}, option.WithGRPCConn(instance.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	name := db.Layout.Database + "/documents/counters/c"
	add := func(condition *firestorepb.Precondition) *firestorepb.Write {
		return store.Update(name, condition, nil, nil, store.Increment("total", 1))
	}
	if _, err := db.Commit(t.Context(), add(nil)); err != nil {
		t.Fatal(err)
	}
	var sent, plans atomic.Int64
	instance.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
		switch sent.Add(1) {
		case 1, 2:
			v.Before = status.Error(codes.Aborted, "too much contention on these documents")
		case 3: // somebody else writes it
			instance.Server.SetInterceptor(nil)
			if _, err := db.Commit(t.Context(), add(nil)); err != nil {
				t.Error(err)
			}
		}
		return v
	})
	_, err = db.CommitIf(t.Context(), store.Patience{Conflicts: 9, Doubts: 1}, func(ctx context.Context) ([]*firestorepb.Write, error) {
		plans.Add(1)
		docs, _, err := db.Get(ctx, name)
		if err != nil {
			return nil, err
		}
		return []*firestorepb.Write{add(store.IfVersion(docs[0].GetUpdateTime().AsTime()))}, nil
	})
	docs, _, got := db.Get(t.Context(), name)
	if err != nil || got != nil || plans.Load() != 2 || docs[0].GetFields()["total"].GetIntegerValue() != 3 {
		t.Errorf("%d plans, %v, %v, %v; want 2, and a total of 3", plans.Load(), docs, err, got)
	}
}
