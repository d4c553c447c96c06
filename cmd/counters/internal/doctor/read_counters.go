package doctor

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/iterator"

	"github.com/firestore-counters/counters/internal/conn"
	"github.com/firestore-counters/counters/internal/schema"
)

const firestoreAPI = "firestore.googleapis.com"

// parallel is how many counters are read side by side.
const parallel = 8

// counters reads the first counters, with their shards and ledgers.
func (r *Reader) counters(ctx context.Context, d *Deployment) error {
	if d.Database != nil && (d.Database.Missing || !d.Database.Native) || d.Target.Counters <= 0 {
		return nil
	}
	denied := func(err error) error {
		return &unread{part: "counters", service: firestoreAPI, permission: "datastore.entities.list", role: "roles/datastore.viewer", err: err}
	}
	db, err := conn.Open(ctx, d.Target.Project, d.Target.Database, r.Firestore...)
	if err != nil {
		return denied(err)
	}
	defer db.Close()
	ids, more, err := firstIDs(ctx, db, d.Target)
	if err != nil {
		return denied(err)
	}
	read := make([]*Counter, len(ids))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, id := range ids {
		group.Go(func() (err error) {
			if read[i], err = readCounter(ctx, db, d.layout(), id); err != nil {
				return fmt.Errorf("read counter %q: %w", id, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return denied(err)
	}
	d.Counters = &Counters{More: more}
	for _, c := range read {
		if c != nil {
			d.Counters.Read = append(d.Counters.Read, *c)
		}
	}
	return nil
}

// firstIDs lists the counters with the first ids, those without a document of their own included: a snippet may have
// made shards only.
func firstIDs(ctx context.Context, db *conn.DB, t Target) (ids []string, more bool, err error) {
	it := db.API.ListDocuments(ctx, &firestorepb.ListDocumentsRequest{
		Parent:       db.Name + "/documents",
		CollectionId: t.Collection,
		Mask:         &firestorepb.DocumentMask{}, // no fields
		ShowMissing:  true,
		PageSize:     int32(min(t.Counters+1, 300)),
	})
	for {
		doc, err := it.Next()
		if errors.Is(err, iterator.Done) {
			return ids, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		if len(ids) == t.Counters {
			return ids, true, nil
		}
		ids = append(ids, path.Base(doc.GetName()))
	}
}

// readCounter reads everything about one counter as of one time. It returns nil for what is left of a deleted one.
func readCounter(ctx context.Context, db *conn.DB, layout schema.Layout, id string) (*Counter, error) {
	docs, at, err := db.Get(ctx, layout.Counter(id), layout.LedgerOf(id))
	if err != nil {
		return nil, err
	}
	c := &Counter{ID: id, At: at, Exists: docs[0] != nil}
	if docs[1] != nil {
		if c.Ledger, err = schema.DecodeLedger(docs[1]); err != nil {
			c.BadLedger = err.Error()
		}
	}
	fields := docs[0].GetFields()
	c.Deleting = fields[schema.Deleting].GetBooleanValue()
	c.NumShards = max(fields[schema.NumShards].GetIntegerValue(), fields[schema.NumShardsLegacy].GetIntegerValue())
	c.Total = fields[schema.Total].GetIntegerValue()
	_, c.HasTotal = fields[schema.Total].GetValueType().(*firestorepb.Value_IntegerValue)

	shards := db.Collection(layout.Collection).Doc(id).Collection(schema.Shards)
	snapshots, err := shards.WithReadOptions(firestore.ReadTime(at)).Documents(ctx).GetAll()
	if err != nil {
		return nil, fmt.Errorf("shards: %w", err)
	}
	for _, snapshot := range snapshots {
		c.Shards = append(c.Shards, decodeShard(snapshot, layout.CountField))
	}
	if !c.Exists && (docs[1] != nil || len(c.Shards) == 0) {
		return nil, nil
	}
	return c, nil
}

func decodeShard(snapshot *firestore.DocumentSnapshot, countField string) Shard {
	s := Shard{ID: snapshot.Ref.ID, Updated: snapshot.UpdateTime}
	value, ok := snapshot.Data()[countField]
	if !ok {
		return s // nothing counted yet
	}
	if s.Count, ok = value.(int64); !ok {
		s.Bad = fmt.Sprintf("%v (%T)", value, value)
	}
	return s
}

// projectOf is the project of a database's name.
func projectOf(database string) string { return strings.Split(database, "/")[1] }
