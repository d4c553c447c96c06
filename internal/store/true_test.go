package store_test

import (
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// The embedded server finds documents in which a field is true, in the order of their ids, after one of them that
// may not be there. A sum tells as of when it is, and another one is of that time.
func TestTrue(t *testing.T) {
	t.Parallel()
	whatIsTrue(t, emulator.Start(t).Conn(t))
}

func whatIsTrue(t *testing.T, conn *grpc.ClientConn) {
	client, err := firestore.NewClient(t.Context(), "true", option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), layout.Place{Project: "true"}, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	const room = "room(a-b)"
	shards := client.Collection("counters/a/shards")
	for id, says := range map[string]any{"0": true, "1": false, "10": true, "2": "true", "3": nil, "4": 1, "5": true, "6": true} {
		if _, err := shards.Doc(id).Set(t.Context(), map[string]any{room: says, "a-b": 2}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := shards.Doc("7").Set(t.Context(), map[string]any{"a-b": 3}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		after string
		most  int
		want  []string
	}{
		{"", 0, []string{"0", "10", "5", "6"}}, {"", 3, []string{"0", "10", "5"}}, {"0", 2, []string{"10", "5"}},
		{"1", 5, []string{"10", "5", "6"}}, {"55", 5, []string{"6"}}, {"6", 5, nil},
	} {
		q := store.Query{Collection: db.Layout.ShardsOf("a"), True: layout.FieldPath(room), Limit: tt.most}
		if tt.after != "" {
			q.After = db.Layout.Shard("a", tt.after)
		}
		docs, err := db.Documents(t.Context(), q)
		var ids []string
		for _, doc := range docs {
			ids = append(ids, store.IDOf(doc.GetName()))
		}
		if err != nil || !slices.Equal(ids, tt.want) {
			t.Errorf("after %q, at most %d: %v, %v, want %v", tt.after, tt.most, ids, err, tt.want)
		}
	}
	sum, n, read, err := db.SumNumbers(t.Context(), db.Layout.ShardsOf("a"), "a-b", time.Time{})
	if err != nil || sum.GetIntegerValue() != 19 || n != 9 {
		t.Fatalf("%v of %d documents, %v; want 19 of 9", sum, n, err)
	}
	if _, err := shards.Doc("7").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sum, err := db.Sum(t.Context(), db.Layout.ShardsOf("a"), "a-b", read); err != nil || sum.GetIntegerValue() != 19 {
		t.Errorf("%v, %v: want 19, as it was then", sum, err)
	}
}
