package rollup_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// before does something at the moment when the next commit of the counter's document has been sent and is not applied
// yet.
func (w *world) before(do func()) {
	w.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		for _, write := range req.GetWrites() {
			if slices.Contains(write.GetUpdateMask().GetFieldPaths(), "counter_rollup.as_of") {
				w.server.SetInterceptor(nil)
				do()
				break
			}
		}
		return emulator.Verdict{}
	})
}

// create makes the counter as the product does, with one shard.
func (w *world) create() {
	w.t.Helper()
	w.commit(func(tx *firestore.Transaction) error {
		return errors.Join(
			tx.Create(w.counter(), map[string]any{"num_shards": 1, "total": 0}),
			tx.Create(w.shard(0), map[string]any{"count": 0}),
			tx.Create(w.base(), map[string]any{"format": 2, "shards": "shards", "replaced": map[string]any{"total": 0}, "base": map[string]any{"count": 0}}))
	})
}

// delete deletes the counter as the product does.
func (w *world) delete() {
	w.t.Helper()
	w.commit(func(tx *firestore.Transaction) error {
		return errors.Join(tx.Delete(w.base()), tx.Delete(w.counter()), tx.Delete(w.shard(0)))
	})
}

func (w *world) reconcile() rollup.Report {
	w.t.Helper()
	r, err := w.rollup.Reconcile(w.ctx, w.id, rollup.ReconcileOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// walk reconciles all counters, and returns the report of this one.
func (w *world) walk() (report rollup.Report) {
	w.t.Helper()
	s, err := w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{Report: func(r rollup.Report, err error) {
		if w.must(nil, err); r.Counter == w.id {
			report = r
		}
	}})
	if err != nil || !s.Done {
		w.t.Fatalf("walk: %+v, %v", s, err)
	}
	return report
}

// A reconcile that has read an earlier counter under the same id says nothing about the one
// that is there now.
func TestReconcileOfAnEarlierCounter(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create()
		w.inc(0, 5)
		w.arrived() // and lost
		w.before(func() {
			w.delete()
			w.create()
		})
		w.reconcile()
		w.total(0)
		w.inc(0, 1)
		w.apply(w.arrived()...)
		w.total(1)
	})
}

func TestReconcileOfACounterThatIsDeletedMeanwhile(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create()
		w.inc(0, 5)
		events := w.arrived()
		w.before(func() { w.delete() })
		if r := w.reconcile(); !r.Gone {
			t.Errorf("reconcile = %+v, want that it is gone", r)
		}
		w.apply(append(events, w.arrived()...)...)
		if w.exists(w.counter()) || w.exists(w.base()) {
			t.Error("the counter is back")
		}
	})
}

func TestRefreshOfACounterThatIsDeletedMeanwhile(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create()
		w.inc(0, 5)
		events := w.arrived()
		w.before(func() { w.delete() })
		if a := w.apply(events...); a.Committed {
			t.Errorf("applied %+v, want that it is gone", a)
		}
		if w.exists(w.counter()) || w.exists(w.base()) {
			t.Error("the counter is back")
		}
	})
}

// Deleted and made again while a refresh of the old one was on its way.
func TestRefreshOfACounterThatIsMadeAgainMeanwhile(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create()
		w.inc(0, 5)
		events := w.arrived()
		w.before(func() {
			w.delete()
			w.create()
		})
		w.apply(events...)
		w.total(0)
		w.inc(0, 2)
		w.apply(w.arrived()...)
		w.total(2)
	})
}

// Others' refreshes, increments and another reconcile come between what a reconcile has read
// and its commit.
func TestReconcileBesideEverything(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := w.open()
		w.create()
		w.inc(0, 5)
		first := w.arrived()
		w.before(func() {
			w.inc(0, 10)
			if _, err := other.Apply(w.ctx, "c", w.arrived()); err != nil { // brings the first along
				t.Error(err)
			}
			w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "total", Value: firestore.Increment(100)}}))
			w.before(func() {
				w.inc(0, 1)
				if _, err := other.Reconcile(w.ctx, "c", rollup.ReconcileOptions{}); err != nil {
					t.Error(err)
				}
			})
		})
		w.reconcile()
		w.reconcile()
		w.total(16)
		w.apply(append(first, w.arrived()...)...)
		w.total(16)
	})
}

// Deleted by hand, which leaves shards and base behind, and made again by a snippet, which knows of no base and sets
// the shards to 0: the counter shows what its path has counted, whether an instance remembers it or reads it.
func TestMadeAgainByASnippet(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"event", "event at another instance", "reconcile"} {
		virtual.Run(t, how, func(t *testing.T) {
			w := newWorld(t)
			w.snippet(2)
			w.inc(0, 5)
			w.apply(w.arrived()...) // adopted
			w.must(nil, w.holding(shards.Config{}, w.id).Rebase(w.ctx, 105))
			w.inc(0, 1)
			w.apply(w.arrived()...)
			w.must(w.counter().Delete(w.ctx))
			late := w.arrived()
			w.snippet(2)
			w.inc(1, 2)
			events := w.arrived()
			switch how {
			case "event at another instance":
				w.rollup = w.open()
				fallthrough
			case "event":
				w.apply(events...)
			default:
				if r := w.reconcile(); r.Adopted || r.After != 102 {
					t.Errorf("reconcile = %+v, want 102", r)
				}
			}
			w.total(102)
			w.apply(append(late, events...)...)
			w.total(102)
			w.inc(0, 3)
			w.apply(w.arrived()...)
			w.total(105)
			if r := w.reconcile(); r.Repaired() {
				t.Errorf("reconcile = %+v, want nothing to repair", r)
			}
		})
	}
}

// A document is made between what a refresh, or a reconcile, has read and its commit: it is not noted
// as missing, and shows its counts.
func TestADocumentIsMadeBesideACommitWithoutIt(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"reconcile"} {
		virtual.Run(t, how, func(t *testing.T) {
			w := newWorld(t)
			w.snippet(1)
			w.inc(0, 3)
			w.apply(w.arrived()...)
			w.must(w.counter().Delete(w.ctx))
			w.inc(0, 1)
			states := w.arrived()
			w.rollup = w.open()
			w.server.Before(func() { w.must(w.counter().Set(w.ctx, map[string]any{"num_shards": 1})) })
			w.reconcile() // which notes that it was missing, on condition of the base alone
			w.apply(states...)
			w.total(4)
			w.reconcile()
			snap, err := w.base().Get(w.ctx)
			if w.must(nil, err); snap.Data()["gone_at"] != nil {
				t.Errorf("the base says that the document is gone since %v", snap.Data()["gone_at"])
			}
		})
	}
}

// A reset between what a refresh has read and its commit: what it asked for is from before.
func TestRefreshBesideAReset(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create()
		w.inc(0, 5)
		before := w.arrived()
		counter := w.holding(shards.Config{}, w.id)
		w.before(func() { w.must(nil, counter.Reset(w.ctx, shards.ResetOptions{})) })
		w.apply(before...)
		w.total(0)
		w.inc(0, 2)
		w.apply(w.arrived()...)
		w.total(2)
	})
}

// An instance that remembers fewer counters than there are reads them again, and counts no less.
func TestRememberedOrNot(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create()
		for n := range int64(5) {
			w.inc(0, 1)
			w.rollup.Forget(w.id)
			if a := w.apply(w.arrived()...); a.Reads != 3 {
				t.Errorf("%+v, want that document and base are read", a)
			}
			w.total(n + 1)
		}
	})
}
