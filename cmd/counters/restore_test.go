package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	client "cloud.google.com/go/firestore"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"

	"github.com/firestore-counters/counters/cmd/internal/dev"
	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
	"github.com/firestore-counters/counters/internal/testbed/chance"
)

const restored = "restored"

// A backup in another database: all documents are there again, at other times and in any order, and
// one by one beside increments. Rollup hears of it by events that come twice, late, or not at all.
// After one reconcile totals, shards and bases agree, and whoever comes again with a key or as a
// member is known.
//
// A backup is also imported over what has come since, all of it or in parts, beside the roll-up. After one
// reconcile totals are again what the shards hold beyond the base; of a whole backup that is
// what they were, and one of parts leaves nothing that a second reconcile would find.
func TestRestore(t *testing.T) {
	firestore := startFirestore(t)
	t.Run("Rollup begins after the import", func(t *testing.T) { t.Parallel(); testRestore(t, firestore, "after", false) })
	t.Run("Rollup runs beside the import", func(t *testing.T) { t.Parallel(); testRestore(t, firestore, "beside", true) })
	t.Run("into the same database", func(t *testing.T) { t.Parallel(); testRestoreIntoTheSameDatabase(t, firestore, "same") })
}

func testRestore(t *testing.T, firestore *emulator.Instance, project string, live bool) {
	const fields = "total=count,likes"
	must := func(args ...string) string {
		t.Helper()
		return must(t, append(args, "--project="+project, "--fields="+fields)...)
	}

	want := map[string][2]int64{} // :: counter → its two fields
	for n := range 6 {
		id := fmt.Sprintf("c%d", n)
		must("create", id, "--shards", "4", "--total", "100")
		must("inc", id, "--by", "total=7,likes=2", "--key", "of-"+id)
		must("join", id, "likes", "alice")
		if n%2 == 0 {
			must("reconcile", id) // of the others Rollup has still to hear
		}
		must("inc", id, "--by", "total=-3")
		want[id] = [2]int64{104, 3}
	}
	must("delete", "c5", "--yes")
	delete(want, "c5")

	from, to := firestore.Client(t, project), databaseClient(t, firestore, project, restored)
	backup := documents(t, from)
	must("inc", "c0", "--by", "1000") // after the backup

	var events *eventarc.Deliverer
	if live {
		events = startRollup(t, firestore, project, restored, fields)
	}
	dice := chance.Of(t)
	dice.Shuffle(len(backup), func(i, j int) { backup[i], backup[j] = backup[j], backup[i] })
	for _, doc := range backup {
		ref := to.Doc(pathOf(doc.Ref))
		if _, err := ref.Set(t.Context(), doc.Data()); err != nil {
			t.Fatal(err)
		}
		if id, _, shard := strings.Cut(strings.TrimPrefix(pathOf(doc.Ref), "counters/"), "/shards/"); shard && dice.IntN(2) == 0 {
			if _, err := ref.Update(t.Context(), []client.Update{{Path: "count", Value: client.Increment(10)}}); err != nil {
				t.Fatal(err)
			}
			n := want[id]
			want[id] = [2]int64{n[0] + 10, n[1]}
		}
	}
	if !live {
		events = startRollup(t, firestore, project, restored, fields)
	}
	for id, n := range want {
		must("inc", id, "--by", "total=5,likes=1", "--database", restored)
		// which the backup knows
		must("inc", id, "--by", "total=7,likes=2", "--database", restored, "--key", "of-"+id)
		// and her
		must("join", id, "likes", "alice", "--database", restored)
		want[id] = [2]int64{n[0] + 5, n[1] + 1}
	}
	heard(t, firestore, events)

	must("reconcile", "--all", "--database", restored)
	for id, n := range want {
		doc, err := to.Doc("counters/" + id).Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if doc.Data()["total"] != n[0] || doc.Data()["likes"] != n[1] {
			t.Errorf("%s: total %v and likes %v, want %v", id, doc.Data()["total"], doc.Data()["likes"], n)
		}
	}
	var again struct{ Seen, Repaired, Drift, Failed, Problems int }
	if out := must("reconcile", "--all", "--database", restored, "--json"); json.Unmarshal([]byte(out), &again) != nil || again.Seen != len(want) || again.Repaired+again.Drift+again.Failed+again.Problems != 0 {
		t.Errorf("a second reconcile finds %s", out)
	}
	must("doctor", "--database", restored) // looks at bases and shards, too

	// From now on it goes on as ever.
	events.SetFaults(eventarc.Faults{})
	must("inc", "c1", "--by", "1", "--database", restored)
	heard(t, firestore, events)
	if doc, err := to.Doc("counters/c1").Get(t.Context()); err != nil || doc.Data()["total"] != want["c1"][0]+1 {
		t.Errorf("an increment after that: %v, %v", doc.Data(), err)
	}
}

func testRestoreIntoTheSameDatabase(t *testing.T, firestore *emulator.Instance, project string) {
	must := func(args ...string) string { t.Helper(); return must(t, append(args, "--project="+project)...) }
	db := firestore.Client(t, project)
	events := startRollup(t, firestore, project, "(default)", "total=count")
	dice := chance.Of(t)
	parts := []func(path string) bool{ // what of a counter is imported
		func(string) bool { return true },
		func(path string) bool { return strings.Contains(path, "/shards/") },
		func(string) bool { return dice.IntN(2) == 0 },
	}
	between := [][]string{ // what has come since the backup
		{"inc", "--by", "1000"}, {"reset", "--yes", "--members=remove"}, {"resize", "--shards", "6"}, {"resize", "--shards", "1"},
		{"rebase", "--yes", "--total", "5"}, {"leave", "total", "alice"}, {"delete", "--yes"},
	}
	for p := range parts {
		for b := range between {
			id := fmt.Sprintf("p%d-b%d", p, b)
			must("create", id, "--shards", "3", "--total", "100")
			must("inc", id, "--by", "7")
			must("join", id, "total", "alice")
		}
	}
	heard(t, firestore, events)
	must("reconcile", "--all")
	backup := documents(t, db)
	newer := map[string]bool{} // shards that a backup doesn't hold
	for p := range parts {
		for b, command := range between {
			id := fmt.Sprintf("p%d-b%d", p, b)
			must(append([]string{command[0], id}, command[1:]...)...)
			if command[0] != "delete" {
				must("inc", id, "--by", "10000")
			}
			for n := 3; command[0] == "resize" && n < 6; n++ {
				newer[fmt.Sprintf("counters/%s/shards/%d", id, n)] = true
			}
		}
	}
	heard(t, firestore, events)
	must("reconcile", "--all")

	for path := range newer {
		if _, err := db.Doc(path).Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	dice.Shuffle(len(backup), func(i, j int) { backup[i], backup[j] = backup[j], backup[i] })
	for _, doc := range backup {
		path := pathOf(doc.Ref)
		var p int
		if _, err := fmt.Sscanf(path, "counters/p%d-", &p); err == nil && !parts[p](path) {
			continue
		}
		if _, err := db.Doc(path).Set(t.Context(), doc.Data()); err != nil {
			t.Fatal(err)
		}
	}
	heard(t, firestore, events)
	must("reconcile", "--all")

	for p := range parts {
		for b, command := range between {
			id := fmt.Sprintf("p%d-b%d", p, b)
			switch total, _, code := counters(t, "get", id, "--project="+project); {
			case p == 0 && (total != "108\n" || !strings.Contains(must("audit", id), "= 1 member ")):
				t.Errorf("after %s: %s, want 108 with one member, as in the backup: %s", command, total, must("audit", id))
			case code == 0 && total != must("get", id, "--exact"): // else half of it has no document
				t.Errorf("part %d, after %s: %s, which is not what the shards hold", p, command, total)
			}
		}
	}
	if out := must("reconcile", "--all"); !strings.Contains(out, " checked, all correct") {
		t.Errorf("a second reconcile finds %s", out)
	}
	must("doctor")
}

// startRollup has a process roll up what is written to a database, by events of which some come
// twice, some in another order and some never.
func startRollup(t *testing.T, firestore *emulator.Instance, project, database, fields string) *eventarc.Deliverer {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	rollup, err := dev.StartProcess(t.Context(), program, "Rollup", append(os.Environ(), "GOOGLE_CLOUD_PROJECT="+project, "DATABASE="+database, "FIELDS="+fields, "ROLLUP_INTERVAL=10ms"), nil, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rollup.Close)
	if err := rollup.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	events, err := eventarc.New(eventarc.Options{
		Pattern: "counters/{counter}/shards/{shard}", Project: project, Database: database,
		Faults: eventarc.Faults{Drop: 0.2, Duplicate: 0.2, Reorder: 0.2},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(events.Close)
	if err := events.SetTargets("http://" + rollup.Addr); err != nil {
		t.Fatal(err)
	}
	firestore.OnChange(events.Deliver)
	return events
}

// heard waits until Rollup has answered all events of what was written.
func heard(t *testing.T, firestore *emulator.Instance, events *eventarc.Deliverer) {
	t.Helper()
	if err := errors.Join(firestore.WaitForChanges(t.Context()), events.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func databaseClient(t *testing.T, firestore *emulator.Instance, project, database string) *client.Client {
	t.Helper()
	c, err := client.NewClientWithDatabase(t.Context(), project, database, option.WithGRPCConn(firestore.Conn(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// pathOf is where a document is in its database.
func pathOf(ref *client.DocumentRef) string {
	_, path, _ := strings.Cut(ref.Path, "/documents/")
	return path
}

// documents are all there are, as of one moment.
func documents(t *testing.T, db *client.Client) (all []*client.DocumentSnapshot) {
	t.Helper()
	moment := time.Now()
	var walk func(collections *client.CollectionIterator)
	walk = func(collections *client.CollectionIterator) {
		for {
			collection, err := collections.Next()
			if errors.Is(err, iterator.Done) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			// those too that only have documents below them
			refs, err := collection.DocumentRefs(t.Context()).GetAll()
			if err != nil {
				t.Fatal(err)
			}
			for _, ref := range refs {
				doc, err := ref.WithReadOptions(client.ReadTime(moment)).Get(t.Context())
				if err == nil {
					all = append(all, doc)
				}
				walk(ref.Collections(t.Context()))
			}
		}
	}
	walk(db.Collections(t.Context()))
	if len(all) < 40 {
		t.Fatalf("%d documents", len(all))
	}
	return all
}
