package doctor

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
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
	db, err := store.Open(ctx, store.Config{
		Project: d.Target.Project, Database: d.Target.Database, Counters: d.Target.Path, Fields: d.Target.Fields, Shards: d.Target.Shards, Hosted: d.Target.Hosted,
	}, r.Firestore...)
	if err != nil {
		return denied(err)
	}
	defer db.Close()
	ids, more, err := firstIDs(ctx, db, d.Target.Counters)
	if err != nil {
		return denied(err)
	}
	read := make([]*Counter, len(ids))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, id := range ids {
		group.Go(func() (err error) {
			if read[i], err = readCounter(ctx, db, id); err != nil {
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
func firstIDs(ctx context.Context, db *store.DB, n int) (ids []string, more bool, err error) {
	for token := ""; ; {
		page, next, err := db.List(ctx, min(n+1, 300), token)
		if err != nil {
			return nil, false, err
		}
		if ids = append(ids, page...); len(ids) > n {
			return ids[:n], true, nil
		}
		if token = next; token == "" {
			return ids, false, nil
		}
	}
}

// readCounter reads everything about one counter as of one time. It returns nil for what is left of a deleted one.
func readCounter(ctx context.Context, db *store.DB, id string) (*Counter, error) {
	docs, at, err := db.Get(ctx, db.Counter(id), db.LedgerOf(id))
	if err != nil {
		return nil, err
	}
	c := &Counter{ID: id, At: at, Exists: docs[0] != nil, Changed: docs[0].GetUpdateTime().AsTime()}
	if docs[1] != nil {
		if c.Ledger, err = ledger.Decode(docs[1]); err != nil {
			c.BadLedger = err.Error()
		}
	}
	own := db.Own(docs[0])
	c.Deleting = own[store.Deleting].GetBooleanValue()
	c.NumShards = max(own[store.NumShards].GetIntegerValue(), own[store.NumShardsLegacy].GetIntegerValue())
	c.Field = db.Fields[0].Name
	total := docs[0].GetFields()[c.Field]
	c.Total = total.GetIntegerValue()
	_, c.HasTotal = total.GetValueType().(*firestorepb.Value_IntegerValue)

	shards, err := db.Documents(ctx, store.Query{Collection: db.ShardsOf(id), At: at})
	if err != nil {
		return nil, fmt.Errorf("shards: %w", err)
	}
	for _, doc := range shards {
		c.Shards = append(c.Shards, decodeShard(doc, db.Fields[0].Shard))
	}
	if !c.Exists && (docs[1] != nil || len(c.Shards) == 0) {
		return nil, nil
	}
	return c, nil
}

// nearest is the integer nearest to a value that is none: a fraction, a number beyond 2⁵³, or digits as a text. It is nil
// of anything else.
func nearest(value *firestorepb.Value) *int64 {
	text := value.GetStringValue()
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return &n
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		f = value.GetDoubleValue()
	}
	if _, double := value.GetValueType().(*firestorepb.Value_DoubleValue); err != nil && !double || math.IsNaN(f) || math.Abs(f) >= math.MaxInt64 {
		return nil
	}
	n := int64(math.Round(f))
	return &n
}

func decodeShard(doc *firestorepb.Document, countField string) Shard {
	s := Shard{ID: path.Base(doc.GetName()), Updated: doc.GetUpdateTime().AsTime()}
	var value *firestorepb.Value
	value, s.Counted = doc.GetFields()[countField]
	var ok bool
	if s.Count, ok = store.Integer(value); !ok {
		s.Bad, s.Nearest = value.String(), nearest(value)
	}
	for _, name := range slices.Sorted(maps.Keys(doc.GetFields())) {
		if _, integer := store.Integer(doc.GetFields()[name]); integer && name != countField {
			s.Others = append(s.Others, name)
		}
	}
	return s
}
