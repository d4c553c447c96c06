package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/firestore-counters/counters/cmd/bench/internal/bench"
)

// The shortest scenario, from the command line to the report.
func TestBench(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--quick", "--scenario", "cold", "--json", "--plots", t.TempDir()}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	var report bench.Report
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		t.Fatalf("%v in %s", err, stdout.String())
	}
	if !report.Quick || report.Interrupted || len(report.Results) != 1 || len(report.Goals) == 0 {
		t.Fatalf("report = %+v", report)
	}
	cold := report.Results[0]
	if cold.Error != "" || len(cold.Rows) != 6 || len(cold.Ratios) != 4 {
		t.Errorf("cold start = %+v", cold)
	}
	for _, row := range cold.Rows {
		if m := row.Metrics[0]; m.Rounds == 0 || m.Median <= 0 {
			t.Errorf("%s: %+v", row.Contestant, m)
		}
	}
	if !strings.Contains(stderr.String(), "cold") {
		t.Errorf("nothing is said of what is measured: %q", stderr.String())
	}
}

// Ctrl-C ends it with what it has, and that is not a failure.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	var stdout, stderr bytes.Buffer
	if code := run(ctx, []string{"--scenario", "scale,lone"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	for _, want := range []string{"Not complete", "ended early"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %q in:\n%s", want, stdout.String())
		}
	}
}

func TestBenchRefuses(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--scenario", "hot,warm"}, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), `"warm"`) || !strings.Contains(stderr.String(), "zipf") {
		t.Errorf("exit code %d: %q", code, stderr.String())
	}
	if code := run(t.Context(), []string{"--quick", "--against", "no-such-build"}, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "--against") || !strings.Contains(stderr.String(), "no-such-build") {
		t.Errorf("exit code %d: %q", code, stderr.String())
	}
	if code := run(t.Context(), []string{"--quick", "--scenario", "cold", "--plots", os.DevNull}, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "--plots") {
		t.Errorf("exit code %d: %q", code, stderr.String())
	}
}

// The flags are read before anything is measured, and what is wrong is one line that says where to
// read on.
func TestBenchFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--nonsense"}, {"--quick=perhaps"}, {"hot"}, {"bench", "--quick"}} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), args, &stdout, &stderr)
		if errOut := stderr.String(); code != exitUsage || !strings.HasPrefix(errOut, "bench: ") || !strings.HasSuffix(errOut, "; see: bench --help\n") || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%q: exit code %d, error %q", args, code, errOut)
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "zipf") || !strings.Contains(stdout.String(), "--against") {
		t.Errorf("--help: exit code %d, %q, error %q", code, stdout.String(), stderr.String())
	}
}

// A directory that can't be written to is noticed before anything is measured.
func TestBenchPlotsNowhere(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--quick", "--scenario", "lone", "--plots", filepath.Join(file, "plots")}, &stdout, &stderr)
	if errOut := stderr.String(); code != exitFailed || !strings.HasPrefix(errOut, "bench: --plots: ") || strings.Count(errOut, "\n") != 1 {
		t.Errorf("exit code %d, error %q", code, errOut)
	}
}

// What is kept of a run makes the same report again, and docs are made of nothing less than a full
// run: that is said, and no page is touched.
func TestBenchFromResults(t *testing.T) {
	t.Parallel()
	results := filepath.Join(t.TempDir(), "results.json")
	var first, again, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--quick", "--scenario", "cold", "--results", results}, &first, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	if code := run(t.Context(), []string{"--from", results}, &again, &stderr); code != 0 || again.String() != first.String() {
		t.Errorf("exit code %d: %s\n%s", code, stderr.String(), again.String())
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--from", results, "--docs"}, exitNoDocs, "a quick run"},
		{[]string{"--from", results, "--quick"}, exitUsage, "measures nothing"},
		{[]string{"--docs", "--quick"}, exitUsage, "without --quick"},
		{[]string{"--from", results + "-missing"}, exitFailed, "no such file"},
		{[]string{"--quick", "--scenario", "cold", "--results", filepath.Join(results, "below")}, exitFailed, "--results"},
	} {
		stderr.Reset()
		code := run(t.Context(), tt.args, &again, &stderr)
		if errOut := stderr.String(); code != tt.code || !strings.Contains(errOut, tt.want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%v: exit code %d, error %q; want %d and %q", tt.args, code, errOut, tt.code, tt.want)
		}
	}
}

// A full run says how long it takes, and which scenario it is at.
func TestSteps(t *testing.T) {
	t.Parallel()
	plan, err := bench.Plan(bench.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	step, done := showSteps(&said, plan, false)
	step(plan[0].Name, "start")
	step(plan[0].Name, "round 1 of 5")
	step(plan[len(plan)-1].Name, "start")
	done()
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], fmt.Sprintf("%d scenarios, about ", len(plan))) || !strings.Contains(lines[2], fmt.Sprintf("(%d of %d, 0 min so far, about ", len(plan), len(plan))) {
		t.Errorf("said:\n%s", said.String())
	}
	if whole := bench.Together(plan); whole <= 0 || whole > 25*time.Minute {
		t.Errorf("a full run takes %v, want 25 minutes at most", whole)
	}
}
