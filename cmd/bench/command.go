package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/bench/internal/bench"
	"github.com/firestore-counters/counters/cmd/internal/dev"
)

func newCommand() *cobra.Command {
	var o bench.Options
	var asJSON bool
	var plots string
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this design beside what people build today",
		Long: `Measure increments, roll-ups, latency, lag, drift, cost, cold start and memory on this machine: of this project, of
the blind trigger that tutorials have, of functions that do nothing, and of a sum() per read. All of it runs here, on
the embedded Firestore. It ends within fifteen minutes, with --quick in about one; Ctrl-C ends it with what it has.

--against runs the functions of another build of this program or of counters, of another commit say, in rounds that
alternate with this build's, and prints how many times as much this one does. Firestore and the load are this build's
for both.

--plots writes what was measured of throughput, lag and cost, and with the scenario cost also the plot of what "counters
cost --at-large" works out on paper.

Scenarios:
` + scenarioList(),
		Example: `  bench --quick
  bench --plots docs/bench --json > bench.json
  bench --scenario hot,lag
  bench --quick --scenario hot,zipf,events --against ./bench-before
  bench --quick --scenario zipf --profiles /tmp/profiles && go tool pprof -top /tmp/profiles/zipf-ours-Increment.pprof`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true, // A page of usage hides the one line that says what is wrong.
		SilenceErrors: true, // run prints them.
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
				return nameFlag(err)
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
	flags.StringVar(&o.Against, "against", "", "compare with the functions of this program instead: another build of bench, or of counters")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	flags.StringVar(&o.Profiles, "profiles", "", "write CPU profiles of our functions into this directory, of one long round of each scenario")
	flags.StringVar(&plots, "plots", "", "write SVG plots into this directory")
	return cmd
}

// nameFlag names the flag that an error comes from.
func nameFlag(err error) error {
	switch {
	case errors.Is(err, bench.ErrScenario):
		return fmt.Errorf("--scenario: %w", err)
	case errors.Is(err, bench.ErrAgainst):
		return fmt.Errorf("--against: %w", err)
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
