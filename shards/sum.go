package shards

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"path"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// Sum is [Counter.Get] with an exact total: what the counter started from and all its shards, added up on the server at
// one time. It costs two reads and one more per 1,000 shards. Fields that count documents are counted at that time, too, at a
// read per 1,000 documents. Errors: [ErrNotFound], [ErrNotCounted], [ErrNotInteger], or the client
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
	s, ok := c.client.snapshotOf(c.id, docs[0])
	if !ok {
		return s, ErrNotFound
	}
	if !ledger.Of(db.Layout, docs[1], docs[0]) {
		docs[1] = nil // an earlier counter's
	}
	for i, field := range db.Fields {
		parts, err := c.sumField(ctx, field, docs[1], at)
		if err != nil {
			return s, err
		}
		total := saturated(new(big.Int).Add(parts.shards, big.NewInt(parts.base)))
		if i == 0 {
			s.Total = total
		}
		if s.Totals != nil {
			s.Totals[field.Name] = total
		}
	}
	for _, field := range db.Counted {
		counted, err := db.Aggregate(ctx, db.CollectionOf(c.id, field.Counted.Collection), field.Counted, at)
		if err != nil {
			return s, fmt.Errorf("count %s: %w", field, err)
		}
		value, ok := store.Integer(counted.Value)
		if !ok {
			return s, fmt.Errorf("%w: %s", ErrNotInteger, field)
		}
		s.Totals[field.Name] = value
	}
	// A field that is new has shards before it is in the document.
	s.NotCounted = slices.DeleteFunc(s.NotCounted, func(field string) bool {
		return s.Totals[field] != 0 || s.Totals == nil && s.Total != 0
	})
	return s, s.right(len(db.Fields) + len(db.Counted))
}

// parts are what a field's total is made of.
type parts struct {
	shards *big.Int // their sum
	base   int64    // what the ledger says that the total holds beyond them
}

// sumField takes one query per field: one of several sums would leave out shards in which a field is missing.
func (c Counter) sumField(ctx context.Context, field layout.Field, itsLedger *firestorepb.Document, at time.Time) (parts, error) {
	value, err := c.client.db.Sum(ctx, c.client.db.ShardsOf(c.id), field.Shard, at)
	if err != nil {
		return parts{}, err
	}
	total := new(big.Int)
	if sum, is := value.GetValueType().(*firestorepb.Value_IntegerValue); is {
		total.SetInt64(sum.IntegerValue)
	} else if total, err = c.sumShards(ctx, field, at); err != nil {
		return parts{}, err
	}
	base, ok := store.Integer(ledger.Get(itsLedger.GetFields(), field.Name, ledger.FieldBase))
	if !ok {
		return parts{}, fmt.Errorf("%w: its base is not an integer", ErrDamagedLedger)
	}
	return parts{shards: total, base: base}, nil
}

// saturated is a sum as Firestore's own increments have it: beyond an int64 it stays at the largest or smallest one.
func saturated(sum *big.Int) int64 {
	switch {
	case sum.IsInt64():
		return sum.Int64()
	case sum.Sign() > 0:
		return math.MaxInt64
	}
	return math.MinInt64
}

// sumShards adds up the shards as they were at a time. It is for a sum that the server gives as a double: because a shard
// is one, which a client's increment(1.0) makes of it, or because the sum is beyond an int64. A double is exact only up to
// 2⁵³.
func (c Counter) sumShards(ctx context.Context, field layout.Field, at time.Time) (*big.Int, error) {
	docs, err := c.client.db.Documents(ctx, store.Query{Collection: c.client.db.ShardsOf(c.id), At: at})
	if err != nil {
		return nil, err
	}
	sum := new(big.Int)
	for _, doc := range docs {
		value := doc.GetFields()[field.Shard]
		n, ok := store.Integer(value)
		if !ok {
			return nil, fmt.Errorf("%w: shard %s holds %v", ErrNotInteger, path.Base(doc.GetName()), value)
		}
		sum.Add(sum, big.NewInt(n))
	}
	return sum, nil
}
