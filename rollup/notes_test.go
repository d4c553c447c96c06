package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
)

// notes are those of all counters.
func (w *world) notes() []*firestore.DocumentSnapshot {
	w.t.Helper()
	all, err := w.fs.CollectionGroup("counter_notes").Documents(w.ctx).GetAll()
	w.must(all, err)
	return all
}

// note is what is noted of the only counter; nil where nothing is.
func (w *world) note() map[string]any {
	w.t.Helper()
	switch all := w.notes(); len(all) {
	case 0:
		return nil
	case 1:
		return all[0].Data()
	}
	w.t.Fatal("several counters are noted")
	return nil
}

// damage has something else write into a base.
func (w *world) damage(counter string) {
	w.t.Helper()
	w.must(w.fs.Doc("counters/"+counter+"/counter_rollup/base").Update(w.ctx, []firestore.Update{{Path: "base", Value: "none"}}))
}

// touches reports whether a commit writes a counter's document.
func touches(req *firestorepb.CommitRequest, counter string) bool {
	for _, write := range req.GetWrites() {
		if strings.HasSuffix(write.GetUpdate().GetName(), "/documents/counters/"+counter) {
			return true
		}
	}
	return false
}

// deliverAll delivers the events of all counters to one of several rollers, once. What it returns waits, in virtual
// time, until each has been answered.
func (w *world) deliverAll(rollers ...*rollup.Roller) (refused *sync.Map, settle func()) {
	var n, unanswered atomic.Int64
	refused = &sync.Map{} // :: counter → the first error
	stop := w.server.OnChange(func(c emulator.Change) {
		_, path, _ := strings.Cut(c.Name, "/documents/")
		parts := strings.Split(path, "/")
		if len(parts) != 4 || parts[2] != "shards" {
			return
		}
		changes := w.decode(c)
		if len(changes) == 0 {
			return
		}
		r := rollers[int(n.Add(1))%len(rollers)]
		unanswered.Add(1)
		go func() {
			defer unanswered.Add(-1)
			ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
			defer cancel()
			if err := r.Add(ctx, changes...); err != nil {
				refused.LoadOrStore(parts[1], err)
			}
		}()
	})
	w.t.Cleanup(stop)
	return refused, func() {
		for synctest.Wait(); unanswered.Load() > 0; synctest.Wait() { // first, until the server has told of all changes
			time.Sleep(time.Millisecond)
		}
	}
}

// A base that something else has written, a document whose commits are all refused, and one whose commits wait for
// somebody's locks, are their own counters' trouble: none of their events is answered with an error, so that Pub/Sub
// slows down for nobody, and once they are mended their totals come right, without anything that walks over all
// counters.
func TestOneCountersTroubleIsItsOwn(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		ids := []string{"damaged", "stuck", "locked"}
		for i := range 10 {
			ids = append(ids, fmt.Sprint("healthy-", i))
		}
		add := func(id, shard string) {
			w.must(w.fs.Doc("counters/"+id+"/shards/"+shard).Set(w.ctx, map[string]any{"count": firestore.Increment(1)}, firestore.MergeAll))
		}
		want := map[string]int64{}
		for _, id := range ids {
			w.must(w.fs.Doc("counters/"+id).Set(w.ctx, map[string]any{"num_shards": 3}))
			add(id, "0")
			want[id]++
			if _, err := w.rollup.Reconcile(w.ctx, id, rollup.ReconcileOptions{}); err != nil {
				w.t.Fatal(err)
			}
		}
		w.damage("damaged")
		var refusals atomic.Int64
		w.server.SetInterceptor(func(ctx context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
			switch {
			case touches(req, "stuck"):
				refusals.Add(1)
				v.Before = status.Error(codes.Aborted, "too much contention")
			case touches(req, "locked"):
				<-ctx.Done()
				v.Before = status.FromContextError(ctx.Err()).Err()
			}
			return v
		})
		var writes atomic.Int64 // of notes
		w.t.Cleanup(w.server.OnChange(func(c emulator.Change) {
			if strings.Contains(c.Name, "/counter_notes/") {
				writes.Add(1)
			}
		}))
		log := slog.New(slog.DiscardHandler)
		rollers := make([]*rollup.Roller, 2)
		for i := range rollers {
			rollers[i] = rollup.NewRoller(w.openWith(rollup.Config{Place: rollup.Place{Project: "p"}, Logger: log}), rollup.RollerOptions{})
			w.t.Cleanup(func() { _ = rollers[i].Close(context.Background()) })
		}
		refused, settled := w.deliverAll(rollers...)
		const minutes = 6
		for second := range minutes * 60 {
			for i, id := range ids {
				if (second+i)%3 == 0 {
					add(id, fmt.Sprint(1+second/3%2))
					want[id]++
				}
			}
			time.Sleep(time.Second)
		}
		settled()
		refused.Range(func(id, err any) bool {
			w.t.Errorf("an event of %v is answered with %v", id, err)
			return true
		})
		noted := map[any]any{}
		for _, note := range w.notes() {
			noted[note.Data()["counter"]] = note.Data()["why"]
		}
		if len(noted) != 3 || refusals.Load() == 0 {
			w.t.Errorf("%d counters are noted: %v", len(noted), noted)
		}
		if n, most := writes.Load(), int64(3*(1+2*minutes)); n > most {
			w.t.Errorf("notes were written %d times in %d minutes, want at most %d", n, minutes, most)
		}
		if n, since, err := w.rollup.Noted(w.ctx); err != nil || n != 3 || time.Since(since) < 5*time.Minute {
			w.t.Errorf("%d noted since %v, %v", n, since, err)
		}

		// Mended, with no event of theirs any more, they are right within minutes.
		w.must(w.fs.Doc("counters/damaged/counter_rollup/base").Delete(w.ctx))
		w.server.SetInterceptor(nil)
		for range minutes * 60 {
			add("healthy-0", "0")
			want["healthy-0"]++
			time.Sleep(time.Second)
		}
		settled()
		for _, id := range ids {
			snap, err := w.fs.Doc("counters/" + id).Get(w.ctx)
			w.must(snap, err)
			if got := snap.Data()["total"]; got != want[id] {
				w.t.Errorf("%s shows %v, want %d", id, got, want[id])
			}
		}
		if all := w.notes(); len(all) > 0 {
			w.t.Errorf("there is a note yet: %v", all[0].Data())
		}
	})
}

// An event that comes while a counter is reconciled for its note is not acknowledged for that note,
// whose reconcile may not see it, and the note outlasts that reconcile.
func TestAnEventBesideTheReconcileOfANote(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(2)
		w.apply(w.arrived()...)
		r := w.roller(rollup.RollerOptions{})
		add := func(shard int) {
			w.inc(shard, 1)
			for _, s := range w.arrived() {
				if err := r.Add(w.ctx, s); err != nil {
					w.t.Errorf("an event is answered with %v", err)
				}
			}
		}
		w.damage("c")
		add(0)
		if w.note() == nil {
			w.t.Fatal("nothing is noted")
		}
		w.must(w.base().Delete(w.ctx))
		var phase atomic.Int64
		w.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
			switch {
			case !touches(req, "c"):
			case phase.CompareAndSwap(0, 1): // the reconcile's commit: it has asked
				add(1)
				phase.Store(2)
			case phase.Load() == 1:
				v.Before = status.Error(codes.Aborted, "too much contention")
			}
			return v
		})
		if report, err := w.rollup.Reconcile(w.ctx, "c", rollup.ReconcileOptions{}); err != nil || phase.Load() != 2 {
			w.t.Fatalf("%+v, %v; in phase %d", report, err, phase.Load())
		}
		w.server.SetInterceptor(nil)
		if note := w.note(); note == nil || note["begun"] != nil {
			w.t.Errorf("noted is %v, for an event that was acknowledged", note)
		}
		time.Sleep(6 * time.Minute)
		w.inc(0, 1) // any flush looks for notes
		for _, s := range w.arrived() {
			w.must(nil, r.Add(w.ctx, s))
		}
		time.Sleep(time.Second)
		w.total(3)
		if note := w.note(); note != nil {
			w.t.Errorf("noted is %v", note)
		}
	})
}

// An answer from before a shard was deleted, whose event was acknowledged for a note, isn't shown once the note is
// gone: the reconcile for the note writes the document in any case.
func TestAReconcileForANoteEndsEarlierAnswers(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(1)
		w.inc(0, 5)
		w.apply(w.arrived()...)
		r := w.roller(rollup.RollerOptions{})
		w.must(w.shard(1).Set(w.ctx, map[string]any{"count": 3}))
		w.arrived() // an event that gets lost
		var phase atomic.Int64
		w.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
			switch {
			case !touches(req, "c"):
			case phase.CompareAndSwap(0, 1): // a reconcile that has seen the shard
				w.must(w.shard(1).Delete(w.ctx))
				for _, s := range w.arrived() {
					w.must(nil, r.Add(w.ctx, s)) // and its deletion is noted
				}
				phase.Store(2)
				if _, err := w.open().Reconcile(w.ctx, "c", rollup.ReconcileOptions{}); err != nil {
					w.t.Error(err)
				}
			case phase.Load() == 1:
				v.Before = status.Error(codes.Aborted, "too much contention")
			}
			return v
		})
		if _, err := w.rollup.Reconcile(w.ctx, "c", rollup.ReconcileOptions{}); err != nil {
			w.t.Fatal(err)
		}
		w.total(5)
		if note := w.note(); note != nil {
			w.t.Errorf("noted is %v", note)
		}
	})
}

// Where nothing can be noted, the event comes again.
func TestANoteThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(1)
		w.apply(w.arrived()...)
		w.damage("c")
		w.inc(0, 1)
		w.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
			if strings.Contains(req.GetWrites()[0].GetUpdate().GetName(), "/counter_notes/") {
				v.Before = status.Error(codes.Unavailable, "busy")
			}
			return v
		})
		r := w.roller(rollup.RollerOptions{})
		if err := r.Add(w.ctx, w.arrived()[0]); err == nil {
			w.t.Error("an event is acknowledged, and nothing is noted")
		}
	})
}

// Many instances look for notes; one of them reconciles what is due.
func TestOneInstanceReconcilesWhatIsNoted(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(1)
		w.apply(w.arrived()...)
		w.must(w.fs.Doc("counters/other").Set(w.ctx, map[string]any{"num_shards": 1}))
		var rollers []*rollup.Roller
		for range 5 {
			rollers = append(rollers, w.roller(rollup.RollerOptions{}))
		}
		w.damage("c")
		w.inc(0, 1)
		w.must(nil, rollers[0].Add(w.ctx, w.arrived()[0]))
		w.must(w.base().Delete(w.ctx))
		var begun atomic.Int64
		w.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
			if touches(req, "c") {
				begun.Add(1)
			}
			return v
		})
		time.Sleep(2 * time.Minute)
		written, err := w.fs.Doc("counters/other/shards/0").Set(w.ctx, map[string]any{"count": 1})
		w.must(written, err)
		for _, r := range rollers {
			w.must(nil, r.Add(w.ctx, rollup.Change{Counter: "other", Fields: []string{"total"}, At: written.UpdateTime}))
		}
		time.Sleep(time.Second)
		if n := begun.Load(); n != 1 || w.note() != nil {
			w.t.Errorf("%d commits on its document, want a reconcile's; noted is %v", n, w.note())
		}
		w.total(1)
	})
}

// A reconcile of all does first what is noted, of counters too that no walk finds, and a walk over a
// deletion that is not finished leaves its note.
func TestReconcileAllDoesFirstWhatIsNoted(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(1)
		w.apply(w.arrived()...)
		w.damage("c")
		r := w.roller(rollup.RollerOptions{})
		w.inc(0, 1)
		w.must(nil, r.Add(w.ctx, w.arrived()[0]))
		sum, err := w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{})
		if err != nil || sum.Noted != 1 || sum.NotedSince.IsZero() || sum.Failed != 1 {
			w.t.Errorf("%+v, %v, want one noted", sum, err)
		}
		w.must(w.base().Delete(w.ctx))
		if sum, err = w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{}); err != nil || sum.Noted != 0 || !sum.NotedSince.IsZero() || sum.Failed != 0 {
			w.t.Errorf("%+v, %v, want none noted", sum, err)
		}
		w.total(1)
	})
}

// Of two deployments that count for one document in shards of different names, the second hears of it,
// and changes nothing of what the first counts; its events don't come again and again.
func TestTwoDeploymentsOnOnePath(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.snippet(1)
		w.inc(0, 3)
		w.apply(w.arrived()...)
		second := w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Shards: "parts"}})
		written, err := w.fs.Doc("counters/c/parts/0").Set(w.ctx, map[string]any{"count": 50})
		w.must(written, err)
		r := rollup.NewRoller(second, rollup.RollerOptions{})
		defer func() { w.must(nil, r.Close(w.ctx)) }()
		w.must(nil, r.Add(w.ctx, rollup.Change{Counter: "c", Fields: []string{"total"}, At: written.UpdateTime}))
		if note := w.note(); note == nil || !strings.Contains(note["why"].(string), `set SHARDS=shards: the counter's shards are there, and SHARDS is "parts" here`) {
			t.Errorf("noted is %v", note)
		}
		if _, err := second.Reconcile(w.ctx, "c", rollup.ReconcileOptions{}); !errors.Is(err, rollup.ErrDamagedBase) {
			t.Errorf("reconcile = %v", err)
		}
		w.inc(0, 1)
		w.apply(w.arrived()...)
		w.reconcile()
		w.total(4)
		if w.note() == nil { // the second's, which the first doesn't look at
			t.Error("the note is gone")
		}
	})
}

// What a revision that shows another field has acknowledged for a note, one that doesn't know that
// field can't cover: the note is left to those that do, however old it was. Where they were rolled back,
// it goes a day later.
func TestANoteOfANewerRevision(t *testing.T) {
	t.Parallel()
	for _, age := range []time.Duration{0, 48 * time.Hour} {
		for _, back := range []bool{false, true} {
			for _, field := range []string{"comments", "likes"} {
				t.Run(fmt.Sprintf("%s, %v old, rolled back %v", field, age, back), func(t *testing.T) {
					t.Parallel()
					noteOfANewerRevision(t, field, age, back)
				})
			}
		}
	}
}

func noteOfANewerRevision(t *testing.T, field string, age time.Duration, back bool) {
	t.Helper()
	inVirtualTime(t, func(w *world) {
		w.snippet(1)
		w.apply(w.arrived()...)
		w.damage("c")
		older := w.roller(rollup.RollerOptions{})
		w.inc(0, 1)
		w.must(nil, older.Add(w.ctx, w.arrived()[0])) // its note asks for nothing
		time.Sleep(age)
		client := w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: "total=count,comments=count(comments),likes"}})
		newer := rollup.NewRoller(client, rollup.RollerOptions{})
		change := rollup.Change{Counter: "c", Fields: []string{field}}
		if field == "comments" {
			written, err := w.fs.Doc("counters/c/comments/a").Set(w.ctx, map[string]any{"text": "Hello"})
			w.must(written, err)
			change.Collection, change.Document, change.At = "comments", "a", written.UpdateTime
		} else {
			written, err := w.shard(0).Update(w.ctx, []firestore.Update{{Path: "likes", Value: firestore.Increment(1)}})
			w.must(written, err)
			change.Shard, change.At = "0", written.UpdateTime
			w.arrived()
		}
		w.must(nil, newer.Add(w.ctx, change))
		w.must(w.base().Update(w.ctx, []firestore.Update{{Path: "base", Value: firestore.Delete}}))
		time.Sleep(10 * time.Minute)
		flush := func(r *rollup.Roller) {
			w.t.Helper()
			w.inc(0, 1)
			w.must(nil, r.Add(w.ctx, w.arrived()[0]))
			time.Sleep(time.Second)
		}
		flush(older)
		if _, err := w.rollup.Reconcile(w.ctx, "c", rollup.ReconcileOptions{}); err != nil {
			w.t.Error(err)
		}
		if _, err := w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{}); err != nil {
			w.t.Error(err)
		}
		if w.note() == nil {
			w.t.Error("a revision that doesn't know comments takes the note away")
		}
		if back {
			time.Sleep(24 * time.Hour)
			flush(older)
		} else {
			flush(newer)
			w.field(field, int64(1))
		}
		if note := w.note(); note != nil {
			w.t.Errorf("noted is %v", note)
		}
		w.total(3)
		w.must(nil, newer.Close(w.ctx))
		w.must(nil, client.Close())
	})
}

// However many notes are left to a revision that knows their fields, others are due, and so is one of
// these once it is relied on again.
func TestNotesThatAreLeftHideNoOther(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(1)
		w.apply(w.arrived()...)
		db, err := store.Open(w.ctx, layout.Place{Project: "p", Fields: "total=count,comments=count(comments)"}, option.WithGRPCConn(w.connect()))
		w.must(db, err)
		defer db.Close()
		old, err := store.Open(w.ctx, layout.Place{Project: "p"}, option.WithGRPCConn(w.connect()))
		w.must(old, err)
		defer old.Close()
		leave := func(counter string) {
			w.t.Helper()
			w.must(db.EnsureNote(w.ctx, counter, ""))
			begun, err := old.BeginNote(w.ctx, counter, false)
			if w.must(begun, err); begun == nil {
				w.t.Fatal("another has begun")
			}
			w.must(nil, old.EndNote(w.ctx, *begun))
		}
		for i := range 1001 {
			leave(fmt.Sprint("other", i))
		}
		w.damage("c")
		older := w.roller(rollup.RollerOptions{})
		w.inc(0, 1)
		w.must(nil, older.Add(w.ctx, w.arrived()[0]))
		w.must(w.base().Update(w.ctx, []firestore.Update{{Path: "base", Value: firestore.Delete}}))
		for range 2 {
			time.Sleep(10 * time.Minute)
			w.inc(0, 1)
			w.must(nil, older.Add(w.ctx, w.arrived()[0]))
			time.Sleep(time.Second)
		}
		if n, _, err := db.NoteOf(w.ctx, "c"); err != nil || n != nil {
			w.t.Errorf("noted is %+v, %v", n, err)
		}
		w.total(3)

		leave("again")
		if due, err := old.NotesDue(w.ctx, w.now()); err != nil || len(due) != 0 {
			w.t.Errorf("due are %+v, %v", due, err)
		}
		w.must(db.EnsureNote(w.ctx, "again", ""))
		if due, err := old.NotesDue(w.ctx, w.now()); err != nil || len(due) != 1 || due[0].Counter != "again" || due[0].ForOthers {
			w.t.Errorf("due are %+v, %v", due, err)
		}
	})
}

// A note of a counter of which nothing is left goes: there is nothing to be covered.
func TestANoteOfWhatIsGone(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.snippet(1)
		w.apply(w.arrived()...)
		w.damage("c")
		w.inc(0, 1)
		w.must(nil, w.roller(rollup.RollerOptions{}).Add(w.ctx, w.arrived()[0]))
		if w.note() == nil {
			w.t.Fatal("nothing is noted: the test shows nothing")
		}
		for _, doc := range []*firestore.DocumentRef{w.counter(), w.shard(0), w.base()} {
			w.must(doc.Delete(w.ctx))
		}
		if sum, err := w.rollup.ReconcileAll(w.ctx, rollup.ReconcileOptions{}); err != nil || sum.Noted != 0 || w.note() != nil {
			w.t.Errorf("%+v, %v; noted is %v", sum, err, w.note())
		}
	})
}

// A note of a counter of which nothing is left but documents that it counts is one of their events, too:
// they make a base, as a refresh of theirs does.
func TestANoteOfDocumentsOfACounterThatIsGone(t *testing.T) {
	t.Parallel()
	for comments, want := range map[int]bool{0: false, 2: true} {
		inVirtualTime(t, func(w *world) {
			client := w.openWith(rollup.Config{Place: rollup.Place{Project: "p", Fields: "total=count,comments=count(comments),likes"}})
			w.snippet(1)
			w.apply(w.arrived()...)
			for n := range comments {
				w.must(w.counter().Collection("comments").Doc(fmt.Sprint(n)).Set(w.ctx, map[string]any{}))
			}
			w.damage("c")
			w.inc(0, 1)
			r := rollup.NewRoller(client, rollup.RollerOptions{})
			defer r.Close(w.ctx)
			w.must(nil, r.Add(w.ctx, w.arrived()[0]))
			if w.note() == nil {
				w.t.Fatal("nothing is noted: the test shows nothing")
			}
			for _, doc := range []*firestore.DocumentRef{w.counter(), w.shard(0), w.base()} {
				w.must(doc.Delete(w.ctx))
			}
			if sum, err := client.ReconcileAll(w.ctx, rollup.ReconcileOptions{}); err != nil || sum.Noted != 0 || w.note() != nil {
				w.t.Errorf("%+v, %v; noted is %v", sum, err, w.note())
			}
			if there := w.exists(w.base()); there != want {
				w.t.Errorf("with %d comments: a base %v, want %v", comments, there, want)
			}
			if !want {
				return
			}
			w.must(w.counter().Set(w.ctx, map[string]any{"num_shards": 1})) // it is back
			w.must(w.shard(0).Set(w.ctx, map[string]any{"count": 1}))
			w.must(nil, r.Add(w.ctx, w.arrived()[0]))
			time.Sleep(2 * time.Second) // no event has told of comments, which are asked for beside it
			snap, err := w.counter().Get(w.ctx)
			if w.must(nil, err); snap.Data()["comments"] != int64(comments) {
				w.t.Errorf("it shows %v", snap.Data())
			}
		})
	}
}

// A roller looks for what is noted once a minute. Where reconciles of that take longer, the next look waits: else there
// would be one more each minute.
func TestLooksForNotesDoNotPileUp(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		const counters = 10
		w.counters(counters)
		db, err := store.Open(w.ctx, rollup.Place{Project: "p"}, option.WithGRPCConn(w.connect()))
		w.must(nil, err)
		defer db.Close()
		for n := range counters {
			w.must(db.EnsureNote(w.ctx, fmt.Sprintf("c%03d", n), "for the test"))
		}
		var under, most, all atomic.Int64 // commits of noted counters
		w.server.SetInterceptor(func(ctx context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
			if strings.Contains(req.GetWrites()[0].GetUpdate().GetName(), "/counters/c0") {
				all.Add(1)
				most.Store(max(most.Load(), under.Add(1)))
				<-ctx.Done()
				under.Add(-1)
				v.Before = status.Error(codes.DeadlineExceeded, "slow")
			}
			return v
		})
		w.snippet(1)
		r := w.roller(rollup.RollerOptions{})
		for range 8 * 60 {
			w.inc(0, 1)
			for _, change := range w.arrived() {
				w.must(nil, r.Add(w.ctx, change))
			}
			time.Sleep(time.Second)
		}
		if most.Load() != 1 || all.Load() < counters/2 {
			t.Errorf("%d commits of noted counters, up to %d at once; want some, one at a time", all.Load(), most.Load())
		}
	})
}

// Whoever makes a note, and doesn't hear of it, has made it all the same: an alert looks for that.
func TestANoteWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		db, err := store.Open(w.ctx, rollup.Place{Project: "p"}, option.WithGRPCConn(w.connect()))
		w.must(nil, err)
		defer db.Close()
		lost := false
		w.server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
			if !lost {
				lost, v.After = true, status.Error(codes.Unavailable, "lost")
			}
			return v
		})
		for _, want := range []bool{true, false} {
			if made, err := db.EnsureNote(w.ctx, "c", "for the test"); made != want || err != nil || !lost {
				t.Errorf("made: %v, %v; want %v", made, err, want)
			}
		}
	})
}
