package shards

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/store"
)

// insistent is how long a change of a counter that may take several commits goes on: about fifteen
// seconds for each.
var insistent = store.Patience{Conflicts: 20, Doubts: 20}

// repeat commits what a plan asks for, until there is nothing left to do.
func (c *Client) repeat(ctx context.Context, plan func(context.Context) ([]*firestorepb.Write, error)) error {
	for {
		resp, err := c.db.Settle(ctx, insistent, plan)
		if err != nil || resp == nil {
			return err
		}
	}
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

// someMembers reads memberships of the counter's fields, at most that many, as they were at a time;
// the zero time is now.
func (c Counter) someMembers(ctx context.Context, most int, at time.Time) (docs []*firestorepb.Document, err error) {
	for _, field := range c.client.db.Fields {
		if len(docs) == most {
			break
		}
		of, err := c.client.db.Documents(ctx, store.Query{Collection: c.client.db.MembersOf(c.id, field.Name), Limit: most - len(docs), At: at})
		if err != nil {
			return nil, fmt.Errorf("read members: %w", err)
		}
		docs = append(docs, of...)
	}
	return docs, nil
}

// deleteUnchanged is the write that deletes a document that is still the version that was read.
func deleteUnchanged(doc *firestorepb.Document) *firestorepb.Write {
	return store.DeleteIf(doc.GetName(), store.UpdatedAtTime(doc.GetUpdateTime().AsTime()))
}
