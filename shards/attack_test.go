package shards_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/shards"
)

// hold keeps the first commit that is what is asked for until release is called, as if it were slow on its way, and then
// has it applied late, whatever its sender has done since. The sender is told at once that it is unavailable.
func (w *world) hold(t *testing.T, is func(*firestorepb.CommitRequest) bool) (release func() error) {
	var held *firestorepb.CommitRequest
	w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		if held == nil && is(req) {
			held = req
			return emulator.Verdict{Before: unavailable}
		}
		return emulator.Verdict{}
	})
	return func() error {
		w.Server.SetInterceptor(nil)
		if held == nil {
			t.Fatal("there was no such commit")
		}
		_, err := firestorepb.NewFirestoreClient(w.Conn(t)).Commit(t.Context(), held)
		return err
	}
}

// A part of a large deletion whose answer is lost arrives when the counter is gone and was made again: it leaves the new
// one's shards alone.
func TestLatePartOfADeletionSparesTheSuccessor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 1000)
	release := w.hold(t, func(req *firestorepb.CommitRequest) bool { return req.GetWrites()[0].GetDelete() != "" })
	if err := c.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	c = w.counter(t, client, "a", 1000)
	for range 20 {
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := release(); err == nil {
		t.Error("the late commit was applied")
	}
	w.wantSum(t, "a", 20)
	if n := len(w.counts(t, "a")); n != 1000 {
		t.Errorf("%d shards, want 1000", n)
	}
}

// Two delete a large counter, and one of them has made it again when the other goes on.
func TestTwoDeletionsSpareTheSuccessor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 1000)
	var begun bool
	w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		if begun || req.GetWrites()[0].GetDelete() == "" {
			return emulator.Verdict{}
		}
		begun = true
		other := w.open(t, shards.Config{})
		if err := handle(t, other, "a").Delete(t.Context()); err != nil {
			t.Error(err)
		}
		again := w.counter(t, other, "a", 1000)
		for range 20 {
			if err := again.Add(t.Context(), 1); err != nil {
				t.Error(err)
			}
		}
		return emulator.Verdict{}
	})
	if err := c.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantSum(t, "a", 20)
}

// A deletion that was cut short is finished by whoever finds it, and nothing else is deleted that way.
func TestFinishDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 1000)
	if err := c.FinishDeletion(t.Context()); !errors.Is(err, shards.ErrNotFound) {
		t.Errorf("of a counter that is not being deleted: %v, want ErrNotFound", err)
	}
	commits := 0
	w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		if commits++; commits > 2 { // the mark, and the first part
			return emulator.Verdict{Before: status.Error(codes.PermissionDenied, "cut short")}
		}
		return emulator.Verdict{}
	})
	if err := c.Delete(t.Context()); status.Code(err) != codes.PermissionDenied {
		t.Fatalf("cut short: %v", err)
	}
	w.Server.SetInterceptor(nil)
	if err := c.FinishDeletion(t.Context()); err != nil {
		t.Fatal(err)
	}
	if doc, _ := w.fs.Doc("counters/a").Get(t.Context()); doc.Exists() || len(w.counts(t, "a")) > 0 {
		t.Errorf("left: %v, %d shards", doc.Data(), len(w.counts(t, "a")))
	}
}

// Totals and sums beyond an int64 stay at the largest or smallest one, as Firestore's own increments do.
func TestSumsSaturate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 3)
	shard := func(n string, count any) {
		t.Helper()
		if _, err := w.fs.Doc("counters/a/shards/"+n).Set(t.Context(), map[string]any{"count": count}); err != nil {
			t.Fatal(err)
		}
	}
	exact := func(want int64) {
		t.Helper()
		if s, err := c.Sum(t.Context()); err != nil || s.Total != want {
			t.Errorf("exact total %d, %v; want %d", s.Total, err, want)
		}
	}
	shard("0", math.MaxInt64)
	shard("1", 5)
	exact(math.MaxInt64)
	shard("2", -10) // in any order
	exact(math.MaxInt64 - 5)
	if err := c.Rebase(t.Context(), 100); err != nil { // the ledger knows of no shard's count
		t.Fatal(err)
	}
	exact(math.MaxInt64)
	shard("0", math.MinInt64)
	shard("1", -200)
	exact(math.MinInt64)
	if err := c.Rebase(t.Context(), math.MinInt64); err != nil {
		t.Fatal(err)
	}
	exact(math.MinInt64)

	if _, err := w.fs.Doc("pages/hello").Set(t.Context(), map[string]any{"views": math.MaxInt64}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.fs.Doc("pages/hello/_counter_shards_/x").Set(t.Context(), map[string]any{"views": 7}); err != nil {
		t.Fatal(err)
	}
	d := handle(t, client, "b")
	if err := d.Create(t.Context(), shards.CreateOptions{Shards: 1, Total: 1}); err != nil {
		t.Fatal(err)
	}
	got, err := d.ImportExtension(t.Context(), shards.ExtensionCounter{Path: "pages/hello", Field: "views"})
	if err != nil || got.Value != math.MaxInt64 {
		t.Errorf("import: %+v, %v; want the largest int64", got, err)
	}
	if total := w.total(t, "b"); total != math.MaxInt64 {
		t.Errorf("total after the import %d, want the largest int64", total)
	}
}

// A shard that one client's increment(1.0) has made a double holds the integer that it is.
func TestWholeDoublesAreIntegers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 2)
	ref := w.fs.Doc("counters/a/shards/1")
	if _, err := ref.Update(t.Context(), []firestore.Update{{Path: "count", Value: firestore.Increment(3.0)}}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := c.Sum(t.Context()); err != nil || s.Total != 23 {
		t.Errorf("exact total %+v, %v; want 23", s, err)
	}
	if err := c.Resize(t.Context(), 1, nil); err != nil {
		t.Fatal(err)
	}
	w.wantSum(t, "a", 23)
	if _, err := w.fs.Doc("counters/a/shards/0").Set(t.Context(), map[string]any{"count": 0.5}); err != nil {
		t.Fatal(err)
	}
	if s, err := c.Sum(t.Context()); !errors.Is(err, shards.ErrNotInteger) || !strings.Contains(err.Error(), "shard 0") {
		t.Errorf("half a count: %+v, %v; want ErrNotInteger, and which shard", s, err)
	}
}

// A ledger that a deleted counter left behind is in nobody's way, whatever it holds.
func TestCreateOverADamagedLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for id, cfg := range map[string]shards.Config{"a": {}, "b": {AutoCreate: true}} {
		if _, err := w.fs.Doc("counters/"+id+"/counter_rollup/ledger").Set(t.Context(), map[string]any{"shards": "none", "base": "x"}); err != nil {
			t.Fatal(err)
		}
		c := handle(t, w.open(t, cfg), id)
		if !cfg.AutoCreate {
			if err := c.Create(t.Context(), shards.CreateOptions{}); err != nil {
				t.Errorf("create: %v", err)
			}
		}
		if err := c.Add(t.Context(), 1); err != nil {
			t.Errorf("add: %v", err)
		}
		w.wantSum(t, id, 1)
	}
}

// A counter is deleted by hand. One instance has not noticed and goes on counting, another one creates the counter with
// its next increment: what either has acknowledged since stays, and what the total held before is gone.
func TestAutoCreateKeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	late, other := w.open(t, shards.Config{AutoCreate: true}), w.open(t, shards.Config{AutoCreate: true})
	c := w.counter(t, late, "a", 2)
	for range 5 {
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	w.rollUp(t, "a")
	if _, err := w.fs.Doc("counters/a").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := handle(t, other, "a").Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	w.wantSum(t, "a", 11)
	if got := w.total(t, "a"); got != 0 {
		t.Errorf("total %d before any roll-up, want 0", got)
	}
	if r := w.rollUp(t, "a"); r.Drift != 0 || w.total(t, "a") != 11 {
		t.Errorf("total %d, %+v; want 11 without drift", w.total(t, "a"), r)
	}
}
