package doctor

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
)

// What a job calls, and whose token it sends; empty for one that calls no HTTP target, or sends none.
const (
	uriOfJob     = "httpTarget.uri"
	accountOfJob = "httpTarget.oidcToken.serviceAccountEmail"
)

// reconcileJob is the job that calls Reconcile, or is meant to: the one with its name, or else with its address. It is
// nil when there is none, or none could be read.
func (d *Deployment) reconcileJob() resources.Object {
	if d.Jobs == nil || d.Functions == nil || d.Functions.Reconcile == nil {
		return nil
	}
	jobs := resources.Objects(d.Jobs["jobs"])
	i := slices.IndexFunc(jobs, func(job resources.Object) bool { return path.Base(job.Text("name")) == d.Target.nameOf("Reconcile") })
	if i < 0 {
		i = slices.IndexFunc(jobs, func(job resources.Object) bool { return d.Functions.Reconcile.answersAt(job.Text(uriOfJob)) })
	}
	if i < 0 {
		return nil
	}
	return jobs[i]
}

// answersAt reports whether an address is one of the function's, or below it.
func (f *Function) answersAt(uri string) bool {
	return slices.ContainsFunc([]string{f.Text("serviceConfig.uri"), f.Text("url")}, func(url string) bool {
		return url != "" && (uri == url || strings.HasPrefix(uri, strings.TrimSuffix(url, "/")+"/") || strings.HasPrefix(uri, url+"?"))
	})
}

func (f *findings) scheduler(d *Deployment) {
	if d.Jobs == nil || d.Functions == nil || d.Functions.Reconcile == nil {
		return
	}
	reconcile := d.Functions.Reconcile
	job := d.reconcileJob()
	if job == nil {
		f.add("scheduler-job-missing", reconcile.Name, "no job in "+d.region()+" calls it", d.schedule(""))
		return
	}
	name, uri, account, method := path.Base(job.Text("name")), job.Text(uriOfJob), job.Text(accountOfJob), job.Text("httpTarget.httpMethod")
	update := d.schedule(name)
	if state := job.Text("state"); state != "ENABLED" {
		f.add("scheduler-job-paused", name, "it is "+state, d.job("resume", name))
	}
	if !reconcile.answersAt(uri) {
		f.add("scheduler-job-target", name, fmt.Sprintf("it calls %q", uri), update)
	} else if audience := cmp.Or(job.Text("httpTarget.oidcToken.audience"), uri); account == "" {
		f.add("scheduler-job-token", name, "it sends no OIDC token", update)
	} else if !reconcile.answersAt(audience) {
		f.add("scheduler-job-token", name, "its token is for "+audience, update)
	}
	if uri != "" && method != "" && method != "POST" {
		f.add("scheduler-job-method", name, "it sends "+method, update)
	}
	if code := number(job, "status.code"); code != 0 {
		f.add("scheduler-job-failed", name, "its last attempt: "+strings.TrimSuffix(fmt.Sprintf("%s: %s", codes.Code(code), job.Text("status.message")), ": "), lines(
			d.job("run", name),
			line("gcloud", "functions", "logs", "read", reconcile.Name, "--gen2", "--project="+d.Target.Project, "--region="+reconcile.Region, "--limit=50")))
	}
}

// job is a command about a job.
func (d *Deployment) job(verb, name string, flags ...string) string {
	args := append(strings.Split("gcloud scheduler jobs "+verb, " "), name, "--project="+d.Target.Project, "--location="+d.region())
	return line(append(args, flags...)...)
}

// schedule makes the job that calls Reconcile, or changes it where it has its name.
func (d *Deployment) schedule(name string) string {
	for _, r := range d.list(d.jobs()) {
		switch r.Name {
		case "job " + name:
			return typed(r.Change)
		case "job " + d.Target.nameOf("Reconcile"):
			return typed(r.Make)
		}
	}
	return d.deploy()
}
