package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/internal/settings"
)

// newEstimateCommand is what deploy prints of a deployment's costs.
func newEstimateCommand() *cobra.Command {
	var location, memory string
	d := cost.Deployment{Load: cost.Load{Counters: 1, PerShard: cost.HotRate, Commit: cost.CommitTime, Instances: 1}}
	cmd := &cobra.Command{
		Use:   "estimate [NAME=VALUE...]",
		Short: "Work out what a deployment costs a month, for the plan of deploy",
		Long: `Work out on paper what a deployment costs a month at a rate of increments of one counter, with its settings, instances
and ways to pay. It also says the worst case, a day in which a flood keeps all instances busy, and how to lower it.`,
		Example: `  counters estimate --rate 100 --location us-central1 --increment-billing instance ROLLUP_INTERVAL=5s`,
		Hidden:  true,
		RunE: func(cmd *cobra.Command, given []string) error {
			deployed, err := settings.ForDeployment(given)
			if err != nil {
				return usageError{err}
			}
			s, err := settings.Parse(deployed.Environment)
			if err != nil {
				return usageError{err}
			}
			d.Interval, d.CommitInterval, d.InexactWrites = s.RollupInterval, s.CommitInterval, !s.ExactWrites
			if err := validLoad(d.Load); err != nil {
				return usageError{err}
			}
			for flag, way := range map[string]cost.Billing{"--increment-billing": d.IncrementBilling, "--rollup-billing": d.RollupBilling} {
				if !slices.Contains(cost.Billings, way) {
					return badUsage("%s %s: want request or instance", flag, way)
				}
			}
			if d.Size, err = cost.SizeOf("1", memory); err != nil {
				return badUsage("--memory: %w", err)
			}
			prices, err := cost.PricesOf(location)
			if err != nil {
				return badUsage("--location: %w", err)
			}
			return printEstimate(cmd.OutOrStdout(), d, prices)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Float64Var(&d.Rate, "rate", 100, "increments a second")
	flags.StringVar(&location, "location", "us-central1", "of the database")
	flags.StringVar(&memory, "memory", "512Mi", "of an instance")
	flags.StringVar((*string)(&d.IncrementBilling), "increment-billing", "request", "request or instance")
	flags.StringVar((*string)(&d.RollupBilling), "rollup-billing", "request", "request or instance")
	flags.IntVar(&d.Increment.Min, "increment-min-instances", 0, "kept warm")
	flags.IntVar(&d.Increment.Max, "increment-max-instances", 10, "at most")
	flags.IntVar(&d.Rollup.Min, "rollup-min-instances", 0, "kept warm")
	flags.IntVar(&d.Rollup.Max, "rollup-max-instances", 2, "at most")
	return cmd
}

func printEstimate(w io.Writer, d cost.Deployment, p cost.Prices) error {
	month := func(perSecond float64) string { return "$" + thousands(perSecond*secondsPerMonth) }
	said := func(d cost.Deployment) string {
		e := d.Expected(p)
		return fmt.Sprintf("%s a month: documents %s, Increment %s by the %s, Rollup %s by the %s",
			month(e.Total()), month(e.Documents), month(e.Increment), d.IncrementBilling, month(e.Rollup), d.RollupBilling)
	}
	fmt.Fprintf(w, "At %s a second of one counter, on paper, by list prices of %s (Firestore: %s):\n  %s\n",
		quantity(d.Rate, "increment"), p.Location, p.Source, said(d))
	if better := d.Better(p); better.Expected(p).Total() < 0.9*d.Expected(p).Total() {
		fmt.Fprintf(w, "Less with --increment-billing %s --rollup-billing %s:\n  %s\n", better.IncrementBilling, better.RollupBilling, said(better))
	}
	day := func(perSecond float64) string { return "$" + thousands(perSecond*secondsPerDay) }
	worst := d.Worst(p)
	fmt.Fprintf(w, "At worst %s a day: those who may call it keep all instances busy, %d of Increment and %d of Rollup, with some\n"+
		"  %s increments a second, each with a key and of another counter: documents %s, Increment %s, Rollup %s.\n",
		day(worst.Total()), d.Increment.Max, d.Rollup.Max, thousandsOf(worst.Rate), day(worst.Documents), day(worst.Increment), day(worst.Rollup))
	lower := ""
	if d.Increment.Max > 1 {
		d.Increment.Max, d.Rollup.Max = 1, 1
		lower = fmt.Sprintf("--increment-max-instances 1 --rollup-max-instances 1 lower that to %s a day.\n  ", day(d.Worst(p).Total()))
	}
	_, err := fmt.Fprintf(w, "  %sRATE_LIMIT slows each caller down, and --budget AMOUNT tells you: it stops nothing.\n", lower)
	return err
}

// thousands is an amount with cents, and with commas between thousands.
func thousands(v float64) string {
	whole, cents, _ := strings.Cut(fmt.Sprintf("%.2f", v), ".")
	return commas(whole) + "." + cents
}

// thousandsOf is a whole number with commas between thousands.
func thousandsOf(v float64) string { return commas(fmt.Sprintf("%.0f", v)) }

func commas(whole string) string {
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	return whole
}
