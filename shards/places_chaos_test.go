package shards_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/chance"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// Calls of several fields, of which one has a limit, and of several counters, amounts, members, limits, resizes and
// removals at 0 go on beside each other, with lost answers and late commits. Whoever has no answer repeats the call.
// What was acknowledged is counted once, and in the end nothing is held.
func TestSeveralPlacesChaos(t *testing.T) {
	t.Parallel()
	for _, enterprise := range []bool{false, true} {
		virtual.Run(t, fmt.Sprintf("enterprise %t", enterprise), func(t *testing.T) {
			severalPlacesChaos(t, newWorldWith(t, emulator.Options{Enterprise: enterprise}))
		})
	}
}

func severalPlacesChaos(t *testing.T, w *world) {
	cfg := shards.Config{Place: shards.Place{Fields: "likes,seats=limit(12)"}, NumShards: 3, AutoCreate: true}
	clients := []*shards.Client{w.open(t, cfg), w.open(t, cfg), w.open(t, cfg)}
	late := w.failCommits(20, 50*time.Millisecond, true, nil)

	type place struct{ counter, field string }
	counts := map[place]*atomic.Int64{}
	ids := []string{"a", "b", "c", "d", "e", "f"}
	for _, id := range ids {
		for _, field := range []string{"likes", "seats"} {
			counts[place{id, field}] = new(atomic.Int64)
		}
	}
	var done, refused, removed atomic.Int64
	worker := func(n int) {
		r := rand.New(rand.NewPCG(uint64(n), chance.Seed(t)))
		client := func() *shards.Client { return clients[r.IntN(len(clients))] }
		counter := func(id string) shards.Counter { return handle(t, client(), id) }
		until := func(do func() error) error { // until it is known what became of it
			for {
				err := do()
				if !errors.Is(err, shards.ErrBusy) && !errors.Is(err, shards.ErrUnknown) {
					if done.Add(1); err != nil {
						refused.Add(1)
					}
					return err
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		joined, mine := false, map[place]int64{}
		for i := range 60 {
			time.Sleep(chance.Below(r, 20*time.Millisecond))
			key := named(fmt.Sprint(n, "-", i))
			id := ids[r.IntN(len(ids))]
			comesBack := id > "b" // so that it is at 0 now and then
			add := func(key shards.Key, list ...shards.Increment) {
				err := until(func() error {
					_, err := client().AddAll(t.Context(), list, key)
					return err
				})
				switch {
				case err == nil:
					for _, i := range list {
						counts[place{i.Counter, i.Field}].Add(i.By)
						mine[place{i.Counter, i.Field}] += i.By
					}
				case !errors.Is(err, shards.ErrLimit):
					t.Errorf("add: %v", err)
				}
			}
			field := []string{"likes", "seats"}[r.IntN(2)]
			switch r.IntN(8) {
			case 0:
				add(key, shards.Increment{Counter: id, Field: "likes", By: 1}, shards.Increment{Counter: id, Field: "seats", By: 1})
				if back := mine[place{id, "seats"}]; comesBack && back > 0 {
					time.Sleep(chance.Below(r, 20*time.Millisecond))
					add(named(key.Value+" back"), shards.Increment{Counter: id, Field: "likes", By: -back}, shards.Increment{Counter: id, Field: "seats", By: -back})
				}
			case 1:
				add(key, shards.Increment{Counter: "a", Field: "seats", By: 2}, shards.Increment{Counter: "b", Field: "seats", By: 1}, shards.Increment{Counter: "b", Field: "likes", By: -1})
			case 2:
				if back := mine[place{id, "seats"}]; back > 0 && !comesBack {
					add(key, shards.Increment{Counter: id, Field: "seats", By: -back}, shards.Increment{Counter: id, Field: "likes", By: 3})
					if mine[place{id, "seats"}] > 0 {
						t.Errorf("%d of %s are not taken back", back, id)
					}
				}
			case 3, 4:
				by, used := 1+r.Int64N(4), r.Int64N(6)
				if comesBack {
					used = 0
				}
				err := until(func() error {
					_, _, err := counter(id).Reserve(t.Context(), field, by, time.Hour, key)
					return err
				})
				if errors.Is(err, shards.ErrLimit) {
					continue
				} else if err != nil {
					t.Errorf("reserve: %v", err)
				}
				time.Sleep(chance.Below(r, 50*time.Millisecond))
				if r.IntN(3) > 0 {
					err = until(func() error {
						_, err := counter(id).Settle(t.Context(), field, used, key)
						return err
					})
					if err == nil {
						counts[place{id, field}].Add(used)
						mine[place{id, field}] += used
						continue
					} else if !errors.Is(err, shards.ErrLimit) {
						t.Errorf("settle: %v", err)
					}
				}
				err = until(func() error {
					_, err := counter(id).GiveBack(t.Context(), field, key)
					return err
				})
				if err != nil {
					t.Errorf("give back: %v", err)
				}
			case 5:
				err := until(func() (err error) {
					if joined {
						_, err = counter("a").Leave(t.Context(), "seats", fmt.Sprint(n))
					} else {
						_, err = counter("a").Join(t.Context(), "seats", fmt.Sprint(n))
					}
					return err
				})
				if err == nil {
					counts[place{"a", "seats"}].Add(map[bool]int64{true: -1, false: 1}[joined])
					joined = !joined
				} else if !errors.Is(err, shards.ErrLimit) {
					t.Errorf("member: %v", err)
				}
			case 6: // counters at 0 go, and come again
				gone, err := client().RemoveIdle(t.Context(), id, time.Now(), true)
				if gone {
					removed.Add(1)
				}
				if err != nil && !errors.Is(err, shards.ErrBusy) && !errors.Is(err, shards.ErrUnknown) {
					t.Errorf("remove: %v", err)
				}
			case 7:
				var err error
				if n == 0 {
					err = counter(id).Resize(t.Context(), 1+r.IntN(5), shards.ResizeOptions{})
				} else {
					err = counter(ids[r.IntN(2)]).SetLimit(t.Context(), "seats", 8+r.Int64N(10))
				}
				if err != nil && !errors.Is(err, shards.ErrLimit) && !errors.Is(err, shards.ErrNotFound) && !errors.Is(err, shards.ErrBusy) && !errors.Is(err, shards.ErrUnknown) {
					t.Errorf("command: %v", err)
				}
			}
		}
	}
	var group sync.WaitGroup
	for n := range 6 {
		group.Go(func() { worker(n) })
	}
	group.Wait()
	late.Wait()
	w.Server.SetInterceptor(nil)
	for _, id := range ids {
		w.reconcile(t, rollup.Config{Place: cfg.Place}, id, rollup.ReconcileOptions{})
		s, err := handle(t, w.open(t, cfg), id).Get(t.Context())
		if errors.Is(err, shards.ErrNotFound) { // it was removed
			s.Totals, err = map[string]int64{}, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"likes", "seats"} {
			if want := counts[place{id, field}].Load(); s.Totals[field] != want {
				t.Errorf("%s of %s: %d, want %d", field, id, s.Totals[field], want)
			}
		}
		docs, err := w.fs.Collection("counters/" + id + "/shards").Documents(t.Context()).GetAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs {
			if held, _ := doc.Data()["held(seats)"].(int64); held != 0 {
				t.Errorf("%s of %s: %v", doc.Ref.ID, id, doc.Data())
			}
		}
	}
	t.Logf("%d calls, %d refused, %d removed", done.Load(), refused.Load(), removed.Load())
}
