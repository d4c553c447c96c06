package main

import (
	"encoding/json"
	"strings"
	"testing"

	fs "cloud.google.com/go/firestore"
)

// What shards hold and no total has is behind, until it is rolled up. Each row is a command, and
// what it prints.
func TestLag(t *testing.T) {
	firestore := startFirestore(t, "FIELDS=total=count,likes")
	says(t, false, []row{
		{args: "lag post", err: `read counter "post": counter not found at counters/post in project demo-counters, database (default)`},
		{args: "lag", err: "name the counters, or say --all"},
		{args: "lag --all", out: "0 counters, 0 behind\n"},
		{args: "create post --shards 1 --total 100"},
		{args: "create quiet --shards 2"},
		{args: "lag post quiet", out: "post  up to date\nquiet  up to date\n"},
		{args: "inc post --by total=5,likes=2"},
		{args: "inc post --by likes=-1"},
		{args: "lag post", out: "post  likes +1, total +5 behind, the oldest of 1 shard for "},
		{args: "lag --all", out: "2 counters, 1 behind, the oldest for "},
		{args: "reconcile post"},
		{args: "lag post", out: "post  up to date\n"},
		{args: "dec post --by total=7"},
		{args: "lag post", out: "post  total -7 behind, the oldest of 1 shard for "},
		{args: "reconcile post"},
		{args: "lag --all", out: "2 counters, 0 behind\n"},
	})
	if out, errOut, code := counters(t, "inc", "post", "--by", "likes=3"); code != 0 {
		t.Fatal(out, errOut)
	}
	out, _, _ := counters(t, "lag", "--all", "--json")
	var l lag
	if err := json.Unmarshal([]byte(out), &l); err != nil || l.Counter != "post" || l.Waiting != 1 || l.Shards != 1 || l.Behind["likes"] != 3 || len(l.Behind) != 1 || l.Oldest <= 0 {
		t.Errorf("as JSON: %s, %v", out, err)
	}

	// As in a database that was restored, where the document came last.
	if out, errOut, code := counters(t, "inc", "quiet", "--by", "likes=3"); code != 0 {
		t.Fatal(out, errOut)
	}
	made := firestore.Client(t, "demo-counters").Doc("counters/quiet")
	doc, err := made.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := made.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := made.Set(t.Context(), doc.Data()); err != nil {
		t.Fatal(err)
	}
	if out, _, _ := counters(t, "lag", "quiet"); !strings.Contains(out, "quiet  likes +3 behind, the oldest of 1 shard") {
		t.Errorf("shards that are older than their counter's document: %s", out)
	}
	// Of a shard that was deleted nobody knows since when.
	if out, errOut, code := counters(t, "reconcile", "quiet"); code != 0 {
		t.Fatal(out, errOut)
	}
	shards, err := made.Collection("shards").Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, shard := range shards {
		if _, err := shard.Ref.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range []string{"lag quiet", "lag --all"} {
		if out, _, _ := counters(t, strings.Fields(args)...); !strings.Contains(out, "quiet  likes -3 behind, for ") || !strings.Contains(out, " at most\n") {
			t.Errorf("%s: shards that are gone: %s", args, out)
		}
	}
}

// A base that can't be used hides no other counter: that is what is looked for at an alert.
func TestLagBesideADamagedBase(t *testing.T) {
	firestore := startFirestore(t)
	for _, args := range []string{"create a", "create b", "inc b"} {
		must(t, strings.Fields(args)...)
	}
	spoilt := firestore.Client(t, "demo-counters").Doc("counters/a/counter_rollup/base")
	if _, err := spoilt.Update(t.Context(), []fs.Update{{Path: "base", Value: "none"}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, out, err string }{
		{"lag --all", "1 counter, 1 behind, the oldest for ", "of 1 more counter it is not known, for the reasons above: run counters doctor"},
		{"lag --all --json", `{"counter":"b","shards":10,"waiting":1,"behind":{"total":1},`, "of 1 more counter"},
		{"lag a nobody b", "b  total +1 behind, the oldest of 1 shard for ", "counter not found at counters/nobody"},
	} {
		out, errOut, code := counters(t, strings.Fields(c.args)...)
		if code != exitFailed || !strings.Contains(out, c.out) || !strings.Contains(errOut, c.err) || !strings.Contains(errOut, `read counter "a": base is damaged`) {
			t.Errorf("%s: exit code %d, %q, %q; want %q, error %q", c.args, code, out, errOut, c.out, c.err)
		}
	}
}
