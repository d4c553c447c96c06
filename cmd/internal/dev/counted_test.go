package dev

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/testbed/chance"
	"github.com/firestore-counters/counters/shards"
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
			faults := Faults{Events: eventarc.Faults{Duplicate: 0.3, Reorder: 0.5, Drop: drop}, KillEvery: 2 * time.Second, Seed: chance.Seed(t)}
			s := startSystem(t, Config{Faults: faults, Environ: []string{"COUNTERS=posts/{post}", "HOSTED=true", commentsAndStars, "ROLLUP_INTERVAL=100ms"}})
			client := s.client(t)
			const posts, each = 4, 60
			for p := range posts {
				set(t, client, fmt.Sprintf("posts/p%d", p), 0)
			}
			var writers errgroup.Group
			dice := chance.Of(t)
			for p := range posts {
				writers.Go(func() error { return write(t, dice, client, fmt.Sprintf("posts/p%d", p), each) })
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

// Documents that name their post, at the root and in a group, a path without wildcards, averages
// and conditions: the whole system brings their events and asks for them.
func TestCollectionsElsewhere(t *testing.T) {
	t.Parallel()
	s := startSystem(t, Config{Environ: []string{"COUNTERS=posts/{post}", "HOSTED=true", "ROLLUP_INTERVAL=100ms",
		"FIELDS=likes,notes=count(/notes where post=={post} and kind in ['a','b']),rating=avg(**/reviews.stars where post=={post})"}})
	client := s.client(t)
	write := func(path string, data map[string]any) {
		t.Helper()
		if _, err := client.Doc(path).Set(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	write("posts/p", map[string]any{})
	write("posts/q", map[string]any{})
	write("notes/1", map[string]any{"post": "p", "kind": "a"})
	write("notes/2", map[string]any{"post": client.Doc("posts/p"), "kind": "c"})
	write("notes/3", map[string]any{"post": "posts/p", "kind": "b"})
	write("reviews/1", map[string]any{"post": "p", "stars": 5})
	write("users/u/reviews/2", map[string]any{"post": client.Doc("posts/q"), "stars": 2})
	settle(t, s)
	write("users/u/reviews/2", map[string]any{"post": client.Doc("posts/p"), "stars": 2})
	write("notes/1", map[string]any{"post": "q", "kind": "a"})
	settle(t, s)
	for post, want := range map[string]map[string]any{"p": {"notes": int64(1), "rating": 3.5}, "q": {"notes": int64(1), "rating": nil}} {
		doc, err := client.Doc("posts/" + post).Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for field, value := range want {
			if got, there := doc.Data()[field]; !there || got != value {
				t.Errorf("%s of %s is %v, want %v", field, post, got, value)
			}
		}
	}
}

// A path without wildcards is one counter.
func TestWholeCollection(t *testing.T) {
	t.Parallel()
	s := startSystem(t, Config{Environ: []string{"COUNTERS=stats/site", "AUTO_CREATE=true", "ROLLUP_INTERVAL=100ms", "FIELDS=visits,users=count(/users)"}})
	client := s.client(t)
	for range 2 {
		answer, err := http.Post(s.Gateway+"/increment/site", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
	}
	for n := range 3 {
		if _, err := client.Doc(fmt.Sprint("users/", n)).Set(t.Context(), map[string]any{}); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, s)
	doc, err := client.Doc("stats/site").Get(t.Context())
	if err != nil || doc.Data()["users"] != int64(3) || doc.Data()["visits"] != int64(2) {
		t.Errorf("%v, %v", doc.Data(), err)
	}
}

// Nothing but documents is counted: the counter is made by hand, and shows them with the first event
// of theirs. Who would increment it is told that there is nothing to.
func TestDocumentsAlone(t *testing.T) {
	t.Parallel()
	s := startSystem(t, Config{Environ: []string{"COUNTERS=stats/site", "ROLLUP_INTERVAL=100ms", "READ_CACHE=0s", "MEMBERS=any", "RESET=any", "FIELDS=users=count(/users)"}})
	client := s.client(t)
	if _, err := client.Doc("users/first").Set(t.Context(), map[string]any{}); err != nil { // there before the counter
		t.Fatal(err)
	}
	settle(t, s)
	conn, err := grpc.NewClient("passthrough:///"+s.Firestore, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c, err := shards.Open(t.Context(), shards.Config{Place: shards.Place{Project: s.Project, Counters: "stats/site", Fields: "users=count(/users)"}}, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	site, err := c.Counter("site")
	if err != nil {
		t.Fatal(err)
	}
	if err := site.Create(t.Context(), shards.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if s, err := site.Get(t.Context()); err != nil || s.Total != 1 { // they are asked for
		t.Errorf("%+v, %v", s, err)
	}
	for n := range 3 {
		if _, err := client.Doc(fmt.Sprint("users/", n)).Set(t.Context(), map[string]any{}); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, s)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/site", "", 200, `{"counter":"site","total":4,"num_shards":0,`},
		{"GET", "/site?exact=true", "", 200, `{"counter":"site","total":4,"num_shards":0,`},
		{"POST", "/site", "", 400, "there is nothing to increment or set here: all of FIELDS counts documents (users=count(/users))"},
		{"POST", "/site", `{"by":{"users":1}}`, 400, "there is nothing to increment"},
		{"POST", "/", `{"increments":[{"counter":"site"}]}`, 400, "there is nothing to increment"},
		{"PUT", "/site/users/ada", "", 400, "there is nothing to increment"},
		{"DELETE", "/site/users/ada", "", 400, "there is nothing to increment"},
		{"POST", "/site/reset", "", 400, "there is nothing to increment"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, s.Gateway+"/increment"+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != c.status || !strings.Contains(string(body), c.want) {
			t.Errorf("%s %s %s: %d %s, want %d, %s", c.method, c.path, c.body, answer.StatusCode, body, c.status, c.want)
		}
	}
	// An event that is lost, a reconcile of the counter makes up for.
	if err := s.SetFaults(Faults{Events: eventarc.Faults{Drop: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Doc("users/lost").Set(t.Context(), map[string]any{}); err != nil {
		t.Fatal(err)
	}
	settle(t, s)
	answer, err := http.Post(s.Gateway+"/reconcile", "application/json", strings.NewReader(`{"counters": ["site"]}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if s, err := site.Get(t.Context()); err != nil || s.Total != 5 || answer.StatusCode != http.StatusOK {
		t.Errorf("after a reconcile: %+v, %v, %d", s, err, answer.StatusCode)
	}
}

// A Firestore without triggers tells of documents that are counted by a Listen, too.
func TestCountedFieldsOnAServerWithoutTriggers(t *testing.T) {
	t.Parallel()
	_, addr, client := embedded(t)
	startSystem(t, Config{
		Environ: []string{"FIRESTORE_EMULATOR_HOST=" + addr, "COUNTERS=posts/{post}", "HOSTED=true", commentsAndStars},
	})
	set(t, client, "posts/p", 0)
	if err := write(t, chance.Of(t), client, "posts/p", 20); err != nil {
		t.Fatal(err)
	}
	eventually(t, "everything is counted", func() bool {
		snap, err := client.Doc("posts/p").Get(t.Context())
		return err == nil && fresh(t, client, "posts/p") == fmt.Sprint(snap.Data()["comments"], snap.Data()["public"], snap.Data()["stars"])
	})
}

// write makes, edits and deletes comments and ratings of a post, at random.
func write(t *testing.T, rand *rand.Rand, client *firestore.Client, post string, n int) error {
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
