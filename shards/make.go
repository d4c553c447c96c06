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
	"github.com/firestore-counters/counters/internal/store"
)

// makingsAtOnce is how many counters of a call are made side by side.
const makingsAtOnce = 16

// making is what a transaction has found that makes what is missing for a batch.
type making struct {
	gone   map[string]bool // counters that don't exist, and are not to be made: nothing is written
	partly []string        // counters that are made without all of their shards
}

// makeMissing commits a batch in a transaction that makes what is missing for it: shards, or with
// AutoCreate counters. So where nothing is counted, nothing is made that nobody may ask for again,
// no deleted counter gets a shard, and none gets back a shard that a resize has removed.
func (c *Client) makeMissing(ctx context.Context, f *inFlight) step {
	if ctx.Err() != nil {
		return f.giveUp(ErrBusy, ctx.Err())
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout/2)
	defer cancel()
	var m *making
	sent, err := c.db.TransactOnce(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		m, err = c.plan(ctx, tx, f)
		return err
	})
	switch {
	case err == nil && len(m.gone) > 0:
		return f.without(m.gone)
	case err == nil:
		f.applied()
		c.complete(m.partly)
		return finished
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

// plan writes a batch and what it takes.
func (c *Client) plan(ctx context.Context, tx *store.Tx, f *inFlight) (*making, error) {
	m, sums := &making{gone: map[string]bool{}}, f.sums()
	var names []string
	for _, sum := range sums {
		names = append(names, c.db.Counter(sum.counter), c.db.LedgerOf(sum.counter))
	}
	began := time.Now()
	docs, at, err := tx.Get(ctx, names...)
	if err != nil {
		return nil, err
	}
	// nothing is made for those who leave
	makes := c.cfg.AutoCreate && slices.ContainsFunc(f.requests, func(r *request) bool { return r.member == nil || r.member.join })
	born := 0
	for i, sum := range sums {
		if s, there := c.snapshotOf(sum.counter, docs[2*i]); there {
			c.known.put(s, began)
		} else if makes && docs[2*i] == nil {
			born++
		} else {
			m.gone[sum.counter] = true
			c.known.Remove(sum.counter)
		}
	}
	if len(m.gone) > 0 {
		return m, nil
	}
	needs := make([]needs, len(sums))
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(makingsAtOnce)
	for i, sum := range sums {
		group.Go(func() (err error) {
			needs[i], err = Counter{c, sum.counter}.needs(reading, tx, docs[2*i], docs[2*i+1], at.Add(-time.Microsecond))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	whole := born*(c.cfg.NumShards+2) <= maxWrites
	last := f.picked
	f.picked = make(picks, len(sums))
	var shards []string
	holds := map[string]map[string]*firestorepb.Value{}
	for i, sum := range sums {
		f.picked[sum.counter] = pickShard(needs[i].n, sum.counter, last)
		name := c.pickedShard(f, sum)
		fields := c.db.NoCounts()
		for _, by := range sum.fields {
			fields[c.shardField(by.Field)] = store.Int(by.By)
		}
		holds[name] = fields
		if docs[2*i] == nil && !whole {
			m.partly = append(m.partly, sum.counter)
			needs[i].shards = nil
		}
		shards = append(shards, needs[i].shards...)
		if !slices.Contains(needs[i].shards, name) {
			shards = append(shards, name)
		}
	}
	made, err := c.createMissing(ctx, tx, shards, holds)
	if err != nil {
		return nil, err
	}
	tx.Write(c.writes(f, sums, made)...)
	return m, nil
}

// needs are what a batch takes of a counter.
type needs struct {
	n      int      // how many shards it has, or gets
	shards []string // those that may be missing
}

// needs has a transaction make what a counter takes besides shards. A ledger that it makes is as of
// a floor before the commit, which may add to the shards.
func (c Counter) needs(ctx context.Context, tx *store.Tx, doc, itsLedger *firestorepb.Document, floor time.Time) (of needs, err error) {
	db := c.client.db
	if doc != nil {
		s, _ := c.client.snapshotOf(c.id, doc)
		of.n = s.NumShards
		if db.Hosted { // it may never have been counted
			of.shards, err = c.size(ctx, tx, doc, itsLedger, of.n, floor)
		}
		return of, err
	}
	l, err := c.ledger(ctx, tx, itsLedger, 0, floor)
	if err != nil {
		return of, err
	}
	of.n = c.client.cfg.NumShards
	of.shards = c.make(tx, l, of.n)
	return of, nil
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
			_, err := Counter{c, id}.setShards(ctx, 0, func(is int) int { return is })
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

// size has a transaction give a counter that exists n shards, and what else it takes to be counted;
// it returns those shards that may be missing.
func (c Counter) size(ctx context.Context, tx *store.Tx, doc, itsLedger *firestorepb.Document, n int, floor time.Time) (missing []string, err error) {
	db := c.client.db
	if db.Hosted && itsLedger == nil {
		// By its ledger the next reconcile finds the counter, where every event gets lost.
		l, _, err := tx.Adopt(ctx, c.id, doc)
		if err != nil {
			return nil, err
		}
		l.Floor = floor
		tx.CreateLedger(c.id, l, time.Time{})
	}
	was, written := db.NumShards(doc)
	if written && n == was {
		return nil, nil
	}
	if !written {
		was = 0
	}
	own := map[string]*firestorepb.Value{layout.NumShards: store.Int(int64(n))}
	if db.Own(doc)[layout.NumShardsLegacy] != nil { // its clients read that one
		own[layout.NumShardsLegacy] = store.Int(int64(n))
	}
	fields := map[string]*firestorepb.Value{}
	mask := db.SetOwn(fields, nil, own)
	tx.Write(store.Update(db.Counter(c.id), store.Exists(true), fields, mask))
	for i := was; i < n; i++ {
		missing = append(missing, c.shardName(layout.ShardID(i)))
	}
	return missing, nil
}

// createMissing makes those of the named shards that are not there, at zero unless it is said what
// they are to hold, and returns which.
func (c *Client) createMissing(ctx context.Context, tx *store.Tx, names []string, holds map[string]map[string]*firestorepb.Value) (made map[string]bool, err error) {
	docs, _, err := tx.Get(ctx, names...)
	if err != nil {
		return nil, err
	}
	made = map[string]bool{}
	for i, doc := range docs {
		if doc != nil {
			continue
		}
		fields := holds[names[i]]
		if fields == nil {
			fields = c.db.NoCounts()
		}
		tx.Write(store.Create(names[i], fields))
		made[names[i]] = true
	}
	return made, nil
}
