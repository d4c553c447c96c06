package store_test

import (
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
