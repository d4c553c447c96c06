// Command mutants leaves out the rules of the roll-up and of the write side, one at a time, and
// sees that each is caught: by a simulation or by tests. The sources are left alone; the changed
// file is laid over the real one (go test -overlay).
//
//	go run ./simulation/mutants              # all of them
//	go run ./simulation/mutants -run marker  # those whose name has it
//
// First, what is to catch them runs without any, because a test that fails there would catch
// anything. Then as many mutants run side by side as there are cores, each on one: compiling and
// linking take most of the time, and use one core most of the time. It ends with a table, and exits
// 1 when one lives, or when its text is no longer in the sources: then the list is to follow.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

// mutant is a rule left out.
type mutant struct {
	name     string
	dir      string // of the file, which is found by what is in it
	old, new string // old is in one place of the directory's sources
	by       killer
}

// killer is what is to catch the mutant.
type killer struct {
	what string
	pkg  string   // directory of the package whose tests these are; "" is the mutant's own
	run  string   // which of them, as go test has it; "" is all
	args []string // of the test binary
}

// simulation is seeds until one is wrong.
var simulation = killer{what: "simulation", pkg: "simulation", run: "^TestSimulation$", args: []string{"-sim.operations=200", "-sim.seeds=100000"}}

// simulationOf is seeds whose plans have some parts, with commas between them, until one is wrong.
func simulationOf(part string) killer {
	k := simulation
	k.args = append(slices.Clone(k.args), withParts+part)
	return k
}

const withParts = "-sim.with="

// statistic is for rules that protect no count, but only how often a caller is told what became of
// a call.
var statistic = killer{what: "statistic", pkg: "simulation", run: "^TestCertainty$"}

// test is one of the package's tests.
func test(name string) killer { return testIn("", name) }

// testIn is a test of another package, which catches the mutant where its own tests can't.
func testIn(pkg, name string) killer { return killer{what: name, pkg: pkg, run: "^(" + name + ")$"} }

func main() {
	run := flag.String("run", "", "only mutants whose names match this regular expression")
	limit := flag.Duration("limit", time.Minute, "how long a mutant may live, compiling aside")
	seed := flag.Int("seed", 1, "the first seed of simulations")
	parallel := flag.Int("parallel", runtime.GOMAXPROCS(0), "how many run side by side")
	drawn := flag.Int("sample", 0, "instead of the list, so many mutants that are drawn with -seed from all that operators make of the packages")
	planted := flag.String("overlay", "", "run nothing: write the first mutant that is wanted into this directory, for go build -overlay and simulate -overlay")
	flag.Parse()
	wanted, err := regexp.Compile(*run)
	if err != nil || *parallel < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "mutants:", cmp.Or(err, errors.New("want no arguments, and -parallel of 1 or more")))
		os.Exit(2)
	}
	if *planted != "" {
		os.Exit(plant(wanted, *planted))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *drawn > 0 {
		os.Exit(sample(ctx, *drawn, *parallel, *limit, uint64(*seed)))
	}
	os.Exit(killAll(ctx, wanted, *parallel, *limit, *seed))
}

// plant writes a mutant down, so that the simulation can be run with it, and returns the exit code.
func plant(wanted *regexp.Regexp, dir string) int {
	n := slices.IndexFunc(mutants, func(m mutant) bool { return wanted.MatchString(m.name) })
	if n < 0 {
		fmt.Fprintf(os.Stderr, "mutants: no name matches %q\n", wanted)
		return 2
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		return 1
	}
	name, err := mutants[n].overlay(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		return 1
	}
	fmt.Printf("%s: %s\n", mutants[n].name, name)
	return 0
}

// killAll runs the mutants that are wanted, prints what became of each, and returns the exit code.
func killAll(ctx context.Context, wanted *regexp.Regexp, parallel int, limit time.Duration, seed int) int {
	began := time.Now()
	var todo []mutant
	for _, m := range mutants {
		if wanted.MatchString(m.name) {
			todo = append(todo, m)
		}
	}
	if len(todo) == 0 {
		fmt.Fprintf(os.Stderr, "mutants: no name matches %q\n", wanted)
		return 2
	}
	if err := control(ctx, todo); err != nil {
		if ctx.Err() != nil {
			return 130
		}
		fmt.Println("without any mutant:", err)
		return 1
	}
	var (
		mu       sync.Mutex
		done     int
		verdicts = make([]verdict, len(todo))
	)
	queue := make(chan int, len(todo))
	for n := range todo {
		queue <- n
	}
	close(queue)
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for n := range queue {
				how, took, err := todo[n].kill(ctx, limit, seed, max(1, runtime.GOMAXPROCS(0)/parallel))
				if ctx.Err() != nil {
					return
				}
				mu.Lock()
				done++
				if err != nil {
					how = "LIVES: " + err.Error()
				}
				verdicts[n] = verdict{todo[n], how, took, err}
				fmt.Printf("%3d of %d  %-70s %5.1fs  %s\n", done, len(todo), todo[n].name, took.Seconds(), how)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		fmt.Printf("interrupted after %d of %d\n", done, len(todo))
		return 130
	}
	lived := printTable(verdicts)
	fmt.Printf("%d of %d die, in %s\n", done-len(lived), done, time.Since(began).Round(time.Second))
	if len(lived) == 0 {
		return 0
	}
	for _, v := range lived {
		fmt.Println("lives:", v.name)
	}
	return 1
}

// verdict is what became of a mutant.
type verdict struct {
	mutant
	how  string        // what failed, the test first
	took time.Duration // compiling aside
	err  error         // why it lives
}

// printTable prints verdicts in the order of the list, and returns those of mutants that live.
func printTable(verdicts []verdict) (lived []verdict) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nleft out\tseconds\tcaught by")
	for _, v := range verdicts {
		by, _, _ := strings.Cut(v.how, ":")
		if v.err != nil {
			lived = append(lived, v)
		}
		fmt.Fprintf(w, "%s\t%.1f\t%s\n", v.name, v.took.Seconds(), by)
	}
	fmt.Fprintln(w)
	_ = w.Flush()
	return lived
}

// control runs what is to catch the mutants on the sources as they are. A test that fails there
// would catch anything.
func control(ctx context.Context, todo []mutant) error {
	names := map[string][]string{} // :: package → regular expressions of its tests
	for _, m := range todo {
		pkg := cmp.Or(m.by.pkg, m.dir)
		if run := cmp.Or(m.by.run, "."); !slices.Contains(names[pkg], run) {
			names[pkg] = append(names[pkg], run)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(names)) {
		began := time.Now()
		cmd := exec.CommandContext(ctx, "go", "test", "-ldflags=-s -w", "-run", strings.Join(names[pkg], "|"), "./"+pkg)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 10 * time.Second
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("tests of ./%s fail: %w\n%s", pkg, err, out)
		}
		fmt.Printf("without any mutant, tests of ./%s pass, in %s\n", pkg, time.Since(began).Round(time.Second))
	}
	return nil
}

// kill runs what is to catch the mutant on so many cores, and tells what caught it, and how long it
// took, compiling aside.
func (m mutant) kill(ctx context.Context, limit time.Duration, seed, cores int) (how string, took time.Duration, err error) {
	tmp, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", 0, err
	}
	defer os.RemoveAll(tmp)
	overlay, err := m.overlay(tmp)
	if err != nil {
		return "", 0, err
	}
	pkg := "./" + cmp.Or(m.by.pkg, m.dir)
	binary := filepath.Join(tmp, "mutant.test")
	procs := append(os.Environ(), fmt.Sprint("GOMAXPROCS=", cores))
	build := exec.CommandContext(ctx, "go", "test", "-overlay", overlay, "-ldflags=-s -w", "-c", "-o", binary, pkg)
	build.Cancel = func() error { return build.Process.Signal(os.Interrupt) } // it ends its compilers
	build.WaitDelay = 10 * time.Second
	build.Env = procs
	if out, err := build.CombinedOutput(); err != nil {
		return "", 0, fmt.Errorf("%w: %w\n%s", errBroken, err, out)
	}
	args := append([]string{"-test.v", "-test.failfast", "-test.run=" + m.by.run}, m.by.args...)
	if m.by.what == simulation.what {
		args = append(args, fmt.Sprintf("-sim.seed=%d", seed))
	}
	began := time.Now()
	running, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(running, "sh", append([]string{"-c", bounded, binary}, args...)...)
	cmd.Dir, cmd.Env = pkg, procs
	cmd.WaitDelay = 5 * time.Second // processes that a test has started may hold its output
	found := &watch{stop: cancel}
	cmd.Stdout, cmd.Stderr = found, found
	err = cmd.Run()
	took = time.Since(began)
	switch {
	case found.line != "":
		return found.line, took, nil
	case running.Err() != nil:
		return "", took, fmt.Errorf("%s: %w %s", m.by.what, errNoEnd, limit)
	case err == nil:
		return "", took, fmt.Errorf("%s of %s pass", m.by.what, pkg)
	}
	return fmt.Sprintf("%s: %v", m.by.what, err), took, nil
}

// bounded runs a test in 8 GB of addresses, which is four times what tests and simulation take. A
// mutant that loops has taken 12 GB within its minute; so it ends as one that is out of memory.
const bounded = `ulimit -v 8000000 2>/dev/null; exec "$0" "$@"`

// errNoEnd is that what is to catch a mutant has found nothing by the end of its time.
var errNoEnd = errors.New("found nothing in")

// failure is a line of a test's output that says what failed.
var failure = regexp.MustCompile(`^\s*(\S+_test\.go:\d+: |panic: |fatal error: )`)

// watch reads the output of a test as it comes, and stops it at the first failure.
type watch struct {
	stop context.CancelFunc
	rest []byte   // of a line that has not ended yet
	said []string // by the test that is failing, maybe
	line string   // what failed
}

func (w *watch) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for w.line == "" {
		line, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			break
		}
		w.rest = rest
		text := strings.TrimSpace(string(line))
		switch {
		case strings.HasPrefix(text, "--- FAIL"), strings.HasPrefix(text, "panic:"), strings.HasPrefix(text, "fatal error:"):
			w.line, _, _ = strings.Cut(strings.TrimPrefix(text, "--- FAIL: "), " (")
			if len(w.said) > 0 {
				w.line += ": " + w.said[0]
			}
			w.line = w.line[:min(len(w.line), 200)]
			w.stop()
		case failure.MatchString(text) && !strings.Contains(text, "virtual hours") && !strings.Contains(text, "[rapid] OK"):
			w.said = append(w.said, text)
		}
	}
	return len(b), nil
}

// overlay writes the changed file, and what lays it over the real one.
func (m mutant) overlay(tmp string) (string, error) {
	files, err := filepath.Glob(filepath.Join(m.dir, "*.go"))
	if err != nil {
		return "", err
	}
	places := map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		for range strings.Count(string(source), m.old) {
			if places[file] != "" {
				return "", fmt.Errorf("its text is in %s more than once", file)
			}
			places[file] = strings.Replace(string(source), m.old, m.new, 1)
		}
	}
	if len(places) != 1 {
		return "", fmt.Errorf("its text is in %d files of %s; the list is to follow the sources", len(places), m.dir)
	}
	replace := map[string]string{}
	for file, text := range places {
		changed := filepath.Join(tmp, filepath.Base(file))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
		abs, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		replace[abs] = changed
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(tmp, "overlay.json")
	return name, os.WriteFile(name, b, 0o600)
}
