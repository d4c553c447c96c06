package extension

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
)

// What an answer is too early for stays in the shards, and in no base.
func TestEarlyAnswerTakesNothing(t *testing.T) {
	server := emulator.New(emulator.Options{})
	defer server.Close()
	conn, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	db, err := store.Open(context.Background(), layout.Place{Project: "p", Counters: "pages/{page}", Fields: "visits", Hosted: true, Extension: true}, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	visits := func(n int64) map[string]*firestorepb.Value {
		return map[string]*firestorepb.Value{"visits": store.Int(n)}
	}
	if _, err := db.Commit(t.Context(), store.Update(db.Layout.Counter("hello"), nil, visits(1000), nil)); err != nil {
		t.Fatal(err)
	}
	b, err := book.In(db).Read(t.Context(), "hello")
	if err != nil {
		t.Fatal(err)
	}
	shard := &firestorepb.Document{Name: db.Layout.ExtensionShard("hello", "web"), Fields: visits(3), UpdateTime: timestamppb.Now()}
	for early, taken := range map[time.Duration]int{0: 1, time.Second: 0} {
		m := take(db.Layout, b, book.Shards{shard}, nil)
		s := m.Show(map[string]book.Answer{"visits": {Value: store.Int(0), At: b.At.Add(-early)}}, time.Time{})
		if base := s.After.Base.Counts["visits"]; len(s.Beside) != taken || base != int64(1000+3*taken) {
			t.Errorf("an answer of %v before: something is taken off %d shards, and the base holds %d; want %d", early, len(s.Beside), base, taken)
		}
	}
}

// While somebody looks whether the extension still runs, others go by the last look: of many pages that are clicked at
// the same moment one takes a read.
func TestOneLooksForTheExtension(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		server := virtual.Start(t)
		db, err := store.Open(t.Context(), layout.Place{Project: "p", Counters: "pages/{page}", Fields: "visits", Hosted: true, Extension: true}, option.WithGRPCConn(server.Conn(grpc.WithChainStreamInterceptor(
			func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				time.Sleep(time.Second)
				return stream(ctx, desc, conn, method, opts...)
			}))))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var l Lookout
		if err := l.Check(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		for minute := range 5 {
			time.Sleep(lookEvery)
			before := server.Stats().Reads
			var all sync.WaitGroup
			for range 64 {
				all.Go(func() {
					if err := l.Check(t.Context(), db); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if reads := server.Stats().Reads - before; reads != 1 {
				t.Errorf("minute %d: %d reads", minute, reads)
			}
		}
	})
}

// Clients may write a megabyte into each shard: what is read leaves its numbers, and no more in memory. One that has
// grown so large isn't idle, and a partial sum with that many updates stays, and is named.
func TestLargeShardsAreTakenOver(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		server := virtual.Start(t)
		db, err := store.Open(t.Context(), layout.Place{Project: "p", Counters: "pages/{page}", Fields: "visits", Hosted: true, Extension: true}, option.WithGRPCConn(server.Conn()))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		large := strings.Repeat("x", 900<<10)
		for _, id := range []string{"named", "found", "idle"} {
			server.Put("pages/hello/_counter_shards_/"+id, map[string]any{"visits": map[string]int{"idle": 0, "named": 3, "found": 4}[id], "other": large})
		}
		server.Put("pages/hello/_counter_shards_/text", map[string]any{"visits": large})
		server.Put("pages/hello/_counter_shards_/\t0000", map[string]any{updatesID: []any{map[string]any{updateData: map[string]any{"visits": 5}, updateID: large}}})
		server.Put("pages/hello", map[string]any{"visits": 1000})
		b, err := book.In(db).Read(t.Context(), "hello")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(idleFor + time.Hour)
		m, err := Take(t.Context(), db, b, []string{"named", "text"}, true)
		if err != nil || m.Amounts["visits"] != 7 || len(m.Writes) != 2 || len(m.Idle) > 0 || len(m.Problems) != 1 || !strings.Contains(m.Problems[0], "updates") {
			t.Errorf("%v, taken from %d, %d idle, problems %q, %v; want 7 from 2, and the partial sum named", m.Amounts, len(m.Writes), len(m.Idle), m.Problems, err)
		}
		size := 0
		for _, shard := range m.shards {
			size += proto.Size(shard)
		}
		if size > 10<<10 {
			t.Errorf("%d bytes are kept of %d shards", size, len(m.shards))
		}
	})
}
