//go:build all

package extension_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/ledger"
)

// An import of all that ends anywhere, and some of whose commits are applied though their answers
// are lost, goes on where it was: each page comes to its own sum, once.
func TestImportAllEndsAnywhere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		i := emulator.Start(t)
		p := pagesOf(t, i)
		want := map[string]int64{}
		for n := range rapid.IntRange(1, 6).Draw(rt, "pages") {
			path := fmt.Sprint("pages/", n)
			p.set(p.fs.Doc(path), map[string]any{"title": "Hello", "visits": 100 * n})
			want[path] = int64(100 * n)
			for s := range rapid.IntRange(0, 3).Draw(rt, "shards") {
				p.set(p.fs.Doc(fmt.Sprint(path, "/_counter_shards_/", s)), map[string]any{"visits": s + 1})
				want[path] += int64(s + 1)
			}
		}
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			left := new(atomic.Int64)
			left.Store(int64(rapid.IntRange(0, 12).Draw(rt, "commits until it ends")))
			lost := rapid.Bool().Draw(rt, "the last answer is lost")
			i.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) (v emulator.Verdict) {
				if left.Add(-1) < 0 {
					cancel()
					if lost {
						v.After = unavailable
					} else {
						v.Before = unavailable
					}
				}
				return v
			})
			_, err := p.importAll(ctx, extension.ImportAllOptions{})
			if ended := ctx.Err() != nil; !ended && err != nil {
				rt.Fatal(err)
			}
			cancel()
		}
		i.Server.SetInterceptor(nil)
		if _, err := p.importAll(t.Context(), extension.ImportAllOptions{}); err != nil {
			rt.Fatal(err)
		}
		for path, value := range want {
			snap, err := p.fs.Doc(path).Get(t.Context())
			if err != nil || snap.Data()["visits"] != value {
				rt.Errorf("%s shows %v, %v; want %d", path, snap.Data(), err, value)
			}
		}
		found, err := p.importAll(t.Context(), extension.ImportAllOptions{})
		if got := outcomes(found); err != nil || got[extension.Taken] != 0 {
			rt.Errorf("once more: %v, %v", got, err)
		}
	})
}

// An import that has more commits than a ledger has room for says how long that takes at most, waits,
// and goes on. One that is ended while it waits says that, and has moved nothing.
func TestLargeImportWaitsForRoom(t *testing.T) {
	t.Parallel()
	p := newPages(t)
	p.set(p.page, map[string]any{"title": "Hello", "visits": 1000})
	p.wantImport(visits, 1000, 0)
	p.set(p.inbox.Doc("a"), map[string]any{"visits": 5})
	// As after so many commits at that time.
	full := func(at time.Time) {
		ids := map[string]time.Time{}
		for n := range ledger.MaxOps {
			ids[fmt.Sprint(n)] = at
		}
		p.set(p.fs.Doc("pages/hello/counter_rollup/ledger"), map[string]any{"ops": ids})
	}
	full(time.Now())
	told := map[int]time.Duration{}
	ctx, end := context.WithCancel(t.Context())
	_, err := extension.ImportWith(ctx, p.db, "hello", visits, extension.Options{Large: func(shards int, about time.Duration) {
		told[shards] += about
		end()
	}})
	if !errors.Is(err, context.Canceled) || !maps.Equal(told, map[int]time.Duration{1: ledger.InDoubt}) {
		t.Errorf("an import that is ended while it waits: %v, and it told %v", err, told)
	}
	p.wantPage(1000, 0)
	if held := p.waiting("visits"); held != 5 {
		t.Errorf("the extension's shards hold %d, want 5", held)
	}
	full(time.Now().Add(3*time.Second - ledger.InDoubt)) // half an hour ago but for a moment
	p.wantImport(visits, 1005, 5)
	p.wantPage(1005, 0)
}
