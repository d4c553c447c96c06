package doctor

import (
	"cmp"
	"fmt"
	"math"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/internal/settings"
)

// dearer is from how much of the other way's price on a function is said to be billed the wrong way.
const dearer = 1 / 0.7

// cents are too few to speak of, in US dollars a week. What is free each month covers them.
const cents = 0.25

// billing compares what each function has had in a week by the two ways to pay for it.
func (f *findings) billing(d *Deployment) {
	for _, function := range d.Functions.all() {
		run, known := cost.RunIn(function.Region)
		size, err := function.size()
		if !known || err != nil || function.Billing == "" || !function.Week.tells() {
			continue
		}
		used := function.Week.used(function.has("minInstanceCount"))
		byRequest, byInstance := run.Total(used, size, cost.ByRequest), run.Total(used, size.Fits(), cost.ByInstance)
		now, other, way := byRequest, byInstance, cost.ByInstance
		if function.Billing == cost.ByInstance {
			now, other, way = byInstance, byRequest, cost.ByRequest
		}
		if now < other*dearer || now-other < cents || way == cost.ByRequest && d.bounded() {
			continue // a ceiling that is kept by the instance can't be kept otherwise
		}
		w := d.same()
		switch function.EntryPoint {
		case "Increment":
			w.Billing = string(way)
		case "Rollup":
			w.RollupBilling = string(way)
		}
		if way == cost.ByInstance && size.GiB < cost.Deployed.GiB {
			w.Memory = "512Mi" // Cloud Run refuses less
		}
		fix := asking(w)
		if function.EntryPoint == "Reconcile" { // whose way deploy leaves as it is
			fix = lines(fix, line("gcloud", "run", "services", "update", function.service(), "--project="+d.Target.Project, "--region="+function.Region,
				map[cost.Billing]string{cost.ByRequest: "--cpu-throttling", cost.ByInstance: "--no-cpu-throttling"}[way]))
		}
		f.add("billing-dearer", function.Name, fmt.Sprintf("the last seven days, with %.0f requests, cost $%.2f by the %s, and $%.2f by the %s",
			used.Requests, now, function.Billing, other, way), fix)
	}
}

// tells reports whether a week was read, and wholly: what is not written down is not nothing.
func (w *Week) tells() bool {
	return w != nil && w.There > 0 && (w.Billed > 0 && w.InFlight > 0 || w.Requests == 0)
}

// used is what is billed of a week. What an instance has had in flight is not known: where it was
// billed by the request, it is what was billed, and never more than all requests took, each rounded
// up.
func (w *Week) used(least int) cost.Function {
	kept := float64(least) * week.Seconds()
	there := max(w.There.Seconds(), kept)
	busy := min(w.Billed.Seconds(), w.InFlight.Seconds()+w.Requests*cost.BillingStep.Seconds())
	return cost.Function{Requests: w.Requests, Busy: busy, There: max(there, busy), Kept: max(0, kept-busy)}
}

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

// Budget is what the project's billing account is told of its costs.
type Budget struct {
	Off     bool   // the project has no billing
	Unasked string // the API that is turned off, without which a deployment has no budget
	Account string
	// of the account's budgets, those that are for this project or for all of the account's; nil when
	// they could not be read
	Names []string
}

func (f *findings) budget(d *Deployment) {
	b, w := d.Budget, d.same()
	w.Budget = "100"
	switch {
	case b == nil || len(d.Functions.all()) == 0:
	case b.Off:
		f.add("billing-off", d.Target.Project, "it has no billing account", line("gcloud", "billing", "projects", "link", d.Target.Project)+
			` --billing-account="$(gcloud billing accounts list --filter=open=true --format='value(name.basename())' | head -1)"`)
	case b.Unasked != "":
		f.add("budget-missing", d.Target.Project, "counters deploy has made none: "+b.Unasked+" is turned off", asking(w))
	case b.Names != nil && len(b.Names) == 0:
		f.add("budget-missing", d.Target.Project, "no budget of "+b.Account+" is for it", asking(w))
	}
}
