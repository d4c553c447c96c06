package dev

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/testbed/chance"
)

var hostedIncrements = flag.Int("hosted.increments", 1000, "increments of TestHosted")

// Likes and views of an app's own posts are exact beside an app that edits them all the time, with
// events that come twice and out of order and functions that are killed; and the app's fields are
// the app's.
func TestHosted(t *testing.T) {
	t.Parallel()
	faults := Faults{Events: eventarc.Faults{Duplicate: 0.3, Reorder: 0.5}, KillEvery: 2 * time.Second, Seed: chance.Seed(t)}
	s := startSystem(t, Config{Faults: faults, Environ: []string{"COUNTERS=posts/{post}", "HOSTED=true", "FIELDS=likes,views", "CACHE_TTL=1s"}})
	const posts = 50
	app := &titles{client: s.client(t), t: t}
	for n := range posts {
		app.edit(t.Context(), n, 0)
	}
	editing, stop := context.WithCancel(t.Context())
	defer stop()
	var edits sync.WaitGroup
	edits.Go(func() {
		for edition, every := 1, time.NewTicker(time.Second); ; edition++ {
			for n := range posts {
				app.edit(editing, n, edition)
			}
			select {
			case <-every.C:
			case <-editing.Done():
				return
			}
		}
	})

	began := time.Now()
	var clients errgroup.Group
	const inFlight = 50
	for client := range inFlight {
		clients.Go(func() error {
			for n := client; n < *hostedIncrements; n += inFlight {
				if err := s.insistOn(t.Context(), fmt.Sprint("p", n%posts), `{"by": {"likes": 1, "views": 3}}`, fmt.Sprint("key-", n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := clients.Wait(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	stop()
	edits.Wait()
	if err := s.SetFaults(Faults{}); err != nil {
		t.Fatal(err)
	}
	settle(t, s)
	check := func(n int, increments int64) {
		t.Helper()
		snap, err := app.post(n).Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		data := snap.Data()
		if data["likes"] != increments || data["views"] != 3*increments {
			t.Errorf("post %d: %v likes and %v views, want %d and %d", n, data["likes"], data["views"], increments, 3*increments)
		}
		if data["title"] != app.last[n] {
			t.Errorf("post %d: the title is %v, and the app's last %q", n, data["title"], app.last[n])
		}
		if got := slices.Sorted(maps.Keys(data)); !slices.Equal(got, []string{"counter_rollup", "likes", "title", "views"}) {
			t.Errorf("post %d has the fields %v", n, got)
		}
	}
	each := int64(*hostedIncrements / posts)
	for n := range posts {
		check(n, each)
	}
	t.Logf("%d increments of two fields in %v, %d titles written, %d refused; events %+v", *hostedIncrements, took.Round(time.Millisecond), app.written, app.refused, s.Events())

	// An app that writes back what it read a while ago, and one that sets all of the document: the
	// next increment mends both.
	for n, stale := range []map[string]any{
		{"title": app.last[0], "likes": 1, "views": int64(2)},
		{"title": app.last[1]},
		{"title": app.last[2], "likes": nil, "counter_rollup": true},
	} {
		if _, err := app.post(n).Set(t.Context(), stale); err != nil {
			t.Fatal(err)
		}
		if err := s.insistOn(t.Context(), fmt.Sprint("p", n), `{"by": {"likes": 1, "views": 3}}`, fmt.Sprint("again-", n)); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, s)
	for n := range 3 {
		check(n, each+1)
	}

	// A post that is deleted and made again goes on from where it was, whatever counts the app
	// gives it.
	if _, err := app.post(3).Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	// An instance that has read the post within CACHE_TTL takes increments for that long, and they
	// are kept too.
	var late int64
	eventually(t, "increments of a post that is deleted are answered 404", func() bool {
		code, err := s.post(t.Context(), "p3", `{"by": {"likes": 1, "views": 3}}`, "")
		if err != nil || code != http.StatusOK && code != http.StatusNotFound {
			t.Fatalf("increment of a post that is deleted: %d, %v", code, err)
		}
		if code == http.StatusOK {
			late++
		}
		return code == http.StatusNotFound
	})
	if _, err := app.post(3).Set(t.Context(), map[string]any{"title": app.last[3], "likes": 0, "views": 0}); err != nil {
		t.Fatal(err)
	}
	if err := s.insistOn(t.Context(), "p3", `{"by": {"likes": 1, "views": 3}}`, "made again"); err != nil {
		t.Fatal(err)
	}
	settle(t, s)
	check(3, each+late+1)
}

// settle waits until every event is counted.
func settle(t *testing.T, s *System) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := s.WaitForEvents(ctx); err != nil {
		t.Fatalf("events that are never acknowledged: %v (%+v)", err, s.Events())
	}
	// Those of a counter whose commits waited for too long, for a killed function's locks, say, are
	// acknowledged for a note, which the next flush or reconcile looks at.
	client := s.client(t)
	eventually(t, "no counter is noted", func() bool {
		notes, err := client.CollectionGroup(layout.Notes).Documents(t.Context()).GetAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, note := range notes {
			counter, _ := note.Data()["counter"].(string)
			t.Logf("%s is noted", counter)
			if _, err := postReconcile(s, counter); err != nil {
				t.Fatal(err)
			}
		}
		return len(notes) == 0
	})
}

// insistOn sends an increment until it is answered with success.
func (s *System) insistOn(ctx context.Context, counter, body, key string) error {
	for {
		code, err := s.post(ctx, counter, body, key)
		switch {
		case err == nil && code == http.StatusOK:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && code < 500:
			return fmt.Errorf("increment %s: %d", counter, code)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// titles is an app that writes its posts' titles, and nothing else.
type titles struct {
	client           *firestore.Client
	t                *testing.T
	last             [50]string
	written, refused int
}

func (a *titles) post(n int) *firestore.DocumentRef { return a.client.Doc(fmt.Sprint("posts/p", n)) }

// edit writes a post's title until that is done.
func (a *titles) edit(ctx context.Context, n, edition int) {
	title := fmt.Sprintf("Post %d, edition %d", n, edition)
	for ctx.Err() == nil {
		// Not broken off when editing ends: whether it was written would not be known.
		if _, err := a.post(n).Set(context.WithoutCancel(ctx), map[string]any{"title": title}, firestore.MergeAll); err == nil {
			a.last[n] = title
			a.written++
			return
		}
		a.refused++
	}
}
