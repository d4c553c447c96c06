package doctor

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
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
	seen := strings.Join(append([]string{"it is " + function.State}, function.Messages...), "; ")
	switch function.State {
	case "ACTIVE":
	case "DEPLOYING":
		f.add("function-deploying", function.Name, seen,
			line("gcloud", "functions", "describe", function.Name, "--gen2", "--project="+d.Target.Project, "--region="+function.Region, "--format=value(state)"))
	default:
		f.add("function-not-active", function.Name, seen, d.redeploy(function))
	}
}

// goRuntime matches the names of Go's runtimes, which sort by age.
var goRuntime = regexp.MustCompile(`^go[0-9]{3}$`)

// newest is the newest of Go's runtimes that the platform supports; empty when it has none.
func (d *Deployment) newest(now time.Time) (name string) {
	for runtime, end := range d.Runtimes {
		if goRuntime.MatchString(runtime) && end.Stable && !past(end.Deprecated, now) {
			name = max(name, runtime)
		}
	}
	return name
}

// past reports whether a day has come. One that isn't known yet has not.
func past(day, now time.Time) bool { return !day.IsZero() && !now.Before(day) }

func (f *findings) runtime(d *Deployment, function *Function, now time.Time) {
	end, ok := d.Runtimes[function.Runtime]
	newest := d.newest(now)
	if !ok || newest == "" {
		return
	}
	fix := d.redeploy(function, "--runtime="+newest)
	switch {
	case past(end.Decommissioned, now):
		f.add("runtime-ended", function.Name, fmt.Sprintf("%s was decommissioned on %s", function.Runtime, end.Decommissioned.Format(time.DateOnly)), fix)
	case past(end.Deprecated, now):
		f.add("runtime-deprecated", function.Name, fmt.Sprintf("%s has been deprecated since %s", function.Runtime, end.Deprecated.Format(time.DateOnly)), fix)
	}
}

func (f *findings) concurrency(d *Deployment, function *Function, entryPoint string) {
	want := map[string]int{"Increment": 500, "Rollup": 1000, "Reconcile": 100}[entryPoint]
	seen := fmt.Sprintf("an instance takes %s at a time, and should take %d", count(int(max(function.Concurrency, 1)), "request"), want)
	// gcloud takes the CPU together with the memory only.
	fix := d.redeploy(function, fmt.Sprintf("--concurrency=%d", want), "--cpu=1", "--memory="+cmp.Or(function.Memory, "512Mi"))
	switch {
	case entryPoint == "Reconcile": // is called once in a while, and shares nothing between requests
	case function.Concurrency <= 1:
		f.add("concurrency-one", function.Name, seen, fix)
	case function.Concurrency < 100:
		f.add("concurrency-low", function.Name, seen, fix)
	}
}

// timeout looks at how long Cloud Run lets a function work, which is no shorter than the function
// takes the time for.
func (f *findings) timeout(d *Deployment, function *Function, entryPoint string) {
	s, err := parse(function.Env)
	if err != nil {
		return
	}
	least, want := s.RequestTimeout, 75*time.Second
	switch entryPoint {
	case "Rollup":
		if want = time.Minute; len(d.Target.counted()) > 0 {
			least = max(least, min(s.RecountMax+15*time.Second, 55*time.Second)) // the event waits until it is worth counting
		}
	case "Reconcile":
		least = s.ReconcileDeadline
		want = least + time.Minute
	}
	if has := time.Duration(function.TimeoutSeconds) * time.Second; has < least {
		f.add("timeout-short", function.Name, fmt.Sprintf("Cloud Run ends what takes %s, and it may take %s", has, least), d.redeploy(function, fmt.Sprintf("--timeout=%.0fs", want.Seconds())))
	}
}

// ingress looks at where a function can be reached from. Eventarc's and Scheduler's calls within
// the project are internal.
func (f *findings) ingress(d *Deployment, function *Function, entryPoint string) {
	if entryPoint != "Increment" && function.Ingress == "ALLOW_ALL" {
		f.add("function-reachable", function.Name, "it takes traffic from the internet", d.redeploy(function, "--ingress-settings=internal-only"))
	}
	if origins := function.Env["ALLOWED_ORIGINS"]; entryPoint == "Increment" && function.Ingress == "ALLOW_INTERNAL_ONLY" && origins != "" {
		f.add("increment-hidden", function.Name, "it takes internal traffic alone, and ALLOWED_ORIGINS is "+origins, d.redeploy(function, "--ingress-settings=all"))
	}
}

// traffic looks at whether what was deployed last answers.
func (f *findings) traffic(d *Deployment, function *Function) {
	if function.Pinned != "" {
		f.add("traffic-pinned", function.Name, "its requests go to revision "+function.Pinned,
			line("gcloud", "run", "services", "update-traffic", function.service(), "--project="+d.Target.Project, "--region="+function.Region, "--to-latest"))
	}
}
