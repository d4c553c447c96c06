package shards_test

import (
	"context"
	"errors"
	"flag"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// crowded is a counter whose members come and go, by several instances at once, while its owner
// resizes, resets, deletes and makes it, and a reconcile goes by. Commits fail, lose their answers,
// and arrive late.
type crowded struct {
	*world
	doc       string // path of its document
	instances []shards.Counter
	rollup    *rollup.Client
	reconcile rollup.ReconcileOptions
	expected  []error // by whoever does anything, beside what any counter may answer

	late sync.WaitGroup // commits that are on their way

	joined, added, unknown atomic.Int64
}

func newCrowded(t *testing.T, hosted bool) *crowded {
	c := &crowded{world: newWorld(t), doc: "counters/a"}
	path := "counters/{counter}"
	if hosted {
		c.doc, path = "posts/a", "posts/{post}"
		c.reconcile.CleanupAfter = 20 * time.Millisecond
	}
	for i := range 3 {
		client := c.open(t, shards.Config{Place: shards.Place{Counters: path, Fields: "likes,views", Hosted: hosted}, NumShards: 3 + i, MaxShards: 8, AutoCreate: !hosted,
			CacheTTL: time.Duration(1+i) * 100 * time.Millisecond, Timeout: 3 * time.Second})
		c.instances = append(c.instances, handle(t, client, "a"))
	}
	var err error
	c.rollup, err = rollup.Open(t.Context(), rollup.Config{Place: rollup.Place{Project: "p", Counters: path, Fields: "likes,views", Hosted: hosted}}, option.WithGRPCConn(c.Conn()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.rollup.Close() })
	c.reconcile.Remove = func(ctx context.Context, _ string, since time.Time) (bool, error) {
		return c.instances[2].Remove(ctx, since)
	}
	return c
}

func (c *crowded) fault(t *testing.T) emulator.Interceptor {
	direct := firestorepb.NewFirestoreClient(c.Conn())
	return func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		time.Sleep(time.Duration(c.rand.IntN(10)) * time.Millisecond)
		switch n := c.rand.IntN(100); {
		case n < 6:
			return emulator.Verdict{After: unavailable}
		case n < 10:
			return emulator.Verdict{Before: unavailable}
		case n < 14:
			return emulator.Verdict{Before: aborted}
		case n < 20 && len(req.GetTransaction()) == 0:
			again, after := proto.CloneOf(req), time.Duration(c.rand.IntN(400))*time.Millisecond
			c.late.Go(func() {
				time.Sleep(after)
				_, _ = direct.Commit(context.Background(), again)
			})
			return emulator.Verdict{Before: unavailable}
		}
		return emulator.Verdict{}
	}
}

// come and go, and count what is nobody's in likes where that is asked for.
func (c *crowded) members(t *testing.T, ctx context.Context, counter shards.Counter, increments bool) {
	for ctx.Err() == nil {
		field, member := []string{"likes", "views"}[c.rand.IntN(2)], strconv.Itoa(c.rand.IntN(5))
		var err error
		switch n := c.rand.IntN(4); {
		case n < 2 && increments:
			switch err = counter.Add(t.Context(), 1); {
			case err == nil:
				c.added.Add(1)
			case errors.Is(err, shards.ErrUnknown):
				c.unknown.Add(1)
			}
		case n%2 == 0:
			var counted bool
			if counted, err = counter.Join(t.Context(), field, member); counted {
				c.joined.Add(1)
			}
		default:
			_, err = counter.Leave(t.Context(), field, member)
		}
		c.mayFail(t, err)
		time.Sleep(time.Millisecond) // no time passes while somebody works
	}
}

func (c *crowded) mayFail(t *testing.T, err error) {
	t.Helper()
	expected := append([]error{nil, shards.ErrNotFound, shards.ErrUnknown, shards.ErrBusy, shards.ErrExists, context.DeadlineExceeded}, c.expected...)
	if status.Code(err) == codes.DeadlineExceeded {
		// the server may say so a moment before the context does
		err = nil
	}
	if !slices.ContainsFunc(expected, func(e error) bool { return errors.Is(err, e) }) {
		t.Error(err)
	}
}

// audits fails unless a field that only has members adds up to their number, at this moment.
func (c *crowded) audits(t *testing.T, fields ...string) []shards.Audit {
	t.Helper()
	audits, err := c.instances[1].Audit(t.Context())
	if err != nil && !errors.Is(err, shards.ErrNotFound) {
		t.Error(err)
	}
	for _, a := range audits {
		if slices.Contains(fields, a.Field) && a.Otherwise != 0 {
			t.Errorf("%+v: want that shards and members agree", a)
		}
	}
	return audits
}

var attackLasts = flag.Duration("members.attack", 500*time.Millisecond, "how long members come and go beside everything else")

// run has everything happen for a while, and returns what there is in the end.
func (c *crowded) run(t *testing.T, increments bool, agree []string, owner func(ctx context.Context, counter shards.Counter) error) []shards.Audit {
	ctx, stop := context.WithTimeout(t.Context(), *attackLasts)
	defer stop()
	c.Server.SetInterceptor(c.fault(t))
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() { c.members(t, ctx, c.instances[i%3], increments) })
	}
	group.Go(func() {
		for ctx.Err() == nil {
			if err := owner(ctx, c.instances[c.rand.IntN(3)]); ctx.Err() == nil {
				c.mayFail(t, err)
			}
			time.Sleep(time.Duration(c.rand.IntN(100)) * time.Millisecond)
		}
	})
	group.Go(func() {
		for ctx.Err() == nil {
			_, _ = c.rollup.Reconcile(ctx, "a", c.reconcile) // under faults it may fail
			time.Sleep(time.Duration(c.rand.IntN(50)) * time.Millisecond)
		}
	})
	for ctx.Err() == nil && !t.Failed() {
		c.audits(t, agree...)
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	group.Wait()
	c.late.Wait()
	c.Server.SetInterceptor(nil)
	if _, err := c.rollup.Reconcile(t.Context(), "a", c.reconcile); err != nil {
		t.Error(err)
	}
	audits := c.audits(t, agree...)
	for _, a := range audits {
		if a.Total != a.Exact {
			t.Errorf("%+v: want that the total is exact after a reconcile", a)
		}
	}
	t.Logf("%d joined, %d added, %d unknown", c.joined.Load(), c.added.Load(), c.unknown.Load())
	return audits
}

// A field that only has members adds up to their number at every moment, whatever happens
// to the counter.
func TestMembersAgreeAtEveryMoment(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		c := newCrowded(t, false)
		c.run(t, false, []string{"likes", "views"}, func(ctx context.Context, counter shards.Counter) error {
			switch c.rand.IntN(7) {
			case 0:
				return counter.Delete(ctx, shards.DeleteOptions{})
			case 1:
				return counter.Create(ctx, shards.CreateOptions{})
			case 2:
				_, _ = c.fs.Doc(c.doc).Delete(ctx) // by hand
				return nil
			case 3, 4:
				return counter.Reset(ctx, shards.ResetOptions{RemoveMembers: true})
			}
			return counter.Resize(ctx, 1+c.rand.IntN(5), shards.ResizeOptions{KeepShards: c.rand.IntN(2) == 0})
		})
	})
}

// The same below a document of the app's own, which deletes it, makes it anew, and sets it to
// what it held once.
func TestMembersOfAnAppsDocumentAgreeAtEveryMoment(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		c := newCrowded(t, true)
		c.run(t, false, []string{"likes", "views"}, func(ctx context.Context, counter shards.Counter) error {
			switch c.rand.IntN(8) {
			case 0, 1, 2:
				_, _ = c.fs.Doc(c.doc).Set(ctx, map[string]any{"title": "x"})
			case 3:
				_, _ = c.fs.Doc(c.doc).Set(ctx, map[string]any{"likes": 99, "counter_rollup": map[string]any{"num_shards": 2}})
			case 4:
				_, _ = c.fs.Doc(c.doc).Delete(ctx)
			case 5:
				return counter.Reset(ctx, shards.ResetOptions{RemoveMembers: true})
			default:
				return counter.Resize(ctx, 1+c.rand.IntN(5), shards.ResizeOptions{KeepShards: c.rand.IntN(2) == 0})
			}
			return nil
		})
	})
}
