package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admin "cloud.google.com/go/firestore/apiv1/admin"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// database reads where the database is, and how it treats the fields that matter.
func (r *Reader) database(ctx context.Context, d *Deployment) error {
	denied := func(part, permission string, err error) error {
		return &unread{part: part, service: firestoreAPI, permission: permission, role: "roles/datastore.viewer", err: err}
	}
	client, err := admin.NewFirestoreAdminClient(ctx, r.Admin...)
	if err != nil {
		return denied("database", "datastore.databases.getMetadata", err)
	}
	defer client.Close()
	name := d.layout().Database
	db, err := client.GetDatabase(ctx, &adminpb.GetDatabaseRequest{Name: name})
	switch {
	case status.Code(err) == codes.NotFound && !disabled(err):
		d.Database = &Database{Missing: true}
		return nil
	case err != nil:
		err = denied("database", "datastore.databases.getMetadata", err)
	default:
		d.Database = &Database{
			Location:   db.GetLocationId(),
			Enterprise: db.GetDatabaseEdition() == adminpb.Database_ENTERPRISE, Created: db.GetCreateTime().AsTime(),
			Backup: db.GetSourceInfo().GetBackup().GetBackup(),
		}
	}
	looked := []FieldName{markers}
	for _, want := range d.wanted() {
		looked = append(looked, want.name)
	}
	for _, field := range looked {
		pb, fieldErr := client.GetField(ctx, &adminpb.GetFieldRequest{
			Name: fmt.Sprintf("%s/collectionGroups/%s/fields/%s", name, field.Group, field.Field),
		})
		if fieldErr != nil {
			if err == nil {
				err = denied("TTL policy and indexes", "datastore.indexes.get", fieldErr)
			}
			break // the others are no different
		}
		f := &Field{Indexed: len(pb.GetIndexConfig().GetIndexes()) > 0}
		if ttl := pb.GetTtlConfig(); ttl != nil {
			f.TTL = ttl.GetState().String()
		}
		d.Fields[field] = f
	}
	if err != nil {
		return err
	}
	if err := readIndexes(ctx, client, d); err != nil {
		return denied("composite indexes", "datastore.indexes.list", err)
	}
	return nil
}

// readIndexes reads which of the indexes are there that queries need.
func readIndexes(ctx context.Context, client *admin.FirestoreAdminClient, d *Deployment) error {
	indexes := map[string]string{}
	asked, err := d.asked()
	if err != nil {
		return nil // which settings says
	}
	for _, wanted := range asked.IndexesIn(d.enterprise()) {
		words := strings.Fields(wanted)
		group, scope, fields := words[0], words[1], words[2:]
		parent := d.layout().Database + "/collectionGroups/" + group
		var there []*adminpb.Index
		if len(fields) == 1 && !d.enterprise() { // is the field's own, and not a composite one
			pb, err := client.GetField(ctx, &adminpb.GetFieldRequest{Name: parent + "/fields/" + fields[0]})
			if err != nil {
				return err
			}
			there = pb.GetIndexConfig().GetIndexes()
		} else {
			for index, err := range client.ListIndexes(ctx, &adminpb.ListIndexesRequest{Parent: parent}).All() {
				if err != nil {
					return err
				}
				there = append(there, index)
			}
		}
		for _, index := range there {
			if index.GetQueryScope().String() == scope && serves(index, fields) {
				indexes[wanted] = index.GetState().String()
			}
		}
	}
	d.Indexes = indexes
	return nil
}

// serves reports whether an index is of these fields: those that are compared with one value each
// may come in any order, and the last one is last.
func serves(index *adminpb.Index, fields []string) bool {
	var has []string
	for _, f := range index.GetFields() {
		if f.GetFieldPath() != "__name__" && f.GetArrayConfig() == adminpb.Index_IndexField_ARRAY_CONFIG_UNSPECIFIED {
			has = append(has, f.GetFieldPath())
		}
	}
	if len(has) != len(fields) || has[len(has)-1] != fields[len(fields)-1] {
		return false
	}
	return slices.Equal(slices.Sorted(slices.Values(has)), slices.Sorted(slices.Values(fields)))
}
