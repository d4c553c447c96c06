//go:build all

package dev

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/extension"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
	"github.com/firestore-counters/counters/internal/testbed/chance"
)

// visitor is one client of an app whose pages the Distributed Counter extension counts visits of.
type visitor struct {
	name string
	// one is what it adds. The extension's clients for Android and iOS add doubles.
	one any
	// shards are its own. A browser keeps one, in a cookie; the other clients draw one for each
	// object that they make.
	shards int
	moved  bool // to Increment
}

// site is a page that the extension has counted on, and counts by the system from some time on.
type site struct {
	*System
	t        *testing.T
	dice     *rand.Rand
	store    *firestore.Client
	page     *firestore.DocumentRef
	inbox    *firestore.CollectionRef // the extension's shards
	db       *store.DB
	visitors []*visitor
	visits   atomic.Int64 // that were acknowledged
}

// visit has every client add some visits at the same time, beside what else is done.
func (s *site) visit(beside ...func(ctx context.Context) error) {
	s.t.Helper()
	all, ctx := errgroup.WithContext(s.t.Context())
	for _, v := range s.visitors {
		for n := range 4 {
			all.Go(func() error {
				for range 5 {
					if err := s.add(ctx, v, n); err != nil {
						return fmt.Errorf("%s: %w", v.name, err)
					}
					s.visits.Add(1)
				}
				return nil
			})
		}
	}
	for _, f := range beside {
		all.Go(func() error { return f(ctx) })
	}
	if err := all.Wait(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) add(ctx context.Context, v *visitor, n int) error {
	if v.moved {
		return s.insistOn(ctx, s.page.ID, "", fmt.Sprintf("%s-%x", v.name, s.dice.Uint64()))
	}
	_, err := s.inbox.Doc(fmt.Sprintf("%s-%d", v.name, n%v.shards)).Set(ctx, map[string]any{"visits": firestore.Increment(v.one)}, firestore.MergeAll)
	return err
}

// number is what JavaScript makes of a number: an integer where it is one.
func number(v any) int64 {
	if d, ok := v.(float64); ok && d == math.Trunc(d) {
		return int64(d)
	}
	n, _ := v.(int64)
	return n
}

// waiting is what the extension's shards and partial sums hold.
func waiting(docs []*firestore.DocumentSnapshot) (sum int64) {
	for _, doc := range docs {
		sum += number(doc.Data()["visits"])
		updates, _ := doc.Data()["_updates_"].([]any)
		for _, update := range updates {
			sum += number(update.(map[string]any)["_data_"].(map[string]any)["visits"])
		}
	}
	return sum
}

// work does what a worker of the extension's does: it takes all shards, and adds them to the page's
// document, or to a partial sum.
func (s *site) work(ctx context.Context, partial bool) error {
	return s.store.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		page, err := tx.Get(s.page)
		if err != nil {
			return err
		}
		docs, err := tx.Documents(s.inbox).GetAll()
		if err != nil {
			return err
		}
		var sum int64
		for _, doc := range docs {
			if strings.HasPrefix(doc.Ref.ID, "\t") {
				continue
			}
			sum += number(doc.Data()["visits"])
			if err := tx.Delete(doc.Ref); err != nil {
				return err
			}
		}
		if !partial {
			return tx.Set(s.page, map[string]any{"visits": number(page.Data()["visits"]) + sum}, firestore.MergeAll)
		}
		return tx.Set(s.inbox.Doc("\tadm"), map[string]any{"_updates_": firestore.ArrayUnion(map[string]any{
			"_id_": fmt.Sprint(s.dice.Uint64()), "_data_": map[string]any{"visits": sum},
		})}, firestore.MergeAll)
	})
}

// imports imports, like counters import.
func (s *site) imports(ctx context.Context) (extension.Imported, error) {
	return extension.Import(ctx, s.db, s.page.ID, extension.Source{Path: "pages/" + s.page.ID, Field: "visits"})
}

// importsBadly begins an import that ends somewhere, and then two at the same time.
func (s *site) importsBadly(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, chance.Below(s.dice, 30*time.Millisecond))
	_, _ = s.imports(short)
	cancel()
	var both errgroup.Group
	for range 2 {
		both.Go(func() error {
			_, err := s.imports(ctx)
			return err
		})
	}
	return both.Wait()
}

// check fails unless page and extension's shards together hold every visit, and none twice.
func (s *site) check(step string) {
	s.t.Helper()
	settle(s.t, s.System)
	var page *firestore.DocumentSnapshot
	var docs []*firestore.DocumentSnapshot
	err := s.store.RunTransaction(s.t.Context(), func(_ context.Context, tx *firestore.Transaction) (err error) {
		if page, err = tx.Get(s.page); err == nil {
			docs, err = tx.Documents(s.inbox).GetAll()
		}
		return err
	}, firestore.ReadOnly)
	if err != nil {
		s.t.Fatal(err)
	}
	shown, wait := number(page.Data()["visits"]), waiting(docs)
	if shown+wait != s.visits.Load() || page.Data()["title"] != "Hello" {
		s.t.Errorf("%s: the page is %v and %d wait, want %d visits together", step, page.Data(), wait, s.visits.Load())
	}
	s.t.Logf("%s: %d shown, %d wait", step, shown, wait)
}

// TestFromTheExtension moves an app in the order of docs/extension.md, with events that come twice
// and out of order, functions that are killed, and imports that end anywhere. Old clients and new
// ones count all the time. No number that a reader sees ever falls, and none is lost.
func TestFromTheExtension(t *testing.T) {
	t.Parallel()
	faults := Faults{Events: eventarc.Faults{Duplicate: 0.3, Reorder: 0.5}, KillEvery: 2 * time.Second, Seed: chance.Seed(t)}
	system := startSystem(t, Config{Faults: faults, Environ: []string{"COUNTERS=pages/{page}", "HOSTED=true", "FIELDS=visits", "CACHE_TTL=1s"}})
	client := system.client(t)
	conn, err := dialEmulator(system.Firestore)
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), layout.Place{Project: system.Project, Counters: "pages/{page}", Fields: "visits", Hosted: true}, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	page := client.Doc("pages/hello")
	admin, node := &visitor{name: "admin", one: 1, shards: 2}, &visitor{name: "node", one: 1, shards: 4}
	web, android, ios := &visitor{name: "web", one: 1, shards: 1}, &visitor{name: "android", one: 1.0, shards: 4}, &visitor{name: "ios", one: 1.0, shards: 4}
	s := &site{System: system, t: t, dice: chance.Of(t), store: client, page: page, inbox: page.Collection("_counter_shards_"), db: db, visitors: []*visitor{admin, node, web, android, ios}}

	// What the extension has counted in years.
	s.visits.Store(1000)
	if _, err := page.Set(t.Context(), map[string]any{"title": "Hello", "visits": 1000}); err != nil {
		t.Fatal(err)
	}
	watching, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	readers.Go(func() { neverFalls(watching, t, page) })
	defer readers.Wait()
	defer stop()

	for _, partial := range []bool{false, true} {
		s.visit(func(ctx context.Context) error { return s.work(ctx, partial) })
	}
	state := client.Doc("_firebase_ext_/sharded_counter")
	if _, err := state.Set(t.Context(), map[string]any{"timestamp": firestore.ServerTimestamp}); err != nil {
		t.Fatal(err)
	}
	s.check("with the extension")
	if _, err := s.imports(t.Context()); !errors.Is(err, extension.ErrRuns) {
		t.Errorf("an import beside the extension: %v, want ErrRuns", err)
	}

	// Five minutes after it was uninstalled, its state is as good as gone.
	if _, err := state.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.visit()
	s.check("without it")
	s.visit(s.importsBadly)
	s.check("imported in place")
	for _, v := range []*visitor{admin, node, web, ios, android} {
		v.moved = true
		s.visit(s.importsBadly)
		s.check(v.name + " moved")
	}

	// A page that was open all the time, and then the rules say no.
	web.moved = false
	s.visit()
	s.check("a page that was open")
	web.moved = true
	if _, err := s.imports(t.Context()); err != nil {
		t.Fatal(err)
	}
	docs, err := s.inbox.Documents(t.Context()).GetAll()
	if err != nil || waiting(docs) != 0 {
		t.Errorf("%d wait after the last import, %v", waiting(docs), err)
	}
	for _, doc := range docs {
		if _, err := doc.Ref.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.visit()
	s.check("the extension's shards deleted")
	if got, err := s.imports(t.Context()); err != nil || got.Value != s.visits.Load() || got.Added != 0 {
		t.Errorf("an import more: %+v, %v; want %d and nothing new", got, err, s.visits.Load())
	}
}

// TestTheExtensionsClientsGoOn has clients of the extension go on unchanged, in its successor's place: a crowd on one
// page, with events that come twice and out of order, and functions that are killed. No client ever sees the page's
// number and its own shard's fall together, and the end is exact.
func TestTheExtensionsClientsGoOn(t *testing.T) {
	t.Parallel()
	faults := Faults{Events: eventarc.Faults{Duplicate: 0.3, Reorder: 0.5}, KillEvery: 2 * time.Second, Seed: chance.Seed(t)}
	faults.Commits.Abort = 0.05
	system := startSystem(t, Config{Faults: faults, Environ: []string{"COUNTERS=pages/{page}", "HOSTED=true", "EXTENSION=true", "FIELDS=visits"}})
	client := system.client(t)
	page := client.Doc("pages/hello")
	for {
		_, err := page.Set(t.Context(), map[string]any{"title": "Hello", "visits": 1000})
		if status.Code(err) == codes.Aborted {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	const visitors = 20
	crowd := 5 * time.Second
	if text := os.Getenv("EXTENSION_CROWD"); text != "" { // such as 1m
		crowd, _ = time.ParseDuration(text)
	}
	watching, stop := context.WithCancel(t.Context())
	defer stop()
	var shown lagging
	var readers sync.WaitGroup
	readers.Go(func() { shown.watch(watching, t, page) })
	all, ctx := errgroup.WithContext(t.Context())
	end := time.Now().Add(crowd)
	for n := range visitors {
		shard := page.Collection("_counter_shards_").Doc(fmt.Sprint("visitor-", n))
		var one any = 1
		if n%3 == 0 {
			one = 1.0 // as the extension's clients for Android and iOS do
		}
		all.Go(func() error {
			for last := int64(0); time.Now().Before(end); {
				_, err := shard.Set(ctx, map[string]any{"visits": firestore.Increment(one)}, firestore.MergeAll)
				if status.Code(err) == codes.Aborted {
					continue
				}
				if err != nil {
					return err
				}
				shown.clicked()
				docs, err := client.GetAll(ctx, []*firestore.DocumentRef{page, shard})
				if err != nil {
					return err
				}
				now := number(docs[0].Data()["visits"]) + number(docs[1].Data()["visits"])
				if now < last {
					t.Errorf("visitor %d sees %d visits after %d", n, now, last)
				}
				last = now
				time.Sleep(200*time.Millisecond - time.Duration(time.Now().UnixNano())%50_000_000)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	settle(t, system)
	snap, err := page.Get(t.Context())
	if err != nil || number(snap.Data()["visits"]) != 1000+int64(len(shown.clicks)) || snap.Data()["title"] != "Hello" {
		t.Errorf("the page is %v, %v; want %d visits", snap.Data(), err, 1000+len(shown.clicks))
	}
	stop()
	readers.Wait()
	p50, p99 := shown.lag(1000)
	t.Logf("%d clicks in %v; shown after %v (p50), %v (p99)", len(shown.clicks), crowd, p50, p99)
}

// lagging knows when clicks were acknowledged, and when a page showed how many.
type lagging struct {
	mu     sync.Mutex
	clicks []time.Time
	shown  []time.Time
	counts []int64
}

func (l *lagging) clicked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clicks = append(l.clicks, time.Now())
}

func (l *lagging) watch(ctx context.Context, t *testing.T, page *firestore.DocumentRef) {
	snapshots := page.Snapshots(ctx)
	defer snapshots.Stop()
	for {
		snap, err := snapshots.Next()
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return
		}
		l.mu.Lock()
		l.shown, l.counts = append(l.shown, time.Now()), append(l.counts, number(snap.Data()["visits"]))
		l.mu.Unlock()
	}
}

// lag is how long it took until a page showed as many clicks, beyond those that it began with, as were acknowledged.
func (l *lagging) lag(began int64) (p50, p99 time.Duration) {
	var took []time.Duration
	for i, at := range l.clicks {
		j := 0
		for j < len(l.counts)-1 && l.counts[j]-began < int64(i+1) {
			j++
		}
		took = append(took, max(0, l.shown[j].Sub(at)))
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100]
}

// neverFalls reads a page as a browser does, until it is told to stop.
func neverFalls(ctx context.Context, t *testing.T, page *firestore.DocumentRef) {
	snapshots := page.Snapshots(ctx)
	defer snapshots.Stop()
	for last := int64(0); ; {
		snap, err := snapshots.Next()
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return
		}
		now := number(snap.Data()["visits"])
		if now < last {
			t.Errorf("a reader sees %d visits after %d", now, last)
		}
		last = now
	}
}
