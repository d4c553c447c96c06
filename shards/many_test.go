package shards_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// A call of as many counters as it may name has to end within its time, by a process that knows none of their shards,
// and with a Firestore that takes a while for each question. Time is virtual here.

// apart has two clients of a Firestore in a bubble of their own: one whose every call takes a while, and one beside it.
func apart(t *testing.T, cfg shards.Config, takes time.Duration, test func(t *testing.T, far, near *shards.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := emulator.New(emulator.Options{})
		t.Cleanup(server.Close)
		open := func(cfg shards.Config, opts ...grpc.DialOption) *shards.Client {
			conn, err := server.Connect(opts...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			cfg.Project = "p"
			client, err := shards.Open(t.Context(), cfg, option.WithGRPCConn(conn))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { client.Close() })
			return client
		}
		test(t, open(cfg, slowly(takes)...), open(shards.Config{Place: cfg.Place}))
	})
}

// slowly has each call take a while before it is sent.
func slowly(takes time.Duration) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			time.Sleep(takes)
			return invoke(ctx, method, req, reply, conn, opts...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			time.Sleep(takes)
			return open(ctx, desc, conn, method, opts...)
		}),
	}
}

// manyFields are as many fields as a counter may have.
func manyFields() string {
	fields := make([]string, 20)
	for i := range fields {
		fields[i] = fmt.Sprint("f", i)
	}
	return strings.Join(fields, ",")
}

// products are increments of so many counters, which have a limit each: the first one of none, the others of 1.
func products(t *testing.T, client *shards.Client, n int) []shards.Increment {
	t.Helper()
	increments := make([]shards.Increment, n)
	for i := range increments {
		increments[i] = shards.Increment{Counter: fmt.Sprint("product-", i), By: 1}
		c := handle(t, client, increments[i].Counter)
		if err := c.Create(t.Context(), shards.CreateOptions{Shards: 1}); err != nil {
			t.Fatal(err)
		}
		limit(t, c, min(1, int64(i)))
	}
	return increments
}

// A call counts in twenty fields with limits at most. An order of as many is refused if one of them is sold out, and
// can be given back.
func TestManyLimitedCountersInOneCall(t *testing.T) {
	t.Parallel()
	apart(t, withLimit, 15*time.Millisecond, func(t *testing.T, far, near *shards.Client) {
		order := products(t, near, 22)
		add := func(order []shards.Increment) error {
			_, err := far.AddAll(t.Context(), order, shards.Key{})
			return err
		}
		if err := add(order[1:]); !errors.Is(err, shards.ErrInvalidIncrement) {
			t.Errorf("of 21: %v", err)
		}
		if err := add(order[:20]); !errors.Is(err, shards.ErrLimit) {
			t.Errorf("%v, want ErrLimit", err)
		}
		order = order[1:21]
		if err := add(order); err != nil {
			t.Fatal(err)
		}
		for i := range order {
			order[i].By = -1
		}
		if err := add(order); err != nil {
			t.Error(err)
		}
	})
}

// One of many counters of a call has a limit, and the others are made for it.
func TestManyMissingCountersBesideALimit(t *testing.T) {
	t.Parallel()
	apart(t, shards.Config{Place: shards.Place{Fields: "total=limit(),likes"}, AutoCreate: true, NumShards: 1}, 15*time.Millisecond, func(t *testing.T, far, near *shards.Client) {
		call := products(t, near, 2)[1:]
		for i := range shards.MaxIncrements - 100 {
			call = append(call, shards.Increment{Counter: fmt.Sprint("free-", i), Field: "likes", By: 1})
		}
		if _, err := far.AddAll(t.Context(), call, shards.Key{}); err != nil {
			t.Error(err)
		}
	})
}

// A call makes as many counters as it may name, of as many fields as there may be.
func TestManyCountersOfManyFields(t *testing.T) {
	t.Parallel()
	apart(t, shards.Config{Place: shards.Place{Fields: manyFields()}, AutoCreate: true, NumShards: 1}, 30*time.Millisecond, func(t *testing.T, far, _ *shards.Client) {
		var call []shards.Increment
		for i := range shards.MaxIncrements {
			call = append(call, shards.Increment{Counter: fmt.Sprint(i), By: 1})
		}
		if _, err := far.AddAll(t.Context(), call, shards.Key{}); err != nil {
			t.Error(err)
		}
	})
}

// A call that counts in many counters for the first time, whose documents are the app's or beside one with a limit, makes
// their shards in commits that Firestore takes.
func TestManyShardsInOneCall(t *testing.T) {
	t.Parallel()
	const n, of = 100, 100
	for name, cfg := range map[string]shards.Config{
		"app's":          {Place: shards.Place{Hosted: true, Fields: "total"}},
		"beside a limit": {Place: shards.Place{Fields: "total,seats=limit(5)"}, AutoCreate: true},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			cfg.NumShards = of
			client := w.open(t, cfg)
			var call []shards.Increment
			for i := range n {
				id := fmt.Sprint(strings.Repeat("x", 1000), i)
				if cfg.Hosted {
					w.Put("counters/"+id, map[string]any{"title": "x"})
				}
				call = append(call, shards.Increment{Counter: id, Field: "total", By: 1})
			}
			last := call[n-1].Counter
			if cfg.AutoCreate {
				call = append(call, shards.Increment{Counter: last, Field: "seats", By: 1})
			}
			if _, err := client.AddAll(t.Context(), call, shards.Key{}); err != nil {
				t.Fatalf("%.300v", err)
			}
			if err := client.Close(); err != nil { // which waits for what is made after the answer
				t.Fatal(err)
			}
			if got := len(w.counts(t, call[0].Counter)); got != of {
				t.Errorf("%d shards, want %d", got, of)
			}
			if s, err := handle(t, w.open(t, cfg), last).Sum(t.Context()); err != nil || max(s.Total, s.Totals["total"]) != 1 {
				t.Errorf("%+v, %v; want 1", s, err)
			}
		})
	}
}

// However many counters are looked for at once, a read is of a bounded number of documents, and of few where these are
// the app's own, which may be large.
func TestALookReadsABoundedNumberOfDocuments(t *testing.T) {
	t.Parallel()
	for most, cfg := range map[int]shards.Config{
		500: {Place: shards.Place{Project: "p"}},
		20:  {Place: shards.Place{Project: "p", Counters: "posts/{post}", Hosted: true}},
	} {
		virtual.Run(t, fmt.Sprint(most), func(t *testing.T) {
			read := 0
			conn := virtual.Start(t).Conn(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				stream, err := streamer(ctx, desc, cc, method, opts...)
				return names{stream, &read}, err
			}))
			client, err := shards.Open(t.Context(), cfg, option.WithGRPCConn(conn))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			var ids []string
			for n := range 1200 {
				ids = append(ids, fmt.Sprint("c", n))
			}
			if missing, err := client.Missing(t.Context(), ids...); len(missing) != len(ids) || err != nil || read != most {
				t.Errorf("%d are missing, %v, and a read was of %d documents; want 1200, and %d", len(missing), err, read, most)
			}
		})
	}
}

// names is a stream that notes of how many documents a read is.
type names struct {
	grpc.ClientStream
	most *int
}

func (s names) SendMsg(m any) error {
	if read, is := m.(*firestorepb.BatchGetDocumentsRequest); is {
		*s.most = max(*s.most, len(read.GetDocuments()))
	}
	return s.ClientStream.SendMsg(m)
}
