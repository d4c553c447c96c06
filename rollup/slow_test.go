package rollup_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/firestore-counters/counters/rollup"
)

// slowAnswer is a stream on which what was asked of a collection is answered after a while.
type slowAnswer struct {
	grpc.ClientStream
	collection string
	asked      *atomic.Int64
	slow       *atomic.Bool
}

func (s slowAnswer) SendMsg(m any) error {
	if req, ok := m.(*firestorepb.RunAggregationQueryRequest); ok && req.GetStructuredAggregationQuery().GetStructuredQuery().GetFrom()[0].GetCollectionId() == s.collection {
		s.asked.Add(1)
		s.slow.Store(true)
	}
	return s.ClientStream.SendMsg(m)
}

func (s slowAnswer) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if s.slow.Swap(false) {
		time.Sleep(3 * time.Second)
	}
	return err
}

// slowly is a connection on which what is asked of a collection is answered slowly, and how often it was asked.
func (w *world) slowly(collection string) (*grpc.ClientConn, *atomic.Int64) {
	w.t.Helper()
	asked := &atomic.Int64{}
	conn := w.server.Conn(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := streamer(ctx, desc, cc, method, opts...)
		if strings.HasSuffix(method, "/RunAggregationQuery") {
			stream = slowAnswer{stream, collection, asked, &atomic.Bool{}}
		}
		return stream, err
	}))
	return conn, asked
}

// A count takes longer than the document stays as it is, because the counter is hot, or the app writes its document:
// the first answer is shown all the same, and few are asked for.
func TestASlowCountBesideACrowd(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"likes", "title"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(w *world) {
				conn, asked := w.slowly("comments")
				c := w.counting(rollup.Config{Place: rollup.Place{Project: "p", Counters: "posts/{post}", Fields: "likes,comments=count(comments)", Hosted: true}})
				client, err := rollup.Open(w.ctx, c.cfg, option.WithGRPCConn(conn))
				w.must(nil, err)
				r := c.rollerOf(client, rollup.RollerOptions{})
				c.set("posts/p", map[string]any{"title": "x"})
				c.set("posts/p/shards/0", map[string]any{"likes": 0})
				c.set("posts/p/comments/1", map[string]any{})
				changes := c.happened()
				var all sync.WaitGroup
				all.Go(func() {
					for n := range 40 {
						if what == "title" {
							_, err := c.fs.Doc("posts/p").Update(w.ctx, []firestore.Update{{Path: "title", Value: fmt.Sprint(n)}})
							w.must(nil, err)
						} else {
							res, err := c.fs.Doc("posts/p/shards/0").Set(w.ctx, map[string]any{"likes": n})
							w.must(nil, err)
							all.Go(func() {
								_ = r.Add(w.ctx, rollup.Change{Counter: "p", Fields: []string{"likes"}, At: res.UpdateTime, Shard: "0"})
							})
						}
						time.Sleep(500 * time.Millisecond)
					}
				})
				start := time.Now()
				c.deliver(r, changes...)
				if took := time.Since(start); took > 10*time.Second {
					w.t.Errorf("the first count was shown after %v", took)
				}
				if n := asked.Load(); n > 3 {
					w.t.Errorf("%d queries", n)
				}
				c.holds("posts/p", map[string]any{"comments": int64(1)})
				all.Wait()
			})
		})
	}
}

// A reconcile asks slow queries while the counter is hot: it doesn't ask again because of each refresh in between.
func TestAReconcileWithASlowCountBesideACrowd(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]bool{"the first count": true, "a later one": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(w *world) {
				conn, asked := w.slowly("comments")
				c := w.counting(rollup.Config{Place: rollup.Place{Project: "p", Counters: "posts/{post}", Fields: "likes,comments=count(comments)", Hosted: true}})
				client, err := rollup.Open(w.ctx, c.cfg, option.WithGRPCConn(conn))
				w.must(nil, err)
				c.set("posts/p", map[string]any{"title": "x"})
				c.set("posts/p/shards/0", map[string]any{"likes": 0})
				c.set("posts/p/comments/1", map[string]any{})
				if !first {
					c.settle(rollup.RollerOptions{}, c.happened()...)
				}
				c.set("posts/p/comments/2", map[string]any{}) // whose event is lost
				c.happened()
				r := c.rollerOf(c.client, rollup.RollerOptions{RecountMax: time.Hour})
				stop, stopped := context.WithCancel(w.ctx)
				var all sync.WaitGroup
				all.Go(func() {
					for n := 1; stop.Err() == nil && n < 200; n++ {
						res, err := c.fs.Doc("posts/p/shards/0").Set(w.ctx, map[string]any{"likes": n})
						w.must(nil, err)
						all.Go(func() {
							_ = r.Add(w.ctx, rollup.Change{Counter: "p", Fields: []string{"likes"}, At: res.UpdateTime, Shard: "0"})
						})
						time.Sleep(500 * time.Millisecond)
					}
				})
				time.Sleep(5 * time.Second)
				if _, err := client.Reconcile(w.ctx, "p", rollup.ReconcileOptions{}); err != nil {
					w.t.Error(err)
				}
				if n := asked.Load(); n > 2 {
					w.t.Errorf("%d queries", n)
				}
				c.holds("posts/p", map[string]any{"comments": int64(2)})
				stopped()
				all.Wait()
			})
		})
	}
}
