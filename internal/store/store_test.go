package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

func TestKindOf(t *testing.T) {
	t.Parallel()
	const expired = "The referenced transaction has expired or is no longer valid."
	for _, tt := range []struct {
		err  error
		want store.Kind
	}{
		{status.Error(codes.NotFound, ""), store.Conflict},
		{status.Error(codes.AlreadyExists, ""), store.Conflict},
		{status.Error(codes.FailedPrecondition, ""), store.Conflict},
		{status.Error(codes.Aborted, ""), store.Contention},
		{status.Error(codes.Aborted, expired), store.Contention},
		{status.Error(codes.ResourceExhausted, ""), store.Doubtful},
		{status.Error(codes.Unavailable, ""), store.Doubtful},
		{status.Error(codes.DeadlineExceeded, ""), store.Doubtful},
		{status.Error(codes.Internal, ""), store.Doubtful},
		{status.Error(codes.Unknown, ""), store.Doubtful},
		{status.Error(codes.Canceled, ""), store.Doubtful},
		{context.Canceled, store.Doubtful},
		{context.DeadlineExceeded, store.Doubtful},
		{errors.New("connection reset"), store.Doubtful},
		{status.Error(codes.InvalidArgument, expired), store.Doubtful},
		{status.Error(codes.InvalidArgument, "Transaction is invalid or closed."), store.Doubtful},
		{status.Error(codes.InvalidArgument, "Invalid base version, it is greater than the stored version"), store.Conflict},
		{status.Error(codes.InvalidArgument, "a field name is empty"), store.Permanent},
		{status.Error(codes.PermissionDenied, ""), store.Permanent},
		{fmt.Errorf("add: %w", status.Error(codes.Aborted, "")), store.Contention},
	} {
		if got := store.KindOf(tt.err); got != tt.want {
			t.Errorf("KindOf(%v) = %d, want %d", tt.err, got, tt.want)
		}
	}
}

// A commit whose answer is lost is not sent again by any layer below: the increment counts once,
// and the caller hears of the doubt.
func TestCommitIsSentOnce(t *testing.T) {
	t.Parallel()
	instance := emulator.Start(t)
	db, err := store.Open(t.Context(), layout.Place{Project: "p"}, option.WithGRPCConn(instance.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	name := db.Layout.Database + "/documents/counters/c/shards/0"
	if _, err := db.Commit(t.Context(), store.Create(name, map[string]*firestorepb.Value{"count": store.Int(0)})); err != nil {
		t.Fatal(err)
	}
	for _, code := range []codes.Code{codes.Unavailable, codes.ResourceExhausted} {
		// what the client would resend
		var sent atomic.Int64
		instance.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
			sent.Add(1)
			return emulator.Verdict{After: status.Error(code, "the answer is lost")}
		})
		_, err := db.Commit(t.Context(), store.Update(name, store.Exists(true), nil, nil, store.Increment("count", 1)))
		if status.Code(err) != code || sent.Load() != 1 {
			t.Errorf("%v: sent %d times, err = %v, want once, and the error", code, sent.Load(), err)
		}
	}
	docs, readTime, err := db.Get(t.Context(), db.Layout.Database+"/documents/counters/none", name)
	if err != nil {
		t.Fatal(err)
	}
	if docs[0] != nil || docs[1].GetFields()["count"].GetIntegerValue() != 2 || readTime.Before(docs[1].GetUpdateTime().AsTime()) {
		t.Errorf("Get = %v at %v, want nothing, and a count of 2", docs, readTime)
	}
}

func TestOpenFindsTheEmulator(t *testing.T) {
	instance := emulator.Start(t)
	t.Setenv("FIRESTORE_EMULATOR_HOST", instance.Addr)
	db, err := store.Open(t.Context(), layout.Place{Project: "p", Database: "d"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if db.Layout.Database != "projects/p/databases/d" {
		t.Errorf("Database = %q", db.Layout.Database)
	}
	// Listing missing documents takes an administrator.
	if _, _, err := db.List(t.Context(), 10, ""); err != nil {
		t.Errorf("list: %v", err)
	}
	if _, err := db.Commit(t.Context(), store.Create(db.Layout.Database+"/documents/a/b", nil)); err != nil {
		t.Errorf("the generated client: %v", err)
	}
}

// With FIRESTORE_EMULATOR_HOST set, client options don't split the two clients: what is read,
// watched and committed is in one place. Left to themselves, with any option at all, one would go
// to the emulator and the other to production.
func TestClientOptionsLeaveEverythingInOnePlace(t *testing.T) {
	here, there := emulator.Start(t), emulator.Start(t)
	t.Setenv("FIRESTORE_EMULATOR_HOST", here.Addr)
	for name, tt := range map[string]struct {
		opts       []option.ClientOption
		used, left *emulator.Instance
	}{
		"an endpoint":             {[]option.ClientOption{option.WithEndpoint(there.Addr)}, here, there},
		"a user agent":            {[]option.ClientOption{option.WithUserAgent("test")}, here, there},
		"no authentication":       {[]option.ClientOption{option.WithoutAuthentication()}, here, there},
		"a dial option":           {[]option.ClientOption{option.WithGRPCDialOption(grpc.WithUserAgent("test"))}, here, there},
		"a connection of its own": {[]option.ClientOption{option.WithGRPCConn(there.Conn(t))}, there, here},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := store.Open(t.Context(), layout.Place{Project: "p"}, tt.opts...)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			doc := db.Layout.Document("places/" + strings.ReplaceAll(name, " ", "-"))
			if _, err := db.Commit(ctx, store.Create(doc, nil)); err != nil {
				t.Fatalf("commit: %v", err)
			}
			if err := db.Transact(ctx, func(ctx context.Context, tx *store.Tx) error {
				tx.Write(store.Update(doc, store.Exists(true), map[string]*firestorepb.Value{"n": store.Int(1)}, nil))
				return nil
			}); err != nil {
				t.Fatalf("transact: %v", err)
			}
			docs, _, err := db.Get(ctx, doc)
			if err != nil || docs[0].GetFields()["n"].GetIntegerValue() != 1 {
				t.Errorf("read %v, %v; want what was committed", docs[0], err)
			}
			for doc, err := range db.Watch(ctx, doc) {
				if err != nil || doc.GetFields()["n"].GetIntegerValue() != 1 {
					t.Errorf("watched %v, %v; want what was committed", doc, err)
				}
				break
			}
			path := strings.TrimPrefix(doc, db.Layout.Database+"/documents/")
			if _, err := tt.used.Client(t, "p").Doc(path).Get(ctx); err != nil {
				t.Errorf("it isn't where it belongs: %v", err)
			}
			if _, err := tt.left.Client(t, "p").Doc(path).Get(ctx); status.Code(err) != codes.NotFound {
				t.Errorf("it is elsewhere too: %v", err)
			}
		})
	}
}

// Memberships beside the shards would be shards themselves.
func TestShardsAreNoMembers(t *testing.T) {
	t.Parallel()
	if db, err := store.Open(t.Context(), layout.Place{Project: "p", Fields: "likes,views", Shards: "views_members"}); err == nil {
		_ = db.Close()
		t.Error("shards where the members of a field are: no error")
	}
}
