package shards

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/schema"
)

// documents reads the counter's document and its ledger; nil is one that doesn't exist.
func (c Counter) documents(ctx context.Context) (*firestorepb.Document, *schema.LedgerDoc, error) {
	docs, _, err := c.client.db.Get(ctx, c.client.layout.Counter(c.id), c.client.layout.LedgerOf(c.id))
	if err != nil {
		return nil, nil, fmt.Errorf("read counter and ledger: %w", err)
	}
	if docs[1] == nil {
		return docs[0], nil, nil
	}
	ledger, err := schema.DecodeLedger(docs[1])
	if err == nil && docs[0] != nil && !ledger.Of(docs[0]) {
		ledger = nil // an earlier counter's
	}
	return docs[0], ledger, err
}

// ref is the counter's document for the high-level client. Not by Client.Doc, which takes slashes apart.
func (c Counter) ref() *firestore.DocumentRef {
	return c.client.db.Collection(c.client.layout.Collection).Doc(c.id)
}

func (c Counter) shardName(id string) string { return c.client.layout.Shard(c.id, id) }

// shard is a shard's document.
type shard struct {
	id      string
	count   any // an int64 unless somebody else wrote it; nil where the field is missing
	updated time.Time
}

// shards reads all shards there are, whatever the counter's document says of their number.
func (c Counter) shards(ctx context.Context) ([]shard, error) {
	docs, err := c.ref().Collection(schema.Shards).Documents(ctx).GetAll()
	if err != nil {
		return nil, fmt.Errorf("read shards: %w", err)
	}
	shards := make([]shard, len(docs))
	for i, doc := range docs {
		shards[i] = shard{id: doc.Ref.ID, count: doc.Data()[c.client.layout.CountField], updated: doc.UpdateTime}
	}
	return shards, nil
}

// deleteIf is the write that deletes a document that is still the version of that update time.
func deleteIf(name string, updated time.Time) *firestorepb.Write {
	w := schema.Delete(name)
	w.CurrentDocument = schema.UpdatedAtTime(updated)
	return w
}
