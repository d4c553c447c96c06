package extension_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/shards"
)

// pages is a deployment that counts on pages of an app, which the extension has counted on so far.
type pages struct {
	*world
	t     *testing.T
	page  *firestore.DocumentRef
	inbox *firestore.CollectionRef // the extension's shards
}

var visits = extension.Source{Path: "pages/hello", Field: "visits"}

func newPages(t *testing.T) *pages {
	t.Helper()
	return pagesOf(t, virtual.Start(t))
}

func pagesOf(t *testing.T, i *virtual.Firestore) *pages {
	t.Helper()
	w := worldOf(t, i, layout.Place{Counters: "pages/{page}", Fields: "visits,likes", Hosted: true})
	page := w.fs.Doc("pages/hello")
	return &pages{w, t, page, page.Collection("_counter_shards_")}
}

func (p *pages) hello() shards.Counter { return p.counter(p.t, "hello") }

func (p *pages) rollUpAll() { p.t.Helper(); p.rollUp(p.t, "hello") }

func (p *pages) set(ref *firestore.DocumentRef, data map[string]any) {
	p.t.Helper()
	if _, err := ref.Set(p.t.Context(), data, firestore.MergeAll); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pages) importOf(source extension.Source) (extension.Imported, error) {
	return p.imports(p.t, "hello", source)
}

// waiting is what the extension's shards hold of a field.
func (p *pages) waiting(field string) (sum int64) {
	p.t.Helper()
	docs, err := p.inbox.Documents(p.t.Context()).GetAll()
	if err != nil {
		p.t.Fatal(err)
	}
	number := func(v any) int64 {
		if d, ok := v.(float64); ok {
			return int64(d)
		}
		n, _ := v.(int64)
		return n
	}
	for _, doc := range docs {
		sum += number(doc.Data()[field])
		updates, _ := doc.Data()["_updates_"].([]any)
		for _, update := range updates {
			sum += number(update.(map[string]any)["_data_"].(map[string]any)[field])
		}
	}
	return sum
}

// wantPage fails unless the page's document has these counts.
func (p *pages) wantPage(visits, likes int64) {
	p.t.Helper()
	snap, err := p.page.Get(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	if data := snap.Data(); data["visits"] != visits || data["likes"] != likes || data["title"] != "Hello" {
		p.t.Errorf("the page is %v, want %d visits and %d likes", data, visits, likes)
	}
}

func (p *pages) wantImport(source extension.Source, value, added int64) {
	p.t.Helper()
	if got, err := p.importOf(source); err != nil || got != (extension.Imported{Value: value, Added: added, InPlace: !strings.Contains(source.Field, ".")}) {
		p.t.Errorf("import of %s: %+v, %v; want %d of %d", source.Field, got, err, added, value)
	}
}

// What the extension has counted on a page is counted on from there, and no number on it changes
// but by what it held back.
func TestImportInPlace(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		p := newPages(t)
		p.set(p.page, map[string]any{"title": "Hello", "visits": 1000, "likes": 7})
		one := p.inbox.Doc("2f1c9a5e-0000-4000-8000-000000000001")
		p.set(one, map[string]any{"visits": 3, "likes": 1})
		p.set(p.inbox.Doc("2f1c9a5e-0000-4000-8000-000000000002"), map[string]any{"visits": 4.0})
		p.set(p.inbox.Doc("2f1c9a5e-0000-4000-8000-000000000003"), map[string]any{"stats": map[string]any{"visits": 5}})
		// Partial sums: what workers have added up, and what they have moved on already.
		p.set(p.inbox.Doc("\t2f1c"), map[string]any{"_updates_": []any{
			map[string]any{"_id_": "x", "_data_": map[string]any{"visits": 20, "likes": 2}},
			map[string]any{"_id_": "y", "_data_": map[string]any{"visits": -5}},
		}})
		p.set(p.inbox.Doc("\t\t\t\t2"), map[string]any{})

		p.wantImport(visits, 1022, 22)
		p.wantPage(1022, 7)
		if got := p.waiting("visits"); got != 0 {
			t.Errorf("%d visits are still in the extension's shards: whoever adds its own to the page's sees them twice", got)
		}
		p.wantImport(visits, 1022, 0)
		p.wantPage(1022, 7)

		// A client that has not moved goes on, and others have.
		p.set(one, map[string]any{"visits": firestore.Increment(10)})
		for range 5 {
			if _, err := p.hello().AddFields(t.Context(), map[string]int64{"visits": 1, "likes": 1}, shards.Key{}); err != nil {
				t.Fatal(err)
			}
		}
		p.rollUpAll()
		p.wantPage(1027, 12)
		p.wantImport(visits, 1037, 10)
		p.wantImport(visits, 1037, 0)
		p.wantImport(extension.Source{Path: "pages/hello", Field: "likes"}, 15, 3)
		p.wantPage(1037, 15)
		if s, err := p.hello().Sum(t.Context()); err != nil || s.Totals["visits"] != 1037 || s.Totals["likes"] != 15 {
			t.Errorf("exact: %+v, %v", s, err)
		}
		// A field that is a map's goes to the counted one of its last name.
		p.wantImport(extension.Source{Path: "pages/hello", Field: "stats.visits"}, 5, 5)
		p.wantImport(extension.Source{Path: "pages/hello", Field: "stats.visits"}, 5, 0)
		p.rollUpAll()
		p.wantPage(1042, 15)

		if err := p.hello().Reset(t.Context(), shards.ResetOptions{}); err != nil {
			t.Fatal(err)
		}
		p.rollUpAll()
		p.wantImport(visits, 0, 0)
		p.wantPage(0, 0)
	})
}

// Cut short at any commit, with answers lost, run twice at a time, and beside the extension's
// clients and ours, an import loses nothing and counts nothing twice.
func TestImportInPlaceUnderFaults(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]emulator.Verdict{
		"cut short":   {Before: status.Error(codes.PermissionDenied, "cut short")},
		"answer lost": {After: unavailable},
		"not applied": {Before: unavailable},
		"contention":  {Before: aborted},
	} {
		for at := range int64(3) { // the base, and two parts of the shards
			virtual.Run(t, fmt.Sprint(name, " at ", at), func(t *testing.T) {
				p := newPages(t)
				p.set(p.page, map[string]any{"title": "Hello", "visits": 1000})
				batch := p.fs.BulkWriter(t.Context())
				for n := range 250 {
					if _, err := batch.Set(p.inbox.Doc(fmt.Sprint("shard-", n)), map[string]any{"visits": 1, "likes": 1}); err != nil {
						t.Fatal(err)
					}
				}
				batch.End()
				var commits atomic.Int64
				p.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) emulator.Verdict {
					if commits.Add(1) == at+1 {
						return verdict
					}
					return emulator.Verdict{}
				})
				_, err := p.importOf(visits)
				if name == "cut short" && status.Code(err) != codes.PermissionDenied || name != "cut short" && err != nil {
					t.Errorf("import: %v", err)
				}
				p.Server.SetInterceptor(nil)
				if snap, err := p.page.Get(t.Context()); err != nil || snap.Data()["visits"].(int64)+p.waiting("visits") != 1250 {
					t.Errorf("the page says %v, %v, and %d wait; want 1250 together", snap.Data()["visits"], err, p.waiting("visits"))
				}

				// Two imports at once, beside clients.
				var all sync.WaitGroup
				for n := range 4 {
					all.Go(func() {
						for range 5 {
							if _, err := p.inbox.Doc(fmt.Sprint("shard-", n)).Set(t.Context(), map[string]any{"visits": firestore.Increment(1)}, firestore.MergeAll); err != nil {
								t.Error(err)
							}
							if err := p.hello().Add(t.Context(), 1); err != nil {
								t.Error(err)
							}
						}
					})
				}
				for range 2 {
					all.Go(func() {
						if _, err := p.importOf(visits); err != nil && !errors.Is(err, extension.ErrCounted) {
							t.Error(err)
						}
						p.rollUpAll()
					})
				}
				all.Wait()
				if _, err := p.importOf(visits); err != nil {
					t.Error(err)
				}
				p.rollUpAll()
				p.wantPage(1290, 0)
				if got := p.waiting("likes"); got != 250 {
					t.Errorf("%d likes are in the extension's shards, want all 250: they were not imported", got)
				}
			})
		}
	}
}

func TestImportInPlaceRefuses(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		p := newPages(t)
		refused := func(want error) {
			t.Helper()
			if _, err := p.importOf(visits); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
			if docs, err := p.page.Collection("counter_rollup").Documents(t.Context()).GetAll(); err != nil || len(docs) > 0 {
				t.Errorf("there is a base %v, %v", docs, err)
			}
		}
		p.set(p.inbox.Doc("a"), map[string]any{"visits": 1})
		refused(book.ErrNotFound) // the page is gone, and what the extension had below it isn't
		p.set(p.page, map[string]any{"visits": 0.5})
		refused(store.ErrNotInteger)
		p.set(p.page, map[string]any{"visits": 1, "likes": 0.5})
		refused(store.ErrNotInteger)
		p.set(p.page, map[string]any{"likes": 1})
		p.set(p.inbox.Doc("b"), map[string]any{"visits": 0.5})
		refused(store.ErrNotInteger)
		p.set(p.inbox.Doc("b"), map[string]any{"visits": 1})
		p.set(p.fs.Doc("_firebase_ext_/sharded_counter"), map[string]any{"timestamp": firestore.ServerTimestamp})
		refused(extension.ErrRuns)
		if got := p.waiting("visits"); got != 2 {
			t.Errorf("%d visits wait, want 2", got)
		}
		// Without HOSTED, the document would be ours.
		ours := worldOf(t, p.Firestore, layout.Place{Counters: "pages/{page}", Fields: "visits"})
		if _, err := ours.imports(t, "hello", visits); !errors.Is(err, extension.ErrInvalidSource) {
			t.Errorf("not hosted: %v, want ErrInvalidSource", err)
		}
	})
}

// What waits in the extension's shards is moved as one sum: shard by shard it depends on their order near the ends of
// int64, and what is cut off there is taken off the extension's shards all the same.
func TestImportInPlaceIsOneSum(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		p := newPages(t)
		p.set(p.page, map[string]any{"title": "Hello", "visits": 0, "likes": 0})
		for id, n := range map[string]int64{"a": math.MaxInt64, "b": 5, "c": -10} {
			p.set(p.inbox.Doc(id), map[string]any{"visits": n})
		}
		p.wantImport(visits, math.MaxInt64-5, math.MaxInt64-5)
		p.wantPage(math.MaxInt64-5, 0)
	})
}

// A sum that doesn't fit is refused, and nothing is taken off.
func TestImportInPlaceBeyondAnInt64(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		p := newPages(t)
		p.set(p.page, map[string]any{"title": "Hello", "visits": 0, "likes": 0})
		for id, n := range map[string]int64{"a": math.MaxInt64, "b": 5} {
			p.set(p.inbox.Doc(id), map[string]any{"visits": n})
		}
		got, err := p.importOf(visits)
		if !errors.Is(err, book.ErrBeyond) {
			t.Errorf("import: %+v, %v, want an ErrBeyond", got, err)
		}
		for id, want := range map[string]int64{"a": math.MaxInt64, "b": 5} {
			snap, err := p.inbox.Doc(id).Get(t.Context())
			if err != nil || snap.Data()["visits"] != want {
				t.Errorf("the extension's shard %s holds %v, %v, want %d", id, snap.Data(), err, want)
			}
		}
	})
}

// A shard of the extension's at the smallest integer is moved, in two imports: no increment takes it off at once.
func TestImportInPlaceOfTheSmallestInteger(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		p := newPages(t)
		p.set(p.page, map[string]any{"title": "Hello", "visits": 100, "likes": 0})
		p.set(p.inbox.Doc("a"), map[string]any{"visits": int64(math.MinInt64)})
		for range 3 {
			got, err := p.importOf(visits)
			if err != nil || got.Value+p.waiting("visits") != math.MinInt64+100 {
				t.Errorf("import: %+v, %v, and %d wait, want %d together", got, err, p.waiting("visits"), math.MinInt64+100)
			}
		}
		p.wantPage(math.MinInt64+100, 0)
	})
}

// An extension that was uninstalled has written nothing of late, and its clients go on.
func TestImportInPlaceAfterTheExtension(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		p := newPages(t)
		p.set(p.page, map[string]any{"title": "Hello", "visits": 10})
		p.set(p.inbox.Doc("a"), map[string]any{"visits": 2})
		p.set(p.fs.Doc("_firebase_ext_/sharded_counter"), map[string]any{"timestamp": firestore.ServerTimestamp})
		for _, minutes := range []time.Duration{0, 4} {
			time.Sleep(minutes * time.Minute)
			p.set(p.inbox.Doc("a"), map[string]any{"visits": firestore.Increment(1)})
			if _, err := p.importOf(visits); !errors.Is(err, extension.ErrRuns) {
				t.Errorf("%d minutes after the extension has last run: %v, want ErrExtensionRuns", minutes, err)
			}
		}
		time.Sleep(2 * time.Minute)
		p.wantImport(visits, 14, 4)
		p.wantPage(14, 0)
	})
}

func TestImportInPlaceTellsWhatALateCommitBrought(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		p := newPages(t)
		p.set(p.page, map[string]any{"title": "Hello", "visits": 1000})
		p.wantImport(visits, 1000, 0)
		p.set(p.inbox.Doc("a"), map[string]any{"visits": 10})
		p.Late(func() { p.set(p.inbox.Doc("a"), map[string]any{"visits": firestore.Increment(2)}) })
		p.wantImport(visits, 1010, 10)
		p.wantPage(1010, 0)
		p.wantImport(visits, 1012, 2)
		p.wantPage(1012, 0)
	})
}

// A reset's answer is lost, and an import of several commits follows: the reset knows that it was applied, and what
// came after it stays.
func TestAResetInDoubtBesideALargeImport(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		const waiting = 3 * 200 // of which one commit moves 200
		p := newPages(t)
		p.set(p.page, map[string]any{"title": "Hello", "visits": 1000})
		p.wantImport(visits, 1000, 0)
		batch := p.fs.BulkWriter(t.Context())
		for n := range waiting {
			if _, err := batch.Set(p.inbox.Doc(fmt.Sprint("shard-", n)), map[string]any{"visits": 1}); err != nil {
				t.Fatal(err)
			}
		}
		batch.End()
		p.AfterLost(func() { p.wantImport(visits, waiting, waiting) })
		if err := p.hello().Reset(t.Context(), shards.ResetOptions{}); err != nil {
			t.Fatal(err)
		}
		p.wantPage(waiting, 0)
		p.rollUpAll()
		p.wantPage(waiting, 0)
	})
}

// An extension that was told to run less often than it has to be quiet for longer: until it would have run again.
func TestImportInPlaceWaitsForASlowSchedule(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		p := newPages(t)
		p.set(p.page, map[string]any{"visits": 1})
		all := func() error { _, err := p.importAll(t.Context(), extension.ImportAllOptions{}); return err }
		one := func() error { _, err := p.importOf(visits); return err }
		run := func() {
			p.set(p.fs.Doc("_firebase_ext_/sharded_counter"), map[string]any{"timestamp": firestore.ServerTimestamp})
		}

		run()
		time.Sleep(20 * time.Minute)
		run()
		for _, wait := range []time.Duration{0, 6 * time.Minute, 14 * time.Minute} { // 20 in all
			time.Sleep(wait)
			for name, imports := range map[string]func() error{"one": one, "all": all} {
				if err := imports(); !errors.Is(err, extension.ErrRuns) {
					t.Errorf("%s, %v later: %v, want ErrRuns", name, wait, err)
				}
			}
		}
		p.wantPage2(1)
		time.Sleep(90 * time.Second)
		for name, imports := range map[string]func() error{"one": one, "all": all} {
			if err := imports(); err != nil {
				t.Errorf("%s, once it would have run again: %v", name, err)
			}
		}
		time.Sleep(2 * time.Hour)
		if err := all(); err != nil {
			t.Errorf("hours later: %v", err)
		}
	})
}

// What is no number is not taken over, and stays as it is: the import says so, of one document and of all.
func TestImportInPlaceNamesWhatNoTotalReplaces(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for _, value := range []any{[]any{"uid-1"}, map[string]any{"uid-1": true}, "1024"} {
			p := newPages(t)
			p.set(p.page, map[string]any{"title": "Hello", "visits": value})
			p.set(p.inbox.Doc("a"), map[string]any{"visits": 5})
			_, err := p.importOf(visits)
			if !errors.Is(err, extension.ErrInvalidSource) || !strings.Contains(err.Error(), "no total replaces") {
				t.Errorf("an import of %v: %v", value, err)
			}
			found, err := p.importAll(t.Context(), extension.ImportAllOptions{})
			if d := found["pages/hello"]; err != nil || d.Outcome != extension.Failed || !strings.Contains(d.Error, "no total replaces") {
				t.Errorf("an import of all, with %v: %+v, %v", value, d, err)
			}
			snap, err := p.page.Get(t.Context())
			if err != nil || !reflect.DeepEqual(snap.Data()["visits"], value) || p.waiting("visits") != 5 {
				t.Errorf("the page is %v, %v, and %d waits; want %v, and 5", snap.Data(), err, p.waiting("visits"), value)
			}
		}
	})
}
