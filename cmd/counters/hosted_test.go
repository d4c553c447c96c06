package main

import (
	"testing"

	"cloud.google.com/go/firestore"
)

// Several fields of documents of an app's own, on the command line. Each row is a command, what it
// prints, and its error.
func TestHostedCommands(t *testing.T) {
	server := startFirestore(t, "COUNTERS=pages/{page}", "HOSTED=true", "FIELDS=likes,visits")
	fs := server.Client(t, "demo-counters")
	set := func(path string, data map[string]any) {
		t.Helper()
		if _, err := fs.Doc(path).Set(t.Context(), data, firestore.MergeAll); err != nil {
			t.Fatal(err)
		}
	}
	set("pages/p1", map[string]any{"title": "One"})
	set("pages/hello", map[string]any{"visits": 40, "likes": 3})
	const inbox = "pages/hello/_counter_shards_/2f1c9a5e-0000-4000-8000-000000000001"
	set(inbox, map[string]any{"visits": 2})
	set("teams/red/pages/p1", map[string]any{})
	const nested = " --counter-path teams/{team}/pages/{page}"
	says(t, true, []row{
		{args: "create p2", err: `create counter "p2": the documents are the app's own: make and delete them there; the first increment of a document makes its shards`},
		{args: "inc p2", err: `counter not found at pages/p2 in project demo-counters, database (default): your app makes that document`},
		{args: "get p2", err: `counter not found at pages/p2 in project demo-counters, database (default): your app makes that document`},
		{args: "inc p1 --by likes=2,visits=5", out: "p1 likes +2, visits +5\n"},
		{args: "inc p1", out: "p1 +1\n"}, // the first field
		{args: "dec p1 --by visits=1 --json", out: `{"by":{"visits":-1},"counter":"p1","replayed":false}` + "\n"},
		{args: "inc p1 --by stars=1", err: `"stars" is not counted; want one of likes, visits`},
		{args: "inc p1 --by likes=", err: "--by likes=: want an integer other than 0"},
		{args: "inc p1 --by likes=0", err: "--by likes=0: want an integer other than 0"},
		{args: "inc p1 --by likes=1,likes=2", err: "twice"},
		{args: "get p1 --exact", out: "likes 3, visits 4\n"},
		{args: "reconcile p1", out: "p1  likes 0 → 3 (events were missing for +3), visits 0 → 4 (events were missing for +4)\n"},
		{args: "reconcile p1", out: "p1  likes 3, visits 4  correct\n"},
		{args: "inc p1 --by visits=6", out: "p1 visits +6\n"},
		{args: "reconcile p1 --dry-run", out: "p1  likes 3, visits 4 → 10 (events were missing for +6)  (dry run)\n"},
		{args: "reconcile p1", out: "p1  likes 3, visits 4 → 10 (events were missing for +6)\n"},
		{args: "reconcile p1 --json", out: `"fields":{"visits":{"before":10,"after":10,"late":0,"drift":0}}`},
		{args: "get p1", out: "likes 3, visits 10\n"},
		{args: "get p1 --json", out: `"total":3,"totals":{"likes":3,"visits":10}`},
		{args: "list", out: "COUNTER  TOTAL               SHARDS\np1       likes 3, visits 10  10\n"},
		{args: "resize p1 --shards 3", out: "p1 has 3 shards, "},
		{args: "rebase p1 --total likes=100,visits=-5 --yes", out: "p1 is likes=100,visits=-5 in project demo-counters"},
		{args: "get p1", out: "likes 100, visits -5\n"},
		{args: "rebase p1 --total visits=7 --yes --json", out: `{"counter":"p1","totals":{"visits":7}}` + "\n"},
		{args: "get p1 --exact", out: "likes 100, visits 7\n"},
		// the first field
		{args: "rebase p1 --total 50 --yes", out: "p1 is 50 in project demo-counters"},
		{args: "get p1", out: "likes 50, visits 7\n"},
		{args: "rebase p1 --total stars=1 --yes", err: `invalid field: "stars" is not counted; want one of likes, visits`},
		{args: "rebase p1 --total likes= --yes", err: "--total likes=: want an integer, or fields"},
		{args: "rebase p1 --total likes=1,likes=2 --yes", err: "twice"},
		{args: "delete p1 --yes", err: "make and delete them there"},

		{args: "import --all --path pages/{page} --field visits --dry-run", out: "pages/{page}\n        2  to import           visits: 47 in all, without what waits in 1 document of _counter_shards_\n"},
		{args: "import --all --path pages/{page} --field visits --to x", err: "--to: leave it out with --all"},
		{args: "import --all --path posts/{post} --field visits", err: "--path posts/{post}: want pages/{page}, where counters are (COUNTERS, --counter-path)"},
		{args: "import --all --path pages/{page} --field stats.visits", err: "want one that is in no map"},
		{args: "import --all --path pages/{page}", err: "--field is missing"},
		{args: "import --all --path pages/{page} --field visits --parallel 0", err: "--parallel 0: want 1 to 500"},
		{args: "import --path pages/{page} --field visits", err: "want one document, or --all"},
		{args: "import --path pages/hello --field visits --dry-run", err: "--dry-run: want --all with it"},
		{args: "import firestore-counter --path pages/hello --field visits", out: "hello: visits is 42, 2 of it from _counter_shards_\n"},
		{args: "import firestore-counter --path pages/hello --field visits --json", out: `{"counter":"hello","value":42,"added":0,"in_place":true}` + "\n"},
		{args: "get hello", out: "likes 3, visits 42\n"},
		{args: "inc hello --by visits=1", out: "hello visits +1\n"},
		{args: "reconcile hello", out: "hello  likes 3, visits 42 → 43 (events were missing for +1)\n"},
		{args: "import firestore-counter --path pages/hello --field visits", out: "hello: visits is 43, 0 of it from _counter_shards_\n"},
		{args: "import --all --path pages/{page} --field visits", out: "pages/{page}\n        1  imported            visits: 7 in all, 0 of it from _counter_shards_\n        1  imported before     nothing has come since\n"},
		{args: "import firestore-counter --all --path pages/{page} --field visits --json", out: `{"path":"pages/{page}","field":"visits","imported":0,"before":2,"nothing":0,"orphaned":0,"failed":0,"value":0,"added":0,"shards":1,"documents":[]}` + "\n"},
		{args: "import firestore-counter --path pages/gone --field visits", err: "counter not found at pages/gone in project demo-counters, database (default): your app makes that document"},
		{args: "import firestore-counter --path pages/hello --field likes", out: "hello: likes is 3, 0 of it from _counter_shards_\n"},
		{args: "reconcile --all", out: "2 counters checked, all correct"},

		{args: "inc red/p1 --by visits=2" + nested, out: "red/p1 visits +2\n"},
		{args: "get red/p1 --exact" + nested, out: "likes 0, visits 2\n"},
		{args: "get red" + nested, err: `"red" has 1 part, and a counter of teams/{team}/pages/{page} has 2`},
		{args: "get red/blue/p1" + nested, err: "3 parts"},
	})
	snap, err := fs.Doc("pages/p1").Get(t.Context())
	// title, likes, visits and our map
	if err != nil || snap.Data()["title"] != "One" || len(snap.Data()) != 4 {
		t.Errorf("the page is %v, %v", snap.Data(), err)
	}
}
