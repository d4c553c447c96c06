// Package conformance compares the embedded Firestore with the official emulator. A scenario talks
// to a server through the official client, or the generated one where that hides what the server
// says, and notes what it observes: status codes, values, the order of results, and which times are
// the same. The notes that the official emulator gave are kept in testdata, so that the embedded
// server is held to them on machines without Java too; where the official emulator is installed,
// the scenarios also run against it, and must give the notes that were kept.
//
// Times appear in the notes as their rank among all times of the scenario: "@2" is the second
// earliest. Messages of errors are not compared. Where the embedded server differs on purpose,
// differences says so, and why.
package conformance

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/firestore-counters/counters/emulator"
)

// ended stops what the tests have started beside. With Go alone that is nothing.
var ended = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	ended()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// scenario is a conversation with a server in a project of its own.
type scenario struct {
	name string
	run  func(*session)
}

func scenarios() []scenario {
	var all []scenario
	for _, some := range [][]scenario{
		writeScenarios, transformScenarios, limitScenarios, batchScenarios, queryScenarios, orderScenarios,
		aggregationScenarios, listScenarios, transactionScenarios, lockScenarios, listenScenarios, clientScenarios,
		requestScenarios,
	} {
		all = append(all, some...)
	}
	return all
}

func TestEmbedded(t *testing.T) {
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			var opts emulator.Options
			if sc.name == "lock-timeout" {
				opts.LockWait = 300 * time.Millisecond // 15 s is production's
			}
			in := emulator.StartWith(t, opts)
			got := play(t, sc, in.Addr, func() int64 { return in.Stats().LockWaits })
			want := expected(t, sc.name, got)
			compare(t, got, want)
		})
	}
}

func fileOf(name string) string { return filepath.Join("testdata", name+".txt") }

// kept are the notes that the official emulator gave.
func kept(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile(fileOf(name))
	if err != nil {
		t.Fatalf("%v: run the tests with -tags all -record, with the official emulator at hand", err)
	}
	return strings.Split(string(bytes.TrimSuffix(b, []byte("\n"))), "\n")
}

// expected are the kept notes, with the differences that are meant to be.
func expected(t *testing.T, name string, got []string) []string {
	t.Helper()
	want := kept(t, name)
	for _, d := range differences {
		if d.scenario != name {
			continue
		}
		found := false
		for i, line := range want {
			if label, rest, _ := strings.Cut(line, ": "); label == d.label {
				found = true
				if rest == d.embedded {
					t.Errorf("%s: listed as a difference, but there is none", d.label)
				}
				want[i] = label + ": " + d.embedded
			}
		}
		if !found {
			t.Errorf("%s: listed as a difference, but there is no such note", d.label)
		}
	}
	return want
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "(nothing)", "(nothing)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("got\n\t%s\nwant\n\t%s", g, w)
		}
	}
}

// plays counts, so that each run has a project of its own.
var plays atomic.Int64

// play runs a scenario against a server and returns its notes.
func play(t *testing.T, sc scenario, addr string, lockWaits func() int64) []string {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := newSession(ctx, t, addr, fmt.Sprintf("%s-%d", sc.name, plays.Add(1)))
	s.lockWaits = lockWaits
	sc.run(s)
	return s.notes()
}
