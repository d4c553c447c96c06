package doctor

import (
	"cmp"
	"fmt"
	"math"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/internal/settings"
)

// ceiling looks at whether a day costs no more than the deployment was made for.
func (f *findings) ceiling(d *Deployment) {
	if d.Functions == nil || d.Functions.Increment == nil {
		return
	}
	increment := d.Functions.Increment
	dollars := d.ceiling()
	if dollars == 0 {
		if increment.label(resources.LabelOfCeiling) == "" && d.open() && increment.Env["CEILING"] == "" {
			f.add("ceiling-missing", increment.Name, "anybody on the internet can call it, and its CEILING is empty", d.below(resources.UsualCeiling))
		}
		return
	}
	day, known := d.day()
	if !known || day <= 1.01*dollars { // a cent is a matter of rounding
		return
	}
	comes := "a day may cost $" + fmt.Sprintf("%.2f", day)
	if math.IsInf(day, 1) {
		comes = "nothing bounds what a day costs"
	}
	f.add("ceiling-exceeded", increment.Name, fmt.Sprintf("it was deployed for $%.2f a day; as CEILING, instances and billing of the functions are now, %s", dollars, comes), d.below(fmt.Sprintf("%vUSD", dollars)))
}

// ceiling is what a day may cost by what the deployment was made for, in US dollars; 0 for one that has no ceiling.
func (d *Deployment) ceiling() float64 {
	if d.Functions == nil || d.Functions.Increment == nil {
		return 0
	}
	dollars, _ := resources.CeilingOfLabel(d.Functions.Increment.label(resources.LabelOfCeiling))
	return dollars
}

// bounded reports whether the deployment was made below a ceiling.
func (d *Deployment) bounded() bool { return d.ceiling() > 0 }

// open reports whether the whole internet may call Increment.
func (d *Deployment) open() bool {
	increment := d.Functions.Increment
	return increment.Open || increment.Invokers.has(invokerRoles, is(everybody...), always)
}

// day is what a day may cost, by what the functions may spend; false where that can't be known.
func (d *Deployment) day() (dollars float64, known bool) {
	f := d.Functions
	if f.Rollup == nil || f.Reconcile == nil {
		return 0, false
	}
	var units [3]settings.Ceiling
	for i, function := range []*Function{f.Increment, f.Rollup, f.Reconcile} {
		s, err := parse(function.Env)
		if err != nil {
			return 0, false
		}
		units[i] = s.Ceiling
	}
	size, err := f.Increment.size()
	if err != nil || f.Increment.Billing == "" || f.Rollup.Billing == "" {
		return 0, false
	}
	of := cost.Deployment{
		Increment: cost.Instances{Max: f.Increment.has("maxInstanceCount")}, Rollup: cost.Instances{Max: f.Rollup.has("maxInstanceCount")},
		IncrementBilling: f.Increment.Billing, RollupBilling: f.Rollup.Billing, Size: size, Walks: cost.Walks{Schedule: "7 * * * *", Seconds: float64(f.Reconcile.has("timeoutSeconds"))},
	}
	of.Walks.Schedule = cmp.Or(d.reconcileJob().Text("schedule"), of.Walks.Schedule)
	edition := cost.Standard
	if d.enterprise() {
		edition = cost.Enterprise
	}
	w := resources.Wanted{Location: d.location(), Region: d.region()}
	return of.Bounded(w.Prices(edition), units[0], units[1], units[2]).Total(), true
}
