// Command mutants leaves out the rules of the roll-up and of the write side, one at a time, and sees that each is missed:
// by the package's own tests or by a simulation. The sources are left alone; the changed file is laid over the real one
// (go test -overlay).
//
//	go run ./internal/sim/mutants              # all of them
//	go run ./internal/sim/mutants -run marker  # those whose name has it
//
// It exits 1 when one lives, or when its text is no longer in the sources: then the list is to follow.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// mutant is a rule left out.
type mutant struct {
	name     string
	dir      string // of the file, which is found by what is in it
	old, new string // old is in one place of the directory's sources
	by       killer
}

// killer is what is to miss the rule.
type killer string

const (
	simulation killer = "simulation" // of seeds until one is wrong
	tests      killer = "tests"      // the package's own
)

func main() {
	run := flag.String("run", "", "only mutants whose names match this regular expression")
	limit := flag.Duration("limit", time.Minute, "how long a mutant may live, compiling aside")
	seed := flag.Int("seed", 1, "the first seed of simulations")
	flag.Parse()
	wanted, err := regexp.Compile(*run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	lived := 0
	for _, m := range mutants {
		if !wanted.MatchString(m.name) {
			continue
		}
		began := time.Now()
		how, err := m.kill(*limit, *seed)
		if err != nil {
			lived++
			how = "LIVES: " + err.Error()
		}
		fmt.Printf("%-60s %6.1fs  %s\n", m.name, time.Since(began).Seconds(), how)
	}
	if lived > 0 {
		fmt.Printf("%d of %d live\n", lived, len(mutants))
		os.Exit(1)
	}
}

// kill runs what is to miss the mutant's rule, and tells what missed it.
func (m mutant) kill(limit time.Duration, seed int) (string, error) {
	tmp, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	overlay, err := m.overlay(tmp)
	if err != nil {
		return "", err
	}
	pkg := "./" + m.dir
	if m.by == simulation {
		pkg = "./internal/sim"
	}
	binary := filepath.Join(tmp, "mutant.test")
	build := exec.Command("go", "test", "-overlay", overlay, "-c", "-o", binary, pkg)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it doesn't compile: %s", out)
	}
	args := []string{"-test.v", "-test.failfast"}
	if m.by == simulation {
		args = append(args, "-test.run=^TestSimulation$", "-sim.operations=200", "-sim.seeds=100000", fmt.Sprintf("-sim.seed=%d", seed))
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = pkg
	found := &watch{stop: cancel}
	cmd.Stdout, cmd.Stderr = found, found
	err = cmd.Run()
	switch {
	case found.line != "":
		return fmt.Sprintf("by %s: %s", m.by, found.line), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("nothing was found in %s", limit)
	case err == nil:
		return "", fmt.Errorf("the %s of %s pass", m.by, pkg)
	}
	return fmt.Sprintf("by %s: %v", m.by, err), nil
}

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
			w.line = text
			if len(w.said) > 0 {
				w.line = w.said[len(w.said)-1]
			}
			w.line = w.line[:min(len(w.line), 150)]
			w.stop()
		case failure.MatchString(text) && !strings.Contains(text, "virtual hours"):
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
