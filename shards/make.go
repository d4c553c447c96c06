package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// makingsAtOnce is how many counters of a call are made side by side.
const makingsAtOnce = 16

// makeMissing commits a batch in a transaction that makes what is missing for it: shards, or with
// AutoCreate counters. So where nothing is counted, nothing is made that nobody may ask for again,
// no deleted counter gets a shard, and none gets back a shard that a resize has removed.
func (c *Client) makeMissing(ctx context.Context, f *inFlight) step {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout/2)
	defer cancel()
	var gone map[string]bool
	var partly []string
	sent, err := c.db.TransactOnce(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		gone, partly, err = c.plan(ctx, tx, f)
		return err
	})
	switch {
	case err == nil && len(gone) > 0:
		return f.without(gone)
	case err == nil:
		next := f.answer(outcome{})
		c.complete(partly)
		return next
	case store.IsTooLarge(err) && c.db.Hosted:
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

// plan writes a batch and what it takes, unless counters are gone: those that don't exist, and are
// not to be made. Others are made partly, without all of their shards. A ledger that it makes is as
// of a floor before the commit, which may add to the shards.
func (c *Client) plan(ctx context.Context, tx *store.Tx, f *inFlight) (gone map[string]bool, partly []string, err error) {
	sums := f.sums()
	var names []string
	for _, sum := range sums {
		names = append(names, c.db.Counter(sum.counter), c.db.LedgerOf(sum.counter))
	}
	began := time.Now()
	docs, at, err := tx.Get(ctx, names...)
	if err != nil {
		return nil, nil, err
	}
	gone = map[string]bool{}
	n := make([]int, len(sums)) // of shards
	// nothing is made for those who leave
	makes := c.cfg.AutoCreate && slices.ContainsFunc(f.requests, func(r *request) bool { return r.member == nil || r.member.join })
	born := 0
	for i, sum := range sums {
		if s, err := c.snapshotOf(sum.counter, docs[2*i]); err == nil {
			n[i] = s.NumShards
			c.known.put(s, began)
		} else if makes && docs[2*i] == nil {
			n[i] = c.cfg.NumShards
			born++
		} else {
			gone[sum.counter] = true
			c.known.Remove(sum.counter)
		}
	}
	if len(gone) > 0 {
		return gone, nil, nil
	}
	missing := make([][]string, len(sums)) // shards that may be
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(makingsAtOnce)
	for i, sum := range sums {
		if doc := docs[2*i]; doc == nil || c.db.Hosted { // that may never have been counted
			group.Go(func() (err error) {
				missing[i], err = Counter{c, sum.counter}.size(reading, tx, doc, docs[2*i+1], n[i], 0, at.Add(-time.Microsecond))
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
		if docs[2*i] == nil && !whole {
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

// complete makes the shards that counters were made without: of many at once, all of them are too
// much for a commit. Clients that write by themselves update shards that exist. Where that fails,
// later increments make those that they need.
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

// size has a transaction give a counter n shards, and what else it takes to be counted: its
// document and its ledger, from total on where that is not 0, and made as of a floor where that is
// not zero. It returns those shards that may be missing.
func (c Counter) size(ctx context.Context, tx *store.Tx, doc, itsLedger *firestorepb.Document, n int, total int64, floor time.Time) (missing []string, err error) {
	db := c.client.db
	was := db.NumShards(doc)
	var l *ledger.Ledger
	if doc == nil || db.Hosted && itsLedger == nil { // by which the next reconcile finds one whose every event gets lost
		if l, err = c.ledger(ctx, tx, doc, itsLedger, total, floor); err != nil {
			return nil, err
		}
	}
	switch {
	case doc == nil:
		fields := db.View(l)
		if n > 0 { // or else none is summed up; should one be, later, the client's number holds
			fields[layout.NumShards] = store.Int(int64(n))
		}
		tx.Write(store.Create(db.Counter(c.id), fields, store.ServerTime(layout.CreatedAt), store.ServerTime(layout.UpdatedAt)))
	case n != was:
		own := map[string]*firestorepb.Value{layout.NumShards: store.Int(int64(n))}
		if db.Own(doc)[layout.NumShardsLegacy] != nil { // its clients read that one
			own[layout.NumShardsLegacy] = store.Int(int64(n))
		}
		if db.Hosted {
			own = map[string]*firestorepb.Value{layout.Rollup: store.Map(own)}
		}
		tx.Write(store.Update(db.Counter(c.id), store.Exists(true), own, nil))
	}
	for i := was; i < n; i++ {
		missing = append(missing, c.shardName(layout.ShardID(i)))
	}
	return missing, nil
}

// createMissing makes those of the named shards that are not there, at zero.
func (c *Client) createMissing(ctx context.Context, tx *store.Tx, names []string) error {
	slices.Sort(names)
	names = slices.Compact(names)
	docs, _, err := tx.Get(ctx, names...)
	if err != nil {
		return err
	}
	for i, doc := range docs {
		if doc == nil {
			tx.Write(store.Create(names[i], c.db.NoCounts()))
		}
	}
	return nil
}
