package main

import (
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// showSteps shows what is being measured: on a terminal in one line, elsewhere a line per scenario.
// done ends it.
func showSteps(w io.Writer) (step func(scenario, what string), done func()) {
	current := ""
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return func(scenario, _ string) {
			if scenario != current {
				fmt.Fprintln(w, "measuring", scenario)
				current = scenario
			}
		}, func() {}
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(w), progressbar.OptionClearOnFinish(),
		progressbar.OptionSpinnerType(14), progressbar.OptionSetElapsedTime(true),
		// or what turns the spinner races with the first Add (progressbar 3.19)
		progressbar.OptionSetRenderBlankState(true))
	return func(scenario, what string) {
			bar.Describe(fmt.Sprintf("%-8s %-40s", scenario, what))
			_ = bar.Add(1)
		}, func() {
			_ = bar.Finish()
		}
}
