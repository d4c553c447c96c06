package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/terminal"
)

// nameOf is what a function of the deployment is called.
func (t Target) nameOf(entryPoint string) string { return t.Prefix + "-" + strings.ToLower(entryPoint) }

// pick finds the three functions among all of the project: by their names, and where no prefix is
// asked for, otherwise by their entry points, as long as just one has it.
func pick(t Target, all []*Function) *Functions {
	one := func(entryPoint string) (picked *Function) {
		var byEntryPoint []*Function
		for _, f := range all {
			if f.Name == t.resolve(nil).nameOf(entryPoint) {
				picked = f
			}
			if f.EntryPoint == entryPoint {
				byEntryPoint = append(byEntryPoint, f)
			}
		}
		if picked == nil && t.Prefix == "" && len(byEntryPoint) == 1 {
			return byEntryPoint[0]
		}
		return picked
	}
	return &Functions{Increment: one("Increment"), Rollup: one("Rollup"), Reconcile: one("Reconcile")}
}

func (f *findings) functions(d *Deployment, now time.Time) {
	if d.Functions == nil {
		return
	}
	where := "any region"
	if d.Target.Location != "" {
		where = strings.Join(resources.Near(d.Target.Location), " or ")
	}
	for _, is := range []struct {
		entryPoint string
		*Function
	}{{"Increment", d.Functions.Increment}, {"Rollup", d.Functions.Rollup}, {"Reconcile", d.Functions.Reconcile}} {
		if is.Function == nil {
			if len(d.Functions.Unreachable) == 0 {
				f.add("function-missing", is.entryPoint, "there is no "+d.Target.nameOf(is.entryPoint)+" in "+where, d.deploy())
			}
			continue
		}
		f.state(d, is.Function)
		f.runtime(d, is.Function, now)
		f.serving(d, is.Function, is.entryPoint)
	}
}

// state looks at whether what was deployed last answers.
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
	if function.Pinned != "" {
		f.add("traffic-pinned", function.Name, "its requests go to revision "+function.Pinned,
			line("gcloud", "run", "services", "update-traffic", function.service(), "--project="+d.Target.Project, "--region="+function.Region, "--to-latest"))
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

// serving looks at how many requests an instance takes, for how long Cloud Run lets it work on one, and where it can be
// reached from. Eventarc's and Scheduler's calls within the project are internal.
func (f *findings) serving(d *Deployment, function *Function, entryPoint string) {
	want, has := map[string]int{"Increment": d.same().Concurrency, "Rollup": 1000}[entryPoint], function.has("maxInstanceRequestConcurrency")
	seen := fmt.Sprintf("an instance takes %s at a time, and should take %d", terminal.Count(max(has, 1), "request"), want)
	switch {
	case entryPoint == "Reconcile": // is called once in a while, and shares nothing between requests
	case has <= 1:
		f.add("concurrency-one", function.Name, seen, d.deploy())
	case has < 100:
		f.add("concurrency-low", function.Name, seen, d.deploy())
	}
	if s, err := parse(function.Env); err == nil {
		least := s.RequestTimeout
		if entryPoint == "Rollup" && len(d.layout().Counted) > 0 {
			least = max(least, min(s.RecountMax+15*time.Second, 55*time.Second)) // the event waits until it is worth counting
		} else if entryPoint == "Reconcile" {
			least = s.ReconcileDeadline
		}
		if has := time.Duration(function.has("timeoutSeconds")) * time.Second; has < least {
			f.add("timeout-short", function.Name, fmt.Sprintf("Cloud Run ends what takes %s, and it may take %s", has, least), d.deploy())
		}
	}
	from, origins := function.Text("serviceConfig.ingressSettings"), function.Env["ALLOWED_ORIGINS"]
	switch {
	case entryPoint != "Increment" && from == "ALLOW_ALL":
		f.add("function-reachable", function.Name, "it takes traffic from the internet", d.deploy())
	case entryPoint == "Increment" && from == "ALLOW_INTERNAL_ONLY" && origins != "":
		w := d.same()
		w.Ingress = "all"
		f.add("increment-hidden", function.Name, "it takes internal traffic alone, and ALLOWED_ORIGINS is "+origins, asking(w))
	}
}

// repositoryName takes apart where images go.
var repositoryName = regexp.MustCompile(`^projects/([^/]+)/locations/([^/]+)/repositories/([^/]+)$`)

// repository looks at where the functions' images go: each command that deploys one builds it.
func (f *findings) repository(d *Deployment) {
	for _, function := range d.Functions.all() {
		if parts := repositoryName.FindStringSubmatch(function.Text(ofImages)); parts != nil && d.NoImages {
			fix := d.made("repository", "the images of "+d.Target.Prefix+"-build")
			if parts[3] != d.Target.Prefix+"-functions" { // which is not the deployment's own
				fix = lines(line("gcloud", "artifacts", "repositories", "create", parts[3], "--project="+parts[1], "--location="+parts[2], "--repository-format=docker"), fix)
			}
			f.add("repository-missing", parts[3], fmt.Sprintf("there is no repository %s for the image of %s", function.Text(ofImages), function.Name), fix)
			return
		}
	}
}
