package shards_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// A process that dies after its commit leaves the marker of the key: whoever repeats the
// request finds it.
func TestCrashAfterCommit(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.open(t, shards.Config{Timeout: 5 * time.Second})
		counter := w.counter(t, first, "a", 2)
		key := shards.Key{Caller: "user:1", Value: "order-17"}
		ctx, cancel := context.WithCancel(t.Context())
		w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
			if ctx.Err() == nil {
				cancel() // the caller never hears of it
				return emulator.Verdict{After: unavailable}
			}
			return emulator.Verdict{Before: unavailable}
		})
		if _, err := counter.AddOnce(ctx, 5, key); !errors.Is(err, shards.ErrUnknown) {
			t.Errorf("without an answer: %v, want ErrUnknown", err)
		}
		w.Server.SetInterceptor(nil)
		again := handle(t, w.open(t, shards.Config{}), "a")
		replayed, err := again.AddOnce(t.Context(), 5, key)
		if err != nil || !replayed {
			t.Errorf("again: replayed %v, %v; want a replay", replayed, err)
		}
		w.wantSum(t, "a", 5)
	})
}

// A call for several counters whose answer was lost is asked for again after one of them was set back,
// or deleted and made again: it counts as often as it did not before, and its first commit, however
// late, never.
func TestAKeyOutlivesACounter(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{true, false} {
		for name, between := range map[string]func(context.Context, shards.Counter) error{
			"reset": func(ctx context.Context, c shards.Counter) error { return c.Reset(ctx, shards.ResetOptions{}) },
			"made again": func(ctx context.Context, c shards.Counter) error {
				return errors.Join(c.Delete(ctx, shards.DeleteOptions{}), c.Create(ctx, shards.CreateOptions{Shards: 3}))
			},
		} {
			virtual.Run(t, fmt.Sprintf("%s, applied %t", name, applied), func(t *testing.T) {
				w := newWorld(t)
				other, client := w.open(t, shards.Config{}), w.open(t, shards.Config{Timeout: time.Second})
				a := w.counter(t, other, "a", 3)
				w.counter(t, other, "b", 3)
				var first atomic.Pointer[firestorepb.CommitRequest]
				w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
					if addsToShard(req) && first.CompareAndSwap(nil, req) && applied {
						return emulator.Verdict{After: unavailable}
					}
					return emulator.Verdict{Before: unavailable}
				})
				both, key := []shards.Increment{{Counter: "a", By: 5}, {Counter: "b", By: 7}}, shards.Key{Value: "k"}
				if _, err := client.AddAll(t.Context(), both, key); !errors.Is(err, shards.ErrUnknown) {
					t.Fatalf("without an answer: %v, want ErrUnknown", err)
				}
				w.Server.SetInterceptor(nil)
				if err := between(t.Context(), a); err != nil {
					t.Fatal(err)
				}
				for again := range 2 {
					if replayed, err := client.AddAll(t.Context(), both, key); err != nil || replayed != (applied || again > 0) {
						t.Errorf("again: replayed %v, %v", replayed, err)
					}
					if _, err := firestorepb.NewFirestoreClient(w.Conn()).Commit(t.Context(), first.Load()); err == nil {
						t.Error("the first commit was applied late")
					}
				}
				if !applied {
					w.wantSum(t, "a", 5)
				} else {
					w.wantSum(t, "a", 0) // what was counted went with the rest
				}
				w.wantSum(t, "b", 7)
			})
		}
	}
}

func TestKeys(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{InexactWrites: true}) // keys have their markers all the same
		a, b := w.counter(t, client, "a", 2), w.counter(t, client, "b", 2)
		key := shards.Key{Caller: "alice", Value: "k"}
		once := func(c shards.Counter, by int64, key shards.Key, wantReplay bool, want error) {
			t.Helper()
			replayed, err := c.AddOnce(t.Context(), by, key)
			if replayed != wantReplay || !errors.Is(err, want) {
				t.Errorf("replayed %v, %v; want %v, %v", replayed, err, wantReplay, want)
			}
		}
		once(a, 1, key, false, nil)
		once(a, 1, key, true, nil)
		once(a, 2, key, false, shards.ErrKeyReused)
		once(a, 10, shards.Key{Caller: "bob", Value: "k"}, false, nil)
		once(b, 1, key, false, nil)
		w.wantSum(t, "a", 11)
		w.wantSum(t, "b", 1)

		all := func(wantReplay bool, want error, increments ...shards.Increment) {
			t.Helper()
			replayed, err := client.AddAll(t.Context(), increments, key)
			if replayed != wantReplay || !errors.Is(err, want) {
				t.Errorf("replayed %v, %v; want %v, %v", replayed, err, wantReplay, want)
			}
		}
		all(false, nil, shards.Increment{Counter: "a", By: 1}, shards.Increment{Counter: "b", By: 1})
		all(true, nil, shards.Increment{Counter: "b", By: 1}, shards.Increment{Counter: "a", By: 1})
		all(true, nil, shards.Increment{Counter: "b", By: 1}) // the one of before: a key is of what it names
		all(false, shards.ErrKeyReused, shards.Increment{Counter: "b", By: 2}, shards.Increment{Counter: "a", By: 1})
		all(false, shards.ErrKeyReused, shards.Increment{Counter: "b", By: 2})
		w.wantSum(t, "a", 12)
		w.wantSum(t, "b", 2)
	})
}

// Replays, keys used twice, unknown counters and increments without a key share batches; each gets
// its own outcome.
func TestMixedBatch(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{})
		counter := w.counter(t, client, "a", 4)
		w.counter(t, client, "b", 4)
		if _, err := counter.AddOnce(t.Context(), 1000, shards.Key{Value: "old"}); err != nil {
			t.Fatal(err)
		}
		// a batch gives up when eight attempts are aborted: not here
		w.Server.SetFaults(emulator.Faults{CommitLatency: 5 * time.Millisecond, LoseAnswers: 0.2, Abort: 0.1, Seed: 1})
		var group sync.WaitGroup
		var counted atomic.Int64
		for i := range 40 {
			group.Go(func() {
				if err := counter.Add(t.Context(), 1); err != nil {
					t.Errorf("no key: %v", err)
				}
			})
			group.Go(func() {
				replayed, err := counter.AddOnce(t.Context(), 1, shards.Key{Value: fmt.Sprint(i / 2)})
				if err != nil {
					t.Errorf("key: %v", err)
				}
				if !replayed {
					counted.Add(1)
				}
			})
			group.Go(func() {
				if replayed, err := counter.AddOnce(t.Context(), 1000, shards.Key{Value: "old"}); err != nil || !replayed {
					t.Errorf("replay: %v, %v", replayed, err)
				}
			})
			group.Go(func() {
				if _, err := counter.AddOnce(t.Context(), 7, shards.Key{Value: "old"}); !errors.Is(err, shards.ErrKeyReused) {
					t.Errorf("other increment: %v, want ErrKeyReused", err)
				}
			})
			group.Go(func() {
				increments := []shards.Increment{{Counter: "a", By: 1}, {Counter: "b", By: 1}}
				if i%4 == 0 {
					increments = append(increments, shards.Increment{Counter: "gone", By: 1})
				}
				_, err := client.AddAll(t.Context(), increments, shards.Key{})
				if i%4 == 0 != errors.Is(err, shards.ErrNotFound) || i%4 != 0 && err != nil {
					t.Errorf("several, %d: %v", i, err)
				}
			})
		}
		group.Wait()
		w.Server.SetFaults(emulator.Faults{})
		if counted.Load() != 20 {
			t.Errorf("%d calls were first under their key, want 20", counted.Load())
		}
		w.wantSum(t, "a", 1000+40+20+30)
		w.wantSum(t, "b", 30)
	})
}

// Two processes, every fault, callers that repeat what failed: exact.
func TestExactUnderFaults(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		clients := []*shards.Client{w.open(t, shards.Config{}), w.open(t, shards.Config{})}
		w.counter(t, clients[0], "a", 4)
		w.Server.SetFaults(emulator.Faults{Abort: 0.2, Unavailable: 0.2, LoseAnswers: 0.2, CommitLatency: time.Millisecond, Seed: 7})
		var group sync.WaitGroup
		for caller := range 20 {
			group.Go(func() {
				for n := range 25 {
					key := shards.Key{Caller: fmt.Sprint(caller), Value: fmt.Sprint(n)}
					for try := 0; ; try++ {
						_, err := handle(t, clients[(caller+try)%2], "a").AddOnce(t.Context(), 1, key)
						if err == nil {
							break
						}
						if try == 10 {
							t.Error(err)
							break
						}
					}
				}
			})
		}
		group.Wait()
		w.Server.SetFaults(emulator.Faults{})
		w.wantSum(t, "a", 500)
	})
}

// Deployments in one database share its markers: what is asked of one is no replay of another,
// wherever their counters differ.
func TestKeysOfTwoDeployments(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, deployment := range []struct{ counters, shards string }{
			{"likes/{counter}", ""},
			{"views/{counter}", ""},
			{"views/{counter}", "view_shards"},
			{"teams/{team}", ""},
			{"teams/{team}/posts/{post}", ""},
			{"teams/{team}/pages/{page}", ""},
			{"groups/{team}/pages/{page}", ""},
		} {
			id := "a"
			if strings.Count(deployment.counters, "{") == 2 {
				id = "red/a"
			}
			client := w.open(t, shards.Config{Place: shards.Place{Counters: deployment.counters, Shards: deployment.shards}, AutoCreate: true, NumShards: 1})
			key := shards.Key{Caller: "alice", Value: "k"}
			for n := range 2 {
				again := n == 1
				replayed, err := handle(t, client, id).AddOnce(t.Context(), 1, key)
				if deployment.shards != "" { // the document is another's
					wantOthers(t, "an increment", err, "SHARDS=shards")
					continue
				}
				if err != nil || replayed != again {
					t.Errorf("%v, one: replayed %v, %v; want %v", deployment, replayed, err, again)
				}
				if replayed, err := client.AddAll(t.Context(), []shards.Increment{{Counter: id, By: 1}}, shards.Key{Value: "several"}); err != nil || replayed != again {
					t.Errorf("%v, several: replayed %v, %v; want %v", deployment, replayed, err, again)
				}
				// The names of wildcards say nothing of where counters are.
				renamed := strings.NewReplacer("{counter}", "{c}", "{team}", "{t}", "{page}", "{p}").Replace(deployment.counters)
				client = w.open(t, shards.Config{Place: shards.Place{Counters: renamed, Shards: deployment.shards}})
			}
			got, err := handle(t, client, id).Sum(t.Context())
			if deployment.shards != "" { // what it would read, and delete, is in part the other's
				wantOthers(t, "a sum", err, "SHARDS=shards")
				wantOthers(t, "a deletion", handle(t, client, id).Delete(t.Context(), shards.DeleteOptions{}), "SHARDS=shards")
				if _, err := w.fs.Doc("views/a/counter_rollup/base").Get(t.Context()); err != nil {
					t.Error(err)
				}
			} else if err != nil || got.Total != 2 {
				t.Errorf("%v: %+v, %v; want 2", deployment, got, err)
			}
		}
	})
}

// A request is the same after a change of FIELDS, as long as it adds to the same fields: one that names none adds to
// the first. One that is written otherwise is another.
func TestKeysAfterAChangeOfFields(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		open := func(fields string) *shards.Client {
			return w.open(t, shards.Config{Place: shards.Place{Fields: fields}, NumShards: 1})
		}
		before := open("likes")
		counter := w.counter(t, before, "a", 1)
		if _, err := counter.AddOnce(t.Context(), 1, shards.Key{Value: "unnamed"}); err != nil {
			t.Fatal(err)
		}
		if _, err := counter.AddFields(t.Context(), map[string]int64{"likes": 1}, shards.Key{Value: "named"}); err != nil {
			t.Fatal(err)
		}
		all := []shards.Increment{{Counter: "a", By: 1}, {Counter: "a", Field: "likes", By: 1}}
		if _, err := before.AddAll(t.Context(), all, shards.Key{Value: "several"}); err != nil {
			t.Fatal(err)
		}
		for _, fields := range []string{"likes", "likes,views", "views,likes", "hearts=likes"} {
			client := open(fields)
			counter, name := handle(t, client, "a"), "likes"
			if fields == "hearts=likes" { // the number is called otherwise now, and a page of before still says likes
				name = "hearts"
			}
			if _, err := counter.AddFields(t.Context(), map[string]int64{name: 2}, shards.Key{Value: "named"}); !errors.Is(err, shards.ErrKeyReused) {
				t.Errorf("%s: another number: %v", fields, err)
			}
			if name != "likes" {
				continue
			}
			if replayed, err := counter.AddFields(t.Context(), map[string]int64{"likes": 1}, shards.Key{Value: "named"}); err != nil || !replayed {
				t.Errorf("%s: likes: replayed %v, %v", fields, replayed, err)
			}
			if _, err := counter.AddFields(t.Context(), map[string]int64{"likes": 1}, shards.Key{Value: "unnamed"}); !errors.Is(err, shards.ErrKeyReused) {
				t.Errorf("%s: likes under the key of a request that named no field: %v", fields, err)
			}
			if fields == "views,likes" { // no field is another one now
				continue
			}
			if replayed, err := counter.AddOnce(t.Context(), 1, shards.Key{Value: "unnamed"}); err != nil || !replayed {
				t.Errorf("%s: no field named: replayed %v, %v", fields, replayed, err)
			}
			if replayed, err := client.AddAll(t.Context(), []shards.Increment{all[1], all[0]}, shards.Key{Value: "several"}); err != nil || !replayed {
				t.Errorf("%s: several: replayed %v, %v", fields, replayed, err)
			}
			if _, err := counter.AddOnce(t.Context(), 2, shards.Key{Value: "unnamed"}); !errors.Is(err, shards.ErrKeyReused) {
				t.Errorf("%s: another number: %v", fields, err)
			}
		}
		after := handle(t, open("views,likes"), "a")
		if got, err := after.Sum(t.Context()); err != nil || got.Totals["likes"] != 4 || got.Totals["views"] != 0 {
			t.Errorf("%+v, %v; want 4 likes", got, err)
		}
	})
}

// A key belongs to the counters and fields that a call adds to, however the call is made: for others it is another
// key. "plays" and "wins" of one counter once shared "game-17", and the second was refused.
func TestAKeyIsOfWhatItNames(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{Place: shards.Place{Fields: "plays,wins"}, NumShards: 2})
		for _, id := range []string{"a", "b"} {
			w.counter(t, client, id, 2)
		}
		type to = []shards.Increment
		key := shards.Key{Value: "game-17"}
		for _, call := range []struct {
			what       string
			increments to
			replayed   bool
			err        error
		}{
			{"plays", to{{Counter: "a", Field: "plays", By: 1}}, false, nil},
			{"plays again", to{{Counter: "a", Field: "plays", By: 1}}, true, nil},
			{"plays, more", to{{Counter: "a", Field: "plays", By: 2}}, false, shards.ErrKeyReused},
			{"plays, unnamed", to{{Counter: "a", By: 1}}, false, shards.ErrKeyReused},
			{"wins", to{{Counter: "a", Field: "wins", By: 1}}, false, nil},
			{"both", to{{Counter: "a", Field: "plays", By: 1}, {Counter: "a", Field: "wins", By: 1}}, false, nil},
			{"both, in another order", to{{Counter: "a", Field: "wins", By: 1}, {Counter: "a", Field: "plays", By: 1}}, true, nil},
			{"both, otherwise", to{{Counter: "a", Field: "wins", By: 2}, {Counter: "a", Field: "plays", By: 1}}, false, shards.ErrKeyReused},
			{"of another counter", to{{Counter: "b", Field: "wins", By: 1}}, false, nil},
			{"of two", to{{Counter: "a", Field: "plays", By: 1}, {Counter: "b", Field: "wins", By: 1}}, false, nil},
			{"of two, crossed", to{{Counter: "a", Field: "wins", By: 1}, {Counter: "b", Field: "plays", By: 1}}, false, nil},
		} {
			if replayed, _, err := client.Apply(t.Context(), call.increments, key); replayed != call.replayed || !errors.Is(err, call.err) {
				t.Errorf("%s: replayed %v, %v; want %v, %v", call.what, replayed, err, call.replayed, call.err)
			}
		}
		for id, want := range map[string]map[string]int64{"a": {"plays": 3, "wins": 3}, "b": {"plays": 1, "wins": 2}} {
			if s, err := handle(t, client, id).Sum(t.Context()); err != nil || !maps.Equal(s.Totals, want) {
				t.Errorf("%s: %v, %v; want %v", id, s.Totals, err, want)
			}
		}
	})
}

// Every increment says when it was committed, also one whose answer was lost, and a replay says it of the one that
// counted: a sum as of before then lacks it, and one as of then holds it.
func TestCallsSayWhenTheyWereCommitted(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		client := w.open(t, shards.Config{NumShards: 2, AutoCreate: true})
		key := shards.Key{Value: "k"}
		add := func(what string, key shards.Key) time.Time {
			t.Helper()
			before := w.now(t, client)
			replayed, at, err := client.Apply(t.Context(), []shards.Increment{{Counter: "a", By: 1}}, key)
			if err != nil || !at.After(before) && !replayed {
				t.Fatalf("%s: %v, %v; a sum before it was as of %v", what, at, err, before)
			}
			if after := w.now(t, client); after.Before(at) {
				t.Errorf("%s: committed at %v, and a sum after it is as of %v", what, at, after)
			}
			return at
		}
		add("one that makes its counter", shards.Key{})
		first := add("one with a key", key)
		if again := add("a replay", key); !again.Equal(first) {
			t.Errorf("a replay was committed at %v; want %v", again, first)
		}
		w.Server.SetFaults(emulator.Faults{LoseAnswers: 0.5, Seed: 3})
		for range 10 {
			add("one whose answer may be lost", shards.Key{})
		}
		w.Server.SetFaults(emulator.Faults{})

		c := handle(t, client, "a")
		for _, step := range []struct {
			join    bool
			counted bool
		}{{true, true}, {true, false}, {false, true}, {false, false}} {
			counted, _, at, err := c.Toggle(t.Context(), "total", "alice", step.join, 0)
			if err != nil || counted != step.counted || at.IsZero() == step.counted {
				t.Errorf("join %v: counted %v at %v, %v; want counted %v, and then a time", step.join, counted, at, err, step.counted)
			}
		}
		if _, until, at, err := c.Toggle(t.Context(), "total", "bob", true, time.Minute); err != nil || at.IsZero() || until.IsZero() {
			t.Errorf("hold: until %v at %v, %v", until, at, err)
		}
	})
}

// now is as of when a sum of a counter is; the zero time where there is no such counter.
func (w *world) now(t *testing.T, client *shards.Client) time.Time {
	t.Helper()
	s, err := handle(t, client, "a").Sum(t.Context())
	if err != nil && !errors.Is(err, shards.ErrNotFound) || err == nil && s.AsOf.IsZero() {
		t.Fatal(s, err)
	}
	return s.AsOf
}

// A total is as of when the roll-up's map says, by field, and of all that are shown as of the earliest; a field of
// which that isn't known leaves it open.
func TestTotalsAreAsOf(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		at := func(s int64) time.Time { return time.Unix(1_000_000+s, 678_901_000).UTC() }
		for _, hosted := range []bool{false, true} {
			w := newWorld(t)
			client := w.open(t, shards.Config{Place: shards.Place{Fields: "likes,views", Counters: "counters/{counter}", Hosted: hosted}, ReadCache: time.Hour})
			asOf := map[string]any{"likes": at(5), "views": at(3)}
			for _, odd := range []struct {
				asOf any
				want map[string]time.Time // by field; "" is all
			}{
				{asOf, map[string]time.Time{"likes": at(5), "views": at(3), "": at(3)}},
				{map[string]any{"likes": at(5)}, map[string]time.Time{"likes": at(5)}},
				{map[string]any{"likes": "x", "views": at(3)}, map[string]time.Time{"views": at(3)}},
				{"x", nil}, {nil, nil},
			} {
				doc := map[string]any{"likes": 7, "views": 9, "counter_rollup": map[string]any{"as_of": odd.asOf, "num_shards": 2, "updated_at": at(9)}}
				if !hosted {
					doc["num_shards"], doc["updated_at"] = 2, at(9)
				}
				w.Put("counters/a", doc)
				s, err := handle(t, client, "a").Get(t.Context())
				if err != nil || !s.AsOf.Equal(odd.want[""]) {
					t.Errorf("hosted %v, %v: as of %v, %v; want %v", hosted, odd.asOf, s.AsOf, err, odd.want[""])
				}
				for _, field := range []string{"likes", "views"} {
					if got := s.OfField(field).AsOf; !got.Equal(odd.want[field]) {
						t.Errorf("hosted %v, %v: %s as of %v; want %v", hosted, odd.asOf, field, got, odd.want[field])
					}
				}
			}
		}
	})
}

// The marker of a batch expires after an hour, and that of a key after KeyTTL, which may
// not be shorter.
func TestMarkersExpire(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for ttl, want := range map[time.Duration]time.Duration{0: 24 * time.Hour, 48 * time.Hour: 48 * time.Hour, time.Minute: time.Hour} {
			w := newWorld(t)
			c := w.counter(t, w.open(t, shards.Config{KeyTTL: ttl}), "a", 1)
			for _, marker := range []struct {
				key  shards.Key
				want time.Duration
			}{{shards.Key{}, time.Hour}, {shards.Key{Value: "k"}, want}} {
				began := time.Now()
				if _, err := c.AddOnce(t.Context(), 1, marker.key); err != nil {
					t.Fatal(err)
				}
				docs, err := w.fs.Collection("counter_requests").Where("expire_at", ">=", began.Add(marker.want-time.Minute)).Where("expire_at", "<=", time.Now().Add(marker.want+time.Second)).Documents(t.Context()).GetAll()
				if err != nil || len(docs) == 0 {
					t.Errorf("KeyTTL %v, key %q: no marker expires in %v, of %d (%v)", ttl, marker.key.Value, marker.want, w.markers(t), err)
				}
			}
		}
	})
}

// TTL must not take a marker while its commit is in doubt, or the increment would count twice. So none
// expires by the clock of a machine which is slow, nor by what an instance knows of Firestore's clock that
// was suspended since Firestore's last answer.
func TestMarkersExpireByTheLaterClock(t *testing.T) {
	t.Parallel()
	const off = 90 * time.Minute
	for name, tt := range map[string]struct{ first, then time.Duration }{ // how far Firestore's clock is ahead of the machine's
		"the machine is slow":        {off, off},
		"the instance was suspended": {-off, 0},
	} {
		for _, key := range []shards.Key{{}, {Value: "k"}} {
			virtual.Run(t, name+key.Value, func(t *testing.T) {
				var ahead atomic.Int64
				ahead.Store(int64(tt.first))
				w := newWorldWith(t, emulator.Options{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
				c := w.counter(t, w.open(t, shards.Config{}), "a", 1)
				if err := c.Add(t.Context(), 1); err != nil { // it is known from then on, and not read
					t.Fatal(err)
				}
				ahead.Store(int64(tt.then))
				if _, err := c.AddOnce(t.Context(), 1, key); err != nil {
					t.Fatal(err)
				}
				docs, err := w.fs.Collection("counter_requests").Documents(t.Context()).GetAll()
				if err != nil || len(docs) != 3 {
					t.Fatalf("%d markers, %v; want those of the creation and of two increments", len(docs), err)
				}
				for _, doc := range docs {
					if at := doc.Data()["expire_at"].(time.Time); at.Before(doc.CreateTime.Add(59 * time.Minute)) {
						t.Errorf("a marker of %v expires at %v", doc.CreateTime, at)
					}
				}
			})
		}
	}
}

// Calls with one key that wait at the same time share an outcome: else each would wait for all that came before it, and
// whoever repeats one fills an instance. One of them counts, the others are replays, and another amount is refused.
func TestCallsOfOneKeyShareAnOutcome(t *testing.T) {
	t.Parallel()
	const n = 200
	key := shards.Key{Value: "k"}
	add := func(by int64, counters ...string) func(context.Context, *shards.Client) (bool, error) {
		return func(ctx context.Context, client *shards.Client) (bool, error) {
			var increments []shards.Increment
			for _, counter := range counters {
				increments = append(increments, shards.Increment{Counter: counter, Field: "count", By: by})
			}
			return client.AddAll(ctx, increments, key)
		}
	}
	reserve := func(field string, by int64) func(context.Context, *shards.Client) (bool, error) {
		return func(ctx context.Context, client *shards.Client) (bool, error) {
			h, replayed, err := handle(t, client, "a").Reserve(ctx, field, by, time.Hour, key)
			if err == nil && (h.By != by || h.State != "held" || h.Until.IsZero()) {
				err = fmt.Errorf("held: %+v", h)
			}
			return replayed, err
		}
	}
	for name, c := range map[string]struct {
		call, other func(context.Context, *shards.Client) (replayed bool, err error)
		field       string
		amounts     [2]int64
		ceiling     ceiling.Rates
		trouble     bool
	}{
		"of a counter":           {add(1, "a"), add(2, "a"), "count", [2]int64{1, 2}, ceiling.Rates{}, false},
		"of several counters":    {add(1, "a", "b"), add(2, "a", "b"), "count", [2]int64{1, 2}, ceiling.Rates{}, false},
		"below a ceiling":        {add(1, "a"), add(2, "a"), "count", [2]int64{1, 2}, ceiling.Rates{Writes: 3, Reads: 1.5}, false},
		"that hold":              {reserve("count", 1), reserve("count", 2), "count", [2]int64{1, 2}, ceiling.Rates{}, false},
		"that hold of a limit":   {reserve("seats", 3), reserve("seats", 4), "seats", [2]int64{3, 4}, ceiling.Rates{}, false},
		"that exceed a limit":    {reserve("seats", 11), reserve("seats", 3), "seats", [2]int64{0, 3}, ceiling.Rates{}, false},
		"in trouble":             {add(1, "a"), add(2, "a"), "count", [2]int64{1, 2}, ceiling.Rates{}, true},
		"in trouble, of several": {add(1, "a", "b"), add(2, "a", "b"), "count", [2]int64{1, 2}, ceiling.Rates{}, true},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			cfg := shards.Config{Place: shards.Place{Fields: "count,seats=limit(10)"}, Timeout: 18 * time.Second}
			free := w.open(t, cfg)
			w.counter(t, free, "a", 4)
			w.counter(t, free, "b", 4)
			cfg.Budget = ceiling.New(c.ceiling)
			client := w.open(t, cfg)
			if _, err := handle(t, client, "a").Sum(t.Context()); err != nil {
				t.Fatal(err)
			}
			faults := emulator.Faults{CommitLatency: 100 * time.Millisecond, QueryLatency: 100 * time.Millisecond}
			if c.trouble {
				faults.Abort, faults.LoseAnswers, faults.Unavailable, faults.Seed = 0.2, 0.2, 0.1, 3
			}
			w.Server.SetFaults(faults)
			began := time.Now()
			var all sync.WaitGroup
			var replayed, refused atomic.Int64
			var counted [2]atomic.Int64
			calls := [2]func(context.Context, *shards.Client) (bool, error){c.call, c.other}
			for i := range n {
				which := i % 10 / 9 // one of ten asks for another amount
				ctx, gone := context.WithCancel(t.Context())
				all.Go(func() {
					defer gone()
					again, err := calls[which](ctx, client)
					switch {
					case err == nil && again:
						replayed.Add(1)
					case err == nil:
						counted[which].Add(1)
					case errors.Is(err, shards.ErrKeyReused), errors.Is(err, shards.ErrLimit):
						refused.Add(1)
					case errors.Is(err, shards.ErrBusy), errors.Is(err, context.Canceled) && i%10 == 5: // may be repeated
					default:
						t.Error(err)
					}
				})
				if i%10 == 5 {
					time.AfterFunc(10*time.Millisecond, gone) // others don't go with it
				}
			}
			all.Wait()
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("%d calls took %v", n, took)
			}
			if both := counted[0].Load() + counted[1].Load(); both > 1 || refused.Load() == 0 || both+replayed.Load()+refused.Load() < n*6/10 {
				t.Errorf("%d counted, %d replays, %d refused", both, replayed.Load(), refused.Load())
			}
			w.Server.SetFaults(emulator.Faults{})
			s, err := handle(t, free, "a").Sum(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for which, amount := range c.amounts { // what was answered stands
				if s.Totals[c.field] == 0 { // all that would have fit shared the outcome of one that didn't
					continue
				}
				again, err := calls[which](t.Context(), free)
				if amount == s.Totals[c.field] && (err != nil || !again) || amount != s.Totals[c.field] && !errors.Is(err, shards.ErrKeyReused) {
					t.Errorf("once more, of %v: %d: %v, %v", s.Totals, amount, again, err)
				}
			}
		})
	}
}
