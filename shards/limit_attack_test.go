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

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/chance"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// A process that knows many shards, all of which have changed since, isn't refused.
func TestAllKnownSharesAreOld(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, withLimit)
		stale := w.counter(t, client, "a", 40)
		setter := handle(t, w.open(t, withLimit), "a")
		limit(t, setter, 40)
		if _, err := client.AddAll(t.Context(), []shards.Increment{{Counter: "a", By: 1}, {Counter: "a", By: -1}}, shards.Key{}); err != nil { // knows all
			t.Fatal(err)
		}
		limit(t, setter, 2*40) // changes each shard
		var commits atomic.Int64
		w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
			commits.Add(1)
			return emulator.Verdict{}
		})
		err := stale.Add(t.Context(), 1)
		if n := commits.Load(); err != nil || n > 8 {
			t.Errorf("%v after %d commits", err, n)
		}
	})
}

// A counter's id may be that of another one with the name of a field behind it: what it counts shares no commit with what
// that field takes.
func TestAnIDThatNamesALimit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Fields: "likes,seats=limit(1)"}})
		concert, odd := w.counter(t, client, "concert", 2), w.counter(t, client, "concert\x00seats", 2)
		take := func() error {
			_, err := concert.AddFields(t.Context(), map[string]int64{"seats": 1}, shards.Key{})
			return err
		}
		if err := errors.Join(take(), odd.Add(t.Context(), 1)); err != nil { // both counters are known, and one is sold out
			t.Fatal(err)
		}
		var group sync.WaitGroup
		w.Before(func() {
			group.Go(func() {
				if err := odd.Add(t.Context(), 1); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			group.Go(func() {
				if err := take(); !errors.Is(err, shards.ErrLimit) {
					t.Errorf("%v, want that it is sold out", err)
				}
			})
			synctest.Wait()
		})
		if err := odd.Add(t.Context(), 1); err != nil {
			t.Error(err)
		}
		group.Wait()
		for shard := range w.counts(t, "concert") {
			if n := w.Data("counters/concert/shards/" + shard)["seats"]; n != nil && !strings.HasPrefix(shard, "seats~") {
				t.Errorf("shard %s counts %v seats", shard, n)
			}
		}
	})
}

// takers has 40 callers of two processes take of the counter's total, fifty commits a second each, until stop is called.
func (w *world) takers(t *testing.T, cfg shards.Config) (stop func()) {
	var crowd sync.WaitGroup
	over := make(chan struct{})
	for range 2 {
		c := handle(t, w.open(t, cfg, slowly(20*time.Millisecond)...), "a")
		for i := range 20 {
			crowd.Go(func() {
				for wait := time.Duration(i) * time.Millisecond; ; wait = time.Millisecond {
					select {
					case <-over:
						return
					case <-time.After(wait):
					}
					if err := c.Add(t.Context(), 1); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	time.Sleep(time.Second)
	return func() { close(over); crowd.Wait() }
}

// A limit is lowered, and seats whose time is over are given back, while a crowd takes: each commit of the crowd changes
// a shard that these are on condition of.
func TestManyShardsChangeBesideACrowd(t *testing.T) {
	cfg := shards.Config{Place: shards.Place{Fields: "total=limit(100000),likes=limit()"}, NumShards: 25}
	virtual.Run(t, "a lower limit", func(t *testing.T) {
		w := newWorld(t)
		w.counter(t, w.open(t, cfg), "a", 25)
		checked := w.checkTwoLimits(t)
		stop := w.takers(t, cfg)
		if err := handle(t, w.open(t, cfg, slowly(30*time.Millisecond)...), "a").SetLimit(t.Context(), "total", 50_000); err != nil {
			t.Error(err)
		}
		stop()
		if share, _ := w.shares(t, "a"); share != 50_000 || checked.Load() < 50 {
			t.Errorf("the limit is %d, after %d commits; want 50000", share, checked.Load())
		}
	})
	virtual.Run(t, "holds that are over", func(t *testing.T) {
		w := newWorld(t)
		w.checkTwoLimits(t)
		c := w.counter(t, w.open(t, cfg), "a", 25)
		for i := range 100 {
			if _, _, err := c.Hold(t.Context(), "total", fmt.Sprint("m", i), time.Second); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		stop := w.takers(t, cfg)
		if counted, err := handle(t, w.open(t, cfg, slowly(30*time.Millisecond)...), "a").Join(t.Context(), "total", "m0"); err != nil || !counted {
			t.Errorf("who had a seat joins: %v, %v", counted, err)
		}
		stop()
		for m, err := range c.Members(t.Context(), "total") {
			if err != nil || m.Member != "m0" {
				t.Errorf("%+v, %v; want that all but m0 have left", m, err)
			}
		}
	})
}

// What something else has written over the count of a shard stays there, and is named, while others change shards so
// often that the end of a hold renews them: of nothing is room made.
func TestARenewalLeavesWhatIsNoCount(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, withLimit), "a", 2)
		limit(t, c, 20)
		if err := c.Add(t.Context(), 20); err != nil {
			t.Fatal(err)
		}
		if err := c.Add(t.Context(), -2); err != nil {
			t.Fatal(err)
		}
		heldBriefly(t, c, "u")
		odd, hers := "counters/a/shards/total~0", "counters/a/shards/total~1"
		if w.Data(odd)["members(total)"] != int64(0) {
			odd, hers = hers, odd
		}
		w.Merge(odd, map[string]any{"total": "ten"})
		n := 0
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			if isEnd(req) && n < 5 {
				n++
				w.Merge(hers, map[string]any{"changed": n})
			}
			return emulator.Verdict{}
		})
		if _, err := c.Join(t.Context(), "total", "u"); err != nil {
			t.Error(err)
		}
		if is := w.Data(odd)["total"]; is != "ten" {
			t.Errorf("the shard counts %v after %d changes", is, n)
		}
	})
}

// A caller goes away while its commit is on its way, and asks again: there is no room. From then on the first call takes
// nothing, though there is room again when its commit has failed.
func TestWhoIsRefusedIsNotCountedByAnEarlierCall(t *testing.T) {
	t.Parallel()
	cfg := shards.Config{Place: shards.Place{Fields: "total=limit(1),likes"}}
	for name, ask := range map[string]func(ctx context.Context, c shards.Counter) error{
		"key":    func(ctx context.Context, c shards.Counter) error { return lastOf(c.AddOnce(ctx, 1, named("k"))) },
		"member": func(ctx context.Context, c shards.Counter) error { return lastOf(c.Join(ctx, "total", "u")) },
		"hold": func(ctx context.Context, c shards.Counter) error {
			return second(c.Reserve(ctx, "total", 1, time.Hour, named("k")))
		},
		"fields": func(ctx context.Context, c shards.Counter) error {
			return lastOf(c.AddFields(ctx, map[string]int64{"total": 1, "likes": 1}, named("k")))
		},
	} {
		for _, same := range []bool{true, false} {
			if same && name != "fields" {
				continue // the second call waits for the end of the first one's commit
			}
			virtual.Run(t, fmt.Sprintf("%s, same process %t", name, same), func(t *testing.T) {
				w := newWorld(t)
				other, first := w.counter(t, w.open(t, cfg), "a", 1), handle(t, w.open(t, cfg), "a")
				again := map[bool]shards.Counter{true: first, false: handle(t, w.open(t, cfg), "a")}[same]
				if err := errors.Join(first.Add(t.Context(), 1), first.Add(t.Context(), -1)); err != nil { // it knows the shard
					t.Fatal(err)
				}
				ctx, goAway := context.WithCancel(t.Context())
				w.Before(func() {
					if err := other.Add(t.Context(), 1); err != nil {
						t.Error(err)
					}
					goAway()
					synctest.Wait()
					if err := ask(t.Context(), again); !errors.Is(err, shards.ErrLimit) {
						t.Errorf("asked again: %v, want ErrLimit", err)
					}
					if err := other.Add(t.Context(), -1); err != nil {
						t.Error(err)
					}
				})
				if err := ask(ctx, first); !errors.Is(err, shards.ErrUnknown) {
					t.Errorf("%v, want ErrUnknown", err)
				}
				time.Sleep(time.Minute)
				w.wantSum(t, "a", 0)
			})
		}
	}
}

// Who sends another amount with the same key meanwhile waits for nothing that a caller who has gone away still takes.
func TestWhoIsRefusedIsNotCountedForAnotherAmount(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := shards.Config{Place: shards.Place{Fields: "total=limit(1)"}}
		other, first, again := w.counter(t, w.open(t, cfg), "a", 1), handle(t, w.open(t, cfg), "a"), handle(t, w.open(t, cfg), "a")
		if err := first.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		ctx, goAway := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		w.Before(func() { // two calls wait for the next commit
			calls.Go(func() {
				if err := lastOf(first.AddOnce(ctx, 1, named("k"))); !errors.Is(err, shards.ErrUnknown) {
					t.Errorf("%v, want ErrUnknown", err)
				}
			})
			synctest.Wait()
			calls.Go(func() {
				if err := lastOf(first.AddOnce(t.Context(), 2, named("k"))); !errors.Is(err, shards.ErrBusy) {
					t.Errorf("another amount: %v, want ErrBusy", err)
				}
			})
			synctest.Wait()
			w.Before(func() {
				if err := other.Add(t.Context(), 1); err != nil {
					t.Error(err)
				}
				goAway()
				synctest.Wait()
				if err := lastOf(again.AddOnce(t.Context(), 1, named("k"))); !errors.Is(err, shards.ErrLimit) {
					t.Errorf("asked again: %v, want ErrLimit", err)
				}
				if err := other.Add(t.Context(), -1); err != nil {
					t.Error(err)
				}
			})
		})
		if err := first.Add(t.Context(), -1); err != nil {
			t.Fatal(err)
		}
		calls.Wait()
		time.Sleep(time.Minute)
		w.wantSum(t, "a", 0)
	})
}

// lastOf is a call's error.
func lastOf(_ bool, err error) error { return err }

// checkTwoLimits checks after each commit that shards of count and likes hold nothing else, that none counts more than
// its share, or less than its members, and that what members took is as many as there are. It counts the commits.
func (w *world) checkTwoLimits(t *testing.T) (checked *atomic.Int64) {
	checked = new(atomic.Int64)
	now := map[string]map[string]*firestorepb.Value{} // :: shard or membership → its fields
	w.Server.OnCommit(func(changes []emulator.Change) {
		for _, c := range changes {
			_, name, below := strings.Cut(c.Name, "/counters/a/")
			switch {
			case !below || strings.HasPrefix(name, "counter_rollup/"):
			case c.New == nil:
				delete(now, name)
			default:
				now[name] = c.New.GetFields()
			}
		}
		checked.Add(1)
		for field, members := range map[string]string{"total": "total_members/", "likes": "likes_members/"} {
			joined, has, there := int64(0), false, int64(0)
			for name, values := range now {
				if strings.HasPrefix(name, members) {
					there++
				}
				id, shard := strings.CutPrefix(name, "shards/")
				if !shard {
					continue
				}
				share, is := values["share("+field+")"]
				if has = has || is; is != strings.HasPrefix(id, field+"~") || values[field] != nil && !is {
					t.Errorf("shard %s holds %v", id, values)
				}
				if !is {
					continue
				}
				of, count := values["members("+field+")"].GetIntegerValue(), values[field].GetIntegerValue()
				joined += of
				if of < 0 || count < of || count > share.GetIntegerValue() {
					t.Errorf("%s holds %v", name, values)
				}
			}
			if has && joined != there {
				t.Errorf("%d took %s as members, and there are %d", joined, field, there)
			}
		}
	})
	return checked
}

// Two fields get other limits while many processes count in both, and members join and leave, with faults. After each
// commit no shard counts more than its share; and what members took is as many as there are.
func TestLimitsOfTwoFieldsChaos(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		const fields = "total=limit(),likes=limit(9)"
		w := newWorld(t)
		setter := w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: fields}}), "a", 3)
		limit(t, setter, 10)

		checked := w.checkTwoLimits(t)
		w.Server.SetFaults(emulator.Faults{Abort: 0.05, Unavailable: 0.05, LoseAnswers: 0.05, Seed: chance.Seed(t)})

		var group sync.WaitGroup
		var counted [2]atomic.Int64
		bad := func(err error) bool {
			return err != nil && !errors.Is(err, shards.ErrLimit) && !errors.Is(err, shards.ErrBusy)
		}
		names := []string{"total", "likes"}
		for process := range 3 {
			c := handle(t, w.open(t, shards.Config{Place: shards.Place{Fields: fields}}), "a")
			for caller := range 6 {
				group.Go(func() {
					for range 10 {
						by, field := int64(1+w.rand.IntN(3)), w.rand.IntN(2)
						var err error
						switch w.rand.IntN(5) {
						case 0:
							_, err = c.Join(t.Context(), names[field], fmt.Sprint(process, caller))
						case 1:
							_, err = c.Leave(t.Context(), names[field], fmt.Sprint(process, caller))
						case 2:
							if _, err = c.AddFields(t.Context(), map[string]int64{"total": by, "likes": -by}, shards.Key{}); err == nil {
								counted[0].Add(by)
								counted[1].Add(-by)
							}
						default:
							if w.rand.IntN(3) == 0 {
								by = -by
							}
							if _, err = c.AddFields(t.Context(), map[string]int64{names[field]: by}, shards.Key{}); err == nil {
								counted[field].Add(by)
							}
						}
						if bad(err) {
							t.Error(err)
						}
					}
				})
			}
		}
		group.Go(func() {
			for range 20 {
				err := setter.SetLimit(t.Context(), names[w.rand.IntN(2)], 5+w.rand.Int64N(20))
				if bad(err) && !errors.Is(err, shards.ErrInvalidLimit) { // less than the members
					t.Error(err)
				}
				time.Sleep(3 * time.Millisecond)
			}
		})
		roller, err := rollup.Open(t.Context(), rollup.Config{Place: rollup.Place{Project: "p", Fields: fields}}, option.WithGRPCConn(w.Conn()))
		if err != nil {
			t.Fatal(err)
		}
		defer roller.Close()
		group.Go(func() {
			for range 15 { // and finds nothing wrong with any share
				r, err := roller.Reconcile(t.Context(), "a", rollup.ReconcileOptions{})
				if err != nil && !errors.Is(err, rollup.ErrContention) || r.Problem != "" {
					t.Errorf("%+v, %v", r, err)
				}
			}
		})
		group.Wait()
		w.Server.SetFaults(emulator.Faults{})
		for i, name := range names {
			audits, err := setter.Audit(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if audits[i].Otherwise != counted[i].Load() {
				t.Errorf("%s: %+v, want %d beside the members", name, audits[i], counted[i].Load())
			}
		}
		if err := w.Server.WaitForChanges(t.Context()); err != nil { // each is checked before the test ends
			t.Error(err)
		}
		t.Logf("%d commits", checked.Load())
	})
}

// The shards of one field with a limit aren't taken for those of another whose name begins alike.
func TestNamesOfLimitsThatBeginAlike(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Fields: "seats=limit(3),seats~x=limit(100)"}})
		c := w.counter(t, client, "a", 1)
		if _, err := c.AddFields(t.Context(), map[string]int64{"seats": 1, "seats~x": 1}, shards.Key{}); err != nil {
			t.Fatal(err)
		}
		taken := int64(1)
		for range 10 {
			_, err := c.AddFields(t.Context(), map[string]int64{"seats": 1}, shards.Key{})
			if err == nil {
				taken++
			} else if !errors.Is(err, shards.ErrLimit) {
				t.Fatal(err)
			}
		}
		if taken != 3 {
			t.Errorf("%d seats are taken, of 3", taken)
		}
	})
}

// A share that something else has broken refuses nothing that other shards have room for.
func TestBrokenShareRefusesNothingElse(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		cfg := shards.Config{Place: shards.Place{Fields: "seats=limit(10)"}}
		c := w.counter(t, w.open(t, cfg), "a", 2)
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := c.Add(t.Context(), -1); err != nil {
			t.Fatal(err)
		}
		w.Put("counters/a/shards/seats~0", map[string]any{"seats": 0, "members(seats)": 0, "held(seats)": 0, "share(seats)": 5.5})
		c2 := handle(t, w.open(t, cfg), "a")
		if err := c2.Add(t.Context(), 1); err != nil {
			t.Error(err)
		}
	})
}
