package doctor

import (
	"fmt"
	"slices"
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
		f.add("database-restored", d.Target.Database, fmt.Sprintf("it was restored on %s from %s", created.Format(time.DateOnly), backup), d.reconcileAll())
	}
}
