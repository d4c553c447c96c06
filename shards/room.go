package shards

import (
	"context"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/groupcommit"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Requests that find no room in the shards that the client knows are decided about by a few that say that they
// have room. Those that don't fit there are refused by sums of all shards, which don't go by what these say: where
// that is wrong, all shards are read, and nobody is refused for it.

// roomAtOnce is how many shards with room are looked for at a time. A commit that takes of several fails where
// another process is faster in one of them, so they are few.
const roomAtOnce = 5

// lookForRoom decides about requests that only take of these places, and maybe of others that have no limit. It
// reports false where it takes a look at all shards.
func (c *Client) lookForRoom(ctx context.Context, requests []*request, places map[place]bool) (p limitedPlan, ok bool, err error) {
	found := map[string]holdings{} // :: counter
	for at := range places {
		found[at.counter] = holdings{}
	}
	for again := false; ; again = true {
		few := false
		var mu sync.Mutex
		err := each(maps.Keys(places), func(at place) error {
			docs, err := c.withRoom(ctx, at, again)
			mu.Lock()
			defer mu.Unlock()
			few = few || len(docs) < roomAtOnce
			for _, doc := range docs {
				found[at.counter].newer(holdingOf(doc))
			}
			return err
		})
		if err != nil {
			return p, false, err
		}
		shards := make(map[string][]holding, len(found))
		for counter, of := range found {
			shards[counter] = of.sorted()
		}
		if !covers(places, shards, requests) {
			return p, false, nil
		}
		p = decide(shards, true, requests, places)
		misfits := p.Refused
		if len(misfits) > 0 { // also the second time, when others may have taken what there was
			if p.sums, p.read, ok, err = c.sumsOf(ctx, places); err != nil || !ok {
				return p, false, err
			}
		}
		p.Refused = slices.DeleteFunc(slices.Clone(misfits), func(i int) bool { return c.noRoom(requests[i], p) == nil })
		if again || !few || len(p.Refused) == len(misfits) {
			break
		}
	}
	c.shardsOf.mu.Lock()
	defer c.shardsOf.mu.Unlock()
	for counter, of := range p.shards {
		c.shardsOf.add(counter, of...)
	}
	c.shardsOf.takeOut(p)
	return p, len(p.Taken)+len(p.Refused) > 0, nil
}

// shardRests is how long a shard isn't written that others can be written instead of: a document takes about one
// write a second.
const shardRests = time.Second

// findMore has the client know of further shards with room, as one is to be written that was written lately. If
// others can't be found it doesn't matter.
func (c *Client) findMore(ctx context.Context, p limitedPlan) {
	for at, changes := range p.Plan {
		takes := slices.ContainsFunc(changes, func(change escrow.Change) bool { return change.Count > 0 })
		known, ok := c.known.Peek(at.counter)
		if !takes || !ok || c.shardsOf.len(at.counter)+groupcommit.MaxInFlight >= known.NumShards || c.foundNone.is(at.counter) {
			continue
		}
		docs, err := c.withRoom(ctx, at, false)
		if err != nil {
			return
		}
		before := c.shardsOf.len(at.counter)
		for _, doc := range docs {
			c.shardsOf.put(at.counter, holdingOf(doc))
		}
		if c.shardsOf.len(at.counter) == before {
			c.foundNone.remember(at.counter, shardRests)
		}
	}
}

// withRoom reads some shards that say that they have room: in the order of their ids from any of them on, so that
// processes find different ones, or from the first one on.
func (c *Client) withRoom(ctx context.Context, at place, first bool) ([]*firestorepb.Document, error) {
	q := store.Query{Collection: c.db.Layout.ShardsOf(at.counter), True: layout.FieldPath(layout.RoomOf(at.field)), Limit: roomAtOnce}
	if known, ok := c.known.Peek(at.counter); ok && !first && known.NumShards > 0 {
		q.After = c.db.Layout.Shard(at.counter, layout.LimitedShard(layout.ShardID(rand.IntN(known.NumShards))))
	}
	docs, err := c.db.Documents(ctx, q)
	return slices.DeleteFunc(docs, func(doc *firestorepb.Document) bool { return !layout.IsLimited(store.IDOf(doc.GetName())) }), err
}

// sumsOf is what all shards hold of places, each at one time; how much of it is members' is left out. It reports
// false where that can't be: the limit was removed, say.
func (c *Client) sumsOf(ctx context.Context, places map[place]bool) (sums map[place]escrow.Held, times map[place]time.Time, ok bool, err error) {
	sums, times = make(map[place]escrow.Held, len(places)), make(map[place]time.Time, len(places))
	var mu sync.Mutex
	err = each(maps.Keys(places), func(at place) error {
		shards := c.db.Layout.ShardsOf(at.counter)
		share, n, read, err := c.db.SumNumbers(ctx, shards, layout.ShareOf(at.field), time.Time{})
		if err != nil || n == 0 {
			return err
		}
		count, err := c.db.Sum(ctx, shards, at.field, read)
		if err != nil {
			return err
		}
		held := escrow.Held{Count: count.GetIntegerValue(), Share: share.GetIntegerValue()}
		if store.IsInteger(count) && store.IsInteger(share) && held.Valid() {
			mu.Lock()
			defer mu.Unlock()
			sums[at], times[at] = held, read
		}
		return nil
	})
	return sums, times, len(sums) == len(places), err
}

// readsSideBySide is how many reads of a call are under way at once: it may be of many counters, and each takes a while.
const readsSideBySide = 16

// each does something for each of several, for some side by side, and returns an error of one.
func each[T any](all iter.Seq[T], do func(T) error) error {
	var group errgroup.Group
	group.SetLimit(readsSideBySide)
	for one := range all {
		group.Go(func() error { return do(one) })
	}
	return group.Wait()
}
