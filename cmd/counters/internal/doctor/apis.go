package doctor

import (
	"slices"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
)

// off remembers that an API is turned off.
func (d *Deployment) off(api string) {
	if slices.Contains(resources.APIs(), api) && !slices.Contains(d.Off, api) {
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
