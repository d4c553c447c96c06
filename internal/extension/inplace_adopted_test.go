package extension_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// The same where the page held as much as has been counted since, which the first roll-up leaves as it is, and
// where a revision that doesn't show the field has rolled that up.
func TestImportInPlaceAfterAdoptionOfTheSameNumber(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for _, counted := range []string{"", "another field", "and rolled up"} { // so that the base is there
			p := newPages(t)
			p.set(p.page, map[string]any{"title": "Hello", "visits": 1})
			older := worldOf(t, p.Firestore, layout.Place{Counters: "pages/{page}", Fields: "likes", Hosted: true})
			if counted != "" {
				if err := older.counter(t, "hello").Add(t.Context(), 2); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.hello().Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if counted == "and rolled up" {
				older.rollUp(t, "hello")
			}
			p.rollUpAll()
			p.wantImport(visits, 2, 1)
			p.wantImport(visits, 2, 0)
		}
	})
}

// A total beyond an integer of Firestore's can't be shown: the import is refused, and nothing is moved.
func TestImportInPlaceIntoATotalAtItsEnd(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		p := newPages(t)
		p.set(p.page, map[string]any{"title": "Hello"})
		p.set(p.page.Collection("shards").Doc("0"), map[string]any{"visits": int64(math.MinInt64)})
		p.rollUpAll()
		p.set(p.inbox.Doc("a"), map[string]any{"visits": -10})
		if got, err := p.importOf(visits); !errors.Is(err, book.ErrBeyond) {
			t.Errorf("%+v, %v; want ErrBeyond", got, err)
		}
		p.wantPage(math.MinInt64, 0)
		if held := p.waiting("visits"); held != -10 {
			t.Errorf("%d wait, want -10", held)
		}
	})
}

// Increments came before the import, and a roll-up may have replaced the numbers: the base has kept them.
func TestImportInPlaceAfterAdoption(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for _, rolledUp := range []bool{false, true} {
			p := newPages(t)
			p.set(p.page, map[string]any{"title": "Hello", "visits": 1000, "likes": 7})
			p.set(p.inbox.Doc("a"), map[string]any{"visits": 22})
			for range 5 {
				if err := p.hello().Add(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
			}
			if rolledUp {
				p.rollUpAll()
				p.wantPage(5, 0)
			}
			p.wantImport(visits, 1027, 1022)
			p.wantImport(visits, 1027, 0)
			p.wantImport(extension.Source{Path: "pages/hello", Field: "likes"}, 7, 7)
			p.rollUpAll()
			p.wantPage(1027, 7)
			p.set(p.inbox.Doc("b"), map[string]any{"visits": 3}) // by a client that has not moved yet
			p.wantImport(visits, 1030, 3)
			p.wantPage(1030, 7)
		}
	})
}

// A field that FIELDS shows later than others: whether its import comes before that, or after a
// roll-up by events or a reconcile has set it to what was counted, its number is there in the end.
func TestImportInPlaceOfAFieldThatIsShownLater(t *testing.T) {
	t.Parallel()
	likes := extension.Source{Path: "pages/hello", Field: "likes"}
	for name, before := range map[string]func(*testing.T, *pages){
		"nothing":   func(*testing.T, *pages) {},
		"reconcile": func(_ *testing.T, p *pages) { p.rollUpAll() },
		"a rebase of another field": func(t *testing.T, p *pages) {
			if err := p.hello().Rebase(t.Context(), 1001); err != nil {
				t.Error(err)
			}
		},
		"an event": func(t *testing.T, p *pages) {
			client, err := rollup.Open(t.Context(), rollup.Config{Place: p.place}, option.WithGRPCConn(p.Conn()))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			roller := rollup.NewRoller(client, rollup.RollerOptions{})
			defer roller.Close(t.Context())
			docs, err := p.page.Collection("shards").Where("visits", "==", 1).Documents(t.Context()).GetAll()
			if err != nil || len(docs) != 1 {
				t.Fatalf("%d shards hold a visit, %v", len(docs), err)
			}
			shard := docs[0]
			change := rollup.Change{Counter: "hello", Shard: shard.Ref.ID, Fields: []string{"visits"}, At: shard.UpdateTime}
			if err := roller.Add(t.Context(), change); err != nil {
				t.Fatal(err)
			}
			p.wantPage(1001, 0)
		},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			i := virtual.Start(t)
			older := worldOf(t, i, layout.Place{Counters: "pages/{page}", Fields: "visits", Hosted: true})
			p := pagesOf(t, i)
			p.set(p.page, map[string]any{"title": "Hello", "visits": 1000, "likes": 70})
			p.set(p.inbox.Doc("a"), map[string]any{"likes": 3})
			if got, err := older.imports(t, "hello", visits); err != nil || got.Value != 1000 {
				t.Fatalf("%+v, %v", got, err)
			}
			if err := older.counter(t, "hello").Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			before(t, p)
			p.wantImport(likes, 73, 73)
			p.wantImport(likes, 73, 0)
			p.rollUpAll()
			p.wantPage(1001, 73)
		})
	}
}

// A field that was taken over in place is shown by another name from then on. What is left in its place is
// what the counter has counted, and is imported into that no more; nor is a field taken over in place
// whose number was imported into another one.
func TestImportInPlaceAndIntoAnotherField(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		i := virtual.Start(t)
		place := layout.Place{Counters: "pages/{page}", Fields: "visits=n", Hosted: true}
		renamed := place
		renamed.Fields = "hits=n"
		for _, first := range []layout.Place{place, renamed} {
			second := place
			if first == place {
				second = renamed
			}
			id := "first-" + first.Fields[:4]
			source := extension.Source{Path: "pages/" + id, Field: "visits"}
			p := pagesOf(t, i)
			page := p.fs.Doc(source.Path)
			p.set(page, map[string]any{"visits": 1000})
			p.set(page.Collection("_counter_shards_").Doc("a"), map[string]any{"visits": 22})
			w := worldOf(t, i, first)
			if got, err := w.imports(t, id, source); err != nil || got.Value != 1022 {
				t.Fatalf("%+v, %v", got, err)
			}
			if err := w.counter(t, id).Add(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
			w.rollUp(t, id)
			if got, err := worldOf(t, i, second).imports(t, id, source); !errors.Is(err, extension.ErrInvalidSource) {
				t.Errorf("after %s: %+v, %v; want ErrInvalidSource", first.Fields, got, err)
			}
			p.set(page.Collection("_counter_shards_").Doc("b"), map[string]any{"visits": 3})
			if got, err := w.imports(t, id, source); err != nil || got.Added != 3 {
				t.Errorf("%s again: %+v, %v; want 3 more", first.Fields, got, err)
			}
			w.rollUp(t, id)
			if total := w.Data(source.Path)[w.db.Layout.Sharded[0].Name]; total != int64(1030) {
				t.Errorf("%s: %v, want 1030", first.Fields, total)
			}
		}
	})
}

// A document with shards of ours, which nothing has rolled up: what its field holds may be what
// these have come to.
func TestImportInPlaceBesideShards(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		p := newPages(t)
		p.set(p.page, map[string]any{"title": "Hello", "visits": 1000})
		p.set(p.inbox.Doc("a"), map[string]any{"visits": 22})
		p.set(p.page.Collection("shards").Doc("0"), map[string]any{"visits": 5})
		if _, err := p.importOf(visits); !errors.Is(err, extension.ErrCounted) {
			t.Errorf("%v, want ErrCounted", err)
		}
		if l := p.Data("pages/hello/counter_rollup/base"); l != nil || p.waiting("visits") != 22 {
			t.Errorf("a base %v, and %d wait; want that nothing has changed", l, p.waiting("visits"))
		}
		p.rollUpAll()
		p.wantImport(visits, 1027, 1022)
		p.wantPage(1027, 0)
	})
}

// What the first roll-up has replaced does not come back with an import once the field was set to
// something else.
func TestImportInPlaceAfterTheFieldWasSet(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]struct {
		command func(ctx context.Context, c shards.Counter) error
		visits  int64
	}{
		"rebase": {func(ctx context.Context, c shards.Counter) error { return c.Rebase(ctx, 1005) }, 1005},
		"reset":  {func(ctx context.Context, c shards.Counter) error { return c.Reset(ctx, shards.ResetOptions{}) }, 0},
	} {
		virtual.Run(t, name, func(t *testing.T) {
			p := newPages(t)
			p.set(p.page, map[string]any{"title": "Hello", "visits": 1000, "likes": 7})
			p.set(p.inbox.Doc("a"), map[string]any{"visits": 22})
			if err := p.hello().Add(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
			p.rollUpAll()
			p.wantPage(5, 0)
			if err := set.command(t.Context(), p.hello()); err != nil {
				t.Fatal(err)
			}
			p.rollUpAll()
			p.wantImport(visits, set.visits+22, 22)
			p.rollUpAll()
			p.wantPage(set.visits+22, 0)
			// A field that was only shown still has what it held.
			if name == "rebase" {
				p.wantImport(extension.Source{Path: "pages/hello", Field: "likes"}, 7, 7)
			}
		})
	}
}

// Whoever deletes the base after an import sets the field to what it was. A later import takes
// what waits, and no more.
func TestImportInPlaceAfterTheBaseWasDeleted(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		p := newPages(t)
		p.set(p.page, map[string]any{"title": "Hello", "visits": 1000, "likes": 0})
		if err := p.hello().Add(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		p.rollUpAll()
		p.wantImport(visits, 1005, 1000)
		if _, err := p.page.Collection("counter_rollup").Doc("base").Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.rollUpAll()
		p.wantPage(5, 0)
		if err := p.hello().Rebase(t.Context(), 1005); err != nil {
			t.Fatal(err)
		}
		p.set(p.inbox.Doc("a"), map[string]any{"visits": 2})
		p.wantImport(visits, 1007, 2)
		p.wantPage(1007, 0)
	})
}
