package shards_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
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

// A part of a large deletion whose answer is lost, the first or the last, arrives when the counter is gone and was made again:
// it leaves the new one alone.
func TestLatePartOfADeletionSparesTheSuccessor(t *testing.T) {
	t.Parallel()
	for part, is := range map[string]func(deleted string) bool{
		"first": func(deleted string) bool { return strings.Contains(deleted, "/shards/") },
		"last":  func(deleted string) bool { return strings.HasSuffix(deleted, "/counters/a") },
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			c := w.counter(t, client, "a", 1000)
			release := w.hold(t, func(req *firestorepb.CommitRequest) bool {
				return slices.ContainsFunc(req.GetWrites(), func(w *firestorepb.Write) bool { return is(w.GetDelete()) })
			})
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
			if doc, err := w.fs.Doc("counters/a").Get(t.Context()); err != nil {
				t.Errorf("the new counter: %v, %v", doc.Data(), err)
			}
		})
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
	if err := c.Create(t.Context(), shards.CreateOptions{}); !errors.Is(err, shards.ErrExists) {
		t.Errorf("made while it is being deleted: %v, want ErrExists", err)
	}
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

// A command leaves no drift behind where the total, or what the shards add up to, has come to the end of an int64.
func TestCommandsBeyondAnInt64(t *testing.T) {
	t.Parallel()
	page := shards.ExtensionCounter{Path: "pages/hello", Field: "views"}
	for name, s := range map[string]struct {
		total   int64 // to start from
		counts  []int64
		command func(c shards.Counter) error
		want    int64
	}{
		"reset":                            {math.MaxInt64 - 10, []int64{100}, func(c shards.Counter) error { return c.Reset(t.Context(), shards.ResetOptions{}) }, 0},
		"reset of the smallest":            {math.MinInt64, []int64{-1, 5}, func(c shards.Counter) error { return c.Reset(t.Context(), shards.ResetOptions{}) }, 0},
		"rebase":                           {0, []int64{math.MaxInt64, 5}, func(c shards.Counter) error { return c.Rebase(t.Context(), 100) }, 100},
		"import beyond the largest":        {math.MaxInt64 - 10, []int64{-100}, func(c shards.Counter) error { _, err := c.ImportExtension(t.Context(), page); return err }, math.MaxInt64 - 100},
		"import into a sum at the largest": {math.MaxInt64 - 70, []int64{100}, func(c shards.Counter) error { _, err := c.ImportExtension(t.Context(), page); return err }, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := handle(t, w.open(t, shards.Config{}), "a")
			if err := c.Create(t.Context(), shards.CreateOptions{Shards: 2, Total: s.total}); err != nil {
				t.Fatal(err)
			}
			for n, count := range s.counts {
				w.inc(t, fmt.Sprint(n), count)
			}
			w.rollUp(t, "a")
			if _, err := w.fs.Doc(page.Path).Set(t.Context(), map[string]any{"views": 50}); err != nil {
				t.Fatal(err)
			}
			if err := s.command(c); err != nil {
				t.Fatal(err)
			}
			if r := w.rollUp(t, "a"); r.After != s.want || r.Drift != 0 {
				t.Errorf("%+v, want %d and no drift", r, s.want)
			}
		})
	}
}

// The more fields are counted, the fewer shards a counter has: its ledger has room for all of them.
func TestShardsTimesFieldsFitALedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := shards.Config{Fields: "a,b,c,d,e,f"}
	const most, each = 833, 6
	client := w.open(t, cfg)
	c := handle(t, client, "x")
	if err := c.Create(t.Context(), shards.CreateOptions{Shards: most + 1}); !errors.Is(err, shards.ErrInvalidShards) {
		t.Errorf("create with %d shards: %v, want ErrInvalidShards", most+1, err)
	}
	if err := c.Create(t.Context(), shards.CreateOptions{Shards: most}); err != nil {
		t.Fatal(err)
	}
	if err := c.Resize(t.Context(), most+1, shards.ResizeOptions{}); !errors.Is(err, shards.ErrInvalidShards) {
		t.Errorf("resize to %d shards: %v, want ErrInvalidShards", most+1, err)
	}
	all := w.fs.BulkWriter(t.Context())
	for n := range most {
		if _, err := all.Set(w.fs.Doc(fmt.Sprint("counters/x/shards/", n)), map[string]any{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1}); err != nil {
			t.Fatal(err)
		}
	}
	all.End()
	roll, err := rollup.Open(t.Context(), rollup.Config{Project: "p", Fields: cfg.Fields}, option.WithGRPCConn(w.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer roll.Close()
	r, err := roll.Reconcile(t.Context(), "x", rollup.ReconcileOptions{})
	if err != nil || r.After != most || len(r.Fields) != each-1 || r.Fields["f"].After != most {
		t.Errorf("%+v, %v; want %d of each", r, err, most)
	}
	cfg.Project, cfg.MaxShards = "p", most+1
	if db, err := shards.Open(t.Context(), cfg, option.WithGRPCConn(w.Conn(t))); !errors.Is(err, shards.ErrInvalidShards) {
		t.Errorf("opened %v, %v, to grow to %d shards; want ErrInvalidShards", db, err, most+1)
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
	if err := c.Resize(t.Context(), 1, shards.ResizeOptions{}); err != nil {
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

// A counter that a snippet made without a number of shards, of which one was there when it was adopted, is written to on
// as many shards as any other. Whoever sets the number ends the guess.
func TestInferredShardsAreNoBottleneck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{CacheTTL: time.Nanosecond})
	if _, err := w.fs.Doc("counters/a/shards/0").Set(t.Context(), map[string]any{"count": 0}); err != nil {
		t.Fatal(err)
	}
	w.rollUp(t, "a")
	ref := w.fs.Doc("counters/a")
	if _, err := ref.Update(t.Context(), []firestore.Update{{Path: "num_shards", Value: 1}, {Path: "num_shards_inferred", Value: true}}); err != nil {
		t.Fatal(err)
	}
	c := handle(t, client, "a")
	for range 40 {
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(w.counts(t, "a")); n < 5 || n > 10 {
		t.Errorf("%d shards were written, want some of 10", n)
	}
	w.wantSum(t, "a", 40)
	if err := c.Resize(t.Context(), 2, shards.ResizeOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(w.counts(t, "a")); n != 2 {
		t.Errorf("after a resize to 2: %d shards", n)
	}
	if doc, err := ref.Get(t.Context()); err != nil || doc.Data()["num_shards_inferred"] != nil {
		t.Errorf("after a resize: %v, %v; want the number to be inferred no more", doc.Data(), err)
	}
}

// What AUTO_CREATE makes beside shards of a snippet may have more of them than there are yet.
func TestAutoCreateBesideShardsIsInferred(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.fs.Doc("counters/a/shards/3").Set(t.Context(), map[string]any{"count": 1}); err != nil {
		t.Fatal(err)
	}
	if err := handle(t, w.open(t, shards.Config{AutoCreate: true, NumShards: 2}), "a").Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if doc, err := w.fs.Doc("counters/a").Get(t.Context()); err != nil || doc.Data()["num_shards"] != int64(4) || doc.Data()["num_shards_inferred"] != true {
		t.Errorf("made %v, %v; want 4 shards, inferred", doc.Data(), err)
	}
}

// crowd begins calls for several counters that share a commit: as many others keep the commits busy which would otherwise
// go at once. It returns the error of each call.
func (w *world) crowd(t *testing.T, client *shards.Client, fault func(*firestorepb.CommitRequest) emulator.Verdict, calls ...[]shards.Increment) []error {
	t.Helper()
	const busy = 4
	arrived, release := make(chan struct{}, busy), make(chan struct{})
	w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		for _, write := range req.GetWrites() {
			if strings.Contains(write.GetUpdate().GetName(), "/counters/busy") {
				arrived <- struct{}{}
				<-release
				return emulator.Verdict{}
			}
		}
		return fault(req)
	})
	defer w.Server.SetInterceptor(nil)
	var group, called sync.WaitGroup
	for i := range busy {
		c := handle(t, client, fmt.Sprint("busy", i))
		group.Go(func() {
			if err := c.Add(t.Context(), 1); err != nil {
				t.Error(err)
			}
		})
		<-arrived
	}
	errs := make([]error, len(calls))
	for i, increments := range calls {
		called.Go(func() { _, errs[i] = client.AddAll(t.Context(), increments, shards.Key{}) })
	}
	called.Wait() // whatever becomes of those that are busy
	close(release)
	group.Wait()
	return errs
}

// busyCounters makes what crowd needs, and further counters.
func (w *world) busyCounters(t *testing.T, client *shards.Client, further ...string) {
	t.Helper()
	for i := range 4 {
		further = append(further, fmt.Sprint("busy", i))
	}
	for _, id := range further {
		c := w.counter(t, client, id, 2)
		if _, err := c.Get(t.Context()); err != nil { // it is known from now on
			t.Fatal(err)
		}
	}
}

func writesTo(req *firestorepb.CommitRequest, counter string) bool {
	return slices.ContainsFunc(req.GetWrites(), func(w *firestorepb.Write) bool {
		return strings.Contains(w.GetUpdate().GetName(), "/counters/"+counter+"/")
	})
}

// Calls for several counters share a commit. Trouble with one of them is that one's alone, also when the shared commit was
// in doubt before.
func TestTroubleLeavesASharedCommit(t *testing.T) {
	t.Parallel()
	invalid := status.Error(codes.InvalidArgument, "not this one")
	for _, tt := range []struct {
		name    string
		err     error // of commits that write to the counter in trouble
		want    error
		doubted *emulator.Verdict // of the first shared commit
		counted int64             // of the counter in trouble
	}{
		{name: "contention", err: aborted, want: shards.ErrBusy},
		{name: "contention after doubt", err: aborted, want: shards.ErrBusy, doubted: &emulator.Verdict{Before: unavailable}},
		{name: "contention after it was counted", err: aborted, doubted: &emulator.Verdict{After: unavailable}, counted: 1},
		{name: "invalid", err: invalid, want: invalid},
		{name: "invalid after doubt", err: invalid, want: invalid, doubted: &emulator.Verdict{Before: unavailable}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			client := w.open(t, shards.Config{})
			w.busyCounters(t, client, "bad", "good", "fine")
			var mu sync.Mutex
			shared := 0
			errs := w.crowd(t, client, func(req *firestorepb.CommitRequest) emulator.Verdict {
				mu.Lock()
				defer mu.Unlock()
				if writesTo(req, "bad") && writesTo(req, "good") {
					if shared++; shared == 1 && tt.doubted != nil {
						return *tt.doubted
					}
				}
				if writesTo(req, "bad") {
					return emulator.Verdict{Before: tt.err}
				}
				return emulator.Verdict{}
			}, []shards.Increment{{Counter: "bad", By: 1}}, []shards.Increment{{Counter: "good", By: 1}}, []shards.Increment{{Counter: "fine", By: 1}, {Counter: "good", By: 1}})
			if shared == 0 {
				t.Error("no commit was shared")
			}
			if !errors.Is(errs[0], tt.want) && status.Code(errs[0]) != status.Code(tt.want) || errs[1] != nil || errs[2] != nil {
				t.Errorf("answered %v, want %v for the first one alone", errs, tt.want)
			}
			w.wantSum(t, "bad", tt.counted)
			w.wantSum(t, "good", 2)
			w.wantSum(t, "fine", 1)
		})
	}
}

// A counter that was deleted, and is known all the same, fails no one else's increments; neither do those that are unknown.
func TestDeletedAndUnknownCountersLeaveASharedCommit(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		w.busyCounters(t, client, "gone", "good")
		if err := handle(t, w.open(t, shards.Config{}), "gone").Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		var first sync.Once
		errs := w.crowd(t, client, func(req *firestorepb.CommitRequest) (v emulator.Verdict) {
			if lost && writesTo(req, "good") {
				first.Do(func() { v.Before = unavailable })
			}
			return v
		}, []shards.Increment{{Counter: "gone", By: 1}}, []shards.Increment{{Counter: "good", By: 1}}, []shards.Increment{{Counter: "never", By: 1}}, []shards.Increment{{Counter: "good", By: 1}, {Counter: "never", By: 1}})
		if !errors.Is(errs[0], shards.ErrNotFound) || errs[1] != nil || !errors.Is(errs[2], shards.ErrNotFound) || !errors.Is(errs[3], shards.ErrNotFound) {
			t.Errorf("answered %v, want the second one counted, and the others not found", errs)
		}
		w.wantSum(t, "good", 1)
	}
}

// Five hundred unknown counters of one call, made one after the other, and slowly: nobody else waits for them.
func TestCreationsKeepNobodyWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{AutoCreate: true, NumShards: 1})
	w.busyCounters(t, client, "good")
	var many []shards.Increment
	for i := range 100 {
		many = append(many, shards.Increment{Counter: fmt.Sprint("new", i), By: 1})
	}
	creating, hold := make(chan struct{}), make(chan struct{})
	var begun sync.Once
	var atOnce, most atomic.Int64
	w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		if strings.Contains(req.GetWrites()[0].GetUpdate().GetName(), "/counters/new") {
			most.Store(max(most.Load(), atOnce.Add(1)))
			begun.Do(func() { close(creating) })
			<-hold
			atOnce.Add(-1)
		}
		return emulator.Verdict{}
	})
	var group sync.WaitGroup
	group.Go(func() {
		if _, err := client.AddAll(t.Context(), many, shards.Key{}); err != nil {
			t.Error(err)
		}
	})
	<-creating
	if _, err := client.AddAll(t.Context(), []shards.Increment{{Counter: "good", By: 1}, {Counter: "busy1", By: 1}}, shards.Key{}); err != nil {
		t.Error(err)
	}
	if err := handle(t, client, "good").Add(t.Context(), 1); err != nil {
		t.Error(err)
	}
	close(hold)
	group.Wait()
	w.wantSum(t, "good", 2)
	w.wantSum(t, "new99", 1)
	if n := most.Load(); n > 8 {
		t.Errorf("%d creations at once, want at most 8", n)
	}
}

// A shard that goes missing again each time it was made is tried a few times with pauses, and not for ever.
func TestMissingShardsDontLoop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 1)
	var commits atomic.Int64
	w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		if addsToShard(req) {
			commits.Add(1)
			return emulator.Verdict{Before: status.Error(codes.NotFound, "no document to update")}
		}
		return emulator.Verdict{}
	})
	if err := c.Add(t.Context(), 1); !errors.Is(err, shards.ErrBusy) {
		t.Errorf("add: %v, want ErrBusy", err)
	}
	if n := commits.Load(); n > 10 {
		t.Errorf("%d commits, want a few", n)
	}
}

// A command whose answers are all lost looks at what became of it, also when the caller's time is over.
func TestCommandsInDoubtFindOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := handle(t, client, "a")
	for name, command := range map[string]func(context.Context) error{
		"create": func(ctx context.Context) error { return c.Create(ctx, shards.CreateOptions{Shards: 1, Total: 7}) },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
			cancel() // the caller's time is over before the answer is there
			return emulator.Verdict{After: unavailable}
		})
		if err := command(ctx); err != nil {
			t.Errorf("%s, which was applied: %v", name, err)
		}
	}
	w.wantSum(t, "a", 7)
	for name, command := range map[string]func(context.Context) error{
		"reset":  func(ctx context.Context) error { return c.Reset(ctx, shards.ResetOptions{}) },
		"rebase": func(ctx context.Context) error { return c.Rebase(ctx, 5) },
		"resize": func(ctx context.Context) error { return c.Resize(ctx, 3, shards.ResizeOptions{}) },
		"delete": c.Delete,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
			cancel()
			return emulator.Verdict{Before: unavailable}
		})
		if err := command(ctx); !errors.Is(err, shards.ErrUnknown) {
			t.Errorf("%s, which may have been applied: %v, want ErrUnknown", name, err)
		}
	}
	w.Server.SetInterceptor(nil)
	w.wantSum(t, "a", 7)
}

// A counter is deleted by a script that knows the public layout alone: its document and its shards go, in any order, and
// its ledger stays. The counter that AUTO_CREATE makes meanwhile, or then, begins at zero, and owes nothing for them.
func TestAutoCreateBesideADeletionByHand(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ before, after []string }{
		"one shard before":       {before: []string{"0"}},
		"two before, one after":  {before: []string{"0", "1"}, after: []string{"2"}},
		"all before":             {before: []string{"0", "1", "2"}},
		"two after":              {after: []string{"0", "1"}},
		"all after the document": {after: []string{"0", "1", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
			for n := range 3 {
				w.inc(t, fmt.Sprint(n), 5)
			}
			if r := w.rollUp(t, "a"); r.After != 15 {
				t.Fatalf("rolled up %+v, want 15", r)
			}
			remove := func(docs ...string) {
				for _, doc := range docs {
					if _, err := w.fs.Doc("counters/a" + doc).Delete(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, n := range tt.before {
				remove("/shards/" + n)
			}
			remove("")
			auto := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a")
			if err := auto.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			w.wantSum(t, "a", 1)
			w.rollUp(t, "a")
			kept := int64(1)
			for _, n := range tt.after {
				kept -= w.counts(t, "a")[n] % 5 // the increment may have gone there: it is deleted as well
				remove("/shards/" + n)
			}
			if err := auto.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			kept++
			w.rollUp(t, "a")
			if got := w.total(t, "a"); got != kept {
				t.Errorf("total %d, want %d", got, kept)
			}
			if s, err := c.Sum(t.Context()); err != nil || s.Total != kept {
				t.Errorf("exact total %d, %v; want %d", s.Total, err, kept)
			}
		})
	}
}

// While Create is about to remove what lies where it is to make a counter, the roll-up or an increment with AUTO_CREATE makes
// one of it: Create finds a counter then, and has taken nothing of it.
func TestCreateBesideAnAdoption(t *testing.T) {
	t.Parallel()
	for name, adopt := range map[string]func(w *world) int64{
		"roll-up": func(w *world) int64 { return w.rollUp(t, "a").After },
		"AUTO_CREATE": func(w *world) int64 {
			if err := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a").Add(t.Context(), 1); err != nil {
				t.Error(err)
			}
			return w.rollUp(t, "a").After
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, n := range []string{"50", "51"} {
				if _, err := w.fs.Doc("counters/a/shards/"+n).Set(t.Context(), map[string]any{"count": 5}); err != nil {
					t.Fatal(err)
				}
			}
			var had int64
			w.before(func() { had = adopt(w) })
			if err := handle(t, w.open(t, shards.Config{}), "a").Create(t.Context(), shards.CreateOptions{}); !errors.Is(err, shards.ErrExists) {
				t.Errorf("create: %v, want ErrExists", err)
			}
			if had < 10 {
				t.Errorf("the counter had %d before, want 10 or more", had)
			}
			w.wantSum(t, "a", had)
		})
	}
}

// A key that is to be remembered for a minute only: its marker, the only one there is, still stands in the way of a commit
// that arrives half an hour late.
func TestLateCommitFindsAKeyOfAMinute(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	i := emulator.StartWith(t, emulator.Options{
		TTL: map[string]string{"counter_requests": "expire_at"}, SweepEvery: time.Hour, // the test sweeps
		Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	})
	w := &world{Instance: i, fs: i.Client(t, "p")}
	c := w.counter(t, w.open(t, shards.Config{KeyTTL: time.Minute}), "a", 2)
	release := w.hold(t, addsToShard)
	if _, err := c.AddOnce(t.Context(), 1, shards.Key{Value: "k"}); err != nil {
		t.Fatal(err)
	}
	ahead.Store(int64(30 * time.Minute))
	w.Server.Sweep()
	if err := release(); status.Code(err) != codes.AlreadyExists {
		t.Errorf("the late commit: %v, want ALREADY_EXISTS", err)
	}
	w.wantSum(t, "a", 1)
}
