package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/internal/settings"
)

// estimateOf is what a deployment costs.
func estimateOf(w *deployment.Wanted, edition cost.Edition, load loadFlags) (string, error) {
	s, err := settings.Parse(append([]string{"PROJECT_NUMBER=1"}, w.Settings.Environment...))
	if err != nil {
		return "", err
	}
	d := cost.Deployment{
		Load: cost.Load{PerShard: cost.HotRate, Commit: cost.CommitTime, Instances: 1,
			Interval: s.RollupInterval, CommitInterval: s.CommitInterval, InexactWrites: !s.ExactWrites},
		IncrementBilling: cost.Billing(w.Billing), RollupBilling: cost.Billing(w.RollupBilling), Flushes: s.RollupFlushes,
	}
	d.OfUsers = s.Auth != "none"
	d.Increment.Min, d.Increment.Max, d.Rollup.Min, d.Rollup.Max = w.Least, w.Most, w.RollupLeast, w.RollupMost
	if err := load.set(&d.Load); err != nil {
		return "", err
	}
	if err := validLoad(d.Load); err != nil {
		return "", err
	}
	if d.Size, err = cost.SizeOf("1", w.Memory); err != nil {
		return "", err
	}
	var b strings.Builder
	if prices, err := cost.PricesOf(w.Location); err == nil {
		printEstimate(&b, d, prices.In(edition))
	} else if w.Ceiling == nil {
		return "", err
	} else {
		fmt.Fprintf(&b, "%v\nSo there is no estimate, and the ceiling is by the dearest.\n", err)
	}
	if w.Ceiling == nil {
		prices := w.Prices(edition)
		printWorst(&b, d, prices)
		return b.String(), nil
	}
	asked := "--most-per-day " + w.MostPerDay
	if !w.Asked() {
		asked += ", as nothing else was asked for: --most-per-day none bounds nothing"
	}
	fmt.Fprintf(&b, "At most $%s a day, whatever anybody sends (%s): %s.\n", thousands(w.Ceiling.Day), asked, fits(*w.Ceiling))
	err = printCeiling(&b, *w.Ceiling)
	b.WriteString(ceilingLines(*w.Ceiling))
	return b.String(), err
}

// printEstimate says what the load costs that is expected.
func printEstimate(w io.Writer, d cost.Deployment, p cost.Prices) {
	said := func(d cost.Deployment) string {
		e := d.Expected(p)
		month := func(perSecond float64) string { return "$" + thousands(perSecond*secondsPerMonth) }
		return fmt.Sprintf("about %s a month: documents %s, Increment %s by the %s, Rollup %s by the %s",
			about(e.Total()*secondsPerMonth), month(e.Documents), month(e.Increment), d.IncrementBilling, month(e.Rollup), d.RollupBilling)
	}
	fmt.Fprintf(w, "At %s, on paper, by list prices of %s (Firestore: %s):\n  %s\n", of(d.Load), p.Location, p.Source, said(d))
	if other := p.In(p.Edition.Other()); d.Expected(other).Total() < muchLess*d.Expected(p).Total() {
		fmt.Fprintf(w, "Less in a database of the %s edition, about %s a month; an edition never changes.\n", named(other.Edition), about(d.Expected(other).Total()*secondsPerMonth))
	}
	if better := d.Better(p); better.Expected(p).Total() < 0.9*d.Expected(p).Total() {
		fmt.Fprintf(w, "Less with --increment-billing %s --rollup-billing %s:\n  %s\n", better.IncrementBilling, better.RollupBilling, said(better))
	}
}

// printWorst says what a flood costs where nothing bounds it.
func printWorst(w io.Writer, d cost.Deployment, p cost.Prices) {
	day := func(perSecond float64) string { return "$" + thousands(perSecond*secondsPerDay) }
	worst := d.Worst(p)
	counters := cost.FloodCounters
	if d.OfUsers {
		counters = cost.FloodCountersOfUser
	}
	fmt.Fprintf(w, "Nothing bounds what a flood costs: some %s a day, where requests of POST / with %d counters each keep all instances busy,\n"+
		"  %d of Increment and %d of Rollup: %s writes a second, measured. Documents %s, Increment %s, Rollup %s, answers and events %s.\n",
		about(worst.Total()*secondsPerDay), counters, d.Increment.Max, d.Rollup.Max, thousandsOf(worst.Rate), day(worst.Documents), day(worst.Increment), day(worst.Rollup), day(worst.Network))
	fmt.Fprintf(w, "  --most-per-day %s bounds it. RATE_LIMIT slows each caller down, and --budget AMOUNT tells you: it stops nothing.\n", deployment.UsualCeiling)
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
