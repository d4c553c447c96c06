package rollup_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// hears rolls up what events bring, until the roller is closed.
func (s *succession) hears() *rollup.Roller {
	s.t.Helper()
	client, err := rollup.Open(s.ctx, s.cfg, option.WithGRPCConn(s.connect()))
	s.must(nil, err)
	r := rollup.NewRoller(client, rollup.RollerOptions{})
	var deliveries sync.WaitGroup
	stop := s.server.OnChange(func(change emulator.Change) {
		if changes := s.decode(change); len(changes) > 0 {
			deliveries.Go(func() { _ = r.Add(s.ctx, changes...) })
		}
	})
	s.t.Cleanup(func() {
		stop()
		_ = r.Close(context.Background())
		deliveries.Wait()
	})
	return r
}

// partsOf are the fields of one of the extension's shards, or of the updates of a partial sum.
func partsOf(doc *firestore.DocumentSnapshot) (parts []map[string]any) {
	if !strings.HasPrefix(doc.Ref.ID, "\t") {
		return append(parts, doc.Data())
	}
	updates, _ := doc.Data()["_updates_"].([]any)
	for _, update := range updates {
		parts = append(parts, update.(map[string]any)["_data_"].(map[string]any))
	}
	return parts
}

// js is a number as JavaScript's SDK writes it: an integer where it is whole.
func js(n float64) any {
	if n == float64(int64(n)) {
		return int64(n)
	}
	return n
}

// work does what the extension's worker does in one of its transactions: it adds what all shards and partial sums hold
// to the page, or to a partial sum, and deletes the shards. Then it deletes partial sums that hold nothing.
func (s *succession) work(partial bool) {
	s.t.Helper()
	add := func(to map[string]float64, data map[string]any, sign float64) {
		for field, v := range data {
			switch n := v.(type) {
			case int64:
				to[field] += sign * float64(n)
			case float64:
				to[field] += sign * n
			}
		}
	}
	update := func(sums map[string]float64) map[string]any {
		data := map[string]any{}
		for field, n := range sums {
			data[field] = js(n)
		}
		return map[string]any{"_updates_": firestore.ArrayUnion(map[string]any{"_id_": fmt.Sprint(rand.Uint64()), "_data_": data})}
	}
	s.commit(func(tx *firestore.Transaction) error {
		page, err := tx.Get(s.page)
		if err != nil {
			return err
		}
		docs, err := tx.Documents(s.inbox).GetAll()
		if err != nil {
			return err
		}
		sums := map[string]float64{}
		for _, doc := range docs {
			if isPartial := strings.HasPrefix(doc.Ref.ID, "\t"); isPartial && partial {
				continue
			}
			own := map[string]float64{}
			for _, part := range partsOf(doc) {
				add(sums, part, 1)
				add(own, part, -1)
			}
			if strings.HasPrefix(doc.Ref.ID, "\t") {
				err = tx.Set(doc.Ref, update(own), firestore.MergeAll)
			} else {
				err = tx.Delete(doc.Ref)
			}
			if err != nil {
				return err
			}
		}
		if partial {
			return tx.Set(s.inbox.Doc("\t2f1c"), update(sums), firestore.MergeAll)
		}
		data := map[string]any{}
		for field, n := range sums {
			all := map[string]float64{field: n}
			add(all, map[string]any{field: page.Data()[field]}, 1)
			data[field] = js(all[field])
		}
		return tx.Set(s.page, data, firestore.MergeAll)
	})
	s.commit(func(tx *firestore.Transaction) error {
		docs, err := tx.Documents(s.inbox).GetAll()
		if err != nil {
			return err
		}
		for _, doc := range docs {
			left := map[string]float64{}
			for _, part := range partsOf(doc) {
				add(left, part, 1)
			}
			empty := strings.HasPrefix(doc.Ref.ID, "\t")
			for _, n := range left {
				empty = empty && n == 0
			}
			if empty {
				if err := tx.Delete(doc.Ref); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Whoever goes back removes the functions and installs the extension: it goes on from the document's number, with what
// waits in its shards. A take-over that is on its way meanwhile, and comes late, does nothing.
func TestBackToTheExtension(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(w *world) {
				s := w.succeeds()
				dice := rand.New(rand.NewPCG(seed, 63))
				own, err := shards.Open(s.ctx, shards.Config{Place: s.cfg.Place}, option.WithGRPCConn(s.connect()))
				s.must(nil, err)
				defer own.Close()
				counter, err := own.Counter("hello")
				s.must(nil, err)
				visits, likes := int64(1000), int64(7)
				sees := map[string]int64{}
				count := func(clicks int) {
					for range clicks {
						id := fmt.Sprint("visitor-", dice.IntN(9))
						var one any = 1
						if dice.IntN(3) == 0 {
							one = 1.0 // as clients for Android and iOS
						}
						s.click(id, map[string]any{"visits": one, "likes": 1})
						visits, likes = visits+1, likes+1
						now := s.sees(id, "visits")
						if now < sees[id] {
							t.Errorf("%s sees %d visits after %d", id, now, sees[id])
						}
						sees[id] = now
						time.Sleep(time.Duration(dice.IntN(400)) * time.Millisecond)
					}
				}
				s.work(true) // what a worker of before has left
				r := s.hears()
				for range 3 {
					count(10)
					_, err := counter.AddFields(s.ctx, map[string]int64{"visits": 5, "likes": 2}, shards.Key{})
					s.must(nil, err)
					visits, likes = visits+5, likes+2
				}

				// Nothing calls Increment any more.
				_, err = s.client.Reconcile(s.ctx, "hello", rollup.ReconcileOptions{})
				s.must(nil, err)
				var held atomic.Pointer[firestorepb.CommitRequest]
				s.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
					if len(req.GetTransaction()) == 0 && len(req.GetWrites()) > 2 { // a take-over's
						held.Store(req)
						v.Before = status.Error(codes.Unavailable, "the connection was lost")
					}
					return v
				})
				count(10)
				dead, cancel := context.WithCancel(s.ctx)
				cancel()
				_ = r.Close(dead) // killed
				s.server.SetInterceptor(nil)
				s.work(seed%2 == 0)
				clear(sees) // nobody sees what is in partial sums
				if req := held.Load(); req == nil {
					t.Error("no take-over was on its way")
				} else if _, err := firestorepb.NewFirestoreClient(s.connect()).Commit(s.ctx, req); err == nil {
					t.Error("a take-over that comes late was applied")
				}
				for range 3 {
					count(10)
					s.work(dice.IntN(2) == 0)
					clear(sees)
				}
				s.work(false)
				time.Sleep(time.Minute)
				s.shows(visits, likes)
				left, err := s.inbox.Documents(s.ctx).GetAll()
				if s.must(nil, err); len(left) > 0 {
					t.Errorf("%d shards are left", len(left))
				}

				// Whoever comes again goes on from there, too.
				s.must(nil, counter.RebaseFields(s.ctx, map[string]int64{"visits": visits, "likes": likes}))
				s.click("again", map[string]any{"visits": 3})
				_, err = s.client.Apply(s.ctx, "hello", []rollup.Change{s.change("again")})
				s.must(nil, err)
				s.shows(visits+3, likes)
			})
		})
	}
}

// What clients count while the app's document is missing waits in their shards. Once it is there, the next click takes
// all of it over where the page was never counted before, and the next reconcile of all does in any case.
func TestClicksOfAMissingDocument(t *testing.T) {
	t.Parallel()
	for _, counted := range []bool{false, true} {
		for _, click := range []bool{false, true} {
			t.Run(fmt.Sprint("counted before: ", counted, ", a click: ", click), func(t *testing.T) {
				t.Parallel()
				inVirtualTime(t, func(w *world) {
					s := w.succeeds()
					want := int64(1000)
					if counted {
						s.click("before", map[string]any{"visits": 2})
						_, err := s.client.Apply(s.ctx, "hello", []rollup.Change{s.change("before")})
						s.must(nil, err)
						want += 2
					}
					s.must(s.page.Delete(s.ctx))
					r := rollup.NewRoller(s.client, rollup.RollerOptions{})
					for n := range 3 {
						id := fmt.Sprint("visitor-", n)
						s.click(id, map[string]any{"visits": 1})
						want++
						s.must(nil, r.Add(s.ctx, s.change(id)))
						time.Sleep(time.Hour)
					}
					if snap, _ := s.page.Get(s.ctx); snap.Exists() {
						t.Error("the document was made")
					}
					s.must(s.page.Set(s.ctx, map[string]any{"title": "Hello", "visits": 1000, "likes": 7}))
					if click {
						s.click("after", map[string]any{"visits": 1})
						want++
						s.must(nil, r.Add(s.ctx, s.change("after")))
					}
					s.must(nil, r.Close(s.ctx))
					if !click || counted {
						_, err := s.client.ReconcileAll(s.ctx, rollup.ReconcileOptions{})
						s.must(nil, err)
					}
					s.shows(want, 7)
				})
			})
		}
	}
}

// A reset that takes members off, and is cut short, has removed some of them and nothing else: what the extension has
// counted stays.
func TestResetCutShort(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		s := w.succeeds()
		client, err := shards.Open(s.ctx, shards.Config{Place: s.cfg.Place}, option.WithGRPCConn(s.connect()))
		s.must(nil, err)
		defer client.Close()
		counter, err := client.Counter("hello")
		s.must(nil, err)
		const members = 600 // more than one commit's
		var all sync.WaitGroup
		for n := range members {
			all.Go(func() {
				_, err := counter.Join(s.ctx, "likes", fmt.Sprint("user-", n))
				s.must(nil, err)
			})
		}
		all.Wait()
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		removed := 0
		err = counter.Reset(ctx, shards.ResetOptions{RemoveMembers: true, Progress: func(n int) {
			removed = n
			cancel()
		}})
		if err == nil || removed == 0 || removed == members {
			t.Fatalf("%d members were removed, %v", removed, err)
		}
		_, err = s.client.Reconcile(s.ctx, "hello", rollup.ReconcileOptions{})
		s.must(nil, err)
		s.shows(1000, int64(7+members-removed))
	})
}

// The only instance is killed while a crowd clicks. The next one shows what it gets when the document is due, and not
// at once the little that has come by then, for which all that follows would wait two intervals.
func TestANewInstanceWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		s := w.succeeds()
		var now atomic.Pointer[rollup.Roller]
		start := func() {
			client, err := rollup.Open(s.ctx, s.cfg, option.WithGRPCConn(s.connect()))
			s.must(nil, err)
			now.Store(rollup.NewRoller(client, rollup.RollerOptions{}))
		}
		start()
		var deliveries sync.WaitGroup
		var mu sync.Mutex
		var shown []time.Time
		stop := s.server.OnChange(func(change emulator.Change) {
			if strings.HasSuffix(change.Name, "/pages/hello") {
				mu.Lock()
				defer mu.Unlock()
				shown = append(shown, change.CommitTime)
			}
			if changes := s.decode(change); len(changes) > 0 {
				r := now.Load()
				deliveries.Go(func() { _ = r.Add(s.ctx, changes...) })
			}
		})
		defer stop()
		click := func() {
			for n := range 320 {
				s.click(fmt.Sprint("visitor-", n%20), map[string]any{"visits": 1})
				time.Sleep(10 * time.Millisecond)
			}
		}
		click()
		killed, kill := context.WithCancel(s.ctx)
		kill()
		_ = now.Load().Close(killed)
		start()
		click()
		s.must(nil, now.Load().Close(s.ctx))
		deliveries.Wait()
		mu.Lock()
		defer mu.Unlock()
		for n, at := range shown[1:] {
			if pause := at.Sub(shown[n]); pause > 1300*time.Millisecond {
				t.Errorf("the page stood still for %v, until %v after the first write", pause, at.Sub(shown[0]))
			}
		}
	})
}
