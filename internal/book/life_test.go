package book_test

import (
	"testing"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// An edit finds that the document is back, whose absence the base has noted, and says so there. When it goes again, its
// time is counted from then on: nothing of it is removed at once.
func TestAnEditNotesThatTheDocumentIsBack(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		set := func() { w.Merge("counters/a", map[string]any{"title": "one"}) }
		reconcile := func() rollup.Report {
			t.Helper()
			return w.reconcile(t, rollup.ReconcileOptions{Remove: w.shards.Remove})
		}
		set()
		c := w.counter(t)
		if err := c.Add(t.Context(), 1004); err != nil {
			t.Fatal(err)
		}
		w.Delete("counters/a")
		reconcile()
		if w.read(t).Base.Gone.IsZero() {
			t.Fatal("the document is missing, and the base doesn't say so")
		}
		time.Sleep(23 * time.Hour)
		set()
		if err := w.add(t.Context(), 1, nil); err != nil {
			t.Fatal(err)
		}
		if b := w.read(t); !b.Base.Gone.IsZero() {
			t.Errorf("gone since %v, though it is there", b.Base.Gone)
		}
		w.want(t, 1005, 1)
		w.Delete("counters/a")
		time.Sleep(24 * time.Hour)
		if r := reconcile(); r.Deleted {
			t.Errorf("%+v: removed at once", r)
		}
		set()
		reconcile()
		w.want(t, 1005, 1)
	})
}

// A counter that is made where its path has counts already shows them, and the base says that it is there.
func TestACounterThatIsMadeAgainShowsItsCounts(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for total, want := range map[int64]int64{0: 12, 3: 3} {
			w := newWorld(t, false)
			c := w.create(t)
			if err := w.add(t.Context(), 5, nil); err != nil {
				t.Fatal(err)
			}
			if err := c.Add(t.Context(), 7); err != nil {
				t.Fatal(err)
			}
			w.Delete("counters/a")
			w.reconcile(t, rollup.ReconcileOptions{})
			if b := w.read(t); b.Base.Gone.IsZero() {
				t.Fatal("the base doesn't say that the document is missing")
			}
			if err := c.Create(t.Context(), shards.CreateOptions{Shards: 2, Total: total}); err != nil {
				t.Fatal(err)
			}
			b := w.read(t)
			if !b.Base.Gone.IsZero() || !b.AsOf(w.likes()).IsZero() {
				t.Errorf("gone since %v, shown as of %v; want that it is there, and that a roll-up asks", b.Base.Gone, b.AsOf(w.likes()))
			}
			w.want(t, want, want-7)
			if r := w.reconcile(t, rollup.ReconcileOptions{}); r.After != want || r.Drift != 0 {
				t.Errorf("%+v, want %d", r, want)
			}
		}
	})
}

// A snippet's counter that has shards and no document gets one, unless it was deleted: then it has none.
func TestAppear(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		if there, err := book.In(w.db).Appear(t.Context(), "a", false); err != nil || there {
			t.Errorf("of nothing: %v, %v", there, err)
		}
		w.Merge("counters/a/shards/0", map[string]any{"likes": 7})
		for range 2 {
			if there, err := book.In(w.db).Appear(t.Context(), "a", false); err != nil || !there {
				t.Errorf("of a shard: %v, %v", there, err)
			}
		}
		w.want(t, 7, 0)
		w.Delete("counters/a")
		if there, err := book.In(w.db).Appear(t.Context(), "a", false); err != nil || there {
			t.Errorf("with a base: %v, %v; want that it stays gone", there, err)
		}
	})
}

// Lives are told from each other by when a base was made, or where there is none, a document.
func TestLives(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		nothing := w.read(t).Life()
		w.Merge("counters/a", map[string]any{"num_shards": 1})
		document := w.read(t).Life()
		w.reconcile(t, rollup.ReconcileOptions{})
		first := w.read(t).Life()
		w.Delete("counters/a")
		w.Merge("counters/a", map[string]any{"num_shards": 1})
		back := w.read(t).Life()
		if err := w.counter(t).Delete(t.Context(), shards.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		deleted := w.read(t).Life()
		w.create(t)
		second := w.read(t).Life()
		for name, tt := range map[string]struct {
			life, now book.Life
			over      bool
		}{
			"nothing yet, then a document":   {nothing, document, false},
			"a document, then its base":      {document, first, false},
			"its document was made again":    {first, back, false},
			"its document alone was deleted": {document, nothing, false},
			"deleted":                        {first, deleted, true},
			"deleted, and made again":        {first, second, true},
			"a document, then another":       {document, second, true},
		} {
			if tt.life.Over(tt.now) != tt.over {
				t.Errorf("%s: over %v", name, !tt.over)
			}
		}
	})
}
