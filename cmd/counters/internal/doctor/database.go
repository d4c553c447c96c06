package doctor

import (
	"fmt"
	"strings"
	"time"

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

// wanted are the fields whose indexes matter, with those of each counted field. Of those in Enterprise edition none
// does.
func (d *Deployment) wanted() []wanted {
	t := d.Target
	if d.enterprise() {
		return nil
	}
	var exempt [][2]string
	if w, err := d.deployed(); err == nil {
		exempt = w.Exempt()
	}
	var list []wanted
	for _, f := range exempt {
		finding := "index-not-exempt"
		if f[0] == t.collection() {
			finding = "timestamp-indexed"
		}
		list = append(list, wanted{FieldName{f[0], f[1]}, false, finding})
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
		f.add("database-missing", d.Target.Database, "there is no such database", d.made("database"))
		return
	}
	for _, index := range d.scanned() {
		if state := d.Indexes[index]; state != "READY" && state != "CREATING" {
			f.add("database-enterprise", d.Target.Database, "it is of the Enterprise edition, and has no index of "+index, d.made("the composite index of "+index))
		}
	}
	if db := d.Database; db != nil && db.Backup != "" && now.Sub(db.Created) < restoredLately {
		f.add("database-restored", d.Target.Database, fmt.Sprintf("it was restored on %s from %s", db.Created.Format(time.DateOnly), db.Backup), d.reconcileAll())
	}
	if field := d.Fields[markers]; field != nil && field.TTL != "ACTIVE" && field.TTL != "CREATING" {
		seen := "it has no TTL policy"
		if field.TTL != "" {
			seen = "its TTL policy is " + field.TTL
		}
		f.add("ttl-missing", markers.String(), seen, d.made("the TTL policy of "+markers.String()))
	}
	for _, want := range d.wanted() {
		switch field := d.Fields[want.name]; {
		case field == nil || field.Indexed == want.indexed:
		case want.indexed:
			f.add(want.finding, want.name.String(), "its single-field index is turned off", d.turnOn(want.name))
		default:
			f.add(want.finding, want.name.String(), "it has a single-field index", d.made("the exemption of "+want.name.String()+" from indexes"))
		}
	}
}

// enterprise reports whether the database is of the Enterprise edition, where no field has an index by itself.
func (d *Deployment) enterprise() bool { return d.Database != nil && d.Database.Enterprise }

// scanned are the indexes that a database of the Enterprise edition should have, as far as it could be read.
func (d *Deployment) scanned() []string {
	asked, err := d.asked()
	if err != nil || d.Indexes == nil || !d.enterprise() {
		return nil
	}
	return asked.IndexesIn(true)
}

// composites looks at the indexes that queries of counted collections need.
func (f *findings) composites(d *Deployment) {
	for _, field := range d.Target.counted() {
		index := settings.IndexOf(field.Counted, false)
		if index == "" || d.Indexes == nil || d.enterprise() {
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

// members looks at the indexes by which members are found in any counter.
func (f *findings) members(d *Deployment) {
	asked, err := d.asked()
	if err != nil || d.Indexes == nil || d.enterprise() { // where scanned has them
		return
	}
	for _, index := range asked.IndexesIn(false) {
		group, is := strings.CutSuffix(index, " COLLECTION_GROUP member")
		if state := d.Indexes[index]; is && strings.HasSuffix(group, layout.MembersID("")) && state != "READY" && state != "CREATING" {
			f.add("members-not-indexed", group+".member", "it has no index in its collection group", d.made("the index of "+group+".member in the collection group"))
		}
	}
}

// unindexed reports whether a query is known to have no index yet.
func (d *Deployment) unindexed(a *layout.Aggregation) bool {
	index := settings.IndexOf(a, false)
	return index != "" && !d.enterprise() && d.Indexes != nil && d.Indexes[index] != "READY"
}

// look lists the composite indexes of a collection group.
func (d *Deployment) look(a *layout.Aggregation) string {
	return line("gcloud", "firestore", "indexes", "composite", "list", "--project="+d.Target.Project, "--database="+d.Target.Database)
}

// turnOn gives a field its index back.
func (d *Deployment) turnOn(name FieldName) string {
	return line("gcloud", "firestore", "indexes", "fields", "update", name.Field,
		"--project="+d.Target.Project, "--database="+d.Target.Database, "--collection-group="+name.Group, "--clear-exemption")
}
