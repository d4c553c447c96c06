package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
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
)

const restored = "restored"

// A backup in another database: all documents are there again, at other times and in any order, and
// one by one beside increments. Rollup hears of it by events that come twice, late, or not at all.
// After one reconcile totals, shards and ledgers agree, and whoever comes again with a key or as a
// member is known.
func TestRestore(t *testing.T) {
	for how, live := range map[string]bool{"Rollup begins after the import": false, "Rollup runs beside the import": true} {
		t.Run(how, func(t *testing.T) { testRestore(t, live) })
	}
}

func testRestore(t *testing.T, live bool) {
	firestore := emulator.Start(t)
	t.Setenv("FIRESTORE_EMULATOR_HOST", firestore.Addr)
	t.Setenv("GOOGLE_CLOUD_PROJECT", "demo-counters")
	t.Setenv("FIELDS", "total=count,likes")
	must := func(args ...string) string {
		t.Helper()
		out, errOut, code := counters(t, args...)
		if code != 0 {
			t.Fatalf("%q: exit code %d, %s%s", args, code, out, errOut)
		}
		return out
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

	from, to := firestore.Client(t, "demo-counters"), databaseClient(t, firestore, restored)
	backup := documents(t, from)
	must("inc", "c0", "--by", "1000") // after the backup

	var events *eventarc.Deliverer
	if live {
		events = startRollup(t, firestore)
	}
	rand.Shuffle(len(backup), func(i, j int) { backup[i], backup[j] = backup[j], backup[i] })
	for _, doc := range backup {
		ref := to.Doc(pathOf(doc.Ref))
		if _, err := ref.Set(t.Context(), doc.Data()); err != nil {
			t.Fatal(err)
		}
		if id, _, shard := strings.Cut(strings.TrimPrefix(pathOf(doc.Ref), "counters/"), "/shards/"); shard && rand.IntN(2) == 0 {
			if _, err := ref.Update(t.Context(), []client.Update{{Path: "count", Value: client.Increment(10)}}); err != nil {
				t.Fatal(err)
			}
			n := want[id]
			want[id] = [2]int64{n[0] + 10, n[1]}
		}
	}
	if !live {
		events = startRollup(t, firestore)
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
	must("doctor", "--database", restored) // looks at ledgers and shards, too

	// From now on it goes on as ever.
	events.SetFaults(eventarc.Faults{})
	must("inc", "c1", "--by", "1", "--database", restored)
	heard(t, firestore, events)
	if doc, err := to.Doc("counters/c1").Get(t.Context()); err != nil || doc.Data()["total"] != want["c1"][0]+1 {
		t.Errorf("an increment after that: %v, %v", doc.Data(), err)
	}
}

// startRollup has a process roll up what is written to the restored database, by events of which
// some come twice, some in another order and some never.
func startRollup(t *testing.T, firestore *emulator.Instance) *eventarc.Deliverer {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	rollup, err := dev.StartProcess(t.Context(), program, "Rollup", append(os.Environ(), "DATABASE="+restored, "ROLLUP_INTERVAL=10ms"), nil, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rollup.Close)
	if err := rollup.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	events, err := eventarc.New(eventarc.Options{
		Pattern: "counters/{counter}/shards/{shard}", Database: restored,
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

func databaseClient(t *testing.T, firestore *emulator.Instance, database string) *client.Client {
	t.Helper()
	c, err := client.NewClientWithDatabase(t.Context(), "demo-counters", database, option.WithGRPCConn(firestore.Conn(t)))
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
