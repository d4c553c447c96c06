package extension_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
)

// importAll imports the visits of all pages, and returns what became of each.
func (p *pages) importAll(ctx context.Context, opts extension.ImportAllOptions) (map[string]extension.Document, error) {
	found := map[string]extension.Document{}
	opts.Report = func(d extension.Document) {
		if _, twice := found[d.Path]; twice {
			p.t.Errorf("%s is reported twice", d.Path)
		}
		found[d.Path] = d
	}
	opts.Parallel = 8
	return found, extension.ImportAll(ctx, p.db, "visits", opts)
}

// outcomes are how many documents came to what.
func outcomes(found map[string]extension.Document) map[extension.Outcome]int {
	n := map[extension.Outcome]int{}
	for _, d := range found {
		n[d.Outcome]++
	}
	return n
}

// Every page that the extension has counted is taken over, and no other document is written. What
// it would do is said before, and done once.
func TestImportAll(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		p := newPages(t)
		const counted = 700 // more than one list
		batch := p.fs.BulkWriter(t.Context())
		put := func(path string, data map[string]any) {
			if _, err := batch.Set(p.fs.Doc(path), data); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]int64{}
		for n := range counted {
			path := fmt.Sprintf("pages/page-%04d", n)
			put(path, map[string]any{"title": "Hello", "visits": n})
			want[path] = int64(n)
			if n%3 == 0 {
				put(path+"/_counter_shards_/one", map[string]any{"visits": 2})
				put(path+"/_counter_shards_/\t2", map[string]any{"_updates_": []any{map[string]any{"_id_": "x", "_data_": map[string]any{"visits": 5}}}})
				want[path] += 7
			}
		}
		put("pages/plain", map[string]any{"title": "nobody counts here"})
		put("pages/new", map[string]any{"title": "only clicks so far"})
		put("pages/new/_counter_shards_/one", map[string]any{"visits": 3})
		want["pages/new"] = 3
		put("pages/half", map[string]any{"visits": 0.5})
		put("pages/gone/_counter_shards_/one", map[string]any{"visits": 9})
		put("elsewhere/a/pages/b", map[string]any{"visits": 1})
		put("other/a/_counter_shards_/one", map[string]any{"visits": 1})
		batch.End()

		took := map[extension.Outcome]int{extension.Taken: counted + 1, extension.Nothing: 1, extension.Failed: 1, extension.Orphaned: 1}
		before := p.Server.Stats().Commits
		found, err := p.importAll(t.Context(), extension.ImportAllOptions{DryRun: true})
		if got := outcomes(found); err != nil || !maps.Equal(got, took) || p.Server.Stats().Commits != before {
			t.Fatalf("a dry run: %v, %v, %d commits; want %v", got, err, p.Server.Stats().Commits-before, took)
		}
		found, err = p.importAll(t.Context(), extension.ImportAllOptions{})
		if got := outcomes(found); err != nil || !maps.Equal(got, took) {
			t.Fatalf("%v, %v; want %v", got, err, took)
		}
		if d := found["pages/half"]; !strings.Contains(d.Error, "0.5") {
			t.Errorf("half a visit: %+v", d)
		}
		for path, value := range want {
			snap, err := p.fs.Doc(path).Get(t.Context())
			if err != nil || snap.Data()["visits"] != value || found[path].Value != value {
				t.Errorf("%s shows %v, %v, and is said to show %d; want %d", path, snap.Data(), err, found[path].Value, value)
			}
		}
		for _, path := range []string{"pages/plain", "elsewhere/a/pages/b"} {
			if snap, err := p.fs.Doc(path).Get(t.Context()); err != nil || snap.Data()["counter_rollup"] != nil {
				t.Errorf("%s was written: %v, %v", path, snap.Data(), err)
			}
		}

		// Again: what old clients have added since, and nothing else.
		p.set(p.fs.Doc("pages/page-0003/_counter_shards_/one"), map[string]any{"visits": firestore.Increment(10)})
		found, err = p.importAll(t.Context(), extension.ImportAllOptions{})
		took = map[extension.Outcome]int{extension.Taken: 1, extension.Before: counted, extension.Nothing: 1, extension.Failed: 1, extension.Orphaned: 1}
		if got := outcomes(found); err != nil || !maps.Equal(got, took) || found["pages/page-0003"].Added != 10 || found["pages/page-0003"].Value != 20 {
			t.Errorf("again: %v, %v, %+v; want %v", got, err, found["pages/page-0003"], took)
		}
	})
}

func TestImportAllRefuses(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		p := newPages(t)
		p.set(p.page, map[string]any{"title": "Hello", "visits": 1})
		for _, field := range []string{"clicks", "stats.visits", ""} {
			if err := extension.ImportAll(t.Context(), p.db, field, extension.ImportAllOptions{}); !errors.Is(err, extension.ErrInvalidSource) {
				t.Errorf("%q: %v", field, err)
			}
		}
		p.set(p.fs.Doc("_firebase_ext_/sharded_counter"), map[string]any{"timestamp": time.Now()})
		if found, err := p.importAll(t.Context(), extension.ImportAllOptions{DryRun: true}); err != nil || len(found) != 1 {
			t.Errorf("a dry run while the extension runs: %v, %v", found, err)
		}
		if _, err := p.importAll(t.Context(), extension.ImportAllOptions{}); !errors.Is(err, extension.ErrRuns) {
			t.Errorf("while the extension runs: %v", err)
		}
		p.wantPage2(1)
		beside := worldOf(t, p.Firestore, layout.Place{})
		if err := extension.ImportAll(t.Context(), beside.db, "total", extension.ImportAllOptions{}); !errors.Is(err, extension.ErrInvalidSource) {
			t.Errorf("of counters that are not the app's documents: %v", err)
		}
	})
}

// wantPage2 fails unless the page shows so many visits and is not counted.
func (p *pages) wantPage2(visits int64) {
	p.t.Helper()
	snap, err := p.page.Get(p.t.Context())
	if err != nil || snap.Data()["visits"] != visits || snap.Data()["counter_rollup"] != nil {
		p.t.Errorf("the page is %v, %v", snap.Data(), err)
	}
}
