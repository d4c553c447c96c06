package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// reconcileJob is the job that calls Reconcile, or is meant to: the one with its address, or else
// with its name. It is nil when there is none, or none could be read.
func (d *Deployment) reconcileJob() *Job {
	if d.Scheduler == nil || d.Functions == nil || d.Functions.Reconcile == nil {
		return nil
	}
	reconcile := d.Functions.Reconcile
	for i, job := range d.Scheduler.Jobs {
		if reconcile.answersAt(job.URI) {
			return &d.Scheduler.Jobs[i]
		}
	}
	for i, job := range d.Scheduler.Jobs {
		if job.Name == reconcile.Name || job.Name == d.Target.nameOf("Reconcile") {
			return &d.Scheduler.Jobs[i]
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
	if job.State != "ENABLED" {
		f.add("scheduler-job-paused", job.Name, "it is "+job.State, d.job("resume", job.Name))
	}
	if !reconcile.answersAt(job.URI) {
		f.add("scheduler-job-target", job.Name, fmt.Sprintf("it calls %q", job.URI), d.schedule("update", job.Name, job.Account))
	} else if audience := cmp.Or(job.Audience, job.URI); job.Account == "" {
		f.add("scheduler-job-token", job.Name, "it sends no OIDC token", d.schedule("update", job.Name, ""))
	} else if !reconcile.answersAt(audience) {
		f.add("scheduler-job-token", job.Name, "its token is for "+audience, d.schedule("update", job.Name, job.Account))
	}
	if job.URI != "" && job.Method != "" && job.Method != "POST" {
		f.add("scheduler-job-method", job.Name, "it sends "+job.Method, d.schedule("update", job.Name, job.Account))
	}
	if job.Failure != "" {
		f.add("scheduler-job-failed", job.Name, "its last attempt: "+job.Failure, lines(
			d.job("run", job.Name),
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
