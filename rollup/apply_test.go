package rollup_test

import (
	"context"
	"errors"
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
	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/testbed/chance"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
)

// world is one counter's database, with a roll-up client of its own and the events of its shards.
type world struct {
	t      testing.TB
	ctx    context.Context
	server *virtual.Firestore
	fs     *firestore.Client // what a user's program has
	rollup *rollup.Client
	rand   *rand.Rand // what the test leaves to chance

	id string // of the counter

	mu     sync.Mutex
	more   *sync.Cond
	events []rollup.Change // of the counter, in the order they happened
	seen   map[string]bool // :: paths of other documents
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldWith(t, emulator.Options{})
}

func newWorldWith(t testing.TB, opts emulator.Options) *world {
	t.Helper()
	server := virtual.StartWith(t, opts)
	w := &world{t: t, ctx: t.Context(), rand: chance.Of(t), server: server, fs: server.Client(), id: "c", seen: map[string]bool{}}
	w.more = sync.NewCond(&w.mu)
	w.rollup = w.open()
	t.Cleanup(server.OnChange(w.record))
	return w
}

// inVirtualTime runs a test of a world in a bubble.
func inVirtualTime(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newWorld(t)) })
}

// connect makes a connection of its own.
func (w *world) connect() *grpc.ClientConn { return w.server.Conn() }

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

// record keeps what events would bring.
func (w *world) record(c emulator.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, path, _ := strings.Cut(c.Name, "/documents/")
	if !strings.HasPrefix(path, "counters/"+w.id+"/shards/") {
		w.seen[path] = true
		w.more.Broadcast()
		return
	}
	w.events = append(w.events, w.decode(c)...)
}

// decode is what the event of a change brings, as Eventarc delivers it.
func (w *world) decode(c emulator.Change) []rollup.Change {
	w.t.Helper()
	_, body, err := eventarc.Encode("id", c)
	w.must(nil, err)
	changes, err := w.rollup.Decode("application/protobuf", body)
	if err != nil && !errors.Is(err, rollup.ErrPoison) { // of an id such as __id7__, which only Datastore's clients make
		w.t.Error(err)
	}
	return changes
}

// arrived takes all events so far.
func (w *world) arrived() []rollup.Change {
	w.t.Helper()
	// Changes arrive in order: when this one has, all before it have.
	name := fmt.Sprintf("sync/%d", w.rand.Uint64())
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

func (w *world) apply(changes ...rollup.Change) rollup.Applied {
	w.t.Helper()
	a, err := w.rollup.Apply(w.ctx, w.id, changes)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) counter() *firestore.DocumentRef { return w.fs.Doc("counters/" + w.id) }
func (w *world) base() *firestore.DocumentRef {
	return w.counter().Collection("counter_rollup").Doc("base")
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

func TestApplyCountsEachEventOnce(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(3)
		w.apply(w.arrived()...) // adopts
		for i := range 30 {
			w.inc(i%3, int64(i))
		}
		events := w.arrived()
		w.rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		for _, e := range append(events, events...) {
			w.apply(e)
		}
		w.total(29 * 30 / 2)
		for i := range 3 {
			w.inc(i, 1)
		}
		w.arrived() // lost
		w.inc(0, 1) // any later event of the field
		w.apply(w.arrived()...)
		w.total(29*30/2 + 4)
	})
}

// Where no event is lost, and each has a refresh of its own, the increment is that event's own delta. Of a lost one the
// next refresh brings the delta, too.
func TestTheIncrementIsTheEventsDelta(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t).hosted()
		w.post(map[string]any{"title": "Hello"})
		missed := map[string]int64{} // :: field → what lost events would have brought
		for range 300 {
			shard := w.rand.IntN(4)
			switch w.rand.IntN(10) {
			case 0:
				w.must(w.shard(shard).Delete(w.ctx))
			case 1:
				w.must(w.shard(shard).Set(w.ctx, map[string]any{"likes": "many", "views": w.rand.Int64N(9)}))
			case 2:
				w.must(w.shard(shard).Set(w.ctx, map[string]any{"likes": w.rand.Int64N(9)}, firestore.MergeAll))
			default:
				w.like(shard, w.rand.Int64N(9)-4, w.rand.Int64N(2))
			}
			for _, event := range w.arrived() {
				for field, n := range event.Delta {
					missed[field] += n
				}
				if w.rand.IntN(5) == 0 {
					continue
				}
				for _, change := range w.apply(event).Changes {
					if want := missed[change.Field.Name]; change.Delta != want {
						t.Fatalf("%s grows by %d, and the events say %d", change.Field.Name, change.Delta, want)
					}
					delete(missed, change.Field.Name)
				}
				for _, field := range event.Fields {
					if n := missed[field]; n != 0 {
						t.Fatalf("%s doesn't grow, and the events say %d", field, n)
					}
				}
			}
		}
	})
}

func TestApplyFromMemory(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(1)
		w.inc(0, 1)
		w.apply(w.arrived()...)
		w.inc(0, 1)
		w.apply(w.arrived()...)
		w.inc(0, 1)
		states := w.arrived()
		w.server.ResetStats()
		if a := w.apply(states...); a.Delta != 1 {
			t.Errorf("applied %+v", a)
		}
		if s := w.server.Stats(); s.Reads != 1 || s.Commits != 1 || s.Writes != 1 {
			t.Errorf("a refresh took %+v, want one read, of the sum, and one commit of one write", s)
		}
	})
}

func TestApplySeesThatOthersWrite(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := w.open()
		w.snippet(1)
		w.apply(w.arrived()...)
		w.inc(0, 1)
		if _, err := other.Apply(w.ctx, "c", w.arrived()); err != nil {
			t.Fatal(err)
		}
		w.inc(0, 1)
		if a := w.apply(w.arrived()...); a.Reads != 3 || !a.Committed {
			t.Errorf("applied %+v, want one that looks, and commits what it has asked already", a)
		}
		w.inc(0, 1)
		if a := w.apply(w.arrived()...); a.Reads != 1 {
			t.Errorf("applied %+v, although no other instance wrote", a)
		}
		w.total(3)
	})
}

func TestApplyLosesAnAnswer(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]emulator.Verdict{
		"after it was applied":  {After: status.Error(codes.Unavailable, "lost")},
		"before it was applied": {Before: status.Error(codes.Unavailable, "lost")},
		"deadline":              {After: status.Error(codes.DeadlineExceeded, "late")},
		"internal":              {After: status.Error(codes.Internal, "oops")},
	} {
		virtual.Run(t, name, func(t *testing.T) {
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
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(1)
		w.apply(w.arrived()...)
		w.inc(0, 5)
		states := w.arrived()
		w.server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
			return emulator.Verdict{Before: status.Error(codes.Aborted, "too much contention")}
		})
		if a, err := w.rollup.Apply(w.ctx, "c", states); !isContention(err) || len(a.Changes) > 0 {
			t.Errorf("%+v, err = %v, want ErrContention, and that nothing has changed", a, err)
		}
		w.server.SetInterceptor(nil)
		w.apply(states...)
		w.total(5)
	})
}

func TestConcurrentApply(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(5)
		var group sync.WaitGroup
		for range 3 {
			client := w.open()
			for range 2 {
				group.Go(func() {
					for range 20 {
						w.inc(w.rand.IntN(5), 1)
						for _, s := range w.arrived() {
							for {
								_, err := client.Apply(w.ctx, "c", []rollup.Change{s})
								if err == nil {
									break
								}
								if !isContention(err) {
									t.Error(err)
									return
								}
								time.Sleep(time.Duration(w.rand.IntN(20)) * time.Millisecond)
							}
						}
					}
				})
			}
		}
		group.Wait()
		w.total(120)
	})
}
