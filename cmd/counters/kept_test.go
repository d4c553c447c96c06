package main

import (
	"reflect"
	"strings"
	"testing"
)

// What no total replaces stays, whatever the command, and reconcile names it. Each row is a command, what it prints,
// and its error.
func TestCommandsOnWhatNoTotalReplaces(t *testing.T) {
	server := startFirestore(t, "COUNTERS=posts/{post}", "HOSTED=true", "FIELDS=likes,comments=count(comments)")
	fs := server.Client(t, "demo-counters")
	kept := map[string]any{"title": "A", "likes": []any{"uid-1", "uid-2"}, "comments": map[string]any{"first": true}}
	if _, err := fs.Doc("posts/a").Set(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, out, err string }{
		{args: "inc a", out: "a +1\n"},
		{args: "join a likes uid-9", out: "uid-9 joined, likes of a\n"},
		{args: "get a", out: "likes not counted here, comments not counted here\n"},
		{args: "get a --exact", out: "likes 2, comments 0\n"},
		{args: "reconcile a", out: `a  likes 2, comments 0  problem: "likes" is a list in its document, and no total replaces that`, err: "only you can solve"},
		{args: "reconcile --all", out: `"comments" is no number in its document`, err: "only you can solve"},
		{args: "rebase a --total likes=10 --yes", out: "a is likes=10"},
		{args: "get a --exact", out: "likes 10, comments 0\n"},
		{args: "resize a --shards 3", out: "a has 3 shards"},
		{args: "reset a --yes --members=remove", out: "a is 0"},
		{args: "import --all --path posts/{post} --field likes", out: "1  failed", err: "no total replaces"},
		{args: "import --path posts/a --field likes", err: "no total replaces"},
	} {
		out, errOut, code := counters(t, strings.Fields(c.args)...)
		if (code != 0) != (c.err != "") || !strings.Contains(errOut, c.err) || !strings.Contains(out, c.out) {
			t.Errorf("%s: exit code %d, %q, error %q; want %q, error %q", c.args, code, out, errOut, c.out, c.err)
		}
		doc, err := fs.Doc("posts/a").Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := doc.Data()
		delete(got, "counter_rollup")
		if !reflect.DeepEqual(got, kept) {
			t.Fatalf("%s: the document is %v, and was %v", c.args, got, kept)
		}
	}
}

// Lists of user ids become members. Each row is a command, what it prints, and its error.
func TestImportMembersCommand(t *testing.T) {
	server := startFirestore(t)
	fs := server.Client(t, "demo-counters")
	for path, likes := range map[string]any{
		"posts/a": []any{"uid-1", "uid-2", "uid-1"}, "posts/b": []any{"uid-1"}, "posts/c": 7, "posts/d": nil, "posts/e": []any{"uid-1", "x/\x1b[31m"},
	} {
		if _, err := fs.Doc(path).Set(t.Context(), map[string]any{"title": "A", "likes": likes}); err != nil {
			t.Fatal(err)
		}
	}
	const posts = "--path posts/{post} --field likes"
	const hosted = " --counter-path posts/{post} --fields likes --hosted"
	says(t, false, []row{
		{args: "import members", err: "--path missing"},
		{args: "import members --path posts/{post}", err: "--field is missing"},
		{args: "import members --path posts/{post} --field a.b", err: "--field a.b: want one that is in no map"},
		{args: "import members " + posts + " --parallel 0", err: "--parallel 0: want 1 to 500"},
		{args: "import members " + posts + " --counter-path pages/{page}", err: "want pages/{page}, where counters are"},
		{args: "import members " + posts + " --fields views", err: `"likes" is not counted; want one of views`},
		{args: "import members " + posts + " --dry-run", out: "posts/{post}\n        2  to import  3 members; 1 duplicate\n        1  a number   imported before, or never a list\n        1  nothing    no likes\n        1  failed\n", err: "could not be imported"},
		{args: "members a likes --count" + hosted, out: "0\n"},
		{args: "import members " + posts, out: "        2  imported   3 members, 3 of them new; 1 duplicate\n", err: `posts/e: not a list of user ids: entry 1: "x/\x1b[31m" contains a slash; take them out of the list, and import again`},
		{args: "members a likes --count" + hosted, out: "2\n"},
		{args: "get a" + hosted, out: "2\n"},
		{args: "audit a --otherwise 0" + hosted, out: "likes: 2 = 2 members + 0 of other increments; the total shown matches\n"},
		{args: "get b" + hosted, out: "1\n"},
		{args: "members e likes --count" + hosted, out: "0\n"},
		{args: "import members " + posts + " --json", out: `{"path":"posts/{post}","field":"likes","imported":0,"members":0,"joined":0,"left":0,"duplicates":0,"number":3,"nothing":1,"failed":1,"documents":[{"path":"posts/e"`, err: "could not"},
		{args: "reconcile --all" + hosted, out: "2 counters checked, all correct\n"},
		{args: "get a" + hosted, out: "2\n"},
	})
}
