package book_test

import (
	"context"
	"errors"
	"testing"

	"cloud.google.com/go/firestore"
	"go.uber.org/goleak"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	unavailable = virtual.ErrLost
	aborted     = status.Error(codes.Aborted, "too much contention")
)

// world is an embedded Firestore of a test's own, with a deployment of counters.
type world struct {
	*virtual.Firestore
	fs     *firestore.Client
	db     *store.DB
	shards *shards.Client
	rollup *rollup.Client
}

func newWorld(t *testing.T, hosted bool) *world {
	t.Helper()
	w := &world{Firestore: virtual.Start(t)}
	w.fs = w.Client()
	conn := option.WithGRPCConn(w.Conn())
	place := layout.Place{Project: "p", Fields: "likes,views", Hosted: hosted}
	var err, shardsErr, rollupErr error
	w.db, err = store.Open(context.Background(), place, conn)
	w.shards, shardsErr = shards.Open(context.Background(), shards.Config{Place: place}, conn)
	w.rollup, rollupErr = rollup.Open(context.Background(), rollup.Config{Place: place}, conn)
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

func (w *world) reconcile(t *testing.T, opts rollup.ReconcileOptions) rollup.Report {
	t.Helper()
	r, err := w.rollup.Reconcile(t.Context(), "a", opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// read is the book of the counter a.
func (w *world) read(t *testing.T) *book.Book {
	t.Helper()
	b, err := book.In(w.db).Read(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// edit carries out what must not be applied twice.
func (w *world) edit(ctx context.Context, decide func(context.Context, *book.Edit) error) error {
	return book.In(w.db).Edit(ctx, "a", func(ctx context.Context, e *book.Edit) (bool, error) { return true, decide(ctx, e) })
}

// add adds to what likes holds beyond the shards: the simplest that must not be applied twice.
func (w *world) add(ctx context.Context, n int64, applied func()) error {
	return w.edit(ctx, func(_ context.Context, e *book.Edit) error {
		e.Applied = applied
		e.SetBase(w.likes(), e.Base.Counts["likes"]+n)
		return nil
	})
}

func (w *world) likes() layout.Field { return w.db.Layout.Sharded[0] }

// want fails unless the counter shows that many likes, and has so many of them beyond its shards.
func (w *world) want(t *testing.T, shown, beyond int64) {
	t.Helper()
	b := w.read(t)
	if got := b.Doc.GetFields()["likes"].GetIntegerValue(); b.Base.Counts["likes"] != beyond || got != shown {
		t.Errorf("%d beyond the shards, shown %d; want %d and %d", b.Base.Counts["likes"], got, beyond, shown)
	}
}
