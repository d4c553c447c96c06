package extension_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
)

// Every import adds what has come since the last one, whatever the extension's clients and
// workers do meanwhile.
func TestImport(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, layout.Place{})
		if err := w.create(t, "hello", 3, 0).Add(t.Context(), 7); err != nil {
			// of clients that have moved already
			t.Fatal(err)
		}
		const page, inbox = "pages/hello", "pages/hello/_counter_shards_/"
		source := extension.Source{Path: page, Field: "stats.views"}
		want := func(value, added, sum int64) {
			t.Helper()
			if got, err := w.imports(t, "hello", source); err != nil || got != (extension.Imported{Value: value, Added: added}) {
				t.Errorf("import: %+v, %v; want %d of %d", got, err, added, value)
			}
			w.wantExact(t, "hello", "total", sum)
			if total := w.Data("counters/hello")["total"]; total != sum { // with the 7 that nothing has rolled up
				t.Errorf("total %d, want %d", total, sum)
			}
		}
		const one = inbox + "2f1c9a5e-0000-4000-8000-000000000001"
		w.Merge(page, map[string]any{"title": "Hello", "views": 99, "stats": map[string]any{"views": 1000, "likes": 5}})
		w.Merge(one, map[string]any{"stats": map[string]any{"views": 3, "likes": 1}})
		w.Merge(inbox+"2f1c9a5e-0000-4000-8000-000000000002", map[string]any{"stats": map[string]any{"views": 4.0}})
		w.Merge(inbox+"2f1c9a5e-0000-4000-8000-000000000003", map[string]any{"stats": "nothing that counts"})
		// A partial sum: what workers have added up, and what has been moved on already.
		w.Merge(inbox+"\t2f1c", map[string]any{"_updates_": []any{
			map[string]any{"_id_": "x", "_data_": map[string]any{"stats": map[string]any{"views": 20}}},
			map[string]any{"_id_": "y", "_data_": map[string]any{"stats": map[string]any{"views": -5, "likes": 2}}},
		}})
		want(1022, 1022, 1029)
		want(1022, 0, 1029) // again

		// Its clients go on, and its workers move a shard's count to the document.
		w.Merge(one, map[string]any{"stats": map[string]any{"views": 10}})
		want(1029, 7, 1036)
		w.Merge(page, map[string]any{"stats": map[string]any{"views": 1010}})
		w.Delete(one)
		want(1029, 0, 1036)

		// Another counter of the same document adds to what is there.
		if got, err := w.imports(t, "hello", extension.Source{Path: page, Field: "views"}); err != nil || got.Added != 99 {
			t.Errorf("another field: %+v, %v", got, err)
		}
		want(1029, 0, 1135)
	})
}

func TestImportRefuses(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, layout.Place{})
		w.create(t, "a", 1, 0)
		w.Merge("pages/half", map[string]any{"views": 0.5})
		w.Merge("pages/hello", map[string]any{"views": 1})
		for _, s := range []struct {
			id, path, field string
			want            error
		}{
			{"a", "pages", "views", extension.ErrInvalidSource},
			{"a", "", "views", extension.ErrInvalidSource},
			{"a", "pages/hello/", "views", extension.ErrInvalidSource},
			{"a", "pages/hello", "", extension.ErrInvalidSource},
			{"a", "pages/hello", "a..b", extension.ErrInvalidSource},
			{"a", "pages/hello", ".views", extension.ErrInvalidSource},
			{"a", "pages/nothing", "views", extension.ErrInvalidSource},
			{"a", "pages/hello", "vews", extension.ErrInvalidSource},
			{"a", "pages/hello", "views.all", extension.ErrInvalidSource},
			{"unknown", "pages/hello", "vews", extension.ErrInvalidSource},
			{"a", "counters/a", "total", extension.ErrInvalidSource},
			{"a", "pages/half", "views", store.ErrNotInteger},
			{"unknown", "pages/hello", "views", book.ErrNotFound},
			{"unknown", "pages/nothing", "views", extension.ErrInvalidSource},
			{"unknown", "pages/half", "views", store.ErrNotInteger},
		} {
			if _, err := w.imports(t, s.id, extension.Source{Path: s.path, Field: s.field}); !errors.Is(err, s.want) {
				t.Errorf("%q of %q into %s: %v, want %v", s.field, s.path, s.id, err, s.want)
			}
		}
		w.wantExact(t, "a", "total", 0)
		if left, err := w.fs.Collection("counters/unknown/counter_rollup").Documents(t.Context()).GetAll(); err != nil || len(left) > 0 {
			t.Errorf("%d documents are below a counter that doesn't exist, %v", len(left), err)
		}
	})
}

// A snippet's counter has no base yet, and gets one.
func TestImportIntoACounterWithoutABase(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, layout.Place{})
		w.Merge("counters/a", map[string]any{"num_shards": 2, "total": 3})
		w.Merge("counters/a/shards/0", map[string]any{"count": 5})
		w.Merge("pages/hello", map[string]any{"views": 100})
		for _, added := range []int64{100, 0} {
			if got, err := w.imports(t, "a", extension.Source{Path: "pages/hello", Field: "views"}); err != nil || got.Added != added {
				t.Errorf("%+v, %v; want %d added", got, err, added)
			}
		}
		if got := w.Data("counters/a")["total"]; got != int64(105) {
			t.Errorf("total %v, want 105", got)
		}
		if r := w.rollUp(t, "a"); r.After != 105 || r.Drift != 0 {
			t.Errorf("%+v, want 105 and no drift", r)
		}
	})
}

// What counts documents takes no sums: neither does another field in its place, without a word.
func TestImportIntoAFieldThatCountsDocuments(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for _, hosted := range []bool{false, true} {
			w := newWorld(t, layout.Place{Counters: "posts/{post}", Fields: "likes,comments=count(comments),stars=sum(ratings.stars)", Hosted: hosted})
			for _, path := range []string{"posts/p1", "pages/hello"} {
				w.Merge(path, map[string]any{"comments": 70, "stars": 9, "stats": map[string]any{"comments": 70}})
			}
			id := "p2"
			if hosted {
				id = "p1"
				if err := w.counter(t, id).Add(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
			} else {
				w.create(t, id, 1, 0)
			}
			documents := func() []map[string]any {
				return []map[string]any{w.Data("posts/" + id), w.Data("posts/" + id + "/counter_rollup/base")}
			}
			before := documents()
			for _, path := range []string{"posts/p1", "pages/hello"} {
				for _, field := range []string{"comments", "stars", "stats.comments"} {
					got, err := w.imports(t, id, extension.Source{Path: path, Field: field})
					if !errors.Is(err, extension.ErrInvalidSource) || !strings.Contains(fmt.Sprint(err), "counts documents") {
						t.Errorf("hosted %v, %s of %s: %+v, %v; want ErrInvalidSource", hosted, field, path, got, err)
					}
				}
			}
			if diff := cmp.Diff(before, documents()); diff != "" {
				t.Errorf("hosted %v: (-before +after)\n%s", hosted, diff)
			}
		}
	})
}

// An import whose commit's answer is lost, refused or slow is applied once.
func TestImportUnderFaults(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]emulator.Verdict{
		"none":        {},
		"answer lost": {After: unavailable},
		"not applied": {Before: unavailable},
		"contention":  {Before: aborted},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t, layout.Place{})
			w.create(t, "a", 2, 10)
			w.Merge("pages/hello", map[string]any{"views": 1000})
			var met atomic.Bool
			w.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
				if met.CompareAndSwap(false, true) {
					return verdict
				}
				return emulator.Verdict{}
			})
			if got, err := w.imports(t, "a", extension.Source{Path: "pages/hello", Field: "views"}); err != nil || got.Added != 1000 {
				t.Errorf("%+v, %v", got, err)
			}
			w.wantExact(t, "a", "total", 1010)
			if total := w.Data("counters/a")["total"]; total != int64(1010) {
				t.Errorf("total %d, want 1010", total)
			}
		})
	}
}

// An import leaves no drift behind where the total has come to the end of an int64. What a base or a total has no room
// for is refused, and nothing is changed.
func TestImportBeyondAnInt64(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]struct {
		total, count, views, waits, want int64
		refused                          error
	}{
		"beyond the largest":      {math.MaxInt64 - 10, -100, 50, 0, math.MaxInt64 - 110, book.ErrBeyond},
		"up to the largest":       {math.MaxInt64 - 50, -100, 50, 0, math.MaxInt64 - 100, nil},
		"into a total beyond it":  {math.MaxInt64 - 70, 100, 50, 0, math.MaxInt64 - 70, book.ErrBeyond},
		"of a sum at the largest": {0, 0, math.MaxInt64, 7, math.MaxInt64, nil},
		"of that into another":    {1, 0, math.MaxInt64, 7, 1, book.ErrBeyond},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			w := newWorld(t, layout.Place{})
			c := w.create(t, "a", 2, s.total)
			if s.count != 0 {
				if err := c.Add(t.Context(), s.count); err != nil {
					t.Fatal(err)
				}
			}
			w.rollUp(t, "a")
			w.Merge("pages/hello", map[string]any{"views": s.views})
			w.Merge("pages/hello/_counter_shards_/x", map[string]any{"views": s.waits})
			if got, err := w.imports(t, "a", extension.Source{Path: "pages/hello", Field: "views"}); !errors.Is(err, s.refused) || err == nil && got.Value != s.views {
				t.Errorf("%+v, %v; want %d, %v", got, err, s.views, s.refused)
			}
			if r := w.rollUp(t, "a"); r.After != s.want || r.Drift != 0 {
				t.Errorf("%+v, want %d and no drift", r, s.want)
			}
		})
	}
}

// What the extension's documents hold together is one sum: document by document it would depend on their order.
func TestImportIsOneSum(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, layout.Place{})
		w.create(t, "a", 1, 0)
		for path, n := range map[string]int64{"pages/hello": math.MaxInt64, "pages/hello/_counter_shards_/x": 5, "pages/hello/_counter_shards_/y": -10} {
			w.Merge(path, map[string]any{"visits": n})
		}
		want := extension.Imported{Value: math.MaxInt64 - 5, Added: math.MaxInt64 - 5}
		if got, err := w.imports(t, "a", visits); err != nil || got != want {
			t.Errorf("import: %+v, %v; want %+v", got, err, want)
		}
	})
}

// What a source has counted since it was imported last is added whole, or not at all.
func TestImportOfADifferenceBeyondAnInt64(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, layout.Place{})
		w.create(t, "a", 1, 0)
		for _, s := range []struct {
			views, added, want int64
			refused            error
		}{
			{-2, -2, -2, nil},
			{math.MaxInt64, 0, -2, book.ErrBeyond},
			{math.MaxInt64 - 2, math.MaxInt64, math.MaxInt64 - 2, nil},
		} {
			w.Merge("pages/hello", map[string]any{"views": s.views})
			got, err := w.imports(t, "a", extension.Source{Path: "pages/hello", Field: "views"})
			if !errors.Is(err, s.refused) || got.Added != s.added {
				t.Errorf("an import of %d: %+v, %v; want %d that are added, %v", s.views, got, err, s.added, s.refused)
			}
			w.wantExact(t, "a", "total", s.want)
		}
	})
}

// An import whose first commit is late tells what that has brought, and not what the
// second would have.
func TestImportTellsWhatALateCommitBrought(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, layout.Place{})
		w.create(t, "a", 1, 0)
		add := func(n int) {
			w.Merge("pages/hello/_counter_shards_/one", map[string]any{"visits": firestore.Increment(n)})
		}
		add(10)
		w.Late(func() { add(2) })
		for _, want := range []extension.Imported{{Value: 10, Added: 10}, {Value: 12, Added: 2}, {Value: 12}} {
			if got, err := w.imports(t, "a", visits); err != nil || got != want {
				t.Errorf("import: %+v, %v; want %+v", got, err, want)
			}
			w.wantExact(t, "a", "total", want.Value)
		}
	})
}

// An import that is refused while an earlier attempt of it is on its way is not refused: that may
// yet be applied.
func TestRefusedInDoubtIsUnknown(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, layout.Place{})
		w.create(t, "a", 1, 0)
		w.Merge("pages/hello", map[string]any{"visits": 7})
		var held *firestorepb.CommitRequest
		w.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
			w.Server.SetInterceptor(nil)
			held = req
			w.Merge("pages/hello", map[string]any{"visits": 0.5})
			return emulator.Verdict{Before: unavailable}
		})
		if _, err := w.imports(t, "a", visits); !errors.Is(err, store.ErrDoubt) || !errors.Is(err, store.ErrNotInteger) {
			t.Errorf("import: %v, want ErrDoubt and ErrNotInteger", err)
		}
		if _, err := firestorepb.NewFirestoreClient(w.Conn()).Commit(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		w.wantExact(t, "a", "total", 7)
	})
}

// An import reads the document and the shards of the extension as of one time, though its workers
// move counts from these to that.
func TestImportReadsItsSourceAtOneTime(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, layout.Place{})
		w.create(t, "a", 1, 0)
		w.Merge("pages/hello", map[string]any{"visits": 100})
		w.Merge("pages/hello/_counter_shards_/one", map[string]any{"visits": 10})
		page := w.fs.Doc("pages/hello")
		queries := 0
		move := func() {
			if queries++; queries != 2 { // the first looks whether there is anything
				return
			}
			if err := w.fs.RunTransaction(t.Context(), func(_ context.Context, tx *firestore.Transaction) error {
				return errors.Join(tx.Set(page, map[string]any{"visits": 110}), tx.Delete(page.Collection("_counter_shards_").Doc("one")))
			}); err != nil {
				t.Error(err)
			}
		}
		db := w.open(t, grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, called string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			if strings.HasSuffix(called, "/RunQuery") {
				move()
			}
			return streamer(ctx, desc, cc, called, opts...)
		}))
		want := extension.Imported{Value: 110, Added: 110}
		if got, err := extension.Import(t.Context(), db, "a", visits); err != nil || got != want {
			t.Errorf("import: %+v, %v; want %+v", got, err, want)
		}
		if got := w.Data("pages/hello")["visits"]; got != int64(110) {
			t.Errorf("the page holds %v, want 110: nothing was moved beside the import", got)
		}
	})
}

// A field that nothing has counted is a typo, and changes nothing: not a document of the app's
// either, which a roll-up would set to the sum of its shards, 0.
func TestImportOfAFieldThatNothingHasCounted(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := newWorld(t, layout.Place{Counters: "pages/{page}", Fields: "visits", Hosted: true})
		w.Merge("pages/hello", map[string]any{"visits": 42, "stats": map[string]any{"views": 1.0, "name": "x"}})
		_, err := w.imports(t, "hello", extension.Source{Path: "pages/hello", Field: "vists"})
		if !errors.Is(err, extension.ErrInvalidSource) || !strings.HasSuffix(err.Error(), "these are numbers: stats.views, visits") {
			t.Errorf("%v, want the numbers that are there", err)
		}
		if got := w.Data("pages/hello")["visits"]; got != int64(42) {
			t.Errorf("visits are %v, want 42 as before", got)
		}
		// What has counted to 0, or only waits, is none.
		w.Merge("pages/zero", map[string]any{"visits": 0})
		w.Merge("pages/waits/_counter_shards_/\t1", map[string]any{"_updates_": []any{map[string]any{"_data_": map[string]any{"visits": 5}}}})
		for page, added := range map[string]int64{"zero": 0, "waits": 5} {
			got, err := w.imports(t, "hello", extension.Source{Path: "pages/" + page, Field: "visits"})
			if err != nil || got.Added != added {
				t.Errorf("%s: %+v, %v; want %d", page, got, err, added)
			}
		}
	})
}
