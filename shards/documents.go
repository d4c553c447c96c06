package shards

import (
	"context"
	"fmt"
	"path"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// documents reads the counter's document and its ledger; nil is one that doesn't exist.
func (c Counter) documents(ctx context.Context) (*firestorepb.Document, *ledger.Ledger, error) {
	docs, _, err := c.client.db.Get(ctx, c.client.db.Counter(c.id), c.client.db.LedgerOf(c.id))
	if err != nil {
		return nil, nil, fmt.Errorf("read counter and ledger: %w", err)
	}
	if docs[1] == nil || docs[0] != nil && !ledger.Of(c.client.db.Layout, docs[1], docs[0]) {
		return docs[0], nil, nil // none, or an earlier counter's
	}
	l, err := ledger.Decode(docs[1])
	return docs[0], l, err
}

func (c Counter) shardName(id string) string { return c.client.db.Shard(c.id, id) }

// shard is a shard's document.
type shard struct {
	id      string
	fields  map[string]*firestorepb.Value // those that are counted are integers unless something else wrote them
	updated time.Time
}

// shards reads all shards there are, whatever the counter's document says of their number.
func (c Counter) shards(ctx context.Context) ([]shard, error) { return c.shardsAt(ctx, time.Time{}) }

func (c Counter) shardsAt(ctx context.Context, at time.Time) ([]shard, error) {
	docs, err := c.client.db.Documents(ctx, store.Query{Collection: c.client.db.ShardsOf(c.id), At: at})
	if err != nil {
		return nil, fmt.Errorf("read shards: %w", err)
	}
	shards := make([]shard, len(docs))
	for i, doc := range docs {
		shards[i] = shard{id: path.Base(doc.GetName()), fields: doc.GetFields(), updated: doc.GetUpdateTime().AsTime()}
	}
	return shards, nil
}

// deleteIf is the write that deletes a document that is still the version of that update time.
func deleteIf(name string, updated time.Time) *firestorepb.Write {
	return store.DeleteIf(name, store.UpdatedAtTime(updated))
}

// none is the write that changes nothing, and is there for its condition: that there is no such document.
func none(name string) *firestorepb.Write {
	return store.DeleteIf(name, store.Exists(false))
}
