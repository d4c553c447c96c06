package functions

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
)

// Reads within READ_CACHE are answered from memory, with what other caches go by; exact ones never.
func TestReadsAreCached(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	for name, c := range map[string]struct {
		cache   time.Duration
		private bool
		control string
		reads   int64 // of five GETs, the counter having been read
	}{
		"default":         {time.Second, false, "public, max-age=1", 0},
		"a minute":        {time.Minute, false, "public, max-age=60", 0},
		"with a token":    {time.Minute, true, "private, max-age=60", 0},
		"half a second":   {500 * time.Millisecond, false, "no-cache", 0},
		"with every read": {0, false, "no-cache", 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tk *tokens
			var header []string
			if c.private {
				tk = firebaseTokens("p", i.keys())
				header = []string{"Authorization", "Bearer " + i.sign(t, valid("https://securetoken.google.com/p", "p", "alice"))}
			}
			g := startGuarded(t, tk, func(s *settings.Settings) { s.ReadCache, s.PublicReads = c.cache, !c.private })
			reads := func() int64 { return g.firestore.Server.Stats().Reads }
			if resp := g.do(t, "POST", "/a", header...); resp.StatusCode != 200 {
				t.Fatalf("POST: %d", resp.StatusCode)
			}
			g.do(t, "GET", "/a", header...)
			before := reads()
			for range 5 {
				resp := g.do(t, "GET", "/a", header...)
				if got := resp.Header.Get("Cache-Control"); resp.StatusCode != 200 || got != c.control || resp.Header.Get("ETag") == "" {
					t.Errorf("GET: %d, Cache-Control %q, ETag %q; want %q", resp.StatusCode, got, resp.Header.Get("ETag"), c.control)
				}
			}
			// How long that took is not ours to say: a second may have passed.
			if got := reads() - before; got != c.reads && !(c.cache > 0 && c.cache < time.Minute) {
				t.Errorf("%d reads, want %d", got, c.reads)
			}
			before = reads()
			for range 2 {
				resp := g.do(t, "GET", "/a?exact=true", header...)
				if resp.StatusCode != 200 || resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("ETag") != "" {
					t.Errorf("exact: %d, %v; want no-store", resp.StatusCode, resp.Header)
				}
			}
			if got := reads() - before; got != 6 { // counter, base and sum, twice
				t.Errorf("exact: %d reads, want 6", got)
			}
			if resp := g.do(t, "GET", "/unknown", header...); resp.StatusCode != 404 || resp.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("unknown: %d, %v; want no-store", resp.StatusCode, resp.Header)
			}
		})
	}
}

// The settings in seconds that a test can't wait for.
func TestCacheControl(t *testing.T) {
	t.Parallel()
	for kept, want := range map[time.Duration]string{
		0:                       "no-cache",
		500 * time.Millisecond:  "no-cache",
		time.Second:             "public, max-age=1",
		2500 * time.Millisecond: "public, max-age=2",
	} {
		h := incrementHandler{Settings: settings.Settings{ReadCache: kept}}
		if got := h.caching(); got != want {
			t.Errorf("%v: %q, want %q", kept, got, want)
		}
	}
	h := incrementHandler{Settings: settings.Settings{ReadCache: time.Minute}, tokens: &tokens{}}
	if got := h.caching(); got != "private, max-age=60" {
		t.Errorf("with tokens: %q", got)
	}
}

// Who has the answer already gets 304 without a body, until the total changes.
func TestETag(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, nil, func(s *settings.Settings) { s.ReadCache = 0 })
	g.do(t, "POST", "/a")
	resp, body := g.send(t, "GET", "/a")
	tag := resp.Header.Get("ETag")
	if resp.StatusCode != 200 || tag == "" || body == "" {
		t.Fatalf("GET: %d, ETag %q, %q", resp.StatusCode, tag, body)
	}
	for _, have := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
		resp, body := g.send(t, "GET", "/a", "If-None-Match", have)
		if resp.StatusCode != 304 || body != "" || resp.Header.Get("ETag") != tag || resp.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("If-None-Match %s: %d %q, %v; want 304", have, resp.StatusCode, body, resp.Header)
		}
	}
	if resp, again := g.send(t, "GET", "/a", "If-None-Match", `"other"`); resp.StatusCode != 200 || again != body {
		t.Errorf("another ETag: %d %q, want %q", resp.StatusCode, again, body)
	}
	if _, err := g.fs.Doc("counters/a").Set(t.Context(), map[string]any{"num_shards": 10, "total": 7}); err != nil {
		t.Fatal(err)
	}
	if resp, _ := g.send(t, "GET", "/a", "If-None-Match", tag); resp.StatusCode != 200 || resp.Header.Get("ETag") == tag {
		t.Errorf("after a change: %d, ETag %s; want 200 and another than %s", resp.StatusCode, resp.Header.Get("ETag"), tag)
	}
}

// An answer that differs only in what it says of fields is another one: who has the earlier one doesn't get 304.
func TestETagIsOfAllThatAnAnswerSays(t *testing.T) {
	t.Parallel()
	fields, err := layout.ParseFields("likes,views")
	if err != nil {
		t.Fatal(err)
	}
	g := startGuarded(t, nil, func(s *settings.Settings) { s.ReadCache, s.Fields = 0, fields })
	doc := g.fs.Doc("counters/a")
	if _, err := doc.Set(t.Context(), map[string]any{"num_shards": 1, "likes": 5, "views": 0, "updated_at": time.Now()}); err != nil {
		t.Fatal(err)
	}
	resp, before := g.send(t, "GET", "/a")
	tag := resp.Header.Get("ETag")
	if _, err := doc.Update(t.Context(), []firestore.Update{{Path: "views", Value: firestore.Delete}}); err != nil {
		t.Fatal(err)
	}
	_, after := g.send(t, "GET", "/a")
	if after == before {
		t.Fatalf("it still is %s", after)
	}
	if resp, _ := g.send(t, "GET", "/a", "If-None-Match", tag); resp.StatusCode != 200 {
		t.Errorf("%d; want 200: the answer was\n%snow it is\n%s", resp.StatusCode, before, after)
	}
}

// An increment says when it was committed, and a total as of when it is: of several fields the earliest, or that of
// the field that a page watches.
func TestAnswersSayWhen(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, nil, func(s *settings.Settings) {
		s.ReadCache, s.Members, s.Fields = 0, settingAny, layout.Fields{{Name: "likes", Shard: "likes"}, {Name: "views", Shard: "views"}}
	})
	answer := func(method, path string) (times struct {
		CommittedAt time.Time `json:"committed_at"`
		AsOf        time.Time `json:"as_of"`
	}) {
		t.Helper()
		status, body := g.read(t, method, path)
		if err := json.Unmarshal([]byte(body), &times); status != 200 || err != nil {
			t.Fatalf("%s %s: %d %s, %v", method, path, status, body, err)
		}
		return times
	}
	before := answer("POST", "/a").CommittedAt
	exact := answer("GET", "/a?exact=true").AsOf
	after := answer("PUT", "/a/likes/alice").CommittedAt
	if before.IsZero() || exact.Before(before) || !after.After(exact) {
		t.Errorf("committed at %v, summed as of %v, committed at %v: want them in this order", before, exact, after)
	}
	if at := answer("PUT", "/a/likes/alice").CommittedAt; !at.IsZero() {
		t.Errorf("nothing was committed, at %v", at)
	}
	if at := answer("DELETE", "/a/likes/alice").CommittedAt; !at.After(after) {
		t.Errorf("left at %v, and joined at %v", at, after)
	}
	if at := answer("GET", "/a").AsOf; !at.IsZero() {
		t.Errorf("nothing is rolled up, and the total is as of %v", at)
	}
	if _, err := g.fs.Doc("counters/a").Set(t.Context(), map[string]any{
		"likes": 1, "counter_rollup": map[string]any{"as_of": map[string]any{"likes": exact, "views": before}},
	}, firestore.MergeAll); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]time.Time{"/a": before, "/?counter=a": before, "/?counter=a&field=likes": exact, "/?counter=a&field=views": before} {
		if got := answer("GET", path).AsOf; !got.Equal(want) {
			t.Errorf("GET %s: as of %v, want %v", path, got, want)
		}
	}
}

// Whoever asks for many ranges of an answer gets all of it once: each range would have headers of its own.
func TestAnswersHaveNoRanges(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, nil, nil)
	g.do(t, "POST", "/a")
	_, whole := g.read(t, "GET", "/a")
	var ranges []string
	for n := range len(whole) - 1 {
		ranges = append(ranges, fmt.Sprintf("%d-%d", n, n))
	}
	if status, body := g.read(t, "GET", "/a", "Range", "bytes="+strings.Join(ranges, ",")); status != 200 || body != whole {
		t.Errorf("%d ranges: %d, %d bytes; want the %d of the answer", len(ranges), status, len(body), len(whole))
	}
}
