package shards_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// asking opens a client, and does something before each of its queries of one kind.
func (w *world) asking(t *testing.T, cfg shards.Config, method string, do func()) *shards.Client {
	t.Helper()
	conn := w.Conn(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, called string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if strings.HasSuffix(called, "/"+method) {
			do()
		}
		return streamer(ctx, desc, cc, called, opts...)
	}))
	cfg.Project = "p"
	client, err := shards.Open(t.Context(), cfg, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// calling opens a client whose unary calls of one kind go through do, with their number.
func (w *world) calling(t *testing.T, cfg shards.Config, method string, do func(n int, call func() error) error) *shards.Client {
	t.Helper()
	n := 0
	conn := w.Conn(grpc.WithUnaryInterceptor(func(ctx context.Context, called string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		call := func() error { return invoke(ctx, called, req, reply, cc, opts...) }
		if !strings.HasSuffix(called, "/"+method) {
			return call()
		}
		n++
		return do(n, call)
	}))
	cfg.Project = "p"
	client, err := shards.Open(t.Context(), cfg, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// sending opens a client, and does something before each of its calls of one kind.
func (w *world) sending(t *testing.T, cfg shards.Config, method string, do func(n int)) *shards.Client {
	t.Helper()
	return w.calling(t, cfg, method, func(n int, call func() error) error {
		do(n)
		return call()
	})
}

// sent opens a client, and does something after each of its calls of one kind that succeeded: an
// error takes the answer's place.
func (w *world) sent(t *testing.T, cfg shards.Config, method string, do func(n int) error) *shards.Client {
	t.Helper()
	return w.calling(t, cfg, method, func(n int, call func() error) error {
		if err := call(); err != nil {
			return err
		}
		return do(n)
	})
}

// inc adds to a shard as a public client does.
func (w *world) inc(t *testing.T, shard string, by int64) {
	t.Helper()
	ref := w.fs.Collection("counters").Doc("a").Collection("shards").Doc(shard)
	if _, err := ref.Update(t.Context(), []firestore.Update{{Path: "count", Value: firestore.Increment(by)}}); err != nil {
		t.Error(err)
	}
}

// A reset whose answer is lost is not done again: what is counted after it stays.
func TestResetLosesItsAnswer(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
		w.inc(t, "0", 5)
		w.AfterLost(func() { w.inc(t, "1", 3) })
		if err := c.Reset(t.Context(), shards.ResetOptions{}); err != nil {
			t.Fatal(err)
		}
		w.wantSum(t, "a", 3)
	})
}

// A command that comes between what another process's has read and its commit: the other one looks again.
func TestCommandBesideACommand(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c, other := w.counter(t, w.open(t, shards.Config{}), "a", 2), w.open(t, shards.Config{})
		rebase := func(total int64) {
			if err := handle(t, other, "a").Rebase(t.Context(), total); err != nil {
				t.Error(err)
			}
		}
		w.Before(func() { rebase(100) })
		if err := c.Reset(t.Context(), shards.ResetOptions{}); err != nil {
			t.Fatal(err)
		}
		w.wantSum(t, "a", 0)
		if got := w.total(t, "a"); got != 0 {
			t.Errorf("total %d, want 0", got)
		}
	})
}

// Increments that come between a move's read and its commit are moved too, or go to a shard that
// stays.
func TestIncrementsBesideAMove(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
		late := handle(t, w.open(t, shards.Config{}), "a")
		w.inc(t, "1", 5)
		var group sync.WaitGroup
		want := int64(37)
		add := func() {
			for range 16 {
				group.Go(func() {
					if err := late.Add(t.Context(), 1); err != nil {
						t.Error(err)
					}
				})
			}
		}
		add()
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			removes := func(w *firestorepb.Write) bool { return strings.HasSuffix(w.GetDelete(), "/shards/1") }
			if slices.ContainsFunc(req.GetWrites(), removes) {
				w.Server.SetInterceptor(nil)
				add()
				// A client that only knows shards has to wait, or else is counted.
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				if _, err := w.fs.Doc("counters/a/shards/1").Update(ctx, []firestore.Update{{Path: "count", Value: firestore.Increment(3)}}); err == nil {
					want += 3
				}
			}
			return emulator.Verdict{}
		})
		if err := c.Resize(t.Context(), 1, shards.ResizeOptions{}); err != nil {
			t.Fatal(err)
		}
		group.Wait()
		if counts := w.counts(t, "a"); len(counts) != 1 || counts["0"] != want {
			t.Errorf("shards %v, want %d in shard 0", counts, want)
		}
	})
}

// Contention on a shard sends the increment to another one.
func TestContentionPicksAnotherShard(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
		var mu sync.Mutex
		var met []string
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			mu.Lock()
			defer mu.Unlock()
			met = append(met, req.GetWrites()[len(req.GetWrites())-1].GetUpdate().GetName())
			if len(met) < 7 {
				return emulator.Verdict{Before: aborted}
			}
			return emulator.Verdict{}
		})
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(slices.Compact(slices.Clone(met))) != 7 {
			t.Errorf("the commits went to %v, want never twice in a row to the same shard", met)
		}
	})
}

// A command whose commit's answer was lost looks again, and finds another counter under the id:
// that one is left alone.
func TestACommandFindsASuccessor(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(ctx context.Context, c shards.Counter) error{
		"rebase": func(ctx context.Context, c shards.Counter) error { return c.Rebase(ctx, 500) },
		"reset":  func(ctx context.Context, c shards.Counter) error { return c.Reset(ctx, shards.ResetOptions{}) },
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			c := w.counter(t, client, "a", 1)
			w.AfterLost(func() {
				other := handle(t, client, "a")
				if err := errors.Join(other.Delete(t.Context(), shards.DeleteOptions{}), other.Create(t.Context(), shards.CreateOptions{Shards: 1, Total: 7})); err != nil {
					t.Error(err)
				}
			})
			if err := do(t.Context(), c); err != nil {
				t.Errorf("%v, want none: it was applied", err)
			}
			w.wantSum(t, "a", 7)
		})
	}
}

// The answer of a command is lost, and then its counter is deleted: the command knows by its marker that it was
// applied.
func TestACommandWhoseCounterIsDeleted(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]bool{"gone": true, "being deleted": false} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			c := w.counter(t, client, "a", 1)
			w.AfterLost(func() {
				var err error
				if !gone {
					w.cutAfter(1)
					if cut := handle(t, client, "a").Delete(t.Context(), shards.DeleteOptions{}); status.Code(cut) != codes.PermissionDenied {
						err = cut
					}
					w.Server.SetInterceptor(nil)
				} else {
					err = handle(t, client, "a").Delete(t.Context(), shards.DeleteOptions{})
				}
				if err != nil {
					t.Error(err)
				}
			})
			if err := c.Rebase(t.Context(), 500); err != nil {
				t.Errorf("%v, want none", err)
			}
		})
	}
}

// Who still thinks that a counter has many shards brings none back that a resize has removed.
func TestResizeThatOthersMissed(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		late := w.open(t, shards.Config{})
		c := w.counter(t, late, "a", 50)
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := handle(t, w.open(t, shards.Config{}), "a").Resize(t.Context(), 1, shards.ResizeOptions{}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := c.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		if counts := w.counts(t, "a"); len(counts) != 1 || counts["0"] != 4 {
			t.Errorf("shards %v, want 4 in shard 0", counts)
		}
	})
}
