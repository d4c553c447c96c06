package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/firestore-counters/counters/emulator"
)

// counters runs the program in this process, and returns what it printed.
func counters(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, &out, &err)
	return out.String(), err.String(), code
}

// A counter's life on the command line. Each row is a command, what it prints, and its error.
func TestCommands(t *testing.T) {
	firestore := emulator.Start(t)
	t.Setenv("FIRESTORE_EMULATOR_HOST", firestore.Addr)
	t.Setenv("GOOGLE_CLOUD_PROJECT", "")
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
	for _, c := range []struct{ args, out, err string }{
		{args: "create post --shards 4 --total 100", out: "created post: 4 shards, total 100\n"},
		{args: "create post", err: "counter exists already"},
		{args: "create post-2 --shards 1001", err: "1 to 1000"},
		{args: "create a/b", err: "slash"},
		{args: "inc post", out: "post +1\n"},
		{args: "inc post --by 5 --json", out: `{"by":5,"counter":"post","replayed":false}` + "\n"},
		{args: "inc post --by 0", err: "other than 0"},
		{args: "inc unknown", err: "not found"},
		{args: "inc post --by 4 --key order-17", out: "post +4\n"},
		{args: "inc post --by 4 --key order-17", out: "post +4 (counted before, under the same key)\n"},
		{args: "inc post --by 3 --key order-17", err: "another request"},
		{args: "dec post --by 3", out: "post -3\n"},
		{args: "get post", out: "100\n"}, // nobody has rolled up
		{args: "get post --exact", out: "107\n"},
		{args: "get unknown", err: `read counter "unknown": counter not found`},
		{args: "reconcile post", out: "1 counters seen"},
		{args: "get post", out: "107\n"},
		{args: "resize post --shards 2", out: "post has 2 shards, 2 were moved\n"},
		{args: "resize post", err: "shards"},
		{args: "resize unknown --shards 2", err: "not found"},
		{args: "get post --exact", out: "107\n"},
		{args: "rebase post --total 1000", out: "post is 1000\n"},
		{args: "get post --exact", out: "1000\n"},
		{args: "get post", out: "1000\n"},
		{args: "rebase post", err: "total"},
		{args: "reset post", out: "post is 0\n"},
		{args: "get post --exact", out: "0\n"},
		{args: "reset unknown", err: "not found"},
		{args: "reset snippet", out: "snippet is 0\n"}, // adopts it first
		{args: "get snippet --exact", out: "0\n"},
		{args: "import firestore-counter --path pages/hello --field views", out: "hello +42, of 42 in pages/hello\n"},
		{args: "import firestore-counter --path pages/hello --field views", out: "hello +0, of 42 in pages/hello\n"},
		{args: "import firestore-counter --path pages/hello --field views --to post --json", out: `{"counter":"post","value":42,"added":42}` + "\n"},
		{args: "import firestore-counter --path pages --field views --to post", err: "not the path of a document"},
		{args: "import firestore-counter --path pages/hello", err: "field"},
		{args: "get hello", out: "42\n"},
		{args: "list", out: "hello\t42\t10 shards\npost\t"},
		{args: "delete hello", out: "deleted hello\n"},
		{args: "delete hello", err: "not found"},
		{args: "watch hello", err: "not found"},
		{args: "list --counter-path other/{x}", out: ""},
		{args: "nonsense", err: "unknown command"},
	} {
		out, errOut, code := counters(t, strings.Fields(c.args)...)
		if c.err != "" {
			if code == 0 || out != "" || !strings.Contains(errOut, c.err) || strings.Count(errOut, "\n") != 1 {
				t.Errorf("%s: exit code %d, %q, error %q; want one line that says %q", c.args, code, out, errOut, c.err)
			}
			continue
		}
		if code != 0 || errOut != "" || !strings.Contains(out, c.out) || c.out == "" && out != "" {
			t.Errorf("%s: exit code %d, %q, error %q; want %q", c.args, code, out, errOut, c.out)
		}
	}
	if doc, err := page.Get(t.Context()); err != nil || doc.Data()["views"] != int64(40) {
		t.Errorf("the import changed what it read: %v, %v", doc.Data(), err)
	}
}

// Every command that reads or writes counters prints JSON when it is asked to.
func TestJSON(t *testing.T) {
	firestore := emulator.Start(t)
	t.Setenv("FIRESTORE_EMULATOR_HOST", firestore.Addr)
	if _, err := firestore.Client(t, "demo-counters").Doc("pages/a").Set(t.Context(), map[string]any{"n": 1}); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"create a", "inc a", "dec a", "get a", "get a --exact", "list", "resize a --shards 3", "rebase a --total 5", "reset a",
		"import firestore-counter --path pages/a --field n", "reconcile a", "cost --rate 10", "delete a",
	} {
		out, errOut, code := counters(t, append(strings.Fields(args), "--json")...)
		var value map[string]any
		if err := json.Unmarshal([]byte(out), &value); err != nil || code != 0 || len(value) == 0 {
			t.Errorf("%s: exit code %d, %q, error %q: %v", args, code, out, errOut, err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	t.Setenv("FIRESTORE_EMULATOR_HOST", "127.0.0.1:1")
	for _, args := range []string{"get a", "create a", "inc a", "watch a", "list", "reset a"} {
		out, errOut, code := counters(t, strings.Fields(args)...)
		if code == 0 || out != "" || strings.Count(errOut, "\n") != 1 || !strings.Contains(errOut, "127.0.0.1:1") {
			t.Errorf("%s: exit code %d, %q, error %q; want one line that names the server", args, code, out, errOut)
		}
	}
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
