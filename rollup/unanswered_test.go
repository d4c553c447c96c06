package rollup_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/rollup"
)

// withoutAverages is a client whose averages of documents get no answer.
func (w *world) withoutAverages(cfg rollup.Config) *rollup.Client {
	w.t.Helper()
	conn := w.server.Conn(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := streamer(ctx, desc, cc, method, opts...)
		if err == nil && strings.HasSuffix(method, "/RunAggregationQuery") {
			stream = noAverage{stream}
		}
		return stream, err
	}))
	client, err := rollup.Open(w.ctx, cfg, option.WithGRPCConn(conn))
	w.must(nil, err)
	return client
}

type noAverage struct{ grpc.ClientStream }

func (s noAverage) SendMsg(msg any) error {
	if req, ok := msg.(*firestorepb.RunAggregationQueryRequest); ok {
		for _, a := range req.GetStructuredAggregationQuery().GetAggregations() {
			if a.GetAvg() != nil {
				return unanswered(s.Context())
			}
		}
	}
	return s.ClientStream.SendMsg(msg)
}

// A query that gets no answer keeps no other field of its counter from being counted: neither beside an event, nor in a
// reconcile, wherever FIELDS has it.
func TestAQueryWithoutAnAnswerKeepsNoOtherField(t *testing.T) {
	t.Parallel()
	for _, fields := range []string{"rating=avg(ratings.stars),n=count(ratings)", "n=count(ratings),rating=avg(ratings.stars)"} {
		for _, how := range []string{"event", "reconcile"} {
			t.Run(fields+" "+how, func(t *testing.T) {
				t.Parallel()
				inVirtualTime(t, func(w *world) {
					cfg := rollup.Config{Place: rollup.Place{Project: "p", Counters: "posts/{post}", Fields: fields, Hosted: true}}
					client := w.withoutAverages(cfg)
					c := w.counting(cfg)
					c.set("posts/p", map[string]any{})
					c.set("posts/p/ratings/1", map[string]any{"stars": 3})
					if events := c.happened(); how == "event" {
						c.deliver(c.rollerOf(client, rollup.RollerOptions{}), events...)
						time.Sleep(time.Second)
					} else if r, err := client.Reconcile(w.ctx, "p", rollup.ReconcileOptions{}); err != nil || !strings.Contains(r.Problem, "rating=") || strings.Contains(r.Problem, "n=") {
						w.t.Errorf("reconcile = %+v, %v, want that the rating alone has no answer", r, err)
					}
					c.holds("posts/p", map[string]any{"n": int64(1), "rating": nil})
				})
			})
		}
	}
}

// Nor does it take the time in which a walk shows what the shards hold.
func TestAQueryWithoutAnAnswerLeavesTimeToShowSums(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		cfg := rollup.Config{Place: rollup.Place{Project: "p", Counters: "posts/{post}", Fields: "likes,rating=avg(ratings.stars)", Hosted: true}}
		client := w.withoutAverages(cfg)
		c := w.counting(cfg)
		w.server.SetInterceptor(func(ctx context.Context, _ *firestorepb.CommitRequest) (v emulator.Verdict) {
			if ctx.Err() != nil { // as Firestore does
				v.Before = status.FromContextError(ctx.Err()).Err()
			}
			return v
		})
		c.set("posts/p", map[string]any{})
		c.set("posts/p/ratings/1", map[string]any{"stars": 3})
		c.set("posts/p/shards/0", map[string]any{"likes": 3})
		_, err := c.client.Apply(w.ctx, "p", []rollup.Change{{Counter: "p", Shard: "0", Fields: []string{"likes"}}})
		w.must(nil, err)
		c.set("posts/p/shards/0", map[string]any{"likes": 4}) // and its event is lost
		ctx, cancel := context.WithTimeout(w.ctx, 9*time.Minute)
		defer cancel()
		if sum, err := client.ReconcileAll(ctx, rollup.ReconcileOptions{Resume: true}); err != nil || sum.Failed > 0 || sum.Repaired != 1 || sum.Problems != 1 {
			w.t.Errorf("reconcile = %+v, %v", sum, err)
		}
		c.holds("posts/p", map[string]any{"likes": int64(4)})
	})
}
