package deployment

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// UsualCeiling is what a day may cost where the internet is let in, unless something else is asked for: a few hundred
// times what a small app's day costs.
const UsualCeiling = "10USD"

// noCeiling asks for none.
const noCeiling = "none"

// What has no ceiling has these, unless it asks for others.
const (
	UsualMost, UsualRollupMost = 10, 2
	usualBilling               = string(cost.ByRequest)
)

// isCeiling matches what a day may cost.
var isCeiling = regexp.MustCompile(`^(none|[0-9]{1,6}([.][0-9]{1,2})?(USD)?)$`)

// LabelOfCeiling is the label of the functions that says what a day may cost, or none.
const LabelOfCeiling = "counters-most-per-day"

// CeilingLabel is how a label says a ceiling, which may have no dot.
func CeilingLabel(ceiling string) string {
	return strings.ReplaceAll(strings.ToLower(ceiling), ".", "_")
}

// CeilingOfLabel are the US dollars that such a label says; false for none.
func CeilingOfLabel(label string) (dollars float64, ok bool) {
	dollars, err := strconv.ParseFloat(strings.TrimSuffix(strings.ReplaceAll(label, "_", "."), "usd"), 64)
	return dollars, err == nil && dollars > 0
}

// Asked reports whether somebody asked for the ceiling, or for none.
func (w *Wanted) Asked() bool { return w.asked }

// Usual is what a deployment in a location is that asks for nothing else.
func Usual(location string) *Wanted {
	var w Wanted
	w.Flags(pflag.NewFlagSet("", pflag.ContinueOnError)) // which fill in their defaults
	w.Project, w.Location = "a-project", location
	return &w
}

// open reports whether the internet is let in.
func (w *Wanted) open() bool { return w.Public || w.NoCheck }

// checkCeiling says what is wrong with the ceiling that is asked for, and which one holds where none is.
func (w *Wanted) checkCeiling() error {
	if w.MostPerDay != "" && !isCeiling.MatchString(w.MostPerDay) {
		return fmt.Errorf("--most-per-day %s: want US dollars a day, such as 5USD, or none", w.MostPerDay)
	}
	for _, pair := range w.Set {
		if strings.HasPrefix(pair, "CEILING=") && w.MostPerDay != noCeiling {
			return fmt.Errorf("--set %s: want --most-per-day instead, which works it out for each function; or --most-per-day none with it", pair)
		}
	}
	w.asked = w.MostPerDay != ""
	if !w.asked {
		w.MostPerDay = noCeiling
		if w.open() {
			w.MostPerDay = UsualCeiling
		}
	}
	if !strings.HasSuffix(w.MostPerDay, "USD") && w.MostPerDay != noCeiling {
		w.MostPerDay += "USD"
	}
	return nil
}

// Prices are the list prices for a database of that edition, and for its functions: where one isn't known, the dearest.
func (w *Wanted) Prices(edition cost.Edition) cost.Prices {
	p, err := cost.PricesOf(w.Location)
	if err != nil {
		p = cost.Dearest(w.Location)
	}
	p = p.In(edition)
	var known bool
	if p.Run, known = cost.RunIn(w.Region); !known {
		p.Run = cost.Dearest(w.Location).Run
	}
	return p
}

// Bound works out what the ceiling leaves to the functions, and fills in what nobody asked for: instances, and ways to
// pay. Error: the ceiling can't be kept.
func (w *Wanted) Bound(edition cost.Edition) error {
	w.Ceiling = nil
	dollars, err := strconv.ParseFloat(strings.TrimSuffix(w.MostPerDay, "USD"), 64)
	if err != nil { // none
		if w.Most == 0 {
			w.Most = max(UsualMost, w.Least)
		}
		if w.RollupMost == 0 {
			w.RollupMost = max(UsualRollupMost, w.RollupLeast)
		}
		for _, way := range []*string{&w.Billing, &w.RollupBilling} {
			if *way == "" {
				*way = usualBilling
			}
		}
		return nil
	}
	d := cost.Deployment{
		Increment: cost.Instances{Min: w.Least, Max: w.Most}, Rollup: cost.Instances{Min: w.RollupLeast, Max: w.RollupMost},
		IncrementBilling: cost.Billing(w.Billing), RollupBilling: cost.Billing(w.RollupBilling),
		Walks: cost.Walks{Schedule: w.Schedule, Seconds: float64(w.Settings.ReconcileTimeout)},
	}
	if d.Size, err = cost.SizeOf("1", w.Memory); err != nil {
		return err
	}
	if d.Flushes, err = strconv.Atoi(w.setting("ROLLUP_FLUSHES")); err != nil {
		return err
	}
	c, err := d.Within(w.Prices(edition), dollars)
	if err != nil {
		return fmt.Errorf("--most-per-day %s: %w, by list prices of %s, with an instance each of Increment and Rollup all day; or none", w.MostPerDay, err, w.Location)
	}
	w.Ceiling = &c
	w.Most, w.RollupMost, w.Billing, w.RollupBilling = c.Increment.Instances, c.Rollup.Instances, string(c.Increment.Billing), string(c.Rollup.Billing)
	return nil
}

// bounded is what is wanted, with what follows from the ceiling. Who was let in before stays, unless somebody takes
// that back by hand, and so does the ceiling that this has.
func (b *Builder) bounded() (Wanted, error) {
	w := *b.Wanted
	letIn := slices.Contains(Members(b.Look("callers")), "allUsers") || b.Look("service").Text("invokerIamDisabled") == "true"
	if letIn && !w.asked && !w.all {
		w.MostPerDay = UsualCeiling
	}
	return w, w.Bound(b.edition())
}

// environment is what a function is told: the settings, and what the ceiling leaves to it.
func (w *Wanted) environment(entryPoint string) []string {
	var told []string
	for _, pair := range w.Settings.Environment {
		if !strings.HasPrefix(pair, "CEILING=") || w.Ceiling == nil {
			told = append(told, pair)
		}
	}
	if w.Ceiling != nil {
		share := map[string]cost.Share{"Increment": w.Ceiling.Increment, "Rollup": w.Ceiling.Rollup, "Reconcile": w.Ceiling.Reconcile}[entryPoint]
		told = append(told, "CEILING="+share.Units.String())
	}
	return told
}
