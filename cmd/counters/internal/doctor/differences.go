package doctor

import (
	"strings"

	resources "github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/settings"
)

// Part is a part of the deployment, as the list of resources has it, and what was read of it: nil where it isn't there.
// What deploy would do about it is what mends it.
type Part struct {
	resources.Resource
	There resources.Object
}

// kind is a kind of such parts: how their names begin and end, what they are called where they can't be read, what is
// found where one isn't as it is wanted, and what is seen then.
type kind struct{ begins, ends, part, finding, seen string }

var kinds = []kind{
	{"APIs", "", "APIs", "api-disabled", ""},
	{"account ", "", "accounts", "account-gone", ""},
	{"the TTL policy of ", "", ofFields, "ttl-missing", "it has no TTL policy that works"},
	{"the exemption of ", " from indexes", ofFields, "index-not-exempt", "it has a single-field index"},
	{"the index of ", " in the collection group", ofFields, "composite-missing", "it has no index in its collection group"},
	{"the index of ", "", ofFields, "sum-not-indexed", "its single-field index is turned off"},
	{"the composite index of ", "", "composite indexes", "composite-missing", "there is none"},
	{"metric ", "", "log-based metrics", "metric-missing", ""},
	{"alert ", "", "alert policies", "alert-missing", ""},
}

const ofFields = "TTL policy and indexes"

// parts are what the kinds are called, each once.
func parts() (all []string) {
	for i, k := range kinds {
		if i == 0 || k.part != kinds[i-1].part {
			all = append(all, k.part)
		}
	}
	return all
}

// kindOf is the kind of a part, and what the part is about; a kind without a name where doctor doesn't look at it.
func kindOf(name string) (k kind, about string) {
	for _, k := range kinds {
		about, begins := strings.CutPrefix(name, k.begins)
		about, ends := strings.CutSuffix(about, k.ends)
		if begins && ends {
			return k, about
		}
	}
	return kind{}, ""
}

// part is a part that was read, or that deploy would make; nil where there is none of that name.
func (d *Deployment) part(name string) *Part {
	for i := range d.Parts {
		if d.Parts[i].Name == name {
			return &d.Parts[i]
		}
	}
	return nil
}

// right reports whether a part is as it is wanted, and whether it is on its way there: an index is built in the
// background.
func (p *Part) right() (right, building bool) {
	missing, lines := p.Differences(p.There)
	state := p.There.Text("state")
	for _, index := range resources.Objects(p.There.At("indexConfig.indexes")) {
		if index.Text("queryScope") == "COLLECTION_GROUP" {
			state = index.Text("state")
		}
	}
	building = state == "CREATING"
	return !missing && len(lines) == 0 && (state == "READY" || state == ""), building
}

// differences looks at what isn't as the list of resources wants it.
func (f *findings) differences(d *Deployment) {
	if d.Database != nil && d.Database.Object == nil {
		f.add("database-missing", d.Target.Database, "there is no such database", d.made("database"))
		return
	}
	for i := range d.Parts {
		p := &d.Parts[i]
		right, building := p.right()
		k, about := kindOf(p.Name)
		group, _, _ := strings.Cut(about, ".")
		name, subject, seen, fix := k.finding, about, k.seen, p.mend()
		switch {
		case right, k.part != ofFields && k.finding != "composite-missing":
			continue
		case building && (d.enterprise() || strings.HasSuffix(group, layout.MembersID(""))): // it is on its way, and nothing is refused meanwhile
			continue
		case building:
			name, seen = "composite-building", "it is being built"
			fix = line("gcloud", "firestore", "indexes", "composite", "list", "--project="+d.Target.Project, "--database="+d.Target.Database)
		case name == "composite-missing" && d.enterprise():
			name, subject, seen = "database-enterprise", d.Target.Database, "it is of the Enterprise edition, and has no index of "+about
		case name == "composite-missing" && strings.HasSuffix(group, layout.MembersID("")):
			name = "members-not-indexed"
		case name == "index-not-exempt" && group == d.layout().Path.Collection():
			name = "timestamp-indexed"
		case name == "sum-not-indexed" && group == d.Target.Shards:
			name = "count-not-indexed"
		}
		f.add(name, subject, seen, fix)
	}
}

// mend is what deploy would do about a part, a line each.
func (p *Part) mend() string {
	commands := p.Commands(p.There)
	if len(commands) == 0 { // it is there, and doesn't work
		commands = p.Make
	}
	return typed(commands)
}

// enterprise reports whether the database is of the Enterprise edition, where no field has an index by itself.
func (d *Deployment) enterprise() bool {
	return d.Database != nil && d.Database.Text("databaseEdition") == "ENTERPRISE"
}

// indexOf is the part that is the index of an aggregation; nil where it needs none, or none was read.
func (d *Deployment) indexOf(a *layout.Aggregation) *Part {
	index := settings.IndexOf(a, d.enterprise())
	if words := strings.Fields(index); len(words) == 3 && !d.enterprise() {
		return d.part("the index of " + words[0] + "." + words[2] + " in the collection group")
	}
	return d.part("the composite index of " + index)
}

// unindexed reports whether a query is known to have no index yet.
func (d *Deployment) unindexed(a *layout.Aggregation) bool {
	p := d.indexOf(a)
	if p == nil || d.enterprise() {
		return false
	}
	right, _ := p.right()
	return !right
}
