package rollup_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/rollup"
)

// A collection whose sum is no integer was asked for like any other: it takes the reads of no
// further walk, so that others get their turn, and stays reported.
func TestASumThatIsNoIntegerTakesNoFurtherReads(t *testing.T) {
	t.Parallel()
	c := newCounting(t, hostedPosts)
	r := c.roller(rollup.RollerOptions{})
	for i := range 6 {
		c.set(fmt.Sprint("posts/p", i), map[string]any{})
		c.set(fmt.Sprintf("posts/p%d/ratings/1", i), map[string]any{"stars": map[bool]any{true: 0.5, false: 4}[i < 3]})
	}
	c.deliver(r, c.happened()...)
	walk := func() rollup.Summary {
		t.Helper()
		s, err := c.client.ReconcileAll(c.ctx, rollup.ReconcileOptions{RecountReads: 4, Parallel: 1})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	reads := int64(0)
	for n := 0; n == 0 || reads > 0; n++ {
		if n == 10 {
			t.Fatal("the reads never end")
		}
		s := walk()
		if reads = s.Reads; s.Problems != 3 {
			t.Errorf("%+v, want that three have a problem", s)
		}
	}
	for i := range 6 {
		c.holds(fmt.Sprint("posts/p", i), map[string]any{"comments": int64(0)})
	}
}

// A walk reads names first, and of other deployments' ledgers nothing else: each may
// have a megabyte.
func TestAWalkReadsItsOwnLedgersOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 30 {
		w.must(w.fs.Doc(fmt.Sprintf("others/o%d/counter_rollup/ledger", i)).Set(w.ctx, map[string]any{"states": map[string]any{"0": strings.Repeat("x", 500_000)}}))
	}
	var received atomic.Int64
	conn, err := w.server.Connect(grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := streamer(ctx, desc, cc, method, opts...)
		return metered{stream, &received}, err
	}))
	w.must(nil, err)
	t.Cleanup(func() { _ = conn.Close() })
	cfg := likesAndViews
	client, err := rollup.Open(w.ctx, cfg, option.WithGRPCConn(conn))
	w.must(nil, err)
	client.Looks(false)
	w.hosted()
	w.post(map[string]any{"title": "Mine", "body": strings.Repeat("x", 900_000)})
	for i := range 500 {
		w.like(i, 1, 1)
	}
	w.apply(w.arrived()...)
	sum, err := client.ReconcileAll(w.ctx, rollup.ReconcileOptions{})
	if err != nil || sum.Seen != 1 || sum.Repaired != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
	if n := received.Load(); n > 20_000 {
		t.Errorf("%d bytes were read for one counter that is right", n)
	}
}

// metered counts the bytes of what a stream receives.
type metered struct {
	grpc.ClientStream
	bytes *atomic.Int64
}

func (m metered) RecvMsg(msg any) error {
	err := m.ClientStream.RecvMsg(msg)
	if message, ok := msg.(proto.Message); ok && err == nil {
		m.bytes.Add(int64(proto.Size(message)))
	}
	return err
}

// Sums that agree don't say that a ledger is what the shards hold, where something was taken off one
// of them. Where it is known that it was, a walk looks at each shard, and now and then everywhere; a
// reconcile by name always does.
func TestAWalkLooksBehindSumsThatAgree(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                 string
		known, looks, byName bool
	}{
		{"known", true, false, false},
		{"now and then", false, true, false},
		{"by name", false, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.rollup.Looks(tt.looks)
			w.snippet(3)
			for n := range 3 {
				w.inc(n, 10)
			}
			w.apply(w.arrived()...)
			w.inc(0, -7)
			w.inc(1, 7)
			w.arrived() // and lost
			if tt.known {
				w.inc(2, -1)
				w.apply(w.arrived()...)
				w.inc(2, 1)
				w.apply(w.arrived()...)
			}
			for range 2 {
				if tt.byName {
					w.reconcile()
				} else {
					w.walk()
				}
				if due := w.inLedger("uneven_at"); due != nil {
					t.Errorf("after a look at each shard the ledger says that one is due: %v", due)
				}
			}
			w.inc(0, 1)
			w.apply(w.arrived()...)
			w.total(31)
		})
	}
}

// Of what is taken off a shard while a reconcile has read the shards already, it has seen nothing:
// the next one looks again.
func TestALookFromBeforeAMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(2)
	w.inc(0, 10)
	w.inc(1, 10)
	w.apply(w.arrived()...)
	w.inc(0, 5)
	w.arrived() // and lost: there is something to correct
	for range 2 {
		w.inc(1, -1)
		w.apply(w.arrived()...) // there is a mark before, too
	}
	w.before(func() {
		w.inc(1, -3)
		w.apply(w.arrived()...)
		w.inc(0, 3)
		w.inc(1, -3)
		w.arrived() // and lost
	})
	w.reconcile()
	if w.inLedger("uneven_at") == nil {
		t.Error("the ledger says that each shard was looked at since")
	}
	w.walk()
	w.inc(0, 1)
	w.apply(w.arrived()...)
	w.total(10 + 5 + 3 + 1 + 10 - 2 - 3 - 3)
}

// A sum with a double in it is a double, and one of 2⁵³ may stand for 2⁵³ + 1.
func TestASumThatMayBeRounded(t *testing.T) {
	t.Parallel()
	c := newCounting(t, hostedPosts)
	c.set("posts/p", map[string]any{})
	c.set("posts/p/ratings/1", map[string]any{"stars": float64(1<<53 - 1)})
	if r, err := c.client.Reconcile(c.ctx, "p", rollup.ReconcileOptions{}); err != nil || r.Problem != "" || r.Fields["stars"].After != 1<<53-1 {
		t.Errorf("%+v, %v", r, err)
	}
	c.set("posts/p/ratings/2", map[string]any{"stars": 2})
	if r, err := c.client.Reconcile(c.ctx, "p", rollup.ReconcileOptions{}); err != nil || !strings.Contains(r.Problem, "too large") || r.Fields["stars"].After != 1<<53-1 {
		t.Errorf("%+v, %v: want that the sum is said to be too large", r, err)
	}
}

// Shards from before FIELDS had a field lack it. A walk that finds the counter right reads none of them.
func TestAWalkOfShardsThatLackAField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var received atomic.Int64
	conn, err := w.server.Connect(grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := streamer(ctx, desc, cc, method, opts...)
		return metered{stream, &received}, err
	}))
	w.must(nil, err)
	t.Cleanup(func() { _ = conn.Close() })
	client, err := rollup.Open(w.ctx, likesAndViews, option.WithGRPCConn(conn))
	w.must(nil, err)
	client.Looks(false)
	w.hosted()
	w.post(map[string]any{"title": "Mine"})
	for i := range 500 {
		w.must(w.shard(i).Set(w.ctx, map[string]any{"likes": 1}))
	}
	w.apply(w.arrived()...)
	w.reconcile()
	for range 2 {
		received.Store(0)
		sum, err := client.ReconcileAll(w.ctx, rollup.ReconcileOptions{})
		if err != nil || sum.Seen != 1 || sum.Repaired != 0 {
			t.Errorf("%+v, %v", sum, err)
		}
		if n := received.Load(); n > 20_000 {
			t.Errorf("%d bytes were read for one counter that is right", n)
		}
	}
}
