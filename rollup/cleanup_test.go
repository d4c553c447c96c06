package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// member is a membership, counted in a shard in the same commit.
func (w *world) member(id string, shard int) {
	w.t.Helper()
	w.commit(func(tx *firestore.Transaction) error {
		return errors.Join(
			tx.Create(w.counter().Collection("likes_members").Doc(id), map[string]any{"member": id, "shard": fmt.Sprint(shard)}),
			tx.Set(w.shard(shard), map[string]any{"likes": firestore.Increment(1)}, firestore.MergeAll))
	})
}

// left is what there is below the app's document: the sum of likes, members, shards, and whether
// there is a base.
func (w *world) left() (likes int64, members, shards int, base bool) {
	w.t.Helper()
	docs, err := w.counter().Collection("shards").Documents(w.ctx).GetAll()
	w.must(nil, err)
	for _, doc := range docs {
		n, _ := doc.Data()["likes"].(int64)
		likes += n
	}
	all, err := w.counter().Collection("likes_members").Documents(w.ctx).GetAll()
	w.must(nil, err)
	return likes, len(all), len(docs), w.exists(w.base())
}

// abandoned is a world in which the app has deleted a document with 5 likes by members and 2
// otherwise, in 2 shards, and a reconcile has found it gone. Two more members were counted in a
// shard that was taken away since; their likes are in shard 0.
func abandoned(t *testing.T) *world {
	t.Helper()
	w := newWorld(t).hosted()
	w.post(map[string]any{"title": "Hello"})
	w.like(0, 2, 3)
	for i := range 3 {
		w.member(fmt.Sprint("member-", i), i%2)
	}
	for i := range 2 {
		w.must(w.counter().Collection("likes_members").Doc(fmt.Sprint("moved-", i)).Create(w.ctx, map[string]any{"shard": "7"}))
		w.like(0, 1, 0)
	}
	w.apply(w.arrived()...)
	w.has(map[string]any{"title": "Hello", "likes": int64(7), "views": int64(3)})
	w.must(w.counter().Delete(w.ctx))
	if r := w.reconcile(); !r.Gone || r.Deleted {
		t.Fatalf("reconcile = %+v, want that it is gone and everything is left", r)
	}
	return w
}

// atOnce removes what is left after a moment, which passes.
func (w *world) atOnce() rollup.ReconcileOptions {
	time.Sleep(time.Second)
	return w.after(time.Second)
}

// after removes what is left after a while, by a client of package shards, as the
// functions have it.
func (w *world) after(d time.Duration) rollup.ReconcileOptions {
	w.t.Helper()
	client, err := shards.Open(w.ctx, shards.Config{Place: shards.Place{Project: "p", Fields: likesAndViews.Fields, Hosted: true}}, option.WithGRPCConn(w.connect()))
	w.must(nil, err)
	return rollup.ReconcileOptions{CleanupAfter: d, Remove: client.Remove}
}

func TestCleanup(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := abandoned(t)
		since := w.inBase("gone_at")
		for _, opts := range []rollup.ReconcileOptions{{}, w.after(time.Hour), {CleanupAfter: time.Hour, DryRun: true}} {
			if r, err := w.rollup.Reconcile(w.ctx, w.id, opts); err != nil || !r.Gone || r.Deleted || w.inBase("gone_at") != since {
				t.Errorf("reconcile with %+v = %+v, %v", opts, r, err)
			}
		}
		dry := w.atOnce()
		dry.DryRun = true
		if r, err := w.rollup.Reconcile(w.ctx, w.id, dry); err != nil || !r.Deleted {
			t.Errorf("dry run = %+v, %v, want that it would be removed", r, err)
		}
		if likes, members, shards, base := w.left(); likes != 7 || members != 5 || shards != 2 || !base {
			t.Errorf("%d likes, %d members, %d shards and base %t are left before it is time", likes, members, shards, base)
		}
		var reports []rollup.Report
		all := w.atOnce()
		all.Report = func(r rollup.Report, _ error) { reports = append(reports, r) }
		if sum, err := w.rollup.ReconcileAll(w.ctx, all); err != nil || sum.Seen != 1 || sum.Repaired != 1 || !sum.Done || len(reports) != 1 || !reports[0].Deleted {
			t.Errorf("summary %+v, %v, reports %+v, want one that is deleted", sum, err, reports)
		}
		if likes, members, shards, base := w.left(); likes != 0 || members != 0 || shards != 0 || base {
			t.Errorf("%d likes, %d members, %d shards and base %t are left", likes, members, shards, base)
		}
		// Late events bring nothing back, and the next document starts from nothing.
		w.apply(w.arrived()...)
		if w.exists(w.base()) || w.exists(w.counter()) {
			t.Error("late events have brought something back")
		}
		w.post(map[string]any{"title": "New"})
		w.like(0, 1, 1)
		w.apply(w.arrived()...)
		w.has(map[string]any{"title": "New", "likes": int64(1), "views": int64(1)})
	})
}

// A cleanup may stop before and after any of its commits, and the next one goes on where it stopped. A document that
// is made again before that shows nothing of what was there: it begins at 0 once the cleanup is through.
func TestCleanupStopsAnywhere(t *testing.T) {
	t.Parallel()
	for stop := range 4 {
		for _, lost := range []bool{false, true} {
			for _, again := range []bool{false, true} {
				virtual.Run(t, fmt.Sprintf("commit %d, lost %t, made again %t", stop, lost, again), func(t *testing.T) {
					w := abandoned(t)
					ctx, cancel := context.WithCancel(w.ctx)
					defer cancel()
					commits := 0
					w.server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
						if commits++; commits <= stop {
							return v
						}
						cancel() // and whatever it does from here on does not arrive
						if fault := status.Error(codes.Unavailable, "the process is gone"); lost && commits == stop+1 {
							v.After = fault
						} else {
							v.Before = fault
						}
						return v
					})
					_, _ = w.rollup.Reconcile(ctx, w.id, w.atOnce())
					w.server.SetInterceptor(nil)
					likes, members, shards, base := w.left()
					marked := base && w.inBase("ending") != nil
					if base && !marked && (likes != 7 || members != 5 || shards != 2) || !base && shards+members > 0 || marked && shards > 0 {
						t.Errorf("%d likes, %d members, %d shards and base %t, marked %t, are left", likes, members, shards, base, marked)
					}
					if again && marked {
						w.post(map[string]any{"title": "Again"})
						w.reconcile()
						w.has(map[string]any{"title": "Again", "likes": nil, "views": nil})
					}
					if _, err := w.rollup.Reconcile(w.ctx, w.id, w.atOnce()); err != nil {
						t.Error(err)
					}
					// Whoever finishes the deletion makes the base of the life that has begun.
					if likes, members, shards, base := w.left(); likes != 0 || members != 0 || shards != 0 || base != (again && marked) {
						t.Errorf("%d likes, %d members, %d shards and base %t are left", likes, members, shards, base)
					}
					if again && marked {
						w.has(map[string]any{"title": "Again", "likes": int64(0), "views": int64(0)})
					}
					w.post(map[string]any{"title": "Again"})
					w.like(0, 1, 0)
					w.apply(w.arrived()...)
					w.has(map[string]any{"title": "Again", "likes": int64(1), "views": int64(0)})
				})
			}
		}
	}
}

// An answer is lost after the commit was applied, and it is not applied again.
func TestCleanupLosesAnAnswer(t *testing.T) {
	t.Parallel()
	for lost := range 3 {
		virtual.Run(t, fmt.Sprint("commit ", lost), func(t *testing.T) {
			w := abandoned(t)
			commits := 0
			w.server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
				if commits++; commits == lost+1 {
					v.After = status.Error(codes.Unavailable, "lost")
				}
				return v
			})
			if r, err := w.rollup.Reconcile(w.ctx, w.id, w.atOnce()); err != nil || !r.Deleted {
				t.Errorf("reconcile = %+v, %v, want that it is deleted", r, err)
			}
			if likes, members, shards, base := w.left(); likes != 0 || members != 0 || shards != 0 || base {
				t.Errorf("%d likes, %d members, %d shards and base %t are left", likes, members, shards, base)
			}
		})
	}
}

// The app makes its document again, or an increment is on its way, beside any commit of a cleanup: before the mark
// nothing goes, and after it everything does, whoever else is there.
func TestCleanupBeside(t *testing.T) {
	t.Parallel()
	for what, beside := range map[string]func(w *world){
		"the app, which makes it again": func(w *world) { w.post(map[string]any{"title": "Again"}) },
		"an increment": func(w *world) { // of an instance that doesn't know yet that it is gone
			_, err := w.shard(0).Update(w.ctx, []firestore.Update{{Path: "likes", Value: firestore.Increment(1)}})
			if status.Code(err) != codes.NotFound {
				w.must(nil, err)
			}
		},
		"another cleanup": func(w *world) {
			_, err := w.openWith(likesAndViews).Reconcile(w.ctx, w.id, w.atOnce())
			w.must(nil, err)
		},
	} {
		for commit := range 3 {
			virtual.Run(t, fmt.Sprintf("%s, commit %d", what, commit), func(t *testing.T) {
				w := abandoned(t)
				var group sync.WaitGroup
				commits := 0
				w.server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
					if commits++; commits == commit+1 {
						w.server.SetInterceptor(nil)
						group.Go(func() { beside(w) }) // it waits for this commit's locks
					}
					return v
				})
				if _, err := w.rollup.Reconcile(w.ctx, w.id, w.atOnce()); err != nil {
					t.Fatal(err)
				}
				group.Wait()
				likes, members, shards, base := w.left()
				kept := base && w.inBase("ending") == nil
				if kept && (likes < 7 || members != 5 || shards != 2) || !kept && (base || members+shards > 0) {
					t.Errorf("%d likes, %d members, %d shards and base %t are left, commit %d", likes, members, shards, base, commit)
				}
				if !w.exists(w.counter()) {
					return
				}
				w.apply(w.arrived()...) // late events, of what has been removed too
				w.like(0, 1, 0)
				w.apply(w.arrived()...)
				w.has(map[string]any{"title": "Again", "likes": likes + 1, "views": map[bool]int64{true: 3, false: 0}[kept]})
				if w.inBase("gone_at") != nil {
					t.Error("gone_at is still there")
				}
			})
		}
	}
}

// A document that was made again and deleted again has its whole time.
func TestCleanupAfterTheLastTime(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := abandoned(t)
		first := w.inBase("gone_at").(time.Time)
		w.post(map[string]any{"title": "Again"})
		if r := w.reconcile(); r.Gone || r.Deleted || w.inBase("gone_at") != nil {
			t.Errorf("reconcile = %+v of a document that was made again, gone since %v", r, w.inBase("gone_at"))
		}
		w.has(map[string]any{"title": "Again", "likes": int64(7), "views": int64(3)})
		w.must(w.counter().Delete(w.ctx))
		w.reconcile()
		if second, ok := w.inBase("gone_at").(time.Time); !ok || !second.After(first) {
			t.Errorf("gone since %v, and before since %v", w.inBase("gone_at"), first)
		}
	})
}

// The app makes its document again while a reconcile notes that it is missing, and another one was faster: it is shown,
// and nobody is told that there is no such counter.
func TestCleanupOfADocumentThatComesBackMeanwhile(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t).hosted()
		w.post(map[string]any{"title": "Hello"})
		w.like(0, 2, 3)
		w.apply(w.arrived()...)
		w.must(w.counter().Delete(w.ctx))
		w.server.Before(func() {
			if r, err := w.openWith(likesAndViews).Reconcile(w.ctx, w.id, rollup.ReconcileOptions{}); err != nil || !r.Gone {
				t.Errorf("reconcile = %+v, %v, want that it is gone", r, err)
			}
			w.post(map[string]any{"title": "Again"})
		})
		if r := w.reconcile(); r.Gone || r.After != 2 {
			t.Errorf("reconcile = %+v of a document that is back", r)
		}
		w.has(map[string]any{"title": "Again", "likes": int64(2), "views": int64(3)})
	})
}

// Something was counted below a document that is gone, by a client that writes by itself, and no
// event has told of it: a reconcile counts it, and what is left has its whole time from then on.
func TestCleanupOfADocumentThatIsStillCounted(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.hosted()
		w.post(map[string]any{"title": "Hello"})
		w.like(0, 2, 3)
		w.apply(w.arrived()...)
		w.must(w.counter().Delete(w.ctx))
		day := w.after(24 * time.Hour)
		reconcile := func(deleted bool) {
			w.t.Helper()
			if r, err := w.rollup.Reconcile(w.ctx, w.id, day); err != nil || r.Gone == deleted || r.Deleted != deleted {
				w.t.Fatalf("reconcile = %+v, %v, want that it is gone, or deleted %t", r, err, deleted)
			}
		}
		reconcile(false)
		time.Sleep(23 * time.Hour)
		w.like(0, 1, 0)
		w.arrived() // and lost
		time.Sleep(2 * time.Hour)
		reconcile(false)
		time.Sleep(23 * time.Hour)
		reconcile(false)
		time.Sleep(2 * time.Hour)
		reconcile(true)
		if _, _, shards, base := w.left(); shards != 0 || base {
			w.t.Errorf("%d shards and base %t are left", shards, base)
		}
	})
}

// A cleanup that takes several commits and is cut short goes on with the next call, though its own
// events have been counted meanwhile: it doesn't begin to wait again.
func TestCleanupThatIsCutShortGoesOnAtOnce(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t).large()
		w.reconcile()
		w.cutShort(func(ctx context.Context) { _, _ = w.rollup.Reconcile(ctx, w.id, w.atOnce()) })
		w.apply(w.arrived()...)
		if r, err := w.rollup.Reconcile(w.ctx, w.id, w.after(24*time.Hour)); err != nil || !r.Deleted {
			t.Errorf("reconcile = %+v, %v; want that it goes on", r, err)
		}
		if _, _, shards, base := w.left(); shards > 0 || base {
			t.Errorf("%d shards are left, base %t", shards, base)
		}
	})
}

// A deletion that was cut short goes on whatever its shards hold. Whoever is not to remove anything says so, and
// nothing of a repair.
func TestADeletionGoesOnWhateverItsShardsHold(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t).large()
		numbers := map[string]any{}
		for i := range 50 {
			numbers[fmt.Sprint("n", i)] = 1
		}
		bulk := w.fs.BulkWriter(w.ctx)
		for i := range 620 {
			_, err := bulk.Set(w.shard(i), numbers, firestore.MergeAll)
			w.must(nil, err)
		}
		bulk.End()
		w.arrived() // and is lost
		client, err := shards.Open(w.ctx, shards.Config{Place: shards.Place{Project: "p", Fields: likesAndViews.Fields, Hosted: true}}, option.WithGRPCConn(w.connect()))
		w.must(nil, err)
		counter, err := client.Counter(w.id)
		w.must(nil, err)
		w.cutShort(func(ctx context.Context) { _ = counter.Delete(ctx, shards.DeleteOptions{}) })
		opts := rollup.ReconcileOptions{CleanupAfter: 24 * time.Hour, Remove: client.Remove}
		if r := w.reconcile(); !r.Gone || r.Repaired() || !strings.Contains(r.Problem, "deletion was not finished") {
			t.Errorf("reconcile = %+v, want that its deletion was not finished", r)
		}
		if r, err := w.rollup.Reconcile(w.ctx, w.id, opts); err != nil || !r.Deleted {
			t.Errorf("reconcile = %+v, %v; want that it goes on", r, err)
		}
		if _, _, shards, base := w.left(); shards > 0 || base {
			t.Errorf("%d shards are left, base %t", shards, base)
		}
	})
}

// large makes a document with 620 shards of a like, more than a commit has writes, and
// deletes the document.
func (w *world) large() *world {
	w.hosted()
	w.post(map[string]any{"title": "Hello"})
	bulk := w.fs.BulkWriter(w.ctx)
	for i := range 620 {
		_, err := bulk.Create(w.shard(i), map[string]any{"likes": 1, "views": 0})
		w.must(nil, err)
	}
	bulk.End()
	w.apply(w.arrived()...)
	w.must(w.counter().Delete(w.ctx))
	return w
}

// cutShort ends a removal after its first commit.
func (w *world) cutShort(removal func(context.Context)) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	commits := 0
	w.server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
		if commits++; commits > 1 {
			cancel()
			v.Before = status.Error(codes.Unavailable, "the process is gone")
		}
		return v
	})
	removal(ctx)
	w.server.SetInterceptor(nil)
	if _, _, shards, _ := w.left(); shards == 0 || shards == 620 {
		w.t.Fatalf("%d shards are left: the test shows nothing", shards)
	}
}

// More members and shards than a commit has writes go in several, and fields that are no
// longer counted too.
func TestCleanupOfALargeOne(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t).hosted()
		w.post(map[string]any{"title": "Hello"})
		write := func(n int, doc func(i int) *firestore.DocumentRef, fields func(i int) map[string]any) {
			bulk := w.fs.BulkWriter(w.ctx)
			for i := range n {
				_, err := bulk.Create(doc(i), fields(i))
				w.must(nil, err)
			}
			bulk.End()
		}
		const shards, members = 620, 700
		write(shards, w.shard, func(i int) map[string]any {
			n := 1
			if i < members-shards {
				n = 2
			}
			return map[string]any{"likes": n, "views": 0}
		})
		write(members, func(i int) *firestore.DocumentRef { return w.counter().Collection("likes_members").Doc(fmt.Sprint(i)) },
			func(i int) map[string]any { return map[string]any{"shard": fmt.Sprint(i % shards)} })
		w.arrived()
		w.reconcile()
		w.has(map[string]any{"title": "Hello", "likes": int64(members), "views": int64(0)})
		w.must(w.counter().Delete(w.ctx))
		cfg := likesAndViews
		cfg.Fields = "views" // likes are no longer counted
		for _, client := range []*rollup.Client{w.rollup, w.openWith(cfg)} {
			ctx, cancel := context.WithCancel(w.ctx)
			w.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
				if len(req.GetWrites()) > 500 {
					t.Errorf("a commit of %d writes", len(req.GetWrites()))
				}
				return v
			})
			if _, err := client.Reconcile(ctx, w.id, rollup.ReconcileOptions{}); err != nil {
				t.Error(err)
			}
			if client == w.rollup { // it stops after its first page
				w.server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
					w.server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
						cancel()
						return emulator.Verdict{Before: status.Error(codes.Unavailable, "out of time")}
					})
					return v
				})
			}
			r, err := client.Reconcile(ctx, w.id, w.atOnce())
			if client == w.rollup {
				if err != nil || !r.Gone || r.Deleted {
					t.Errorf("reconcile = %+v, %v, want that the next one goes on", r, err)
				}
				if _, left, some, base := w.left(); left == 0 || some == shards || !base {
					t.Errorf("%d members, %d shards and base %t after a page", left, some, base)
				}
			} else if err != nil || !r.Deleted {
				t.Errorf("reconcile = %+v, %v, want that it is deleted", r, err)
			}
			cancel()
			w.server.SetInterceptor(nil)
		}
		if likes, members, shards, base := w.left(); likes != 0 || members != 0 || shards != 0 || base {
			t.Errorf("%d likes, %d members, %d shards and base %t are left", likes, members, shards, base)
		}
	})
}

// The app makes its document again before a commit of a cleanup is begun: from there on nothing is
// removed any more, and the reconcile that found it gone corrects it.
func TestCleanupOfADocumentThatIsBack(t *testing.T) {
	t.Parallel()
	for step, likes := range []int64{7} {
		virtual.Run(t, fmt.Sprint("before commit ", step), func(t *testing.T) {
			w := abandoned(t)
			begun := 0
			conn := w.server.Conn(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if strings.HasSuffix(method, "/BeginTransaction") {
					if begun++; begun == step+1 {
						w.post(map[string]any{"title": "Again"})
					}
				}
				return next(ctx, method, req, reply, cc, opts...)
			}))
			client, err := shards.Open(w.ctx, shards.Config{Place: shards.Place{Project: "p", Fields: likesAndViews.Fields, Hosted: true}}, option.WithGRPCConn(conn))
			if err != nil {
				t.Fatal(err)
			}
			opts := w.atOnce()
			opts.Remove = client.Remove
			r, err := w.rollup.Reconcile(w.ctx, w.id, opts)
			if err != nil || r.Deleted || r.Gone || r.After != likes {
				t.Errorf("reconcile = %+v, %v, want that %d likes are there", r, err, likes)
			}
			w.has(map[string]any{"title": "Again", "likes": likes, "views": int64(3)})
			if _, members, shards, base := w.left(); int64(members) != likes-2 || shards != 2 || !base || w.inBase("gone_at") != nil {
				t.Errorf("%d members, %d shards and base %t are left, gone since %v", members, shards, base, w.inBase("gone_at"))
			}
		})
	}
}

// The app makes its document again while the counter is being deleted. Events that come meanwhile are acknowledged for
// a note, or lost. A reconcile finishes the deletion, and then counts what they were about.
func TestWhatIsCountedDuringADeletion(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		inVirtualTime(t, func(w *world) {
			c := w.counting(rollup.Config{Place: rollup.Place{Project: "p", Fields: "likes,comments=count(comments)", Hosted: true}})
			c.set("counters/c", map[string]any{"title": "Hello"})
			c.set("counters/c/shards/0", map[string]any{"likes": 7})
			w.must(c.client.Reconcile(w.ctx, "c", rollup.ReconcileOptions{}))
			c.holds("counters/c", map[string]any{"likes": int64(7)})
			w.must(w.base().Set(w.ctx, map[string]any{"ending": true}, firestore.MergeAll))
			c.set("counters/c", map[string]any{"title": "Again"})
			c.set("counters/c/comments/1", map[string]any{})
			if !lost {
				c.deliver(c.roller(rollup.RollerOptions{}), c.happened()...)
			}
			if noted := w.note() != nil; noted == lost {
				w.t.Fatalf("a note: %v, and the test shows nothing", noted)
			}
			client, err := shards.Open(w.ctx, shards.Config{Place: c.cfg.Place}, option.WithGRPCConn(w.connect()))
			w.must(nil, err)
			defer client.Close()
			sum, err := c.client.ReconcileAll(w.ctx, rollup.ReconcileOptions{Remove: client.Remove})
			if err != nil || sum.Noted != 0 || w.note() != nil {
				w.t.Errorf("ReconcileAll = %+v, %v; noted is %v", sum, err, w.note())
			}
			c.holds("counters/c", map[string]any{"title": "Again", "likes": int64(0), "comments": int64(1)})
		})
	}
}

// A cleanup that fails is a failure, though there is no such counter any more.
func TestCleanupThatFails(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := abandoned(t)
		opts := w.atOnce()
		opts.Remove = func(context.Context, string, time.Time) (bool, error) { return false, errors.New("no") }
		var said []error
		opts.Report = func(_ rollup.Report, err error) { said = append(said, err) }
		if sum, err := w.rollup.ReconcileAll(w.ctx, opts); err != nil || sum.Failed != 1 || len(said) != 1 || said[0] == nil {
			t.Errorf("ReconcileAll = %+v, %v, and said %v; want one failure", sum, err, said)
		}
	})
}
