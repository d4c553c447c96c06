package doctor

import (
	"fmt"

	"github.com/firestore-counters/counters/cmd/internal/cost"
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
