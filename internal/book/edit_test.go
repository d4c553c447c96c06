package book_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// Whatever becomes of an edit's commit, it is applied once, and says so once.
func TestEditUnderFaults(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]emulator.Verdict{
		"none":        {},
		"answer lost": {After: unavailable},
		"not applied": {Before: unavailable},
		"contention":  {Before: aborted},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t, false)
			w.create(t)
			for n := range int64(3) {
				applied := 0
				w.Next(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict { return verdict })
				if err := w.add(t.Context(), 5, func() { applied++ }); err != nil || applied != 1 {
					t.Errorf("%v, applied %d times", err, applied)
				}
				w.want(t, 5*(n+1), 5*(n+1))
			}
		})
	}
}

// A commit is slow, and arrives just before the one that was sent in its place: the first counts, and is known for what
// was applied, and the second doesn't.
func TestALateCommitIsKnown(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		w.create(t)
		w.Late(func() {})

		attempts, applied := 0, 0
		err := w.edit(t.Context(), func(_ context.Context, e *book.Edit) error {
			attempts++
			n := attempts
			e.Applied = func() { applied = n }
			e.SetBase(w.likes(), int64(n))
			return nil
		})
		if err != nil || attempts != 2 || applied != 1 {
			t.Errorf("%v, attempt %d of %d was applied; want the first of 2", err, applied, attempts)
		}
		w.want(t, 1, 1)
	})
}

// A commit arrives when its edit has long succeeded with another one, and others have followed: it changes nothing.
func TestACommitThatArrivesAfterItsEdit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for _, hosted := range []bool{false, true} {
			w := newWorld(t, hosted)
			if w.Merge("counters/a", map[string]any{"title": "x"}); !hosted {
				w.Delete("counters/a")
				w.create(t)
			}
			var held *firestorepb.CommitRequest
			w.Next(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
				held = req
				return emulator.Verdict{Before: unavailable}
			})
			if err := w.add(t.Context(), 5, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := firestorepb.NewFirestoreClient(w.Conn()).Commit(t.Context(), held); err == nil {
				t.Error("the late commit is applied")
			}
			w.want(t, 5, 5)
		}
	})
}

// The answer to an edit is lost while it is the last that its caller waits for: it looks once more what has become of
// it.
func TestTheLastLook(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for name, isApplied := range map[string]bool{"applied": true, "not applied": false} {
			w := newWorld(t, false)
			w.create(t)
			ctx, cancel := context.WithCancel(t.Context())
			direct := firestorepb.NewFirestoreClient(w.Conn())
			w.Next(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
				if isApplied {
					if _, err := direct.Commit(t.Context(), req); err != nil {
						t.Error(err)
					}
				}
				cancel()
				return emulator.Verdict{Before: unavailable}
			})
			applied := false
			err := w.add(ctx, 5, func() { applied = true })
			if applied != isApplied || errors.Is(err, store.ErrDoubt) == isApplied {
				t.Errorf("%s: %v, applied %v", name, err, applied)
			}
		}
	})
}

// Many edits at a time, and a roll-up, with lost answers and contention: each is applied once.
func TestEditsAtOnce(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
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
		base := w.read(t).Base.Counts["likes"]
		if base&^unknown.Load() != sum.Load() {
			t.Errorf("base %b, want %b, and maybe %b", base, sum.Load(), unknown.Load())
		}
		if r := w.reconcile(t, rollup.ReconcileOptions{}); r.After != base+10 || r.Drift != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// A crowd counts, and roll-ups show that as fast as they can: an edit succeeds all the same, and counts what it found
// once. A total that is set is that of one moment.
func TestAnEditBesideACrowdOfRefreshes(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		c := w.create(t)
		var ended atomic.Bool
		var counted atomic.Int64
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				for !ended.Load() {
					if err := c.Add(t.Context(), 1); err != nil {
						t.Error(err)
					}
					counted.Add(1)
					time.Sleep(time.Millisecond) // no time passes while somebody works
				}
			})
		}
		group.Go(func() {
			for !ended.Load() {
				if _, err := w.rollup.Reconcile(t.Context(), "a", rollup.ReconcileOptions{}); err != nil && !errors.Is(err, rollup.ErrContention) {
					t.Error(err)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
		for n := range int64(10) {
			before := counted.Load()
			err := w.edit(t.Context(), func(ctx context.Context, e *book.Edit) error { return e.SetTotal(ctx, w.likes(), 1000*n) })
			s, sumErr := c.Sum(t.Context())
			if err := errors.Join(err, sumErr); err != nil || s.Totals["likes"] < 1000*n || s.Totals["likes"] > 1000*n+counted.Load()-before+3 {
				t.Errorf("%+v, %v; want %d, and what came since", s.Totals, err, 1000*n)
			}
		}
		ended.Store(true)
		group.Wait()
		s, err := c.Sum(t.Context())
		if r := w.reconcile(t, rollup.ReconcileOptions{}); err != nil || r.After != s.Totals["likes"] || r.Drift != 0 {
			t.Errorf("%+v, exact %+v, %v", r, s, err)
		}
	})
}

// What decide says is done, and no more: nothing, or its error.
func TestDecide(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		w.create(t)
		w.Merge("counters/a/shards/0", map[string]any{"likes": 3})
		before := w.Server.Stats().Commits
		no := errors.New("no")
		for _, want := range []error{nil, no} {
			if err := book.In(w.db).Edit(t.Context(), "a", func(context.Context, *book.Edit) (bool, error) { return false, want }); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		if w.Server.Stats().Commits != before {
			t.Error("something was written")
		}
		page := store.Update(w.db.Layout.Document("pages/hello"), nil, map[string]*firestorepb.Value{"n": store.Int(4)}, nil)
		if err := w.edit(t.Context(), func(_ context.Context, e *book.Edit) error {
			e.SetBase(w.db.Layout.Sharded[1], 2)
			e.Beside(page)
			return e.Take("x", 3, w.likes(), 1)
		}); err != nil {
			t.Fatal(err)
		}
		b := w.read(t)
		doc, err := w.fs.Doc("pages/hello").Get(t.Context())
		if err != nil || !maps.Equal(b.Base.Counts, map[string]int64{"likes": 1, "views": 2}) || b.Base.Sources["x"] != 3 || doc.Data()["n"] != int64(4) {
			t.Errorf("%+v, the page %v, %v", b.Base, doc.Data(), err)
		}
		w.want(t, 4, 1)
		for _, gone := range []bool{false, true} { // whether the base says yet that the document is missing
			if gone {
				if _, err := w.db.Commit(t.Context(), w.read(t).SetGone().Writes...); err != nil {
					t.Fatal(err)
				}
			}
			version := w.read(t).Version()
			if err := w.edit(t.Context(), func(_ context.Context, e *book.Edit) error { e.Beside(page); return nil }); err != nil {
				t.Fatal(err)
			}
			b = w.read(t)
			if !b.Version().After(version) {
				t.Errorf("gone %v: an edit has left the version as it was: what was asked for before could be shown", gone)
			}
			if !b.Base.Gone.IsZero() {
				t.Errorf("gone since %v, and it is there", b.Base.Gone)
			}
		}
	})
}

// An answer that was asked for before an edit isn't shown after it.
func TestAnAnswerOfBeforeAnEdit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		c := w.create(t)
		if err := c.Add(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		books, likes := book.In(w.db), w.likes()
		b := w.read(t)
		answers, err := books.Sums(t.Context(), "a", layout.Fields{likes}, nil, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Reset(t.Context(), shards.ResetOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.db.Commit(t.Context(), b.Show(answers, time.Time{}).Writes...); store.KindOf(err) != store.Conflict {
			t.Errorf("%v, want a conflict", err)
		}
		if s := w.read(t).Show(answers, time.Time{}); len(s.Writes) > 0 {
			t.Errorf("shows %+v", s.Changes)
		}
		w.want(t, 0, -7)
	})
}

// What a source has counted is taken off it once it is in a base: where that has no room, all of it stays.
func TestASourceThatABaseHasNoRoomFor(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		w.create(t)
		in := func(base, added int64) error {
			return w.edit(t.Context(), func(_ context.Context, e *book.Edit) error {
				e.SetBase(w.likes(), base)
				return e.Take("x", added, w.likes(), added)
			})
		}
		last := int64(0)
		for _, fits := range []struct{ base, added int64 }{{math.MaxInt64 - 1, 1}, {math.MinInt64 + 2, -2}, {math.MinInt64, math.MaxInt64}} {
			if err := in(fits.base, fits.added); err != nil {
				t.Errorf("%d and %d more: %v", fits.base, fits.added, err)
			}
			last = fits.base + fits.added
			w.want(t, last, last)
		}
		for _, not := range []struct{ base, added int64 }{{math.MaxInt64, 1}, {math.MinInt64 + 1, -2}, {1, math.MaxInt64}} {
			if err := in(not.base, not.added); !errors.Is(err, book.ErrBeyond) {
				t.Errorf("%d and %d more: %v, want ErrBeyond", not.base, not.added, err)
			}
			w.want(t, last, last)
		}
	})
}

// An edit notes the number that a total replaces. One that sets the total has replaced it for good.
func TestAnEditReplaces(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		w.Merge("counters/a", map[string]any{"likes": 10, "views": 20})
		likes, views := w.db.Layout.Sharded[0], w.db.Layout.Sharded[1]
		for _, tt := range []struct {
			edit func(*book.Edit) error
			want map[string]int64
		}{
			{func(e *book.Edit) error { return e.Take("x", 1, likes, 1) }, map[string]int64{"likes": 10}},
			{func(e *book.Edit) error { return e.Take("y", 1, views, 1) }, map[string]int64{"likes": 10, "views": 20}},
			{func(e *book.Edit) error { e.SetBase(likes, 1); return nil }, map[string]int64{"likes": 0, "views": 20}},
		} {
			if err := w.edit(t.Context(), func(_ context.Context, e *book.Edit) error { return tt.edit(e) }); err != nil {
				t.Fatal(err)
			}
			if got := w.read(t).Base.Replaced; !maps.Equal(got, tt.want) {
				t.Errorf("replaced %v, want %v", got, tt.want)
			}
		}
	})
}

// A text in a field's place is the app's own: what an edit sets counts all the same, and is shown once the text is
// gone.
func TestAnEditBesideAText(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		w.Merge("counters/a", map[string]any{"likes": "many", "views": 1})
		c := w.counter(t)
		if err := c.Rebase(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		if got := w.read(t).Doc.GetFields()["likes"].GetStringValue(); got != "many" {
			t.Errorf("likes are %q", got)
		}
		w.Merge("counters/a", map[string]any{"likes": firestore.Delete})
		w.reconcile(t, rollup.ReconcileOptions{})
		w.want(t, 5, 5)
	})
}

// An edit is about one life of a path: what another has counted, that was made meanwhile, it leaves alone. Its marker
// tells whether it was applied before that.
func TestTwoLives(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{false, true} {
		for _, again := range []bool{false, true} {
			virtual.Run(t, fmt.Sprintf("applied %v, made again %v", applied, again), func(t *testing.T) {
				w := newWorld(t, false)
				c := w.create(t)
				next := func() {
					if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
						t.Error(err)
					}
					if again {
						w.create(t)
					}
				}
				if applied {
					w.AfterLost(next)
				} else {
					w.Before(next)
				}
				known := false
				if err := w.add(t.Context(), 5, func() { known = true }); known != applied || applied && err != nil || !applied && !errors.Is(err, book.ErrNotFound) {
					t.Errorf("%v, known as applied %v", err, known)
				}
				if again {
					w.want(t, 0, 0)
				}
			})
		}
	}
}

// The same where nobody knows whether it was applied: a commit is still on its way when the path has another life. It
// doesn't count there.
func TestALateCommitFindsAnotherLife(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		c := w.create(t)
		var held *firestorepb.CommitRequest
		w.Next(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			held = req
			if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			w.create(t)
			return emulator.Verdict{Before: unavailable}
		})
		err := w.add(t.Context(), 5, func() { t.Error("known as applied") })
		if !errors.Is(err, book.ErrNotFound) || !errors.Is(err, store.ErrDoubt) {
			t.Errorf("%v, want ErrNotFound, in doubt", err)
		}
		if _, err := firestorepb.NewFirestoreClient(w.Conn()).Commit(t.Context(), held); err == nil {
			t.Error("the late commit is applied")
		}
		w.want(t, 0, 0)
	})
}

// A document that is deleted by hand and made again meanwhile is of the same life.
func TestADocumentMadeAgainIsTheSameLife(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for _, lost := range []bool{false, true} {
			w := newWorld(t, false)
			w.create(t)
			next := func() {
				w.Delete("counters/a")
				w.reconcile(t, rollup.ReconcileOptions{})
				w.Merge("counters/a", map[string]any{"likes": 99})
			}
			if lost {
				w.AfterLost(next)
			} else {
				w.Before(next)
			}
			applied := 0
			if err := w.add(t.Context(), 5, func() { applied++ }); err != nil || applied != 1 {
				t.Errorf("lost %v: %v, applied %d times", lost, err, applied)
			}
			w.reconcile(t, rollup.ReconcileOptions{})
			w.want(t, 5, 5)
		}
	})
}

// While a counter is being deleted its edits still know what was applied, and nothing new is.
func TestEditWhileTheCounterIsBeingDeleted(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		w.create(t)
		w.AfterLost(func() { w.Merge("counters/a/counter_rollup/base", map[string]any{"ending": true}) })
		applied := 0
		if err := w.add(t.Context(), 5, func() { applied++ }); err != nil || applied != 1 {
			t.Errorf("%v, applied %d times", err, applied)
		}
		if err := w.add(t.Context(), 5, func() { applied++ }); !errors.Is(err, book.ErrNotFound) || applied != 1 {
			t.Errorf("%v, applied %d times; want ErrNotFound", err, applied)
		}
		w.want(t, 5, 5)
	})
}

// A counter that has no base gets one; where there is no counter, nothing is made. A base that can't be used is left
// alone.
func TestEditWithoutABase(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for _, hosted := range []bool{false, true} {
			w := newWorld(t, hosted)
			if err := w.add(t.Context(), 5, nil); !errors.Is(err, book.ErrNotFound) {
				t.Errorf("hosted %v: %v, want ErrNotFound", hosted, err)
			}
			if left, err := w.fs.Doc("counters/a").Collections(t.Context()).GetAll(); err != nil || len(left) > 0 {
				t.Errorf("hosted %v: %d collections, %v", hosted, len(left), err)
			}
			w.Merge("counters/a", map[string]any{"likes": 3, "num_shards": 2})
			w.Merge("counters/a/shards/0", map[string]any{"likes": 7})
			if err := w.add(t.Context(), 5, nil); err != nil {
				t.Errorf("hosted %v: %v", hosted, err)
			}
			w.want(t, 12, 5)
			w.Merge("counters/a/counter_rollup/base", map[string]any{"format": 3})
			if err := w.add(t.Context(), 5, nil); !errors.Is(err, book.ErrFormat) {
				t.Errorf("hosted %v: %v, want ErrFormat", hosted, err)
			}
			w.Merge("counters/a/counter_rollup/base", map[string]any{"format": 2})
			w.want(t, 12, 5)
		}
	})
}

// A marker tells of an edit for an hour at least, and then goes by itself.
func TestMarkersExpire(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		w.create(t)
		if err := w.add(t.Context(), 1, nil); err != nil {
			t.Fatal(err)
		}
		docs, err := w.fs.Collection(layout.Requests).Where("try", "==", 0).Documents(t.Context()).GetAll()
		if err != nil || len(docs) != 1 {
			t.Fatalf("%d markers, %v", len(docs), err)
		}
		if at, _ := docs[0].Data()["expire_at"].(time.Time); at.Before(docs[0].CreateTime.Add(59 * time.Minute)) {
			t.Errorf("made at %v, and expires at %v", docs[0].CreateTime, at)
		}
	})
}

// No edit locks the shards, or writes them: a crowd doesn't keep it from succeeding.
func TestAnEditWritesNoShards(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		c := w.create(t)
		if err := c.Add(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		var names []string
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			if len(req.GetTransaction()) > 0 {
				t.Error("a transaction")
			}
			for _, write := range req.GetWrites() {
				names = append(names, write.GetUpdate().GetName())
			}
			return emulator.Verdict{}
		})
		if err := errors.Join(c.Reset(t.Context(), shards.ResetOptions{}), c.Rebase(t.Context(), 3)); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, "/shards/") }) || len(names) != 6 {
			t.Errorf("writes %q, want document, base and marker twice", names)
		}
	})
}
