package rollup_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
)

const countedFields = "likes,comments=count(comments),stars=sum(ratings.stars),public=count(comments where public==true)"

var (
	defaultCounters = rollup.Config{Place: rollup.Place{Project: "p", Fields: countedFields}}
	hostedPosts     = rollup.Config{Place: rollup.Place{Project: "p", Counters: "posts/{post}", Fields: countedFields, Hosted: true}}
	hostedPages     = rollup.Config{Place: rollup.Place{Project: "p", Counters: "sites/{site}/pages/{page}", Fields: countedFields, Hosted: true}}
)

// counting is a world in which fields count documents.
type counting struct {
	*world
	cfg    rollup.Config
	client *rollup.Client

	mu      sync.Mutex
	changes []rollup.Change // of documents that are counted, in their order
}

func newCounting(t testing.TB, cfg rollup.Config) *counting { return newWorld(t).counting(cfg) }

func (w *world) counting(cfg rollup.Config) *counting {
	w.t.Helper()
	c := &counting{world: w, cfg: cfg, client: w.openWith(cfg)}
	w.t.Cleanup(w.server.OnChange(func(change emulator.Change) {
		if changes, ok := c.decode(change); ok {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.changes = append(c.changes, changes...)
		}
	}))
	return c
}

// decode sends a change through the wire's format. It reports false for documents that
// are not counted.
func (c *counting) decode(change emulator.Change) ([]rollup.Change, bool) {
	_, body, err := eventarc.Encode("id", change)
	if err != nil {
		c.t.Error(err)
	}
	decoded, err := c.client.Decode("application/protobuf", body)
	return decoded, err == nil && len(decoded) > 0 && decoded[0].Collection != ""
}

// happened takes the changes so far.
func (c *counting) happened() []rollup.Change {
	c.t.Helper()
	c.arrived() // changes come in order, and to one listener as soon as to another
	c.mu.Lock()
	defer c.mu.Unlock()
	changes := c.changes
	c.changes = nil
	return changes
}

func (c *counting) roller(opts rollup.RollerOptions) *rollup.Roller {
	return c.rollerOf(c.client, opts)
}

func (c *counting) rollerOf(client *rollup.Client, opts rollup.RollerOptions) *rollup.Roller {
	r := rollup.NewRoller(client, opts)
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			c.t.Error(err)
		}
	})
	return r
}

// settle has every change counted by an instance of its own, which has nothing to do any more when
// this returns: a question that an adoption asks again by itself is of no event that anybody waits
// for.
func (c *counting) settle(opts rollup.RollerOptions, changes ...rollup.Change) {
	c.t.Helper()
	r := c.roller(opts)
	c.deliver(r, changes...)
	if err := r.Close(c.ctx); err != nil {
		c.t.Error(err)
	}
}

// deliver has every change counted.
func (c *counting) deliver(r *rollup.Roller, changes ...rollup.Change) {
	c.t.Helper()
	var all sync.WaitGroup
	for _, change := range changes {
		all.Go(func() {
			if err := r.Add(c.ctx, change); err != nil {
				c.t.Errorf("%+v: %v", change, err)
			}
		})
	}
	all.Wait()
}

func (c *counting) set(path string, data map[string]any) {
	c.t.Helper()
	c.must(c.fs.Doc(path).Set(c.ctx, data))
}

func (c *counting) get(path string) map[string]any {
	c.t.Helper()
	snap, err := c.fs.Doc(path).Get(c.ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	return snap.Data()
}

// holds fails unless a document's fields are these.
func (c *counting) holds(path string, want map[string]any) {
	c.t.Helper()
	data := c.get(path)
	for field, value := range want {
		if data[field] != value {
			c.t.Errorf("%s of %s is %v, want %v", field, path, data[field], value)
		}
	}
}

func TestCountedFields(t *testing.T) {
	t.Parallel()
	for path, cfg := range map[string]rollup.Config{"counters/c": defaultCounters, "posts/c": hostedPosts, "sites/s/pages/c": hostedPages} {
		virtual.Run(t, path, func(t *testing.T) {
			c := newCounting(t, cfg)
			r := c.roller(rollup.RollerOptions{Interval: 10 * time.Millisecond})
			own := map[string]any{"title": "hello", "tags": []any{"a"}}
			if !cfg.Hosted {
				own = map[string]any{"num_shards": 1}
			}
			c.set(path, own)
			c.set(path+"/comments/1", map[string]any{"public": true})
			c.set(path+"/comments/2", map[string]any{"public": false})
			c.set(path+"/comments/3", map[string]any{})
			c.set(path+"/ratings/1", map[string]any{"stars": 5})
			c.set(path+"/ratings/2", map[string]any{"stars": 2})
			c.set(path+"/ratings/3", map[string]any{"text": "no stars"})
			changes := c.happened()
			c.deliver(r, changes...)
			c.holds(path, map[string]any{"comments": int64(3), "public": int64(1), "stars": int64(7), "likes": int64(0), "title": own["title"]})

			c.set(path+"/comments/2", map[string]any{"public": true})
			c.set(path+"/ratings/1", map[string]any{"stars": 4})
			c.must(c.fs.Doc(path + "/comments/1").Delete(c.ctx))
			c.deliver(r, c.happened()...)
			want := map[string]any{"comments": int64(2), "public": int64(1), "stars": int64(6), "likes": int64(0), "title": own["title"]}
			c.holds(path, want)
			c.deliver(r, changes...) // once more
			c.holds(path, want)

			// Beside a field that comes from shards.
			c.set(path+"/shards/0", map[string]any{"likes": 3})
			id := strings.TrimSuffix(strings.TrimPrefix(strings.NewReplacer("counters/", "", "posts/", "", "sites/", "", "pages/", "").Replace(path), "/"), "/")
			report, err := c.client.Reconcile(c.ctx, id, rollup.ReconcileOptions{})
			if err != nil || report.After != 3 || report.Fields["comments"].After != 2 {
				t.Errorf("reconcile = %+v, %v", report, err)
			}
			want["likes"] = int64(3)
			c.holds(path, want)
			if cfg.Hosted {
				for field := range c.get(path) {
					switch field {
					case "likes", "comments", "stars", "public", "title", "tags", "counter_rollup":
					default:
						t.Errorf("the app's document has got a field %s", field)
					}
				}
			}
		})
	}
}

// A walk finds the app's own documents by their bases, and so one that shows nothing but queries has one, too.
func TestWalkFindsWhatOnlyCountsDocuments(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		c := newCounting(t, rollup.Config{Place: rollup.Place{Project: "p", Counters: "posts/{post}", Fields: "comments=count(comments)", Hosted: true}})
		c.set("posts/c", map[string]any{"title": "Hello"})
		c.set("posts/c/comments/1", map[string]any{})
		c.settle(rollup.RollerOptions{Interval: 10 * time.Millisecond}, c.happened()...)
		c.set("posts/c/comments/2", map[string]any{}) // and its event is lost
		for n := 1; n <= 2; n++ {
			sum, err := c.client.ReconcileAll(c.ctx, rollup.ReconcileOptions{RecountAge: time.Nanosecond})
			if err != nil || sum.Seen != 1 || sum.Repaired != 2-n {
				t.Errorf("walk %d: %+v, %v, want that it finds the post", n, sum, err)
			}
		}
		c.holds("posts/c", map[string]any{"title": "Hello", "comments": int64(2)})
	})
}

// A field that the app has kept itself so far is never anything but the number that it was and the
// one that its documents come to: not both together, for as long as it takes to see that.
func TestFirstAnswerTakesTheNumbersPlace(t *testing.T) {
	t.Parallel()
	for path, cfg := range map[string]rollup.Config{"counters/c": defaultCounters, "posts/c": hostedPosts} {
		virtual.Run(t, path, func(t *testing.T) {
			c := newCounting(t, cfg)
			var shown []any
			t.Cleanup(c.server.OnChange(func(change emulator.Change) {
				if n := change.New.GetFields()["comments"]; n != nil {
					shown = append(shown, n.GetIntegerValue())
				}
			}))
			c.set(path, map[string]any{"comments": 57})
			c.set(path+"/comments/1", map[string]any{})
			c.set(path+"/comments/2", map[string]any{})
			c.settle(rollup.RollerOptions{Interval: 10 * time.Millisecond}, c.happened()...)
			c.holds(path, map[string]any{"comments": int64(2)})
			c.happened()
			for _, n := range shown {
				if n != int64(57) && n != int64(2) {
					t.Errorf("comments were %v, one after the other", shown)
					break
				}
			}
		})
	}
}

// Fields of one collection are counted as of one time: they agree with each other, whatever happens
// between their queries.
func TestCountedFieldsAreOfOneTime(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		c := w.counting(rollup.Config{Place: rollup.Place{Project: "p", Fields: "likes,comments=count(comments),public=count(comments where public==true)"}})
		n := 0
		conn := w.server.Conn(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			if n < 6 && strings.HasSuffix(method, "/RunAggregationQuery") {
				n++
				c.set(fmt.Sprint("counters/c/comments/", n), map[string]any{"public": true})
			}
			return streamer(ctx, desc, cc, method, opts...)
		}))
		client, err := rollup.Open(w.ctx, c.cfg, option.WithGRPCConn(conn))
		if err != nil {
			w.t.Fatal(err)
		}
		c.set("counters/c", map[string]any{})
		c.set("counters/c/comments/0", map[string]any{"public": true})
		c.deliver(c.rollerOf(client, rollup.RollerOptions{}), c.happened()...)
		if data := c.get("counters/c"); data["comments"] == int64(0) || data["public"] != data["comments"] {
			w.t.Errorf("%v, want all comments to be public", data)
		}
	})
}

// Two instances count the same post and commit in the other order: the newer value stays, also
// where it is the one of before.
func TestRecountsInTheWrongOrder(t *testing.T) {
	t.Parallel()
	for want, meanwhile := range map[int64]func(*counting){
		4: func(c *counting) {
			c.set("posts/p/comments/3", map[string]any{})
			c.set("posts/p/comments/4", map[string]any{})
		},
		1: func(c *counting) { c.must(c.fs.Doc("posts/p/comments/2").Delete(c.ctx)) },
	} {
		virtual.Run(t, fmt.Sprint(want), func(t *testing.T) {
			c := newCounting(t, hostedPosts)
			c.set("posts/p", map[string]any{})
			c.set("posts/p/comments/1", map[string]any{})
			c.settle(rollup.RollerOptions{}, c.happened()...)
			c.set("posts/p/comments/2", map[string]any{})
			second := c.happened()
			slow, fast := c.rollerOf(c.openWith(c.cfg), rollup.RollerOptions{}), c.rollerOf(c.openWith(c.cfg), rollup.RollerOptions{})
			var third []rollup.Change
			c.before(func() { // the slow one has counted 2, and its commit is on its way
				meanwhile(c)
				third = c.happened()
				c.deliver(fast, third...)
				c.holds("posts/p", map[string]any{"comments": want})
			})
			c.deliver(slow, second...)
			if len(third) == 0 {
				t.Fatal("the other instance has not counted meanwhile")
			}
			c.holds("posts/p", map[string]any{"comments": want})
		})
	}
}

// The first event of a post has it shown. What comes while that is committed has an event of its own.
func TestRecountThatAdopts(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		c := newCounting(t, hostedPosts)
		c.set("posts/p", map[string]any{})
		c.set("posts/p/comments/1", map[string]any{})
		first := c.happened()
		c.before(func() { c.set("posts/p/comments/2", map[string]any{}) })
		r := c.roller(rollup.RollerOptions{Interval: 10 * time.Millisecond})
		c.deliver(r, first...)
		c.deliver(r, c.happened()...)
		c.holds("posts/p", map[string]any{"comments": int64(2), "likes": int64(0)})
	})
}

// It is asked again at once: a post's first comment shows as soon as any other.
func TestRecountThatAdoptsIsAskedAgainAtOnce(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		c := w.counting(hostedPosts)
		c.set("posts/p", map[string]any{})
		c.set("posts/p/comments/1", map[string]any{})
		began := time.Now()
		c.deliver(c.roller(rollup.RollerOptions{Interval: time.Minute}), c.happened()...)
		if took := time.Since(began); took > time.Second {
			w.t.Errorf("the first comment shows after %v", took)
		}
		c.holds("posts/p", map[string]any{"comments": int64(1)})
	})
}

// An aggregation whose commit's answer is lost is not counted anew, and nothing is counted twice.
func TestRecountWhoseAnswerIsLost(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		c := newCounting(t, hostedPosts)
		c.set("posts/p", map[string]any{})
		r := c.roller(rollup.RollerOptions{Interval: 10 * time.Millisecond})
		for i := range 3 {
			c.set(fmt.Sprintf("posts/p/comments/%d", i), map[string]any{})
			var lost atomic.Bool
			c.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
				if writes := req.GetWrites(); len(writes) > 0 && strings.HasSuffix(writes[0].GetUpdate().GetName(), "/posts/p") && !lost.Swap(true) {
					return emulator.Verdict{After: status.Error(codes.Unavailable, "the answer is lost")}
				}
				return emulator.Verdict{}
			})
			c.deliver(r, c.happened()...)
			c.holds("posts/p", map[string]any{"comments": int64(i + 1)})
			if !lost.Load() {
				t.Error("no answer was lost")
			}
		}
	})
}

// Of a sum that is not an integer the whole part is shown, and a reconcile says so.
func TestSumThatIsNoInteger(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		c := newCounting(t, hostedPosts)
		c.set("posts/p", map[string]any{})
		c.set("posts/p/ratings/1", map[string]any{"stars": 5})
		r := c.roller(rollup.RollerOptions{Interval: 10 * time.Millisecond})
		c.deliver(r, c.happened()...)
		c.holds("posts/p", map[string]any{"stars": int64(5)})
		c.set("posts/p/ratings/2", map[string]any{"stars": 0.5})
		c.deliver(r, c.happened()...)                         // acknowledged
		c.holds("posts/p", map[string]any{"stars": int64(5)}) // of 5.5
		report, err := c.client.Reconcile(c.ctx, "p", rollup.ReconcileOptions{})
		if err != nil || !strings.Contains(report.Problem, "stars=sum(ratings.stars) is no whole number") {
			t.Errorf("reconcile = %+v, %v, want the problem", report, err)
		}
		c.holds("posts/p", map[string]any{"stars": int64(5), "comments": int64(0)})
		// A whole double is the integer that it is.
		c.set("posts/p/ratings/2", map[string]any{"stars": 2.0})
		c.deliver(r, c.happened()...)
		c.holds("posts/p", map[string]any{"stars": int64(7)})
	})
}

// A document of which the only event brought no whole number has a base all the same, by which a reconcile finds it,
// also where it is not there yet. A reconcile says what is wrong, and counts what the event was not of.
func TestFirstEventBringsNoValue(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]bool{"the document first": true, "the rating first": false} {
		virtual.Run(t, name, func(t *testing.T) {
			c := newCounting(t, hostedPosts)
			if first {
				c.set("posts/p", map[string]any{})
			}
			c.set("posts/p/ratings/1", map[string]any{"stars": 0.5})
			c.deliver(c.roller(rollup.RollerOptions{}), c.happened()...)
			if !first {
				c.set("posts/p", map[string]any{})
			}
			if s, err := c.client.ReconcileAll(c.ctx, rollup.ReconcileOptions{RecountAge: time.Nanosecond}); err != nil || s.Seen != 1 || s.Problems != 1 {
				t.Errorf("reconcile = %+v, %v, want a counter with a problem", s, err)
			}
			c.holds("posts/p", map[string]any{"comments": int64(0)})
		})
	}
}

// A query for which an index is missing is logged, and its event is not delivered for a day. Fields
// of other queries are counted all the same. One that Firestore is too busy for is asked again.
func TestAggregationThatCannotSucceed(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var answer atomic.Pointer[status.Status]
		conn := w.server.Conn(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := streamer(ctx, desc, cc, method, opts...)
			if refusal := answer.Load(); err == nil && refusal != nil && strings.HasSuffix(method, "/RunAggregationQuery") {
				stream = asking{stream, func(collection string) error {
					if collection == "shards" {
						return nil
					}
					return refusal.Err()
				}}
			}
			return stream, err
		}))
		client, err := rollup.Open(t.Context(), hostedPosts, option.WithGRPCConn(conn))
		if err != nil {
			t.Fatal(err)
		}
		c := w.counting(hostedPosts)
		r := c.rollerOf(client, rollup.RollerOptions{Interval: 10 * time.Millisecond})
		c.set("posts/p", map[string]any{})
		c.set("posts/p/comments/1", map[string]any{})
		changes := c.happened()

		answer.Store(status.New(codes.FailedPrecondition, "The query requires an index"))
		c.deliver(r, changes...)
		report, err := client.Reconcile(c.ctx, "p", rollup.ReconcileOptions{})
		if err != nil || !strings.Contains(report.Problem, "comments=count(comments) can't be counted") {
			t.Errorf("reconcile = %+v, %v, want the problem", report, err)
		}
		for _, code := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded} {
			// long before the query's own time is over
			answer.Store(status.New(code, "busy"))
			if err := r.Add(c.ctx, changes[0]); status.Code(err) != code {
				t.Errorf("while Firestore is busy: %v, want that the event comes again", err)
			}
		}
		answer.Store(nil)
		c.deliver(r, changes...)
		c.holds("posts/p", map[string]any{"comments": int64(1)})
	})
}

// A comment's event comes before its post is there: reconcile finds the post once it is.
func TestEventBeforeItsCounter(t *testing.T) {
	t.Parallel()
	for path, cfg := range map[string]rollup.Config{"posts/c": hostedPosts, "sites/s/pages/c": hostedPages} {
		virtual.Run(t, path, func(t *testing.T) {
			c := newCounting(t, cfg)
			c.set(path+"/comments/1", map[string]any{})
			c.deliver(c.roller(rollup.RollerOptions{}), c.happened()...)
			if c.exists(c.fs.Doc(path)) {
				t.Fatal("the document was made")
			}
			c.set(path, map[string]any{"title": "hello"})
			for range 2 {
				if s, err := c.client.ReconcileAll(c.ctx, rollup.ReconcileOptions{}); err != nil || !s.Done || s.Seen != 1 {
					t.Errorf("reconcile = %+v, %v", s, err)
				}
				c.holds(path, map[string]any{"comments": int64(1), "title": "hello"})
			}
		})
	}
}

// The app deletes its document and makes it anew, with what its clients think is right. Comments
// that came meanwhile are in the next reconcile's count.
func TestDocumentThatIsMadeAnew(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		c := newCounting(t, hostedPosts)
		r := c.roller(rollup.RollerOptions{Interval: 10 * time.Millisecond})
		c.set("posts/p", map[string]any{})
		c.set("posts/p/comments/1", map[string]any{})
		c.deliver(r, c.happened()...)
		c.must(c.fs.Doc("posts/p").Delete(c.ctx))
		c.set("posts/p/comments/2", map[string]any{})
		c.deliver(r, c.happened()...)
		c.set("posts/p", map[string]any{"comments": 1, "public": 0, "stars": 0})
		if s, err := c.client.ReconcileAll(c.ctx, rollup.ReconcileOptions{}); err != nil || s.Seen != 1 {
			t.Errorf("reconcile = %+v, %v", s, err)
		}
		c.holds("posts/p", map[string]any{"comments": int64(2)})
	})
}

// What was counted for a document that never comes goes as what is left of one does: after
// CleanupAfter, and not before.
func TestAnswerForADocumentThatNeverComes(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		c := newCounting(t, hostedPages)
		c.set("sites/s/pages/c/comments/1", map[string]any{})
		c.deliver(c.roller(rollup.RollerOptions{}), c.happened()...)
		its := c.fs.Doc("sites/s/pages/c/counter_rollup/base")
		removed := 0
		remove := func(context.Context, string, time.Time) (bool, error) {
			removed++
			_, err := its.Delete(c.ctx)
			return true, err
		}
		for _, step := range []struct {
			after   time.Duration
			removed int
		}{{0, 0}, {time.Hour, 0}, {time.Nanosecond, 1}, {time.Nanosecond, 1}} {
			if _, err := c.client.ReconcileAll(c.ctx, rollup.ReconcileOptions{CleanupAfter: step.after, Remove: remove}); err != nil || removed != step.removed {
				t.Errorf("after %v: removed %d times, %v", step.after, removed, err)
			}
		}
	})
}

// A comment comes below a document that has been gone for long, just before a reconcile would
// remove what is left of it: something was counted, so it stays, and is shown in the document
// that is made again.
func TestWhatIsCountedPutsOffACleanup(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		c := w.counting(hostedPosts)
		r := c.roller(rollup.RollerOptions{})
		c.set("posts/p", map[string]any{})
		c.set("posts/p/comments/1", map[string]any{})
		c.deliver(r, c.happened()...)
		c.holds("posts/p", map[string]any{"comments": int64(1)})
		c.must(c.fs.Doc("posts/p").Delete(c.ctx))
		reconcile := func(due bool) {
			w.t.Helper()
			asked := false
			remove := func(context.Context, string, time.Time) (bool, error) { asked = true; return true, nil }
			if r, err := c.client.Reconcile(c.ctx, "p", rollup.ReconcileOptions{Remove: remove}); err != nil || r.Deleted != due || asked != due {
				w.t.Fatalf("%+v, %v, want deleted %t", r, err, due)
			}
		}
		reconcile(false)
		time.Sleep(25 * time.Hour)
		c.set("posts/p/comments/2", map[string]any{})
		c.deliver(r, c.happened()...)
		reconcile(false)
		c.set("posts/p", map[string]any{})
		c.happened()
		if _, err := c.client.ReconcileAll(c.ctx, rollup.ReconcileOptions{}); err != nil {
			w.t.Fatal(err)
		}
		c.holds("posts/p", map[string]any{"comments": int64(2)})
		c.must(c.fs.Doc("posts/p").Delete(c.ctx))
		reconcile(false)
		time.Sleep(25 * time.Hour)
		reconcile(true)
	})
}

// Deletions of what was below a document that is gone bring nothing back, and leave nothing.
func TestDeletionsBelowADocumentThatIsGone(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		c := newCounting(t, hostedPages)
		c.set("sites/s/pages/c/comments/1", map[string]any{})
		c.set("sites/s/pages/c/comments/2", map[string]any{}) // is to be deleted next
		c.must(c.fs.Doc("sites/s/pages/c/comments/1").Delete(c.ctx))
		c.deliver(c.roller(rollup.RollerOptions{}), c.happened()[2])
		if docs, err := c.fs.CollectionGroup("counter_rollup").Documents(c.ctx).GetAll(); err != nil || len(docs) != 0 {
			t.Errorf("%d documents are left, %v", len(docs), err)
		}
	})
}

// A reconcile counts again what has missed its event: at once where counters are named, and else
// after a while and within its budget.
func TestReconcileCountsAgain(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		c := newCounting(t, hostedPosts)
		for i := range 3 {
			post := fmt.Sprintf("posts/p%d", i)
			c.set(post, map[string]any{})
			c.set(post+"/comments/1", map[string]any{})
			// A shard's event has adopted it, and nothing has counted its comments.
			state := rollup.Change{Fields: []string{"likes"}, At: time.Unix(1, 0)}
			if _, err := c.client.Apply(c.ctx, fmt.Sprint("p", i), []rollup.Change{state}); err != nil {
				t.Fatal(err)
			}
		}
		all := func(opts rollup.ReconcileOptions) rollup.Summary {
			t.Helper()
			opts.Parallel = 1
			s, err := c.client.ReconcileAll(c.ctx, opts)
			if err != nil || !s.Done || s.Seen != 3 {
				t.Errorf("reconcile = %+v, %v", s, err)
			}
			return s
		}
		// What was never counted is, within the budget.
		if s := all(rollup.ReconcileOptions{RecountReads: -1}); s.Reads != 0 {
			t.Errorf("without a budget: %+v", s)
		}
		if s := all(rollup.ReconcileOptions{RecountReads: 4}); s.Reads != 6 {
			t.Errorf("a budget of 4 reads, at 3 for each post: %+v", s)
		}
		if s := all(rollup.ReconcileOptions{}); s.Reads != 3 {
			t.Errorf("what the last one has left: %+v", s)
		}
		for i := range 3 {
			c.holds(fmt.Sprintf("posts/p%d", i), map[string]any{"comments": int64(1), "public": int64(0), "stars": int64(0)})
		}
		c.set("posts/p1/comments/2", map[string]any{}) // whose event is lost
		if s := all(rollup.ReconcileOptions{}); s.Reads != 0 || s.Repaired != 0 {
			t.Errorf("nothing is old enough: %+v", s)
		}
		c.holds("posts/p1", map[string]any{"comments": int64(1)})
		dry, err := c.client.Reconcile(c.ctx, "p1", rollup.ReconcileOptions{DryRun: true})
		if got := dry.Fields["comments"]; err != nil || got.Before != 1 || got.After != 2 || got.Late != 1 {
			t.Errorf("dry run = %+v, %v", dry, err)
		}
		c.holds("posts/p1", map[string]any{"comments": int64(1)})
		named := c.client.ReconcileSome(c.ctx, []string{"p1"}, rollup.ReconcileOptions{})
		if named.Repaired != 1 || named.Reads != 3 {
			t.Errorf("reconcile of one that is named = %+v", named)
		}
		c.holds("posts/p1", map[string]any{"comments": int64(2)})
		c.set("posts/p2/comments/2", map[string]any{})
		if s := all(rollup.ReconcileOptions{RecountAge: time.Nanosecond}); s.Repaired != 1 || s.Reads != 9 {
			t.Errorf("everything is old enough: %+v", s)
		}
		c.holds("posts/p2", map[string]any{"comments": int64(2)})

		// Something else writes the field: nobody knows any more as of when it is, so it is counted again.
		c.must(c.fs.Doc("posts/p0").Update(c.ctx, []firestore.Update{{Path: "comments", Value: 99}}))
		if s := all(rollup.ReconcileOptions{}); s.Repaired != 1 || s.Drift != 98 || s.Reads != 1 {
			t.Errorf("of a field that something else has written: %+v", s)
		}
		c.holds("posts/p0", map[string]any{"comments": int64(1)})
	})
}

var recountOperations = flag.Int("recount.operations", 1000, "creations, edits and deletions of TestCountedFieldsThroughFaults")

// querying is a connection over which a query of documents fails if this says so of it.
func (w *world) querying(fails func(ctx context.Context) error) *grpc.ClientConn {
	w.t.Helper()
	conn := w.server.Conn(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := streamer(ctx, desc, cc, method, opts...)
		if err == nil && strings.HasSuffix(method, "/RunAggregationQuery") {
			stream = asking{stream, func(collection string) error {
				if collection == "shards" {
					return nil
				}
				return fails(ctx)
			}}
		}
		return stream, err
	}))
	return conn
}

// unanswered is what becomes of a query that gets no answer.
func unanswered(ctx context.Context) error {
	<-ctx.Done()
	return status.FromContextError(ctx.Err()).Err()
}

// withoutAnswers is a connection over which so many of the next queries get no answer, and that counts all.
func (w *world) withoutAnswers(silent, asked *atomic.Int64) *grpc.ClientConn {
	w.t.Helper()
	return w.querying(func(ctx context.Context) error {
		if asked.Add(1); silent.Add(-1) >= 0 {
			return unanswered(ctx)
		}
		return nil
	})
}

// There are more posts than a walk has reads for, and than are due again by the time that the last one's turn comes. The
// reads go to each of them in turn, also where a walk takes several calls.
func TestWalksAskForAllPostsInTurn(t *testing.T) {
	t.Parallel()
	for _, counters := range []string{"posts/{post}", "teams/{team}/posts/{post}"} {
		for _, cut := range []bool{false, true} {
			t.Run(fmt.Sprint(counters, " cut ", cut), func(t *testing.T) {
				t.Parallel()
				inVirtualTime(t, func(w *world) {
					c := w.counting(rollup.Config{Place: rollup.Place{Project: "p", Counters: counters, Fields: "comments=count(comments)", Hosted: true}})
					var posts []string
					for n := range 10 {
						post := strings.NewReplacer("{team}", fmt.Sprint("t", n%3), "{post}", fmt.Sprint(n)).Replace(counters)
						posts = append(posts, post)
						c.set(post, map[string]any{})
						c.set(post+"/comments/1", map[string]any{})
					}
					c.settle(rollup.RollerOptions{}, c.happened()...)
					for _, post := range posts {
						c.set(post+"/comments/2", map[string]any{}) // and its event is lost
					}
					for range 12 {
						time.Sleep(time.Hour)
						reads, done := int64(0), false
						for calls := 0; !done; calls++ {
							ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
							n := 0
							sum, err := c.client.ReconcileAll(ctx, rollup.ReconcileOptions{Resume: true, RecountAge: 3 * time.Hour, RecountReads: 2 - reads, Parallel: 1, Report: func(rollup.Report, error) {
								if n++; cut && calls == 0 && n == 4 {
									cancel()
								}
							}})
							cancel()
							if err != nil || sum.Failed > 0 || calls > 3 {
								w.t.Fatal(sum, err)
							}
							if reads, done = reads+sum.Reads, sum.Done; reads >= 2 {
								reads = 3 // none, and not the default
							}
						}
						if reads > 3 {
							w.t.Errorf("a walk took %d reads", reads)
						}
					}
					for _, post := range posts {
						c.holds(post, map[string]any{"comments": int64(2)})
					}
				})
			})
		}
	}
}

// A query gets no answer. The connection may have been silent, so it is asked again over another.
// Where that gets none either until its time is over, it may take too long: the event is acknowledged
// for a note, so that it is in an answer once there is one.
func TestQueryWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		var silent, asked atomic.Int64
		conn := w.withoutAnswers(&silent, &asked)
		cfg := rollup.Config{Place: rollup.Place{Project: "p", Counters: "posts/{post}", Fields: "likes,comments=count(comments)", Hosted: true}}
		var log strings.Builder
		logged := cfg
		logged.Logger = slog.New(slog.NewTextHandler(&log, nil))
		client, err := rollup.Open(w.ctx, logged, option.WithGRPCConn(conn))
		if err != nil {
			w.t.Fatal(err)
		}
		c := w.counting(cfg)
		r := c.rollerOf(client, rollup.RollerOptions{})
		c.set("posts/p", map[string]any{})
		c.set("posts/p/comments/1", map[string]any{})
		c.deliver(r, c.happened()...)
		for n, times := range []int64{0, 1, 0} {
			c.set(fmt.Sprint("posts/p/comments/more", n), map[string]any{})
			silent.Store(times)
			c.deliver(r, c.happened()...)
			// no other event has to come for that
			c.holds("posts/p", map[string]any{"comments": int64(n + 2)})
		}
		silent.Store(1_000_000)
		for n, want := range []int64{2, 2, 2} {
			time.Sleep(9 * time.Minute)
			c.set(fmt.Sprint("posts/p/comments/slow", n), map[string]any{})
			before := asked.Load()
			c.deliver(r, c.happened()...)
			if got := asked.Load() - before; got != want {
				w.t.Errorf("event %d took %d queries, want %d", n, got, want)
			}
		}
		if got := strings.Count(log.String(), rollup.LogNoted); got != 1 {
			w.t.Errorf("a note was made %d times, want once:\n%s", got, log.String())
		}
		silent.Store(0) // and no other event comes
		if _, err := client.Reconcile(w.ctx, "p", rollup.ReconcileOptions{}); err != nil {
			w.t.Error(err)
		}
		c.holds("posts/p", map[string]any{"comments": int64(7)})
	})
}

// A reconcile for a note, for which events were acknowledged, gets no answer to its queries. The note stays until
// they have one, however often they are asked; after ten times that is rare.
func TestNoteStaysUntilItsQueriesAreAnswered(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		var silent, asked atomic.Int64
		cfg := rollup.Config{Place: rollup.Place{Project: "p", Counters: "posts/{post}", Fields: "likes,comments=count(comments)", Hosted: true}}
		client, err := rollup.Open(w.ctx, cfg, option.WithGRPCConn(w.withoutAnswers(&silent, &asked)))
		if err != nil {
			w.t.Fatal(err)
		}
		db, err := store.Open(w.ctx, cfg.Place, option.WithGRPCConn(w.withoutAnswers(&silent, &asked)))
		if err != nil {
			w.t.Fatal(err)
		}
		c := w.counting(cfg)
		reconcile := func() {
			w.t.Helper()
			if _, err := client.Reconcile(w.ctx, "p", rollup.ReconcileOptions{}); err != nil {
				w.t.Fatal(err)
			}
		}
		c.set("posts/p", map[string]any{})
		reconcile()
		for _, unanswered := range []int{1, 4, 12} { // reconciles
			c.set(fmt.Sprint("posts/p/comments/", unanswered), map[string]any{})
			if _, err := db.EnsureNote(w.ctx, "p", ""); err != nil {
				w.t.Fatal(err)
			}
			silent.Store(1_000_000)
			for n := range unanswered {
				reconcile()
				note, now, err := db.NoteOf(w.ctx, "p")
				if err != nil || note == nil {
					w.t.Fatalf("after %d reconciles without an answer the note is %v, %v", n+1, note, err)
				}
				if pause := note.Due.Sub(now); pause > 5*time.Minute != (n >= 10) || pause > time.Hour {
					w.t.Errorf("after %d reconciles without an answer the next is in %v", n+1, pause)
				}
			}
			silent.Store(0)
			reconcile()
			if note, _, err := db.NoteOf(w.ctx, "p"); note != nil || err != nil {
				w.t.Errorf("after an answer the note is %v, %v", note, err)
			}
		}
		c.holds("posts/p", map[string]any{"comments": int64(3)})
	})
}

// Queries that fail, and then get no answer, are asked until there is one: an event is acknowledged
// once it is counted.
func TestQueriesThatFailAndThenGetNoAnswer(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		var asked atomic.Int64
		client, err := rollup.Open(w.ctx, hostedPosts, option.WithGRPCConn(w.querying(func(ctx context.Context) error {
			switch asked.Add(1) {
			case 1, 2:
				return status.Error(codes.Unavailable, "busy")
			case 3:
				return unanswered(ctx)
			}
			return nil
		})))
		if err != nil {
			w.t.Fatal(err)
		}
		c := w.counting(hostedPosts)
		r := c.rollerOf(client, rollup.RollerOptions{})
		c.set("posts/p", map[string]any{})
		c.set("posts/p/comments/1", map[string]any{})
		first := c.happened()
		if err := r.Add(c.ctx, first[0]); err != nil || asked.Load() < 4 {
			w.t.Errorf("%v after %d queries", err, asked.Load())
		}
		c.holds("posts/p", map[string]any{"comments": int64(1)})
	})
}

// Documents of 20 posts are made, edited and deleted at random, with events that come twice, late,
// in any order, and some never, and instances that die. When it is quiet, each field is what a
// fresh query says; where an event was lost, it is once a reconcile has come by.
func TestCountedFieldsThroughFaults(t *testing.T) {
	t.Parallel()
	for _, drop := range []float64{0, 0.02} {
		t.Run(fmt.Sprintf("drop=%v", drop), func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(w *world) { countThroughFaults(w, drop) })
		})
	}
}

func countThroughFaults(w *world, drop float64) {
	const posts = 20
	c := w.counting(hostedPosts)
	for p := range posts {
		c.set(fmt.Sprintf("posts/%d", p), map[string]any{"title": "hello"})
	}
	shaken := c.shake(3, drop)
	var documents [posts][]string
	for n := range *recountOperations {
		p := w.rand.IntN(posts)
		kind := []string{"comments", "ratings"}[w.rand.IntN(2)]
		data := map[string]any{"public": w.rand.IntN(2) == 0, "stars": w.rand.IntN(6)}
		switch at := w.rand.IntN(10); {
		case at < 5 || len(documents[p]) == 0:
			path := fmt.Sprintf("posts/%d/%s/%d", p, kind, n)
			documents[p] = append(documents[p], path)
			c.set(path, data)
		case at < 7:
			c.set(documents[p][w.rand.IntN(len(documents[p]))], data)
		default:
			i := w.rand.IntN(len(documents[p]))
			c.must(c.fs.Doc(documents[p][i]).Delete(c.ctx))
			documents[p] = append(documents[p][:i], documents[p][i+1:]...)
		}
		if n%500 == 499 {
			shaken.kill()
		}
		time.Sleep(time.Duration(w.rand.IntN(10)) * time.Millisecond)
	}
	// The last event may have come just now, to an instance that waits for its share of the document's
	// writes: that of three, at one a second, comes within 3.75 s.
	if quiet := shaken.calm(); quiet > 3*time.Second*5/4+100*time.Millisecond {
		w.t.Errorf("the fields were right after %v of quiet", quiet)
	}
	check := func(missing func(post string) bool) {
		for p := range posts {
			post := fmt.Sprintf("posts/%d", p)
			if missing(fmt.Sprint(p)) {
				continue
			}
			public := c.fs.Collection(post+"/comments").Where("public", "==", true)
			for field, q := range map[string]*firestore.AggregationQuery{
				"comments": c.fs.Collection(post + "/comments").NewAggregationQuery().WithCount("n"),
				"public":   public.NewAggregationQuery().WithCount("n"),
				"stars":    c.fs.Collection(post+"/ratings").NewAggregationQuery().WithSum("stars", "n"),
			} {
				result, err := q.Get(c.ctx)
				if err != nil {
					w.t.Fatal(err)
				}
				if want, got := result["n"].(*firestorepb.Value).GetIntegerValue(), c.get(post)[field]; got != want {
					w.t.Errorf("%s of %s is %v, want %d", field, post, got, want)
				}
			}
		}
	}
	check(shaken.lacks)
	events, commits := shaken.events.Load(), shaken.commits.Load()
	w.t.Logf("%d events, %d commits, %+v", events, commits, w.server.Stats())
	if commits*2 > events {
		w.t.Errorf("%d events took %d commits", events, commits)
	}
	if reads, counters := shaken.mend(); reads > 3*counters {
		w.t.Errorf("the reconcile of %d posts took %d reads", counters, reads)
	}
	check(func(string) bool { return false })
}
