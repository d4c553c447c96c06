//go:build all

package extension_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
)

// An import of all that ends anywhere, and some of whose commits are applied though their answers
// are lost, goes on where it was: each page comes to its own sum, once.
func TestImportAllEndsAnywhere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		i := virtual.Start(t)
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
