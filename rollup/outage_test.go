package rollup_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/rollup"
)

// A query fails when hardly any time is left, because the one before it was slow. That says nothing
// about how long it takes: its event is acknowledged once there is an answer.
func TestAQueryFailsAtTheEndOfItsTime(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		var asked atomic.Int64
		conn := w.server.Conn(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			if strings.HasSuffix(method, "/RunAggregationQuery") {
				switch asked.Add(1) {
				case 1: // given up after 10 s
					time.Sleep(10 * time.Second)
					return nil, status.FromContextError(context.DeadlineExceeded).Err()
				case 2:
					time.Sleep(39500 * time.Millisecond)
				case 3:
					return nil, status.Error(codes.Unavailable, "busy")
				}
			}
			return streamer(ctx, desc, cc, method, opts...)
		}))
		cfg := rollup.Config{Place: rollup.Place{Project: "p", Counters: "posts/{post}", Fields: "comments=count(comments),public=count(comments where public==true)", Hosted: true}}
		client, err := rollup.Open(w.ctx, cfg, option.WithGRPCConn(conn))
		w.must(nil, err)
		c := w.counting(cfg)
		c.set("posts/p", map[string]any{})
		c.set("posts/p/comments/1", map[string]any{"public": true})
		r := c.rollerOf(client, rollup.RollerOptions{})
		asked.Store(100)
		c.deliver(r, c.happened()...)
		c.set("posts/p/comments/2", map[string]any{"public": true})
		asked.Store(0)
		c.deliver(r, c.happened()...)
		c.holds("posts/p", map[string]any{"comments": int64(2), "public": int64(2)})
	})
}
