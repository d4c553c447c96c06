package rollup_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/rollup"
)

// Which counters a walk looks at before others.
func TestUsedSince(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		what           string
		changed, since time.Time
		want           bool
	}{
		{"changed a day after it was made", made.Add(24 * time.Hour), made.Add(23 * time.Hour), true},
		{"and looked at since then", made.Add(24 * time.Hour), made.Add(24 * time.Hour), false},
		{"made", made, made.Add(-time.Hour), false},
		{"rolled up once", made.Add(time.Second), made.Add(-time.Hour), false},
		{"changed again", made.Add(2 * time.Minute), made.Add(-time.Hour), true},
	} {
		if got := rollup.UsedSince(store.Listed{ID: "c", Made: made, Changed: c.changed}, c.since); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
	if rollup.UsedSince(store.Listed{ID: "c"}, time.Time{}) {
		t.Error("a counter without a document has changed")
	}
}

// slow is a connection on which each call takes so long.
func (w *world) slow(latency time.Duration) *grpc.ClientConn {
	return w.server.Conn(
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			time.Sleep(latency)
			return invoke(ctx, method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			time.Sleep(latency)
			return stream(ctx, desc, cc, method, opts...)
		}))
}

// idle makes so many counters that nobody uses again, of a collection.
func (w *world) idle(collection string, n int) {
	w.t.Helper()
	bulk := w.fs.BulkWriter(w.ctx)
	for i := range n {
		_, err := bulk.Set(w.fs.Doc(fmt.Sprintf("%s/idle-%06d", collection, i)), map[string]any{"num_shards": 1, "total": 0})
		w.must(nil, err)
	}
	bulk.End()
}

// A user may make 86,400 counters a day.
var idleCounters = flag.Int("walk.idle", 3000, "counters that nobody uses again, which keep no others waiting")

// The same where counters are found by their bases.
func TestAWalkLooksFirstAtPostsThatChanged(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		c := w.counting(hostedPosts)
		r := c.roller(rollup.RollerOptions{})
		for i := range 200 {
			c.set(fmt.Sprintf("posts/p%03d", i), map[string]any{"title": "post"})
			c.set(fmt.Sprintf("posts/p%03d/comments/1", i), map[string]any{})
		}
		c.deliver(r, c.happened()...)
		time.Sleep(48 * time.Hour)
		c.set("posts/p199", map[string]any{"title": "changed", "comments": 7}) // without our map, as it was before
		c.happened()
		client, err := rollup.Open(w.ctx, hostedPosts, option.WithGRPCConn(w.slow(20*time.Millisecond)))
		w.must(client, err)
		client.Looks(false)
		ctx, cancel := context.WithTimeout(w.ctx, 3*time.Second)
		defer cancel()
		sum, err := client.ReconcileAll(ctx, rollup.ReconcileOptions{Resume: true})
		if w.must(sum, err); sum.Done {
			w.t.Fatalf("%+v; want a walk that doesn't come to its end", sum)
		}
		c.holds("posts/p199", map[string]any{"comments": int64(1)})
	})
}
