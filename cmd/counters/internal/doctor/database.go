package doctor

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
)

// wanted is a field whose index matters.
type wanted struct {
	name    FieldName
	indexed bool
	finding string // where it is otherwise
}

// markers are deleted by their TTL policy.
var markers = FieldName{layout.Requests, layout.ExpireAt}

// wantedOf are the fields whose indexes matter, with those of each counted field.
func wantedOf(t Target) []wanted {
	list := []wanted{
		{markers, false, "index-not-exempt"},
		{FieldName{layout.Rollup, book.LedgerStates}, false, "index-not-exempt"},
		{FieldName{layout.Rollup, book.LedgerAnswers}, false, "index-not-exempt"},
		{FieldName{layout.Rollup, book.LedgerOps}, false, "index-not-exempt"},
	}
	if t.Hosted { // updated_at is in it
		list = append(list, wanted{FieldName{t.collection(), layout.Rollup}, false, "timestamp-indexed"})
	} else {
		list = append(list, wanted{FieldName{t.collection(), layout.UpdatedAt}, false, "timestamp-indexed"},
			wanted{FieldName{t.collection(), layout.CreatedAt}, false, "timestamp-indexed"})
	}
	for _, field := range t.sums() {
		list = append(list, wanted{FieldName{t.Shards, layout.FieldPath(field.Shard)}, true, "count-not-indexed"})
	}
	for _, field := range t.counted() {
		if a := field.Counted; a.Sum != "" {
			list = append(list, wanted{FieldName{a.Collection, layout.FieldPath(strings.Split(a.Sum, ".")...)}, true, "sum-not-indexed"})
		}
	}
	return list
}

// String is what Firestore's own tools call it.
func (n FieldName) String() string { return n.Group + "." + n.Field }

// restoredLately is for how long it is worth saying that a database was restored: within it all
// counters are reconciled.
const restoredLately = 7 * 24 * time.Hour

func (f *findings) database(d *Deployment, now time.Time) {
	if d.Database != nil && d.Database.Missing {
		f.add("database-missing", d.Target.Database, "there is no such database", line("gcloud", "firestore", "databases", "create",
			"--project="+d.Target.Project, "--database="+d.Target.Database, "--location="+d.location(), "--delete-protection"))
		return
	}
	if d.Database != nil && !d.Database.Standard {
		f.add("database-enterprise", d.Target.Database, "it is of the Enterprise edition, where each of "+d.summed()+" needs an index", then(
			line("gcloud", "firestore", "databases", "create", "--project="+d.Target.Project, "--database=counters",
				"--location="+d.location(), "--edition=standard", "--delete-protection"),
			d.in("counters")))
	}
	if db := d.Database; db != nil && db.Backup != "" && now.Sub(db.Created) < restoredLately {
		f.add("database-restored", d.Target.Database, fmt.Sprintf("it was restored on %s from %s", db.Created.Format(time.DateOnly), db.Backup), d.reconcileAll())
	}
	if field := d.Fields[markers]; field != nil && field.TTL != "ACTIVE" && field.TTL != "CREATING" {
		seen := "it has no TTL policy"
		if field.TTL != "" {
			seen = "its TTL policy is " + field.TTL
		}
		f.add("ttl-missing", markers.String(), seen, line("gcloud", "firestore", "fields", "ttls", "update", markers.Field,
			"--project="+d.Target.Project, "--database="+d.Target.Database, "--collection-group="+markers.Group, "--enable-ttl"))
	}
	for _, want := range wantedOf(d.Target) {
		switch field := d.Fields[want.name]; {
		case field == nil || field.Indexed == want.indexed:
		case want.indexed:
			f.add(want.finding, want.name.String(), "its single-field index is turned off", d.indexes(want.name, "--clear-exemption"))
		default:
			f.add(want.finding, want.name.String(), "it has a single-field index", d.indexes(want.name, "--disable-indexes"))
		}
	}
}

// in deploys the functions as they are, but for another database.
func (d *Deployment) in(database string) string {
	var like Function
	if there := d.Functions.all(); len(there) > 0 {
		like = *there[0]
	}
	env := map[string]string{}
	maps.Copy(env, like.Env)
	env["DATABASE"] = database
	like.Env = env
	return d.again(&like)
}

// composites looks at the indexes that queries of counted collections need.
func (f *findings) composites(d *Deployment) {
	for _, field := range d.Target.counted() {
		index := settings.IndexOf(field.Counted)
		if index == "" || d.Indexes == nil {
			continue
		}
		switch state := d.Indexes[index]; state {
		case "READY":
		case "CREATING":
			f.add("composite-building", field.Name, "the index of "+index+" is being built", d.look(field.Counted))
		case "":
			f.add("composite-missing", field.Name, "there is no index of "+index, d.composite(field.Counted))
		default:
			f.add("composite-missing", field.Name, "the index of "+index+" is "+state, d.composite(field.Counted))
		}
	}
}

// unindexed reports whether a query is known to have no index yet.
func (d *Deployment) unindexed(a *layout.Aggregation) bool {
	index := settings.IndexOf(a)
	return index != "" && d.Indexes != nil && d.Indexes[index] != "READY"
}

// look lists the composite indexes of a collection group.
func (d *Deployment) look(a *layout.Aggregation) string {
	return line("gcloud", "firestore", "indexes", "composite", "list", "--project="+d.Target.Project, "--database="+d.Target.Database)
}

func (d *Deployment) indexes(name FieldName, flag string) string {
	return line("gcloud", "firestore", "indexes", "fields", "update", name.Field,
		"--project="+d.Target.Project, "--database="+d.Target.Database, "--collection-group="+name.Group, flag)
}

// summed are the fields that are added up with sum().
func (d *Deployment) summed() string {
	var names []string
	for _, want := range wantedOf(d.Target) {
		if want.indexed {
			names = append(names, want.name.String())
		}
	}
	return strings.Join(names, ", ")
}
