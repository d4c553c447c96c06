package shards_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// What a reconcile has found without its document goes as long as nothing was counted since, and
// the document isn't back.
func TestRemove(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, ours)
		w.post(t, 3)
		w.populate(t, 300)
		w.reconcileOurs(t)
		spared := func(why string, since time.Time) {
			t.Helper()
			before := w.everything(t)
			if removed, err := client.Remove(t.Context(), "a", since); err != nil || removed {
				t.Errorf("%s: removed %v, %v; want that it is spared", why, removed, err)
			}
			if diff := cmp.Diff(before, w.everything(t)); diff != "" {
				t.Errorf("%s: (-before +after)\n%s", why, diff)
			}
		}
		spared("the document is there", w.goneAt(t))
		w.deleteByHand(t)
		earlier := w.goneAt(t)
		w.inc(t, "0", 1)
		spared("something was counted since", earlier)
		spared("no time", time.Time{})
		spared("one that comes", earlier.Add(time.Second))
		for n := range 2 { // the first one notes that what is left has its whole time again
			time.Sleep(time.Second)
			opts := rollup.ReconcileOptions{Remove: client.Remove, CleanupAfter: time.Second}
			if r := w.reconcile(t, rollup.Config{Place: rollup.Place{Hosted: true}}, "a", opts); r.Deleted != (n == 1) {
				t.Errorf("reconcile %d: %+v", n, r)
			}
		}
		w.wantNothing(t)
		spared("there is nothing", earlier)
		if _, err := client.Remove(t.Context(), "", earlier); !errors.Is(err, shards.ErrInvalidID) {
			t.Errorf("%v, want ErrInvalidID", err)
		}
	})
}

// A removal that runs out of time says so, and the next one goes on.
func TestARemovalRunsOutOfTime(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.counter(t, w.open(t, shards.Config{}), "a", 3)
		w.populate(t, 1100)
		w.rollUp(t, "a")
		w.deleteByHand(t)
		ctx, cancel := context.WithCancel(t.Context())
		c := handle(t, w.sending(t, shards.Config{}, "Commit", func(n int) {
			if n == 2 {
				cancel()
			}
		}), "a")
		since := w.goneAt(t)
		if removed, err := c.Remove(ctx, since); err != nil || removed {
			t.Errorf("removed %v, %v; want that time ran out", removed, err)
		}
		if removed, err := c.Remove(t.Context(), since); err != nil || !removed {
			t.Errorf("removed %v, %v", removed, err)
		}
		w.wantNothing(t)
	})
}

// A deletion of what a document deleted by hand has left is cut short, and a reconcile finishes it.
// Counts that nobody deletes are kept, however long the document is gone.
func TestAReconcileFinishesADeletionWithoutADocument(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		c := w.counter(t, client, "a", 3)
		w.populate(t, 600)
		w.rollUp(t, "a")
		w.deleteByHand(t)
		roll, err := rollup.Open(t.Context(), rollup.Config{Place: rollup.Place{Project: "p"}}, option.WithGRPCConn(w.Conn()))
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
	})
}
