package doctor

import (
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// fieldsOf are the fields whose TTL policy and indexes matter.
func fieldsOf(t Target) (markers, ledgers, updated, created, count FieldName) {
	return FieldName{store.Requests, store.ExpireAt}, FieldName{store.Rollup, ledger.FieldShards},
		FieldName{t.collection(), store.UpdatedAt}, FieldName{t.collection(), store.CreatedAt}, FieldName{t.Shards, t.first().Shard}
}

// String is what Firestore's own tools call it.
func (n FieldName) String() string { return n.Group + "." + n.Field }

func (f *findings) database(d *Deployment) {
	if d.Database != nil && d.Database.Missing {
		f.add("database-missing", d.Target.Database, "there is no such database", line("gcloud", "firestore", "databases", "create",
			"--project="+d.Target.Project, "--database="+d.Target.Database, "--location="+d.location(), "--delete-protection"))
		return
	}
	if d.Database != nil && !d.Database.Native {
		f.add("database-datastore", d.Target.Database, "it is in Datastore mode", line("gcloud", "firestore", "databases", "update",
			"--project="+d.Target.Project, "--database="+d.Target.Database, "--type=firestore-native"))
	}
	if d.Database != nil && !d.Database.Standard {
		f.add("database-enterprise", d.Target.Database, "it is of the Enterprise edition", lines(
			line("gcloud", "firestore", "databases", "create", "--project="+d.Target.Project, "--database=counters",
				"--location="+d.location(), "--edition=standard", "--delete-protection"),
			d.script(map[string]string{"DATABASE": "counters"}, "", d.callers()...)))
	}
	markers, ledger, updated, created, count := fieldsOf(d.Target)
	if field := d.Fields[markers]; field != nil && field.TTL != "ACTIVE" && field.TTL != "CREATING" {
		seen := "it has no TTL policy"
		if field.TTL != "" {
			seen = "its TTL policy is " + field.TTL
		}
		f.add("ttl-missing", markers.String(), seen, line("gcloud", "firestore", "fields", "ttls", "update", markers.Field,
			"--project="+d.Target.Project, "--database="+d.Target.Database, "--collection-group="+markers.Group, "--enable-ttl"))
	}
	for _, exempt := range []struct {
		name  FieldName
		found string
	}{{markers, "index-not-exempt"}, {ledger, "index-not-exempt"}, {updated, "timestamp-indexed"}, {created, "timestamp-indexed"}} {
		if field := d.Fields[exempt.name]; field != nil && field.Indexed {
			f.add(exempt.found, exempt.name.String(), "it has a single-field index", d.indexes(exempt.name, "--disable-indexes"))
		}
	}
	if field := d.Fields[count]; field != nil && !field.Indexed {
		f.add("count-not-indexed", count.String(), "its single-field index is turned off", d.indexes(count, "--clear-exemption"))
	}
}

func (d *Deployment) indexes(name FieldName, flag string) string {
	return line("gcloud", "firestore", "indexes", "fields", "update", name.Field,
		"--project="+d.Target.Project, "--database="+d.Target.Database, "--collection-group="+name.Group, flag)
}
