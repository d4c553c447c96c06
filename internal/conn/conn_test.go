package conn_test

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
	"github.com/firestore-counters/counters/emulator/emulatortest"
	"github.com/firestore-counters/counters/internal/conn"
	"github.com/firestore-counters/counters/internal/schema"
)

func TestKindOf(t *testing.T) {
	t.Parallel()
	const expired = "The referenced transaction has expired or is no longer valid."
	for _, tt := range []struct {
		err  error
		want conn.Kind
	}{
		{status.Error(codes.NotFound, ""), conn.Conflict},
		{status.Error(codes.AlreadyExists, ""), conn.Conflict},
		{status.Error(codes.FailedPrecondition, ""), conn.Conflict},
		{status.Error(codes.Aborted, ""), conn.Contention},
		{status.Error(codes.Aborted, expired), conn.Contention},
		{status.Error(codes.ResourceExhausted, ""), conn.Contention},
		{status.Error(codes.Unavailable, ""), conn.Doubtful},
		{status.Error(codes.DeadlineExceeded, ""), conn.Doubtful},
		{status.Error(codes.Internal, ""), conn.Doubtful},
		{status.Error(codes.Unknown, ""), conn.Doubtful},
		{status.Error(codes.Canceled, ""), conn.Doubtful},
		{context.Canceled, conn.Doubtful},
		{context.DeadlineExceeded, conn.Doubtful},
		{errors.New("connection reset"), conn.Doubtful},
		{status.Error(codes.InvalidArgument, expired), conn.Doubtful},
		{status.Error(codes.InvalidArgument, "Transaction is invalid or closed."), conn.Doubtful},
		{status.Error(codes.InvalidArgument, "a field name is empty"), conn.Permanent},
		{status.Error(codes.PermissionDenied, ""), conn.Permanent},
		{fmt.Errorf("add: %w", status.Error(codes.Aborted, "")), conn.Contention},
	} {
		if got := conn.KindOf(tt.err); got != tt.want {
			t.Errorf("KindOf(%v) = %d, want %d", tt.err, got, tt.want)
		}
	}
}

// A commit whose answer is lost is not sent again by any layer below: the increment counts once, and the caller hears of
// the doubt.
func TestCommitIsSentOnce(t *testing.T) {
	t.Parallel()
	instance := emulatortest.Start(t, emulator.Options{})
	db, err := conn.Open(t.Context(), "p", "", option.WithGRPCConn(instance.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	name := db.Name + "/documents/counters/c/shards/0"
	if _, err := db.Commit(t.Context(), []*firestorepb.Write{schema.Create(name, map[string]*firestorepb.Value{"count": schema.Int(0)})}); err != nil {
		t.Fatal(err)
	}
	for _, code := range []codes.Code{codes.Unavailable, codes.ResourceExhausted} { // what the client would resend
		var sent atomic.Int64
		instance.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
			sent.Add(1)
			return emulator.Verdict{After: status.Error(code, "the answer is lost")}
		})
		_, err := db.Commit(t.Context(), []*firestorepb.Write{schema.Update(name, schema.Exists(true), nil, nil, schema.Increment("count", 1))})
		if status.Code(err) != code || sent.Load() != 1 {
			t.Errorf("%v: sent %d times, err = %v, want once, and the error", code, sent.Load(), err)
		}
	}
	docs, readTime, err := db.Get(t.Context(), db.Name+"/documents/counters/none", name)
	if err != nil {
		t.Fatal(err)
	}
	if docs[0] != nil || docs[1].GetFields()["count"].GetIntegerValue() != 2 || readTime.Before(docs[1].GetUpdateTime().AsTime()) {
		t.Errorf("Get = %v at %v, want nothing, and a count of 2", docs, readTime)
	}
}

func TestOpenFindsTheEmulator(t *testing.T) {
	instance := emulatortest.Start(t, emulator.Options{})
	t.Setenv("FIRESTORE_EMULATOR_HOST", instance.Addr)
	db, err := conn.Open(t.Context(), "p", "d")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if db.Name != "projects/p/databases/d" {
		t.Errorf("Name = %q", db.Name)
	}
	// Listing collections takes an administrator, which both faces of the client are.
	if _, err := db.Collections(t.Context()).GetAll(); err != nil {
		t.Errorf("the high-level client: %v", err)
	}
	if _, err := db.Commit(t.Context(), []*firestorepb.Write{schema.Create(db.Name+"/documents/a/b", nil)}); err != nil {
		t.Errorf("the generated client: %v", err)
	}
}
