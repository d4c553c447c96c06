package rollup_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// many makes so many counters of a shard that holds 1.
func (w *world) many(n int) (ids []string) {
	w.t.Helper()
	for i := range n {
		id := fmt.Sprint("many-", i)
		ids = append(ids, id)
		w.must(w.fs.Doc("counters/"+id).Set(w.ctx, map[string]any{"num_shards": 1}))
		w.must(w.fs.Doc("counters/"+id+"/shards/0").Set(w.ctx, map[string]any{"count": 1}))
	}
	return ids
}

// Holds that are over take half of a walk's time at most: whoever makes thousands of a second each would otherwise keep
// every counter from being looked at.
func TestHoldsLeaveAWalkHalfOfItsTime(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		w.many(5)
		for n := range 100 {
			counted, _, err := w.holding(shards.Config{}, fmt.Sprint("held-", n)).Hold(w.ctx, "total", "mallory", time.Second)
			w.must(counted, err)
		}
		time.Sleep(10 * time.Second)
		w.server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
			for _, write := range req.GetWrites() {
				if strings.Contains(write.GetDelete(), "_members/") {
					time.Sleep(time.Second)
				}
			}
			return v
		})
		ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
		defer cancel()
		sum, err := w.rollup.ReconcileAll(ctx, rollup.ReconcileOptions{Resume: true})
		if w.must(sum, err); sum.Seen == 0 {
			w.t.Errorf("%+v; want counters that were looked at", sum)
		}
	})
}

// While there are few writes, refreshes wait for them, and every event is shown in the end.
func TestBudgetStretchesTheInterval(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		ids := w.many(100)
		client, err := rollup.Open(w.ctx, rollup.Config{Place: rollup.Place{Project: "p"}, Budget: ceiling.New(ceiling.Rates{Writes: 4})}, option.WithGRPCConn(w.connect()))
		w.must(client, err)
		r := rollup.NewRoller(client, rollup.RollerOptions{})
		began, before := time.Now(), w.server.Stats()
		var all sync.WaitGroup
		var shown atomic.Int64
		for _, id := range ids {
			all.Go(func() {
				if err := r.Add(w.ctx, rollup.Change{Counter: id, Fields: []string{"total"}, At: time.Now()}); err != nil {
					w.t.Error(err)
				}
				shown.Add(1)
			})
		}
		all.Wait()
		written := float64(w.server.Stats().Writes - before.Writes)
		if most := 4*(time.Since(began).Seconds()+ceiling.Begins.Seconds()) + 2*64; written > most || written < 100 {
			w.t.Errorf("%v documents were written in %v, want at most %v", written, time.Since(began), most)
		}
		w.must(nil, r.Close(w.ctx))
		for _, id := range ids {
			doc, err := w.fs.Doc("counters/" + id).Get(w.ctx)
			w.must(doc, err)
			if total, _ := doc.DataAt("total"); total != int64(1) {
				w.t.Errorf("%s shows %v", id, total)
			}
		}
	})
}

// While Firestore takes no commit, refreshes of many counters ask and commit again and again. They owe next to nothing
// afterwards, or else no total would be shown until that is earned.
func TestBudgetWhileFirestoreIsAway(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		const n = 200
		ids, budget := w.many(n), ceiling.New(ceiling.Rates{Writes: 1.5, Reads: 4.6}) // $5 a day
		client, err := rollup.Open(w.ctx, rollup.Config{Place: rollup.Place{Project: "p"}, Budget: budget}, option.WithGRPCConn(w.connect()))
		w.must(client, err)
		r := rollup.NewRoller(client, rollup.RollerOptions{})
		time.Sleep(ceiling.Holds)
		w.server.SetFaults(emulator.Faults{Unavailable: 1})
		var all sync.WaitGroup
		for i := range 20 * 60 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
				defer cancel()
				_ = r.Add(ctx, rollup.Change{Counter: ids[i%n], Fields: []string{"total"}, At: time.Now()}) // it comes again
			})
			time.Sleep(time.Second / 20)
		}
		w.server.SetFaults(emulator.Faults{})
		all.Wait()
		if writes, reads := budget.Left(ceiling.Writes), budget.Left(ceiling.Reads); writes < -10 || reads < -20 {
			w.t.Errorf("%.0f writes and %.0f reads are left", writes, reads)
		}
		w.must(nil, r.Close(w.ctx))
	})
}

// Many notes at a time, as after Firestore was away, are looked for as the budget allows. The looks alone would owe all
// that is earned, and neither notes nor totals would come to their turn.
func TestBudgetOfManyNotes(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		client, err := rollup.Open(w.ctx, rollup.Config{Place: rollup.Place{Project: "p"}, Budget: ceiling.New(ceiling.Rates{Writes: 1.5, Reads: 4.6})}, option.WithGRPCConn(w.connect())) // $5 a day
		w.must(client, err)
		db, err := store.Open(w.ctx, layout.Place{Project: "p"}, option.WithGRPCConn(w.connect()))
		w.must(db, err)
		defer db.Close()
		for _, id := range w.many(1000)[1:] {
			w.must(db.EnsureNote(w.ctx, id, "Firestore was away"))
		}
		r := rollup.NewRoller(client, rollup.RollerOptions{})
		var slowest time.Duration
		for range 600 {
			time.Sleep(5 * time.Second)
			began := time.Now()
			w.must(nil, r.Add(w.ctx, rollup.Change{Counter: "many-0", Fields: []string{"total"}, At: began}))
			slowest = max(slowest, time.Since(began))
		}
		if left := len(w.notes()); left > 0 || slowest > 40*time.Second {
			w.t.Errorf("%d notes are left after 50 minutes, and a total came after %v", left, slowest)
		}
		w.must(nil, r.Close(w.ctx))
	})
}

// A walk for which there are no reads goes on where it stopped, and ends some day.
func TestBudgetStretchesAWalk(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		const reads = 10
		w.many(150)
		client, err := rollup.Open(w.ctx, rollup.Config{Place: rollup.Place{Project: "p"}, Budget: ceiling.New(ceiling.Rates{Reads: reads})}, option.WithGRPCConn(w.connect()))
		w.must(client, err)
		began, before, seen := time.Now(), w.server.Stats().Reads, 0
		for walk := 0; ; walk++ {
			ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
			sum, err := client.ReconcileAll(ctx, rollup.ReconcileOptions{Resume: true})
			cancel()
			w.must(sum, err)
			if seen += sum.Seen; sum.Done {
				if walk == 0 {
					w.t.Error("150 counters were looked at in one walk")
				}
				break
			}
			if walk > 20 {
				w.t.Fatalf("after %d walks %d counters were looked at", walk, seen)
			}
		}
		got := float64(w.server.Stats().Reads - before)
		if most := reads*(time.Since(began).Seconds()+ceiling.Begins.Seconds()) + 300; got > most {
			w.t.Errorf("%v reads in %v, want at most %v", got, time.Since(began), most)
		}
		if seen < 150 {
			w.t.Errorf("%d counters were looked at, want all 150", seen)
		}
	})
}

// Holds that are over are ended as the budget allows, and all of them some day: whoever makes them would otherwise have
// the owner pay for their ends, and no total would be shown meanwhile.
func TestBudgetBoundsTheEndsOfHolds(t *testing.T) {
	t.Parallel()
	const holds = 600
	for name, hold := range map[string]func(w *world, n int) (bool, error){
		"of many counters": func(w *world, n int) (bool, error) {
			counted, _, err := w.holding(shards.Config{}, fmt.Sprint("held-", n)).Hold(w.ctx, "total", "mallory", time.Second)
			return counted, err
		},
		"of one counter": func(w *world, n int) (bool, error) {
			counted, _, err := w.holding(shards.Config{}, "held").Hold(w.ctx, "total", fmt.Sprint("mallory-", n), time.Minute)
			return counted, err
		},
		"of amounts of one counter": func(w *world, n int) (bool, error) {
			_, replayed, err := w.holding(shards.Config{}, "held").Reserve(w.ctx, "total", 1, time.Minute, shards.Key{})
			return !replayed, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(w *world) { boundsTheEndsOfHolds(w, holds, hold) })
		})
	}
}

func boundsTheEndsOfHolds(w *world, holds int, hold func(w *world, n int) (bool, error)) {
	const writes, reads = 4, 12
	for n := range holds {
		counted, err := hold(w, n)
		w.must(counted, err)
	}
	time.Sleep(2 * time.Minute)
	client, err := rollup.Open(w.ctx, rollup.Config{Place: rollup.Place{Project: "p"}, Budget: ceiling.New(ceiling.Rates{Writes: writes, Reads: reads})}, option.WithGRPCConn(w.connect()))
	w.must(client, err)
	client.Looks(false)
	began, before := time.Now(), w.server.Stats()
	for left := holds; left > 0; {
		ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
		_, err := client.ReconcileAll(ctx, rollup.ReconcileOptions{Resume: true})
		cancel()
		w.must(nil, err)
		time.Sleep(time.Minute)
		earned, s := time.Since(began).Seconds()+ceiling.Begins.Seconds(), w.server.Stats()
		if spent := float64(s.Writes + s.Deletes - before.Writes - before.Deletes); spent > writes*earned+100 {
			w.t.Fatalf("%v documents were written in %v, want at most %v", spent, time.Since(began), writes*earned+100)
		}
		if spent := float64(s.Reads - before.Reads); spent > reads*earned+400 {
			w.t.Fatalf("%v documents were read in %v, want at most %v", spent, time.Since(began), reads*earned+400)
		}
		before.Reads -= w.server.Stats().Reads
		left, _ = w.entries()
		if before.Reads += w.server.Stats().Reads; time.Since(began) > time.Hour {
			w.t.Fatalf("%d of %d holds are left after an hour", left, holds)
		}
	}
}

// What is left of a counter goes as the budget allows, a commit at a time: whoever joins and leaves documents behind
// for months would otherwise have the owner pay for all of these ends on one day.
func TestBudgetStretchesARemoval(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		const members, writes, reads = 4000, 40, 40
		w.hosted()
		w.post(map[string]any{"title": "Hello"})
		w.like(0, members, 0)
		w.apply(w.arrived()...)
		for n := range members {
			w.must(w.counter().Collection("likes_members").Doc(fmt.Sprint("m-", n)).Set(w.ctx, map[string]any{"member": fmt.Sprint("m-", n), "shard": "0"}))
		}
		w.must(w.counter().Delete(w.ctx))
		w.reconcile()
		time.Sleep(time.Minute)

		budget := ceiling.New(ceiling.Rates{Writes: writes, Reads: reads})
		client, err := rollup.Open(w.ctx, rollup.Config{Place: likesAndViews.Place, Budget: budget}, option.WithGRPCConn(w.connect()))
		w.must(client, err)
		remover, err := shards.Open(w.ctx, shards.Config{Place: likesAndViews.Place, Budget: budget}, option.WithGRPCConn(w.connect()))
		w.must(remover, err)
		began, before := time.Now(), w.server.Stats()
		for w.exists(w.base()) {
			ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
			_, err := client.ReconcileAll(ctx, rollup.ReconcileOptions{Resume: true, CleanupAfter: time.Second, Remove: remover.Remove})
			cancel()
			w.must(nil, err)
			earned, s := time.Since(began).Seconds()+ceiling.Begins.Seconds(), w.server.Stats()
			if spent := float64(s.Writes + s.Deletes - before.Writes - before.Deletes); spent > writes*earned+600 {
				w.t.Fatalf("%v documents were written or deleted in %v, want at most %v", spent, time.Since(began), writes*earned+600)
			}
			if spent := float64(s.Reads - before.Reads); spent > reads*earned+700 {
				w.t.Fatalf("%v documents were read in %v, want at most %v", spent, time.Since(began), reads*earned+700)
			}
			if time.Sleep(time.Minute); time.Since(began) > time.Hour {
				w.t.Fatal("something is left after an hour")
			}
		}
	})
}

// fieldsOf are so many fields.
func fieldsOf(n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint("f", i))
	}
	return strings.Join(names, ",")
}

// rolledUp is so many counters whose document shows all fields.
func (w *world) rolledUp(place rollup.Place, ids ...string) {
	w.t.Helper()
	free, err := shards.Open(w.ctx, shards.Config{Place: shards.Place(place), AutoCreate: true, NumShards: 1}, option.WithGRPCConn(w.connect()))
	w.must(free, err)
	defer free.Close()
	client := w.openWith(rollup.Config{Place: place})
	for _, id := range ids {
		_, err := free.AddAll(w.ctx, []shards.Increment{{Counter: id, By: 1}}, shards.Key{})
		w.must(nil, err)
		_, err = client.Reconcile(w.ctx, id, rollup.ReconcileOptions{})
		w.must(nil, err)
	}
}

// Who is behind asks for what events are about, and for no other fields: these are twenty times as many reads, and
// events would come again, which is billed, for as long as somebody keeps it busy. Nor is a document read twice,
// however long its sum took.
func TestBudgetOfWhoIsBehind(t *testing.T) {
	t.Parallel()
	for _, latency := range []time.Duration{0, 60 * time.Millisecond} {
		t.Run(fmt.Sprint("queries take ", latency), func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(w *world) { catchesUp(w, latency) })
		})
	}
}

func catchesUp(w *world, latency time.Duration) {
	const n, reads = 400, 6
	place := rollup.Place{Project: "p", Fields: fieldsOf(20)}
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprint("c", i))
	}
	w.rolledUp(place, ids...)
	time.Sleep(time.Second)
	w.server.SetFaults(emulator.Faults{QueryLatency: latency})
	client, err := rollup.Open(w.ctx, rollup.Config{Place: place, Budget: ceiling.New(ceiling.Rates{Reads: reads})}, option.WithGRPCConn(w.connect()))
	w.must(client, err)
	r := rollup.NewRoller(client, rollup.RollerOptions{})
	began := time.Now()
	var all sync.WaitGroup
	for _, id := range ids {
		all.Go(func() {
			if err := r.Add(w.ctx, rollup.Change{Counter: id, Fields: []string{"f0"}, At: time.Now()}); err != nil {
				w.t.Error(err)
			}
		})
	}
	all.Wait()
	if took, most := time.Since(began), time.Duration(n*3/reads+60)*time.Second; took > most {
		w.t.Errorf("%d roll-ups took %v, want at most %v", n, took, most)
	}
	w.must(nil, r.Close(w.ctx))
}

// Rollup has a write for two of Increment's. So each increment pays at least two for each that its roll-up takes, which
// may be more than one: of a counter with a long id, or of many fields.
func TestAnIncrementPaysForItsRollUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ fields, id int }{{1, 5}, {20, 5}, {1, 1000}, {20, 1000}, {1, 1400}, {20, 1400}} {
		t.Run(fmt.Sprintf("%d fields, ids of %d bytes", c.fields, c.id), func(t *testing.T) {
			t.Parallel()
			inVirtualTime(t, func(w *world) {
				place, id := rollup.Place{Project: "p", Fields: fieldsOf(c.fields)}, strings.Repeat("x", c.id)
				w.rolledUp(place, id)
				paid, shown := ceiling.New(ceiling.Rates{Writes: 1000}), ceiling.New(ceiling.Rates{Writes: 1000})
				counting, err := shards.Open(w.ctx, shards.Config{Place: shards.Place(place), Budget: paid}, option.WithGRPCConn(w.connect()))
				w.must(counting, err)
				defer counting.Close()
				rolling, err := rollup.Open(w.ctx, rollup.Config{Place: place, Budget: shown}, option.WithGRPCConn(w.connect()))
				w.must(rolling, err)
				_, err = counting.AddAll(w.ctx, []shards.Increment{{Counter: id, By: 1}}, shards.Key{})
				w.must(nil, err)
				synctest.Wait()
				r := rollup.NewRoller(rolling, rollup.RollerOptions{})
				w.must(nil, r.Add(w.ctx, rollup.Change{Counter: id, Fields: []string{"f0"}, At: time.Now()}))
				w.must(nil, r.Close(w.ctx))
				pays, _ := paid.Tell(0)
				takes, _ := shown.Tell(0)
				if p, t := pays.Spent[ceiling.Writes], takes.Spent[ceiling.Writes]; p < 2*t || t == 0 {
					w.t.Errorf("an increment pays %v writes, and its roll-up takes %v", p, t)
				}
			})
		})
	}
}

// Refreshes that begin at the same time owe no more than one of them takes, and until it ends what it was promised: an
// instance that is new owes nothing.
func TestRefreshesAtTheSameTime(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		const n, reads, one = 64, 6, book.Reads + 5
		place := rollup.Place{Project: "p", Fields: fieldsOf(5)}
		var ids []string
		for i := range n {
			ids = append(ids, fmt.Sprint("c", i))
		}
		w.rolledUp(place, ids...)
		time.Sleep(time.Second)
		w.server.SetFaults(emulator.Faults{QueryLatency: 60 * time.Millisecond})
		budget := ceiling.New(ceiling.Rates{Reads: reads})
		client, err := rollup.Open(w.ctx, rollup.Config{Place: place, Budget: budget}, option.WithGRPCConn(w.connect()))
		w.must(client, err)
		budget.Spend(ceiling.Reads, budget.Left(ceiling.Reads)-1)
		r := rollup.NewRoller(client, rollup.RollerOptions{})
		var all sync.WaitGroup
		for _, id := range ids {
			all.Go(func() {
				var fields []string
				for f := range 5 {
					fields = append(fields, fmt.Sprint("f", f))
				}
				if err := r.Add(w.ctx, rollup.Change{Counter: id, Fields: fields, At: time.Now()}); err != nil {
					w.t.Error(err)
				}
			})
		}
		least, over := 0.0, time.After(n*one/reads*2*time.Second)
		for look := time.NewTicker(10 * time.Millisecond); over != nil; {
			select {
			case <-look.C:
				least = min(least, budget.Left(ceiling.Reads))
			case <-over:
				over = nil
			}
		}
		all.Wait()
		w.must(nil, r.Close(w.ctx))
		if least < -2*one {
			w.t.Errorf("%.0f reads were owed", -least)
		}
	})
}

// What is taken over from the extension's clients is a write for each of their shards. Of many pages at once it owes no
// more than one of them takes.
func TestTakeOversAtTheSameTime(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(w *world) {
		const pages, clicks, writes = 20, 50, 6
		place := rollup.Place{Project: "p", Counters: "pages/{page}", Fields: "visits", Hosted: true, Extension: true}
		var changes []rollup.Change
		for p := range pages {
			page := w.fs.Doc(fmt.Sprint("pages/p", p))
			w.must(page.Set(w.ctx, map[string]any{"visits": 0}))
			for n := range clicks {
				id := fmt.Sprint("s", n)
				at, err := page.Collection("_counter_shards_").Doc(id).Set(w.ctx, map[string]any{"visits": 1})
				w.must(at, err)
				changes = append(changes, rollup.Change{Counter: page.ID, Extension: id, Fields: []string{"_counter_shards_/" + id}, At: at.UpdateTime})
			}
		}
		w.server.SetFaults(emulator.Faults{CommitLatency: 100 * time.Millisecond})
		budget := ceiling.New(ceiling.Rates{Writes: writes})
		client, err := rollup.Open(w.ctx, rollup.Config{Place: place, Budget: budget}, option.WithGRPCConn(w.connect()))
		w.must(client, err)
		r := rollup.NewRoller(client, rollup.RollerOptions{})
		var all sync.WaitGroup
		for _, change := range changes {
			all.Go(func() { w.must(nil, r.Add(w.ctx, change)) })
		}
		least, over := 0.0, make(chan struct{})
		go func() { all.Wait(); close(over) }()
		for look, more := time.NewTicker(10*time.Millisecond), true; more; {
			select {
			case <-look.C:
				least = min(least, budget.Left(ceiling.Writes))
			case <-over:
				more = false
			}
		}
		w.must(nil, r.Close(w.ctx))
		if least < -2*clicks {
			w.t.Errorf("%.0f writes were owed", -least)
		}
		for p := range pages {
			doc, err := w.fs.Doc(fmt.Sprint("pages/p", p)).Get(w.ctx)
			w.must(doc, err)
			if total, _ := doc.DataAt("visits"); total != int64(clicks) {
				w.t.Errorf("page %d shows %v", p, total)
			}
		}
	})
}
