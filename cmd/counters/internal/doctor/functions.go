package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/terminal"
)

// entryPoints are the functions of a deployment, by their names in the source.
var entryPoints = []string{"Increment", "Rollup", "Reconcile"}

// of is the function of an entry point.
func (f *Functions) of(entryPoint string) **Function {
	switch entryPoint {
	case "Increment":
		return &f.Increment
	case "Rollup":
		return &f.Rollup
	}
	return &f.Reconcile
}

// nameOf is what a function of the deployment is called.
func (t Target) nameOf(entryPoint string) string { return t.Prefix + "-" + strings.ToLower(entryPoint) }

// pick finds the three functions among all of the project: by their names, and where no prefix is
// asked for, otherwise by their entry points, as long as just one has it.
func pick(t Target, all []*Function) *Functions {
	var picked Functions
	for _, entryPoint := range entryPoints {
		var byEntryPoint []*Function
		slot := picked.of(entryPoint)
		for _, f := range all {
			if f.Name == t.resolve(nil).nameOf(entryPoint) {
				*slot = f
			}
			if f.EntryPoint == entryPoint {
				byEntryPoint = append(byEntryPoint, f)
			}
		}
		if *slot == nil && t.Prefix == "" && len(byEntryPoint) == 1 {
			*slot = byEntryPoint[0]
		}
	}
	return &picked
}

func (f *findings) functions(d *Deployment, now time.Time) {
	if d.Functions == nil {
		return
	}
	for _, entryPoint := range entryPoints {
		function := *d.Functions.of(entryPoint)
		if function == nil {
			if len(d.Functions.Unreachable) == 0 {
				f.add("function-missing", entryPoint, "there is no "+d.Target.nameOf(entryPoint)+d.where(), d.deploy())
			}
			continue
		}
		f.state(d, function)
		f.runtime(d, function, now)
		f.concurrency(d, function, entryPoint)
		f.timeout(d, function, entryPoint)
		f.ingress(d, function, entryPoint)
		f.traffic(d, function)
	}
}

func (d *Deployment) where() string {
	if d.Target.Location != "" {
		return " in " + strings.Join(resources.Near(d.Target.Location), " or ")
	}
	return " in any region"
}

func (f *findings) state(d *Deployment, function *Function) {
	state := function.Text("state")
	seen := "it is " + state
	for _, message := range resources.Objects(function.Object["stateMessages"]) {
		seen += "; " + message.Text("message")
	}
	switch state {
	case "ACTIVE":
	case "DEPLOYING":
		f.add("function-deploying", function.Name, seen,
			line("gcloud", "functions", "describe", function.Name, "--gen2", "--project="+d.Target.Project, "--region="+function.Region, "--format=value(state)"))
	default:
		f.add("function-not-active", function.Name, seen, d.deploy())
	}
}

// past is the day that a runtime says in a path, once it has come; empty before, and where the day isn't known yet.
func past(runtime resources.Object, path string, now time.Time) string {
	day := time.Date(int(number(runtime, path+".year")), time.Month(number(runtime, path+".month")), int(number(runtime, path+".day")), 0, 0, 0, 0, time.UTC)
	if number(runtime, path+".year") == 0 || now.Before(day) {
		return ""
	}
	return day.Format(time.DateOnly)
}

func (f *findings) runtime(d *Deployment, function *Function, now time.Time) {
	name := function.Text("buildConfig.runtime")
	runtimes := resources.Objects(d.Runtimes["runtimes"])
	i := slices.IndexFunc(runtimes, func(runtime resources.Object) bool {
		return runtime.Text("name") == name && runtime.Text("environment") != "GEN_1"
	})
	if i < 0 {
		return
	}
	if day := past(runtimes[i], "decommissionDate", now); day != "" {
		f.add("runtime-ended", function.Name, name+" was decommissioned on "+day, d.deploy())
	} else if day := past(runtimes[i], "deprecationDate", now); day != "" {
		f.add("runtime-deprecated", function.Name, name+" has been deprecated since "+day, d.deploy())
	}
}

func (f *findings) concurrency(d *Deployment, function *Function, entryPoint string) {
	want, has := map[string]int{"Increment": d.same().Concurrency, "Rollup": 1000}[entryPoint], function.has("maxInstanceRequestConcurrency")
	seen := fmt.Sprintf("an instance takes %s at a time, and should take %d", terminal.Count(max(has, 1), "request"), want)
	switch {
	case entryPoint == "Reconcile": // is called once in a while, and shares nothing between requests
	case has <= 1:
		f.add("concurrency-one", function.Name, seen, d.deploy())
	case has < 100:
		f.add("concurrency-low", function.Name, seen, d.deploy())
	}
}

// timeout looks at how long Cloud Run lets a function work, which is no shorter than the function
// takes the time for.
func (f *findings) timeout(d *Deployment, function *Function, entryPoint string) {
	s, err := parse(function.Env)
	if err != nil {
		return
	}
	least := s.RequestTimeout
	switch entryPoint {
	case "Rollup":
		if len(d.layout().Counted) > 0 {
			least = max(least, min(s.RecountMax+15*time.Second, 55*time.Second)) // the event waits until it is worth counting
		}
	case "Reconcile":
		least = s.ReconcileDeadline
	}
	if has := time.Duration(function.has("timeoutSeconds")) * time.Second; has < least {
		f.add("timeout-short", function.Name, fmt.Sprintf("Cloud Run ends what takes %s, and it may take %s", has, least), d.deploy())
	}
}

// ingress looks at where a function can be reached from. Eventarc's and Scheduler's calls within
// the project are internal.
func (f *findings) ingress(d *Deployment, function *Function, entryPoint string) {
	from := function.Text("serviceConfig.ingressSettings")
	if entryPoint != "Increment" && from == "ALLOW_ALL" {
		f.add("function-reachable", function.Name, "it takes traffic from the internet", d.deploy())
	}
	if origins := function.Env["ALLOWED_ORIGINS"]; entryPoint == "Increment" && from == "ALLOW_INTERNAL_ONLY" && origins != "" {
		w := d.same()
		w.Ingress = "all"
		f.add("increment-hidden", function.Name, "it takes internal traffic alone, and ALLOWED_ORIGINS is "+origins, asking(w))
	}
}

// traffic looks at whether what was deployed last answers.
func (f *findings) traffic(d *Deployment, function *Function) {
	if function.Pinned != "" {
		f.add("traffic-pinned", function.Name, "its requests go to revision "+function.Pinned,
			line("gcloud", "run", "services", "update-traffic", function.service(), "--project="+d.Target.Project, "--region="+function.Region, "--to-latest"))
	}
}
