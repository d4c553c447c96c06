package dev

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/emulator/eventarc"
)

const commentsAndStars = "FIELDS=likes,comments=count(comments),public=count(comments where public==true),stars=sum(ratings.stars)"

// The whole system counts documents: the processes take their events beside those of shards, with
// events that come twice and out of order and functions that are killed. What was lost, a reconcile
// of the counters by name counts.
func TestCountedFields(t *testing.T) {
	t.Parallel()
	for _, drop := range []float64{0, 0.1} {
		t.Run(fmt.Sprint("drop=", drop), func(t *testing.T) {
			t.Parallel()
			faults := Faults{Events: eventarc.Faults{Duplicate: 0.3, Reorder: 0.5, Drop: drop}, KillEvery: 2 * time.Second, Seed: rand.Uint64()}
			t.Logf("seed %d", faults.Seed)
			s := startSystem(t, Config{Faults: faults, Environ: []string{"COUNTERS=posts/{post}", "HOSTED=true", commentsAndStars, "ROLLUP_INTERVAL=100ms"}})
			client := s.client(t)
			const posts, each = 4, 60
			for p := range posts {
				set(t, client, fmt.Sprintf("posts/p%d", p), 0)
			}
			var writers errgroup.Group
			for p := range posts {
				writers.Go(func() error { return write(t, client, fmt.Sprintf("posts/p%d", p), each) })
			}
			if err := writers.Wait(); err != nil {
				t.Fatal(err)
			}
			if err := s.SetFaults(Faults{}); err != nil {
				t.Fatal(err)
			}
			settle(t, s)
			if drop > 0 {
				names := make([]string, posts)
				for p := range names {
					names[p] = fmt.Sprintf(`"p%d"`, p)
				}
				eventually(t, "the counters are reconciled", func() bool {
					answer, err := http.Post(s.Gateway+"/reconcile", "application/json", strings.NewReader(`{"counters": [`+strings.Join(names, ", ")+`]}`))
					if err != nil {
						return false
					}
					defer answer.Body.Close()
					return answer.StatusCode == http.StatusOK
				})
			}
			for p := range posts {
				counted(t, client, fmt.Sprintf("posts/p%d", p))
			}
			t.Logf("events %+v", s.Events())
		})
	}
}

// A Firestore without triggers tells of documents that are counted by a Listen, too.
func TestCountedFieldsOnAServerWithoutTriggers(t *testing.T) {
	t.Parallel()
	_, addr, client := embedded(t)
	startSystem(t, Config{Environ: []string{"FIRESTORE_EMULATOR_HOST=" + addr, "COUNTERS=posts/{post}", "HOSTED=true", commentsAndStars}})
	set(t, client, "posts/p", 0)
	if err := write(t, client, "posts/p", 20); err != nil {
		t.Fatal(err)
	}
	eventually(t, "everything is counted", func() bool {
		snap, err := client.Doc("posts/p").Get(t.Context())
		return err == nil && fresh(t, client, "posts/p") == fmt.Sprint(snap.Data()["comments"], snap.Data()["public"], snap.Data()["stars"])
	})
}

// write makes, edits and deletes comments and ratings of a post, at random.
func write(t *testing.T, client *firestore.Client, post string, n int) error {
	var there []*firestore.DocumentRef
	for i := range n {
		data := map[string]any{"public": rand.IntN(2) == 0, "stars": rand.IntN(6)}
		switch at := rand.IntN(10); {
		case at < 5 || len(there) == 0:
			kind := []string{"comments", "ratings"}[rand.IntN(2)]
			doc := client.Doc(fmt.Sprintf("%s/%s/%d", post, kind, i))
			there = append(there, doc)
			if _, err := doc.Set(t.Context(), data); err != nil {
				return err
			}
		case at < 7:
			if _, err := there[rand.IntN(len(there))].Set(t.Context(), data); err != nil {
				return err
			}
		default:
			at := rand.IntN(len(there))
			if _, err := there[at].Delete(t.Context()); err != nil {
				return err
			}
			there = append(there[:at], there[at+1:]...)
		}
	}
	return nil
}

// fresh is what queries say now of a post's documents.
func fresh(t *testing.T, client *firestore.Client, post string) string {
	t.Helper()
	comments, err := client.Collection(post + "/comments").Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	ratings, err := client.Collection(post + "/ratings").Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	var public, stars int64
	for _, doc := range comments {
		if doc.Data()["public"] == true {
			public++
		}
	}
	for _, doc := range ratings {
		stars += doc.Data()["stars"].(int64)
	}
	return fmt.Sprint(len(comments), public, stars)
}

// counted fails unless a post's fields are what queries say now.
func counted(t *testing.T, client *firestore.Client, post string) {
	t.Helper()
	snap, err := client.Doc(post).Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	data := snap.Data()
	if got, want := fmt.Sprint(data["comments"], data["public"], data["stars"]), fresh(t, client, post); got != want {
		t.Errorf("%s has %s comments, public ones and stars, want %s", post, got, want)
	}
}
