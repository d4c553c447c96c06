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
	"github.com/firestore-counters/counters/internal/layout"
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
	var gone map[string]bool
	var partly []string
	sent, err := c.db.TransactOnce(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		gone, partly, err = c.plan(ctx, tx, f)
		return err
	})
	switch {
	case errors.Is(err, errHasLimit):
		return c.makeUnlimited(ctx, f)
	case err == nil && len(gone) > 0:
		return f.without(gone)
	case err == nil:
		next := f.answer(outcome{})
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
// to be made. Counters in partly are made without all of their shards. A ledger that it makes has a
// floor before the commit, which may add to the shards.
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
	born, limited := 0, false
	for i, k := range books {
		if s, err := c.snapshotOf(k.Counter, k.Doc); err == nil {
			n[i], s.limited = s.NumShards, k.Limited()
			limited = limited || s.limited
			c.known.put(s, began)
		} else if makes && k.Doc == nil {
			n[i] = c.cfg.NumShards
			born++
		} else {
			gone[k.Counter] = true
			c.known.Remove(k.Counter)
		}
	}
	if len(gone) > 0 {
		return gone, nil, nil
	}
	if limited {
		return nil, nil, errHasLimit
	}
	missing := make([][]string, len(sums)) // shards that may be
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(makingsAtOnce)
	for i, k := range books {
		makes := k.Doc == nil || c.db.Layout.Hosted // that may never have been counted
		if makes || k.Ledger == nil {
			group.Go(func() (err error) {
				if makes {
					missing[i], err = Counter{c, k.Counter}.size(reading, tx, k, n[i], 0, k.At.Add(-time.Microsecond))
				}
				if err == nil && (k.HasLedger() || !makes) { // or [book.Book.Make] has looked
					err = k.CheckUnlimited(reading, tx)
				}
				if s, is := c.snapshotOf(k.Counter, k.Doc); errors.Is(err, ErrLimited) && is == nil { // by its shards: the ledger is lost
					s.limited = true
					c.known.put(s, began)
					return errHasLimit
				}
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

// errHasLimit says that a batch touches a counter with a limit. No shard of one is made for it.
var errHasLimit = errors.New("a counter has a limit")

// makeUnlimited makes what a batch misses of counters without limits, at zero, because it is of another
// counter with a limit, too, and is on a condition.
func (c *Client) makeUnlimited(ctx context.Context, f *batch) step {
	if f.shared() {
		return leave
	}
	var mu sync.Mutex
	gone := map[string]bool{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(makingsAtOnce)
	for _, sum := range f.sums() {
		if len(c.limited(sums{sum})) > 0 {
			continue
		}
		group.Go(func() error {
			err := c.makeOne(ctx, sum.counter)
			if errors.Is(err, ErrNotFound) {
				mu.Lock()
				defer mu.Unlock()
				gone[sum.counter] = true
				return nil
			}
			return err
		})
	}
	switch err := group.Wait(); {
	case len(gone) > 0:
		return f.without(gone)
	case err != nil:
		return f.notLooked(err)
	}
	return sendCommit
}

// makeOne makes what an increment of a counter without a limit misses. Its error is [ErrNotFound] where that is the
// counter, and it isn't to be made.
func (c *Client) makeOne(ctx context.Context, counter string) error {
	of := Counter{c, counter}
	err := of.setShards(ctx, 0, func(is int) int { return is })
	if errors.Is(err, ErrLimited) { // since it was read
		c.known.Remove(counter)
		_, err = c.resolve(ctx, counter)
	}
	if !errors.Is(err, ErrNotFound) || !c.cfg.AutoCreate {
		return err
	}
	if err := of.create(ctx, CreateOptions{}); err != nil && !errors.Is(err, ErrExists) {
		return err
	}
	_, err = c.resolve(ctx, counter)
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
		s, k, _, err := c.unlimited(ctx, tx)
		if err != nil {
			return err
		}
		n := change(s.NumShards)
		missing, err := c.size(ctx, tx, k, n, 0, time.Time{})
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
func (c Counter) size(ctx context.Context, tx *store.Tx, k *book.Book, n int, total int64, floor time.Time) (missing []string, err error) {
	for i := book.NumShards(c.client.db.Layout, k.Doc); i < n; i++ {
		missing = append(missing, c.shardName(layout.ShardID(i)))
	}
	return missing, k.Make(ctx, tx, n, total, floor)
}

// createMissing makes those of the shards that are missing, at zero.
func (c *Client) createMissing(ctx context.Context, tx *store.Tx, names []string) error {
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
