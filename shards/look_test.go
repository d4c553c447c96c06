package shards_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// of is a counter with a limit that another client made.
func (w *world) of(t *testing.T, id string, n int, of int64) shards.Counter {
	t.Helper()
	c := w.counter(t, w.open(t, withLimit), id, n)
	limit(t, c, of)
	return c
}

// reads are how many reads a call takes of a client that has read the counter's document.
func (w *world) reads(t *testing.T, c shards.Counter, call func() error) int64 {
	t.Helper()
	if _, err := c.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Server.ResetStats()
	if err := call(); err != nil {
		t.Error(err)
	}
	return w.Server.Stats().Reads
}

// Who takes of a counter with 25 shards asks two sums, and reads the shards that have room. Who is refused asks two
// sums, and for seats and amounts whose holds are over. Who knows shards with room reads nothing.
func TestWhatALookCosts(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		maker := w.of(t, "a", 25, 1000)
		fresh := func() shards.Counter { return handle(t, w.open(t, withLimit), "a") }
		costs := func(what string, c shards.Counter, want int64, call func() error) {
			t.Helper()
			if n := w.reads(t, c, call); n != want {
				t.Errorf("%s reads %d documents, want %d", what, n, want)
			}
		}
		take := func(c shards.Counter, by int64) func() error {
			return func() error { return c.Add(t.Context(), by) }
		}
		c := fresh()
		costs("the first take", c, 27, take(c, 1))
		costs("the next", c, 0, take(c, 1))
		if err := maker.Add(t.Context(), 997); err != nil {
			t.Fatal(err)
		}
		refused := func(c shards.Counter, by, left int64) func() error {
			return func() error { wantLimit(t, c.Add(t.Context(), by), left); return nil }
		}
		c = fresh()
		costs("a refusal with one left", c, 4, refused(c, 2, 1))
		costs("the last take", c, 3, take(c, 1))
		for _, c := range []shards.Counter{fresh(), c, maker} {
			costs("a refusal", c, 4, refused(c, 1, 0))
		}
	})
}

// Most shares are smaller than the one that has room left: nobody is refused, and all shards are read in the end.
func TestALookWhereSharesAreUneven(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		maker := w.of(t, "a", 4, 40)
		if err := maker.Add(t.Context(), 10); err != nil { // all of one shard
			t.Fatal(err)
		}
		limit(t, maker, 13) // the others have 1 each
		if err := maker.Add(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		if err := maker.Add(t.Context(), -2); err != nil { // of the shard that has most
			t.Fatal(err)
		}
		for left := range 2 {
			c := handle(t, w.open(t, withLimit), "a")
			if err := c.Add(t.Context(), 1); err != nil {
				t.Errorf("take %d of 2: %v", left+1, err)
			}
		}
		wantLimit(t, maker.Add(t.Context(), 1), 0)
		if w.wantSum(t, "a", 13); !slices.Equal(slices.Sorted(maps.Values(w.counts(t, "a"))), []int64{1, 1, 1, 10}) {
			t.Errorf("the shards count %v", w.counts(t, "a"))
		}
	})
}

// Who sees room, and finds none in the shards because others were faster, looks again, and doesn't read all shards.
func TestALookThatOthersAreFasterThan(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		maker := w.of(t, "a", 25, 100)
		if err := maker.Add(t.Context(), 1); err != nil { // looks
			t.Fatal(err)
		}
		var once sync.Once
		c := handle(t, w.asking(t, withLimit, "RunQuery", func() {
			once.Do(func() {
				if err := maker.Add(t.Context(), 99); err != nil {
					t.Error(err)
				}
			})
		}), "a")
		// No shard is left that counts less than its share, for a read; then two sums, and two looks for holds.
		if n := w.reads(t, c, func() error { wantLimit(t, c.Add(t.Context(), 1), 0); return nil }); n != 2+1+4 {
			t.Errorf("a refusal reads %d documents, want 7", n)
		}
	})
}

// A call whose increments of a sold out field add up to 0, of a process that knows no shard of the counter.
func TestALookOfWhoTakesNothing(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		maker := w.counter(t, w.open(t, withLimit), "a", 3)
		limit(t, maker, 3)
		if err := maker.Add(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		fresh := w.open(t, withLimit)
		if _, err := fresh.AddAll(t.Context(), []shards.Increment{{Counter: "a", By: 1}, {Counter: "a", By: -1}}, shards.Key{}); err != nil {
			t.Error(err)
		}
		w.wantSum(t, "a", 3)
	})
}

// Who gives back what many shards hold is decided about by all of them.
func TestALookOfWhoGivesBack(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if err := w.of(t, "a", 10, 10).Add(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		c := handle(t, w.open(t, withLimit), "a")
		wantLimit(t, c.Add(t.Context(), -11), 0)
		if err := handle(t, w.open(t, withLimit), "a").Add(t.Context(), -10); err != nil {
			t.Error(err)
		}
		w.wantSum(t, "a", 0)
	})
}

// Who leaves gives back what only members took, and is decided about by all shards, which say how much that is.
func TestALookOfWhoLeaves(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		maker := w.of(t, "a", 10, 10)
		join(t, maker, "alice")
		if counted, err := handle(t, w.open(t, withLimit), "a").Leave(t.Context(), "total", "alice"); !counted || err != nil {
			t.Errorf("counted %v, %v", counted, err)
		}
		w.wantSum(t, "a", 0)
	})
}

// A limit is raised, and what it gives is taken, between the two sums by which others would be refused.
func TestSumsOfARefusalAreOfOneTime(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		maker := w.of(t, "a", 10, 10)
		asked := 0
		c := handle(t, w.asking(t, withLimit, "RunAggregationQuery", func() {
			if asked++; asked == 2 {
				limit(t, maker, 11)
				if err := maker.Add(t.Context(), 1); err != nil {
					t.Error(err)
				}
			}
		}), "a")
		if err := c.Add(t.Context(), 10); err != nil { // of more shards than a look for room finds
			t.Errorf("%v: there was room for it at any time", err)
		}
		if w.wantSum(t, "a", 11); asked < 2 {
			t.Errorf("%d sums were asked for", asked)
		}
	})
}

// Callers go away, one during each question of a look, while others of their batch wait for it. What was seen serves the
// others: if each had them look again, a crowd would be counted only once nobody goes away any more.
func TestWhoGoesAwayDuringALook(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if err := w.of(t, "a", 1, 100).Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		const leave, stay = 20, 5
		var c shards.Counter
		var calls sync.WaitGroup
		var goAway []context.CancelFunc
		add := func(stays bool) {
			ctx, cancel := context.WithCancel(t.Context())
			goAway = append(goAway, cancel)
			calls.Go(func() {
				if err := c.Add(ctx, 1); err != nil && stays {
					t.Error(err)
				}
			})
		}
		questions := 0
		c = handle(t, w.asking(t, withLimit, "RunAggregationQuery", func() {
			if questions == 0 { // these wait for the first one
				for i := range leave + stay {
					add(i >= leave)
					synctest.Wait()
				}
			}
			if questions <= leave {
				goAway[questions]()
				synctest.Wait()
			}
			questions++
		}), "a")
		add(false)
		calls.Wait()
		if questions > 4 {
			t.Errorf("%d questions, of 2 for each look", questions)
		}
		for _, cancel := range goAway {
			cancel()
		}
	})
}

// So it is where commits have failed so often that all shards are looked at, whatever is known.
func TestWhoGoesAwayDuringALookOfABusyField(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := w.of(t, "a", 1, 1000)
		if err := other.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		const leave, stay = 20, 5
		var c shards.Counter
		var calls sync.WaitGroup
		var goAway []context.CancelFunc
		fails, questions := 0, 0
		var fail func()
		fail = func() { // others are faster
			if err := other.Add(t.Context(), 1); err != nil {
				t.Error(err)
			}
			if fails++; fails < 4 {
				w.Before(fail)
			}
		}
		c = handle(t, w.asking(t, withLimit, "RunAggregationQuery", func() {
			if fails == 4 && questions < leave {
				goAway[questions]()
				synctest.Wait()
				questions++
			}
		}), "a")
		w.Before(func() { // these wait for the first one
			for i := range leave + stay {
				ctx, cancel := context.WithCancel(t.Context())
				goAway = append(goAway, cancel)
				calls.Go(func() {
					if err := c.Add(ctx, 1); err != nil && i >= leave {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
			w.Before(fail)
		})
		if err := c.Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		calls.Wait()
		if questions > 4 {
			t.Errorf("%d questions, of 2 for each look", questions)
		}
		for _, cancel := range goAway {
			cancel()
		}
	})
}
