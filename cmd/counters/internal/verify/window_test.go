package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// at is a post that began and ended so many milliseconds after a time.
func at(began, ended int) post {
	zero := time.Unix(1e9, 0)
	return post{zero.Add(time.Duration(began) * time.Millisecond), zero.Add(time.Duration(ended) * time.Millisecond), true}
}

func TestWindow(t *testing.T) {
	t.Parallel()
	refused := at(20, 40)
	refused.ok = false
	for _, c := range []struct {
		what  string
		posts []post
		want  string
		first int
	}{
		{"one after the other", []post{at(0, 10), at(10, 20), at(30, 40)}, "1 within 250ms, 1 within 500ms, 1 within 1s, 1 within 2s, 1 within 4s; 1 at most, of 3 posts, 0 refused", 1},
		{"two, and two more with each answer", []post{at(0, 300), at(1, 301), at(300, 600), at(300, 600), at(301, 601), at(301, 601), at(1200, 1300)},
			"2 within 250ms, 4 within 500ms, 4 within 1s, 4 within 2s, 4 within 4s; 4 at most, of 7 posts, 0 refused", 2},
		{"a refusal", []post{at(0, 30), refused}, "2 within 250ms, 2 within 500ms, 2 within 1s, 2 within 2s, 2 within 4s; 2 at most, of 2 posts, 1 refused", 2},
	} {
		slices.Reverse(c.posts) // the log's order is no matter
		if w := openedBy(c.posts); w.String() != c.want || w.first != c.first {
			t.Errorf("%s: %d first, %s; want %d, %s", c.what, w.first, w, c.first, c.want)
		}
	}
}

// Under a bound that is known, no more are ever found in flight, and with enough posts as many.
func TestWindowIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bound, n := rapid.IntRange(1, 9).Draw(t, "bound"), rapid.IntRange(1, 60).Draw(t, "posts")
		ends := make([]int, bound) // of each place in the window
		var posts []post
		for i := range n {
			place := i % bound
			began := max(ends[place], i/bound)
			ends[place] = began + rapid.IntRange(50, 90).Draw(t, "took")
			posts = append(posts, at(began, ends[place]))
		}
		w := openedBy(posts)
		if want := min(bound, n); w.most != want || w.first != want || w.posts != n {
			t.Fatalf("of %d posts within a window of %d: %+v", n, bound, w)
		}
	})
}

// The log comes late, and is read until it is complete.
func TestOpenedReadsTheLogUntilItIsComplete(t *testing.T) {
	t.Parallel()
	entries := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"timestamp":"2026-11-25T10:00:00.%03dZ","httpRequest":{"latency":"0.500s","status":204}}`, i))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	said := []string{"[]", entries(2), entries(3), entries(3)}
	asked := 0
	trial := &Trial{Prefix: "v-0a1b2c", Project: "a-project", pause: time.Millisecond}
	trial.Gcloud = func(_ context.Context, args ...string) (string, error) {
		if asked++; !strings.Contains(args[2], `service_name="v-0a1b2c-rollup"`) {
			t.Errorf("asks for %q", args)
		}
		return said[asked-1], nil
	}
	if w, err := trial.opened(t.Context(), time.Now()); err != nil || w.posts != 3 || w.first != 3 || asked != 4 {
		t.Errorf("%+v after %d looks, %v", w, asked, err)
	}
	var p post
	if err := json.Unmarshal([]byte(`{"timestamp":"2026-11-25T10:00:00Z","httpRequest":{"status":204}}`), &p); err == nil {
		t.Error("a request that took nobody knows how long is taken")
	}
}
