package shards_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/google/go-cmp/cmp"

	"github.com/firestore-counters/counters/shards"
)

func TestImportExtension(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "hello", 3)
	if err := c.Add(t.Context(), 7); err != nil { // of clients that have moved already
		t.Fatal(err)
	}
	page := w.fs.Collection("pages").Doc("hello")
	inbox := page.Collection("_counter_shards_")
	set := func(ref *firestore.DocumentRef, data map[string]any) {
		t.Helper()
		if _, err := ref.Set(t.Context(), data, firestore.MergeAll); err != nil {
			t.Fatal(err)
		}
	}
	source := shards.ExtensionCounter{Path: "pages/hello", Field: "stats.views"}
	want := func(value, added, sum int64) {
		t.Helper()
		got, err := c.ImportExtension(t.Context(), source)
		if err != nil || got != (shards.Import{Value: value, Added: added}) {
			t.Errorf("import: %+v, %v; want %d of %d", got, err, added, value)
		}
		w.wantSum(t, "hello", sum)
		if total := w.total(t, "hello"); total != sum-7 { // the 7 are not rolled up
			t.Errorf("total %d, want %d", total, sum-7)
		}
	}
	set(page, map[string]any{"title": "Hello", "views": 99, "stats": map[string]any{"views": 1000, "likes": 5}})
	set(inbox.Doc("2f1c9a5e-0000-4000-8000-000000000001"), map[string]any{"stats": map[string]any{"views": 3, "likes": 1}})
	set(inbox.Doc("2f1c9a5e-0000-4000-8000-000000000002"), map[string]any{"stats": map[string]any{"views": 4.0}})
	set(inbox.Doc("2f1c9a5e-0000-4000-8000-000000000003"), map[string]any{"stats": "nothing that counts"})
	// A partial sum: what workers have added up, and what has been moved on already.
	set(inbox.Doc("\t2f1c"), map[string]any{"_updates_": []any{
		map[string]any{"_id_": "x", "_data_": map[string]any{"stats": map[string]any{"views": 20}}},
		map[string]any{"_id_": "y", "_data_": map[string]any{"stats": map[string]any{"views": -5, "likes": 2}}},
	}})
	want(1022, 1022, 1029)
	want(1022, 0, 1029) // again

	// Its clients go on, and its workers move a shard's count to the document.
	set(inbox.Doc("2f1c9a5e-0000-4000-8000-000000000001"), map[string]any{"stats": map[string]any{"views": 10}})
	want(1029, 7, 1036)
	set(page, map[string]any{"stats": map[string]any{"views": 1010}})
	if _, err := inbox.Doc("2f1c9a5e-0000-4000-8000-000000000001").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(1029, 0, 1036)

	// Another counter of the same document adds to what is there.
	if got, err := c.ImportExtension(t.Context(), shards.ExtensionCounter{Path: "pages/hello", Field: "views"}); err != nil || got.Added != 99 {
		t.Errorf("another field: %+v, %v", got, err)
	}
	want(1029, 0, 1135)
}

func TestImportRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	client := w.open(t, shards.Config{})
	c := w.counter(t, client, "a", 1)
	if _, err := w.fs.Collection("pages").Doc("half").Set(t.Context(), map[string]any{"views": 0.5}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		path, field string
		want        error
	}{
		{"pages", "views", shards.ErrInvalidSource},
		{"", "views", shards.ErrInvalidSource},
		{"pages/hello/", "views", shards.ErrInvalidSource},
		{"pages/hello", "", shards.ErrInvalidSource},
		{"pages/hello", "a..b", shards.ErrInvalidSource},
		{"pages/hello", ".views", shards.ErrInvalidSource},
		{"pages/nothing", "views", shards.ErrInvalidSource},
		{"counters/a", "total", shards.ErrInvalidSource},
		{"pages/half", "views", shards.ErrNotInteger},
	} {
		if _, err := c.ImportExtension(t.Context(), shards.ExtensionCounter{Path: s.path, Field: s.field}); !errors.Is(err, s.want) {
			t.Errorf("%q of %q: %v, want %v", s.field, s.path, err, s.want)
		}
	}
	w.wantSum(t, "a", 0)
}

// What counts documents takes no sums: neither does another field in its place, without a word.
func TestImportIntoAFieldThatCountsDocuments(t *testing.T) {
	t.Parallel()
	for _, hosted := range []bool{false, true} {
		w := newWorld(t)
		client := w.open(t, shards.Config{Counters: "posts/{post}", Fields: "likes,comments=count(comments),stars=sum(ratings.stars)", Hosted: hosted})
		for _, path := range []string{"posts/p1", "pages/hello"} {
			data := map[string]any{"comments": 70, "stars": 9, "stats": map[string]any{"comments": 70}}
			if _, err := w.fs.Doc(path).Set(t.Context(), data); err != nil {
				t.Fatal(err)
			}
		}
		post := handle(t, client, "p1")
		if hosted {
			if err := post.Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		} else {
			post = w.counter(t, client, "p2", 1)
		}
		before := documents(t, w, "posts/"+post.ID())
		for _, path := range []string{"posts/p1", "pages/hello"} {
			for _, field := range []string{"comments", "stars", "stats.comments"} {
				got, err := post.ImportExtension(t.Context(), shards.ExtensionCounter{Path: path, Field: field})
				if !errors.Is(err, shards.ErrInvalidSource) || !strings.Contains(fmt.Sprint(err), "counts documents") {
					t.Errorf("hosted %v, %s of %s: %+v, %v; want ErrInvalidSource", hosted, field, path, got, err)
				}
			}
		}
		if diff := cmp.Diff(before, documents(t, w, "posts/"+post.ID())); diff != "" {
			t.Errorf("hosted %v: (-before +after)\n%s", hosted, diff)
		}
	}
}

// documents are a document and its ledger.
func documents(t *testing.T, w *world, path string) (data []map[string]any) {
	t.Helper()
	for _, name := range []string{path, path + "/counter_rollup/ledger"} {
		doc, err := w.fs.Doc(name).Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, doc.Data())
	}
	return data
}
