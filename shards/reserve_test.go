package shards_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// books are the shards of a total and the records of its holds, as the last commit has left them.
type books struct {
	server  *emulator.Server
	mu      sync.Mutex
	shards  map[string]map[string]*firestorepb.Value // :: id → fields
	records map[string]map[string]*firestorepb.Value // :: id → fields of those that are open
	ended   map[string]string                        // :: id → state of those that aren't
	used    int64                                    // of all that were settled
	commits int
	count   int64 // what the shards hold together
	after   func([]emulator.Change)
}

// keepBooks checks after each commit that no shard counts more than its share, that it counts what members and open
// holds have of it, and that the holds' records say so of each shard.
func (w *world) keepBooks(t *testing.T) *books {
	b := &books{server: w.Server, shards: map[string]map[string]*firestorepb.Value{}, records: map[string]map[string]*firestorepb.Value{}, ended: map[string]string{}}
	w.Server.OnCommit(func(changes []emulator.Change) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range changes {
			_, name, _ := strings.Cut(c.Name, "/documents/")
			id, state := strings.TrimPrefix(name, "counters/a/shards/"), c.New.GetFields()["state"].GetStringValue()
			switch {
			case id != name && c.New != nil:
				b.shards[id] = c.New.GetFields()
			case id != name:
				delete(b.shards, id)
			case !strings.HasPrefix(name, "counter_rollup/") || !strings.Contains(name, "/counter_requests/"):
			case state == "held":
				b.records[id] = c.New.GetFields()
			default:
				delete(b.records, id)
			}
			was := b.ended[id]
			switch {
			case was != "" && c.New != nil && state != was:
				t.Errorf("a hold that was %s is %q", was, state)
			case c.New == nil:
				delete(b.ended, id)
			case was == "" && (state == "settled" || state == "ended"):
				b.ended[id] = state
				b.used += c.New.GetFields()["used"].GetIntegerValue()
			}
		}
		b.commits++
		b.check(t)
		if b.after != nil {
			b.after(changes)
		}
	})
	return b
}

func (b *books) check(t *testing.T) {
	held := map[string]int64{} // :: shard → what open holds have there
	for id, f := range b.records {
		if f["counter"].GetStringValue() != "a" {
			continue
		}
		parts := int64(0)
		for shard, n := range f["parts"].GetMapValue().GetFields() {
			held[shard] += n.GetIntegerValue()
			parts += n.GetIntegerValue()
		}
		if parts != f["amount"].GetIntegerValue() || f["expire_at"] != nil || f["until"] == nil || f["due"] == nil {
			t.Errorf("record %s says %v", id, f)
		}
	}
	b.count = 0
	for id, f := range b.shards {
		limited := strings.Contains(id, "~")
		count, share, members, holds := f["total"].GetIntegerValue(), f["share(total)"].GetIntegerValue(), f["members(total)"].GetIntegerValue(), f["held(total)"].GetIntegerValue()
		if !limited {
			b.count += f["count"].GetIntegerValue()
			continue
		}
		b.count += count
		if members < 0 || holds < 0 || members+holds > count || count > share || holds != held[id] {
			t.Errorf("shard %s holds %v; the records have %d of it", id, f, held[id])
		}
	}
}

// wantCount fails unless the shards hold so much.
func (b *books) want(t *testing.T, count int64) {
	t.Helper()
	_ = b.server.WaitForChanges(context.Background())
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count != count {
		t.Errorf("the shards hold %d, want %d", b.count, count)
	}
}

// open is how many holds are open.
func (b *books) open() int {
	_ = b.server.WaitForChanges(context.Background())
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.records)
}

func named(id string) shards.Key { return shards.Key{Value: id} }

// reserved holds an amount for a minute.
func reserved(t *testing.T, c shards.Counter, by int64, id string) shards.Hold {
	t.Helper()
	h, _, err := c.Reserve(t.Context(), "total", by, time.Minute, named(id))
	if err != nil || h.ID != id || h.By != by {
		t.Fatalf("%+v, %v: want %d held as %s", h, err, by, id)
	}
	return h
}

func settled(t *testing.T, c shards.Counter, by int64, id string) shards.Hold {
	t.Helper()
	h, err := c.Settle(t.Context(), "total", by, named(id))
	if err != nil || h.State != "settled" || h.Settled != by {
		t.Fatalf("%+v, %v: want %s settled for %d", h, err, id, by)
	}
	return h
}

// wantSettled fails unless a hold and an error say that it is settled for so much.
func wantSettled(t *testing.T, h shards.Hold, err error, by int64) {
	t.Helper()
	if !errors.Is(err, shards.ErrSettled) || h.State != "settled" || h.Settled != by {
		t.Errorf("%+v, %v, want that it is settled for %d", h, err, by)
	}
}

// onBoth runs a test with a limit of 10 in three shards, and without a limit.
func onBoth(t *testing.T, test func(t *testing.T, w *world, b *books, c shards.Counter, limited bool)) {
	for _, limited := range []bool{true, false} {
		virtual.Run(t, fmt.Sprintf("limited %t", limited), func(t *testing.T) {
			w := newWorld(t)
			b := w.keepBooks(t)
			c := w.counter(t, w.open(t, map[bool]shards.Config{true: withLimit}[limited]), "a", 3)
			if limited {
				limit(t, c, 10)
			}
			test(t, w, b, c, limited)
		})
	}
}

// An amount is held, settled for less, or given back; each may be asked for again.
func TestReserve(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world, b *books, c shards.Counter, limited bool) {
		first := reserved(t, c, 9, "x") // of several shards
		if first.State != "held" || first.At.IsZero() || time.Until(first.Until) > time.Minute || time.Until(first.Until) < 30*time.Second {
			t.Errorf("%+v", first)
		}
		b.want(t, 9)
		again, replayed, err := c.Reserve(t.Context(), "total", 9, time.Hour, named("x"))
		if err != nil || !replayed || !again.Until.Equal(first.Until) || again.State != "held" {
			t.Errorf("held again: %+v, %t, %v", again, replayed, err)
		}
		if _, _, err := c.Reserve(t.Context(), "total", 8, time.Minute, named("x")); !errors.Is(err, shards.ErrKeyReused) {
			t.Errorf("another amount: %v, want ErrKeyReused", err)
		}
		if limited {
			_, _, err := c.Reserve(t.Context(), "total", 2, time.Minute, named("y"))
			wantLimit(t, err, 1)
			wantLimit(t, c.Add(t.Context(), -1), 1) // nobody else gives back what is held
		}
		for range 2 {
			if h := settled(t, c, 5, "x"); h.Returned() != 4 || h.By != 9 {
				t.Errorf("%+v: want 4 back", h)
			}
			b.want(t, 5)
		}
		h, err := c.Settle(t.Context(), "total", 4, named("x"))
		wantSettled(t, h, err, 5)
		h, err = c.GiveBack(t.Context(), "total", named("x"))
		wantSettled(t, h, err, 5)
		if h, replayed, err := c.Reserve(t.Context(), "total", 9, time.Minute, named("x")); err != nil || !replayed || h.State != "settled" || h.Settled != 5 {
			t.Errorf("held again after it was settled: %+v, %t, %v", h, replayed, err)
		}
		if h, err := c.Held(t.Context(), "total", named("x")); err != nil || h.State != "settled" || h.Settled != 5 || !h.Until.Equal(first.Until) {
			t.Errorf("it is %+v, %v", h, err)
		}
		if _, err := c.Held(t.Context(), "total", named("y")); !errors.Is(err, shards.ErrNoHold) {
			t.Errorf("%v, want ErrNoHold", err)
		}

		reserved(t, c, 4, "z")
		for range 2 {
			if h, err := c.GiveBack(t.Context(), "total", named("z")); err != nil || h.State != "ended" || h.Returned() != 4 {
				t.Errorf("given back: %+v, %v", h, err)
			}
			b.want(t, 5)
		}
		_, err = c.Settle(t.Context(), "total", 1, named("z"))
		wantEnded(t, err)
		reserved(t, c, 3, "none")
		settled(t, c, 0, "none")
		reserved(t, c, 3, "all")
		settled(t, c, 3, "all")
		b.want(t, 8)
		if limited {
			if err := c.Add(t.Context(), -8); err != nil { // what is settled is anybody's to give back
				t.Fatal(err)
			}
		}
		if n := b.open(); n != 0 {
			t.Errorf("%d holds are open", n)
		}
	})
}

// What can't be held or settled changes nothing.
func TestInvalidReservations(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.keepBooks(t)
		c := w.counter(t, w.open(t, withLimit), "a", 1)
		limit(t, c, 10)
		for name, is := range map[string]struct {
			err  error
			want error
		}{
			"too short":     {second(c.Reserve(t.Context(), "total", 1, 0, named("x"))), shards.ErrInvalidHold},
			"too long":      {second(c.Reserve(t.Context(), "total", 1, shards.MaxHold+1, named("x"))), shards.ErrInvalidHold},
			"nothing":       {second(c.Reserve(t.Context(), "total", 0, time.Minute, named("x"))), shards.ErrInvalidIncrement},
			"less":          {second(c.Reserve(t.Context(), "total", -1, time.Minute, named("x"))), shards.ErrInvalidIncrement},
			"another field": {second(c.Reserve(t.Context(), "likes", 1, time.Minute, named("x"))), shards.ErrInvalidField},
			"no key":        {second(c.Reserve(t.Context(), "total", 1, time.Minute, named("\n"))), shards.ErrInvalidKey},
			"more":          {second(c.Reserve(t.Context(), "total", 11, time.Minute, named("x"))), shards.ErrLimit},
			"settled below": {only(c.Settle(t.Context(), "total", -1, named("x"))), shards.ErrInvalidIncrement},
			"of no key":     {only(c.Settle(t.Context(), "total", 1, shards.Key{})), shards.ErrInvalidKey},
			"of no field":   {only(c.GiveBack(t.Context(), "likes", named("x"))), shards.ErrInvalidField},
		} {
			if !errors.Is(is.err, is.want) {
				t.Errorf("%s: %v, want %v", name, is.err, is.want)
			}
		}
		b.want(t, 0)
		h, _, err := c.Reserve(t.Context(), "total", 2, time.Minute, shards.Key{}) // is given one
		if err != nil || h.ID == "" {
			t.Fatalf("%+v, %v", h, err)
		}
		settled(t, c, 1, h.ID)
		b.want(t, 1)
		if _, _, err := handle(t, w.open(t, withLimit), "missing").Reserve(t.Context(), "total", 1, time.Minute, named("x")); !errors.Is(err, shards.ErrNotFound) {
			t.Errorf("%v, want ErrNotFound", err)
		}
		made := handle(t, w.open(t, shards.Config{Place: shards.Place{Fields: "total=limit(3)"}, AutoCreate: true}), "made")
		reserved(t, made, 3, "x")
		_, _, err = made.Reserve(t.Context(), "total", 1, time.Minute, named("y"))
		wantLimit(t, err, 0)
	})
}

func second(_ shards.Hold, _ bool, err error) error { return err }

func only(_ shards.Hold, err error) error { return err }

// A key is its caller's, and its field's.
func TestReservationsAreTheirCallers(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: "total=limit(),likes"}}), "a", 1)
		limit(t, c, 10)
		for _, key := range []shards.Key{{Value: "x"}, {Value: "x", Caller: "alice"}} {
			if _, replayed, err := c.Reserve(t.Context(), "total", 2, time.Minute, key); replayed || err != nil {
				t.Errorf("%+v: %t, %v", key, replayed, err)
			}
		}
		if _, replayed, err := c.Reserve(t.Context(), "likes", 2, time.Minute, named("x")); replayed || err != nil {
			t.Error(replayed, err)
		}
		_, err := c.Settle(t.Context(), "total", 1, shards.Key{Value: "x", Caller: "bob"})
		wantEnded(t, err)
		w.wantSum(t, "a", 4)
	})
}

// When its time is over, whoever finds no room ends a hold. Until then it may be settled.
func TestReservationsEnd(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.keepBooks(t)
		c := w.counter(t, w.open(t, withLimit), "a", 2)
		limit(t, c, 10)
		briefly := func(by int64, id string) {
			t.Helper()
			h, err := c.ReserveBriefly(t.Context(), by, brief, named(id))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Until(h.Until) + time.Millisecond)
		}
		briefly(7, "late")
		settled(t, c, 5, "late")
		briefly(5, "over")
		reserved(t, c, 4, "next")
		if h, err := c.Held(t.Context(), "total", named("over")); err != nil || h.State != "ended" || h.Returned() != 5 {
			t.Errorf("%+v, %v", h, err)
		}
		b.want(t, 9)
		_, err := c.Settle(t.Context(), "total", 5, named("over"))
		wantEnded(t, err)
		if h, replayed, err := c.Reserve(t.Context(), "total", 5, time.Minute, named("over")); err != nil || !replayed || h.State != "ended" {
			t.Errorf("held again: %+v, %t, %v", h, replayed, err)
		}
		briefly(1, "once more")
		if err := c.SetLimit(t.Context(), "total", 9); err != nil { // which needs its room
			t.Error(err)
		}
		b.want(t, 9)
		if n := b.open(); n != 1 {
			t.Errorf("%d holds are open", n)
		}
	})
}

// More than was held is taken if there is room for the rest, of several shards too; or else nothing changes.
func TestSettleForMore(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world, b *books, c shards.Counter, limited bool) {
		reserved(t, c, 2, "x")
		reserved(t, c, 1, "y")
		for range 2 {
			if h := settled(t, c, 7, "x"); h.Returned() != 0 {
				t.Errorf("%+v", h)
			}
			b.want(t, 8)
		}
		if !limited {
			return
		}
		_, err := c.Settle(t.Context(), "total", 4, named("y"))
		wantLimit(t, err, 2)
		b.want(t, 8)
		if h, err := c.Held(t.Context(), "total", named("y")); err != nil || h.State != "held" {
			t.Errorf("%+v, %v", h, err)
		}
		// Somebody takes meanwhile what this process knows to be free.
		limit(t, c, 12)
		if _, _, err := c.Reserve(t.Context(), "total", 1, time.Minute, named("w")); err != nil {
			t.Fatal(err)
		}
		if err := handle(t, w.open(t, withLimit), "a").Add(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		_, err = c.Settle(t.Context(), "total", 4, named("w"))
		wantLimit(t, err, 0)
		settled(t, c, 0, "w")
		limit(t, c, 11)
		if err := c.Add(t.Context(), -1); err != nil {
			t.Fatal(err)
		}
		limit(t, c, 10)
		if err := c.Add(t.Context(), -2); err != nil {
			t.Fatal(err)
		}
		// A hold that is over is room.
		h, err := c.ReserveBriefly(t.Context(), 2, brief, named("z"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(h.Until) + time.Millisecond)
		settled(t, handle(t, w.open(t, withLimit), "a"), 3, "y") // by a process that knows nothing
		b.want(t, 10)
	})
}

// A settle for more on a field that a crowd hits goes on with shards that it knows: it doesn't read all of them each
// time when somebody was faster.
func TestSettleForMoreBesideACrowd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: "total=limit(1000)"}}), "a", 25)
		reserved(t, c, 2, "x")
		tries := 0
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			for _, write := range req.GetWrites() {
				if _, id, is := strings.Cut(write.GetUpdate().GetName(), "/documents/counters/a/shards/"); is && len(req.GetWrites()) > 1 {
					tries++ // one of the hold's own shard, and one of a shard that has room
					if _, err := w.fs.Doc("counters/a/shards/"+id).Set(t.Context(), map[string]any{"try": tries}, firestore.MergeAll); err != nil {
						t.Error(err)
					}
				}
			}
			return emulator.Verdict{}
		})
		before := w.Server.Stats().Reads
		if _, err := c.Settle(t.Context(), "total", 7, named("x")); !errors.Is(err, shards.ErrBusy) {
			t.Errorf("%v, want ErrBusy", err)
		}
		if reads := w.Server.Stats().Reads - before; tries < 40 || reads > 500 {
			t.Errorf("%d tries read %d documents; want at least 40, and at most 500", tries, reads)
		}
		w.Server.SetInterceptor(nil)
		settled(t, c, 7, "x")
	})
}

// A settle whose commits meet contention reads the record once.
func TestASettleInACrowdReadsLittle(t *testing.T) {
	for name, cfg := range map[string]shards.Config{"plain": {}, "with a limit": withLimit} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			c := w.counter(t, w.open(t, cfg), "a", 100)
			if name != "plain" {
				limit(t, c, 10)
			}
			reserved(t, c, 2, "x")
			tries := 0
			w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
				if tries++; tries <= 8 {
					v.Before = aborted
				}
				return v
			})
			before := w.Server.Stats().Reads
			settled(t, c, 1, "x")
			if reads := w.Server.Stats().Reads - before; tries <= 8 || reads != 1 {
				t.Errorf("%d tries read %d documents, want 1", tries, reads)
			}
		})
	}
}

// A hold that is over may be settled for as long as nobody has ended it: whoever settles it for more than there is room
// for doesn't end it to make room, and may settle it for less.
func TestALateSettleForMoreEndsOthers(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.keepBooks(t)
		c := w.counter(t, w.open(t, withLimit), "a", 3)
		limit(t, c, 10)
		last := shards.Hold{}
		for id, by := range map[string]int64{"x": 7, "y": 2} {
			h, err := c.ReserveBriefly(t.Context(), by, brief, named(id))
			if err != nil {
				t.Fatal(err)
			}
			if h.Until.After(last.Until) {
				last = h
			}
		}
		time.Sleep(time.Until(last.Until) + time.Millisecond)
		for range 2 {
			_, err := c.Settle(t.Context(), "total", 11, named("x")) // ends y
			wantLimit(t, err, 3)
			b.want(t, 7)
		}
		if h, err := c.Held(t.Context(), "total", named("x")); err != nil || h.State != "held" {
			t.Errorf("%+v, %v: want that it is held", h, err)
		}
		settled(t, c, 9, "x")
		b.want(t, 9)
	})
}

// writesRecord reports whether a commit makes or changes the record of a hold, to a state.
func writesRecord(state string) func(*firestorepb.CommitRequest) bool {
	return func(req *firestorepb.CommitRequest) bool {
		for _, w := range req.GetWrites() {
			f := w.GetUpdate().GetFields()
			if f["state"].GetStringValue() == state && strings.Contains(w.GetUpdate().GetName(), "/counter_requests/") {
				return true
			}
		}
		return false
	}
}

// Commits that hold, settle and give back amounts, whose answers are lost, which fail, or which meet others, do it
// once.
func TestReservationsUnderFaults(t *testing.T) {
	t.Parallel()
	lost, down, contended := emulator.Verdict{After: unavailable}, emulator.Verdict{Before: unavailable}, emulator.Verdict{Before: aborted}
	for name, faults := range map[string][]emulator.Verdict{
		"lost": {lost}, "down": {down}, "contended": {contended}, "all": {down, contended, down, lost},
	} {
		for _, state := range []string{"held", "settled", "ended"} {
			t.Run(name+" "+state, func(t *testing.T) {
				t.Parallel()
				onBoth(t, func(t *testing.T, w *world, b *books, c shards.Counter, limited bool) {
					var seen atomic.Int64
					is := writesRecord(state)
					w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
						if is(req) {
							if n := int(seen.Add(1)); n <= len(faults) {
								return faults[n-1]
							}
						}
						return emulator.Verdict{}
					})
					if h := reserved(t, c, 3, "x"); h.At.IsZero() {
						t.Error("it is not held by this call")
					}
					reserved(t, c, 2, "y")
					reserved(t, c, 2, "z")
					settled(t, c, 1, "x")
					settled(t, c, 5, "y")
					if _, err := c.GiveBack(t.Context(), "total", named("z")); err != nil {
						t.Fatal(err)
					}
					if seen.Load() < int64(len(faults)) {
						t.Errorf("%d of such commits", seen.Load())
					}
					b.want(t, 6)
					if n := b.open(); n != 0 {
						t.Errorf("%d holds are open", n)
					}
				})
			})
		}
	}
}

// A process dies with the commit of a hold on its way. Somebody settles or gives back what isn't held: that never will
// be, whatever arrives.
func TestALateReservation(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(ctx context.Context, c shards.Counter) error{
		"settled":    func(ctx context.Context, c shards.Counter) error { return only(c.Settle(ctx, "total", 1, named("x"))) },
		"given back": func(ctx context.Context, c shards.Counter) error { return only(c.GiveBack(ctx, "total", named("x"))) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, w *world, b *books, c shards.Counter, limited bool) {
				cfg := map[bool]shards.Config{true: withLimit}[limited]
				cfg.Timeout = 400 * time.Millisecond
				dying := handle(t, w.open(t, cfg), "a")
				// it doesn't get to settle what is in doubt
				sent, arrives := w.late(t, writesRecord("held"), func(*firestorepb.CommitRequest) bool { return true })
				for !sent() { // on a busy machine there may be no time for it
					if _, _, err := dying.Reserve(t.Context(), "total", 3, time.Minute, named("x")); !errors.Is(err, shards.ErrUnknown) && !errors.Is(err, shards.ErrBusy) {
						t.Fatalf("%v, want ErrUnknown", err)
					}
				}
				w.Server.SetInterceptor(nil)
				if err := end(t.Context(), c); err != nil && !errors.Is(err, shards.ErrHoldEnded) {
					t.Fatal(err)
				}
				arrives()
				if _, _, err := c.Reserve(t.Context(), "total", 3, time.Minute, named("x")); !errors.Is(err, shards.ErrHoldEnded) {
					t.Errorf("%v, want ErrHoldEnded", err)
				}
				b.want(t, 0)
			})
		})
	}
}

// A settle whose answer is lost arrives late: after the hold has ended, and was settled by a repetition.
func TestALateSettle(t *testing.T) {
	t.Parallel()
	for _, by := range []int64{1, 3, 6} {
		for name, meanwhile := range map[string]func(t *testing.T, c shards.Counter){
			"given back":    func(t *testing.T, c shards.Counter) { _, _ = c.GiveBack(t.Context(), "total", named("x")) },
			"settled again": func(t *testing.T, c shards.Counter) { settled(t, c, 2, "x") },
		} {
			t.Run(fmt.Sprint(by, " ", name), func(t *testing.T) {
				t.Parallel()
				onBoth(t, func(t *testing.T, w *world, b *books, c shards.Counter, limited bool) {
					reserved(t, c, 3, "x")
					is := writesRecord("settled")
					sent, arrives := w.late(t, is, is)
					for !sent() { // on a busy machine there may be no time for it
						ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
						_, err := c.Settle(ctx, "total", by, named("x"))
						if cancel(); !errors.Is(err, shards.ErrUnknown) && !errors.Is(err, shards.ErrBusy) {
							t.Fatalf("%v, want ErrUnknown", err)
						}
					}
					w.Server.SetInterceptor(nil)
					meanwhile(t, c)
					arrives()
					b.want(t, map[bool]int64{true: 2}[name == "settled again"])
				})
			})
		}
	}
}

// Somebody else takes the last room with an answer that is lost: the same hold, asked for again elsewhere, isn't
// refused.
func TestARefusalReadsTheRecord(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.keepBooks(t)
		c := w.counter(t, w.open(t, withLimit), "a", 2)
		limit(t, c, 3)
		other := handle(t, w.open(t, withLimit), "a")
		looks := 0
		asks := w.asking(t, withLimit, "RunAggregationQuery", func() {
			if looks++; looks == 1 {
				reserved(t, other, 3, "x")
			}
		})
		h, replayed, err := handle(t, asks, "a").Reserve(t.Context(), "total", 3, time.Minute, named("x"))
		if err != nil || !replayed || h.By != 3 {
			t.Errorf("%+v, %t, %v", h, replayed, err)
		}
		b.want(t, 3)

		// So it is with a settle for more than there is.
		reserved(t, w.raised(t, c, 4), 1, "y")
		looks = -100
		client := w.asking(t, withLimit, "RunAggregationQuery", func() {
			if looks++; looks == -99 {
				settled(t, w.raised(t, other, 6), 3, "y")
			}
		})
		if h, err := handle(t, client, "a").Settle(t.Context(), "total", 3, named("y")); err != nil || h.Settled != 3 {
			t.Errorf("%+v, %v", h, err)
		}
		b.want(t, 6)
	})
}

// raised has a counter with another limit.
func (w *world) raised(t *testing.T, c shards.Counter, n int64) shards.Counter {
	t.Helper()
	limit(t, c, n)
	return c
}

// Shards that a resize removes take no hold along: what comes back comes off another one.
func TestHoldsBesideAResize(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.keepBooks(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 8)
		for i := range 6 {
			reserved(t, c, 2, fmt.Sprint(i))
		}
		if err := c.Resize(t.Context(), 1, shards.ResizeOptions{}); err != nil {
			t.Fatal(err)
		}
		b.want(t, 12)
		for i := range 3 {
			settled(t, c, []int64{0, 1, 3}[i], fmt.Sprint(i))
			if _, err := c.GiveBack(t.Context(), "total", named(fmt.Sprint(3+i))); err != nil {
				t.Fatal(err)
			}
		}
		b.want(t, 4)
	})
}

// A counter that is deleted takes its holds along: in its next life nothing of them comes back.
func TestHoldsGoWithTheirCounter(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world, b *books, c shards.Counter, limited bool) {
		reserved(t, c, 3, "x")
		reserved(t, c, 3, "y")
		is := writesRecord("settled")
		sent, arrives := w.late(t, is, is)
		for !sent() { // on a busy machine there may be no time for it
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			_, err := c.Settle(ctx, "total", 1, named("y"))
			if cancel(); !errors.Is(err, shards.ErrUnknown) && !errors.Is(err, shards.ErrBusy) {
				t.Fatalf("%v, want ErrUnknown", err)
			}
		}
		w.Server.SetInterceptor(nil)
		if err := c.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), shards.CreateOptions{Shards: 3}); err != nil {
			t.Fatal(err)
		}
		if limited {
			limit(t, c, 10)
		}
		if err := c.Add(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		arrives()
		for _, id := range []string{"x", "y"} {
			_, err := c.Settle(t.Context(), "total", 1, named(id))
			wantEnded(t, err)
		}
		b.want(t, 5)
		reserved(t, c, 4, "z")
		settled(t, c, 1, "z")
		b.want(t, 6)
	})
}

// Somebody deletes a counter's documents one by one, which leaves the records of its holds: nothing of them comes back
// to the shards of its next life, whether a take makes these, or a limit.
func TestHoldsOfACounterThatWasDeletedByHand(t *testing.T) {
	t.Parallel()
	for name, limited := range map[string]bool{"a take": false, "a limit": true} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			cfg := shards.Config{Place: shards.Place{Fields: "total=limit(10)"}, NumShards: 1}
			c := w.counter(t, w.open(t, cfg), "a", 1)
			reserved(t, c, 3, "x")
			over, err := c.ReserveBriefly(t.Context(), 3, time.Second, named("y"))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{"counters/a/shards/total~0", "counters/a/shards/0", "counters/a/counter_rollup/base", "counters/a"} {
				w.Delete(path)
			}
			c = w.counter(t, w.open(t, cfg), "a", 1)
			if limited {
				limit(t, c, 10)
			}
			if err := c.Add(t.Context(), 4); err != nil {
				t.Fatal(err)
			}
			_, err = c.Settle(t.Context(), "total", 1, named("x"))
			wantEnded(t, err)
			time.Sleep(time.Until(over.Until) + time.Millisecond)
			reserved(t, c, 6, "z")
			if got := w.totalOf(t, "a"); got != 10 {
				t.Errorf("the shards hold %d, want 10", got)
			}
		})
	}
}

// The same of a field without a limit, whoever makes the counter again. Shards that are still there hold the amount.
func TestPlainHoldsOfACounterThatWasDeletedByHand(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(t *testing.T, w *world, c shards.Counter){
		"create": func(t *testing.T, w *world, c shards.Counter) {
			w.counter(t, w.open(t, shards.Config{}), "a", 1)
		},
		"an increment": func(t *testing.T, w *world, c shards.Counter) {},
		"its shards stay": func(t *testing.T, w *world, c shards.Counter) {
			w.Put("counters/a/shards/0", map[string]any{"count": 16})
		},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			cfg := shards.Config{NumShards: 1, AutoCreate: true}
			c := handle(t, w.open(t, cfg), "a")
			reserved(t, c, 10, "x")
			reserved(t, c, 6, "y")
			for _, path := range []string{"counters/a/shards/0", "counters/a/counter_rollup/base", "counters/a"} {
				w.Delete(path)
			}
			again(t, w, c)
			c = handle(t, w.open(t, cfg), "a")
			if err := c.Add(t.Context(), 4); err != nil {
				t.Fatal(err)
			}
			_, err := c.GiveBack(t.Context(), "total", named("x"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Settle(t.Context(), "total", 1, named("y")); name == "its shards stay" {
				if err != nil {
					t.Fatal(err)
				}
				w.wantSum(t, "a", 5)
				return
			} else {
				wantEnded(t, err)
			}
			w.wantSum(t, "a", 4)
		})
	}
}

// Of many holds, too, none comes back to the shards of a counter's next life.
func TestManyHoldsOfACounterThatWasDeletedByHand(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := shards.Config{Place: shards.Place{Fields: "total=limit(1000)"}, NumShards: 1}
		c := w.counter(t, w.open(t, cfg), "a", 1)
		const n = 410
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				if _, _, err := c.Reserve(t.Context(), "total", 1, time.Minute, named(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, path := range []string{"counters/a/shards/total~0", "counters/a/counter_rollup/base", "counters/a"} {
			w.Delete(path)
		}
		c = w.counter(t, w.open(t, cfg), "a", 1)
		if err := c.Add(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if _, err := c.GiveBack(t.Context(), "total", named(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.totalOf(t, "a"); got != 4 {
			t.Errorf("the shards hold %d, want 4", got)
		}
	})
}

// What is held while a counter is reset counts after that: the total never falls below 0, and what is used isn't lost.
func TestAResetBesideHolds(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{NumShards: 2}), "a", 2)
		if err := c.Add(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		reserved(t, c, 10, "x")
		reserved(t, c, 20, "y")
		reserved(t, c, 40, "z")
		settled(t, c, 30, "z")
		for range 2 { // what a reset repeats is the same
			if err := c.Reset(t.Context(), shards.ResetOptions{}); err != nil {
				t.Fatal(err)
			}
			w.wantSum(t, "a", 30)
		}
		if _, err := c.GiveBack(t.Context(), "total", named("x")); err != nil {
			t.Fatal(err)
		}
		w.wantSum(t, "a", 20)
		settled(t, c, 23, "y")
		w.wantSum(t, "a", 23)
		if err := c.Reset(t.Context(), shards.ResetOptions{}); err != nil {
			t.Fatal(err)
		}
		w.wantSum(t, "a", 0)
	})
}

// The same of a rebase: what it sets is the total once all that was held has come back.
func TestARebaseBesideHolds(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{NumShards: 2}), "a", 2)
		reserved(t, c, 10, "x")
		reserved(t, c, 20, "y")
		for range 2 {
			if err := c.Rebase(t.Context(), 7); err != nil {
				t.Fatal(err)
			}
			w.wantSum(t, "a", 37)
		}
		if _, err := c.GiveBack(t.Context(), "total", named("x")); err != nil {
			t.Fatal(err)
		}
		settled(t, c, 2, "y")
		w.wantSum(t, "a", 9)
	})
}

// What a hold costs: its record and its shard, both when it is made and when it is settled.
func TestWhatAHoldCosts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world, _ *books, c shards.Counter, limited bool) {
		reserved(t, c, 1, "first")
		w.Server.ResetStats()
		reserved(t, c, 1, "x")
		if s := w.Server.Stats(); s.Writes != 2 || s.Reads != 0 {
			t.Errorf("to hold: %d writes, %d reads", s.Writes, s.Reads)
		}
		w.Server.ResetStats()
		settled(t, c, 0, "x")
		if s := w.Server.Stats(); s.Writes != 2 || s.Reads != 1 {
			t.Errorf("to settle: %d writes, %d reads", s.Writes, s.Reads)
		}
		w.Server.ResetStats()
		reserved(t, c, 1, "y") // by what the settle has left
		if s := w.Server.Stats(); s.Writes != 2 || s.Reads != 0 {
			t.Errorf("to hold again: %d writes, %d reads", s.Writes, s.Reads)
		}
	})
}

// totalOf is what shards of a total with a limit hold together.
func (w *world) totalOf(t *testing.T, id string) (sum int64) {
	t.Helper()
	docs, err := w.fs.Collection("counters").Doc(id).Collection("shards").Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range docs {
		n, _ := doc.Data()["total"].(int64)
		sum += n
	}
	return sum
}

// Many holds of a counter's earlier life end some at a time, as the budget allows, and all of them before there are
// shards: who makes the counter again is refused until then.
func TestBudgetBoundsTheEndOfAnEarlierLife(t *testing.T) {
	t.Parallel()
	const n, writes = 300, 10
	for _, fields := range []string{"total", "total=limit(1000)"} {
		for _, rates := range []ceiling.Rates{{}, {Writes: writes, Reads: writes}} {
			for how, again := range map[string]func(ctx context.Context, c shards.Counter) error{
				"create": func(ctx context.Context, c shards.Counter) error {
					if err := c.Create(ctx, shards.CreateOptions{}); err != nil && !errors.Is(err, shards.ErrExists) {
						return err
					}
					return c.Add(ctx, 1)
				},
				"increment": func(ctx context.Context, c shards.Counter) error { return c.Add(ctx, 1) },
			} {
				virtual.Run(t, fmt.Sprint(how, " of ", fields, " at ", rates.Writes), func(t *testing.T) {
					w := newWorld(t)
					cfg := shards.Config{Place: shards.Place{Fields: fields}, NumShards: 1, AutoCreate: true}
					c := handle(t, w.open(t, cfg), "a")
					for i := range n {
						reserved(t, c, 1, fmt.Sprint(i))
					}
					for _, path := range []string{"counters/a/shards/total~0", "counters/a/shards/0", "counters/a/counter_rollup/base", "counters/a"} {
						w.Delete(path)
					}
					cfg.Budget = ceiling.New(rates)
					c = handle(t, w.open(t, cfg), "a")
					began, before := time.Now(), w.Server.Stats().Writes
					for tries := 0; ; tries++ {
						err := again(t.Context(), c)
						spent, most := float64(w.Server.Stats().Writes-before), writes*(time.Since(began)+ceiling.Begins).Seconds()+60
						if rates.Writes > 0 && spent > most {
							t.Fatalf("%.0f writes in %v; want at most %.0f", spent, time.Since(began), most)
						}
						if err == nil {
							break
						}
						if tries > 100 || !errors.Is(err, shards.ErrBusy) {
							t.Fatal(tries, err)
						}
						time.Sleep(time.Second)
					}
					if _, err := c.GiveBack(t.Context(), "total", named("5")); err != nil {
						t.Fatal(err)
					}
					if got := w.totalOf(t, "a"); got != 1 {
						t.Errorf("the shards hold %d, want 1", got)
					}
				})
			}
		}
	}
}
