//go:build all

package extension_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/internal/testbed/virtual"
	"github.com/firestore-counters/counters/rollup"
)

var (
	movedPages  = flag.Int("move.pages", 60, "documents that are moved from the extension")
	movedShards = flag.Int("move.shards", 50, "shards of each")
)

// All documents of an app move from the extension while its clients write, and what they write is taken over live: the
// import is killed twice, answers get lost, and the end is exact.
func TestMoveWhileClientsWrite(t *testing.T) {
	t.Parallel()
	i := virtual.Start(t)
	w := worldOf(t, i, layout.Place{Counters: "pages/{page}", Fields: "visits", Hosted: true, Extension: true})
	direct := firestorepb.NewFirestoreClient(i.Conn())
	documents := "projects/p/databases/(default)/documents/"
	begun := time.Now()
	var writes []*firestorepb.Write
	put := func(path string, visits int) {
		writes = append(writes, store.Update(documents+path, nil, map[string]*firestorepb.Value{"visits": store.Int(int64(visits))}, nil))
		if len(writes) == 500 {
			if _, err := direct.Commit(t.Context(), &firestorepb.CommitRequest{Database: "projects/p/databases/(default)", Writes: writes}); err != nil {
				t.Fatal(err)
			}
			writes = nil
		}
	}
	want := make([]atomic.Int64, *movedPages)
	for n := range want {
		put(fmt.Sprint("pages/", n), n)
		want[n].Store(int64(n))
		for shard := range *movedShards {
			put(fmt.Sprintf("pages/%d/_counter_shards_/%d", n, shard), 1+shard%3)
			want[n].Add(int64(1 + shard%3))
		}
	}
	if len(writes) > 0 {
		if _, err := direct.Commit(t.Context(), &firestorepb.CommitRequest{Database: "projects/p/databases/(default)", Writes: writes}); err != nil {
			t.Fatal(err)
		}
	}
	if err := i.Server.WaitForChanges(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d documents with %d shards each, made in %v", *movedPages, *movedShards, time.Since(begun).Round(time.Millisecond))

	client, err := rollup.Open(t.Context(), rollup.Config{Place: w.place, Logger: slog.New(slog.DiscardHandler)}, option.WithGRPCConn(i.Conn()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	roller := rollup.NewRoller(client, rollup.RollerOptions{})
	var deliveries sync.WaitGroup
	stop := i.Server.OnChange(func(change emulator.Change) {
		_, body, err := eventarc.Encode("id", change)
		if err != nil {
			t.Error(err)
		}
		changes, err := client.Decode("application/protobuf", body)
		if err != nil || len(changes) == 0 {
			return
		}
		deliveries.Go(func() {
			for try := 0; ; try++ {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				err := roller.Add(ctx, changes...)
				if cancel(); err == nil || try == 20 {
					if err != nil {
						t.Errorf("an event: %v", err)
					}
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	})
	i.Server.SetInterceptor(func(_ context.Context, req *firestorepb.CommitRequest) (v emulator.Verdict) {
		if len(req.GetWrites()) > 1 && rand.IntN(100) == 0 {
			v.After = unavailable
		}
		return v
	})
	writing, done := context.WithCancel(t.Context())
	defer done()
	var clients sync.WaitGroup
	var clicks atomic.Int64
	for range 8 {
		clients.Go(func() {
			for writing.Err() == nil {
				n := rand.IntN(*movedPages)
				_, err := w.fs.Doc(fmt.Sprintf("pages/%d/_counter_shards_/%d", n, rand.IntN(*movedShards))).Set(t.Context(), map[string]any{"visits": firestore.Increment(1)}, firestore.MergeAll)
				if err != nil {
					t.Error(err)
					return
				}
				want[n].Add(1)
				clicks.Add(1)
				time.Sleep(20 * time.Millisecond)
			}
		})
	}

	begun = time.Now()
	before := i.Server.Stats()
	for _, kill := range []int{*movedPages / 3, *movedPages / 3, 0} {
		ctx, cancel := context.WithCancel(t.Context())
		taken, looked, began := 0, 0, time.Now()
		err := extension.ImportAll(ctx, w.db, "visits", extension.ImportAllOptions{Parallel: 16, Report: func(d extension.Document) {
			looked++
			if d.Outcome == extension.Failed {
				t.Errorf("%s: %s", d.Path, d.Error)
			}
			if d.Outcome == extension.Taken {
				taken++
			}
			if kill > 0 && taken == kill {
				cancel()
			}
		}})
		if kill == 0 && err != nil {
			t.Fatal(err)
		}
		cancel()
		t.Logf("an import, to be killed after %d: %d looked at and %d taken over in %v; %v", kill, looked, taken, time.Since(began).Round(time.Millisecond), err)
	}
	stats := i.Server.Stats()
	t.Logf("moved in %v beside %d clicks: %d commits, %d reads, %d writes", time.Since(begun).Round(time.Millisecond), clicks.Load(),
		stats.Commits-before.Commits, stats.Reads-before.Reads, stats.Writes-before.Writes)
	done()
	clients.Wait()
	i.Server.SetInterceptor(nil)
	if err := i.Server.WaitForChanges(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop()
	deliveries.Wait()
	if err := roller.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	wrong := 0
	docs, err := w.fs.Collection("pages").Documents(t.Context()).GetAll()
	if err != nil || len(docs) != *movedPages {
		t.Fatalf("%d documents, %v", len(docs), err)
	}
	for _, doc := range docs {
		var n int
		fmt.Sscan(strings.TrimPrefix(doc.Ref.ID, "pages/"), &n)
		if got := doc.Data()["visits"]; got != want[n].Load() {
			if wrong++; wrong < 10 {
				t.Errorf("page %d shows %v, want %d", n, got, want[n].Load())
			}
		}
	}
	t.Logf("%d documents, %d of them wrong", len(docs), wrong)
}
