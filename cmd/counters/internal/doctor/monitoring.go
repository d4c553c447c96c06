package doctor

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	source "github.com/firestore-counters/counters"
)

// watching are the metrics and the alert policies that every deployment makes, by the names that
// they have with a prefix.
func watching(prefix string) (metrics, alerts []string) {
	named := func(folder, key string) (names []string) {
		files, err := fs.Glob(source.Source, "terraform/monitoring/"+folder+"/*.json")
		if err != nil || len(files) == 0 {
			panic(fmt.Sprintf("no %s: %v", folder, err)) // Not possible: they are ours.
		}
		for _, file := range files {
			text, err := source.Source.ReadFile(file)
			var of map[string]any
			if err == nil {
				err = json.Unmarshal(text, &of)
			}
			name, ok := of[key].(string)
			if err != nil || !ok {
				panic(fmt.Sprintf("%s has no %s: %v", path.Base(file), key, err))
			}
			names = append(names, strings.ReplaceAll(name, "${prefix}", prefix))
		}
		return names
	}
	return named("metrics", "name"), named("alerts", "displayName")
}

// monitoring looks at what would tell of trouble.
func (f *findings) monitoring(d *Deployment) {
	if len(d.Functions.all()) == 0 {
		return
	}
	metrics, alerts := watching(d.Target.Prefix)
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
	_, alerts := watching(d.Target.Prefix)
	for _, name := range alerts {
		all = append(all, d.Alerts[name].Channels...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// noAlerts reports whether the deployment is one that has no alerts, as far as is known.
func (d *Deployment) noAlerts() bool {
	_, alerts := watching(d.Target.Prefix)
	return d.Alerts != nil && len(without(alerts, slices.Collect(maps.Keys(d.Alerts)))) == len(alerts)
}
