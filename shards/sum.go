package shards

import (
	"context"
	"fmt"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/ledger"
)

// Sum is [Counter.Get] with an exact total: what the counter started from and all its shards, added up on the server at
// one time. It costs two reads and one more per 1,000 shards. Errors: [ErrNotFound], [ErrNotInteger], or the client
// library's.
func (c Counter) Sum(ctx context.Context) (Snapshot, error) {
	s, err := c.sum(ctx)
	if err != nil {
		return Snapshot{}, fmt.Errorf("sum counter %q: %w", c.id, err)
	}
	return s, nil
}

func (c Counter) sum(ctx context.Context) (Snapshot, error) {
	db := c.client.db
	docs, at, err := db.Get(ctx, db.Counter(c.id), db.LedgerOf(c.id))
	if err != nil {
		return Snapshot{}, err
	}
	s, ok := snapshotOf(c.id, docs[0])
	if !ok {
		return s, ErrNotFound
	}
	value, err := db.Sum(ctx, db.ShardsOf(c.id), db.CountField, at)
	if err != nil {
		return s, err
	}
	sum, ok := value.GetValueType().(*firestorepb.Value_IntegerValue)
	if !ok {
		return s, fmt.Errorf("%w, or their sum is no int64", ErrNotInteger)
	}
	s.Total = sum.IntegerValue
	if ledger.Of(docs[1], docs[0]) {
		s.Total += docs[1].GetFields()[ledger.FieldBase].GetIntegerValue()
	}
	return s, nil
}
