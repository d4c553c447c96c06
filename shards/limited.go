package shards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// A batch of a counter that has a limit is committed on condition of the shards that it counts in: see
// package escrow. What the client knows of them is from its last commit there, from a look for room, or from a
// look at all of them. An increment of such a counter shares commits with others of that counter alone.

// sendLimited is [Client.send] of a batch that touches counters with limits. It refuses what there is no
// room for, and leaves for a further commit what finds none beside the others.
func (c *Client) sendLimited(ctx context.Context, f *batch, limited []string) step {
	f.limited = true
	var p limitedPlan
	known := f.misses == 0 || f.misses%4 > 0 // or else what is known of all shards is old, most likely
	if known {
		var busy bool
		if p, busy, known = c.shardsOf.fromKnown(limited, f.requests, c.db.Now().Add(-shardRests)); busy {
			c.findMore(ctx, p)
		}
	}
	if !known {
		var err error
		var gone string
		takers, others, places := c.takers(f.requests)
		if len(takers) > 0 {
			f.requests, f.rest = takers, append(f.rest, others...)
			p, known, err = c.lookForRoom(ctx, takers, places)
		}
		if err == nil && !known {
			p, gone, err = c.look(ctx, limited, f.requests)
		}
		if err != nil {
			return f.notLooked(err)
		}
		if gone != "" { // its limit was removed, or the counter was
			c.known.Remove(gone)
			return f.missed(status.Errorf(codes.NotFound, "no shard of counter %q has a limit", gone))
		}
	}
	if len(p.Refused) > 0 {
		ended, err := c.endHolds(ctx, f.requests, p)
		switch {
		case err != nil:
			return f.notLooked(err)
		case ended: // there is room, unless others were faster
			return f.missed(errEnded)
		}
		if next := c.refuse(ctx, f, p); next != sendCommit {
			return next
		}
	}
	taken := make([]*request, 0, len(p.Taken))
	for _, i := range p.Taken {
		taken = append(taken, f.requests[i])
	}
	for i, r := range f.requests {
		if !slices.Contains(p.Taken, i) && !slices.Contains(p.Refused, i) {
			f.rest = append(f.rest, r)
		}
	}
	if f.requests = taken; len(taken) == 0 {
		return finished
	}
	return c.commitLimited(ctx, f, f.sums(), p)
}

// look reads all shards of counters with limits, those of each at one time, and decides about requests: one
// counter that had no room then is enough for a refusal. It returns a counter of which there are none.
func (c *Client) look(ctx context.Context, counters []string, requests []*request) (p limitedPlan, gone string, err error) {
	shards, times := make(map[string][]holding, len(counters)), map[place]time.Time{}
	var mu sync.Mutex
	err = each(slices.Values(counters), func(counter string) error {
		docs, read, err := c.db.DocumentsAsOf(ctx, store.Query{Collection: c.db.Layout.ShardsOf(counter)})
		if err != nil {
			return fmt.Errorf("read shards: %w", err)
		}
		var of []holding
		for _, doc := range docs {
			if layout.IsLimited(store.IDOf(doc.GetName())) {
				of = append(of, holdingOf(doc))
			}
		}
		c.shardsOf.forget(counter, of...)
		mu.Lock()
		defer mu.Unlock()
		if len(of) == 0 {
			gone = counter
		}
		shards[counter] = of
		for _, h := range of {
			for field := range h.fields {
				times[place{counter, field}] = read
			}
		}
		return nil
	})
	if err != nil || gone != "" {
		return limitedPlan{}, gone, err
	}
	p = decide(shards, true, requests, nil)
	p.read = times
	c.shardsOf.mu.Lock()
	defer c.shardsOf.mu.Unlock()
	c.shardsOf.takeOut(p)
	return p, "", nil
}

// errEnded says that holds were over where there was no room.
var errEnded = errors.New("holds have ended")

// endHolds ends the holds of fields in which a plan refuses requests, and which were over when it read that there is no
// room. It reports whether there were any, and there may be room: whoever has ended them meanwhile.
func (c *Client) endHolds(ctx context.Context, requests []*request, p limitedPlan) (ended bool, err error) {
	places := map[place]bool{}
	for _, at := range p.Refused {
		for _, sum := range requests[at].sums {
			for _, a := range sum.amounts {
				where := place{sum.counter, a.field}
				if held, limited := p.held(where); limited && a.by > 0 && (held.Members > 0 || p.sums != nil) {
					places[where] = true
				}
			}
		}
	}
	var any atomic.Bool
	err = each(maps.Keys(places), func(where place) error {
		field, _ := c.db.Layout.Fields.Sum(where.field) // which was asked for, so there is one
		holds := hold.In(c.db)
		freed, err := holds.AnyOver(ctx, where.counter, field, p.read[where])
		if err == nil && freed {
			freed, err = holds.End(ctx, where.counter, field)
		}
		if err == nil && freed {
			c.shardsOf.forget(where.counter)
			any.Store(true)
		}
		return err
	})
	return any.Load(), err
}

// refuse answers requests that a plan refuses, unless they were counted before: what has a key, or is a
// member's, may be there already. It takes none of them out of the batch.
func (c *Client) refuse(ctx context.Context, f *batch, p limitedPlan) step {
	var keys []string
	refused := make([]*request, len(p.Refused))
	for i, at := range p.Refused {
		if refused[i] = f.requests[at]; refused[i].key != "" {
			keys = append(keys, refused[i].key)
		}
	}
	there, err := c.there(ctx, keys, refused)
	if err != nil {
		return f.notLooked(err)
	}
	for _, r := range refused {
		o, ok := r.earlier(there)
		switch {
		case ok:
		case r.member != nil && !r.member.join:
			o.err = fmt.Errorf("%w: the member joined at this moment", ErrBusy)
		default:
			o.err = c.noRoom(r, p)
		}
		r.done <- o
	}
	return sendCommit
}

// commitLimited commits what is left of a batch as planned.
func (c *Client) commitLimited(ctx context.Context, f *batch, sums sums, p limitedPlan) step {
	var touched []*touch
	var free []*firestorepb.Write // to counters without limits
	home := map[string]string{}   // :: counter → id of a shard that it is counted in
	for _, sum := range sums {
		shards := p.shards[sum.counter]
		if shards == nil {
			known, ok := c.known.Get(sum.counter)
			if !ok {
				return makeMissing
			}
			f.pick(sum.counter, known.NumShards)
			free = append(free, c.adds(f, sum))
			home[sum.counter] = layout.ShardID(f.picked[sum.counter])
			continue
		}
		first := len(touched)
		at := p.touches(sum.counter)
		for _, i := range slices.Sorted(maps.Keys(at)) {
			touched = append(touched, p.touch(sum.counter, i))
		}
		if len(at) == 0 { // of fields that have no limit, as far as is known: they may have got one
			any := rand.IntN(len(shards))
			c.shardsOf.drop(sum.counter, shards[any].shard)
			touched = append(touched, p.touch(sum.counter, any))
		}
		for _, a := range sum.amounts { // of fields without a limit
			if _, planned := p.Plan[place{sum.counter, a.field}]; !planned {
				touched[first].write.Add(a.field, a.by)
			}
		}
		home[sum.counter] = store.IDOf(touched[first].after.shard)
	}
	writes := c.beside(f, len(sums), func(r *request) string { return home[r.counter()] })
	for _, t := range touched {
		t.at = len(writes)
		writes = append(writes, t.write.Update(t.after.shard, store.UpdatedAtTime(t.after.version)))
	}
	writes = append(writes, free...)
	resp, err := c.commit(ctx, f, writes)
	if err == nil {
		for _, t := range touched {
			t.after.version = resp.GetWriteResults()[t.at].GetUpdateTime().AsTime()
			c.shardsOf.put(t.counter, t.after)
		}
		return f.answer(outcome{})
	}
	if store.KindOf(err) == store.Contention {
		c.contended(ctx, sums, err)
	}
	c.logDoubt(f, err)
	return f.failed(err)
}
