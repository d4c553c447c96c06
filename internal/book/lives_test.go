package book_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// A command is about one life of a path: what another has counted, that was made meanwhile, it
// leaves alone. It says what it knows: that its counter is gone, and where it can't know, that it
// may have been applied before that.
func TestTwoLives(t *testing.T) {
	t.Parallel()
	for _, doubt := range []bool{false, true} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("doubt %v, made again %v", doubt, again), func(t *testing.T) {
				t.Parallel()
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
				if doubt {
					w.afterLost(t, next)
				} else {
					w.once(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
						next()
						return emulator.Verdict{}
					})
				}
				err := w.add(t.Context(), 5, func() { t.Error("known as applied") })
				if !errors.Is(err, book.ErrNotFound) || errors.Is(err, store.ErrDoubt) != doubt {
					t.Errorf("%v, want ErrNotFound; in doubt %v", err, doubt)
				}
				if again {
					w.want(t, 0)
				}
			})
		}
	}
}

// A document that is deleted by hand and made again meanwhile is of the same life.
func TestADocumentMadeAgainIsTheSameLife(t *testing.T) {
	t.Parallel()
	for _, doubt := range []bool{false, true} {
		w := newWorld(t, false)
		w.create(t)
		next := func() {
			doc := w.fs.Doc("counters/a")
			if _, err := doc.Delete(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := w.rollup.Reconcile(t.Context(), "a", rollup.ReconcileOptions{}); err != nil {
				t.Error(err)
			}
			if _, err := doc.Set(t.Context(), map[string]any{"likes": 99}); err != nil {
				t.Error(err)
			}
		}
		if doubt {
			w.afterLost(t, next)
		} else {
			w.once(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
				next()
				return emulator.Verdict{}
			})
		}
		applied := 0
		if err := w.add(t.Context(), 5, func() { applied++ }); err != nil || applied != 1 {
			t.Errorf("doubt %v: %v, applied %d times", doubt, err, applied)
		}
		if _, err := w.rollup.Reconcile(t.Context(), "a", rollup.ReconcileOptions{}); err != nil {
			t.Error(err)
		}
		w.want(t, 5)
	}
}

// While a counter is being deleted its ledger still tells what has been applied, and
// nothing new is.
func TestRunWhileTheCounterIsBeingDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.create(t)
	mark := func() {
		if _, err := w.fs.Doc("counters/a").Update(t.Context(), []firestore.Update{{Path: "deleting", Value: true}}); err != nil {
			t.Error(err)
		}
	}
	w.afterLost(t, mark)
	applied := 0
	if err := w.add(t.Context(), 5, func() { applied++ }); err != nil || applied != 1 {
		t.Errorf("%v, applied %d times", err, applied)
	}
	if err := w.add(t.Context(), 5, func() { applied++ }); !errors.Is(err, book.ErrNotFound) || applied != 1 {
		t.Errorf("%v, applied %d times; want ErrNotFound", err, applied)
	}
	w.want(t, 5)
}

// A counter that has no ledger gets one, of what its shards hold; where there is no counter,
// nothing is made.
func TestRunWithoutALedger(t *testing.T) {
	t.Parallel()
	for _, hosted := range []bool{false, true} {
		w := newWorld(t, hosted)
		if err := w.add(t.Context(), 5, nil); !errors.Is(err, book.ErrNotFound) {
			t.Errorf("hosted %v: %v, want ErrNotFound", hosted, err)
		}
		if left, err := w.fs.Doc("counters/a").Collections(t.Context()).GetAll(); err != nil || len(left) > 0 {
			t.Errorf("hosted %v: %d collections, %v", hosted, len(left), err)
		}
		for path, data := range map[string]map[string]any{"counters/a": {"likes": 3, "num_shards": 2}, "counters/a/shards/0": {"likes": 7}} {
			if _, err := w.fs.Doc(path).Set(t.Context(), data); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.add(t.Context(), 5, nil); err != nil {
			t.Errorf("hosted %v: %v", hosted, err)
		}
		if r, err := w.rollup.Reconcile(t.Context(), "a", rollup.ReconcileOptions{}); err != nil || r.Before != 12 || r.Drift != 0 {
			t.Errorf("hosted %v: %+v, %v; want 12", hosted, r, err)
		}
	}
}

// A command finds that the document is back, whose absence the ledger has noted, and says so
// there. When it goes again, its time is counted from then on: nothing of it is removed at
// once.
func TestACommandNotesThatTheDocumentIsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	doc := w.fs.Doc("counters/a")
	set := func() {
		if _, err := doc.Set(t.Context(), map[string]any{"title": "one"}); err != nil {
			t.Fatal(err)
		}
	}
	reconcile := func() rollup.Report {
		t.Helper()
		r, err := w.rollup.Reconcile(t.Context(), "a", rollup.ReconcileOptions{Remove: w.shards.Remove})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	remove := func() {
		if _, err := doc.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	set()
	c := w.counter(t)
	if err := c.Add(t.Context(), 1004); err != nil {
		t.Fatal(err)
	}
	remove()
	reconcile()
	if w.ledger(t).Gone.IsZero() {
		t.Fatal("the document is missing, and the ledger doesn't say so")
	}
	w.ahead.Store(int64(23 * time.Hour))
	set()
	if err := w.add(t.Context(), 1, nil); err != nil {
		t.Fatal(err)
	}
	if l := w.ledger(t); !l.Gone.IsZero() || len(l.Sums) != 2 {
		t.Errorf("gone since %v, though it is there, and shows %v", l.Gone, l.Sums)
	}
	remove()
	w.ahead.Store(int64(47 * time.Hour))
	if r := reconcile(); r.Deleted {
		t.Errorf("%+v: removed at once", r)
	}
	set()
	reconcile()
	if s, err := c.Sum(t.Context()); err != nil || s.Totals["likes"] != 1005 {
		t.Errorf("%+v, %v; want all 1,005", s, err)
	}
}

// A counter that is made where its path has a ledger shows what that has, and the ledger says so: or
// the next flush would take what is there for something else's.
func TestACounterThatIsMadeAgainShowsItsSums(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	c := w.create(t)
	if err := w.add(t.Context(), 5, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.fs.Doc("counters/a").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.rollup.Reconcile(t.Context(), "a", rollup.ReconcileOptions{}); err != nil {
		t.Fatal(err)
	}
	if l := w.ledger(t); l.Gone.IsZero() || len(l.Sums) != 0 {
		t.Fatalf("gone since %v, and shows %v", l.Gone, l.Sums)
	}
	if err := c.Create(t.Context(), shards.CreateOptions{Shards: 2}); err != nil {
		t.Fatal(err)
	}
	if l := w.ledger(t); !l.Gone.IsZero() || len(l.Sums) != 2 {
		t.Errorf("gone since %v, though it is there, and shows %v", l.Gone, l.Sums)
	}
	w.want(t, 5)
}
