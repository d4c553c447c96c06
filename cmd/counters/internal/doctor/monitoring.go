package doctor

import (
	"slices"
	"strings"
)

// monitoring looks at what would tell of trouble. What tells otherwise than the list of resources wants it is left so.
func (f *findings) monitoring(d *Deployment) {
	if len(d.Functions.all()) == 0 {
		return
	}
	if gone, _ := d.gone("metric "); len(gone) > 0 {
		f.add("metric-missing", "log-based metrics", "there is no "+strings.Join(gone, ", "), d.deploy())
	}
	gone, alerts := d.gone("alert ")
	switch {
	case d.noAlerts():
		there := *d
		there.Parts = nil // none of the alerts would be kept
		f.add("alerts-none", "alert policies", "the deployment has none", there.deploy())
	case len(gone) > 0:
		f.add("alert-missing", "alert policies", "there is no "+strings.Join(gone, ", no "), d.deploy())
	}
	for _, p := range alerts {
		if p.There.Text("enabled") != "true" {
			f.add("alert-off", p.There.Text("displayName"), "it is turned off", line("gcloud", "alpha", "monitoring", "policies", "update", p.There.Text("name"), "--project="+d.Target.Project, "--enabled"))
		}
	}
}

// gone are the parts of a kind that aren't there, by what they are about, and those that are.
func (d *Deployment) gone(begins string) (gone []string, there []Part) {
	for _, p := range d.Parts {
		switch about, is := strings.CutPrefix(p.Name, begins); {
		case is && p.There == nil:
			gone = append(gone, about)
		case is:
			there = append(there, p)
		}
	}
	return gone, there
}

// channels are where the deployment's alerts are sent, sorted.
func (d *Deployment) channels() (all []string) {
	_, alerts := d.gone("alert ")
	for _, p := range alerts {
		all = append(all, texts(p.There["notificationChannels"])...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// noAlerts reports whether the deployment is one that has no alerts, as far as is known.
func (d *Deployment) noAlerts() bool {
	gone, there := d.gone("alert ")
	return len(gone) > 0 && len(there) == 0
}
