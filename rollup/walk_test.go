package rollup_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
)

// A collection whose sum is no integer was asked for like any other: it takes the reads of no
// further walk, so that others get their turn, and stays reported.
func TestASumThatIsNoIntegerTakesNoFurtherReads(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
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
			reads = s.Reads
		}
		for i := range 6 {
			c.holds(fmt.Sprint("posts/p", i), map[string]any{"comments": int64(0)})
		}
	})
}

// A walk that asks for what is right moves its time: the next ones ask for others.
func TestAWalkAsksForWhatIsRightOnce(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		c := newCounting(t, hostedPosts)
		c.set("posts/p", map[string]any{})
		c.set("posts/p/comments/1", map[string]any{})
		asOf := func() time.Time {
			t.Helper()
			if _, err := c.client.ReconcileAll(c.ctx, rollup.ReconcileOptions{RecountAge: time.Nanosecond}); err != nil {
				t.Fatal(err)
			}
			doc, err := c.fs.Doc("posts/p").Get(c.ctx)
			c.must(nil, err)
			at, err := doc.DataAt("counter_rollup.as_of.comments")
			c.must(nil, err)
			return at.(time.Time)
		}
		c.deliver(c.roller(rollup.RollerOptions{}), c.happened()...)
		if first, second := asOf(), asOf(); !second.After(first) {
			t.Errorf("asked again, and as of %v as before", first)
		}
	})
}

// A walk reads names first, and of other deployments' bases nothing else.
func TestAWalkReadsItsOwnBasesOnly(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 30 {
			w.must(w.fs.Doc(fmt.Sprintf("others/o%d/counter_rollup/base", i)).Set(w.ctx, map[string]any{"base": map[string]any{"0": strings.Repeat("x", 500_000)}}))
		}
		var received atomic.Int64
		conn := w.server.Conn(grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := streamer(ctx, desc, cc, method, opts...)
			return metered{stream, &received}, err
		}))
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
	})
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

// A sum with a double in it is a double: it is shown as Firestore has it, and said to be no integer.
func TestASumThatMayBeRounded(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		c := newCounting(t, hostedPosts)
		c.set("posts/p", map[string]any{})
		c.set("posts/p/ratings/1", map[string]any{"stars": float64(1<<53 - 1)})
		if r, err := c.client.Reconcile(c.ctx, "p", rollup.ReconcileOptions{}); err != nil || r.Problem != "" || r.Fields["stars"].After != 1<<53-1 {
			t.Errorf("%+v, %v", r, err)
		}
		c.set("posts/p/ratings/2", map[string]any{"stars": 2})
		if r, err := c.client.Reconcile(c.ctx, "p", rollup.ReconcileOptions{}); err != nil || !strings.Contains(r.Problem, "no whole number") || r.Fields["stars"].After < 1<<53 {
			t.Errorf("%+v, %v: want that the sum is said to be no integer", r, err)
		}
	})
}

// Shards from before FIELDS had a field lack it. A walk that finds the counter right reads none of them.
func TestAWalkOfShardsThatLackAField(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var received atomic.Int64
		conn := w.server.Conn(grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := streamer(ctx, desc, cc, method, opts...)
			return metered{stream, &received}, err
		}))
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
	})
}
