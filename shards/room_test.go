package shards_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/firestore-counters/counters/shards"
)

// of is a counter with a limit that another client made.
func (w *world) of(t *testing.T, id string, n int, of int64) shards.Counter {
	t.Helper()
	c := w.counter(t, w.open(t, shards.Config{}), id, n)
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

// Who takes of a counter with 40 shards reads five of them, and who is refused reads none: the query that finds
// none, two sums, and the query for holds that are over.
func TestWhatALookCosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maker := w.of(t, "a", 40, 1000)
	take := func(by int64) func(c shards.Counter) int64 {
		return func(c shards.Counter) int64 {
			return w.reads(t, c, func() error { return c.Add(t.Context(), by) })
		}
	}
	fresh := func() shards.Counter { return handle(t, w.open(t, shards.Config{}), "a") }
	refused := func(c shards.Counter, left int64) int64 {
		return w.reads(t, c, func() error { wantLimit(t, c.Add(t.Context(), left+1), left); return nil })
	}
	for range 5 {
		if n := take(1)(fresh()); n > 8 {
			t.Errorf("the first take reads %d documents, want 5 at most, and 3 more after the last shard", n)
		}
	}
	if err := maker.Add(t.Context(), 995); err != nil {
		t.Fatal(err)
	}
	for _, c := range []shards.Counter{fresh(), fresh(), maker} {
		for range 2 {
			if n := refused(c, 0); n != 4 {
				t.Errorf("a refusal reads %d documents, want 4", n)
			}
		}
	}
	if err := maker.Add(t.Context(), -1); err != nil {
		t.Fatal(err)
	}
	if n := refused(fresh(), 1); n > 5 {
		t.Errorf("a refusal with one left reads %d documents, want 5 at most", n)
	}
	for range 8 { // the one shard with room is before that from which a query begins, or after it
		if n := take(1)(fresh()); n > 5 {
			t.Errorf("the last take reads %d documents, want 5 at most", n)
		}
		if err := maker.Add(t.Context(), -1); err != nil {
			t.Fatal(err)
		}
	}
}

// A call whose increments of a sold out field add up to 0, of a process that knows no shard of the counter.
func TestALookOfWhoTakesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maker := w.counter(t, w.open(t, shards.Config{}), "a", 3)
	limit(t, maker, 3)
	if err := maker.Add(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	fresh := w.open(t, shards.Config{})
	if _, err := fresh.AddAll(t.Context(), []shards.Increment{{Counter: "a", By: 1}, {Counter: "a", By: -1}}, shards.Key{}); err != nil {
		t.Error(err)
	}
	w.wantSum(t, "a", 3)
}

// Who gives back what many shards hold is decided about by all of them.
func TestALookOfWhoGivesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.of(t, "a", 10, 10).Add(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	c := handle(t, w.open(t, shards.Config{}), "a")
	wantLimit(t, c.Add(t.Context(), -11), 0)
	if err := handle(t, w.open(t, shards.Config{}), "a").Add(t.Context(), -10); err != nil {
		t.Error(err)
	}
	w.wantSum(t, "a", 0)
}

// Who leaves gives back what only members took, and is decided about by all shards, which say how much that is.
func TestALookOfWhoLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maker := w.of(t, "a", 10, 10)
	join(t, maker, "alice")
	if counted, err := handle(t, w.open(t, shards.Config{}), "a").Leave(t.Context(), "total", "alice"); !counted || err != nil {
		t.Errorf("counted %v, %v", counted, err)
	}
	w.wantSum(t, "a", 0)
}

// A shard is wrong about its room, because something else wrote it: nobody is refused for that, and nothing is
// oversold.
func TestShardsThatAreWrongAboutTheirRoom(t *testing.T) {
	t.Parallel()
	for _, says := range []bool{true, false} {
		w := newWorld(t)
		w.of(t, "a", 10, 20)
		for n := range 10 {
			w.put(t, fmt.Sprintf("counters/a/shards/limited-%d", n), map[string]any{"count": 0, "members(count)": 0, "share(count)": 2, "room(count)": says})
		}
		add := func(by int64) error {
			return handle(t, w.open(t, shards.Config{}), "a").Add(t.Context(), by)
		}
		for range 19 {
			if err := add(1); err != nil {
				t.Errorf("%v: one can be had", err)
			}
		}
		wantLimit(t, add(2), 1)
		if err := add(1); err != nil {
			t.Errorf("%v: one is left", err)
		}
		for n := range 10 {
			w.put(t, fmt.Sprintf("counters/a/shards/limited-%d", n), map[string]any{"count": 2, "members(count)": 0, "share(count)": 2, "room(count)": says})
		}
		wantLimit(t, add(1), 0)
	}
}

// A limit is raised, and what it gives is taken, between the two sums by which others would be refused.
func TestSumsOfARefusalAreOfOneTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maker := w.of(t, "a", 10, 10)
	asked := 0
	c := handle(t, w.asking(t, shards.Config{}, "RunAggregationQuery", func() {
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
}

// A counter's limit is removed before who is refused asks how much is left.
func TestALimitIsRemovedBeforeARefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maker := w.of(t, "a", 3, 0)
	asked := 0
	c := handle(t, w.asking(t, shards.Config{}, "RunAggregationQuery", func() {
		if asked++; asked == 1 {
			if err := maker.RemoveLimit(t.Context(), "total"); err != nil {
				t.Error(err)
			}
		}
	}), "a")
	if err := c.Add(t.Context(), 1); err != nil || asked == 0 {
		t.Errorf("%v after %d sums: want it counted", err, asked)
	}
	w.wantSum(t, "a", 1)
}

// A field that got a limit lately has room in a shard that a look for room of another one may not find.
func TestALookForRoomBesideANewLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const fields = "total=count,likes"
	for n := range 6 {
		setter := w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: fields}}), fmt.Sprint("a", n), 20)
		if err := setter.SetLimit(t.Context(), "total", 100); err != nil {
			t.Fatal(err)
		}
		stale := handle(t, w.open(t, shards.Config{Place: shards.Place{Fields: fields}}), fmt.Sprint("a", n))
		if _, _, err := stale.Cached(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := setter.SetLimit(t.Context(), "likes", 1); err != nil {
			t.Fatal(err)
		}
		both := func() error {
			_, err := stale.AddFields(t.Context(), map[string]int64{"total": 1, "likes": 1}, shards.Key{})
			return err
		}
		if err := both(); err != nil {
			t.Errorf("%v: there is room for one", err)
		}
		if err := both(); !errors.Is(err, shards.ErrLimit) {
			t.Errorf("%v: want ErrLimit", err)
		}
	}
}

// Takes that come faster than one a second and shard go to further shards. By chance a
// look for these finds only known ones, and the next comes a second later.
func TestTakesSpread(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spread := false
	for n := 0; n < 8 && !spread; n++ {
		id := fmt.Sprint("a", n)
		w.of(t, id, 100, 10_000)
		c := handle(t, w.open(t, shards.Config{}), id)
		began := time.Now()
		reads := w.reads(t, c, func() error {
			for range 40 {
				if err := c.Add(t.Context(), 1); err != nil {
					return err
				}
			}
			return nil
		})
		if time.Since(began) > 3*time.Second {
			t.Skip("on this machine takes are too slow to come faster than one a second and shard")
		}
		written := 0
		docs, err := w.fs.Collection("counters").Doc(id).Collection("shards").Documents(t.Context()).GetAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs {
			if doc.Data()["count"].(int64) > 0 {
				written++
			}
		}
		t.Logf("40 takes went to %d shards, and read %d documents", written, reads)
		spread = written >= 10
	}
	if !spread {
		t.Error("takes stay in few shards")
	}
}
