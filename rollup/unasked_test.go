package rollup_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// A counter that is made shows what its documents come to with its first roll-up, where nothing
// happens to them any more: by one query for each collection, also where that can't be answered.
func TestFirstRefreshAsks(t *testing.T) {
	t.Parallel()
	const fields = "likes,comments=count(comments),public=count(comments where public==true),stars=sum(ratings.stars)"
	for name, make := range map[string]func(c *counting, client *shards.Client) error{
		"create": func(c *counting, client *shards.Client) error {
			counter, err := client.Counter("p")
			c.must(nil, err)
			return counter.Create(c.ctx, shards.CreateOptions{})
		},
		"increment": func(c *counting, client *shards.Client) error {
			counter, err := client.Counter("p")
			c.must(nil, err)
			return counter.Add(c.ctx, 3)
		},
		"snippet": func(c *counting, _ *shards.Client) error {
			c.set("posts/p", map[string]any{"num_shards": 1})
			c.set("posts/p/shards/0", map[string]any{"likes": 3})
			return nil
		},
	} {
		for _, refused := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " refused ", refused), func(t *testing.T) {
				t.Parallel()
				inVirtualTime(t, func(w *world) {
					var asked atomic.Int64
					conn := w.server.Conn(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
						stream, err := streamer(ctx, desc, cc, method, opts...)
						if strings.HasSuffix(method, "/RunAggregationQuery") {
							stream = asking{stream, func(collection string) error {
								if collection == "shards" {
									return nil
								}
								if asked.Add(1) > 100 {
									time.Sleep(time.Hour) // asked again and again, at one time
								}
								if refused {
									return status.Error(codes.FailedPrecondition, "an index is missing")
								}
								return nil
							}}
						}
						return stream, err
					}))
					c := w.counting(rollup.Config{Place: rollup.Place{Project: "p", Counters: "posts/{post}", Fields: fields}})
					client, err := rollup.Open(w.ctx, c.cfg, option.WithGRPCConn(conn))
					w.must(nil, err)
					r := c.rollerOf(client, rollup.RollerOptions{})
					writer, err := shards.Open(w.ctx, shards.Config{Place: shards.Place{Project: "p", Counters: "posts/{post}", Fields: fields}, AutoCreate: true}, option.WithGRPCConn(w.connect()))
					w.must(nil, err)
					w.t.Cleanup(func() { _ = writer.Close() })
					var mu sync.Mutex
					var events []rollup.Change
					w.t.Cleanup(w.server.OnChange(func(change emulator.Change) {
						mu.Lock()
						defer mu.Unlock()
						if _, body, err := eventarc.Encode("id", change); err == nil {
							if changes, err := c.client.Decode("application/protobuf", body); err == nil && changes[0].Shard != "" {
								events = append(events, changes...)
							}
						}
					}))
					deliver := func() {
						c.arrived()
						mu.Lock()
						now := events
						events = nil
						mu.Unlock()
						c.deliver(r, now...)
						time.Sleep(10 * time.Second)
					}

					c.set("posts/p/comments/1", map[string]any{"public": true})
					c.set("posts/p/comments/2", map[string]any{})
					c.set("posts/p/ratings/1", map[string]any{"stars": 4}) // whose events are lost
					w.must(nil, make(c, writer))
					deliver()
					for n := range 12 {
						c.set("posts/p/shards/0", map[string]any{"likes": 10 + n})
						deliver()
					}
					want := map[string]any{"comments": int64(2), "public": int64(1), "stars": int64(4)}
					if refused {
						want = map[string]any{"comments": nil, "public": nil, "stars": nil}
					}
					c.holds("posts/p", want)
					n := asked.Load()
					if most := map[bool]int64{false: 6, true: 12}[refused]; n < 3 || n > most { // once a minute, and again what was asked before others wrote
						w.t.Errorf("%d queries, want one for each field", n)
					}
					counter, err := writer.Counter("p") // its next life, at once
					w.must(nil, err)
					w.must(nil, counter.Delete(w.ctx, shards.DeleteOptions{}))
					w.must(nil, make(c, writer))
					deliver()
					c.holds("posts/p", want)
					if n := asked.Load() - n; n > 9 || n < 3 && !refused {
						w.t.Errorf("%d queries in the second life, want one for each field", n)
					}
				})
			})
		}
	}
}

// The answer to the first refresh's commit is lost: what it found to be asked for still is.
func TestFirstRefreshAsksThoughItsAnswerIsLost(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.rollup = w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: "total=count,comments=count(comments)"}})
		w.create()
		w.inc(0, 5)
		states := w.arrived()
		var commits atomic.Int64
		w.server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
			if commits.Add(1) == 1 {
				v.After = status.Error(codes.Unavailable, "the answer is lost")
			}
			return v
		})
		got, err := w.rollup.Apply(w.ctx, w.id, states)
		if w.must(got, err); commits.Load() != 1 || len(got.Unknown) != 1 {
			t.Errorf("%d commits, and %q to be asked for; want one of each", commits.Load(), got.Unknown)
		}
		w.total(5)
	})
}

// A new counter's shards hold nothing: that is right.
func TestReconcileOfANewCounterFindsItRight(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.rollup = w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: "total=count,comments=count(comments)"}})
		w.create()
		if r := w.reconcile(); !r.Right() {
			t.Errorf("reconcile = %+v, want nothing to do", r)
		}
		w.field("comments", int64(0))
	})
}

// asking sees of which collection an aggregation asks, and may refuse that.
type asking struct {
	grpc.ClientStream
	sees func(collection string) error
}

func (a asking) SendMsg(msg any) error {
	if req, ok := msg.(*firestorepb.RunAggregationQueryRequest); ok {
		if err := a.sees(req.GetStructuredAggregationQuery().GetStructuredQuery().GetFrom()[0].GetCollectionId()); err != nil {
			return err
		}
	}
	return a.ClientStream.SendMsg(msg)
}

// An answer that can't be shown is asked for again with the next event, and not for as long as the process lives.
func TestAnAnswerThatCannotBeShownIsAskedForOnce(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		var asked atomic.Int64
		conn := w.querying(func(context.Context) error { asked.Add(1); return nil })
		cfg := rollup.Config{Place: rollup.Place{Project: "p", Counters: "posts/{post}", Fields: "stars=sum(ratings.stars),comments=count(comments)", Hosted: true}}
		client, err := rollup.Open(w.ctx, cfg, option.WithGRPCConn(conn))
		w.must(nil, err)
		c := w.counting(cfg)
		r := c.rollerOf(client, rollup.RollerOptions{})
		c.set("posts/p", map[string]any{})
		c.set("posts/p/ratings/1", map[string]any{"stars": math.Inf(1)})
		c.deliver(r, c.happened()...)
		time.Sleep(time.Hour)
		if n := asked.Load(); n > 5 {
			w.t.Errorf("%d queries for one event", n)
		}
		c.holds("posts/p", map[string]any{"comments": int64(0), "stars": nil})
		c.set("posts/p/ratings/1", map[string]any{"stars": 3})
		c.deliver(r, c.happened()...)
		c.holds("posts/p", map[string]any{"comments": int64(0), "stars": int64(3)})
	})
}
