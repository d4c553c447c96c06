package rollup_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/rollup"
)

// before does something at the moment when the next commit of a ledger has been sent and is
// not applied yet.
func (w *world) before(do func()) {
	w.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		for _, write := range req.GetWrites() {
			if strings.HasSuffix(write.GetUpdate().GetName(), "/counter_rollup/ledger") {
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
			tx.Create(w.ledger(), map[string]any{"states": map[string]any{}, "base": map[string]any{}}))
	})
}

// delete deletes the counter as the product does.
func (w *world) delete() {
	w.t.Helper()
	w.commit(func(tx *firestore.Transaction) error {
		return errors.Join(tx.Delete(w.ledger()), tx.Delete(w.counter()), tx.Delete(w.shard(0)))
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
	t.Parallel()
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
}

// A shard that was made just before the counter is older than the ledger, and no event of it
// counts. A reconcile does.
func TestReconcileOfAShardOlderThanTheLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.shard(9).Set(w.ctx, map[string]any{"count": 2}))
	w.create()
	w.apply(w.arrived()...)
	w.total(0)
	if r := w.reconcile(); r.Late != 2 || r.Drift != 0 {
		t.Errorf("reconcile = %+v, want 2 late", r)
	}
	w.total(2)
}

func TestReconcileOfACounterThatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create()
	w.inc(0, 5)
	events := w.arrived()
	w.before(func() { w.delete() })
	if r := w.reconcile(); !r.Gone {
		t.Errorf("reconcile = %+v, want that it is gone", r)
	}
	w.apply(append(events, w.arrived()...)...)
	if w.exists(w.counter()) || w.exists(w.ledger()) {
		t.Error("the counter is back")
	}
}

func TestFlushOfACounterThatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create()
	w.inc(0, 5)
	events := w.arrived()
	w.before(func() { w.delete() })
	if a := w.apply(events...); !a.Gone {
		t.Errorf("applied %+v, want that it is gone", a)
	}
	if w.exists(w.counter()) || w.exists(w.ledger()) {
		t.Error("the counter is back")
	}
}

// Deleted and made again while a flush of the old one was on its way.
func TestFlushOfACounterThatIsMadeAgainMeanwhile(t *testing.T) {
	t.Parallel()
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
}

// Others' flushes, increments and another reconcile come between what a reconcile has read
// and its commit.
func TestReconcileBesideEverything(t *testing.T) {
	t.Parallel()
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
}

// Deleted by hand, which leaves shards and ledger behind, and made again by a snippet, which knows
// of no ledger and sets the shards to 0: the counter shows what its path has counted, whether an
// instance has a copy of the ledger or reads it.
func TestMadeAgainByASnippet(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"event", "event at another instance", "reconcile"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.snippet(2)
			w.inc(0, 5)
			w.apply(w.arrived()...) // adopted
			w.must(w.ledger().Update(w.ctx, []firestore.Update{{Path: "base.count", Value: 100}}))
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

// The client library resends a transaction's commit whose answer was lost, and production answers
// that it does not know the transaction any more. That is doubt, and not the end of it.
func TestAdoptionLosesItsAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(1)
	w.inc(0, 5)
	events := w.arrived()
	var once sync.Once
	w.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
		if len(req.GetTransaction()) > 0 {
			once.Do(func() {
				v.After = status.Error(codes.InvalidArgument, "The referenced transaction has expired or is no longer valid.")
			})
		}
		return v
	})
	w.apply(events...)
	w.total(5)
}

// A reset between what a flush has read and its commit: what the flush carries is from before it.
func TestFlushBesideAReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create()
	w.inc(0, 5)
	before := w.arrived()
	w.before(func() {
		w.commit(func(tx *firestore.Transaction) error {
			return errors.Join(
				tx.Update(w.shard(0), []firestore.Update{{Path: "count", Value: 0}}),
				tx.Update(w.ledger(), []firestore.Update{{Path: "ops.reset", Value: firestore.ServerTimestamp}}))
		})
	})
	w.apply(before...)
	w.inc(0, 2)
	after := w.arrived()
	w.apply(after[1]) // the increment's event before the reset's
	w.total(2)
	w.apply(after[0])
	w.total(2)
}

// An instance that keeps fewer ledgers than there are counters reads them again, and
// counts no less.
func TestFewLedgersInMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rollup = w.openWith(rollup.Config{Place: rollup.Place{Project: "p"}, Ledgers: 1})
	w.create()
	w.must(w.fs.Doc("counters/d").Set(w.ctx, map[string]any{"num_shards": 1}))
	for i := range 5 {
		w.inc(0, 1)
		w.apply(w.arrived()...)
		if _, err := w.rollup.Apply(w.ctx, "d", []ledger.State{{Shard: "0", Counts: ledger.Counts{"count": int64(i)}, AsOf: w.now()}}); err != nil {
			t.Fatal(err)
		}
	}
	w.total(5)
}

// A document is made between what a flush, or a reconcile, has read and its commit: it is not noted
// as missing, and shows its counts.
func TestADocumentIsMadeBesideACommitWithoutIt(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"flush", "reconcile"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.snippet(1)
			w.inc(0, 3)
			w.apply(w.arrived()...)
			w.must(w.counter().Delete(w.ctx))
			w.inc(0, 1)
			states := w.arrived()
			w.rollup = w.open()
			w.before(func() { w.must(w.counter().Set(w.ctx, map[string]any{"num_shards": 1})) })
			if how == "flush" {
				w.apply(states...)
			} else if r := w.reconcile(); r.Gone {
				t.Errorf("reconcile = %+v", r)
			}
			w.total(4)
			snap, err := w.ledger().Get(w.ctx)
			if w.must(nil, err); snap.Data()["gone_at"] != nil {
				t.Errorf("the ledger says that the document is gone since %v", snap.Data()["gone_at"])
			}
		})
	}
}

// A text in place of a total is set also where the total is 0.
func TestATextForATotalOfZero(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"flush", "reconcile"} {
		w := newWorld(t)
		w.snippet(1)
		w.inc(0, 1)
		w.apply(w.arrived()...)
		w.inc(0, -1)
		w.apply(w.arrived()...)
		w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "total", Value: "none"}}))
		if how == "flush" {
			w.inc(0, 1)
			w.inc(0, -1)
			w.apply(w.arrived()...)
		} else {
			w.reconcile()
		}
		w.total(0)
	}
}
