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

// reconcileJob is the job that calls Reconcile, or is meant to: the one with its address, or else
// with its name. It is nil when there is none, or none could be read.
func (d *Deployment) reconcileJob() resources.Object {
	if d.Scheduler == nil || d.Functions == nil || d.Functions.Reconcile == nil {
		return nil
	}
	reconcile := d.Functions.Reconcile
	for _, job := range d.Scheduler.Jobs {
		if reconcile.answersAt(job.Text(uriOfJob)) {
			return job
		}
	}
	for _, job := range d.Scheduler.Jobs {
		if name := path.Base(job.Text("name")); name == reconcile.Name || name == d.Target.nameOf("Reconcile") {
			return job
		}
	}
	return nil
}

// answersAt reports whether an address is one of the function's, or below it.
func (f *Function) answersAt(uri string) bool {
	return slices.ContainsFunc(f.URLs, func(url string) bool {
		return uri == url || strings.HasPrefix(uri, strings.TrimSuffix(url, "/")+"/") || strings.HasPrefix(uri, url+"?")
	})
}

func (f *findings) scheduler(d *Deployment) {
	if d.Scheduler == nil || d.Functions == nil || d.Functions.Reconcile == nil {
		return
	}
	reconcile := d.Functions.Reconcile
	job := d.reconcileJob()
	if job == nil {
		f.add("scheduler-job-missing", reconcile.Name, "no job in "+d.Scheduler.Region+" calls it", d.schedule("create", d.Target.nameOf("Reconcile"), ""))
		return
	}
	name, uri, account, method := path.Base(job.Text("name")), job.Text(uriOfJob), job.Text(accountOfJob), job.Text("httpTarget.httpMethod")
	update := d.schedule("update", name, account)
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
	args := append(strings.Split("gcloud scheduler jobs "+verb, " "), name, "--project="+d.Target.Project, "--location="+d.Scheduler.Region)
	return line(append(args, flags...)...)
}

// schedule makes or changes the job that calls Reconcile.
func (d *Deployment) schedule(verb, name, account string) string {
	url := "https://"
	if urls := d.Functions.Reconcile.URLs; len(urls) > 0 {
		url = urls[0]
	}
	flags := []string{
		"--uri=" + url, "--http-method=POST", "--oidc-token-audience=" + url,
		"--oidc-service-account-email=" + cmp.Or(account, d.account("scheduler")),
	}
	if verb == "create" {
		flags = append(flags, "--schedule=7 * * * *", "--time-zone=Etc/UTC",
			fmt.Sprintf("--attempt-deadline=%ds", max(300, d.Functions.Reconcile.TimeoutSeconds)), "--max-retry-attempts=1")
	}
	return d.job(verb+" http", name, flags...)
}
