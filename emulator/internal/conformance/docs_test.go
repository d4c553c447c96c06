package conformance

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

//go:generate go test -run TestDocs -write-docs .

var writeDocs = flag.Bool("write-docs", false, "write docs/emulator.md")

const docsFile = "../../../docs/emulator.md"

// areas are what the documentation calls the scenarios, in its order.
var areas = []struct {
	title     string
	scenarios []scenario
}{
	{"Writes, masks, preconditions", writeScenarios},
	{"Increments and other transforms", transformScenarios},
	{"Limits of names, values and sizes", limitScenarios},
	{"Batches", batchScenarios},
	{"Queries: filters, orders, cursors, groups", queryScenarios},
	{"Order of values and names", orderScenarios},
	{"Counts, sums and averages", aggregationScenarios},
	{"Lists of documents and collections", listScenarios},
	{"Transactions", transactionScenarios},
	{"Locks", lockScenarios},
	{"Listening", listenScenarios},
	{"The official Go client", clientScenarios},
	{"Requests over REST, one by one", requestScenarios},
}

const docsHead = `# The embedded Firestore

<!-- Made by go generate ./emulator/... from the conformance tests; don't edit. -->

Package [emulator](../emulator) is a Firestore in memory, for tests and for a laptop. It speaks gRPC, REST and the Web
SDK's protocol on one port, and needs only Go.

` + "```go" + `
func TestLikes(t *testing.T) {
	db := emulator.Start(t)              // closed when the test has ended
	client := db.Client(t, "my-project") // the official client, connected
	// ...
}
` + "```" + `

` + "```sh" + `
counters emulator --port 8080           # for any language
export FIRESTORE_EMULATOR_HOST=127.0.0.1:8080
` + "```" + `

## What it has

| | |
| --- | --- |
| gRPC | all of google.firestore.v1 except ExecutePipeline |
| REST | ` + "`/v1/projects/{p}/databases/{d}/documents…`" + `, every verb of these methods |
| Web SDK | Listen and Write over WebChannel, for pages of this machine; ` + "`Options.Origins`" + ` and ` + "`--allow-origin`" + ` let in others |
| Transactions | pessimistic, with shared read locks; read-only ones; reads of the last hour |
| Enterprise edition | ` + "`Options.Enterprise`" + `, ` + "`--edition enterprise`" + `: transactions lock nothing and fail at their commit, a sum of nothing is null, units are counted |
| Listening | documents and queries; resumes by token; never splits a commit |
| Events | to a function of the program (` + "`Server.OnChange`" + `, ` + "`WaitForChanges`" + `), or posted as Eventarc does (` + "`counters emulator --events`" + `) |
| TTL | ` + "`Options.TTL`" + ` and ` + "`--ttl`" + ` name a field per collection; expired documents are deleted every minute |
| Faults | commits fail, lose their answer or are slow; documents are too hot; two commits meet at a chosen moment |
| Virtual time | ` + "`Server.Connect`" + ` connects without a socket, for testing/synctest |
| Administration | ` + "`DELETE /emulator/v1/projects/{p}/databases/{d}/documents`" + `, ` + "`POST /reset`" + `; closed to web pages of other machines |

## What it lacks

| | instead |
| --- | --- |
| Security rules: all may do everything, but BatchWrite, ListCollectionIds, PartitionQuery and ListDocuments of missing ones need ` + "`Bearer owner`" + `, which server-side clients send | the official emulator: ` + "`counters dev --rules`" + ` |
| Indexes: it refuses no query for lack of one | a real database says which index a query needs |
| Vector search, explain, pipelines: UNIMPLEMENTED | the official emulator, or a real database |
| Export and import, a user interface | ` + "`counters dev`" + ` has a page for counters |
| A disk: everything is gone when it ends | read what you need before that, with any client |

## Beside the official emulator

Version 1.19.9. Suites of Firestore's own clients, by hand, in November 2026:

| suite | official emulator | here |
| --- | --- | --- |
| Go client 1.29.0, integration tests | fails PartitionQuery and one of listening | fails vector search |
| | fails QueryDocuments and NewClientWithDatabase (indexes, a second database) | fails the same |
| Node.js client 8.3.0, system tests of documents and queries | 331 of 344 pass, in 31 s | 310 pass, in 19 s: the other 21 are of vector search |

Speed (` + "`go test -tags all -run '^$' -bench . ./emulator/internal/conformance`" + `) on two cores, shared with clients and other work:

| | official emulator | here |
| --- | --- | --- |
| increments of 100 documents, from 32 goroutines | 2,115 commits a second | 4,477 |
| listeners that start, get a document and stop | 807 a second | 2,939 |
| from start to first answer | 7.3 s | 1.5 ms |
| memory of 100,000 small documents | 210 MB of the process | 82 MB of the heap |

Every test run compares our answers with the official emulator's recorded ones, and with its own if it is installed. An
observation is one answer: an error's code, a document, results in their order, or which times are the same.
`

const docsTail = `
We differ where Firestore's documentation, protocol or production does, or where the official emulator fails without a code.
` + "`emulator/internal/conformance/differences_test.go`" + ` has each difference, with the reason.
`

func TestDocs(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(docsHead)
	b.WriteString("\n| | observations | the same | different, on purpose |\n| --- | --- | --- | --- |\n")
	covered := map[string]bool{}
	total, other := 0, 0
	for _, a := range areas {
		notes, different := 0, 0
		for _, sc := range a.scenarios {
			covered[sc.name] = true
			notes += len(kept(t, sc.name))
			for _, d := range differences {
				if d.scenario == sc.name {
					different++
				}
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d |\n", a.title, notes, notes-different, different)
		total, other = total+notes, other+different
	}
	fmt.Fprintf(&b, "| **together** | **%d** | **%d** | **%d** |\n", total, total-other, other)
	for _, sc := range scenarios() {
		if !covered[sc.name] {
			t.Errorf("%s is in no area of the documentation", sc.name)
		}
	}
	b.WriteString(docsTail)
	if *writeDocs {
		if err := os.WriteFile(docsFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docsFile)
	if err != nil || string(got) != b.String() {
		t.Errorf("docs/emulator.md is not what the tests say: run go generate ./emulator/... (%v)", err)
	}
}

// What only an administrator may do is named.
func TestDocsNameWhatIsAnAdministrators(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../service.go")
	if err != nil {
		t.Fatal(err)
	}
	calls := regexp.MustCompile(`checkAdmin\(ctx, "(\w+)`).FindAllStringSubmatch(string(source), -1)
	if len(calls) == 0 {
		t.Error("no call is an administrator's")
	}
	_, row, _ := strings.Cut(docsHead, "| Security rules: ")
	row, _, _ = strings.Cut(row, "\n")
	for _, call := range calls {
		if !strings.Contains(row, call[1]) {
			t.Errorf("%s is not in the row of security rules: %s", call[1], row)
		}
	}
}
