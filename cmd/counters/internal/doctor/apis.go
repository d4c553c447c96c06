package doctor

import "slices"

// needed are the APIs that a deployment works with, those that deploy.sh turns on.
var needed = []string{
	"artifactregistry.googleapis.com", "cloudbuild.googleapis.com", functionsAPI, "cloudresourcemanager.googleapis.com",
	"cloudscheduler.googleapis.com", "eventarc.googleapis.com", firestoreAPI, "iam.googleapis.com", "logging.googleapis.com",
	"monitoring.googleapis.com", "pubsub.googleapis.com", "run.googleapis.com", "storage.googleapis.com",
}

// APIs are those that a deployment works with.
func APIs() []string { return slices.Clone(needed) }

// off remembers that an API is turned off.
func (d *Deployment) off(api string) {
	if slices.Contains(needed, api) && !slices.Contains(d.Off, api) {
		d.Off = append(d.Off, api)
	}
}

// apis looks at the APIs that are turned off: what is behind them can't even be read.
func (f *findings) apis(d *Deployment) {
	for _, api := range d.Off {
		f.add("api-disabled", api, "it is turned off in the project", enable(api, d.Target.Project))
	}
}

// enable turns an API on.
func enable(api, project string) string {
	return line("gcloud", "services", "enable", api, "--project="+project)
}
