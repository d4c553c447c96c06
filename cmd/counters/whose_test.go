package main

import (
	"fmt"
	"strings"
	"testing"
)

// Without HOSTED no command changes or deletes a document of the app's own, and with it none changes one that
// "counters create" has made: each says which setting is missing, and ends as with wrong arguments.
func TestCommandsSpareTheOthersDocuments(t *testing.T) {
	server := startFirestore(t)
	fs := server.Client(t, "demo-counters")
	put := func(path string, data map[string]any) {
		t.Helper()
		if _, err := fs.Doc(path).Set(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	post := map[string]any{"title": "Hello", "deleting": true, "updated_at": "yesterday"}
	for _, name := range []string{"counted", "new"} {
		put("posts/"+name, post)
	}
	put("posts/new/shards/0", map[string]any{"count": 4})
	run := func(args string) (code int, said string) {
		t.Helper()
		out, errOut, code := counters(t, strings.Fields(args)...)
		return code, out + errOut
	}
	t.Setenv("COUNTERS", "posts/{post}")
	for _, args := range []string{"inc counted --hosted", "reconcile counted --hosted", "create ours --counter-path counters/{counter}", "inc ours --counter-path counters/{counter}"} {
		if code, said := run(args); code != 0 {
			t.Fatalf("%s: %d %s", args, code, said)
		}
	}
	data := func() (all string) {
		t.Helper()
		for _, path := range []string{"posts/counted", "posts/new", "counters/ours"} {
			snap, err := fs.Doc(path).Get(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			all += fmt.Sprintln(path, snap.UpdateTime, snap.Data())
		}
		return all
	}
	before := data()
	for _, c := range []struct{ of, flags, want string }{
		{"counted", "", "set HOSTED=true"},
		{"new", "", "set HOSTED=true"},
		{"ours", " --counter-path counters/{counter} --hosted", "set HOSTED=false"},
		{"ours", " --counter-path counters/ours", "set COUNTERS=counters/{counter}"},
		{"ours", " --counter-path counters/{counter} --shards-name parts", "set SHARDS=shards"},
	} {
		for _, args := range []string{
			"inc ID", "dec ID", "create ID", "delete ID --yes", "reset ID --yes", "rebase ID --total 5 --yes", "resize ID --shards 2",
			"join ID total ann", "leave ID total ann", "hold ID --by 1 --for 1m", "limit ID 5 --field seats --fields total,seats=limit(9)", "reconcile ID", "reconcile ID --dry-run",
		} {
			if strings.HasPrefix(args, "create") && strings.Contains(c.flags, "hosted") {
				continue // which makes none there, whatever it is
			}
			if strings.HasPrefix(args, "leave") && strings.Contains(c.flags, "parts") {
				continue // nobody is there, which is all that it needs to know
			}
			if code, said := run(strings.ReplaceAll(args, "ID", c.of) + c.flags); code != exitUsage || !strings.Contains(said, c.want) {
				t.Errorf("%s%s: %d, %q; want %d with %q", args, c.flags, code, said, exitUsage, c.want)
			}
			if after := data(); after != before {
				t.Fatalf("%s%s has changed\n%sto\n%s", args, c.flags, before, after)
			}
		}
	}
	for _, args := range []string{"reconcile --all", "reconcile counted", "reconcile ours --hosted --counter-path counters/{counter}"} {
		if code, said := run(args); code == 0 || !strings.Contains(said, "set HOSTED=") || data() != before {
			t.Errorf("%s: %d, %q; and there is\n%s", args, code, said, data())
		}
	}
}
