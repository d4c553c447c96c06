package layout

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func layoutOf(t *testing.T, path, fields string) Layout {
	t.Helper()
	l, err := Place{Counters: path, Fields: fields}.Layout()
	if err != nil {
		t.Fatal(err)
	}
	l.Database = "projects/p/databases/(default)"
	return l
}

// Each collection has a trigger, wherever it is, and a document is told apart by its path.
func TestCollectionsElsewhere(t *testing.T) {
	t.Parallel()
	l := layoutOf(t, "posts/{post}", "likes,a=count(comments),b=count(/comments where post=={post}),c=count(**/comments where post=={post}),"+
		"d=sum(/comments.n where post=={post} and ok==true),e=count(/comments where about=={post})")
	want := []string{"posts/{post}/shards/{shard}", "posts/{post}/comments/{document}", "comments/{document}", "{parents=**}/comments/{document}"}
	if diff := cmp.Diff(want, l.Patterns()); diff != "" {
		t.Errorf("patterns (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"comments"}, l.CollectionGroups()); diff != "" {
		t.Errorf("groups (-want +got)\n%s", diff)
	}
	for path, want := range map[string][]string{
		"comments/c":                     {"/comments where post=={post}", "**/comments where post=={post}", "/comments where about=={post}"},
		"posts/p/comments/c":             {"comments", "**/comments where post=={post}"},
		"users/u/comments/c":             {"**/comments where post=={post}"},
		"comments/c/replies/r":           nil,
		"comments":                       nil,
		"posts/p/comments":               nil,
		"users//comments/c":              nil,
		"posts/p/comments/c/comments/c2": {"**/comments where post=={post}"},
	} {
		var got []string
		for _, c := range l.ParseCounted(l.Document(path)) {
			got = append(got, c.Documents)
			if below := c.Documents == "comments"; below != (c.Counter == "p") || below != (c.Document == "c") {
				t.Errorf("%s: %+v", path, c)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", path, diff)
		}
	}
	if got := l.FieldsThatCount("/comments where post=={post}"); len(got) != 2 || got[1].Name != "d" {
		t.Errorf("fields of the comments that name a post: %v", got)
	}

	site := layoutOf(t, "stats/site", "total=count,users=count(/users),all=count(**/comments)")
	if got := site.ParseCounted(site.Document("users/u")); len(got) != 1 || got[0].Counter != "site" || got[0].Document != "u" {
		t.Errorf("users/u is %+v", got)
	}
	if got := site.ParseCounted(site.Document("a/b/comments/c")); len(got) != 1 || got[0].Counter != "site" {
		t.Errorf("a comment is %+v", got)
	}
}

// A document names its counter by its id, by its path or by a reference, each of which a query
// compares with.
func TestCounterOf(t *testing.T) {
	t.Parallel()
	type fields map[string]string
	for _, tt := range []struct {
		path, where string
		fields      fields
		want        string // none where empty
	}{
		{"posts/{post}", "post=={post}", fields{"post": "p"}, "p"},
		{"posts/{post}", "post=={post}", fields{"post": "posts/p"}, "p"},
		{"posts/{post}", "post=={post}", fields{"post": "pages/p"}, ""},
		{"posts/{post}", "post=={post}", fields{"post": "posts/p/comments/c"}, ""},
		{"posts/{post}", "post=={post}", fields{"post": "/p"}, ""},
		{"posts/{post}", "post=={post}", fields{"post": ""}, ""},
		{"posts/{post}", "post=={post}", fields{"post": ".."}, ""},
		{"posts/{post}", "post=={post}", fields{}, ""},
		{"posts/{post}", "to.post=={post}", fields{"to.post": "p"}, "p"},
		{"teams/{team}/posts/{post}", "post=={post}", fields{"post": "teams/red/posts/p"}, "red/p"},
		{"teams/{team}/posts/{post}", "post=={post}", fields{"post": "p"}, ""}, // of which team
		{"teams/{team}/posts/{post}", "team=={team} and post=={post}", fields{"team": "red", "post": "p"}, "red/p"},
		{"teams/{team}/posts/{post}", "team=={team} and post=={post}", fields{"team": "teams/red", "post": "p"}, "red/p"},
		{"teams/{team}/posts/{post}", "team=={team} and post=={post}", fields{"team": "red", "post": "teams/red/posts/p"}, "red/p"},
		{"teams/{team}/posts/{post}", "team=={team} and post=={post}", fields{"team": "blue", "post": "teams/red/posts/p"}, ""},
		{"teams/{team}/posts/{post}", "team=={team} and post=={post}", fields{"team": "leagues/red", "post": "p"}, ""},
		{"teams/{team}/posts/{post}", "team=={team} and post=={post}", fields{"post": "teams/red/posts/p"}, ""},
	} {
		l := layoutOf(t, tt.path, "likes,n=count(/notes where "+tt.where+")")
		refs := l.Counted[0].Counted.References()
		got, ok := l.CounterOf(refs, func(path string) (string, bool) { text, ok := tt.fields[path]; return text, ok })
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s, %s: %v names %q, %v; want %q", tt.path, tt.where, tt.fields, got, ok, tt.want)
		}
	}
}

func TestWrongFields(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ path, field, want string }{
		{"posts/{post}", "count(/comments)", "want a condition by which a document names its counter, such as where post=={post}, in n=count(/comments)"},
		{"posts/{post}", "count(**/comments where public==true)", "such as where post=={post}"},
		{"posts/{post}", "count(/comments where post=={page})", "want each of {post} once"},
		{"posts/{post}", "count(/comments where a=={post} and b=={post})", "want each of {post} once"},
		{"posts/{post}", "count(comments where post=={post})", "no {post}: documents below a counter's are its own; /comments is"},
		{"posts/{post}", "count(/posts where parent=={post})", "another collection than posts, in which counters are"},
		{"posts/{post}", "count(**/posts where parent=={post})", "another collection than posts"},
		{"teams/{team}/posts/{post}", "count(/comments where team=={team})", "such as where post=={post}"},
		{"stats/site", "count(/users where site=={site})", "no {site}: stats/site has no wildcards"},
		{"stats/site", "count(/stats)", "another collection than stats"},
	} {
		_, err := Place{Counters: tt.path, Fields: "likes,n=" + tt.field}.Layout()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, %s: %v, want %q", tt.path, tt.field, err, tt.want)
		}
	}
}

func TestIndex(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"count(c)":                              "",
		"count(c where a==1)":                   "",
		"count(c where a==1 and b in [1,2])":    "", // merged
		"count(c where n>=1 and n<5)":           "",
		"count(c where n>=1 and a==1)":          "a n",
		"sum(c.n)":                              "",
		"sum(c.n where n>1)":                    "",
		"avg(c.n where a==1)":                   "a n",
		"avg(c.n where m>1 and a in [1,2])":     "a m n",
		"count(/c where p=={post})":             "",
		"count(/c where p=={post} and a==true)": "",
		"sum(/c.n where p=={post})":             "p n",
		"count(**/c where p=={post})":           "p",
		"count(**/c where p=={post} and a==1)":  "p a",
		"avg(**/c.n where p=={post})":           "p n",
	} {
		fields, err := ParseFields("likes,x=" + field)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(fields[1].Counted.Index(), " "); got != want {
			t.Errorf("%s needs %q, want %q", field, got, want)
		}
	}
}
