package shards_test

import (
	"context"
	"math/rand/v2"
	"runtime/debug"
	"testing"

	"cloud.google.com/go/firestore"
	"go.uber.org/goleak"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/chance"
	"github.com/firestore-counters/counters/internal/testbed/slots"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

func TestMain(m *testing.M) {
	slots.Widen()
	debug.SetGCPercent(400) // a database for each test: looking for its garbage was a quarter of the time
	goleak.VerifyTestMain(m)
}

// world is an embedded Firestore of a test's own.
type world struct {
	*virtual.Firestore
	fs   *firestore.Client // looks at what is there, and does what other clients do
	rand *rand.Rand        // what the test leaves to chance
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, emulator.Options{})
}

func newWorldWith(t *testing.T, opts emulator.Options) *world {
	t.Helper()
	f := virtual.StartWith(t, opts)
	return &world{Firestore: f, fs: f.Client(), rand: chance.Of(t)}
}

// open opens a client, as a process of its own would.
func (w *world) open(t *testing.T, cfg shards.Config, opts ...grpc.DialOption) *shards.Client {
	t.Helper()
	cfg.Project = "p"
	client, err := shards.Open(context.Background(), cfg, option.WithGRPCConn(w.Conn(opts...)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// counter returns a counter that exists, with n shards.
func (w *world) counter(t *testing.T, client *shards.Client, id string, n int) shards.Counter {
	t.Helper()
	c := handle(t, client, id)
	if err := c.Create(t.Context(), shards.CreateOptions{Shards: n}); err != nil {
		t.Fatal(err)
	}
	return c
}

func handle(t *testing.T, client *shards.Client, id string) shards.Counter {
	t.Helper()
	c, err := client.Counter(id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wantSum fails unless the shards and the base of a counter add up to want, read by a plain client.
func (w *world) wantSum(t *testing.T, id string, want int64) {
	t.Helper()
	if got := w.sum(t, id); got != want {
		t.Errorf("counter %q adds up to %d, want %d", id, got, want)
	}
}

func (w *world) sum(t *testing.T, id string) int64 {
	t.Helper()
	var sum int64
	for _, count := range w.counts(t, id) {
		sum += count
	}
	base, err := w.fs.Collection("counters").Doc(id).Collection("counter_rollup").Doc("base").Get(t.Context())
	if err == nil {
		counts, _ := base.Data()["base"].(map[string]any)
		for _, field := range []string{"count", "total"} {
			of, _ := counts[field].(int64)
			sum += of
		}
	}
	return sum
}

// counts are the shards that there are.
func (w *world) counts(t *testing.T, id string) map[string]int64 {
	t.Helper()
	docs, err := w.fs.Collection("counters").Doc(id).Collection("shards").Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int64{}
	for _, doc := range docs {
		n, plain := doc.Data()["count"].(int64)
		if !plain { // of a total that has a limit
			n, _ = doc.Data()["total"].(int64)
		}
		counts[doc.Ref.ID] = n
	}
	return counts
}

// markers is how many request markers there are.
func (w *world) markers(t *testing.T) int {
	t.Helper()
	docs, err := w.fs.Collection("counter_requests").Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	return len(docs)
}

// rollUp brings a counter's total up to date, as the roll-up does.
func (w *world) rollUp(t *testing.T, id string) rollup.Report {
	t.Helper()
	return w.reconcile(t, rollup.Config{}, id, rollup.ReconcileOptions{})
}

func (w *world) reconcile(t *testing.T, cfg rollup.Config, id string, opts rollup.ReconcileOptions) rollup.Report {
	t.Helper()
	cfg.Project = "p"
	client, err := rollup.Open(t.Context(), cfg, option.WithGRPCConn(w.Conn()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	r, err := client.Reconcile(t.Context(), id, opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
