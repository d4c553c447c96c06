package counterstest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/firestore-counters/counters/counterstest"
	"github.com/firestore-counters/counters/shards"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func counter(t *testing.T, db *counterstest.Instance, id string) shards.Counter {
	t.Helper()
	c, err := db.Counters.Counter(id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The total moves by itself, and has all of it once that is waited for.
func TestTotalMoves(t *testing.T) {
	t.Parallel()
	db := counterstest.Start(t)
	likes := counter(t, db, "post-123")
	var adding sync.WaitGroup
	for range 100 {
		adding.Go(func() {
			if err := likes.Add(t.Context(), 1); err != nil {
				t.Error(err)
			}
		})
	}
	adding.Wait()
	// without RolledUp
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if s, err := likes.Get(t.Context()); err != nil || time.Now().After(deadline) {
			t.Fatalf("%+v, %v", s, err)
		} else if s.Total == 100 {
			break
		}
	}
	if _, err := likes.Join(t.Context(), "total", "alice"); err != nil {
		t.Fatal(err)
	}
	db.RolledUp(t)
	if s, err := likes.Get(t.Context()); err != nil || s.Total != 101 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := likes.Delete(t.Context(), shards.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	db.RolledUp(t)
	if _, err := likes.Get(t.Context()); !errors.Is(err, shards.ErrNotFound) {
		t.Errorf("after its deletion: %v", err)
	}
}

// Documents of an app's own, a field that counts documents, and ids that no header can carry.
func TestHosted(t *testing.T) {
	t.Parallel()
	db := counterstest.StartWith(t, shards.Config{Place: shards.Place{Project: "my-app", Counters: "posts/{post}", Hosted: true, Fields: "likes,comments=count(comments)"}})
	app := db.Client(t, "my-app")
	other := db.Client(t, "another-app")
	for _, id := range []string{"plain", "ends in a space ", "tab\tin it", "日本"} {
		post := app.Doc("posts/" + id)
		if _, err := post.Set(t.Context(), map[string]any{"title": "Hello"}); err != nil {
			t.Fatal(err)
		}
		if err := counter(t, db, id).Add(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			if _, err := post.Collection("comments").Doc(fmt.Sprint(n)).Set(t.Context(), map[string]any{"text": "a"}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := other.Doc("posts/"+id+"/comments/elsewhere").Set(t.Context(), map[string]any{}); err != nil {
			t.Fatal(err)
		}
	}
	large := app.Doc("posts/plain/comments/large")
	if _, err := large.Set(t.Context(), map[string]any{"text": strings.Repeat("a", 700_000)}); err != nil {
		t.Fatal(err)
	}
	db.RolledUp(t)
	for id, comments := range map[string]int64{"plain": 4, "ends in a space ": 3, "tab\tin it": 3, "日本": 3} {
		doc, err := app.Doc("posts/" + id).Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if data := doc.Data(); data["likes"] != int64(2) || data["comments"] != comments || data["title"] != "Hello" {
			t.Errorf("%q: %v", id, data)
		}
	}
}

func ExampleStart() {
	var t *testing.T // a test's own
	db := counterstest.Start(t)
	likes, err := db.Counters.Counter("post-123")
	if err != nil {
		t.Fatal(err)
	}
	if err := likes.Add(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	db.RolledUp(t)
	if now, err := likes.Get(context.Background()); err != nil || now.Total != 1 {
		t.Errorf("the total is %d, %v", now.Total, err)
	}
}
