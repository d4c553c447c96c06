package shards

import (
	"context"
	"fmt"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/schema"
)

// Sum is [Counter.Get] with an exact total: what the counter started from and all its shards, added up on the server at
// one time. It costs two reads and one more per 1,000 shards. Errors: [ErrNotFound], [ErrNotInteger], or the client
// library's.
func (c Counter) Sum(ctx context.Context) (Snapshot, error) {
	var s Snapshot
	err := c.client.atOneTime(ctx, func(tx *firestore.Transaction) error {
		docs, err := tx.GetAll([]*firestore.DocumentRef{c.ref(), c.ref().Collection(schema.Rollup).Doc(schema.Ledger)})
		if err != nil {
			return err
		}
		var ok bool
		if s, ok = snapshotOf(c.id, docs[0]); !ok {
			return ErrNotFound
		}
		const alias = "sum"
		result, err := c.ref().Collection(schema.Shards).NewAggregationQuery().Transaction(tx).
			WithSumPath(firestore.FieldPath{c.client.layout.CountField}, alias).Get(ctx)
		if err != nil {
			return err
		}
		sum, ok := result[alias].(*firestorepb.Value).GetValueType().(*firestorepb.Value_IntegerValue)
		if !ok {
			return fmt.Errorf("%w, or their sum is no int64", ErrNotInteger)
		}
		s.Total = sum.IntegerValue
		if docs[1].Exists() && docs[1].Data()[schema.LedgerDocID] == docs[0].Data()[schema.LedgerID] { // see LedgerDoc.Of
			base, _ := docs[1].Data()[schema.LedgerBase].(int64)
			s.Total += base
		}
		return nil
	})
	if err != nil {
		return Snapshot{}, fmt.Errorf("sum counter %q: %w", c.id, err)
	}
	return s, nil
}

// atOneTime calls read, in which all reads by the transaction see the database at the same moment, without locks.
func (c *Client) atOneTime(ctx context.Context, read func(*firestore.Transaction) error) error {
	done := false
	err := c.db.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		err := read(tx)
		done = err == nil
		return err
	}, firestore.ReadOnly)
	if done { // the commit of what only reads may fail as others do, and means nothing
		return nil
	}
	return err
}
