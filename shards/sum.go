package shards

import (
	"context"
	"fmt"
	"slices"
	"time"

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
		c.client.set(&s, field, store.Int(of[i].total))
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
	s.AsOf = at
	s.subtract()
	// A field that is new has shards before it is in the document, and a query has just been asked.
	s.NotCounted = slices.DeleteFunc(s.NotCounted, func(name string) bool {
		_, sum := db.Layout.Field(name)
		return !sum || s.total(name) != 0 || slices.Contains(s.kept, name)
	})
	return s, c.client.countsAny(s)
}

// parts are what a field's total is made of.
type parts struct {
	total  int64
	shards int64 // the whole part of what they hold together
	base   int64 // what the total holds beyond them
}

// parts reads what the counter's fields of shards are made of, in their order, all as of one time.
func (c Counter) parts(ctx context.Context) (s Snapshot, at time.Time, of []parts, err error) {
	db := c.client.db
	s, b, _, err := c.existing(ctx, db)
	if b != nil {
		s.Reads, at = 2, b.At
	}
	if err == nil {
		err = b.Unusable
	}
	if err != nil {
		return s, at, nil, err
	}
	b = b.Keeping(db.Layout.Fields.Names())
	of = make([]parts, len(db.Layout.Fields))
	for i, field := range db.Layout.Fields {
		a, err := c.client.books.Sum(ctx, c.id, field, at)
		if s.Reads++; err != nil {
			return s, at, nil, err
		}
		total, ok := b.Base.Total(field, a.Value)
		if !ok {
			return s, at, nil, fmt.Errorf("%w: the sum of %s is %v, and %d beyond its shards: set right what they hold", ErrNotInteger, field.Shard, a.Value, b.Base.Counts[field.Shard])
		}
		base := b.Base.Counts[field.Shard]
		of[i] = parts{total: total, shards: total - base, base: base}
	}
	return s, at, of, nil
}
