package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// ErrDocs says why results are not for docs.
var ErrDocs = errors.New("these results are not for docs")

// Where a checkout has its results and plots.
const (
	resultsFile = "cmd/bench/results.json"
	plotsDir    = "cmd/bench/internal/bench/plots"
	largePlot   = "docs/at-large.svg"
)

// ResultsFile is where the results that docs are made from are, below the root of a checkout.
func ResultsFile(root string) string { return filepath.Join(root, filepath.FromSlash(resultsFile)) }

// Root is the root of the checkout that a directory is in.
func Root(dir string) (string, error) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(at, "docs", "benchmarks.md")); err == nil {
			return at, nil
		}
		above := filepath.Dir(at)
		if above == at {
			return "", fmt.Errorf("find the checkout: neither %s nor a directory above it has docs/benchmarks.md; run this in a checkout of counters", dir)
		}
		at = above
	}
}

// block is a part of a page that is made from results.
type block struct {
	page, name string
	text       func(*Report) string
}

func blocks() []block {
	return []block{
		{"README.md", "figures", (*Report).readme},
		{"docs/benchmarks.md", "figures", (*Report).measured},
		{"docs/benchmarks.md", "CPU time", (*Report).worked},
		{"docs/benchmarks.md", "a crowd", (*Report).crowd},
		{"docs/benchmarks.md", "exactness", (*Report).exactness},
		{"docs/benchmarks.md", "growth", (*Report).scaling},
		{"docs/benchmarks.md", "limits", (*Report).seats},
		{"docs/benchmarks.md", "goals", (*Report).reached},
		{"docs/reading.md", "intervals", (*Report).intervals},
		{"docs/cost.md", "floods", (*Report).floods},
		{"docs/cost.md", "what fits", (*Report).fits},
	}
}

// begin and end are the lines around a block.
func (b block) begin() string { return "<!-- " + b.name + ": made by make figures -->\n" }
func (b block) end() string   { return "<!-- end of " + b.name + " -->\n" }

// FitForDocs is an error where the report isn't one of all scenarios, each in full and to its end,
// on a machine that did nothing else. It says what to do: [ErrDocs].
func (r *Report) FitForDocs() error {
	var missing, why []string
	for _, s := range Scenarios() {
		if s.asked {
			continue
		}
		switch result := r.result(s.Name); {
		case result == nil:
			missing = append(missing, s.Name)
		case result.Error != "":
			missing, why = append(missing, s.Name), append(why, s.Name+": "+result.Error)
		}
	}
	switch {
	case r.Quick:
		return fmt.Errorf("%w: they are of a quick run", ErrDocs)
	case r.Against != "":
		return fmt.Errorf("%w: they compare two builds", ErrDocs)
	case r.LoadAverage < 0 || r.LoadAverage > idlePerCore*float64(runtime.NumCPU()):
		return fmt.Errorf("%w: the machine had a load average of %.2f before. Measure again where nothing else runs: make figures", ErrDocs, r.LoadAverage)
	case len(missing) > 0:
		return fmt.Errorf("%w: some scenarios were not measured to their end. To measure those, and keep the others: go run -C cmd/bench . --docs --scenario %s\n%s", ErrDocs, strings.Join(missing, ","), strings.Join(why, "\n"))
	}
	return nil
}

// WriteDocs writes a report's figures into the README, the docs and the plots of a checkout, and
// returns the names of the files. It doesn't look whether they are fit: see [Report.FitForDocs].
// Nothing is written when a page has lost one of its blocks.
func (r *Report) WriteDocs(root string) (files []string, err error) {
	pages := map[string]string{}
	for _, b := range blocks() {
		text, read := pages[b.page]
		if !read {
			content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(b.page)))
			if err != nil {
				return nil, fmt.Errorf("write figures: %w", err)
			}
			text, files = string(content), append(files, b.page)
		}
		before, rest, begins := strings.Cut(text, b.begin())
		_, after, ends := strings.Cut(rest, b.end())
		if !begins || !ends {
			return nil, fmt.Errorf("write figures: %s has no lines %q and %q", b.page, strings.TrimSpace(b.begin()), strings.TrimSpace(b.end()))
		}
		pages[b.page] = before + b.begin() + b.text(r) + b.end() + after
	}
	plots, err := r.writePlots(filepath.Join(root, filepath.FromSlash(plotsDir)))
	if err != nil {
		return nil, err
	}
	for _, plot := range plots {
		files = append(files, plotsDir+"/"+plot)
	}
	if err := plotLarge(filepath.Join(root, filepath.FromSlash(largePlot))); err != nil {
		return nil, fmt.Errorf("write plots: %s: %w", largePlot, err)
	}
	for page, text := range pages {
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(page)), []byte(text), 0o644); err != nil {
			return nil, fmt.Errorf("write figures: %w", err)
		}
	}
	return append(files, largePlot), nil
}
