package shards_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// A document is deleted by hand. One instance has not noticed and goes on counting, another one
// makes the document with its next increment: all that either has ever acknowledged is there.
func TestAutoCreateAfterADeletionByHand(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		late, other := w.open(t, shards.Config{AutoCreate: true}), w.open(t, shards.Config{AutoCreate: true})
		c := w.counter(t, late, "a", 2)
		add := func(c shards.Counter, n int) {
			t.Helper()
			for range n {
				if err := c.Add(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		add(c, 5)
		w.rollUp(t, "a")
		w.deleteByHand(t)
		add(c, 6)
		add(handle(t, other, "a"), 1)
		add(c, 4)
		if got := w.total(t, "a"); got != 11 {
			t.Errorf("total %d before any roll-up, want the 11 that there were when it was made again", got)
		}
		w.wantRolledUp(t, 16)
	})
}

// A counter is deleted by a script that knows the public layout alone: its document and its shards
// go, in any order, and its base stays. What AUTO_CREATE makes meanwhile, or then, comes to what
// there is in shards.
func TestAutoCreateBesideADeletionByHand(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ before, after []string }{
		"one shard before":       {before: []string{"0"}},
		"two before, one after":  {before: []string{"0", "1"}, after: []string{"2"}},
		"all before":             {before: []string{"0", "1", "2"}},
		"two after":              {after: []string{"0", "1"}},
		"all after the document": {after: []string{"0", "1", "2"}},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			c := w.counter(t, w.open(t, shards.Config{}), "a", 3)
			for n := range 3 {
				w.inc(t, fmt.Sprint(n), 5)
			}
			w.wantRolledUp(t, 15)
			remove := func(docs ...string) {
				for _, doc := range docs {
					w.Delete("counters/a/shards/" + doc)
				}
			}
			remove(tt.before...)
			w.deleteByHand(t)
			auto := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a")
			for _, after := range [][]string{nil, tt.after} {
				remove(after...)
				if err := auto.Add(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				want := int64(0)
				for _, n := range w.counts(t, "a") {
					want += n
				}
				w.rollUp(t, "a")
				if s, err := c.Sum(t.Context()); err != nil || s.Total != want || w.total(t, "a") != want {
					t.Errorf("exact total %+v, %v, shown %d; want %d", s, err, w.total(t, "a"), want)
				}
			}
		})
	}
}

// An instance that has not noticed that the document was deleted by hand takes something off it.
// What is made again has had it taken off, once.
func TestDecrementWhileTheDocumentIsGone(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
		if err := c.Add(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		w.rollUp(t, "a")
		w.deleteByHand(t)
		if err := c.Add(t.Context(), -3); err != nil {
			t.Fatal(err)
		}
		if err := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a").Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		w.wantRolledUp(t, 98)
	})
}

// The same with members who leave.
func TestMembersLeaveWhileTheDocumentIsGone(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.counter(t, w.open(t, shards.Config{}), "a", 2)
		join(t, c, "u")
		join(t, c, "v")
		w.rollUp(t, "a")
		w.deleteByHand(t)
		leave(t, c, "u")
		again := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a")
		join(t, again, "w")
		w.rollUp(t, "a")
		w.wantMembers(t, again, "v", "w")
	})
}

// A counter's document was deleted by hand, and everything below it is still there. Whatever makes
// the document again goes on with the members that it has.
func TestMembersOfADocumentDeletedByHand(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]struct {
		do                 func(*testing.T, shards.Counter)
		members, otherwise int64
	}{
		"create": {func(t *testing.T, c shards.Counter) {
			if err := c.Create(t.Context(), shards.CreateOptions{}); err != nil {
				t.Error(err)
			}
		}, 600, 0},
		"join": {func(t *testing.T, c shards.Counter) { join(t, c, "new") }, 601, 0},
		"add": {func(t *testing.T, c shards.Counter) {
			if err := c.Add(t.Context(), 1); err != nil {
				t.Error(err)
			}
		}, 600, 1},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.counter(t, w.open(t, shards.Config{}), "a", 3)
			w.populate(t, 600)
			w.rollUp(t, "a")
			w.deleteByHand(t)
			c := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a")
			again.do(t, c)
			w.rollUp(t, "a")
			audits, err := c.Audit(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			total := again.members + again.otherwise
			want := shards.Audit{Field: "total", Shards: total, Members: again.members, Otherwise: again.otherwise, Exact: total, Total: total}
			if audits[0] != want {
				t.Errorf("%+v, want %+v", audits[0], want)
			}
		})
	}
}

// Of several fields each goes on with what it has, also one that only another revision shows.
func TestAllFieldsOfADocumentMadeAgain(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const fields = "total=count,likes,bookmarks"
		c := w.counter(t, w.open(t, shards.Config{Place: shards.Place{Fields: fields}}), "a", 3)
		for i := range 9 {
			for _, field := range []string{"likes", "bookmarks"} {
				if _, err := c.Join(t.Context(), field, fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := c.Add(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
		roll, err := rollup.Open(t.Context(), rollup.Config{Place: rollup.Place{Project: "p", Fields: fields}}, option.WithGRPCConn(w.Conn()))
		if err != nil {
			t.Fatal(err)
		}
		defer roll.Close()
		rollUp := func() {
			t.Helper()
			if _, err := roll.Reconcile(t.Context(), "a", rollup.ReconcileOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		rollUp()
		w.deleteByHand(t)
		for i := range 9 {
			if _, err := c.Leave(t.Context(), "bookmarks", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		older := handle(t, w.open(t, shards.Config{AutoCreate: true}), "a")
		if err := older.Add(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		rollUp()
		audits, err := handle(t, w.open(t, shards.Config{Place: shards.Place{Fields: fields}}), "a").Audit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := []shards.Audit{
			{Field: "total", Shards: 1002, Otherwise: 1002, Exact: 1002, Total: 1002},
			{Field: "likes", Shards: 9, Members: 9, Exact: 9, Total: 9},
			{Field: "bookmarks"},
		}
		if diff := cmp.Diff(want, audits); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// What the app has copied, in a snippet's document, is no reason to lose counts: a document that is
// made again with any numbers shows what its path has counted.
func TestSumOfADocumentMadeAgain(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := handle(t, w.open(t, shards.Config{}), "a")
		if err := c.Create(t.Context(), shards.CreateOptions{Shards: 1, Total: 100}); err != nil {
			t.Fatal(err)
		}
		w.deleteByHand(t)
		w.Merge("counters/a", map[string]any{"num_shards": 1, "total": 4})
		w.inc(t, "0", 3)
		if s, err := c.Sum(t.Context()); err != nil || s.Total != 103 {
			t.Errorf("exact total %+v, %v; want 103", s, err)
		}
		w.rollUp(t, "a")
		w.wantRolledUp(t, 103)
	})
}
