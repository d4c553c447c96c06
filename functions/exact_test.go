package functions

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
)

// comment makes so many documents below a counter's.
func (g *guarded) comment(t *testing.T, counter string, n int) {
	t.Helper()
	doc := g.fs.Doc("counters/" + counter)
	if _, err := doc.Set(t.Context(), map[string]any{"num_shards": 1}); err != nil {
		t.Fatal(err)
	}
	batch := g.fs.BulkWriter(t.Context())
	for i := range n {
		if _, err := batch.Create(doc.Collection("comments").Doc(fmt.Sprint(i)), map[string]any{}); err != nil {
			t.Fatal(err)
		}
	}
	batch.End()
}

func fieldsOf(t *testing.T, text string) layout.Fields {
	t.Helper()
	fields, err := layout.ParseFields(text)
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// Queries of fields that count documents cost by what they count: whoever has them asked is a caller
// whom the deployment knows.
func TestExactReadsOfDocumentsTakeAToken(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	bearer := []string{"Authorization", "Bearer " + i.sign(t, valid("https://securetoken.google.com/p", "p", "alice"))}
	for fields, public := range map[string]bool{"likes,comments=count(comments)": false, "comments=count(comments)": false, "likes,views": true} {
		t.Run(fields, func(t *testing.T) {
			t.Parallel()
			g := startGuarded(t, firebaseTokens("p", i.keys()), func(s *settings.Settings) { s.Fields, s.PublicReads = fieldsOf(t, fields), true })
			g.comment(t, "a", 3)
			before := g.firestore.Server.Stats().Reads
			for _, path := range []string{"/a?exact=true", "/?counter=a&exact=true", "/?exact=true&counter=a"} {
				status, body := g.read(t, "GET", path)
				if want := map[bool]int{true: 200, false: 401}[public]; status != want {
					t.Errorf("GET %s without a token: %d %s, want %d", path, status, body, want)
				}
				if reads := g.firestore.Server.Stats().Reads - before; !public && reads > 0 {
					t.Errorf("GET %s without a token: %d reads", path, reads)
				}
				if status, body := g.read(t, "GET", path, bearer...); status != 200 {
					t.Errorf("GET %s of a user: %d %s", path, status, body)
				}
				before = g.firestore.Server.Stats().Reads
			}
			for _, path := range []string{"/a", "/a?exact=false"} {
				if status, body := g.read(t, "GET", path); status != 200 {
					t.Errorf("GET %s without a token: %d %s", path, status, body)
				}
			}
		})
	}
}

// RATE_LIMIT counts what an exact read costs: the caller pays for it by the pause after it.
func TestExactReadsAreChargedByTheirReads(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, nil, func(s *settings.Settings) {
		s.Fields, s.RateLimit = fieldsOf(t, "likes,comments=count(comments),again=count(comments)"), 1
	})
	g.comment(t, "a", 2001)
	before := g.firestore.Server.Stats().Reads
	if status, body := g.read(t, "GET", "/a?exact=true"); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	reads := g.firestore.Server.Stats().Reads - before
	if reads != 9 { // counter, base, a sum, and twice three for 2,001 documents
		t.Errorf("%d reads, want 9", reads)
	}
	resp := g.do(t, "GET", "/a")
	if after, _ := strconv.Atoi(resp.Header.Get("Retry-After")); resp.StatusCode != 429 || after < 5 || after > int(reads) {
		t.Errorf("after %d reads, at one a second: %s, Retry-After %q; want 429, and those seconds", reads, resp.Status, resp.Header.Get("Retry-After"))
	}
	if resp := g.do(t, "GET", "/a", "X-Forwarded-For", "1.1.1.1"); resp.StatusCode != 200 {
		t.Errorf("somebody else: %s", resp.Status)
	}
}

// What is refused for the counters that it would make is looked up so often as a caller may make
// counters, and no more.
func TestRefusedCreationsCostFewReads(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, nil, func(s *settings.Settings) { s.AutoCreate, s.NumShards = settings.AutoCreate{On: true, PerMinute: 5}, 1 })
	for _, id := range []string{"known", "unread"} {
		if _, err := g.fs.Doc("counters/"+id).Set(t.Context(), map[string]any{"num_shards": 1}); err != nil {
			t.Fatal(err)
		}
	}
	if status, body := g.post(t, "/known", "", "2.2.2.2"); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	before := g.firestore.Server.Stats().Reads
	for n := range 20 {
		for _, ids := range []string{"same", fmt.Sprint("other", n)} {
			if status, body := g.post(t, "/", newIDs(ids, 500), "1.1.1.1"); status != 429 && (n > 0 || status != 400) {
				t.Fatalf("500 unknown ids: %d %s", status, body)
			}
		}
	}
	if reads := g.firestore.Server.Stats().Reads - before; reads > 1000 {
		t.Errorf("%d reads for what was refused 40 times, want 1,000 at most", reads)
	}
	const both = `{"increments":[{"counter":"known"},{"counter":"unread"},{"counter":"new"}]}`
	for _, c := range []struct {
		path, body, address string
		status              int
	}{
		{"/", both, "1.1.1.1", 429},
		{"/known", "", "1.1.1.1", 200},
		{"/unread", "", "1.1.1.1", 200}, // one at a time, as by GET
		{"/new-0", "", "1.1.1.1", 200},
		{"/", both, "3.3.3.3", 200},
		{"/", both, "1.1.1.1", 200}, // all known by now
	} {
		if status, body := g.post(t, c.path, c.body, c.address); status != c.status {
			t.Errorf("POST %s of %s: %d %s, want %d", c.path, c.address, status, body, c.status)
		}
	}
}
