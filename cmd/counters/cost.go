package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/counters/internal/cost"
)

func newCostCommand() *cobra.Command {
	l := cost.Load{}
	var location string
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "Work out what a counter costs, and what else would",
		Long: `Work out on paper what one counter costs: with this project, with a blind trigger, with a sum() per read, with a
single document; and from which rate on which of them is the cheapest. The prices are list prices of ` + cost.AsOf + `, without
the free tier; "counters bench --scenario cost" counts the same on this machine.

Requests of functions are billed by the time of their instances too, in steps of 100 ms: a counter that is hit once a
second pays for that more than for all else.`,
		Example: `  counters cost --rate 1000 --shards 100 --reads 50
  counters cost --rate 5 --location nam5 --thrift`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := validLoad(l); err != nil {
				return err
			}
			prices, err := cost.PricesOf(location)
			if err != nil {
				return fmt.Errorf("--location: %w", err)
			}
			if err := printCosts(cmd.OutOrStdout(), l, prices); err != nil {
				return err
			}
			return printChoices(cmd.OutOrStdout(), l, prices)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Float64Var(&l.Rate, "rate", 100, "increments a second")
	flags.IntVar(&l.Shards, "shards", 10, "shards of the counter, 1 to 1000")
	flags.Float64Var(&l.Reads, "reads", 1, "reads of the total a second")
	flags.StringVar(&location, "location", "us-central1", "where the database is: us-central1 or nam5")
	flags.DurationVar(&l.Commit, "commit", 10*time.Millisecond, "how long a commit takes")
	flags.DurationVar(&l.Interval, "interval", time.Second, "ROLLUP_INTERVAL")
	flags.IntVar(&l.Instances, "instances", 1, "instances of each function")
	flags.BoolVar(&l.Thrift, "thrift", false, "EXACT_WRITES=false: no marker with each commit")
	return cmd
}

func validLoad(l cost.Load) error {
	var errs []error
	bad := func(flag string, value any, want string) {
		errs = append(errs, fmt.Errorf("--%s %v: want %s", flag, value, want))
	}
	if !(l.Rate > 0 && l.Rate <= 1e6) { // Written this way round so that NaN is refused too.
		bad("rate", l.Rate, "increments a second, above 0 and up to 1000000")
	}
	if l.Shards < 1 || l.Shards > 1000 {
		bad("shards", l.Shards, "1 to 1000")
	}
	if !(l.Reads >= 0 && l.Reads <= 1e6) {
		bad("reads", l.Reads, "reads a second, 0 to 1000000")
	}
	if l.Commit < time.Millisecond || l.Commit > time.Minute {
		bad("commit", l.Commit, "1ms to 1m")
	}
	if l.Interval < 10*time.Millisecond || l.Interval > 5*time.Second {
		bad("interval", l.Interval, "10ms to 5s")
	}
	if l.Instances < 1 || l.Instances > 1000 {
		bad("instances", l.Instances, "1 to 1000")
	}
	return errors.Join(errs...)
}

// secondsPerMonth is thirty days.
const secondsPerMonth = 30 * 24 * 60 * 60

func printCosts(w io.Writer, l cost.Load, prices cost.Prices) error {
	fmt.Fprintf(w, "%g increments/s and %g reads/s of one counter with %d shards, on paper. List prices of %s, database in %s.\n\n",
		l.Rate, l.Reads, l.Shards, cost.AsOf, prices.Location)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "per million increments:\treads\twrites\tdeletes\trequests\tinstance s\t$ a million\t$ a month\t")
	var remarks []string
	for _, d := range l.Designs() {
		u := l.PerMillion(d)
		name := string(d.Name)
		if d.Unworkable != "" && d.Name != cost.Floor {
			remarks = append(remarks, fmt.Sprintf("  %s: does not hold: %s.", d.Name, d.Unworkable))
			name += " (!)"
		}
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.3f\t%.2f\t\n", name, u.Reads, u.Writes, u.Deletes, u.Requests, u.InstanceSeconds,
			prices.Bill(u).Total(), prices.Bill(d.Usage).Total()*secondsPerMonth)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(remarks) > 0 {
		fmt.Fprintln(w, "\n(!)\n"+strings.Join(remarks, "\n"))
	}
	return nil
}

// reasons say what speaks for a design besides its price, or against it.
func reasons(n cost.Name) string {
	switch n {
	case cost.OneDocument:
		return "one document, with no shards: right up to about one write a second"
	case cost.SumOnRead:
		return "a sum() per read: never drifts, but nobody can listen to it, and retries may count twice"
	case cost.Ours:
		return "this project: any rate, one document to read or listen to, safe to retry"
	}
	return string(n)
}

func printChoices(w io.Writer, l cost.Load, prices cost.Prices) error {
	fmt.Fprintf(w, "\nThe cheapest by the rate of increments, at %g reads/s, each with the shards that it needs:\n", l.Reads)
	choices := l.Choices(prices)
	for i, c := range choices {
		at := "from " + rate(c.From)
		if i == 0 && len(choices) > 1 {
			at = "below " + rate(choices[1].From)
		}
		if _, err := fmt.Fprintf(w, "  %-12s %s\n", at, reasons(c.Name)); err != nil {
			return err
		}
	}
	return nil
}

func rate(perSecond float64) string {
	if perSecond < 10 {
		return fmt.Sprintf("%.2g/s", perSecond)
	}
	return fmt.Sprintf("%.0f/s", perSecond)
}
