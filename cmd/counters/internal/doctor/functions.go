package doctor

import (
	"fmt"
	"strings"
	"time"
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

// pick finds the three functions among all of the project: by their names, and where no prefix is asked for, otherwise
// by their entry points, as long as just one has it.
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
	}
}

func (d *Deployment) where() string {
	if d.Target.Location != "" {
		return " in " + strings.Join(regionsNear(d.Target.Location), " or ")
	}
	return " in any region"
}

func (f *findings) state(d *Deployment, function *Function) {
	seen := "it is " + function.State
	for _, message := range function.Messages {
		seen += "; " + message
	}
	switch function.State {
	case "ACTIVE":
	case "DEPLOYING":
		f.add("function-deploying", function.Name, seen,
			line("gcloud", "functions", "describe", function.Name, "--gen2", "--project="+d.Target.Project, "--region="+function.Region, "--format=value(state)"))
	default:
		f.add("function-not-active", function.Name, seen, d.redeploy(function))
	}
}

// newestRuntime is the one that the project is built with.
const newestRuntime = "go126"

func (f *findings) runtime(d *Deployment, function *Function, now time.Time) {
	end, ok := d.Runtimes[function.Runtime]
	fix := d.redeploy(function, "--runtime="+newestRuntime)
	switch past := func(day time.Time) bool { return !day.IsZero() && !now.Before(day) }; {
	case !ok:
	case past(end.Decommissioned):
		f.add("runtime-ended", function.Name, fmt.Sprintf("%s was decommissioned on %s", function.Runtime, end.Decommissioned.Format(time.DateOnly)), fix)
	case past(end.Deprecated):
		f.add("runtime-deprecated", function.Name, fmt.Sprintf("%s has been deprecated since %s", function.Runtime, end.Deprecated.Format(time.DateOnly)), fix)
	}
}

func (f *findings) concurrency(d *Deployment, function *Function, entryPoint string) {
	want := map[string]int{"Increment": 500, "Rollup": 1000, "Reconcile": 100}[entryPoint]
	seen := fmt.Sprintf("an instance takes %d requests at a time, and should take %d", max(function.Concurrency, 1), want)
	fix := d.redeploy(function, fmt.Sprintf("--concurrency=%d", want), "--cpu=1")
	switch {
	case entryPoint == "Reconcile": // is called once in a while, and shares nothing between requests
	case function.Concurrency <= 1:
		f.add("concurrency-one", function.Name, seen, fix)
	case function.Concurrency < 100:
		f.add("concurrency-low", function.Name, seen, fix)
	}
}
