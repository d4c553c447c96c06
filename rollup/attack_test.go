package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// What went wrong once when the exactness was attacked, and must not again.

// field fails unless a field of the counter's document is what is wanted.
func (w *world) field(name string, want any) {
	w.t.Helper()
	snap, err := w.counter().Get(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := snap.Data()[name]; got != want {
		w.t.Errorf("%s = %v, want %v", name, got, want)
	}
}

// Totals beyond an int64 stay at its end, as Firestore's increments do, and come back from there.
func TestTotalBeyondAnInt64(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"event", "reconcile", "adoption"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			count := func() {
				if how == "event" {
					w.apply(w.arrived()...)
					return
				}
				w.arrived()
				w.reconcile()
			}
			w.snippet(2)
			if how != "adoption" {
				count()
			}
			w.must(w.shard(0).Set(w.ctx, map[string]any{"count": math.MaxInt64}))
			w.must(w.shard(1).Set(w.ctx, map[string]any{"count": 5}))
			count()
			w.total(math.MaxInt64)
			if r := w.reconcile(); !r.Right() {
				t.Errorf("reconcile = %+v, want that it is right", r)
			}
			w.must(w.shard(0).Set(w.ctx, map[string]any{"count": math.MaxInt64 - 6}))
			count()
			w.total(math.MaxInt64 - 1)
		})
	}
}

// One client's increment(1.0) makes a shard a double for good. It is counted all the same.
func TestWholeDoubleCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(1)
	w.must(w.shard(0).Set(w.ctx, map[string]any{"count": 3.0}))
	w.arrived()
	if r := w.reconcile(); !r.Adopted || r.Problem != "" {
		t.Errorf("reconcile = %+v", r)
	}
	w.total(3)
	w.must(w.shard(0).Update(w.ctx, []firestore.Update{{Path: "count", Value: firestore.Increment(4)}}))
	w.arrived()
	if r := w.reconcile(); r.Late != 4 || r.Problem != "" {
		t.Errorf("reconcile = %+v, want 4 late", r)
	}
	w.total(7)
	if r := w.reconcile(); !r.Right() {
		t.Errorf("reconcile = %+v, want that it is right", r)
	}
}

// A shard that holds no integer is reported, whatever the sums say.
func TestReconcileReportsWhatIsNotAnInteger(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{"string": "five", "half": 0.5, "beyond 2^53": 1e300, "not a number": math.NaN(), "null": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.snippet(2)
			w.inc(0, 7)
			w.apply(w.arrived()...)
			w.must(w.shard(1).Set(w.ctx, map[string]any{"count": value}))
			w.arrived()
			for range 2 {
				if r := w.walk(); r.Right() || !strings.Contains(r.Problem, `"1"`) {
					t.Errorf("reconcile = %+v, want a problem with shard 1", r)
				}
			}
			w.total(7)
			w.must(w.shard(1).Set(w.ctx, map[string]any{"count": 2}))
			if r := w.reconcile(); r.Problem != "" {
				t.Errorf("once it is mended: %+v", r)
			}
			w.total(9)
		})
	}
}

// An event that claims a time which has not come is poison: its state would hide the
// shard for as long.
func TestEventFromTheFutureIsPoison(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(1)
	r := w.roller(rollup.RollerOptions{Interval: 10 * time.Millisecond})
	w.inc(0, 5)
	for _, s := range w.arrived() {
		if err := r.Add(w.ctx, change(s)); err != nil {
			t.Fatal(err)
		}
	}
	future := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []rollup.Change{
		change(ledger.State{Shard: "0", Counts: ledger.Counts{"count": 999}, AsOf: future}),
		change(ledger.State{Shard: "0", Counts: ledger.Counts{"count": 999}, AsOf: w.now().Add(time.Minute)}),
		{Counter: "c", Shard: "0", AsOf: future, Gone: true},
	} {
		if err := r.Add(w.ctx, c); !errors.Is(err, rollup.ErrPoison) {
			t.Errorf("Add(%+v) = %v, want ErrPoison", c, err)
		}
	}
	w.inc(0, 1)
	for _, s := range w.arrived() {
		if err := r.Add(w.ctx, change(s)); err != nil {
			t.Fatal(err)
		}
	}
	w.total(6)
}

// What a ledger claims of a time that has not come, or of one at which a shard did not change, a
// reconcile replaces.
func TestReconcileOverwritesImpossibleEntries(t *testing.T) {
	t.Parallel()
	for name, asOf := range map[string]func(w *world) time.Time{
		"from the future": func(*world) time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) },
		"that never were": func(w *world) time.Time { return w.now() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.snippet(2)
			w.inc(0, 5)
			w.apply(w.arrived()...)
			claim := map[string]any{"counts": map[string]any{"count": 999}, "as_of": asOf(w)}
			w.must(w.ledger().Update(w.ctx, []firestore.Update{{FieldPath: []string{"states", "0"}, Value: claim}, {FieldPath: []string{"states", "gone"}, Value: claim}}))
			w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "total", Value: 1998}}))
			w.before(func() { w.inc(0, 2) }) // hidden by the claim until the commit
			w.reconcile()
			if name == "from the future" {
				w.total(7)
			}
			w.inc(0, 1)
			w.apply(w.arrived()...)
			w.total(8)
			if r := w.reconcile(); !r.Right() {
				t.Errorf("a second reconcile = %+v", r)
			}
		})
	}
}

// What an impossible entry has hidden is looked for shard by shard: a total that is right by then
// is so by chance.
func TestReconcileLooksBehindATotalThatIsRightByChance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(2)
	w.inc(0, 5)
	w.inc(1, 5)
	w.apply(w.arrived()...)
	claim := map[string]any{"counts": map[string]any{"count": 999}, "as_of": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.must(w.ledger().Update(w.ctx, []firestore.Update{{FieldPath: []string{"states", "0"}, Value: claim}}))
	// or else there is no reason to look
	w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "total", Value: 11}}))
	w.rollup = w.open()
	var late []ledger.State
	w.before(func() { // a move from one shard to the other, the first half of which the claim hides
		w.inc(0, -3)
		w.apply(w.arrived()...)
		w.inc(1, 3)
		late = w.arrived()
	})
	w.reconcile()
	w.apply(late...)
	w.total(10)
}

// A total that is right by chance hides a ledger that isn't: what is counted next would show it.
func TestReconcileLooksIntoALedgerBehindARightTotal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(2)
	w.inc(0, 5)
	w.apply(w.arrived()...)
	w.inc(0, -2)
	w.arrived() // and is lost
	w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "total", Value: 3}}))
	if r := w.walk(); r.Shards != 1 {
		t.Errorf("%+v, want that the ledger is corrected", r)
	}
	w.inc(1, 1)
	w.apply(w.arrived()...)
	w.total(4)
}

// The sums in a ledger are of the fields that whoever wrote it last shows, as they are defined there,
// so that nobody takes an older revision's for right; a reconcile that finds everything right but
// these writes its own.
func TestSumsInALedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(2)
	wants := func(definitions map[string]int64) {
		t.Helper()
		want := map[string]any{}
		for definition, n := range definitions {
			fields, err := layout.ParseFields(definition)
			w.must(nil, err)
			want[fields[0].Key()] = n
		}
		if got := w.inLedger("sums"); !reflect.DeepEqual(got, want) {
			t.Errorf("sums = %v, want those of %v", got, definitions)
		}
	}
	older, newer := w.rollup, w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: "total=count,likes"}})
	w.inc(0, 5)
	w.apply(w.arrived()...)
	wants(map[string]int64{"total=count": 5})
	w.walk() // so that the ledger knows both shards
	w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "likes", Value: 0}}))
	w.rollup = newer
	for range 2 {
		if r := w.walk(); !r.Right() {
			t.Errorf("%+v, want that all is right", r)
		}
		wants(map[string]int64{"total=count": 5, "likes": 0})
	}
	w.rollup = older
	w.must(w.shard(1).Update(w.ctx, []firestore.Update{{Path: "count", Value: 1}, {Path: "likes", Value: 2}}))
	w.apply(w.arrived()...)
	wants(map[string]int64{"total=count": 6})
	w.must(w.shard(1).Update(w.ctx, []firestore.Update{{Path: "likes", Value: 0}}))
	w.arrived() // and is lost
	w.rollup = newer
	if r := w.walk(); r.Shards != 1 {
		t.Errorf("%+v, want that the ledger is corrected", r)
	}
	wants(map[string]int64{"total=count": 6, "likes": 0})
}

// A shard that is older than the ledger and not in it counts once a reconcile has found it. If
// it goes before that is committed, the event of its end is as old, and passed over: the
// reconcile looks again.
func TestReconcileLooksAgainAtAShardThatWasOverlooked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(2)
	w.inc(1, 3)
	w.apply(w.arrived()...)
	w.must(w.ledger().Update(w.ctx, []firestore.Update{{FieldPath: []string{"states", "1"}, Value: firestore.Delete}}))
	w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "total", Value: 0}}))
	w.before(func() {
		w.must(w.shard(1).Delete(w.ctx))
		w.apply(w.arrived()...)
	})
	w.reconcile()
	w.total(0)
}

// However many shards send events, those in the ledger go on counting. A reconcile makes room.
func TestFullLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(1)
	w.apply(w.arrived()...)
	now := w.now()
	var states []ledger.State
	for i := range ledger.MaxNumbers + 10 {
		states = append(states, ledger.State{Shard: fmt.Sprintf("%0100d", i), AsOf: now})
	}
	if a := w.apply(states...); a.Full != 11 {
		t.Errorf("%d shards were refused, want 11: one more was known", a.Full)
	}
	w.inc(0, 5)
	w.apply(w.arrived()...)
	w.total(5)
	// One more shard, and there is no room: entries of shards that are gone go at once.
	w.must(w.shard(1).Set(w.ctx, map[string]any{"count": 3}))
	if a := w.apply(w.arrived()...); a.Full != 0 {
		t.Errorf("%d shards were refused, want none", a.Full)
	}
	w.total(8)
	w.apply(states[:5]...) // late ones of shards that are gone
	w.total(8)
}

// Where every number in a ledger is of a shard that is there, an event of one more is acknowledged for
// a note. So is a deletion, which a snapshot of before contradicts.
func TestALedgerFullOfShardsThatAreThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(1)
	many := map[string]any{}
	for i := range ledger.MaxNumbers {
		many[fmt.Sprint("f", i)] = 1
	}
	w.must(w.shard(0).Set(w.ctx, many))
	w.apply(w.arrived()...)
	w.must(w.shard(1).Set(w.ctx, map[string]any{"count": 3}))
	r := w.roller(rollup.RollerOptions{Interval: 10 * time.Millisecond})
	for _, why := range []string{"a shard", "its deletion"} {
		if err := r.Add(w.ctx, change(w.arrived()[0])); err != nil {
			t.Errorf("%s: Add = %v", why, err)
		}
		if note := w.note(); note == nil || !strings.Contains(note["why"].(string), "no room") {
			t.Errorf("%s: noted is %v", why, note)
		} else if why == "a shard" {
			w.must(w.shard(1).Delete(w.ctx))
			w.removeNote()
		}
	}
}

// A ledger of another's making stops its own counter, is reported, and stops no other.
func TestDamagedLedger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(1)
	w.inc(0, 5)
	events := w.arrived()
	w.apply(events...)
	w.must(w.ledger().Update(w.ctx, []firestore.Update{{Path: "states", Value: "none"}}))
	w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "total", Value: 1}}))
	if _, err := w.rollup.Reconcile(w.ctx, "c", rollup.ReconcileOptions{}); !errors.Is(err, rollup.ErrDamagedLedger) {
		t.Errorf("reconcile = %v, want ErrDamagedLedger", err)
	}
	if sum := w.rollup.ReconcileSome(w.ctx, []string{"c"}, rollup.ReconcileOptions{}); sum.Seen != 1 || sum.Failed != 1 || sum.Repaired != 0 {
		t.Errorf("reconcile = %+v, want that one failed", sum)
	}
	// Without it, another is made of what the shards hold.
	w.must(w.ledger().Delete(w.ctx))
	w.inc(0, 2)
	w.apply(w.arrived()...)
	w.total(7)
}

// Google's Go snippet writes Count.
func TestShardsOfAnotherField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.counter().Set(w.ctx, map[string]any{"num_shards": 2}))
	for n := range 2 {
		w.must(w.shard(n).Set(w.ctx, map[string]any{"Count": n}))
	}
	const want = `shards hold no integer "count", but "Count": set FIELDS=total=Count`
	for range 2 { // adopted, and then
		if r := w.reconcile(); r.Problem != want || r.Right() {
			t.Errorf("reconcile = %+v, want the problem %q", r, want)
		}
	}
}

// A dry run of a counter without a ledger says what adopting it would show, and makes none. What
// is wrong is logged as drift, with its sign, by the reconcile or the flush that mends it, and by
// no other.
func TestReconcileSaysAndLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log strings.Builder
	client, err := rollup.Open(w.ctx, rollup.Config{Place: rollup.Place{Project: "p"}, Logger: slog.New(slog.NewTextHandler(&log, nil))}, option.WithGRPCConn(w.connect()))
	if err != nil {
		t.Fatal(err)
	}
	w.snippet(2)
	w.inc(0, 4)
	reconcile := func(dry bool) rollup.Report {
		t.Helper()
		log.Reset()
		r, err := client.Reconcile(w.ctx, "c", rollup.ReconcileOptions{DryRun: dry})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := reconcile(true); !r.Adopted || r.After != 4 || w.exists(w.ledger()) {
		t.Errorf("dry run = %+v, want that it would be adopted with 4", r)
	}
	if r := reconcile(false); !r.Adopted || r.After != 4 {
		t.Errorf("reconcile = %+v, want that it is adopted with 4", r)
	}
	w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "total", Value: 1}}))
	for _, s := range []struct {
		dry   bool
		drift int64
	}{{true, -3}, {false, -3}, {false, 0}} {
		r := reconcile(s.dry)
		logged := strings.Contains(log.String(), fmt.Sprint("drift=", s.drift))
		if r.Drift != s.drift || logged != (!s.dry && s.drift != 0) {
			t.Errorf("%+v: %+v; the log: %s", s, r, &log)
		}
	}
	w.rollup = client // a flush that meets it does the same
	w.arrived()
	for _, by := range []int64{-3, 0} {
		if by != 0 {
			w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "total", Value: firestore.Increment(by)}}))
		}
		log.Reset()
		w.inc(0, 1)
		w.apply(w.arrived()...)
		if logged := strings.Contains(log.String(), fmt.Sprint("msg=drift counter=c drift=", by)); logged != (by != 0) {
			t.Errorf("drift of %d; the log: %s", by, &log)
		}
	}
	w.total(6)
}

// Whatever writes a counter's total says when, for those who read it.
func TestUpdatedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(2)
	w.arrived()
	w.reconcile()
	for n := range 2 {
		w.inc(n, 1)
		w.apply(w.arrived()...)
		doc, err := w.counter().Get(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if at, _ := doc.DataAt("updated_at"); !doc.UpdateTime.Truncate(time.Millisecond).Equal(at.(time.Time)) {
			t.Errorf("flush %d: updated_at is %v; the document was written at %v", n, at, doc.UpdateTime)
		}
	}
}

// Google's tools delete a document first, and then what is below it.
func TestDeletionsAloneAdoptNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(3)
	w.arrived()
	w.must(w.counter().Delete(w.ctx))
	w.must(w.shard(0).Delete(w.ctx))
	w.apply(w.arrived()...)
	if w.exists(w.counter()) || w.exists(w.ledger()) {
		t.Error("the counter is back")
	}
}

// counters makes a number of counters without ledgers, so that reconciling each takes commits.
func (w *world) counters(n int) {
	w.t.Helper()
	for i := range n {
		w.must(w.fs.Doc(fmt.Sprintf("counters/c%03d", i)).Set(w.ctx, map[string]any{"num_shards": 1}))
	}
}

// However short the time of a walk is, the next one goes on where it stopped, and one slow counter
// holds no other up.
func TestReconcileAllGetsFurther(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		const counters = 130
		w.counters(counters)
		w.server.SetInterceptor(func(ctx context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			for _, write := range req.GetWrites() {
				if strings.Contains(write.GetUpdate().GetName(), "/counters/c003/") {
					<-ctx.Done()
					return emulator.Verdict{Before: status.Error(codes.DeadlineExceeded, "slow")}
				}
			}
			time.Sleep(50 * time.Millisecond)
			return emulator.Verdict{}
		})
		seen := map[string]int{}
		calls := 0
		for ; ; calls++ {
			if calls == 30 {
				w.t.Fatalf("not through after %d calls, %d of %d seen", calls, len(seen), counters)
			}
			ctx, cancel := context.WithTimeout(w.ctx, time.Second)
			sum, err := w.rollup.ReconcileAll(ctx, rollup.ReconcileOptions{Resume: true, Parallel: 4, Report: func(r rollup.Report, _ error) { seen[r.Counter]++ }})
			cancel()
			if err != nil {
				w.t.Fatal(err)
			}
			if sum.Done {
				break
			}
		}
		if len(seen) != counters {
			w.t.Errorf("%d of %d counters seen", len(seen), counters)
		}
		again := -counters
		for _, n := range seen {
			again += n
		}
		if again > 8*calls {
			// of a call that ran out of time: those that others, behind the first one that was
			// left, were done with
			w.t.Errorf("%d counters were seen again in %d further calls: pages are walked anew", again, calls)
		}
	})
}

// A walk for which there was no time at all has not done any counter, and doesn't say that it has.
func TestReconcileWithoutTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.counters(3)
	ended, end := context.WithCancel(w.ctx)
	end()
	if sum := w.rollup.ReconcileSome(ended, []string{"c000", "c001", "c002"}, rollup.ReconcileOptions{}); sum.Done || sum.Seen != 0 {
		t.Errorf("%+v, want nothing done", sum)
	}
}

// A walk whose place Firestore has forgotten, because its token is of another time, begins anew.
func TestReconcileAllWithACursorThatIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.counters(3)
	w.must(w.fs.Doc("counter_rollup/reconcile").Set(w.ctx, map[string]any{
		"walks": map[string]any{"counters/{counter}": map[string]any{"page": "of another time", "done": "c001"}},
	}))
	for range 2 {
		if sum, err := w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{Resume: true}); err != nil || !sum.Done || sum.Seen != 3 {
			t.Errorf("%+v, %v; want 3 seen, and done", sum, err)
		}
	}
}

// A dry run begins at the beginning, and leaves the cursor where it is.
func TestDryRunOfAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.counters(110)
	cut, cancel := context.WithCancel(w.ctx)
	n := 0
	if _, err := w.rollup.ReconcileAll(cut, rollup.ReconcileOptions{Resume: true, Parallel: 1, Report: func(rollup.Report, error) {
		if n++; n == 40 {
			cancel()
		}
	}}); err != nil {
		t.Fatal(err)
	}
	sum, err := w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{Resume: true, DryRun: true})
	if err != nil || !sum.Done || sum.Seen != 110 {
		t.Errorf("a dry run saw %+v, %v, want all", sum, err)
	}
	sum, err = w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{Resume: true})
	if err != nil || !sum.Done || sum.Seen != 70 {
		t.Errorf("the next walk saw %+v, %v, want the 70 behind the cursor", sum, err)
	}
}

// A deletion that was cut short is finished where the reconcile knows how, and else reported.
func TestReconcileFinishesADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create()
	w.must(w.counter().Update(w.ctx, []firestore.Update{{Path: "deleting", Value: true}}))
	if r := w.reconcile(); r.Right() || r.Repaired() || r.Problem == "" {
		t.Errorf("reconcile = %+v, want a problem", r)
	}
	remove := func(_ context.Context, counter string, _ time.Time) (bool, error) {
		if counter != "c" {
			t.Errorf("asked to delete %q", counter)
		}
		w.delete()
		return true, nil
	}
	r, err := w.rollup.Reconcile(w.ctx, "c", rollup.ReconcileOptions{DryRun: true, Remove: remove})
	if err != nil || !r.Deleted || !w.exists(w.counter()) {
		t.Errorf("dry run = %+v, %v", r, err)
	}
	r, err = w.rollup.Reconcile(w.ctx, "c", rollup.ReconcileOptions{Remove: remove})
	if err != nil || !r.Deleted || !r.Repaired() || w.exists(w.counter()) {
		t.Errorf("reconcile = %+v, %v", r, err)
	}
}

// A roller that closes takes nothing more, so that it ends whatever comes, and commits no
// more than it needs.
func TestRollerClosesUnderASteadyStream(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(4)
		w.apply(w.arrived()...)
		r := rollup.NewRoller(w.open(), rollup.RollerOptions{Interval: 50 * time.Millisecond})
		commits := w.commitsOnCounter()
		var stream sync.WaitGroup
		var stop atomic.Bool
		for range 8 {
			stream.Go(func() {
				for !stop.Load() {
					if err := r.Add(w.ctx, change(ledger.State{Shard: "0", Counts: ledger.Counts{"count": 1}, AsOf: w.now()})); errors.Is(err, rollup.ErrClosed) {
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		before := commits.Load()
		ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			w.t.Errorf("Close = %v", err)
		}
		if n := commits.Load() - before; n > 3 {
			w.t.Errorf("%d commits to close, want at most the one in flight and one for what waited", n)
		}
		stop.Store(true)
		stream.Wait()
	})
}

// While a roller closes, with a flush under way, it refuses what comes.
func TestClosingRollerRefusesFirst(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(1)
		w.apply(w.arrived()...)
		w.inc(0, 1)
		first := change(w.arrived()[0])
		w.inc(0, 1)
		second := change(w.arrived()[0])
		r := rollup.NewRoller(w.open(), rollup.RollerOptions{Interval: time.Millisecond})
		under, release := make(chan struct{}), make(chan struct{})
		w.before(func() { close(under); <-release })
		var group sync.WaitGroup
		group.Go(func() {
			if err := r.Add(w.ctx, first); err != nil {
				w.t.Error(err)
			}
		})
		<-under
		group.Go(func() {
			if err := r.Close(w.ctx); err != nil {
				w.t.Error(err)
			}
		})
		for try := 0; ; try++ { // until Close has begun
			ctx, cancel := context.WithTimeout(w.ctx, 20*time.Millisecond)
			err := r.Add(ctx, second)
			cancel()
			if errors.Is(err, rollup.ErrClosed) {
				break
			}
			if try == 100 {
				w.t.Errorf("Add = %v, want ErrClosed", err)
				break
			}
		}
		close(release)
		group.Wait()
	})
}

// A client without a logger is silent.
func TestNoLogger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.silent()
	w.snippet(1)
	w.inc(0, 1)
	r := rollup.NewRoller(client, rollup.RollerOptions{})
	if err := r.Add(w.ctx, change(w.arrived()[1])); err != nil {
		t.Error(err)
	}
	if err := r.Close(w.ctx); err != nil {
		t.Error(err)
	}
	w.total(1)
}

// A second or so without Firestore fails no flush.
func TestApplyOutlastsDoubt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(1)
	w.apply(w.arrived()...)
	w.inc(0, 5)
	states := w.arrived()
	var commits atomic.Int64
	w.server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
		if commits.Add(1) <= 9 {
			v.Before = status.Error(codes.Unavailable, "away")
		}
		return v
	})
	w.apply(states...)
	w.total(5)
}

// An event is answered as soon as a newer one of its shard is held; that one is answered
// when it is counted.
func TestRollerAnswersSupersededEventsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(1)
	w.apply(w.arrived()...)
	r := w.roller(rollup.RollerOptions{})
	release := make(chan struct{})
	w.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
		for _, write := range req.GetWrites() {
			if strings.HasSuffix(write.GetUpdate().GetName(), "/counter_rollup/ledger") {
				<-release
			}
		}
		return emulator.Verdict{}
	})
	var states []ledger.State
	for range 50 {
		w.inc(0, 1)
	}
	states = w.arrived()
	answers := make(chan error, len(states))
	for _, s := range states {
		go func() { answers <- r.Add(w.ctx, change(s)) }()
	}
	for range len(states) - 1 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	select {
	case err := <-answers:
		t.Errorf("the newest was answered before it was counted: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if err := <-answers; err != nil {
		t.Error(err)
	}
	w.total(50)
}

// What was counted of a field stays when something else makes that a text or null, and what is
// counted from there comes on top, however the roll-up hears of either.
func TestWhatWasCountedOfAFieldThatBecomesAText(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{"text": "oops", "null": nil, "not a number": math.NaN()} {
		for how, told := range map[string]func(w *world, text, one []ledger.State){
			"events": func(w *world, text, one []ledger.State) { w.apply(text...); w.apply(one...) },
			"twice": func(w *world, text, one []ledger.State) {
				w.apply(append(text, text...)...)
				w.apply(one...)
				w.apply(text...)
			},
			"one flush": func(w *world, text, one []ledger.State) { w.apply(append(text, one...)...) },
		} {
			t.Run(name+", by "+how, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.snippet(2)
				w.inc(0, 7)
				w.inc(1, 30)
				w.apply(w.arrived()...)
				w.must(w.shard(0).Set(w.ctx, map[string]any{"count": value}))
				text := w.arrived()
				if name == "not a number" { // of which increments make nothing else
					w.must(w.shard(0).Set(w.ctx, map[string]any{"count": 0}))
				}
				w.inc(0, 1)
				told(w, text, w.arrived())
				w.total(38)
				if r := w.reconcile(); !r.Right() {
					t.Errorf("%+v", r)
				}
			})
		}
	}
	t.Run("a reconcile", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.snippet(1)
		w.inc(0, 7)
		w.apply(w.arrived()...)
		w.must(w.shard(0).Set(w.ctx, map[string]any{"count": "oops"}))
		w.arrived() // and lost
		for range 2 {
			if r := w.walk(); !strings.Contains(r.Problem, "set it to 0; what was counted there before is kept") || r.After != 7 {
				t.Errorf("%+v, want what to do", r)
			}
		}
		w.must(w.shard(0).Set(w.ctx, map[string]any{"count": 0}))
		w.inc(0, 1)
		w.apply(w.arrived()...)
		w.total(8)
	})
}

// An event that says that a field is a text says what was counted before, too: where it is heard of
// first, or alone, because who held the one before has died, nothing of that is lost. Nor is what a
// reset has taken off kept, of which nobody has heard.
func TestATextThatIsHeardOfFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(1)
	w.inc(0, 3)
	w.apply(w.arrived()...)
	var changes []rollup.Change
	w.t.Cleanup(w.server.OnChange(func(c emulator.Change) {
		if !strings.HasSuffix(c.Name, "/shards/0") {
			return
		}
		_, body, err := eventarc.Encode("id", c)
		if err != nil {
			t.Error(err)
		}
		decoded, err := w.rollup.Decode("application/protobuf", body)
		if err != nil {
			t.Error(err)
		}
		changes = append(changes, decoded...)
	}))
	set := func(count any) { w.must(w.shard(0).Update(w.ctx, []firestore.Update{{Path: "count", Value: count}})) }
	hear := func(n int, total int64) {
		t.Helper()
		w.arrived()
		w.apply(changes[n].State())
		w.total(total)
	}
	set(firestore.Increment(4))
	set("x")
	hear(1, 7)
	hear(0, 7)
	set(5)
	hear(2, 12)
	set(0)
	set("x")
	hear(4, 7)
	hear(3, 7)
	w.reconcile()
	w.total(7)
}

// noIntegers are what something else may write to a shard.
var noIntegers = map[string]any{"a text": "oops", "a fraction": 0.5}

// A shard's counts are moved and it is deleted, and something else makes it again with what is no integer
// before the roll-up has heard of that: what was counted of it is not kept beside what was moved.
func TestNoIntegerInAShardThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	for how, hear := range map[string]func(w *world, moved, odd []ledger.State){
		"by its event":   func(w *world, moved, odd []ledger.State) { w.apply(odd...); w.apply(moved...) },
		"by a reconcile": func(w *world, moved, _ []ledger.State) { w.reconcile(); w.apply(moved...) },
	} {
		for what, value := range noIntegers {
			t.Run(what+", "+how, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.snippet(2)
				w.inc(0, 7)
				w.apply(w.arrived()...)
				w.commit(func(tx *firestore.Transaction) error {
					return errors.Join(tx.Delete(w.shard(0)), tx.Update(w.shard(1), []firestore.Update{{Path: "count", Value: 7}}))
				})
				moved := w.arrived()
				w.must(w.shard(0).Set(w.ctx, map[string]any{"count": value}))
				hear(w, moved, w.arrived())
				w.total(7)
				if w.reconcile(); !t.Failed() {
					w.total(7)
				}
			})
		}
	}
}

// restore has the counter's documents made again, as an import does. It returns what their events say.
func (w *world) restore(refs ...*firestore.DocumentRef) []ledger.State {
	w.t.Helper()
	for _, ref := range refs {
		doc, err := ref.Get(w.ctx)
		w.must(doc, err)
		data := doc.Data()
		if made, is := data["made_at"].(time.Time); is {
			data["made_at"] = made.Add(-time.Hour)
		} else if ref.ID == w.ledger().ID {
			w.t.Error("the ledger doesn't say when it was made")
		}
		w.must(ref.Delete(w.ctx))
		w.must(ref.Set(w.ctx, data))
	}
	w.rollup = w.open()
	return w.arrived()
}

// In a database that was restored all shards were made later than whatever their ledgers have counted.
// What was counted of one that holds no integer is kept all the same, whether the backup's ledger had
// heard of that or not.
func TestNoIntegerInAShardThatIsRestored(t *testing.T) {
	t.Parallel()
	for how, hear := range map[string]func(w *world){
		"by an event": func(w *world) {
			w.must(w.shard(0).Update(w.ctx, []firestore.Update{{Path: "likes", Value: 1}}))
			w.apply(w.arrived()...)
		},
		"by a reconcile": func(w *world) { w.reconcile() },
		"by a reconcile that makes the ledger again": func(w *world) {
			w.must(w.ledger().Update(w.ctx, []firestore.Update{{Path: "flushes", Value: "none"}}))
			_, err := w.rollup.Reconcile(w.ctx, "c", rollup.ReconcileOptions{Rebuild: true})
			w.must(nil, err)
		},
	} {
		for what, value := range noIntegers {
			for _, heard := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, heard of before: %t", what, how, heard), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					w.snippet(2)
					w.inc(0, 7)
					w.inc(1, 2)
					w.apply(w.arrived()...)
					w.must(w.shard(0).Update(w.ctx, []firestore.Update{{Path: "count", Value: value}}))
					if states := w.arrived(); heard {
						w.apply(states...)
					}
					w.restore(w.shard(0), w.shard(1), w.ledger(), w.counter()) // of which nothing is heard
					hear(w)
					w.total(9)
					w.must(w.shard(0).Update(w.ctx, []firestore.Update{{Path: "views", Value: 1}}))
					w.apply(w.arrived()...)
					if w.reconcile(); !t.Failed() {
						w.total(9)
					}
				})
			}
		}
	}
}

// Once all shards of a restored counter were looked at, it is like any other: what an earlier document held goes
// with it, although its count was moved and nothing was heard of that.
func TestRestoredUntilAllShardsWereLookedAt(t *testing.T) {
	t.Parallel()
	looks := map[string]func(w *world){
		"a reconcile": func(w *world) {
			w.restore(w.shard(0), w.shard(1), w.ledger(), w.counter())
			w.reconcile()
		},
		"a walk": func(w *world) {
			w.restore(w.shard(0), w.shard(1), w.ledger(), w.counter())
			w.walk()
		},
		"a reconcile with nothing to correct": func(w *world) {
			events := w.restore(w.ledger(), w.counter(), w.shard(0), w.shard(1))
			w.apply(slices.DeleteFunc(events, func(s ledger.State) bool { return s.Gone })...)
			w.reconcile()
		},
	}
	for how, look := range looks {
		for what, value := range noIntegers {
			t.Run(what+", "+how, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.snippet(2)
				w.inc(0, 7)
				w.inc(1, 2)
				w.apply(w.arrived()...)
				look(w)
				w.total(9)
				doc, err := w.ledger().Get(w.ctx)
				w.must(doc, err)
				if made := doc.Data()["made_at"].(time.Time); made.Before(doc.CreateTime.Add(-time.Second)) { // or each walk would look
					t.Errorf("still restored: made at %v, and here since %v", made, doc.CreateTime)
				}
				w.commit(func(tx *firestore.Transaction) error {
					return errors.Join(tx.Delete(w.shard(0)), tx.Update(w.shard(1), []firestore.Update{{Path: "count", Value: 9}}))
				})
				moved := w.arrived()
				w.must(w.shard(0).Set(w.ctx, map[string]any{"count": value}))
				w.reconcile()
				w.apply(moved...)
				w.apply(w.arrived()...)
				w.total(9)
			})
		}
	}
}

// A reconcile takes what claims a time that has not come out of the ledger. Other instances, too, count from then on.
func TestWhatHasNotComeIsInNoCopy(t *testing.T) {
	t.Parallel()
	for _, path := range [][]string{{"floor"}, {"states", "0", "as_of"}} {
		for _, rolls := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, a roller: %t", path[0], rolls), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.snippet(2)
				w.apply(w.arrived()...)
				w.must(w.ledger().Update(w.ctx, []firestore.Update{{FieldPath: path, Value: w.now().Add(time.Hour)}}))
				other, r := w.open(), w.roller(rollup.RollerOptions{})
				hear := func() {
					for _, s := range w.arrived() {
						if rolls {
							w.must(nil, r.Add(w.ctx, rollup.Change{Counter: w.id, Shard: s.Shard, Counts: s.Counts, AsOf: s.AsOf, Made: s.Made, Gone: s.Gone}))
						} else {
							w.must(other.Apply(w.ctx, w.id, []ledger.State{s}))
						}
					}
				}
				w.must(w.shard(1).Delete(w.ctx)) // what is deleted is always entered
				hear()
				w.reconcile()
				for n := range int64(3) {
					w.inc(0, 1)
					hear()
					w.total(n + 1)
				}
			})
		}
	}
}

// What is wrong with a counter names it, and is cut where it is long: never within a character, or
// nothing could be noted, and the errors with which its events are answered would slow all counters down.
func TestANoteOfACounterWithALongName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.roller(rollup.RollerOptions{})
	for i := range utf8.UTFMax {
		counter := strings.Repeat("x", i) + strings.Repeat("計", 300)
		w.must(w.fs.Doc("counters/"+counter+"/counter_rollup/ledger").Set(w.ctx, map[string]any{"states": "none"}))
		written, err := w.fs.Doc("counters/"+counter+"/shards/0").Set(w.ctx, map[string]any{"count": 1})
		w.must(written, err)
		if err := r.Add(w.ctx, rollup.Change{Counter: counter, Shard: "0", Counts: map[string]int64{"count": 1}, AsOf: written.UpdateTime}); err != nil {
			w.t.Errorf("its event is answered with an error: %.200v", err)
		}
	}
	if n := len(w.notes()); n != utf8.UTFMax {
		w.t.Errorf("%d are noted, want %d", n, utf8.UTFMax)
	}
}

// A text in a shard with a limit is set to what it held before. Once the limit is removed, its event comes.
func TestATextBesideALimitThatIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.snippet(1)
	w.inc(0, 5)
	w.apply(w.arrived()...)
	c := w.holding(shards.Config{NumShards: 1}, "c")
	w.must(nil, c.SetLimit(w.ctx, "total", 10))
	w.apply(w.arrived()...)
	w.total(5)
	shard := w.fs.Doc("counters/c/shards/limited-0")
	w.must(shard.Update(w.ctx, []firestore.Update{{Path: "count", Value: "x"}}))
	w.must(shard.Update(w.ctx, []firestore.Update{{Path: "count", Value: 5}}))
	w.must(nil, c.RemoveLimit(w.ctx, "total"))
	w.apply(w.arrived()...)
	w.reconcile()
	w.total(5)
}

// An event from before an import into the same database comes after it: what the shard held then is no part of the
// total.
func TestALateTextAfterAnImport(t *testing.T) {
	t.Parallel()
	for name, value := range noIntegers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.snippet(2)
			w.inc(0, 5)
			w.apply(w.arrived()...)
			w.inc(1, 2)
			w.arrived()
			w.reconcile() // which gives the ledger a floor
			doc, err := w.shard(0).Get(w.ctx)
			w.must(doc, err)
			w.must(w.shard(0).Update(w.ctx, []firestore.Update{{Path: "count", Value: value}}))
			late := w.arrived()
			w.must(w.shard(0).Set(w.ctx, doc.Data())) // as the backup has it
			w.arrived()
			events := w.restore(w.shard(0), w.shard(1), w.ledger(), w.counter())
			w.apply(late...)
			w.apply(events...)
			w.reconcile()
			w.total(7)
		})
	}
}
