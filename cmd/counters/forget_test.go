package main

import (
	"strings"
	"testing"
)

// A user whose account is deleted is taken off everywhere, others stay, and each number follows in the same
// commit. Another deployment's members of the same names aren't touched.
func TestForget(t *testing.T) {
	startFirestore(t)
	const fields = " --fields likes,seats=limit()"
	says(t, false, []row{
		{args: "forget alice" + fields, out: "alice left 0 counters in project demo-counters"},
		{args: "create a" + fields}, {args: "create b" + fields}, {args: "create c" + fields},
		{args: "create a --counter-path others/{other}" + fields},
		{args: "limit b 2 --field seats" + fields}, {args: "join a likes alice" + fields}, {args: "join a likes bob" + fields}, {args: "join b likes alice" + fields},
		{args: "join b seats alice --hold 10m" + fields}, {args: "join b seats bob" + fields},
		{args: "join c likes bob" + fields},
		{args: "join a likes alice --counter-path others/{other}" + fields},
		{args: "join b seats carol" + fields, err: "limit"},
		{args: "forget a/b" + fields, err: "slash"},
		{args: "forget" + fields, err: "0 arguments, want: counters forget MEMBER"},
		{args: "forget alice" + fields, err: "take alice off 2 counters (likes of 2, seats of 1) in project demo-counters, database (default): nothing was done"},
		{args: "audit a" + fields, out: "likes: 2 = 2 members"},
		{args: "forget alice --yes --json" + fields, out: `{"member":"alice","left":[{"counter":"a","field":"likes"},{"counter":"b","field":"likes"},{"counter":"b","field":"seats"}],"failed":[]}` + "\n"},
		{args: "audit a --otherwise 0" + fields, out: "likes: 1 = 1 member"},
		{args: "audit b --otherwise 0" + fields, out: "likes: 0 = 0 members"},
		{args: "audit b --otherwise 0" + fields, out: "seats: 1 = 1 member"},
		{args: "members b seats" + fields, out: "bob\t"},
		{args: "join b seats carol" + fields, out: "carol joined"}, // there is room again
		{args: "audit c --otherwise 0" + fields, out: "likes: 1 = 1 member"},
		{args: "audit a --counter-path others/{other}" + fields, out: "likes: 1 = 1 member"},
		{args: "forget alice --yes" + fields, out: "alice left 0 counters"},
		{args: "forget bob --yes" + fields, out: "bob left 3 counters (likes of 2, seats of 1) in "},
	})
}

// What can't be left is named, the rest is, and the next run goes on from there.
func TestForgetGoesOn(t *testing.T) {
	firestore := startFirestore(t)
	for _, args := range []string{"create a", "create b", "join a total alice", "join b total alice"} {
		must(t, strings.Fields(args)...)
	}
	if _, err := firestore.Client(t, "demo-counters").Doc("counters/a").Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, errOut, code := counters(t, "forget", "alice", "--yes")
	if code != 1 || !strings.HasPrefix(out, "alice left 1 counter in ") || !strings.Contains(errOut, "total of a: ") || !strings.Contains(errOut, "counters delete") {
		t.Errorf("exit code %d, %q, %q", code, out, errOut)
	}
	if _, errOut, code := counters(t, "delete", "a", "--yes"); code != 0 {
		t.Error(errOut)
	}
	if out, errOut, code := counters(t, "forget", "alice", "--yes"); code != 0 || !strings.HasPrefix(out, "alice left 0 counters in ") {
		t.Errorf("exit code %d, %q, %q", code, out, errOut)
	}
}
