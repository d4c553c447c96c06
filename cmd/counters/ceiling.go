package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/cmd/internal/terminal"
)

// costCeiling says what a ceiling leaves to a deployment that has everything else by default.
func costCeiling(cmd *cobra.Command, most, location string, edition cost.Edition, billing cost.Billing, asJSON bool) error {
	if _, err := cost.PricesOf(location); err != nil {
		return badUsage("--location: %w", err)
	}
	w := deployment.Usual(location)
	w.MostPerDay, w.Billing, w.RollupBilling, w.Edition = most, string(billing), string(billing), string(edition)
	err := w.Check()
	if err == nil && w.MostPerDay == "none" {
		err = errors.New("--most-per-day none: want US dollars a day, such as 5USD")
	}
	if err == nil {
		err = w.Bound(edition)
	}
	if err != nil {
		return usageError{err}
	}
	if asJSON {
		return writeSheet(cmd.OutOrStdout(), w.Ceiling)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "At most $%s a day, whatever anybody sends: %s, on paper.\n\n", thousands(w.Ceiling.Day), fits(*w.Ceiling))
	if err := printCeiling(out, *w.Ceiling); err != nil {
		return err
	}
	p := w.Prices(edition)
	_, err = fmt.Fprintf(out, "\n%s\nBy list prices:\n  Firestore in %s, %s edition: %s\n  Cloud Run in %s, tier %d: %s\n  answers and events: %s\n\nTo have it kept:  counters deploy … --most-per-day %s\n",
		ceilingLines(*w.Ceiling), p.Location, named(p.Edition), p.Source, p.Run.Region, p.Tier, cost.RunSource, cost.NetworkSource, w.MostPerDay)
	return err
}

// fits is how many increments a second fit below a ceiling.
func fits(c cost.Ceiling) string {
	return fmt.Sprintf("some %s increments a second of one counter, or %s over a thousand", few(c.Hot), few(c.Even))
}

// few is a rate in a digit or two.
func few(rate float64) string {
	if rate < 10 {
		return strconv.FormatFloat(rate, 'f', 1, 64)
	}
	digits, err := strconv.ParseFloat(strconv.FormatFloat(rate, 'g', 2, 64), 64)
	if err != nil {
		return fmt.Sprint(rate) // Not possible.
	}
	return thousandsOf(digits)
}

// printCeiling says what a ceiling leaves to each function.
func printCeiling(w io.Writer, c cost.Ceiling) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	shares := map[string]cost.Share{"Increment": c.Increment, "Rollup": c.Rollup, "Reconcile": c.Reconcile}
	fmt.Fprintf(t, "\t\ta second and instance\t$ a day, at most\n")
	total := 0.0
	for _, p := range c.Parts() {
		total += p.Day
		name, what, rate := "", p.What, thousandsOf(p.Rate)
		switch {
		case p.Function == "":
			name, what, rate = p.What, "", ""
		case p.Rate == 0:
			name, rate = p.Function, ""
			what = terminal.Count(shares[name].Instances, "instance") + " by the " + string(shares[name].Billing)
		case p.Rate < 1000:
			rate = strconv.FormatFloat(p.Rate, 'f', -1, 64)
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", name, what, rate, thousands(p.Day))
	}
	fmt.Fprintf(t, "  together\t\t\t%s\n", thousands(total))
	return t.Flush()
}

// unbounded is what no ceiling bounds.
const unbounded = `Nothing here bounds what doesn't pass through the functions: reads of clients that listen to documents, what clients
write by the SDK under your rules, documents that FIELDS counts, and events of both; and other functions. App Check and
rules are for those: docs/cost.md.`

// ceilingLines is what a ceiling does, and what it doesn't.
func ceilingLines(c cost.Ceiling) string {
	var b strings.Builder
	fmt.Fprintf(&b, "An increment with an Idempotency-Key, as the web client sends, or of a member takes a commit of its own: %s a second.\n", few(c.Even))
	b.WriteString(`Ten minutes' worth is saved for a peak. Beyond that commits wait for company, totals are older, and new requests are
refused (429, 503). What was acknowledged is counted.
`)
	if c.Increment.Units.Requests > 0 {
		fmt.Fprintf(&b, "Paid by the request, %s a second are begun, and a flood keeps everybody waiting; by the instance requests cost nothing.\n", few(c.Increment.Units.Requests*float64(c.Increment.Instances)))
	}
	b.WriteString(unbounded + "\n")
	return b.String()
}
