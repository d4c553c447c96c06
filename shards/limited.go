package shards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// A batch of a counter that has a limit is committed on condition of the shards that it counts in: see
// package escrow. What the client knows of them is from its last commit there, or from a look at all of
// them. An increment of such a counter shares commits with others of that counter alone.

// limitedPlan is what a batch commits to counters with limits.
type limitedPlan struct {
	escrow.Decision[place]
	shards map[string][]holding // :: counter with a limit → its shards, as they are known
}

// held is what all shards hold of a field with a limit, as they are known. It reports false for others.
func (p limitedPlan) held(where place) (all escrow.Held, limited bool) {
	for _, h := range p.shards[where.counter] {
		of, has := h.fields[where.field]
		all, limited = escrow.Sum(all, of), limited || has
	}
	return all, limited
}

// touches are the shards of a counter that the plan is on condition of, by their indexes.
func (p limitedPlan) touches(counter string) map[int]bool {
	at := map[int]bool{}
	for place, changes := range p.Plan {
		for _, c := range changes {
			if place.counter == counter {
				at[c.Shard] = true
			}
		}
	}
	return at
}

// decide decides about requests by what is known of shards.
func decide(shards map[string][]holding, looked bool, requests []*request) limitedPlan {
	known := map[place][]escrow.Held{}
	for counter, of := range shards {
		fields := map[string]bool{}
		for _, h := range of {
			for field := range h.fields {
				fields[field] = true
			}
		}
		for field := range fields {
			held := make([]escrow.Held, len(of))
			for i, h := range of {
				held[i] = h.fields[field]
			}
			known[place{counter, field}] = held
		}
	}
	asked := make([]escrow.Request[place], len(requests))
	for i, r := range requests {
		asked[i] = escrow.Request[place]{}
		for _, sum := range r.sums {
			for _, a := range sum.amounts {
				if at := (place{sum.counter, a.field}); known[at] != nil {
					asked[i][at] = escrow.By(a.by, r.member != nil)
				}
			}
		}
	}
	return limitedPlan{Decision: escrow.Decide(known, looked, asked, rand.IntN), shards: shards}
}

// fromKnown plans a batch by what is known of the shards of counters with limits. It reports false where that
// takes a look at them.
func (k *knownShards) fromKnown(counters []string, requests []*request) (limitedPlan, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	shards := map[string][]holding{}
	for _, counter := range counters {
		known, _ := k.of.Get(counter)
		if len(known) == 0 {
			return limitedPlan{}, false
		}
		for _, name := range slices.Sorted(maps.Keys(known)) {
			shards[counter] = append(shards[counter], known[name])
		}
	}
	p := decide(shards, false, requests)
	if p.Look {
		return limitedPlan{}, false
	}
	k.takeOut(p)
	return p, true
}

// takeOut takes those out that a plan touches.
func (k *knownShards) takeOut(p limitedPlan) {
	for counter, shards := range p.shards {
		known, _ := k.of.Get(counter)
		for at := range p.touches(counter) {
			delete(known, shards[at].shard)
		}
	}
}

// sendLimited is [Client.send] of a batch that touches counters with limits. It refuses what there is no
// room for, and leaves for a further commit what finds none beside the others.
func (c *Client) sendLimited(ctx context.Context, f *batch, limited []string) step {
	f.limited = true
	var p limitedPlan
	known := f.misses == 0 || f.misses%4 > 0 // or else what is known of all shards is old, most likely
	if known {
		p, known = c.shardsOf.fromKnown(limited, f.requests)
	}
	if !known {
		var err error
		var gone string
		if p, gone, err = c.look(ctx, limited, f.requests); err != nil {
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
	shards := make(map[string][]holding, len(counters))
	for _, counter := range counters {
		docs, err := Counter{c, counter}.shards(ctx, time.Time{})
		if err != nil {
			return limitedPlan{}, "", err
		}
		for _, doc := range docs {
			if layout.IsLimited(store.IDOf(doc.GetName())) {
				shards[counter] = append(shards[counter], holdingOf(doc))
			}
		}
		if len(shards[counter]) == 0 {
			c.shardsOf.forget(counter)
			return limitedPlan{}, counter, nil
		}
		c.shardsOf.forget(counter, shards[counter]...)
	}
	p = decide(shards, true, requests)
	c.shardsOf.mu.Lock()
	defer c.shardsOf.mu.Unlock()
	c.shardsOf.takeOut(p)
	return p, "", nil
}

// errEnded says that holds were over where there was no room.
var errEnded = errors.New("holds have ended")

// endHolds ends the holds that are over of fields in which a plan refuses requests, and reports whether
// there were any.
func (c *Client) endHolds(ctx context.Context, requests []*request, p limitedPlan) (ended bool, err error) {
	places := map[place]bool{}
	for _, at := range p.Refused {
		for _, sum := range requests[at].sums {
			for _, a := range sum.amounts {
				where := place{sum.counter, a.field}
				if held, limited := p.held(where); limited && a.by > 0 && held.Members > 0 {
					places[where] = true
				}
			}
		}
	}
	for where := range places {
		field, _ := c.db.Layout.Fields.Sum(where.field) // which was asked for, so there is one
		found, err := hold.In(c.db).End(ctx, where.counter, field)
		if err != nil {
			return ended, err
		}
		if found {
			c.shardsOf.forget(where.counter)
		}
		ended = ended || found
	}
	return ended, nil
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

// noRoom says why a request is refused by a plan.
func (c *Client) noRoom(r *request, p limitedPlan) error {
	for _, sum := range r.sums {
		for _, a := range sum.amounts {
			all, limited := p.held(place{sum.counter, a.field})
			if !limited || all.Fits(escrow.By(a.by, r.member != nil)) {
				continue
			}
			field, _ := c.db.Layout.Fields.Sum(a.field)
			return &LimitError{Counter: sum.counter, Field: field.Name, By: a.by, Limit: all.Share, Left: all.Room(), Taken: all.Count, Members: all.Members}
		}
	}
	return ErrLimit
}

// touch is a shard that a batch's commit writes.
type touch struct {
	counter string
	after   holding
	at      int // of the commit's writes
	write   book.HeldWrite
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

// touch is the write of a plan to a shard of a counter.
func (p limitedPlan) touch(counter string, shard int) *touch {
	h := p.shards[counter][shard]
	t := &touch{counter: counter, after: holding{shard: h.shard, version: h.version, fields: maps.Clone(h.fields)}}
	for place, changes := range p.Plan {
		for _, change := range changes {
			if place.counter != counter || change.Shard != shard {
				continue
			}
			before := t.after.fields[place.field]
			after := change.Of(before)
			t.write.Change(place.field, before, after)
			t.after.fields[place.field] = after
		}
	}
	return t
}
