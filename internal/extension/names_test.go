package extension_test

import (
	"testing"

	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
)

// What was counted by another name, such as the default one, is shown in the place of the extension's number from then
// on. An import brings that number back.
func TestImportInPlaceOfWhatWasShownByAnotherName(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for _, rolledUp := range []bool{false, true} {
			i := virtual.Start(t)
			first := layout.Place{Counters: "pages/{page}", Fields: "total=count", Hosted: true}
			second := first
			second.Fields = "visits=count"
			p := pagesOf(t, i)
			p.set(p.page, map[string]any{"title": "Hello", "visits": 1000})
			p.set(p.inbox.Doc("a"), map[string]any{"visits": 22})
			w := worldOf(t, i, first)
			if err := w.counter(t, "hello").Add(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
			w.rollUp(t, "hello")
			w = worldOf(t, i, second)
			if rolledUp {
				w.rollUp(t, "hello")
			}
			got, err := w.imports(t, "hello", extension.Source{Path: "pages/hello", Field: "visits"})
			if err != nil || got.Value != 1027 {
				t.Errorf("rolled up %t: %+v, %v; want 1027", rolledUp, got, err)
			}
		}
	})
}

// A field is counted in another field of the shards from then on. The number that it has replaced before is kept.
func TestImportInPlaceOfAFieldThatIsCountedElsewhere(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		i := virtual.Start(t)
		first := layout.Place{Counters: "pages/{page}", Fields: "visits", Hosted: true}
		second := first
		second.Fields = "visits=n"
		p := pagesOf(t, i)
		p.set(p.page, map[string]any{"title": "Hello", "visits": 1000})
		p.set(p.inbox.Doc("a"), map[string]any{"visits": 22})
		for n, place := range []layout.Place{first, second} {
			w := worldOf(t, i, place)
			if err := w.counter(t, "hello").Add(t.Context(), int64(5-3*n)); err != nil {
				t.Fatal(err)
			}
			w.rollUp(t, "hello")
		}
		if got, err := worldOf(t, i, second).imports(t, "hello", visits); err != nil || got.Value != 1024 {
			t.Errorf("%+v, %v; want 1024", got, err)
		}
	})
}

// Shards had a field before FIELDS did, and something has made it a text. The extension's number is kept all the same.
func TestImportInPlaceBesideAText(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		i := virtual.Start(t)
		older := worldOf(t, i, layout.Place{Counters: "pages/{page}", Fields: "likes", Hosted: true})
		p := pagesOf(t, i)
		p.set(p.page, map[string]any{"title": "Hello", "visits": 1000})
		p.set(p.page.Collection("shards").Doc("0"), map[string]any{"visits": "x"})
		p.set(p.page.Collection("shards").Doc("1"), map[string]any{"visits": 5})
		older.rollUp(t, "hello")
		p.rollUpAll()
		p.wantPage(5, 0)
		p.wantImport(visits, 1005, 1000)
	})
}

// An app's document is deleted, and put back as it was: what it shows is what was counted.
func TestImportInPlaceOfADocumentThatIsPutBack(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		p := newPages(t)
		p.set(p.page, map[string]any{"title": "Hello"})
		if err := p.hello().Add(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		p.rollUpAll()
		p.wantPage(5, 0)
		was, err := p.page.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.page.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.rollUpAll()
		p.set(p.page, was.Data())
		p.rollUpAll()
		p.wantPage(5, 0)
		p.wantImport(visits, 5, 0)
	})
}

// A field is hidden for a while, and shown again: what it shows then is what was counted.
func TestImportInPlaceOfAFieldThatWasHidden(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		p := newPages(t)
		p.set(p.page, map[string]any{"title": "Hello"})
		if err := p.hello().Add(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		p.rollUpAll()
		p.wantPage(5, 0)
		place := p.place
		place.Fields = "likes"
		w := worldOf(t, p.Firestore, place)
		if err := w.counter(t, "hello").Add(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		w.rollUp(t, "hello")
		p.rollUpAll()
		p.wantPage(5, 1)
		p.wantImport(visits, 5, 0)
	})
}
