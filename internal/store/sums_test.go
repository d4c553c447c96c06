package store_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
)

// A sum tells as of when it is, and another one is of that time.
func TestSumsOfOneTime(t *testing.T) {
	t.Parallel()
	sumsOfOneTime(t, emulator.Start(t).Conn(t))
}

func sumsOfOneTime(t *testing.T, conn *grpc.ClientConn) {
	client, err := firestore.NewClient(t.Context(), "sums", option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), layout.Place{Project: "sums"}, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	shards := client.Collection("counters/a/shards")
	for n := range 9 {
		if _, err := shards.Doc(strconv.Itoa(n)).Set(t.Context(), map[string]any{"a-b": 2 + n/8}); err != nil {
			t.Fatal(err)
		}
	}
	sum, n, read, err := db.Sum(t.Context(), db.Layout.ShardsOf("a"), "a-b", nil, time.Time{})
	if err != nil || sum.GetIntegerValue() != 19 || n != 9 {
		t.Fatalf("%v of %d documents, %v; want 19 of 9", sum, n, err)
	}
	if _, err := shards.Doc("8").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sum, _, _, err := db.Sum(t.Context(), db.Layout.ShardsOf("a"), "a-b", nil, read); err != nil || sum.GetIntegerValue() != 19 {
		t.Errorf("%v, %v: want 19, as it was then", sum, err)
	}
}

// A sum of many shards takes more of a ceiling's reads: in Enterprise edition it scans all of them.
func TestASumOfManyShardsTakesMoreReads(t *testing.T) {
	t.Parallel()
	conn := emulator.Start(t).Conn(t)
	client, err := firestore.NewClient(t.Context(), "sums", option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), layout.Place{Project: "sums"}, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	bulk := client.BulkWriter(t.Context())
	for counter, n := range map[string]int{"a": 10, "b": 1000} {
		for shard := range n {
			if _, err := bulk.Set(client.Doc("counters/"+counter+"/shards/"+strconv.Itoa(shard)), map[string]any{"count": 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	bulk.End()
	db.Budget = ceiling.New(ceiling.Rates{Reads: 1e-3})
	for counter, want := range map[string]float64{"a": 1, "b": 10, "none": 1} {
		before := db.Budget.Left(ceiling.Reads)
		if _, _, _, err := db.Sum(t.Context(), db.Layout.ShardsOf(counter), "count", nil, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if got := before - db.Budget.Left(ceiling.Reads); got < want-0.5 || got > want {
			t.Errorf("the sum of %s takes %v reads, want %v", counter, got, want)
		}
	}
}

// late is a call whose answers come when nobody waits for them any more.
type late struct{ grpc.ClientStream }

func (l late) RecvMsg(m any) error {
	err := l.ClientStream.RecvMsg(m)
	<-l.Context().Done()
	return err
}

// What is asked again, because no answer came in time, may be billed each time, and takes as much of a ceiling.
func TestWhatIsAskedAgainIsSpent(t *testing.T) {
	for name, read := range map[string]func(ctx context.Context, db *store.DB) error{
		"documents": func(ctx context.Context, db *store.DB) error {
			_, _, err := db.Get(ctx, db.Layout.Counter("a"), db.Layout.Counter("b"), db.Layout.Counter("c"))
			return err
		},
		"a query": func(ctx context.Context, db *store.DB) error {
			_, err := db.Documents(ctx, store.Query{Collection: db.Layout.Counters()})
			return err
		},
		"a sum": func(ctx context.Context, db *store.DB) error {
			_, _, _, err := db.Sum(ctx, db.Layout.Counters(), "n", nil, time.Time{})
			return err
		},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			f, calls := virtual.Start(t), 0
			for _, id := range []string{"a", "b", "c"} {
				if _, err := f.Client().Doc("counters/"+id).Set(t.Context(), map[string]any{"n": 1}); err != nil {
					t.Fatal(err)
				}
			}
			db, err := store.Open(t.Context(), layout.Place{Project: "p"}, option.WithGRPCConn(f.Conn(grpc.WithStreamInterceptor(
				func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, call grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
					stream, err := call(ctx, desc, conn, method, opts...)
					if calls++; calls == 1 && err == nil {
						return late{stream}, nil
					}
					return stream, err
				}))))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			db.Budget = ceiling.New(ceiling.Rates{Reads: 1000})
			billed := f.Stats().Reads
			if err := read(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			use, _ := db.Budget.Tell(0)
			if billed = f.Stats().Reads - billed; use.Spent[ceiling.Reads] != float64(billed) || calls != 2 {
				t.Errorf("%v reads are spent, of %d that are billed, in %d calls", use.Spent[ceiling.Reads], billed, calls)
			}
		})
	}
}
