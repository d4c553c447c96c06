package bench

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// checkout copies the pages that have figures.
func checkout(t *testing.T) (root string) {
	t.Helper()
	from, err := Root(".")
	if err != nil {
		t.Fatal(err)
	}
	root = t.TempDir()
	for _, b := range blocks() {
		text, err := os.ReadFile(filepath.Join(from, b.page))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(b.page)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, b.page), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func read(t *testing.T, root, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The figures of README and docs, and the plots, are those of the results that are kept.
func TestDocsAreOfTheResults(t *testing.T) {
	t.Parallel()
	root, err := Root(".")
	if err != nil {
		t.Fatal(err)
	}
	r, err := LoadReport(ResultsFile(root))
	if err != nil {
		t.Fatal(err)
	}
	copied := checkout(t)
	if _, err := r.WriteDocs(copied); err != nil {
		t.Fatal(err)
	}
	for _, s := range Scenarios() {
		if r.result(s.Name) == nil {
			t.Errorf("%s lacks %s, so that docs have dashes", resultsFile, s.Name)
		}
	}
	for _, b := range blocks() {
		if diff := cmp.Diff(read(t, copied, b.page), read(t, root, b.page)); diff != "" {
			t.Errorf("%s isn't what %s says; make it again: go run -C cmd/bench . --docs --from %s\n%s", b.page, resultsFile, resultsFile, diff)
		}
	}
}

// Every figure of a run stands in its page; text around it stays, and what is written again is the
// same. What wasn't measured is a dash.
func TestWriteDocs(t *testing.T) {
	t.Parallel()
	root, r := checkout(t), reportOfFigures()
	readme := read(t, root, "README.md")
	files, err := r.WriteDocs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if info, err := os.Stat(filepath.Join(root, file)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	if want := []string{"README.md", "docs/benchmarks.md", "docs/reading.md", "docs/cost.md", plotsDir + "/throughput.svg", plotsDir + "/lag.svg", plotsDir + "/cost.svg", largePlot}; !cmp.Equal(want, files) {
		t.Errorf("written: %s", cmp.Diff(want, files))
	}
	written := read(t, root, "README.md")
	for _, want := range []string{"| increments a second, one hot counter | 30,000 | 2,500 |", "| 0.990 s | ≥ 25 s, and growing |", "| - | - |", "2026-11-21, 09:00 to 09:00 UTC, 2 cores of <Test>"} {
		if !strings.Contains(written, want) {
			t.Errorf("README.md has no %q", want)
		}
	}
	outside := func(text string) string {
		before, rest, _ := strings.Cut(text, blocks()[0].begin())
		_, after, _ := strings.Cut(rest, blocks()[0].end())
		return before + after
	}
	if diff := cmp.Diff(outside(readme), outside(written)); diff != "" {
		t.Error(diff)
	}
	if benchmarks := read(t, root, "docs/benchmarks.md"); !strings.Contains(benchmarks, "| 11.2 (10.7 to 15) |") {
		t.Error("docs/benchmarks.md has no ratio with its spread")
	}
	if _, err := r.WriteDocs(root); err != nil {
		t.Fatal(err)
	}
	if again := read(t, root, "README.md"); again != written {
		t.Error(cmp.Diff(written, again))
	}
}

// A page that has lost a block is named, and nothing is written.
func TestWriteDocsWithoutItsPlace(t *testing.T) {
	t.Parallel()
	root, r := checkout(t), reportOfFigures()
	before := read(t, root, "README.md")
	if err := os.WriteFile(filepath.Join(root, "docs", "reading.md"), []byte("# Reading\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := r.WriteDocs(root); err == nil || !strings.Contains(err.Error(), "docs/reading.md") {
		t.Errorf("err = %v", err)
	}
	if read(t, root, "README.md") != before {
		t.Error("README.md was written all the same")
	}
}

// whole is a report that is fit for docs.
func whole() *Report {
	r := &Report{Date: time.Now(), Machine: "this one", LoadAverage: 0.01}
	for _, s := range Scenarios() {
		r.Results = append(r.Results, Result{Scenario: s.Name, Began: time.Now()})
	}
	return r
}

func TestFitForDocs(t *testing.T) {
	t.Parallel()
	if err := whole().FitForDocs(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*Report){
		"load average of 4000.00": func(r *Report) { r.LoadAverage = 4000 },
		"load average of -1.00":   func(r *Report) { r.LoadAverage = -1 }, // not known
		"a quick run":             func(r *Report) { r.Quick = true },
		"two builds":              func(r *Report) { r.Against = "other" },
		"--scenario scale":        func(r *Report) { r.Results = r.Results[:len(r.Results)-1] },
		"--scenario hot\nhot: it": func(r *Report) { r.Results[0].Error = "it broke" },
	} {
		r := whole()
		spoil(r)
		if err := r.FitForDocs(); !errors.Is(err, ErrDocs) || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want one that says %q", err, want)
		}
	}
}

// Scenarios that are measured again take the place of what was there, the others are kept.
func TestKeep(t *testing.T) {
	t.Parallel()
	earlier, again := whole(), whole()
	earlier.LoadAverage, earlier.Results[1].Seconds, earlier.Results[2].Error = 0.02, 7, "it broke"
	again.Results = again.Results[:1]
	again.Results[0].Seconds = 5
	file := filepath.Join(t.TempDir(), "results.json")
	if r, err := LoadReportIfAny(file); r != nil || err != nil {
		t.Fatalf("%v, %v of a file that isn't there", r, err)
	}
	if err := earlier.Save(file); err != nil {
		t.Fatal(err)
	}
	earlier, err := LoadReportIfAny(file)
	if err != nil {
		t.Fatal(err)
	}
	again.Keep(earlier)
	if len(again.Results) != len(Scenarios()) || again.Results[0].Seconds != 5 || again.Results[1].Seconds != 7 || again.LoadAverage != 0.02 || !again.Interrupted {
		t.Errorf("report = %+v", again)
	}
	broken := whole()
	broken.Results = broken.Results[:1]
	broken.Results[0].Error = "it broke"
	broken.Keep(again)
	if broken.Results[0].Error != "" || broken.Results[0].Seconds != 5 {
		t.Errorf("a scenario that failed takes the place of one that hadn't: %+v", broken.Results[0])
	}
	elsewhere := whole()
	elsewhere.Machine, elsewhere.Results = "another", elsewhere.Results[:1]
	if elsewhere.Keep(again); len(elsewhere.Results) != 2 || elsewhere.Results[1].Scenario != "flood" {
		t.Errorf("%d results; of another machine the floods alone are kept", len(elsewhere.Results))
	}
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadReport(file); !errors.Is(err, ErrResults) {
		t.Errorf("err = %v", err)
	}
	if err := again.Save(filepath.Join(file, "below")); err == nil {
		t.Error("no error of a directory that isn't there")
	}
}
