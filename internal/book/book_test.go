package book_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// update has something change the book of the counter a, and commits that.
func (w *world) update(t *testing.T, change func(*book.Book)) error {
	t.Helper()
	_, err := book.Of(w.db).Update(t.Context(), store.Patience{Conflicts: 3, Doubts: 3}, func(ctx context.Context) (*book.Book, error) {
		k, err := book.Of(w.db).Read(ctx, "a", func(*book.Book) (bool, error) { return false, nil })
		if err != nil {
			return nil, err
		}
		change(k)
		return k, nil
	})
	return err
}

// A total that isn't what the ledger comes to which is written is never shown: whatever has changed
// the ledger by another way than the book's methods, nothing is written.
func TestABookThatDoesNotBalance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.create(t)
	for name, change := range map[string]func(*ledger.Ledger){
		"a base":  func(l *ledger.Ledger) { l.Base["likes"] = 7 },
		"a state": func(l *ledger.Ledger) { l.States["0"] = ledger.Entry{Counts: ledger.Counts{"views": -1}} },
	} {
		for _, flush := range []bool{false, true} {
			version := w.ledger(t).Updated
			err := w.update(t, func(k *book.Book) {
				k.SetBase("likes", 3)
				if change(k.Ledger); flush {
					k.Flush()
				}
			})
			if err == nil || !strings.Contains(err.Error(), "balance") {
				t.Errorf("%s behind the book's back: %v", name, err)
			}
			if !w.ledger(t).Updated.Equal(version) {
				t.Errorf("%s behind the book's back: it is written", name)
			}
		}
	}
	if err := w.update(t, func(k *book.Book) { k.SetBase("likes", 3) }); err != nil {
		t.Error(err)
	}
	w.want(t, 3)
}

// Totals that end at ±2⁶³ are no reason to refuse a book, and what comes back from there is exact.
func TestABookBeyondAnInt64(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.create(t)
	for i, base := range []int64{math.MaxInt64, math.MinInt64, 0, math.MinInt64, 5} {
		if err := w.update(t, func(k *book.Book) { k.SetBase("likes", base) }); err != nil {
			t.Errorf("%d: base %d: %v", i, base, err)
		}
		w.want(t, base)
	}
}

// Whatever a diff changes, its growth is what the totals grow by, and two diffs one after the other
// come to both together.
func TestGrowth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.MapOf(rapid.SampledFrom([]string{"likes", "views"}), rapid.Int64Range(-1<<40, 1<<40))
		entries := rapid.MapOf(rapid.SampledFrom([]string{"0", "1", "2", "3"}), rapid.Custom(func(t *rapid.T) ledger.Entry { return ledger.Entry{Counts: counts.Draw(t, "counts")} }))
		diffs := rapid.Custom(func(t *rapid.T) ledger.Diff {
			d := ledger.Diff{States: entries.Draw(t, "states"), Base: counts.Draw(t, "base")}
			for _, key := range []string{"0", "1", "2", "3"} {
				if _, is := d.States[key]; !is && rapid.Bool().Draw(t, "goes") {
					d.Removed = append(d.Removed, key)
				}
			}
			return d
		})
		before := &ledger.Ledger{States: entries.Draw(t, "states"), Base: counts.Draw(t, "base")}
		stepwise, once := clone(before), clone(before)
		var both ledger.Diff
		want := map[string]int64{}
		for range 2 {
			d := diffs.Draw(t, "diff")
			for _, field := range []string{"likes", "views"} {
				want[field] += stepwise.Grows(d, field)
			}
			stepwise.Apply(d)
			both = both.Then(d)
		}
		once.Apply(both)
		for _, field := range []string{"likes", "views"} {
			was, is := before.Sum(field)+before.Base[field], stepwise.Sum(field)+stepwise.Base[field]
			if is-was != want[field] {
				t.Fatalf("%s grows from %d to %d, want by %d", field, was, is, want[field])
			}
			if at := once.Sum(field) + once.Base[field]; at != is {
				t.Fatalf("both at once make %s %d, and one after the other %d", field, at, is)
			}
		}
	})
}

func clone(l *ledger.Ledger) *ledger.Ledger {
	c := &ledger.Ledger{}
	c.Apply(ledger.Diff{States: l.States, Base: l.Base})
	return c
}
