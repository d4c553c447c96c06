package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/firestore-counters/counters/cmd/counters/internal/bench"
	"github.com/firestore-counters/counters/cmd/counters/internal/dev"
)

func newBenchCommand() *cobra.Command {
	var o bench.Options
	var asJSON bool
	var plots string
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this design beside what people build today",
		Long: `Measure increments, roll-ups, latency, lag, drift, cost, cold start and memory on this machine: of this project, of
the blind trigger that tutorials have, of functions that do nothing, and of a sum() per read. All of it runs here, on
the embedded Firestore. It ends within fifteen minutes, with --quick within one; Ctrl-C ends it with what it has.

--against runs the functions of another build of this program, of another commit say, in rounds that alternate with
this build's, and prints how many times as much this one does. Firestore and the load are this build's for both.

Scenarios:
` + scenarioList(),
		Example: `  counters bench --quick
  counters bench --plots docs/bench --json > bench.json
  counters bench --scenario hot,lag
  counters bench --quick --scenario hot,zipf,events --against ./counters-before
  counters bench --quick --scenario zipf --profiles /tmp/profiles && go tool pprof -top /tmp/profiles/zipf-ours-Increment.pprof`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if plots != "" { // before minutes of measuring
				if err := os.MkdirAll(plots, 0o755); err != nil {
					return fmt.Errorf("--plots: %w", err)
				}
			}
			ctx, cancel := dev.UntilOrphaned(cmd.Context())
			defer cancel()
			step, done := showSteps(cmd.ErrOrStderr())
			o.Step = step
			report, err := bench.Run(ctx, o)
			done()
			if err != nil {
				return benchError(err)
			}
			if plots != "" {
				if err := report.WritePlots(plots); err != nil {
					return fmt.Errorf("--plots: %w", err)
				}
			}
			if asJSON {
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(report)
			}
			return report.WriteText(cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&o.Quick, "quick", false, "everything shorter, and rougher")
	flags.StringSliceVar(&o.Scenarios, "scenario", nil, "only these, separated by commas")
	flags.StringVar(&o.Against, "against", "", "compare with this build of the program instead")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	flags.StringVar(&o.Profiles, "profiles", "", "write CPU profiles of our functions into this directory, of one long round of each scenario")
	flags.StringVar(&plots, "plots", "", "write SVG plots into this directory")
	return cmd
}

// benchError names the flag that an error comes from.
func benchError(err error) error {
	switch {
	case errors.Is(err, bench.ErrScenario):
		return badUsage("--scenario: %w", err)
	case errors.Is(err, bench.ErrAgainst):
		return badUsage("--against: %w", err)
	}
	return fmt.Errorf("--profiles: %w", err)
}

func scenarioList() string {
	var b strings.Builder
	for _, s := range bench.Scenarios() {
		fmt.Fprintf(&b, "  %-8s %s\n", s.Name, s.Title)
	}
	return strings.TrimRight(b.String(), "\n")
}

// showSteps shows what is being measured: on a terminal in one line, elsewhere a line per scenario. done ends it.
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
		progressbar.OptionSetRenderBlankState(true)) // or what turns the spinner races with the first Add (progressbar 3.19)
	return func(scenario, what string) {
			bar.Describe(fmt.Sprintf("%-8s %-40s", scenario, what))
			_ = bar.Add(1)
		}, func() {
			_ = bar.Finish()
		}
}
