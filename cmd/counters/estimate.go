package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
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
