package layout

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParsePath(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{DefaultPath, "posts/{post}", "teams/{team}/posts/{post_id}", "größe/{x}", "stats/site", "a/b/stats/site", "_likes/{like}"} {
		p, err := ParsePath(pattern)
		if err != nil || p.String() != pattern {
			t.Errorf("ParsePath(%q) = %v, %v", pattern, p, err)
		}
	}
	for pattern, want := range map[string]string{
		"":                             "1 part,",
		"posts":                        "1 part,",
		"posts/{post}/x":               "3 parts",
		"posts/post/x/{y}":             "wildcard such as",
		"stats/..":                     "reserved",
		"stats/*":                      "a document's id",
		"counter_x/site":               "kept for",
		"posts/{}":                     "wildcard such as",
		"posts/{a.b}":                  "wildcard such as",
		"posts/{post=**}":              "wildcard such as",
		"{posts}/{post}":               "holds a wildcard",
		"po*/{post}":                   "holds a wildcard",
		"/{post}":                      "empty",
		"posts/{post}/":                "3 parts",
		"__x__/{post}":                 "reserved",
		"../{post}":                    "reserved",
		"counter_requests/{request}":   "kept for",
		"posts/{a}/counter_rollup/{b}": "kept for",
		"teams/{x}/posts/{x}":          "twice",
		"posts/{shard}":                "kept for triggers",
		"docs/{document}":              "kept for triggers",
		"posts\xff/{post}":             "UTF-8",
	} {
		if _, err := ParsePath(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParsePath(%q): %v, want %q", pattern, err, want)
		}
	}
}

func TestPathValidate(t *testing.T) {
	t.Parallel()
	flat, _ := ParsePath("posts/{post}")
	nested, _ := ParsePath("teams/{team}/posts/{post}")
	whole, _ := ParsePath("a/b/stats/site")
	deep, _ := ParsePath("a/{a}/b/{b}/c/{c}/d/{d}")
	long := func(n int) string { return strings.Repeat(strings.Repeat("x", n)+"/", 3) + "d" }
	for _, tt := range []struct {
		path Path
		id   string
		ok   bool
	}{
		{flat, "post-1", true}, {flat, "red/post-1", false}, {flat, "", false}, {flat, "..", false}, {flat, "__x__", false},
		{whole, "site", true}, {whole, "stats/site", false}, {whole, "b", false}, {whole, "", false},
		{deep, long(1400), true}, {deep, long(1500), false}, // no member would have room below it
		{nested, "red/post-1", true}, {nested, "post-1", false}, {nested, "red/a/b", false}, {nested, "/b", false},
		{nested, "red/", false}, {nested, "red/..", false}, {nested, "", false}, {nested, "red/\xff", false},
		{nested, "red/" + strings.Repeat("x", 1501), false}, {nested, "red/" + strings.Repeat("x", 1500), true},
	} {
		if err := tt.path.Validate(tt.id); (err == nil) != tt.ok {
			t.Errorf("%s: Validate(%.20q) = %v", tt.path, tt.id, err)
		}
	}
}

// A document's path leads back to the id, and to no other layout's.
func TestPathRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, err := ParsePath(rapid.SampledFrom([]string{DefaultPath, "posts/{post}", "teams/{team}/posts/{post}"}).Draw(t, "path"))
		if err != nil {
			t.Fatal(err)
		}
		id := rapid.StringMatching(`[a-zA-Z0-9 _.{}/-]{1,12}`).Draw(t, "id")
		if p.Validate(id) != nil {
			t.Skip()
		}
		if got, ok := p.ID(p.Document(id)); !ok || got != id {
			t.Fatalf("%s: %q became %q, and that %q, %v", p, id, p.Document(id), got, ok)
		}
	})
}

// Who reads what something else wrote may meet an id that no counter has.
func TestDocumentOfNoCounter(t *testing.T) {
	t.Parallel()
	nested, _ := ParsePath("teams/{team}/posts/{post}")
	for id, want := range map[string]string{"red/1": "teams/red/posts/1", "red/1/2/3": "teams/red/posts/1/2/3", "red": "teams/red", "": "teams/"} {
		if got := nested.Document(id); got != want {
			t.Errorf("Document(%q) = %q, want %q", id, got, want)
		}
	}
}
