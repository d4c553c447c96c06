package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

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
		f.add("api-disabled", api, "it is turned off in the project", line("gcloud", "services", "enable", api, "--project="+d.Target.Project))
	}
}

// restoredLately is for how long it is worth saying that a database was restored: within it all
// counters are reconciled.
const restoredLately = 7 * 24 * time.Hour

func (f *findings) restored(d *Deployment, now time.Time) {
	if d.Database == nil {
		return
	}
	backup, created := d.Database.Text("sourceInfo.backup.backup"), moment(d.Database.Object, "createTime")
	if backup != "" && now.Sub(created) < restoredLately {
		f.add("database-restored", d.Target.Database, fmt.Sprintf("it was restored on %s from %s", created.Format(time.DateOnly), backup), line(d.command("reconcile", "--all")...))
	}
}

// location is the database's, or what comes nearest to it of what is known.
func (d *Deployment) location() string {
	var trigger string
	if f := d.Functions; f != nil && f.Rollup != nil && f.Rollup.Trigger != nil {
		trigger = f.Rollup.Trigger.Region
	}
	return cmp.Or(d.Database.location(), d.Target.Location, trigger, d.home(), "LOCATION") // to be filled in
}

// location is a region, or a multi-region such as nam5; empty where it isn't known.
func (db *Database) location() string {
	if db == nil {
		return ""
	}
	return db.Text("locationId")
}

// region is where the functions are, as far as that is known; empty when it isn't.
func (d *Deployment) region() string {
	if there := d.Functions.all(); len(there) > 0 {
		return there[len(there)-1].Region // Reconcile's, which the Scheduler job is beside
	}
	if d.Target.Location != "" {
		return resources.Near(d.Target.Location)[0]
	}
	return ""
}

func (f *findings) regions(d *Deployment) {
	location := d.Database.location()
	if location == "" {
		return
	}
	near, place := resources.Near(location), location
	if near[0] != location {
		place += ", near " + strings.Join(near, " and ")
	}
	for _, function := range d.Functions.all() {
		// For a multi-region some of Google's pages name the multi-region and some a region inside
		// of it. Where the platform has taken either, it works.
		if t := function.Trigger; t != nil && t.Region != "" && t.Region != location && !slices.Contains(near, t.Region) {
			f.add("trigger-region", function.Name, fmt.Sprintf("the trigger is in %s, the database in %s", t.Region, location), d.recreate(function))
		}
		if !slices.Contains(near, function.Region) {
			// Everything is deployed next to the database before the function goes where it was.
			f.add("function-region", function.Name, fmt.Sprintf("it runs in %s, the database is in %s", function.Region, place), then(asking(d.like(d.environment(), "")), d.remove(function)))
		}
	}
}
