package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/firestore-counters/counters/cmd/bench/internal/bench"
)

// showSteps says what the plan is, and shows what is being measured: on a terminal in one line,
// elsewhere a line per scenario. done ends it.
func showSteps(w io.Writer, plan []bench.Scenario, quick bool) (step func(scenario, what string), done func()) {
	began := time.Now()
	if !quick {
		takes := bench.Together(plan)
		fmt.Fprintf(w, "%d scenarios, about %s, until %s\n", len(plan), minutes(takes), began.Add(takes).Format("15:04"))
	}
	// which it is, and how long all take that are not through yet
	progress := func(scenario string) string {
		at := slices.IndexFunc(plan, func(s bench.Scenario) bool { return s.Name == scenario })
		text := fmt.Sprintf("%d of %d", at+1, len(plan))
		if !quick {
			text += fmt.Sprintf(", %s so far, about %s to go", minutes(time.Since(began)), minutes(bench.Together(plan[at:])))
		}
		return text
	}
	current := ""
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return func(scenario, _ string) {
			if scenario != current {
				fmt.Fprintf(w, "measuring %s (%s)\n", scenario, progress(scenario))
				current = scenario
			}
		}, func() {}
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(w), progressbar.OptionClearOnFinish(),
		progressbar.OptionSpinnerType(14), progressbar.OptionSetElapsedTime(true),
		// or what turns the spinner races with the first Add (progressbar 3.19)
		progressbar.OptionSetRenderBlankState(true))
	return func(scenario, what string) {
			bar.Describe(fmt.Sprintf("%s (%s): %-34s", scenario, progress(scenario), what))
			_ = bar.Add(1)
		}, func() {
			_ = bar.Finish()
		}
}

// minutes are those of a duration, as people say them.
func minutes(d time.Duration) string { return fmt.Sprintf("%.0f min", d.Minutes()) }
