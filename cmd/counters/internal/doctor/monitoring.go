package doctor

import (
	"maps"
	"slices"
	"strings"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
)

// monitoring looks at what would tell of trouble.
func (f *findings) monitoring(d *Deployment) {
	if len(d.Functions.all()) == 0 {
		return
	}
	metrics, alerts := resources.Watching(d.Target.Prefix)
	if d.Metrics != nil {
		if gone := without(metrics, d.Metrics); len(gone) > 0 {
			f.add("metric-missing", "log-based metrics", "there is no "+strings.Join(gone, ", "), d.deploy())
		}
	}
	if d.Alerts == nil {
		return
	}
	var there, quiet []string
	for _, name := range alerts {
		if alert, ok := d.Alerts[name]; ok {
			there = append(there, name)
			if !alert.On {
				quiet = append(quiet, name)
			}
		}
	}
	gone := without(alerts, there)
	switch {
	case len(gone) == len(alerts):
		there := *d
		there.Alerts = nil // none would be kept
		f.add("alerts-none", "alert policies", "the deployment has none", there.deploy())
	case len(gone) > 0:
		f.add("alert-missing", "alert policies", "there is no "+strings.Join(gone, ", no "), d.deploy())
	}
	for _, name := range quiet {
		f.add("alert-off", name, "it is turned off", line("gcloud", "alpha", "monitoring", "policies", "update", d.Alerts[name].Name, "--project="+d.Target.Project, "--enabled"))
	}
}

// without are the names that are not among others.
func without(names, others []string) (left []string) {
	for _, name := range names {
		if !slices.Contains(others, name) {
			left = append(left, name)
		}
	}
	return left
}

// channels are where the deployment's alerts are sent, sorted.
func (d *Deployment) channels() (all []string) {
	_, alerts := resources.Watching(d.Target.Prefix)
	for _, name := range alerts {
		all = append(all, d.Alerts[name].Channels...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// noAlerts reports whether the deployment is one that has no alerts, as far as is known.
func (d *Deployment) noAlerts() bool {
	_, alerts := resources.Watching(d.Target.Prefix)
	return d.Alerts != nil && len(without(alerts, slices.Collect(maps.Keys(d.Alerts)))) == len(alerts)
}
