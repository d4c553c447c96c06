//go:build !race

package shards_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/shards"
)

// account is what a field with holds is, in plain Go.
type account struct {
	limit, taken int64 // taken for good
	holds        map[string]*plainHold
}

type plainHold struct {
	by, settled int64 // by is 0 of one that was refused to be held
	state       string
	over        bool // its time is
}

func (a *account) count() int64 {
	n := a.taken
	for _, h := range a.holds {
		switch h.state {
		case "held":
			n += h.by
		case "settled":
			n += h.settled
		}
	}
	return n
}

// room reports whether there is room. If there is none, holds that are over end, but for one.
func (a *account) room(n int64, but *plainHold) bool {
	if a.count()+n <= a.limit {
		return true
	}
	for _, h := range a.holds {
		if h.state == "held" && h.over && h != but {
			h.state = "ended"
		}
	}
	return a.count()+n <= a.limit
}

func (a *account) reserve(id string, by int64) (want plainHold, err error) {
	h := a.holds[id]
	switch {
	case h == nil && !a.room(by, nil):
		return want, shards.ErrLimit
	case h == nil:
		h = &plainHold{by: by, state: "held"}
		a.holds[id] = h
	case h.by == 0:
		return want, shards.ErrHoldEnded
	case h.by != by:
		return want, shards.ErrKeyReused
	}
	return *h, nil
}

func (a *account) settle(id string, by int64) (err error) {
	h := a.holds[id]
	if h == nil {
		h = &plainHold{state: "ended"}
		a.holds[id] = h
	}
	if more := by - h.by; h.state == "held" && more > 0 && !a.room(more, h) {
		return shards.ErrLimit
	}
	switch {
	case h.state == "ended":
		return shards.ErrHoldEnded
	case h.state == "settled" && h.settled != by:
		return shards.ErrSettled
	}
	h.state, h.settled = "settled", by
	return nil
}

func (a *account) giveBack(id string) (err error) {
	h := a.holds[id]
	switch {
	case h == nil:
		a.holds[id] = &plainHold{state: "ended"}
	case h.state == "settled":
		return shards.ErrSettled
	default:
		h.state = "ended"
	}
	return nil
}

// Two processes that know little of each other hold, settle, give back and take of one field, while commits fail, lose
// their answers or abort: each answer is that of the plain model.
func TestReservationsAreAsInTheModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { reservationsAreAsInTheModel(t, newWorld(t)) })
}

func reservationsAreAsInTheModel(t *testing.T, w *world) {
	var faults atomic.Pointer[[]emulator.Verdict]
	w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
		if left := faults.Load(); left != nil && len(*left) > 0 {
			v = (*left)[0]
			faults.Store(new((*left)[1:]))
		}
		return v
	})
	clients := []*shards.Client{w.open(t, withLimit), w.open(t, withLimit)}
	run := 0
	rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) { // which has no deadline
		run++
		counter := fmt.Sprint("c", run)
		faults.Store(nil)
		w.counter(t, clients[0], counter, rapid.IntRange(1, 4).Draw(rt, "shards"))
		model := &account{limit: rapid.Int64Range(0, 12).Draw(rt, "limit"), holds: map[string]*plainHold{}}
		limit(t, handle(t, clients[0], counter), model.limit)
		some := func() shards.Counter {
			drawn := rapid.SliceOfN(rapid.IntRange(0, 8), 0, 3).Draw(rt, "faults")
			var list []emulator.Verdict
			for _, n := range drawn {
				list = append(list, map[int]emulator.Verdict{0: {Before: unavailable}, 1: {After: unavailable}, 2: {Before: aborted}}[n])
			}
			faults.Store(&list)
			return handle(t, clients[rapid.IntRange(0, 1).Draw(rt, "client")], counter)
		}
		id := func() string { return rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(rt, "id") }
		amount := func() int64 { return rapid.Int64Range(1, 7).Draw(rt, "amount") }
		is := func(what string, got, want error) {
			if !errors.Is(got, want) {
				rt.Fatalf("%s: %v, want %v", what, got, want)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"reserve": func(rt *rapid.T) {
				id, by, briefly := id(), amount(), rapid.Bool().Draw(rt, "briefly")
				before := model.holds[id]
				want, err := model.reserve(id, by)
				c := some()
				var got shards.Hold
				var failed error
				if briefly {
					got, failed = c.ReserveBriefly(t.Context(), by, time.Millisecond, named(id))
				} else {
					got, _, failed = c.Reserve(t.Context(), "total", by, time.Hour, named(id))
				}
				is("reserve "+id, failed, err)
				if before != nil && before.over && before.state == "held" && got.State == "ended" { // by this call, which found no room at first
					before.state, want.state = "ended", "ended"
				}
				if err == nil && (got.State != want.state || got.By != want.by || got.Settled != want.settled) {
					rt.Fatalf("reserve %s: %+v, want %+v", id, got, want)
				}
				if err == nil && before == nil && briefly {
					time.Sleep(time.Until(got.Until) + time.Millisecond)
					model.holds[id].over = true
				}
			},
			"settle": func(rt *rapid.T) {
				id, by := id(), rapid.Int64Range(0, 8).Draw(rt, "by")
				err := model.settle(id, by)
				is("settle "+id, only(some().Settle(t.Context(), "total", by, named(id))), err)
			},
			"give back": func(rt *rapid.T) {
				id := id()
				err := model.giveBack(id)
				is("give back "+id, only(some().GiveBack(t.Context(), "total", named(id))), err)
			},
			"take": func(rt *rapid.T) {
				by := amount()
				var want error
				if model.room(by, nil) {
					model.taken += by
				} else {
					want = shards.ErrLimit
				}
				is("take", some().Add(t.Context(), by), want)
			},
			"": func(rt *rapid.T) {
				for id, h := range model.holds { // what is over may have been ended, by who found no room at first
					if !h.over || h.state != "held" {
						continue
					}
					got, err := handle(t, clients[0], counter).Held(t.Context(), "total", named(id))
					if err != nil {
						rt.Fatal(err)
					}
					h.state = got.State
				}
				if got := w.totalOf(t, counter); got != model.count() {
					rt.Fatalf("the shards hold %d, want %d: %+v", got, model.count(), model)
				}
			},
		})
	})
}
