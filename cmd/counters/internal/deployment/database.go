package deployment

import (
	"context"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
)

// inDatabase are the flags of a command about a collection group.
func (b *Builder) inDatabase(group string) []string {
	return []string{b.project(), "--database=" + b.Settings.Database, "--collection-group=" + group}
}

// field is a field of a collection group, and what is done about it.
func (b *Builder) field(name, group, field string, words ...string) Resource {
	return Resource{
		Name: name, Needs: []string{"APIs", "database"}, Alone: "the database's fields", Shared: name,
		Place: Place{Address: "firestore/v1/" + b.in() + "/databases/" + b.Settings.Database + "/collectionGroups/" + url.PathEscape(group) + "/fields/" + url.PathEscape(field)},
		Make:  []Command{gcloud(words...)}, Change: []Command{gcloud(words...)},
		Remove: []Command{gcloud(b.clear(group, field)...)},
	}
}

// asWanted has a field that isn't as it is wanted be nothing of ours.
func (r Resource) asWanted() Resource {
	of := r
	r.Ours = func(there Object) bool {
		_, lines := of.Differences(there)
		return len(lines) == 0
	}
	return r
}

// clear gives a field the index that all fields have.
func (b *Builder) clear(group, field string) []string {
	return slices.Concat([]string{"firestore", "indexes", "fields", "update", field}, b.inDatabase(group), []string{"--clear-exemption", "--format=none"})
}

// exempt is a field without an index.
func (b *Builder) exempt(group, field string) Resource {
	r := b.field("the exemption of "+group+"."+field+" from indexes", group, field,
		slices.Concat([]string{"firestore", "indexes", "fields", "update", field}, b.inDatabase(group), []string{"--disable-indexes", "--format=none"})...)
	r.Differs = func(there Object) []string {
		if isExempt(there) {
			return nil
		}
		return []string{"its index is turned off"}
	}
	return r.asWanted()
}

// kept is a field whose index is not to be turned off: it is looked at, as an earlier deployment may have done so.
func (b *Builder) kept(group, field string) Resource {
	r := b.field("field "+group+"."+field, group, field)
	r.Make, r.Change, r.Remove = nil, nil, nil
	return r
}

// indexed is a field's index that somebody turned off, such as an earlier deployment.
func (b *Builder) indexed(group, field, why string) Resource {
	r := b.field("the index of "+group+"."+field, group, field, b.clear(group, field)...)
	r.Make, r.Remove, r.Differs = nil, nil, func(there Object) []string {
		if !isExempt(there) {
			return nil
		}
		return []string{"is turned on again: " + why}
	}
	return r
}

func isExempt(field Object) bool {
	return field != nil && len(Objects(field.At("indexConfig.indexes"))) == 0
}

// exempted are the fields whose indexes are turned off unless they are to be kept, as collection group and field.
func (w *Wanted) exempted() (fields [][2]string) {
	fields = [][2]string{{layout.Requests, layout.ExpireAt}}
	for _, name := range []string{book.BaseCounts, book.BaseReplaced, book.BaseSources} {
		fields = append(fields, [2]string{layout.Rollup, name})
	}
	collection := w.Settings.Collection
	switch {
	case w.all:
		for _, name := range []string{layout.UpdatedAt, layout.CreatedAt, layout.Rollup} {
			fields = append(fields, [2]string{collection, name})
		}
	default:
		if !w.KeepUpdatedAt { // our map says as of when each number is
			fields = append(fields, [2]string{collection, layout.Rollup})
		}
		if !w.KeepUpdatedAt && !w.Settings.Hosted { // or else it is the app's, and ours is in the map
			fields = append(fields, [2]string{collection, layout.UpdatedAt})
		}
		if !w.KeepCreatedAt && !w.Settings.Hosted {
			fields = append(fields, [2]string{collection, layout.CreatedAt})
		}
	}
	return fields
}

// database is the database, and how it treats the fields that matter.
func (b *Builder) database() (all []Resource) {
	database := Resource{Name: "database", Needs: []string{"APIs"}, Place: Place{Address: "firestore/v1/" + b.in() + "/databases/" + b.Settings.Database}}
	if b.CreateDatabase {
		create := []string{"firestore", "databases", "create", b.project(), "--database=" + b.Settings.Database, "--location=" + b.Location, "--delete-protection"}
		if b.enterprise() {
			create = append(create, "--edition=enterprise")
		}
		if b.KeyOfData != "" {
			create = append(create, "--kms-key-name="+b.KeyOfData)
		}
		database.Make = []Command{gcloud(append(create, "--format=none")...)}
	}
	ttl := b.field("the TTL policy of "+layout.Requests+"."+layout.ExpireAt, layout.Requests, layout.ExpireAt,
		slices.Concat([]string{"firestore", "fields", "ttls", "update", layout.ExpireAt}, b.inDatabase(layout.Requests), []string{"--enable-ttl", "--format=none"})...)
	ttl.Differs = func(there Object) []string {
		if state := there.Text("ttlConfig.state"); state == "ACTIVE" || state == "CREATING" {
			return nil
		}
		return []string{"is turned on"}
	}
	ttl.Remove = []Command{gcloud(slices.Concat([]string{"firestore", "fields", "ttls", "update", layout.ExpireAt}, b.inDatabase(layout.Requests), []string{"--disable-ttl", "--format=none"})...)}
	all = append(all, database, ttl.asWanted())
	for _, words := range b.Settings.IndexesIn(b.enterprise()) {
		all = append(all, b.index(strings.Fields(words)))
	}
	if b.enterprise() {
		return all // where no field has an index by itself
	}
	for _, summed := range b.Settings.Summed {
		group, field, _ := strings.Cut(summed, " ")
		all = append(all, b.indexed(group, field, "sum() works on it"))
	}
	exempt := b.exempted()
	for _, f := range exempt {
		all = append(all, b.exempt(f[0], f[1]))
	}
	before := b.Look("function " + b.Prefix + "-increment")
	wasHosted, _ := strconv.ParseBool(before.Text("serviceConfig.environmentVariables.HOSTED"))
	for _, name := range []string{layout.UpdatedAt, layout.CreatedAt, layout.Rollup} {
		group := b.Settings.Collection
		switch {
		case slices.Contains(exempt, [2]string{group, name}):
		case b.Settings.Hosted && before != nil && !wasHosted && name != layout.Rollup:
			all = append(all, b.indexed(group, name, "the documents are the app's now"))
		case !b.Settings.Hosted || before == nil || name == layout.Rollup:
			all = append(all, b.kept(group, name))
		}
	}
	return all
}

// enterprise reports whether the database is of the Enterprise edition, or will be.
func (b *Builder) enterprise() bool {
	if there := b.Look("database"); there != nil {
		return there.Text("databaseEdition") == "ENTERPRISE"
	}
	return b.Edition == "enterprise"
}

// edition is that of the database, or the one that it will have.
func (b *Builder) edition() cost.Edition {
	if b.enterprise() {
		return cost.Enterprise
	}
	return cost.Standard
}

// index is one that a query needs, and that Firestore doesn't make by itself: a collection group, a scope and fields.
// It is built in the background. In Enterprise edition one field is as good as several. What is not there has no index
// for a counter's shards: they are so few that a scan costs less than an entry with each write.
func (b *Builder) index(words []string) Resource {
	group, scope, fields := words[0], words[1], words[2:]
	if len(fields) == 1 && !b.enterprise() { // one field of a group, beside the indexes that every field has in its collection: gcloud has no flag for it
		return b.groupIndex(group, fields[0])
	}
	create := slices.Concat([]string{"firestore", "indexes", "composite", "create"}, b.inDatabase(group), []string{"--query-scope=" + strings.ReplaceAll(strings.ToLower(scope), "_", "-")})
	for _, field := range fields {
		create = append(create, "--field-config=field-path="+field+",order=ascending")
	}
	if fields[0] == layout.Until || fields[0] == layout.Due { // which few documents of the collection have, and the others need no entry
		create = append(create, "--density=sparse-any")
	}
	name := "the composite index of " + strings.Join(words, " ")
	return Resource{
		Name: name, Needs: []string{"APIs", "database"}, Alone: "the database's fields", Shared: name,
		Place: Place{Address: "firestore/v1/" + b.in() + "/databases/" + b.Settings.Database + "/collectionGroups/" + group + "/indexes", List: "indexes", Is: func(index Object) bool {
			return strings.Contains(index.Text("name"), "/collectionGroups/"+group+"/") && index.Text("queryScope") == scope && serves(index, fields)
		}},
		Make:   []Command{gcloud(append(create, "--async", "--format=none")...)},
		Remove: []Command{gcloud("firestore", "indexes", "composite", "delete", path.Base(b.Look(name).Text("name")), b.project(), "--database="+b.Settings.Database)},
	}
}

// serves reports whether an index is of these fields: those that are compared with one value each may come in any
// order, and the last one is last.
func serves(index Object, fields []string) bool {
	var has []string
	for _, field := range Objects(index["fields"]) {
		if path := field.Text("fieldPath"); path != "__name__" {
			has = append(has, path)
		}
	}
	return len(has) == len(fields) && has[len(has)-1] == fields[len(fields)-1] && slices.Equal(slices.Sorted(slices.Values(has)), slices.Sorted(slices.Values(fields)))
}

// groupIndex is the index of one field in a collection group, beside those that every field has.
func (b *Builder) groupIndex(group, field string) Resource {
	r := b.field("the index of "+group+"."+field+" in the collection group", group, field)
	ascending := []any{Object{"fieldPath": field, "order": "ASCENDING"}}
	body := Object{"indexConfig": Object{"indexes": []any{
		Object{"queryScope": "COLLECTION_GROUP", "fields": ascending}, Object{"queryScope": "COLLECTION", "fields": ascending},
		Object{"queryScope": "COLLECTION", "fields": []any{Object{"fieldPath": field, "order": "DESCENDING"}}},
		Object{"queryScope": "COLLECTION", "fields": []any{Object{"fieldPath": field, "arrayConfig": "CONTAINS"}}},
	}}}
	address := r.Place.Address + "?updateMask=indexConfig"
	r.Change = []Command{{Shell: curl(b.Project, "PATCH", address, body), Call: func(ctx context.Context, c *Cloud) error {
		_, err := c.Call(ctx, "PATCH", address, body)
		return err
	}}}
	r.Make = r.Change
	r.Differs = func(there Object) []string {
		if slices.ContainsFunc(Objects(there.At("indexConfig.indexes")), named("queryScope", "COLLECTION_GROUP")) {
			return nil
		}
		return []string{"is made"}
	}
	return r.asWanted()
}
