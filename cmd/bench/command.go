package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/bench/internal/bench"
	"github.com/firestore-counters/counters/cmd/internal/dev"
)

// command is what the flags say.
type command struct {
	bench.Options
	asJSON, docs         bool
	plots, results, from string
	measured, floods     string
}

func newCommand() *cobra.Command {
	var c command
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this design beside what people build today",
		Long: `Measure increments, roll-ups, latency, lag, drift, cost, cold start and memory on this machine: of this project, of
the blind trigger that tutorials have, of functions that do nothing, and of a sum() per read. All of it runs here, on
the embedded Firestore. It says how long it takes, about ` + minutes(together()) + ` in full, with --quick one; Ctrl-C ends it with what
it has.

--against runs the functions of another build of this program or of counters, of another commit say, in rounds that
alternate with this build's, and prints how many times as much this one does. Firestore and the load are this build's
for both.

--docs is for the figures of this project's README and docs: of a full run, on a machine whose load average says that it
does nothing else. It waits up to five minutes for that, and refuses otherwise. The results are kept in
cmd/bench/results.json after each scenario: with --scenario, those are measured again and the others kept; with --from,
docs are made from them again, and nothing is measured.

--plots writes what was measured of throughput, lag and cost, and with the scenario cost also the plot of what "counters
cost --at-large" works out on paper.

--measured takes how long a commit and a delivery take, and how Pub/Sub begins, from a report of "counters verify", and
not from what this project assumes: so these are your project's figures, as far as a machine can play it.

Scenarios, and how long they take in full:
` + scenarioList(),
		Example: `  bench --quick
  bench --plots docs/bench --results bench.json
  bench --from bench.json
  bench --scenario hot,lag
  bench --quick --scenario hot,zipf,events --against ./bench-before
  bench --quick --scenario zipf --profiles /tmp/profiles && go tool pprof -top /tmp/profiles/zipf-ours-Increment.pprof
  bench --quick --scenario lag,clicks,burst --measured verify-report.md
  bench --docs`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true, // A page of usage hides the one line that says what is wrong.
		SilenceErrors: true, // run prints them.
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := dev.UntilOrphaned(cmd.Context())
			defer cancel()
			return c.run(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&c.Quick, "quick", false, "everything shorter, and rougher")
	flags.StringSliceVar(&c.Scenarios, "scenario", nil, "only these, separated by commas")
	flags.DurationVar(&c.FloodFor, "flood-for", 0, "how long each flood of the scenario flood lasts; 1m unless given")
	flags.StringVar(&c.floods, "floods", "", "of the scenario flood only those whose line of progress matches this regular expression")
	flags.StringVar(&c.Against, "against", "", "compare with the functions of this program instead: another build of bench, or of counters")
	flags.BoolVar(&c.asJSON, "json", false, "print JSON")
	flags.StringVar(&c.Profiles, "profiles", "", "write CPU profiles of our functions into this directory, of one long round of each scenario")
	flags.StringVar(&c.plots, "plots", "", "write SVG plots into this directory")
	flags.StringVar(&c.results, "results", "", "write what was measured so far into this file, as JSON, after each scenario")
	flags.StringVar(&c.measured, "measured", "", "take the latencies from this report of counters verify")
	flags.StringVar(&c.from, "from", "", "measure nothing, and take the results from this file")
	flags.BoolVar(&c.docs, "docs", false, "write the figures of README and docs, of a full run on an idle machine")
	return cmd
}

// run measures, or reads what was measured, and writes what is to be made of it.
func (c *command) run(ctx context.Context, stdout, stderr io.Writer) error {
	root, err := c.prepare()
	if err != nil {
		return err
	}
	var report *bench.Report
	if c.from != "" {
		report, err = bench.LoadReport(c.from)
	} else {
		report, err = c.measure(ctx, stderr)
	}
	if err != nil {
		return nameFlag(err)
	}
	if c.plots != "" {
		if err := report.WritePlots(c.plots); err != nil {
			return fmt.Errorf("--plots: %w", err)
		}
	}
	if err := c.print(stdout, report); err != nil {
		return err
	}
	if c.docs {
		return writeDocs(root, report, stderr)
	}
	return nil
}

// errUsage says that flags don't go together.
var errUsage = errors.New("see: bench --help")

// prepare finds what is wrong before minutes of measuring, and the checkout for docs.
func (c *command) prepare() (root string, err error) {
	switch measures := c.Quick || len(c.Scenarios) > 0 || c.Against != "" || c.Profiles != "" || c.results != ""; {
	case c.from != "" && measures:
		return "", fmt.Errorf("--from measures nothing: want it with --docs, --plots and --json alone; %w", errUsage)
	case c.measured != "" && (c.from != "" || c.docs):
		return "", fmt.Errorf("--measured is of another project's latencies: want it without --from and --docs; %w", errUsage)
	case c.docs && (c.Quick || c.Against != "" || c.Profiles != ""):
		return "", fmt.Errorf("--docs is of full measurements of this build: want it without --quick, --against and --profiles; %w", errUsage)
	}
	if c.floods != "" {
		if c.Floods, err = regexp.Compile(c.floods); err != nil {
			return "", fmt.Errorf("--floods: %w", err)
		}
	}
	if c.measured != "" {
		if c.Measured, err = bench.LoadMeasured(c.measured); err != nil {
			return "", fmt.Errorf("--measured: %w", err)
		}
	}
	if c.plots != "" {
		if err := os.MkdirAll(c.plots, 0o755); err != nil {
			return "", fmt.Errorf("--plots: %w", err)
		}
	}
	if c.docs {
		if root, err = bench.Root("."); err != nil {
			return "", fmt.Errorf("--docs: %w", err)
		}
		if c.results == "" && c.from == "" {
			c.results = bench.ResultsFile(root)
		}
	}
	if c.results != "" {
		file, err := os.CreateTemp(filepath.Dir(c.results), filepath.Base(c.results)+".*")
		if err != nil {
			return "", fmt.Errorf("--results: %w", err)
		}
		_ = file.Close()
		_ = os.Remove(file.Name())
	}
	return root, nil
}

func (c *command) measure(ctx context.Context, stderr io.Writer) (*bench.Report, error) {
	plan, err := bench.Plan(c.Options)
	if err != nil {
		return nil, err
	}
	load := 0.0
	if c.docs {
		if load, err = bench.WaitUntilIdle(ctx, func(what string) { fmt.Fprintln(stderr, what) }); err != nil {
			return nil, fmt.Errorf("--docs: %w", err)
		}
	}
	var earlier *bench.Report
	if c.docs { // a full run measures no floods
		if earlier, err = bench.LoadReportIfAny(c.results); err != nil {
			return nil, err
		}
	}
	complete := func(r *bench.Report) *bench.Report {
		whole := *r
		if c.docs {
			whole.LoadAverage = load // what the decision was made by
		}
		whole.Keep(earlier)
		return &whole
	}
	if c.results != "" {
		c.Save = func(r *bench.Report) error { return complete(r).Save(c.results) }
	}
	step, done := showSteps(stderr, plan, c.Quick)
	c.Step = step
	report, err := bench.Run(ctx, c.Options)
	done()
	if err != nil {
		return nil, err
	}
	return complete(report), nil
}

func (c *command) print(w io.Writer, report *bench.Report) error {
	if !c.asJSON {
		return report.WriteText(w)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

func writeDocs(root string, report *bench.Report, stderr io.Writer) error {
	if err := report.FitForDocs(); err != nil {
		return fmt.Errorf("--docs: %w", err)
	}
	files, err := report.WriteDocs(root)
	if err != nil {
		return fmt.Errorf("--docs: %w", err)
	}
	fmt.Fprintln(stderr, "written:", strings.Join(files, ", "))
	return nil
}

// nameFlag names the flag that an error comes from.
func nameFlag(err error) error {
	switch {
	case errors.Is(err, bench.ErrScenario):
		return fmt.Errorf("--scenario: %w", err)
	case errors.Is(err, bench.ErrAgainst):
		return fmt.Errorf("--against: %w", err)
	case errors.Is(err, bench.ErrProfiles):
		return fmt.Errorf("--profiles: %w", err)
	}
	return err
}

// together is how long a full run takes.
func together() time.Duration {
	all, err := bench.Plan(bench.Options{})
	if err != nil {
		panic(err) // not possible: it names none
	}
	return bench.Together(all)
}

func scenarioList() string {
	var b strings.Builder
	for _, s := range bench.Scenarios() {
		fmt.Fprintf(&b, "  %-8s %4.0f s  %s\n", s.Name, s.Takes.Seconds(), s.Title)
	}
	return strings.TrimRight(b.String(), "\n")
}
