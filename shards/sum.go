package shards

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"path"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
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
	total := new(big.Int)
	if sum, is := value.GetValueType().(*firestorepb.Value_IntegerValue); is {
		total.SetInt64(sum.IntegerValue)
	} else if total, err = c.sumShards(ctx, at); err != nil {
		return s, err
	}
	if ledger.Of(docs[1], docs[0]) {
		base, ok := store.Integer(docs[1].GetFields()[ledger.FieldBase])
		if !ok {
			return s, fmt.Errorf("%w: its base is not an integer", ErrDamagedLedger)
		}
		total.Add(total, big.NewInt(base))
	}
	switch {
	case total.IsInt64():
		s.Total = total.Int64()
	case total.Sign() > 0:
		s.Total = math.MaxInt64
	default:
		s.Total = math.MinInt64
	}
	return s, nil
}

// sumShards adds up the shards as they were at a time. It is for a sum that the server gives as a double: because a shard
// is one, which a client's increment(1.0) makes of it, or because the sum is beyond an int64. A double is exact only up to
// 2⁵³.
func (c Counter) sumShards(ctx context.Context, at time.Time) (*big.Int, error) {
	docs, err := c.client.db.Documents(ctx, store.Query{Collection: c.client.db.ShardsOf(c.id), At: at})
	if err != nil {
		return nil, err
	}
	sum := new(big.Int)
	for _, doc := range docs {
		value := doc.GetFields()[c.client.db.CountField]
		n, ok := store.Integer(value)
		if !ok {
			return nil, fmt.Errorf("%w: shard %s holds %v", ErrNotInteger, path.Base(doc.GetName()), value)
		}
		sum.Add(sum, big.NewInt(n))
	}
	return sum, nil
}
