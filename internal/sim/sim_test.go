package sim

import (
	"flag"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	firstSeed  = flag.Uint64("sim.seed", 1, "the first seed")
	seeds      = flag.Int("sim.seeds", 6, "how many seeds are run")
	operations = flag.Int("sim.operations", 200, "operations in a storm, at most")
	trace      = flag.Int("sim.trace", 0, "print so many entries of the history before each violation")
)

// TestSimulation runs the worlds of a few seeds. A failing one is run again with -sim.seed and -sim.seeds=1; -sim.trace=40
// prints what led to it. The same seed makes the same plan and the same faults; goroutines, maps and the system's own
// random choices are not drawn from it, so that a rare violation may take several runs.
func TestSimulation(t *testing.T) {
	for n := range *seeds {
		seed := *firstSeed + uint64(n)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			check(t, simulate(t, PlanOf(seed).Shortened(*operations)))
		})
	}
}

// longest is how long a world may take. Virtual time stands still as long as a goroutine is blocked on a mutex, say, which
// a deadlock makes forever.
const longest = 5 * time.Minute

// simulate runs a plan in a bubble.
func simulate(t *testing.T, p Plan) History {
	began := time.Now()
	watchdog := time.AfterFunc(longest, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("seed %d has not ended after %v", p.Seed, longest))
	})
	defer watchdog.Stop()
	var h History
	synctest.Test(t, func(t *testing.T) {
		var err error
		if h, err = Run(p); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("seed %d: %.1f virtual hours, %d entries, in %v", p.Seed, p.Hours(), len(h), time.Since(began).Round(time.Millisecond))
	return h
}

// check fails a test for what is wrong in a history.
func check(t *testing.T, h History) {
	t.Helper()
	for _, v := range Check(h) {
		t.Error(v)
		left := *trace
		for n, about := v.Entry, counterIn(v.Message); n >= 0 && left > 0; n-- {
			if s := h[n].String(); strings.Contains(s, about) {
				t.Logf("%d %s", n, s)
				left--
			}
		}
	}
}

// counterIn is the counter that a violation names, "" where it names none.
func counterIn(message string) string {
	_, rest, _ := strings.Cut(message, `"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}
