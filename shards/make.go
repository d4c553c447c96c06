package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/seats"
	"github.com/firestore-counters/counters/internal/store"
)

// makingsAtOnce is how many counters of a call are made side by side.
const makingsAtOnce = 16

// makeMissing commits a batch in a transaction that makes what is missing for it: shards, or with
// AutoCreate counters. So if nothing is counted, nothing is made; no deleted counter gets a shard, and
// none gets one back that a resize has removed.
func (c *Client) makeMissing(ctx context.Context, f *batch) step {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout/2)
	defer cancel()
	if f.limited {
		return c.makeLimited(ctx, f)
	}
	var gone map[string]bool
	var partly []string
	at, sent, err := c.db.TransactOnce(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		gone, partly, err = c.plan(ctx, tx, f)
		return err
	})
	switch {
	case err == nil && len(gone) > 0:
		return f.without(gone)
	case err == nil:
		next := f.answer(outcome{at: at})
		c.complete(partly)
		return next
	case store.IsTooLarge(err) && c.db.Layout.Hosted:
		return f.giveUp(nil, fmt.Errorf("%w: %w", ErrFull, err))
	case !sent && (!store.FromFirestore(err) || store.KindOf(err) == store.Permanent):
		return f.giveUp(nil, err)
	case !sent:
		return f.failure(err)
	case store.KindOf(err) == store.Conflict: // whatever document it is that is in the way
		f.conflict = err
		return readMarkers
	}
	c.logDoubt(f, err)
	return f.failed(err)
}

// plan writes a batch and what it takes, unless counters are gone: those that don't exist, and aren't
// to be made. Counters in partly are made without all of their shards.
func (c *Client) plan(ctx context.Context, tx *store.Tx, f *batch) (gone map[string]bool, partly []string, err error) {
	sums := f.sums()
	began := time.Now()
	books, _, err := c.books.Get(ctx, tx, sums.counters())
	if err != nil {
		return nil, nil, err
	}
	gone = map[string]bool{}
	n := make([]int, len(sums)) // of shards
	// nothing is made for those who leave
	makes := c.cfg.AutoCreate && slices.ContainsFunc(f.requests, func(r *request) bool { return r.member == nil || r.member.join })
	born := 0
	for i, b := range books {
		if err := b.CheckSettings(); err != nil {
			return nil, nil, err
		}
		if s, err := c.snapshotOf(b.Counter, b.Doc); err == nil && !b.Deleting() {
			n[i] = s.NumShards
			c.known.put(s, began)
		} else if makes && b.Doc == nil && !b.Deleting() {
			n[i] = c.cfg.NumShards
			born++
		} else {
			gone[b.Counter] = true
			c.known.Remove(b.Counter)
		}
	}
	if len(gone) > 0 {
		return gone, nil, nil
	}
	missing := make([][]string, len(sums)) // shards that may be
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(makingsAtOnce)
	for i, b := range books {
		if b.Doc == nil || c.db.Layout.Hosted { // that may never have been counted
			group.Go(func() (err error) {
				missing[i], err = Counter{c, b.Counter}.size(reading, tx, b, n[i], 0)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	whole := born*(c.cfg.NumShards+2) <= maxWrites
	var shards []string
	for i, sum := range sums {
		f.pick(sum.counter, n[i])
		shards = append(shards, c.pickedShard(f, sum.counter))
		if books[i].Doc == nil && !whole {
			partly = append(partly, sum.counter)
		} else {
			shards = append(shards, missing[i]...)
		}
	}
	if err := c.createMissing(ctx, tx, shards); err != nil {
		return nil, nil, err
	}
	tx.Write(c.writes(f, sums)...)
	return nil, partly, nil
}

// makeLimited makes what a batch misses that counts in fields with limits, which is on a condition: counters, if they
// are to be made, and shards, at zero. It counts nothing.
func (c *Client) makeLimited(ctx context.Context, f *batch) step {
	gone := map[string]bool{}
	var mu sync.Mutex
	err := each(f.sums(), func(s sum) error {
		err := c.makeOne(ctx, s)
		if errors.Is(err, ErrNotFound) {
			mu.Lock()
			defer mu.Unlock()
			gone[s.counter], err = true, nil
		}
		return err
	})
	switch {
	case len(gone) > 0:
		return f.without(gone)
	case err != nil:
		return f.notLooked(err)
	}
	return sendCommit
}

// makeOne makes what an increment of a counter misses. Its error is [ErrNotFound] where that is the counter, and it
// isn't to be made.
func (c *Client) makeOne(ctx context.Context, s sum) error {
	of := Counter{c, s.counter}
	err := c.db.Transact(ctx, func(ctx context.Context, tx *store.Tx) error {
		books, _, err := c.books.Get(ctx, tx, []string{s.counter})
		if err != nil {
			return err
		}
		b := books[0]
		if err := b.CheckSettings(); err != nil {
			return err
		}
		if b.Deleting() {
			return ErrNotFound
		}
		snapshot, err := c.snapshotOf(s.counter, b.Doc)
		n := snapshot.NumShards
		if err != nil {
			if n = c.cfg.NumShards; b.Doc != nil || !c.cfg.AutoCreate {
				return err
			}
		}
		missing, err := of.size(ctx, tx, b, n, 0)
		if err != nil {
			return err
		}
		for _, a := range s.amounts {
			field, _ := c.db.Layout.Fields.Sum(a.field)
			if field.Limit == nil {
				for i := range n {
					missing = append(missing, of.shardName(layout.ShardID(i)))
				}
				continue
			}
			there, err := tx.Documents(ctx, seats.Shards(c.db.Layout, s.counter, field, time.Time{}))
			if err != nil {
				return fmt.Errorf("read shards: %w", err)
			}
			if len(there) > 0 {
				continue
			}
			earlier, err := hold.In(c.db).Earlier(ctx, tx, s.counter, field.Shard, time.Time{})
			if err != nil {
				return err
			}
			tx.Write(append(seats.Make(c.db.Layout, s.counter, field, n, *field.Limit), earlier...)...)
		}
		return c.createMissing(ctx, tx, missing)
	})
	if err == nil {
		_, err = c.resolve(ctx, s.counter)
	}
	return err
}

// complete makes the shards that counters were made without, because many at once are too much for a
// commit. Clients that write shards themselves update existing ones. If that fails, later increments
// make what they need.
func (c *Client) complete(counters []string) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(makingsAtOnce)
	for _, id := range counters {
		group.Go(func() error {
			err := Counter{c, id}.setShards(ctx, 0, func(is int) int { return is })
			if errors.Is(err, ErrNotFound) {
				return nil // deleted since: no shard comes back
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		c.log.Warn("shards of new counters are made by their increments", "counters", len(counters), "error", err)
	}
}

// setShards sets the counter's number of shards to what change makes of it, and makes missing ones from
// number from on, so that clients which only know the public layout find them. It is one transaction,
// and may run twice.
func (c Counter) setShards(ctx context.Context, from int, change func(was int) int) error {
	return c.client.db.Transact(ctx, func(ctx context.Context, tx *store.Tx) error {
		s, b, _, err := c.existing(ctx, tx)
		if err != nil {
			return err
		}
		n := change(s.NumShards)
		missing, err := c.size(ctx, tx, b, n, 0)
		if err != nil {
			return err
		}
		for i := from; i < min(s.NumShards, n); i++ {
			missing = append(missing, c.shardName(layout.ShardID(i)))
		}
		return c.client.createMissing(ctx, tx, missing)
	})
}

// size gives the counter n shards, and what else it takes to be counted, in a transaction that has read
// its book: see [book.Book.Make]. It returns the shards that may be missing.
func (c Counter) size(ctx context.Context, tx *store.Tx, b *book.Book, n int, total int64) (missing []string, err error) {
	for i := book.NumShards(c.client.db.Layout, b.Doc); i < n; i++ {
		missing = append(missing, c.shardName(layout.ShardID(i)))
	}
	if b.Doc == nil && !b.HasBase() {
		err = c.endEarlier(ctx, tx)
	}
	if err != nil {
		return nil, err
	}
	return missing, b.Make(ctx, tx, n, total)
}

// endEarlier ends open holds of fields without a limit, in a transaction that makes a counter which has neither document nor
// base. If it has no shards either, somebody has deleted these one by one: nothing comes back to the counter's next life.
func (c Counter) endEarlier(ctx context.Context, tx *store.Tx) error {
	any := store.Query{Collection: c.client.db.Layout.ShardsOf(c.id), Limit: 1, Names: true}
	there, err := tx.Documents(ctx, any)
	if err != nil || len(there) > 0 {
		return err
	}
	for _, field := range c.client.db.Layout.Plain() {
		earlier, err := hold.In(c.client.db).Earlier(ctx, tx, c.id, field.Shard, time.Time{})
		if err != nil {
			return err
		}
		tx.Write(earlier...)
	}
	return nil
}

// createMissing makes those of the shards that are missing, at zero.
func (c *Client) createMissing(ctx context.Context, tx *store.Tx, names []string) error {
	if len(c.db.Layout.Plain()) == 0 {
		return nil
	}
	slices.Sort(names)
	names = slices.Compact(names)
	docs, _, err := tx.Get(ctx, names...)
	if err != nil {
		return err
	}
	for i, doc := range docs {
		if doc == nil {
			tx.Write(store.Create(names[i], c.zero(names[i]).GetFields()))
		}
	}
	return nil
}
