package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/pflag"

	"github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/cmd/internal/terminal"
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

// What README.md, counters cost and the plan of counters deploy price where nobody says what there is to count.
const (
	usualPerDay   = 10_000
	usualCounters = 1_000
)

// loadFlags say how much is to be counted.
type loadFlags struct {
	rate, perDay float64
	counters     int
	flags        *pflag.FlagSet
}

func (f *loadFlags) add(flags *pflag.FlagSet) {
	f.flags = flags
	flags.Float64Var(&f.perDay, "per-day", usualPerDay, "increments a day, evenly spread, of all counters together")
	flags.Float64Var(&f.rate, "rate", 0, "increments a second, instead of --per-day")
	flags.IntVar(&f.counters, "counters", usualCounters, "counters that share the increments evenly; 1 by default with --rate or --per-day")
}

// set says what is to be counted.
func (f *loadFlags) set(l *cost.Load) error {
	byRate, byDay := f.flags.Changed("rate"), f.flags.Changed("per-day")
	l.Rate, l.Counters = f.rate, f.counters
	if (byRate || byDay) && !f.flags.Changed("counters") {
		l.Counters = 1
	}
	switch {
	case byRate && byDay:
		return badUsage("--rate or --per-day: want one of them")
	case byRate:
		return nil
	}
	if l.Rate = f.perDay / secondsPerDay; !(f.perDay > 0 && l.Rate <= 1e6) {
		return badUsage("--per-day %v: want increments a day, above 0 and up to %.0f", f.perDay, 1e6*secondsPerDay)
	}
	return nil
}

// of says a load, such as "10,000 increments a day of 1,000 counters".
func of(l cost.Load) string {
	many := terminal.Count(math.Round(100*l.Rate)/100, "increment") + " a second"
	if perDay := math.Round(l.Rate * secondsPerDay); l.Rate < 1 || l.Rate != math.Trunc(l.Rate) {
		many = thousandsOf(perDay) + " increments a day"
	} else if l.Rate >= 1000 {
		many = thousandsOf(l.Rate) + " increments a second"
	}
	if l.Counters == 1 {
		return many + " of one counter"
	}
	return many + " of " + thousandsOf(float64(l.Counters)) + " counters"
}

// about is an amount in two digits: nobody knows more on paper.
func about(dollars float64) string {
	if dollars <= 0 {
		return "$0"
	}
	unit := math.Pow(10, math.Floor(math.Log10(dollars))-1)
	rounded := math.Round(dollars/unit) * unit
	if rounded < 9.95 {
		return fmt.Sprintf("$%.2f", rounded)
	}
	return "$" + strings.TrimSuffix(thousands(rounded), ".00")
}
