package shards

import (
	"context"
	"fmt"
	"path"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/command"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// once carries a transaction out once, however often its body is tried. A marker goes with its commit:
// where the answer is lost, the next try finds it, whatever has become of the rest since.
func (c *Client) once(ctx context.Context, body func(ctx context.Context, tx *store.Tx, try int) error) error {
	id, try := command.NewID(), 0
	return c.db.Transact(ctx, func(ctx context.Context, tx *store.Tx) error {
		docs, _, err := tx.Get(ctx, c.db.Request(id))
		if err != nil || docs[0] != nil {
			return err
		}
		try++
		if err := body(ctx, tx, try); err != nil {
			return err
		}
		tx.Write(c.marks(id, marker{batch: id}))
		return nil
	})
}

// inSteps makes one transaction after another, as long as there is more to do. A step is told how
// often it is tried, and returns how many documents it takes off; progress, which may be nil, hears
// how many are by then.
func (c Counter) inSteps(ctx context.Context, progress func(removed int), step func(ctx context.Context, tx *store.Tx, try int) (n int, more bool, err error)) error {
	for removed, more := 0, true; more; {
		n := 0
		err := c.client.once(ctx, func(ctx context.Context, tx *store.Tx, try int) (err error) {
			n, more, err = step(ctx, tx, try)
			return err
		})
		if err != nil {
			return err
		}
		if removed += n; n > 0 && progress != nil {
			progress(removed)
		}
	}
	return nil
}

// existing gets the counter's document, which must be there, and others after it, all as of one
// time.
func (c Counter) existing(ctx context.Context, get func(context.Context, ...string) ([]*firestorepb.Document, time.Time, error), others ...string) (s Snapshot, docs []*firestorepb.Document, at time.Time, err error) {
	docs, at, err = get(ctx, append([]string{c.client.db.Counter(c.id)}, others...)...)
	if err == nil {
		s, err = c.client.snapshotOf(c.id, docs[0])
	}
	return s, docs, at, err
}

func (c Counter) shardName(id string) string { return c.client.db.Shard(c.id, id) }

// shardDocuments reads all shards there are, whatever the counter's document says of their number,
// as they were at a time; the zero time is now.
func (c Counter) shardDocuments(ctx context.Context, at time.Time) ([]*firestorepb.Document, error) {
	docs, err := c.client.db.Documents(ctx, store.Query{Collection: c.client.db.ShardsOf(c.id), At: at})
	if err != nil {
		return nil, fmt.Errorf("read shards: %w", err)
	}
	return docs, nil
}

// uneven has a transaction that takes something off shards say so in the counter's ledger, which it
// has read, where there is one.
func (c Counter) uneven(tx *store.Tx, itsLedger *firestorepb.Document) {
	if itsLedger != nil {
		tx.Write(c.client.db.Uneven(c.id))
	}
}

// someMembers reads memberships of fields, at most that many.
func (c Counter) someMembers(ctx context.Context, fields layout.Fields, most int, read func(context.Context, store.Query) ([]*firestorepb.Document, error)) (docs []*firestorepb.Document, err error) {
	for _, field := range fields {
		if len(docs) == most {
			break
		}
		of, err := read(ctx, store.Query{Collection: c.client.db.MembersOf(c.id, field.Name), Limit: most - len(docs)})
		if err != nil {
			return nil, fmt.Errorf("read members: %w", err)
		}
		docs = append(docs, of...)
	}
	return docs, nil
}

// atOnce is how many members or shards are taken off in one commit, beside the shard that what they
// held is taken from or goes to, and what the commit notes.
const atOnce = maxWrites - 5

// takeOff are the writes that take members off, which a transaction has read: their memberships,
// and as many off shard 0. Where they were counted is all the same: a field is what its shards add
// up to.
func (c Counter) takeOff(members []*firestorepb.Document, fields layout.Fields) (writes []*firestorepb.Write) {
	of := map[string]int64{} // :: collection of memberships → how many of it go
	for _, m := range members {
		writes = append(writes, store.Delete(m.GetName()))
		of[path.Dir(m.GetName())]++
	}
	var transforms []*firestorepb.DocumentTransform_FieldTransform
	for _, field := range fields {
		if n := of[c.client.db.MembersOf(c.id, field.Name)]; n > 0 {
			transforms = append(transforms, store.Increment(layout.FieldPath(field.Shard), -n))
		}
	}
	return append(writes, store.Update(c.shardName(layout.ShardID(0)), nil, nil, nil, transforms...))
}
