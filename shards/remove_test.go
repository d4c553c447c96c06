package shards_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// What a reconcile has found without its document goes as long as nothing was counted since, and
// the document isn't back.
func TestRemove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 3)
	w.populate(t, 300)
	w.rollUp(t, "a")
	spared := func(why string, version time.Time) {
		t.Helper()
		before := w.everything(t)
		if removed, err := client.Remove(t.Context(), "a", version); err != nil || removed {
			t.Errorf("%s: removed %v, %v; want that it is spared", why, removed, err)
		}
		if diff := cmp.Diff(before, w.everything(t)); diff != "" {
			t.Errorf("%s: (-before +after)\n%s", why, diff)
		}
	}
	spared("the document is there", w.version(t))
	w.deleteByHand(t)
	w.rollUp(t, "a")
	earlier := w.version(t)
	w.inc(t, "0", 1)
	w.rollUp(t, "a")
	spared("something was counted since", earlier)
	spared("no version", time.Time{})
	spared("one that comes", w.version(t).Add(time.Microsecond))
	w.inc(t, "2", 1)
	spared("something was counted that was not rolled up", w.version(t))
	w.rollUp(t, "a")
	if removed, err := client.Remove(t.Context(), "a", w.version(t)); err != nil || !removed {
		t.Errorf("removed %v, %v", removed, err)
	}
	w.wantNothing(t)
	spared("there is nothing", earlier)
	if _, err := client.Remove(t.Context(), "", earlier); !errors.Is(err, shards.ErrInvalidID) {
		t.Errorf("%v, want ErrInvalidID", err)
	}
	_ = c
}

// What was counted since is counted also where the ledger has no room for it.
func TestRemoveWithAFullLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	w.counter(t, client, "a", 1)
	many := map[string]any{"count": 1}
	for len(many) < ledger.MaxNumbers {
		many[fmt.Sprint("f", len(many))] = 1
	}
	write := func(shard string, fields map[string]any) {
		t.Helper()
		if _, err := w.fs.Doc("counters/a/shards/"+shard).Set(t.Context(), fields); err != nil {
			t.Fatal(err)
		}
	}
	write("0", many)
	w.rollUp(t, "a")
	w.deleteByHand(t)
	w.rollUp(t, "a")
	write("1", map[string]any{"count": 1})
	if removed, err := client.Remove(t.Context(), "a", w.version(t)); err != nil || removed {
		t.Errorf("removed %v, %v; want that it is spared", removed, err)
	}
	w.wantSum(t, "a", 2)
}

// The document comes back between the steps of a removal, which has taken some members by then: the
// rest stays, and adds up.
func TestTheDocumentComesBackDuringARemoval(t *testing.T) {
	t.Parallel()
	for _, hosted := range []bool{false, true} {
		t.Run(fmt.Sprint("hosted ", hosted), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.counter(t, w.open(t, shards.Config{}), "a", 3)
			w.populate(t, 600)
			w.rollUp(t, "a")
			w.deleteByHand(t)
			c := handle(t, w.sending(t, shards.Config{Place: shards.Place{Hosted: hosted}}, "BeginTransaction", func(n int) {
				if n == 2 {
					if _, err := w.fs.Doc("counters/a").Set(t.Context(), map[string]any{"title": "back"}); err != nil {
						t.Error(err)
					}
				}
			}), "a")
			if removed, err := c.Remove(t.Context(), w.version(t)); err != nil || removed {
				t.Errorf("removed %v, %v; want that it is back", removed, err)
			}
			n := w.memberships(t)
			if n == 0 || n == 600 {
				t.Errorf("%d members are left of 600, want some", n)
			}
			w.rollUp(t, "a")
			w.wantRolledUp(t, int64(n))
		})
	}
}

// A removal is cut short, and before the next one the document comes back, is counted, and goes again,
// whether that was rolled up or not: what is left has its whole time, and then goes. So it is where a
// client counts without a document.
func TestARemovalIsOffOnceSomethingIsCounted(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]struct{ back, rolledUp bool }{
		"the document was back":                  {back: true},
		"the document was back, and was counted": {back: true, rolledUp: true},
		"it was not":                             {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			w.counter(t, client, "a", 3)
			w.populate(t, 600)
			w.rollUp(t, "a")
			w.deleteByHand(t)
			w.rollUp(t, "a")
			w.cutAfter(1)
			if _, err := client.Remove(t.Context(), "a", w.version(t)); status.Code(err) != codes.PermissionDenied {
				t.Fatalf("cut short: %v", err)
			}
			w.Server.SetInterceptor(nil)
			left := int64(w.memberships(t))
			if s.back {
				if _, err := w.fs.Doc("counters/a").Set(t.Context(), map[string]any{"title": "back"}); err != nil {
					t.Fatal(err)
				}
			}
			w.inc(t, "1", 5)
			if s.rolledUp {
				w.rollUp(t, "a")
			}
			if s.back {
				w.deleteByHand(t)
			}
			hosted := w.open(t, shards.Config{Place: shards.Place{Hosted: true}})
			roll, err := rollup.Open(t.Context(), rollup.Config{Place: rollup.Place{Project: "p", Hosted: true}}, option.WithGRPCConn(w.Conn(t)))
			if err != nil {
				t.Fatal(err)
			}
			defer roll.Close()
			for _, after := range []time.Duration{time.Hour, time.Hour, time.Nanosecond} {
				r, err := roll.Reconcile(t.Context(), "a", rollup.ReconcileOptions{Remove: hosted.Remove, CleanupAfter: after})
				if err != nil || r.Deleted != (after < time.Hour) {
					t.Fatalf("%+v, %v; want what is left deleted after its time", r, err)
				}
				if !r.Deleted {
					w.wantSum(t, "a", left+5)
				}
			}
			w.wantNothing(t)
		})
	}
}

// A removal that runs out of time says so, and the next one goes on.
func TestARemovalRunsOutOfTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.counter(t, w.open(t, shards.Config{}), "a", 3)
	w.populate(t, 1100)
	w.rollUp(t, "a")
	w.deleteByHand(t)
	ctx, cancel := context.WithCancel(t.Context())
	c := handle(t, w.sending(t, shards.Config{}, "BeginTransaction", func(n int) {
		if n == 2 {
			cancel()
		}
	}), "a")
	if removed, err := c.Remove(ctx, w.version(t)); err != nil || removed {
		t.Errorf("removed %v, %v; want that time ran out", removed, err)
	}
	w.wantSum(t, "a", int64(w.memberships(t)))
	if removed, err := c.Remove(t.Context(), w.version(t)); err != nil || !removed {
		t.Errorf("removed %v, %v", removed, err)
	}
	w.wantNothing(t)
}

// A deletion of what a document deleted by hand has left is cut short, and a reconcile finishes it.
// Counts that nobody deletes are kept, however long the document is gone.
func TestAReconcileFinishesADeletionWithoutADocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 3)
	w.populate(t, 600)
	w.rollUp(t, "a")
	w.deleteByHand(t)
	roll, err := rollup.Open(t.Context(), rollup.Config{Place: rollup.Place{Project: "p"}}, option.WithGRPCConn(w.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer roll.Close()
	reconcile := func() rollup.Report {
		t.Helper()
		r, err := roll.Reconcile(t.Context(), "a", rollup.ReconcileOptions{Remove: client.Remove, CleanupAfter: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for range 3 {
		if r := reconcile(); r.Deleted || w.memberships(t) != 600 {
			t.Fatalf("%+v, and %d members; want that all are kept", r, w.memberships(t))
		}
	}
	w.cutAfter(1)
	if err := c.Delete(t.Context(), shards.DeleteOptions{}); status.Code(err) != codes.PermissionDenied {
		t.Fatalf("cut short: %v", err)
	}
	w.Server.SetInterceptor(nil)
	if r := reconcile(); !r.Deleted {
		t.Errorf("%+v, want the deletion finished", r)
	}
	w.wantNothing(t)
}
