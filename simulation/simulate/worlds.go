package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/firestore-counters/counters/simulation"
	"github.com/firestore-counters/counters/simulation/exact"
)

// worlds runs worlds, each in a process. What else a process has run before shifts nothing then: a
// seed alone and one of thousands have the same history.
type worlds struct {
	tmp, dir, binary string
	more             []string // flags of each
}

// build compiles the simulation's tests over the edited runtime. The first time that takes minutes:
// the standard library is compiled again, and all that is above it.
func build(ctx context.Context, o options) (*worlds, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/firestore-counters/counters").Output()
	if err != nil {
		return nil, fmt.Errorf("the sources are not here: %w", err)
	}
	tmp, err := os.MkdirTemp("", "simulate")
	if err != nil {
		return nil, err
	}
	w := &worlds{tmp: tmp, dir: filepath.Join(strings.TrimSpace(string(out)), "simulation"), binary: filepath.Join(tmp, "simulation.test")}
	if err := w.compile(ctx, o.overlay); err != nil {
		w.remove()
		return nil, err
	}
	if o.rate > 0 {
		w.more = append(w.more, fmt.Sprint("-sim.rate=", o.rate))
	}
	w.more = append(w.more, fmt.Sprint("-sim.trace=", o.trace))
	return w, nil
}

func (w *worlds) compile(ctx context.Context, planted string) error {
	more := map[string]string{}
	if planted != "" {
		b, err := os.ReadFile(planted)
		if err != nil {
			return err
		}
		var overlay struct{ Replace map[string]string }
		if err := json.Unmarshal(b, &overlay); err != nil {
			return fmt.Errorf("%s is no overlay: %w", planted, err)
		}
		more = overlay.Replace
	}
	overlay, err := exact.Overlay(w.tmp, w.dir, more)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-overlay", overlay, "-ldflags=-s -w", "-c", "-o", w.binary, ".")
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), exact.Environ)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its compilers
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c: %w\n%s", err, out)
	}
	return nil
}

func (w *worlds) remove() { _ = os.RemoveAll(w.tmp) }

// one runs a world. A process that ends without a report has panicked, or hung: that is a violation
// too.
func (w *worlds) one(ctx context.Context, seed uint64, less simulation.Less) (simulation.Report, error) {
	args := append([]string{"-test.run=^TestSimulation$", "-test.timeout=0", "-sim.report", "-sim.seeds=1", fmt.Sprint("-sim.seed=", seed)}, w.more...)
	for _, f := range less.Flags() {
		args = append(args, "-sim."+f)
	}
	cmd := exec.CommandContext(ctx, w.binary, args...)
	cmd.Dir = w.dir
	// Garbage changes no history, and a world that lasts a second or two makes little: collecting it
	// was a fifth of all time.
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=1GiB")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return simulation.Report{}, ctx.Err()
	}
	for line := range bytes.Lines(out) {
		var r simulation.Report
		if bytes.HasPrefix(line, []byte(`{"Seed"`)) && json.Unmarshal(line, &r) == nil {
			return r, nil
		}
	}
	text := strings.Split(strings.TrimSpace(string(out)), "\n")
	said := fmt.Sprintf("it ended without a report (%v): %s", err, text[0])
	for _, line := range text {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			said = line
			break
		}
	}
	return simulation.Report{Seed: seed, Hash: "none", Violations: []string{said}, Trace: text[:min(len(text), 60)]}, nil
}

// all runs the seeds that are asked for, some at a time, and returns the first report of one that
// failed. Where none did, it prints a line of what they come to.
func (w *worlds) all(ctx context.Context, o options) (*simulation.Report, error) {
	began, first, last := time.Now(), o.seed, o.last()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu      sync.Mutex
		next    = first
		reports = map[uint64]simulation.Report{}
		failed  *simulation.Report
		wrong   error
		said    = began
		total   figures
	)
	var procs sync.WaitGroup
	for range o.procs {
		procs.Go(func() {
			for {
				mu.Lock()
				seed := next
				next++
				over := seed >= last || failed != nil || wrong != nil
				mu.Unlock()
				if over || ctx.Err() != nil {
					return
				}
				r, err := w.one(ctx, seed, o.less)
				mu.Lock()
				switch {
				case err != nil:
					if failed == nil && wrong == nil {
						wrong = err
					}
				case len(r.Violations) > 0:
					if failed == nil {
						failed = &r
						cancel() // the others
					}
				default:
					reports[seed] = simulation.Report{Hash: r.Hash}
					total.add(r)
				}
				if time.Since(said) > 10*time.Second && failed == nil {
					said = time.Now()
					fmt.Fprintf(os.Stderr, "%d of %d seeds, %.0f virtual hours, in %s\n", len(reports), last-first, total.hours, time.Since(began).Round(time.Second))
				}
				mu.Unlock()
			}
		})
	}
	procs.Wait()
	if failed != nil {
		return failed, nil
	}
	if wrong != nil {
		return nil, wrong
	}
	all := sha256.New()
	for seed := first; seed < last; seed++ {
		fmt.Fprintln(all, seed, reports[seed].Hash)
	}
	which, hash := fmt.Sprintf("seeds %d to %d", first, last-1), fmt.Sprintf("histories %x", all.Sum(nil)[:8])
	if last-first == 1 {
		which, hash = fmt.Sprint("seed ", first), "history "+reports[first].Hash
	}
	fmt.Printf("%s: nothing wrong in %s; %s; in %s\n", which, &total, hash, time.Since(began).Round(time.Second))
	return nil, nil
}

// figures are what worlds come to.
type figures struct {
	hours          float64
	calls, commits int
	faults         simulation.Faults
}

func (f *figures) add(r simulation.Report) {
	f.hours += r.Hours
	f.calls += r.Calls
	f.commits += r.Commits
	if f.faults == nil {
		f.faults = simulation.Faults{}
	}
	for kind, n := range r.Faults {
		f.faults[kind] += n
	}
}

func (f *figures) String() string {
	sum := 0
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(f.faults)) {
		sum += f.faults[kind]
		kinds = append(kinds, fmt.Sprint(kind, " ", f.faults[kind]))
	}
	return fmt.Sprintf("%.0f virtual hours, %d calls, %d commits, %d faults (%s)", f.hours, f.calls, f.commits, sum, strings.Join(kinds, ", "))
}
