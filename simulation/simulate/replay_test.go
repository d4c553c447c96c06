//go:build all

package main

import (
	"errors"
	"flag"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firestore-counters/counters/simulation"
	"github.com/firestore-counters/counters/simulation/exact"
)

var replayed = flag.Int("replay.seeds", 20, "how many seeds TestReplay runs twice")

// built builds worlds, for as long as the test runs. A runtime that the edits don't fit can't be exact.
func built(t *testing.T, o options) *worlds {
	w, err := build(t.Context(), o)
	if errors.Is(err, exact.ErrRuntime) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.remove)
	return w
}

// A seed is a history: the same in two processes, whatever else they have in their environments,
// how often they collect garbage, and how many run side by side.
func TestReplay(t *testing.T) {
	o := options{procs: 4, less: simulation.Less{Operations: 100}}
	w := built(t, o)
	run := func() []string {
		hashes := make([]string, *replayed)
		var all sync.WaitGroup
		for worker := range o.procs {
			all.Go(func() {
				for n := worker; n < len(hashes); n += o.procs {
					r, err := w.one(t.Context(), uint64(1+n), o.less)
					if err != nil || len(r.Violations) > 0 {
						t.Errorf("seed %d: %v %v", 1+n, err, r.Violations)
					}
					hashes[n] = r.Hash
				}
			})
		}
		all.Wait()
		return hashes
	}
	first := run()
	t.Setenv("GOGC", "50")
	t.Setenv("SOMETHING", strings.Repeat("else", 1000))
	o.procs = 3
	second := run()
	agree := 0
	for n := range first {
		if first[n] == second[n] {
			agree++
		} else {
			t.Errorf("seed %d has history %s, and then %s", 1+n, first[n], second[n])
		}
	}
	t.Logf("%d of %d seeds agree", agree, len(first))
	if distinct := len(slices.Compact(slices.Sorted(slices.Values(first)))); distinct != len(first) {
		t.Errorf("%d seeds have %d histories", len(first), distinct)
	}
}

// A planted fault is found, shrunk, and replayed at the first try.
func TestShrinks(t *testing.T) {
	dir := t.TempDir()
	plant := exec.Command("go", "run", "./simulation/mutants", "-run=^a refresh is committed on no condition$", "-overlay="+dir)
	plant.Dir = filepath.Join("..", "..")
	if out, err := plant.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o := options{
		seed: 1, seeds: 1000, procs: 4, less: simulation.Less{Operations: 200}, trace: 1000,
		shrink: 2 * time.Minute, overlay: filepath.Join(dir, "overlay.json"),
	}
	w := built(t, o)
	failed, err := w.all(t.Context(), o)
	if err != nil || failed == nil {
		t.Fatalf("not found: %v", err)
	}
	less, shortest, err := w.shrink(t.Context(), o, *failed)
	if err != nil {
		t.Fatal(err)
	}
	if len(less.Without) == 0 || len(less.Only) > failed.Operations/4 {
		t.Errorf("of %d operations %d are left, and %d parts are left out", failed.Operations, len(less.Only), len(less.Without))
	}
	again, err := parse(strings.Fields(strings.TrimPrefix(o.command(failed.Seed, less), "go run ./simulation/simulate ")))
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.one(t.Context(), again.seed, again.less)
	if err != nil || r.Hash != shortest.Hash || !slices.Equal(r.Violations, shortest.Violations) {
		t.Errorf("run again, it has history %s and %v (%v); want %s and %v", r.Hash, r.Violations, err, shortest.Hash, shortest.Violations)
	}
}
