package rollup_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// succession is a page on which the extension has counted, and whose clients go on.
type succession struct {
	*world
	cfg    rollup.Config
	client *rollup.Client
	page   *firestore.DocumentRef
	inbox  *firestore.CollectionRef // the extension's shards
}

func (w *world) succeeds() *succession {
	w.t.Helper()
	s := &succession{world: w, page: w.fs.Doc("pages/hello"), cfg: rollup.Config{Place: rollup.Place{
		Project: "p", Counters: "pages/{page}", Fields: "visits,likes", Hosted: true, Extension: true,
	}}}
	s.inbox = s.page.Collection("_counter_shards_")
	s.client = w.openWith(s.cfg)
	w.must(s.page.Set(w.ctx, map[string]any{"title": "Hello", "visits": 1000, "likes": 7}))
	return s
}

// decode sends a change through the wire's format.
func (s *succession) decode(change emulator.Change) []rollup.Change {
	_, body, err := eventarc.Encode("id", change)
	s.must(nil, err)
	changes, err := s.client.Decode("application/protobuf", body)
	if err != nil {
		return nil
	}
	return changes
}

// click has a client of the extension add to a shard of its own.
func (s *succession) click(shard string, fields map[string]any) {
	s.t.Helper()
	for name, by := range fields {
		fields[name] = firestore.Increment(by)
	}
	s.must(s.inbox.Doc(shard).Set(s.ctx, fields, firestore.MergeAll))
}

// change is what an event of a shard brings.
func (s *succession) change(shard string) rollup.Change {
	s.t.Helper()
	snap, err := s.inbox.Doc(shard).Get(s.ctx)
	s.must(nil, err)
	return rollup.Change{Counter: "hello", Extension: shard, Fields: []string{"_counter_shards_/" + shard}, At: snap.UpdateTime}
}

// sees is what a client shows: the page's number and its own shard's, all as of one time.
func (s *succession) sees(shard, field string) int64 {
	s.t.Helper()
	snaps, err := s.fs.GetAll(s.ctx, []*firestore.DocumentRef{s.page, s.inbox.Doc(shard)})
	s.must(nil, err)
	sum := 0.0
	for _, snap := range snaps {
		switch n := snap.Data()[field].(type) {
		case int64:
			sum += float64(n)
		case float64:
			sum += n
		}
	}
	return int64(sum)
}

func (s *succession) shows(visits, likes int64) {
	s.t.Helper()
	snap, err := s.page.Get(s.ctx)
	s.must(nil, err)
	if data := snap.Data(); data["visits"] != visits || data["likes"] != likes || data["title"] != "Hello" {
		s.t.Errorf("the page is %v, want %d visits and %d likes", data, visits, likes)
	}
}

// What clients of the extension write is in the document's fields, which go on from what the extension has counted:
// doubles, several fields of a shard, what its workers left, and what the app's own requests count beside.
func TestExtensionsClientsGoOn(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		s := w.succeeds()
		s.click("web", map[string]any{"visits": 3, "likes": 1})
		s.click("android", map[string]any{"visits": 4.0})
		s.must(s.inbox.Doc("\t2f1c").Set(s.ctx, map[string]any{"_updates_": []any{
			map[string]any{"_id_": "x", "_data_": map[string]any{"visits": 20, "likes": 2}},
			map[string]any{"_id_": "y", "_data_": map[string]any{"visits": -5}},
		}}))
		s.must(s.page.Collection("shards").Doc("0").Set(s.ctx, map[string]any{"visits": 100}))
		if got := s.exact(); got != 1100 {
			t.Errorf("exact before: %d, want what the extension has counted, and ours", got)
		}
		if got := s.sees("web", "visits"); got != 1003 {
			t.Errorf("before: %d", got)
		}
		// Of all of these only one event comes.
		a, err := s.client.Apply(s.ctx, "hello", []rollup.Change{s.change("web")})
		s.must(nil, err)
		if !a.Committed {
			t.Errorf("%+v, want a commit", a)
		}
		s.shows(1000+3+4+15+100, 7+1+2)
		if s.sees("web", "visits") != s.sees("nobody", "visits") {
			t.Errorf("a client sees its own visits twice")
		}
		// Its own writes are no news, nor is the same event once more.
		a, err = s.client.Apply(s.ctx, "hello", []rollup.Change{s.change("web")})
		s.must(nil, err)
		if a.Committed {
			t.Errorf("once more: %+v, want nothing to do", a)
		}
		s.click("web", map[string]any{"visits": -2, "likes": 0})
		s.click("ios", map[string]any{"visits": 1.5})
		_, err = s.client.Apply(s.ctx, "hello", []rollup.Change{s.change("web"), s.change("ios")})
		s.must(nil, err)
		s.shows(1121, 10) // the half stays
		s.click("ios", map[string]any{"visits": 0.5})
		_, err = s.client.Apply(s.ctx, "hello", []rollup.Change{s.change("ios")})
		s.must(nil, err)
		s.shows(1122, 10)

		// An event is lost: a reconcile takes it over.
		s.click("web", map[string]any{"visits": 9})
		r, err := s.client.Reconcile(s.ctx, "hello", rollup.ReconcileOptions{})
		if err != nil || r.Late != 9 {
			t.Errorf("reconcile: %+v, %v", r, err)
		}
		s.shows(1131, 10)
		if got := s.exact(); got != 1131 {
			t.Errorf("exact: %d", got)
		}
		// An import finds nothing to add but what waits.
		s.click("web", map[string]any{"visits": 4})
		db, err := store.Open(s.ctx, s.cfg.Place, option.WithGRPCConn(s.connect()))
		s.must(nil, err)
		defer db.Close()
		done, err := extension.Import(s.ctx, db, "hello", extension.Source{Path: "pages/hello", Field: "visits"})
		if err != nil || done.Value != 1135 || done.Added != 4 {
			t.Errorf("import: %+v, %v; want 4 more", done, err)
		}
		s.shows(1135, 10)
		if r, err := s.client.Reconcile(s.ctx, "hello", rollup.ReconcileOptions{}); err != nil || !r.Right() {
			t.Errorf("reconcile: %+v, %v; want nothing to do", r, err)
		}
	})
}

// The events of shards that a take-over has emptied carry no news, nor do those of shards that are deleted.
func TestTakenShardsAreNoNews(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		s := w.succeeds()
		var events, news atomic.Int64
		defer w.server.OnChange(func(change emulator.Change) {
			if strings.Contains(change.Name, "/_counter_shards_/") {
				events.Add(1)
				news.Add(int64(len(s.decode(change))))
			}
		})()
		s.click("web", map[string]any{"visits": 3})
		_, err := s.client.Apply(s.ctx, "hello", []rollup.Change{s.change("web")})
		s.must(nil, err)
		s.must(s.inbox.Doc("web").Delete(s.ctx))
		w.arrived()
		if events.Load() != 3 || news.Load() != 1 {
			t.Errorf("%d of %d events are news, want the click's alone of 3", news.Load(), events.Load())
		}
	})
}

// While the extension runs nothing is changed, and the counter is noted. Once it has been quiet for five minutes, what
// has come since is taken over.
func TestExtensionStillRuns(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		s := w.succeeds()
		state := s.fs.Doc("_firebase_ext_/sharded_counter")
		s.must(state.Set(s.ctx, map[string]any{"timestamp": firestore.ServerTimestamp}))
		r := rollup.NewRoller(s.client, rollup.RollerOptions{})
		defer r.Close(s.ctx)
		s.click("web", map[string]any{"visits": 3})
		s.must(nil, r.Add(s.ctx, s.change("web")))
		s.must(s.page.Collection("shards").Doc("0").Set(s.ctx, map[string]any{"visits": 1}))
		s.must(nil, r.Add(s.ctx, rollup.Change{Counter: "hello", Shard: "0", Fields: []string{"visits"}}))
		s.shows(1000, 7)
		if n, _, err := s.client.Noted(s.ctx); n != 1 || err != nil {
			t.Errorf("%d noted, %v; want 1", n, err)
		}
		time.Sleep(6 * time.Minute)
		s.click("other", map[string]any{"visits": 1}) // as some event does
		s.must(nil, r.Add(s.ctx, s.change("other")))
		s.shows(1005, 7)
		time.Sleep(2 * time.Minute)
		s.click("other", map[string]any{"visits": 1})
		s.must(nil, r.Add(s.ctx, s.change("other")))
		time.Sleep(time.Minute)
		if n, _, err := s.client.Noted(s.ctx); n != 0 || err != nil {
			t.Errorf("%d noted, %v; want none", n, err)
		}
		s.shows(1006, 7)
	})
}

// Neither a document without a whole number, nor one that is missing has anything taken over:
// whoever reads it sees its own visits beside it as before.
func TestWhatTheExtensionKeeps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		page map[string]any
		base map[string]any
	}{
		"a fraction": {page: map[string]any{"visits": 1.5}},
		"a text":     {page: map[string]any{"visits": "many"}},
		"missing":    {},
		"no room": {page: map[string]any{"visits": 1<<62 + 1<<61}, base: map[string]any{"format": 2, "shards": "shards", "hosted": true, "counters": "pages/{page}",
			"base": map[string]any{"visits": 1 << 62}, "replaced": map[string]any{"visits": 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(w *world) {
				s := w.succeeds()
				if c.page == nil {
					s.must(s.page.Delete(s.ctx))
				} else {
					s.must(s.page.Set(s.ctx, c.page))
				}
				if c.base != nil {
					s.must(s.page.Collection("counter_rollup").Doc("base").Set(s.ctx, c.base))
				}
				by := 2
				if name == "no room" {
					s.must(s.page.Collection("shards").Doc("0").Set(s.ctx, map[string]any{"visits": 1 << 61}))
					by = 1 << 61
				}
				s.click("web", map[string]any{"visits": by})
				before := s.sees("web", "visits")
				_, err := s.client.Apply(s.ctx, "hello", []rollup.Change{s.change("web")})
				s.must(nil, err)
				_, err = s.client.Reconcile(s.ctx, "hello", rollup.ReconcileOptions{})
				s.must(nil, err)
				snap, err := s.inbox.Doc("web").Get(s.ctx)
				s.must(nil, err)
				if got := s.sees("web", "visits"); snap.Data()["visits"] != int64(by) || name != "no room" && got != before {
					t.Errorf("a client sees %d and its shard holds %v, want %d and %d", got, snap.Data()["visits"], before, by)
				}
			})
		})
	}
}

// A field whose total can't be shown stays in the extension's shards, and keeps no other one there.
func TestOneFieldIsKept(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		s := w.succeeds()
		s.must(s.page.Collection("shards").Doc("0").Set(s.ctx, map[string]any{"likes": math.Inf(1)}))
		s.click("web", map[string]any{"visits": 2, "likes": 1})
		_, err := s.client.Apply(s.ctx, "hello", []rollup.Change{s.change("web")})
		s.must(nil, err)
		s.shows(1002, 7)
		s.click("android", map[string]any{"visits": 3.0, "likes": 1.0})
		report, err := s.client.Reconcile(s.ctx, "hello", rollup.ReconcileOptions{})
		if s.must(nil, err); !strings.Contains(report.Problem, "likes") {
			t.Errorf("the problem is %q, want one of likes", report.Problem)
		}
		s.shows(1005, 7)
		if web, android := s.sees("web", "likes"), s.sees("android", "likes"); web != 8 || android != 8 {
			t.Errorf("clients see %d and %d likes, want 8", web, android)
		}

		s.must(s.page.Collection("shards").Doc("0").Set(s.ctx, map[string]any{"likes": 0}))
		_, err = s.client.Reconcile(s.ctx, "hello", rollup.ReconcileOptions{})
		s.must(nil, err)
		s.shows(1005, 9)
	})
}

// An event is done only once its shard is taken over: not if the commit that was to do that has failed, nor if the
// event comes again before the next one.
func TestFailedTakeOver(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]codes.Code{"contention": codes.Aborted, "no quota": codes.ResourceExhausted, "no answer": codes.Unavailable, "refused": codes.PermissionDenied} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(w *world) {
				s := w.succeeds()
				var fails atomic.Bool
				fails.Store(true)
				s.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
					if ours := len(req.GetWrites()) > 1; ours && fails.Load() {
						v.Before = status.Error(code, "failed")
					}
					return v
				})
				r := rollup.NewRoller(s.client, rollup.RollerOptions{})
				s.click("web", map[string]any{"visits": 3})
				change := s.change("web")
				var all sync.WaitGroup
				for range 2 {
					all.Go(func() {
						short, cancel := context.WithTimeout(s.ctx, 30*time.Second)
						defer cancel()
						if err := r.Add(short, change); err == nil && s.sees("nobody", "visits") != 1003 {
							n, _, err := s.client.Noted(s.ctx)
							if n == 0 || err != nil {
								t.Errorf("the event is done, and the page shows %d visits; %d noted, %v", s.sees("nobody", "visits"), n, err)
							}
						}
					})
					time.Sleep(10 * time.Second)
				}
				all.Wait()
				fails.Store(false)
				time.Sleep(time.Minute)
				s.must(nil, r.Add(s.ctx, change))
				s.must(nil, r.Close(s.ctx))
				s.shows(1003, 7)
			})
		})
	}
}

// An app that writes its document, whole or in part, while a click is taken over only has that done once more.
func TestAppWritesMeanwhile(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(*succession){
		"a field": func(s *succession) { s.must(s.page.Set(s.ctx, map[string]any{"title": "Hello"}, firestore.MergeAll)) },
		"all of it": func(s *succession) {
			s.must(s.page.Set(s.ctx, map[string]any{"title": "Hello", "visits": 1000, "likes": 7}))
		},
		"it makes it again": func(s *succession) {
			s.must(s.page.Delete(s.ctx))
			s.must(s.page.Set(s.ctx, map[string]any{"title": "Hello", "visits": 1000, "likes": 7}))
		},
		"a shard is deleted": func(s *succession) { s.must(s.inbox.Doc("other").Delete(s.ctx)) },
		"and made again": func(s *succession) {
			s.must(s.inbox.Doc("other").Delete(s.ctx))
			s.click("other", map[string]any{"visits": 1})
		},
	} {
		for _, shown := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", shown before: ", shown), func(t *testing.T) {
				t.Parallel()
				inVirtualTime(t, func(w *world) {
					s := w.succeeds()
					if shown {
						s.click("web", map[string]any{"visits": 0})
						_, err := s.client.Reconcile(s.ctx, "hello", rollup.ReconcileOptions{})
						s.must(nil, err)
					}
					s.click("web", map[string]any{"visits": 3})
					s.click("other", map[string]any{"visits": 1})
					want := int64(1004)
					if name == "a shard is deleted" { // with what was in it
						want = 1003
					}
					var once sync.Once
					s.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
						if len(req.GetWrites()) > 2 {
							once.Do(func() { time.Sleep(time.Millisecond); write(s) })
						}
						return v
					})
					r := rollup.NewRoller(s.client, rollup.RollerOptions{})
					s.must(nil, r.Add(s.ctx, s.change("web"), s.change("other")))
					if name == "and made again" {
						time.Sleep(time.Second)
						s.must(nil, r.Add(s.ctx, s.change("other")))
					}
					s.must(nil, r.Close(s.ctx))
					s.shows(want, 7)
				})
			})
		}
	}
}

// Hundreds of shards share a commit; what is beyond waits for the next one, a second later.
func TestManyClientsAtOnce(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		s := w.succeeds()
		const clients = 450
		batch := w.fs.BulkWriter(w.ctx)
		var changes []rollup.Change
		for n := range clients {
			id := fmt.Sprint("client-", n)
			_, err := batch.Set(s.inbox.Doc(id), map[string]any{"visits": 1})
			w.must(nil, err)
			changes = append(changes, rollup.Change{Counter: "hello", Extension: id, Fields: []string{"_counter_shards_/" + id}})
		}
		batch.End()
		for i := range changes {
			changes[i].At = s.change(changes[i].Extension).At
		}
		time.Sleep(time.Minute) // so that nothing else is looked for when it comes to the rest
		var commits atomic.Int64
		defer w.server.OnChange(func(c emulator.Change) {
			if strings.HasSuffix(c.Name, "/pages/hello") {
				commits.Add(1)
			}
		})()
		r := rollup.NewRoller(s.client, rollup.RollerOptions{Burst: 1})
		var all sync.WaitGroup
		for _, change := range changes {
			all.Go(func() { s.must(nil, r.Add(s.ctx, change)) })
		}
		all.Wait()
		s.must(nil, r.Close(s.ctx))
		w.arrived()
		s.shows(1000+clients, 7)
		if n := commits.Load(); n < 2 || n > 3 {
			t.Errorf("%d commits, want two, and maybe one more of the event that came first", n)
		}
	})
}

// asks passes queries on, but for those that refuse returns an error of.
type asks struct {
	grpc.ClientStream
	refuse func(*firestorepb.RunQueryRequest) error
}

func (a asks) SendMsg(m any) error {
	if q, is := m.(*firestorepb.RunQueryRequest); is {
		if err := a.refuse(q); err != nil {
			return err
		}
	}
	return a.ClientStream.SendMsg(m)
}

// Where somebody has turned an index of the extension's shards off, the clicks that events name are taken over, and a
// reconcile names what is wrong, and goes on.
func TestExtensionsIndexIsOff(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		s := w.succeeds()
		conn := w.server.Conn(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := streamer(ctx, desc, cc, method, opts...)
			return asks{stream, func(q *firestorepb.RunQueryRequest) error {
				if query := q.GetStructuredQuery(); query.GetWhere() != nil && query.GetFrom()[0].GetCollectionId() == "_counter_shards_" {
					return status.Error(codes.FailedPrecondition, "an index is missing")
				}
				return nil
			}}, err
		}))
		client, err := rollup.Open(w.ctx, s.cfg, option.WithGRPCConn(conn))
		w.must(nil, err)
		s.click("web", map[string]any{"visits": 3})
		_, err = client.Apply(s.ctx, "hello", []rollup.Change{s.change("web")})
		s.must(nil, err)
		s.shows(1003, 7)
		s.must(s.page.Collection("shards").Doc("0").Set(s.ctx, map[string]any{"visits": 1}))
		r, err := client.Reconcile(s.ctx, "hello", rollup.ReconcileOptions{})
		if err != nil || !strings.Contains(r.Problem, "an index is missing") {
			t.Errorf("reconcile: %+v, %v; want the index named", r, err)
		}
		s.shows(1004, 7)
	})
}

// A note of clicks that are done stays until they are taken over: not all shards are found where a query fails.
func TestNotedClicksAreFound(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		s := w.succeeds()
		var fails atomic.Bool
		fails.Store(true)
		conn := w.server.Conn(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := streamer(ctx, desc, cc, method, opts...)
			return asks{stream, func(q *firestorepb.RunQueryRequest) error {
				if query := q.GetStructuredQuery(); fails.Load() && query.GetFrom()[0].GetCollectionId() == "_counter_shards_" {
					return status.Error(codes.Unavailable, "the connection was lost")
				}
				return nil
			}}, err
		}))
		client, err := rollup.Open(w.ctx, s.cfg, option.WithGRPCConn(conn))
		w.must(nil, err)
		db, err := store.Open(w.ctx, s.cfg.Place, option.WithGRPCConn(conn))
		w.must(nil, err)
		s.click("web", map[string]any{"visits": 3})
		_, err = db.EnsureNote(s.ctx, "hello", "contention") // for which the click's event was acknowledged
		s.must(nil, err)
		for _, left := range []int{1, 0} {
			_, err = client.Reconcile(s.ctx, "hello", rollup.ReconcileOptions{})
			s.must(nil, err)
			n, _, err := client.Noted(s.ctx)
			if s.must(nil, err); n != left {
				t.Errorf("%d are noted, want %d; the queries fail: %v", n, left, fails.Load())
			}
			fails.Store(false)
			time.Sleep(time.Hour)
		}
		s.shows(1003, 7)
	})
}

// A shard that holds nothing, and was not written for 31 days, is deleted by the clicks of others, whatever their
// number.
func TestIdleShardsGo(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		s := w.succeeds()
		s.must(s.inbox.Doc("2-other").Set(s.ctx, map[string]any{"visits": 0, "notes": 5}))
		for n := range 3 {
			s.must(s.inbox.Doc(fmt.Sprint("3-old-", n)).Set(s.ctx, map[string]any{"visits": 0}))
		}
		time.Sleep(32 * 24 * time.Hour)
		s.must(s.inbox.Doc("4-new").Set(s.ctx, map[string]any{"visits": 0}))
		for n := range 9 {
			s.click("1-web", map[string]any{"visits": 1})
			a, err := s.client.Apply(s.ctx, "hello", []rollup.Change{s.change("1-web")})
			s.must(nil, err)
			if n > 0 && a.Reads > 6 { // document and base are known: the shard, one that may go, and two fields' sums
				t.Errorf("click %d: %d reads", n, a.Reads)
			}
		}
		left, err := s.inbox.Documents(s.ctx).GetAll()
		s.must(nil, err)
		var ids []string
		for _, doc := range left {
			ids = append(ids, doc.Ref.ID)
		}
		if want := []string{"1-web", "2-other", "4-new"}; !slices.Equal(ids, want) {
			t.Errorf("%q are left, want %q", ids, want)
		}
		s.shows(1009, 7)
	})
}

// exact is what an exact read says.
func (s *succession) exact() int64 {
	s.t.Helper()
	client, err := shards.Open(s.ctx, shards.Config{Place: s.cfg.Place}, option.WithGRPCConn(s.connect()))
	s.must(nil, err)
	defer client.Close()
	counter, err := client.Counter("hello")
	s.must(nil, err)
	sum, err := counter.Sum(s.ctx)
	s.must(nil, err)
	return sum.Totals["visits"]
}

// A click costs as much on a page of many visitors as on one of few.
func TestClicksCostTheSame(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		reads := map[int]int{}
		for _, visitors := range []int{10, 2_000} {
			w := newWorld(t)
			s := w.succeeds()
			batch := w.fs.BulkWriter(w.ctx)
			for n := range visitors {
				_, err := batch.Set(s.inbox.Doc(fmt.Sprintf("%x", w.rand.Uint64())), map[string]any{"visits": 0, "likes": 0})
				w.must(nil, err)
				if n%400 == 399 {
					batch.Flush()
				}
			}
			batch.End()
			for n := range 5 {
				s.click("web", map[string]any{"visits": 1})
				a, err := s.client.Apply(s.ctx, "hello", []rollup.Change{s.change("web")})
				s.must(nil, err)
				if n > 0 {
					reads[visitors] += a.Reads
				}
			}
			s.shows(1005, 7)
			t.Logf("%d visitors: %.1f reads a click", visitors, float64(reads[visitors])/4)
		}
		if reads[10] != reads[2_000] {
			t.Errorf("4 clicks cost %v reads by the number of visitors", reads)
		}
	})
}

// A crowd of the extension's clients, beside the app's own requests: events come twice, late, or never, answers and
// commits get lost, instances are killed, and the app writes its document. No client ever sees its number fall, and the
// end is exact.
func TestExtensionsCrowd(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 2, 3} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(w *world) { w.succeeds().crowd(seed) })
		})
	}
}

func (s *succession) crowd(seed uint64) {
	const visitors, instances = 30, 2
	var mu sync.Mutex
	dice := rand.New(rand.NewPCG(seed, 0))
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return dice.IntN(n)
	}
	silent := func() *rollup.Client {
		client, err := rollup.Open(s.ctx, s.cfg, option.WithGRPCConn(s.connect()))
		s.must(nil, err)
		return client
	}
	var locked sync.Mutex
	var rollers []*rollup.Roller
	for range instances {
		rollers = append(rollers, rollup.NewRoller(silent(), rollup.RollerOptions{}))
	}
	s.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		ours := slices.ContainsFunc(req.GetWrites(), func(write *firestorepb.Write) bool {
			return slices.Contains(write.GetUpdateMask().GetFieldPaths(), "counter_rollup.as_of")
		})
		switch lost := status.Error(codes.Unavailable, "lost"); {
		case !ours:
		case roll(10) == 0:
			return emulator.Verdict{After: lost}
		case roll(10) == 0:
			return emulator.Verdict{Before: lost}
		}
		return emulator.Verdict{}
	})
	var deliveries sync.WaitGroup
	lags := make(chan time.Duration, 100_000)
	stop := s.server.OnChange(func(change emulator.Change) {
		changes := s.decode(change)
		if len(changes) == 0 || roll(20) == 0 {
			return
		}
		came := time.Now()
		for range 1 + roll(4)/3 {
			late := time.Duration(roll(300)) * time.Millisecond
			deliveries.Go(func() {
				time.Sleep(late)
				for {
					locked.Lock()
					r := rollers[roll(instances)]
					locked.Unlock()
					ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
					err := r.Add(ctx, changes...)
					if cancel(); err == nil {
						lags <- time.Since(came)
						return
					}
					time.Sleep(time.Second)
				}
			})
		}
	})
	own, err := shards.Open(s.ctx, shards.Config{Place: s.cfg.Place}, option.WithGRPCConn(s.connect()))
	s.must(nil, err)
	defer own.Close()
	counter, err := own.Counter("hello")
	s.must(nil, err)
	var all sync.WaitGroup
	var visits, likes atomic.Int64
	for n := range visitors {
		all.Go(func() {
			id := fmt.Sprintf("visitor-%d", n)
			last := int64(0)
			for range 20 {
				time.Sleep(time.Duration(roll(2000)) * time.Millisecond)
				var one any = 1
				if n%3 == 0 {
					one = 1.0
				}
				s.click(id, map[string]any{"visits": one})
				visits.Add(1)
				if n%4 == 0 {
					_, err := counter.AddFields(s.ctx, map[string]int64{"visits": 1, "likes": 1}, shards.Key{})
					s.must(nil, err)
					visits.Add(1)
					likes.Add(1)
				}
				for range 5 {
					now := s.sees(id, "visits")
					if now < last {
						s.t.Errorf("visitor %d sees %d visits after %d", n, now, last)
					}
					last = now
					time.Sleep(50 * time.Millisecond)
				}
			}
		})
	}
	all.Go(func() {
		for range 10 {
			time.Sleep(3 * time.Second)
			s.must(s.page.Set(s.ctx, map[string]any{"edited": roll(1000)}, firestore.MergeAll))
			dead, cancel := context.WithCancel(context.Background())
			cancel()
			locked.Lock()
			i := roll(instances)
			_ = rollers[i].Close(dead)
			rollers[i] = rollup.NewRoller(silent(), rollup.RollerOptions{})
			locked.Unlock()
		}
	})
	all.Wait()
	s.arrived()
	time.Sleep(time.Minute)
	deliveries.Wait()
	stop()
	s.server.SetInterceptor(nil)
	for _, r := range rollers {
		s.must(nil, r.Close(s.ctx))
	}
	_, err = s.client.Reconcile(s.ctx, "hello", rollup.ReconcileOptions{})
	s.must(nil, err)
	s.shows(1000+visits.Load(), 7+likes.Load())
	for n := range visitors {
		if id := fmt.Sprintf("visitor-%d", n); s.sees(id, "visits") != 1000+visits.Load() {
			s.t.Errorf("visitor %d sees %d, want %d", n, s.sees(id, "visits"), 1000+visits.Load())
		}
	}
	close(lags)
	var took []time.Duration
	for lag := range lags {
		took = append(took, lag)
	}
	slices.Sort(took)
	s.t.Logf("%d events: p50 %v, p99 %v", len(took), took[len(took)/2], took[len(took)*99/100])
}
