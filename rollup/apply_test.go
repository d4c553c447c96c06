package rollup_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/rollup"
)

// world is one counter's database, with a roll-up client of its own and the events of its shards.
type world struct {
	t      testing.TB
	ctx    context.Context
	server *emulator.Server
	fs     *firestore.Client // what a user's program has
	rollup *rollup.Client

	id string // of the counter

	connect func() *grpc.ClientConn
	mu      sync.Mutex
	more    *sync.Cond
	events  []ledger.State  // of the counter, in the order they happened
	seen    map[string]bool // :: paths of other documents
}

func newWorld(t testing.TB) *world {
	t.Helper()
	instance := emulator.Start(t)
	w := &world{t: t, ctx: t.Context(), server: instance.Server, connect: func() *grpc.ClientConn { return instance.Conn(t) }}
	return w.begin()
}

// inVirtualTime runs a test in a bubble (testing/synctest), over connections without a network: it
// is over in no time, and a busy machine changes none of its times.
func inVirtualTime(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := emulator.New(emulator.Options{})
		t.Cleanup(server.Close)
		w := &world{t: t, ctx: t.Context(), server: server, connect: func() *grpc.ClientConn {
			conn, err := server.Connect()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			return conn
		}}
		test(w.begin())
	})
}

func (w *world) begin() *world {
	w.t.Helper()
	w.id, w.seen = "c", map[string]bool{}
	w.more = sync.NewCond(&w.mu)
	fs, err := firestore.NewClient(w.ctx, "p", option.WithGRPCConn(w.connect()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { fs.Close() })
	w.fs = fs
	w.rollup = w.open()
	w.t.Cleanup(w.server.OnChange(w.record))
	return w
}

// open is one more instance's client.
func (w *world) open() *rollup.Client {
	return w.openWith(rollup.Config{Place: rollup.Place{Project: "p"}})
}

func (w *world) openWith(cfg rollup.Config) *rollup.Client {
	w.t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(w.t.Output(), nil))
	}
	client, err := rollup.Open(w.ctx, cfg, option.WithGRPCConn(w.connect()))
	if err != nil {
		w.t.Fatal(err)
	}
	client.Looks(false)
	return client
}

// silent is an instance's client without a logger.
func (w *world) silent() *rollup.Client {
	w.t.Helper()
	client, err := rollup.Open(w.ctx, rollup.Config{Place: rollup.Place{Project: "p"}}, option.WithGRPCConn(w.connect()))
	if err != nil {
		w.t.Fatal(err)
	}
	return client
}

// now is Firestore's time.
func (w *world) now() time.Time {
	w.t.Helper()
	snap, err := w.counter().Get(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return snap.ReadTime
}

// turnTo makes another counter the one that the world is about.
func (w *world) turnTo(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.id = id
}

// record keeps the states that events would bring.
func (w *world) record(c emulator.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, path, _ := strings.Cut(c.Name, "/documents/")
	shard, ok := strings.CutPrefix(path, "counters/"+w.id+"/shards/")
	if !ok {
		w.seen[path] = true
		w.more.Broadcast()
		return
	}
	state := ledger.State{Shard: shard, Gone: c.New == nil}
	if state.Gone {
		state.AsOf = c.Old.GetUpdateTime().AsTime().Add(time.Microsecond)
	} else {
		state = book.ShardState(c.New)
	}
	w.events = append(w.events, state)
}

// arrived takes the states of all events so far.
func (w *world) arrived() []ledger.State {
	w.t.Helper()
	// Changes arrive in order: when this one has, all before it have.
	name := fmt.Sprintf("sync/%d", rand.Uint64())
	w.must(w.fs.Doc(name).Set(w.ctx, map[string]any{}))
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.seen[name] {
		w.more.Wait()
	}
	events := w.events
	w.events = nil
	return events
}

func (w *world) must(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// commit makes several writes in one commit.
func (w *world) commit(write func(tx *firestore.Transaction) error) {
	w.t.Helper()
	w.must(nil, w.fs.RunTransaction(w.ctx, func(_ context.Context, tx *firestore.Transaction) error { return write(tx) }))
}

func (w *world) apply(states ...ledger.State) rollup.Applied {
	w.t.Helper()
	a, err := w.rollup.Apply(w.ctx, w.id, states)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) counter() *firestore.DocumentRef { return w.fs.Doc("counters/" + w.id) }
func (w *world) ledger() *firestore.DocumentRef {
	return w.counter().Collection("counter_rollup").Doc("ledger")
}
func (w *world) shard(n int) *firestore.DocumentRef {
	return w.counter().Collection("shards").Doc(fmt.Sprint(n))
}
func (w *world) exists(doc *firestore.DocumentRef) bool {
	w.t.Helper()
	snap, err := doc.Get(w.ctx)
	if err != nil && status.Code(err) != codes.NotFound {
		w.t.Fatal(err)
	}
	return snap.Exists()
}

// snippet makes a counter as Google's snippets do.
func (w *world) snippet(shards int) {
	w.t.Helper()
	w.must(w.counter().Set(w.ctx, map[string]any{"num_shards": shards}))
	for n := range shards {
		w.must(w.shard(n).Set(w.ctx, map[string]any{"count": 0}))
	}
}

func (w *world) inc(shard int, by int64) {
	w.t.Helper()
	w.must(w.shard(shard).Update(w.ctx, []firestore.Update{{Path: "count", Value: firestore.Increment(by)}}))
}

// total fails unless the counter's total is what is wanted.
func (w *world) total(want int64) {
	w.t.Helper()
	snap, err := w.counter().Get(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := snap.Data()["total"]; got != want {
		w.t.Errorf("total = %v, want %d", got, want)
	}
}

func TestApplyCountsEachStateOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(3)
	w.apply(w.arrived()...) // adopts
	for i := range 30 {
		w.inc(i%3, int64(i))
	}
	events := w.arrived()
	rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	for _, e := range append(events, events...) {
		w.apply(e)
	}
	w.total(29 * 30 / 2)
	// One that missed everything is brought up to date by the next state of each shard.
	for i := range 3 {
		w.inc(i, 1)
	}
	lost := w.arrived()
	for i := range 3 {
		w.inc(i, 1)
	}
	w.apply(w.arrived()...)
	w.total(29*30/2 + 6)
	w.apply(lost...)
	w.total(29*30/2 + 6)
}

func TestApplyReadsTheLedgerOnlyWithoutACopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(1)
	w.inc(0, 1)
	w.apply(w.arrived()...)
	w.inc(0, 1)
	w.apply(w.arrived()...)
	w.inc(0, 1)
	states := w.arrived()
	w.server.ResetStats()
	if a := w.apply(states...); a.OtherFlushes != 0 || a.Shards != 1 || a.Delta != 1 {
		t.Errorf("applied %+v", a)
	}
	if s := w.server.Stats(); s.Reads != 0 || s.Commits != 1 || s.Writes != 2 {
		t.Errorf("a flush took %+v, want no read, and one commit of two writes", s)
	}
}

func TestApplySeesThatOthersWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.open()
	w.snippet(1)
	w.apply(w.arrived()...)
	w.inc(0, 1)
	if _, err := other.Apply(w.ctx, "c", w.arrived()); err != nil {
		t.Fatal(err)
	}
	w.inc(0, 1)
	if a := w.apply(w.arrived()...); a.OtherFlushes != 1 {
		t.Errorf("applied %+v, want one flush by another", a)
	}
	w.inc(0, 1)
	// It looks before it commits now, and finds that no other instance has written.
	if a := w.apply(w.arrived()...); a.OtherFlushes != 0 {
		t.Errorf("applied %+v, although no other instance wrote", a)
	}
	w.total(3)
}

func TestApplyLosesAnAnswer(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]emulator.Verdict{
		"after it was applied":  {After: status.Error(codes.Unavailable, "lost")},
		"before it was applied": {Before: status.Error(codes.Unavailable, "lost")},
		"deadline":              {After: status.Error(codes.DeadlineExceeded, "late")},
		"internal":              {After: status.Error(codes.Internal, "oops")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.snippet(1)
			w.apply(w.arrived()...)
			w.inc(0, 5)
			states := w.arrived()
			var once sync.Once
			w.server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
				once.Do(func() { v = verdict })
				return v
			})
			w.apply(states...)
			w.total(5)
		})
	}
}

func TestApplyTellsContention(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(1)
	w.apply(w.arrived()...)
	w.inc(0, 5)
	states := w.arrived()
	w.server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		return emulator.Verdict{Before: status.Error(codes.Aborted, "too much contention")}
	})
	if _, err := w.rollup.Apply(w.ctx, "c", states); !isContention(err) {
		t.Errorf("err = %v, want ErrContention", err)
	}
	w.server.SetInterceptor(nil)
	w.apply(states...)
	w.total(5)
}

func TestConcurrentApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(5)
	var group sync.WaitGroup
	for range 3 {
		client := w.open()
		for range 2 {
			group.Go(func() {
				for range 20 {
					w.inc(rand.IntN(5), 1)
					for _, s := range w.arrived() {
						for {
							_, err := client.Apply(w.ctx, "c", []ledger.State{s})
							if err == nil {
								break
							}
							if !isContention(err) {
								t.Error(err)
								return
							}
							time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
						}
					}
				}
			})
		}
	}
	group.Wait()
	w.total(120)
}
