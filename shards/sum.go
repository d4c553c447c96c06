package shards

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// Sum is [Counter.Get] with an exact total: what the counter started from and all its shards, added up
// on the server at one time. It costs two reads and one per 1,000 shards, and for fields such as
// comments=count(comments) one per 1,000 documents. There is one sum of a counter at a time; who asks
// meanwhile shares the next one. Errors: [ErrNotFound], [ErrNotCounted], [ErrNotInteger], or the client
// library's.
func (c Counter) Sum(ctx context.Context) (s Snapshot, err error) {
	err = c.call("sum", func() (err error) { s, err = c.shared(ctx); return err })
	return s, err
}

// shared shares a sum with all who ask before it has begun. Later ones may have added something.
func (c Counter) shared(ctx context.Context) (Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return Snapshot{}, err
	}
	return share(ctx, &c.client.exact, c.id, func(ctx context.Context) (Snapshot, error) {
		over, err := c.client.turns.take(ctx, c.client.db.Layout.Counter(c.id))
		if err != nil {
			return Snapshot{}, err
		}
		defer over()
		c.client.exact.Forget(c.id)
		return c.sum(ctx)
	})
}

func (c Counter) sum(ctx context.Context) (Snapshot, error) {
	db := c.client.db
	s, at, of, err := c.parts(ctx)
	if err != nil {
		return s, err
	}
	for i, field := range db.Layout.Fields {
		c.client.set(&s, field, store.Int(of[i].total()))
	}
	for _, field := range db.Layout.Counted {
		counted, err := db.Aggregate(ctx, c.id, field.Counted, at)
		if err != nil {
			return s, fmt.Errorf("count %s: %w", field, err)
		}
		s.Reads += counted.Reads()
		if _, ok := store.Integer(counted.Value); field.Integer() && !ok {
			return s, fmt.Errorf("%w: %s", ErrNotInteger, field)
		}
		c.client.set(&s, field, counted.Value)
	}
	s.subtract()
	// A field that is new has shards before it is in the document, and a query has just been asked.
	s.NotCounted = slices.DeleteFunc(s.NotCounted, func(name string) bool {
		_, sum := db.Layout.Field(name)
		return !sum || s.total(name) != 0
	})
	return s, c.client.countsAny(s)
}

// parts are what a field's total is made of.
type parts struct {
	shards []int64 // what they hold, or their sum alone
	base   int64   // what the ledger says that the total holds beyond them
}

func (p parts) total() int64 { return ledger.Add(append(p.shards, p.base)...) }

// parts reads what the counter's fields of shards are made of, in their order, all as of one time.
func (c Counter) parts(ctx context.Context) (s Snapshot, at time.Time, of []parts, err error) {
	db := c.client.db
	s, k, _, err := c.existing(ctx, db)
	if k != nil {
		s.Reads, at = 2, k.At
	}
	if err == nil {
		err = k.Unusable
	}
	if err != nil {
		return s, at, nil, err
	}
	of = make([]parts, len(db.Layout.Fields))
	for i, field := range db.Layout.Fields {
		if k.Ledger != nil {
			of[i].base = k.Ledger.Base[field.Shard]
		}
		var reads int64
		of[i].shards, reads, err = c.sumField(ctx, field, at)
		if s.Reads += reads; err != nil {
			return s, at, nil, err
		}
	}
	return s, at, of, nil
}

// sumField takes one query per field: one of several sums would leave out shards in which a
// field is missing.
func (c Counter) sumField(ctx context.Context, field layout.Field, at time.Time) (shards []int64, reads int64, err error) {
	value, err := c.client.db.Sum(ctx, c.client.db.Layout.ShardsOf(c.id), field.Shard, at)
	if err != nil {
		return nil, 1, err
	}
	if store.IsInteger(value) {
		return []int64{value.GetIntegerValue()}, 1, nil
	}
	// The sum is a double if a shard is one, as a client's increment(1.0) makes it, and beyond the
	// int64s. It is exact only up to 2⁵³, so the shards are read as they were at that time.
	docs, err := c.shards(ctx, at)
	reads = 1 + int64(len(docs))
	if err != nil {
		return nil, reads, err
	}
	for _, doc := range docs {
		value := doc.GetFields()[field.Shard]
		n, ok := store.Integer(value)
		if !ok {
			return nil, reads, fmt.Errorf("%w: shard %s holds %v", ErrNotInteger, store.IDOf(doc.GetName()), value)
		}
		shards = append(shards, n)
	}
	return shards, reads, nil
}
