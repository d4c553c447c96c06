package main

import (
	"context"
	"strings"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/emulator"
)

// Whoever types something else than is wanted hears in one line what that is, and what they may
// have meant: each row is a class of mistakes that were met.
func TestWrongLines(t *testing.T) {
	startFirestore(t)
	if out, errOut, code := counters(t, "create", "post"); code != 0 {
		t.Fatal(out, errOut)
	}
	for _, c := range []struct{ args, err string }{
		{"incr post", `no command "incr"; did you mean inc?`},
		{"add post", "did you mean inc?"},
		{"ls", "did you mean list?"},
		{"show post", "did you mean get?"},
		{"qqqqqq", `no command "qqqqqq"; see: counters --help`},
		{"--json", "no command beside --json; see: counters --help"},
		{"--project nonsense", "no command beside --project nonsense"},
		{"--json nonsense post", `no command "nonsense"`},
		{"--project p show post", `no command "show"; did you mean get?`},
		{"--set A=B nonsense", `no command "nonsense"`},
		{"--sat A=B nonsense", "flags come after the command: counters COMMAND --sat"},
		{"--exat get post", "no flag --exat; did you mean --exact?"},
		{"help nope", "no such command: nope"},
		{"inc post 5", "2 arguments, want: counters inc ID [flags]; did you mean --by 5?"},
		{"inc post five", "2 arguments, want: counters inc ID [flags]; see:"},
		{"inc post -5", "no flag -5; did you mean --by -5?"},
		{"inc post -by 5", "no flag -by; did you mean --by?"},
		{"inc post --by 5.5", "--by 5.5: want an integer other than 0"},
		{"inc post --by=", "--by '': want an integer"},
		{"inc post --key=", "--key is empty"},
		{"create post 5", "did you mean --shards 5?"},
		{"resize post 5", "did you mean --shards 5?"},
		{"rebase post 100", "did you mean --total 100?"},
		{"resize post", "--shards missing, want: counters resize ID --shards N"},
		{"rebase post", "--total missing, want: counters rebase ID --total N"},
		{"import firestore-counter", "--path missing"},
		{"create c --shards many", "--shards many: want an integer"},
		{"create c --total 99999999999999999999", "want an integer within ±9223372036854775807"},
		{"smoke http://a --timeout -1", "--timeout -1: want an integer of 0 or more"},
		{"cost --most-per-day 5USD --billing x", "--billing x: want request or instance"},
		{"create c --num-shards 5", "no flag --num-shards; did you mean --shards?"},
		{"get post --path posts/{post}", "no flag --path; did you mean --counter-path?"},
		{"get post --nothing-of-the-kind", "no flag --nothing-of-the-kind; see: counters get --help"},
		{"get post --exat", "no flag --exat; did you mean --exact?"},
		{"reconcile post --dryrun", "did you mean --dry-run?"},
		{"reconcile --all post", "--all is all counters: name none beside it"},
		{"list post", "1 argument, want: counters list [flags]"},
		{"get counters/post", "counters/post is the path of a document; the counter's id is post"},
		{"get post --project other", "not found at counters/post in project other, database (default)"},
		{"inc post --counter-path posts", "want collections and wildcards in turn, such as posts/{post}"},
		{"reset post", "reset post in project demo-counters, database (default): nothing was done"},
		{"delete nobody --yes", `delete counter "nobody": counter not found at counters/nobody in project demo-counters, database (default)` + "\n"},
		{"serve Foo", `no function "Foo": want Increment, Reconcile, Rollup`},
		{"emulator --ttl x", "--ttl x: want two parts with = between them"},
		{"emulator --host 192.0.2.1 --port 0", "choose another with --host"},
		{"dev --push fast", "--push fast: want quick or pubsub"},
	} {
		out, errOut, code := counters(t, strings.Fields(c.args)...)
		if code == 0 || out != "" || !strings.Contains(errOut, c.err) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q, error %q; want one line that says %q", c.args, code, out, errOut, c.err)
		}
	}
	// stands for the default
	if _, errOut, code := counters(t, "inc", "post", "--fields", ""); code != 0 {
		t.Errorf("fields that are empty: %s", errOut)
	}
	if out, errOut, code := counters(t, "list", "--project", "other"); code != 0 || out != "" || !strings.Contains(errOut, "no counters at counters/{counter} in project other, database (default)") {
		t.Errorf("a list of none: exit code %d, %q, %q", code, out, errOut)
	}
	t.Setenv("HOSTED", "perhaps")
	if _, errOut, code := counters(t, "get", "post"); code != exitUsage || !strings.Contains(errOut, "HOSTED=perhaps: want true or false") {
		t.Errorf("HOSTED=perhaps: exit code %d, %s", code, errOut)
	}
}

// What Google refuses comes with what to do about it, unless it says so itself.
func TestForbidden(t *testing.T) {
	firestore := startFirestore(t)
	must(t, "create", "a")
	for said, want := range map[error]string{
		status.Error(codes.PermissionDenied, "Missing or insufficient permissions."):         "needs roles/datastore.user in the project, which --project names)\n",
		status.Error(codes.Unauthenticated, "Request had invalid authentication."):           "run: gcloud auth application-default login)\n",
		status.Error(codes.PermissionDenied, "Enable it by visiting https://a.example now."): "https://a.example now.\n",
	} {
		firestore.Server.SetInterceptor(func(context.Context, *firestorepb.CommitRequest) emulator.Verdict {
			return emulator.Verdict{Before: said}
		})
		if out, errOut, code := counters(t, "inc", "a", "--json"); code != exitFailed || out != "" || !strings.HasSuffix(errOut, want) {
			t.Errorf("%v: exit code %d, %q, error %q; want %q at its end", said, code, out, errOut, want)
		}
	}
}
