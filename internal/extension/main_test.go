package extension_test

import (
	"context"
	"testing"

	"cloud.google.com/go/firestore"
	"go.uber.org/goleak"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/extension"
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

// world is an embedded Firestore of a test's own, and a deployment of counters in it.
type world struct {
	*virtual.Firestore
	place  layout.Place
	fs     *firestore.Client // looks at what is there, and does what the extension's clients do
	db     *store.DB
	client *shards.Client
}

func newWorld(t *testing.T, place layout.Place) *world {
	t.Helper()
	return worldOf(t, virtual.Start(t), place)
}

func worldOf(t *testing.T, i *virtual.Firestore, place layout.Place) *world {
	t.Helper()
	place.Project = "p"
	w := &world{Firestore: i, place: place, fs: i.Client()}
	w.db = w.open(t)
	var err error
	w.client, err = shards.Open(t.Context(), shards.Config{
		Place: place,
	}, option.WithGRPCConn(i.Conn()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.client.Close() })
	return w
}

// open opens the counters' database, through interceptors where there are any.
func (w *world) open(t *testing.T, opts ...grpc.DialOption) *store.DB {
	t.Helper()
	conn, err := w.Server.Connect(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	db, err := store.Open(context.Background(), w.place, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// counter returns a counter, which may not exist.
func (w *world) counter(t *testing.T, id string) shards.Counter {
	t.Helper()
	c, err := w.client.Counter(id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// create makes a counter of n shards.
func (w *world) create(t *testing.T, id string, n int, total int64) shards.Counter {
	t.Helper()
	c := w.counter(t, id)
	if err := c.Create(t.Context(), shards.CreateOptions{Shards: n, Total: total}); err != nil {
		t.Fatal(err)
	}
	return c
}

// wantExact fails unless shards and base of a counter's field add up to want.
func (w *world) wantExact(t *testing.T, id, field string, want int64) {
	t.Helper()
	audits, err := w.counter(t, id).Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range audits {
		if a.Field == field && a.Exact != want {
			t.Errorf("%s of counter %q adds up to %d, want %d", field, id, a.Exact, want)
		}
	}
}

// rollUp does what events and reconciles do.
func (w *world) rollUp(t *testing.T, id string) rollup.Report {
	t.Helper()
	client, err := rollup.Open(t.Context(), rollup.Config{
		Place: w.place,
	}, option.WithGRPCConn(w.Conn()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	r, err := client.Reconcile(t.Context(), id, rollup.ReconcileOptions{})
	if err != nil {
		t.Error(err)
	}
	return r
}

// imports brings a counter of the extension's into one of ours.
func (w *world) imports(t *testing.T, id string, source extension.Source) (extension.Imported, error) {
	t.Helper()
	return extension.Import(t.Context(), w.db, id, source)
}
