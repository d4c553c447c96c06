package doctor

import (
	"context"
	"fmt"

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
			Location: db.GetLocationId(),
			Standard: db.GetDatabaseEdition() != adminpb.Database_ENTERPRISE, Created: db.GetCreateTime().AsTime(),
			Backup: db.GetSourceInfo().GetBackup().GetBackup(),
		}
	}
	for _, want := range wantedOf(d.Target) {
		field := want.name
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
	return err
}
