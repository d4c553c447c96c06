package book_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"go.uber.org/goleak"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	unavailable = status.Error(codes.Unavailable, "the connection was lost")
	aborted     = status.Error(codes.Aborted, "too much contention")
)

// world is an embedded Firestore of a test's own, whose clock can be set ahead, with a
// deployment of counters.
type world struct {
	*emulator.Instance
	ahead  atomic.Int64
	fs     *firestore.Client
	db     *store.DB
	shards *shards.Client
	rollup *rollup.Client
}

func newWorld(t *testing.T, hosted bool) *world {
	t.Helper()
	w := &world{}
	w.Instance = emulator.StartWith(t, emulator.Options{Now: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }})
	w.fs = w.Client(t, "p")
	conn := option.WithGRPCConn(w.Conn(t))
	const fields = "likes,views"
	var err, shardsErr, rollupErr error
	w.db, err = store.Open(context.Background(), layout.Place{Project: "p", Fields: fields, Hosted: hosted}, conn)
	w.shards, shardsErr = shards.Open(context.Background(), shards.Config{Place: shards.Place{Project: "p", Fields: fields, Hosted: hosted}}, conn)
	w.rollup, rollupErr = rollup.Open(context.Background(), rollup.Config{Place: rollup.Place{Project: "p", Fields: fields, Hosted: hosted}}, conn)
	if err := errors.Join(err, shardsErr, rollupErr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(w.db.Close(), w.shards.Close(), w.rollup.Close()) })
	return w
}

// counter is the counter a.
func (w *world) counter(t *testing.T) shards.Counter {
	t.Helper()
	c, err := w.shards.Counter("a")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *world) create(t *testing.T) shards.Counter {
	t.Helper()
	c := w.counter(t)
	if err := c.Create(t.Context(), shards.CreateOptions{Shards: 2}); err != nil {
		t.Fatal(err)
	}
	return c
}

// add runs the command that adds to what likes holds beyond the shards. It is the simplest that
// must not be applied twice.
func (w *world) add(ctx context.Context, n int64, applied func()) error {
	return book.Of(w.db).Command(ctx, "a", func(_ context.Context, k *book.Book) (bool, error) {
		k.SetBase("likes", k.Ledger.Base["likes"]+n)
		k.Applied = applied
		return true, nil
	})
}

func (w *world) ledger(t *testing.T) *ledger.Ledger {
	t.Helper()
	docs, _, err := w.db.Get(t.Context(), w.db.Layout.LedgerOf("a"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := book.Decode("shards", docs[0])
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// want fails unless the counter shows that many likes, and has them beyond its shards.
func (w *world) want(t *testing.T, likes int64) {
	t.Helper()
	doc, err := w.fs.Doc("counters/a").Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := w.ledger(t).Base["likes"]; got != likes || doc.Data()["likes"] != likes {
		t.Errorf("base %d, shown %v; want %d", got, doc.Data()["likes"], likes)
	}
}

// once has the next commit that is no transaction's meet what do makes of it.
func (w *world) once(do func(context.Context, *firestorepb.CommitRequest) emulator.Verdict) {
	w.Server.SetInterceptor(func(ctx context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		if len(req.GetTransaction()) > 0 {
			return emulator.Verdict{}
		}
		w.Server.SetInterceptor(nil)
		return do(ctx, req)
	})
}

// afterLost does something after the next commit was applied, whose answer gets lost, and before
// anything follows it.
func (w *world) afterLost(t *testing.T, do func()) {
	direct := firestorepb.NewFirestoreClient(w.Conn(t))
	w.once(func(ctx context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		if _, err := direct.Commit(ctx, req); err != nil {
			t.Errorf("the commit whose answer is to be lost: %v", err)
		}
		do()
		return emulator.Verdict{Before: unavailable}
	})
}

// Whatever becomes of a command's commit, it is applied once, and says so once.
func TestRunUnderFaults(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]emulator.Verdict{
		"none":        {},
		"answer lost": {After: unavailable},
		"not applied": {Before: unavailable},
		"contention":  {Before: aborted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false)
			w.create(t)
			for n := range int64(3) {
				applied := 0
				w.once(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict { return verdict })
				if err := w.add(t.Context(), 5, func() { applied++ }); err != nil || applied != 1 {
					t.Errorf("%v, applied %d times", err, applied)
				}
				w.want(t, 5*(n+1))
			}
		})
	}
}

// A commit is slow, and arrives just before the one that was sent in its place: the first counts,
// and is known for what was applied, and the second does not.
func TestALateCommitIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.create(t)
	direct := firestorepb.NewFirestoreClient(w.Conn(t))
	w.once(func(_ context.Context, held *firestorepb.CommitRequest) emulator.Verdict {
		w.once(func(ctx context.Context, _ *firestorepb.CommitRequest) emulator.Verdict {
			if _, err := direct.Commit(ctx, held); err != nil {
				t.Errorf("the commit that is late: %v", err)
			}
			return emulator.Verdict{}
		})
		return emulator.Verdict{Before: unavailable}
	})
	attempts, applied := 0, 0
	err := book.Of(w.db).Command(t.Context(), "a", func(_ context.Context, k *book.Book) (bool, error) {
		attempts++
		n := attempts
		k.SetBase("likes", int64(n))
		k.Applied = func() { applied = n }
		return true, nil
	})
	if err != nil || attempts != 2 || applied != 1 {
		t.Errorf("%v, attempt %d of %d was applied; want the first of 2", err, applied, attempts)
	}
	w.want(t, 1)
}

// The answer to a command gets lost while it is the last that its caller waits for: it looks once
// more what has become of it.
func TestTheLastLook(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]emulator.Verdict{"applied": {After: unavailable}, "not applied": {Before: unavailable}} {
		w := newWorld(t, false)
		w.create(t)
		ctx, cancel := context.WithCancel(t.Context())
		direct := firestorepb.NewFirestoreClient(w.Conn(t))
		w.once(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			if verdict.After != nil {
				if _, err := direct.Commit(t.Context(), req); err != nil {
					t.Error(err)
				}
			}
			cancel()
			return emulator.Verdict{Before: unavailable}
		})
		applied := false
		err := w.add(ctx, 5, func() { applied = true })
		if want := verdict.After != nil; applied != want || errors.Is(err, store.ErrDoubt) == want {
			t.Errorf("%s: %v, applied %v", name, err, applied)
		}
	}
}

// Many commands at a time, and a roll-up, with lost answers and contention: each is applied once.
func TestCommandsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	c := w.create(t)
	w.Server.SetFaults(emulator.Faults{LoseAnswers: 0.1, Abort: 0.1, Unavailable: 0.1, Seed: 7})
	var group sync.WaitGroup
	var sum, unknown atomic.Int64
	for n := range 12 {
		group.Go(func() {
			for i := range 3 {
				by := int64(1) << (n + 12*i)
				switch err := w.add(t.Context(), by, func() { sum.Add(by) }); {
				case errors.Is(err, store.ErrDoubt):
					unknown.Add(by)
				case err != nil && !errors.Is(err, store.ErrContention):
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() {
		for range 10 {
			if err := c.Add(t.Context(), 1); err != nil {
				t.Error(err)
			}
			// under faults it may fail
			_, _ = w.rollup.Reconcile(t.Context(), "a", rollup.ReconcileOptions{})
		}
	})
	group.Wait()
	w.Server.SetFaults(emulator.Faults{})
	if got := w.ledger(t).Base["likes"]; got&^unknown.Load() != sum.Load() {
		t.Errorf("base %b, want %b, and maybe %b", got, sum.Load(), unknown.Load())
	}
	r, err := w.rollup.Reconcile(t.Context(), "a", rollup.ReconcileOptions{})
	if err != nil || r.After != w.ledger(t).Base["likes"]+10 || r.Drift != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// What decide says is done, and no more: nothing, or its error.
func TestDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.create(t)
	before, version := w.Server.Stats().Commits, w.ledger(t).Updated
	no := errors.New("no")
	for _, want := range []error{nil, no} {
		if err := book.Of(w.db).Command(t.Context(), "a", func(context.Context, *book.Book) (bool, error) { return false, want }); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if got := w.ledger(t).Updated; w.Server.Stats().Commits != before || !got.Equal(version) {
		t.Error("something was written")
	}
	if err := book.Of(w.db).Command(t.Context(), "a", func(_ context.Context, k *book.Book) (bool, error) {
		k.SetBase("views", 2)
		k.Beside(store.Update(w.db.Layout.Document("pages/hello"), nil, map[string]*firestorepb.Value{"n": store.Int(4)}, nil))
		return true, k.Import("x", 3, w.db.Layout.Fields[0], 1)
	}); err != nil {
		t.Fatal(err)
	}
	l := w.ledger(t)
	page, err := w.fs.Doc("pages/hello").Get(t.Context())
	if err != nil || !maps.Equal(l.Base, ledger.Counts{"likes": 1, "views": 2}) || l.Imported["x"] != 3 || page.Data()["n"] != int64(4) {
		t.Errorf("base %v, imported %v, the page %v, %v", l.Base, l.Imported, page.Data(), err)
	}
}

// What a source has counted is taken off it once it is in a base: where that has no room, all of it stays.
func TestAnImportThatABaseHasNoRoomFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.create(t)
	in := func(base, added int64) error {
		return book.Of(w.db).Command(t.Context(), "a", func(_ context.Context, k *book.Book) (bool, error) {
			k.SetBase("likes", base)
			return true, k.Import("x", added, w.db.Layout.Fields[0], added)
		})
	}
	for _, fits := range []struct{ base, added int64 }{{math.MaxInt64 - 1, 1}, {math.MinInt64 + 2, -2}, {math.MinInt64, math.MaxInt64}} {
		if err := in(fits.base, fits.added); err != nil {
			t.Errorf("%d and %d more: %v", fits.base, fits.added, err)
		}
		w.want(t, fits.base+fits.added)
	}
	for _, not := range []struct{ base, added int64 }{{math.MaxInt64, 1}, {math.MinInt64 + 1, -2}, {1, math.MaxInt64}} {
		if err := in(not.base, not.added); !errors.Is(err, book.ErrBeyond) {
			t.Errorf("%d and %d more: %v, want ErrBeyond", not.base, not.added, err)
		}
		w.want(t, -1)
	}
}

// What a command has replaced for good is forgotten for its own fields alone.
func TestAnewForgetsWhatWasReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	if _, err := w.fs.Doc("counters/a").Set(t.Context(), map[string]any{"likes": 10, "views": 20}); err != nil {
		t.Fatal(err)
	}
	for _, anew := range []bool{false, true} {
		if err := book.Of(w.db).Command(t.Context(), "a", func(_ context.Context, k *book.Book) (bool, error) {
			if k.SetBase("likes", 1); anew {
				k.Rebase(w.db.Layout.Fields[0], 1)
			}
			return true, nil
		}); err != nil {
			t.Fatal(err)
		}
		want := map[string]int64{"likes": 10, "views": 20}
		if anew {
			want["likes"] = 0
		}
		if got := w.ledger(t).Replaced; !maps.Equal(got, want) {
			t.Errorf("anew %v: replaced %v, want %v", anew, got, want)
		}
	}
}

// Ids of attempts are kept for as long as one may be in doubt, and no longer,
// however many they are.
func TestIdsGoWhenTheyAreSettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.create(t)
	run := func(ahead time.Duration, want int) {
		t.Helper()
		w.ahead.Store(int64(ahead))
		if err := w.add(t.Context(), 1, nil); err != nil {
			t.Fatal(err)
		}
		if got := len(w.ledger(t).Ops); got != want {
			t.Errorf("%v on: %d ids, want %d", ahead, got, want)
		}
	}
	for n := range 60 {
		run(0, n+1)
	}
	run(29*time.Minute, 61) // 60 of them are 29 minutes old
	run(40*time.Minute, 2)
	run(41*time.Minute, 3)
	run(3*time.Hour, 1)
}

// Commands without end, faster than their ids go, are refused, before the ids fill the ledger and
// nothing can be counted, nor any id removed. Half an hour later commands are carried out again,
// though nothing has written the ledger meanwhile.
func TestMoreCommandsThanMayBeInDoubt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	c := w.create(t)
	ids := map[string]time.Time{}
	for n := range ledger.MaxOps {
		ids[fmt.Sprint(n)] = time.Now()
	}
	if _, err := w.fs.Doc("counters/a/counter_rollup/ledger").Set(t.Context(), map[string]any{"ops": ids}, firestore.MergeAll); err != nil {
		t.Fatal(err)
	}
	if err := w.add(t.Context(), 1, nil); !errors.Is(err, store.ErrContention) {
		t.Errorf("%v, want that it is too many", err)
	}
	if err := c.Reset(t.Context(), shards.ResetOptions{}); !errors.Is(err, shards.ErrBusy) || !strings.Contains(err.Error(), "1500 commands within 30m") {
		t.Errorf("%v, want ErrBusy, and why", err)
	}
	w.ahead.Store(int64(31 * time.Minute))
	if err := w.add(t.Context(), 1, nil); err != nil {
		t.Error(err)
	}
	w.want(t, 1)
	if ids := w.ledger(t).Ops; len(ids) != 1 {
		t.Errorf("%d ids are left, want that of the last command", len(ids))
	}
}

// A reset whose answer was lost, beside further commands, of which a ledger once kept 32: the reset
// knows that it was applied.
func TestAResetInDoubtBesideManyCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	c := w.create(t)
	if err := c.Add(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	w.afterLost(t, func() {
		for range 100 {
			if err := w.add(t.Context(), 1, nil); err != nil {
				t.Error(err)
			}
		}
		if err := c.Add(t.Context(), 3); err != nil {
			t.Error(err)
		}
	})
	if err := c.Reset(t.Context(), shards.ResetOptions{}); err != nil {
		t.Fatal(err)
	}
	if s, err := c.Sum(t.Context()); err != nil || s.Total != 103 {
		t.Errorf("%+v, %v; want what came after the reset, 103", s, err)
	}
}

// A counter that is deleted between the look at it and its adoption is not found.
func TestRunOfACounterThatGoesBeforeItIsAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	counter := w.fs.Doc("counters/a")
	if _, err := counter.Set(t.Context(), map[string]any{"num_shards": 1}); err != nil {
		t.Fatal(err)
	}
	conn, err := w.Server.Connect(grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if strings.HasSuffix(method, "/BeginTransaction") {
			if _, err := counter.Delete(ctx); err != nil {
				t.Error(err)
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), layout.Place{Project: "p", Fields: "likes,views"}, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	err = book.Of(db).Command(t.Context(), "a", func(context.Context, *book.Book) (bool, error) { return true, nil })
	if !errors.Is(err, book.ErrNotFound) {
		t.Errorf("%v, want that there is no such counter", err)
	}
}
