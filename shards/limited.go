package shards

import (
	"cmp"
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

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/seats"
	"github.com/firestore-counters/counters/internal/store"
)

// A batch that counts in fields with limits is committed on condition of the shards that it counts in: see package
// escrow. What the client knows of them is from its last commit there, or from a look at all of them. Those who ask for
// the same field, and nothing else, share commits; a request for more goes alone.

// errUnmade says that nobody has made the shards of a field with a limit.
var errUnmade = errors.New("the field has no shards yet")

// sendLimited is [Client.send] of a batch that counts in fields with limits. It refuses requests for
// which there is no room. It leaves requests to a further commit for which the others leave none.
func (c *Client) sendLimited(ctx context.Context, f *batch) step {
	places := slices.Collect(maps.Keys(f.limited()))
	known := f.misses == 0 || f.misses%looksAfter > 0
	p, ended, err := c.planLimited(ctx, hold.In(c.db), places, f.requests, known)
	switch {
	case errors.Is(err, errUnmade):
		if next := f.failure(err); next != pause {
			return next
		}
		return makeMissing
	case err != nil:
		return f.notLooked(err)
	case ended: // there is room, unless others were faster
		return f.missed(errEnded)
	case len(p.Refused) > 0:
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
			f.unplanned = append(f.unplanned, r)
		}
	}
	if f.requests = taken; len(taken) == 0 {
		return finished
	}
	return c.commitLimited(ctx, f, p)
}

// looksAfter is how many commits are sent by what is known of shards, before all are looked at again: what is known is old,
// most likely.
const looksAfter = 4

// planLimited plans requests by what is known of shards, or by a look at all of them, whose error may be [errUnmade]. Where
// that refuses requests, planLimited ends holds that were over then, and reports whether there were any: then there may
// be room, whoever has ended them.
func (c *Client) planLimited(ctx context.Context, holds hold.Holds, places []place, requests []*request, known bool) (p limitedPlan, ended bool, err error) {
	if known {
		if p, known = c.limitedShards.fromKnown(places, requests); known {
			return p, false, nil
		}
	}
	if p, err = c.look(ctx, places, requests); err == nil && len(p.Refused) > 0 {
		ended, err = c.endHolds(ctx, holds, requests, p)
	}
	return p, ended, err
}

// look asks for the sums of all shards. If these refuse all requests, that is the decision; otherwise look reads the shards
// and decides by them. Sums and shards are as of one time since the requests were made. Its error may be [errUnmade].
func (c *Client) look(ctx context.Context, places []place, requests []*request) (p limitedPlan, err error) {
	p = limitedPlan{all: map[place]escrow.Held{}, read: map[place]time.Time{}}
	valid := true // or else something else has written shards, and look reads them one by one
	var mu sync.Mutex
	if !slices.ContainsFunc(requests, (*request).gives) { // sums don't say how much members and holds have
		err := each(places, func(_ int, at place) error {
			sum, read, err := c.sumOf(ctx, at)
			mu.Lock()
			defer mu.Unlock()
			p.all[at], p.read[at], valid = sum, read, valid && sum.Valid()
			return err
		})
		if err != nil {
			return p, err
		}
		for i, r := range requests {
			if noRoom(c.db.Layout, r, p) != nil {
				p.Refused = append(p.Refused, i)
			}
		}
		if valid && len(p.Refused) == len(requests) {
			return p, nil
		}
	}
	shards, times := map[place][]seats.Shard{}, map[place]time.Time{}
	err = each(places, func(_ int, at place) error {
		field, _ := c.db.Layout.Fields.Sum(at.field)
		docs, read, err := c.db.DocumentsAsOf(ctx, seats.Shards(c.db.Layout, at.counter, field, time.Time{}))
		if err != nil {
			return fmt.Errorf("read shards: %w", err)
		}
		if len(docs) == 0 {
			return errUnmade
		}
		list := seats.Read(docs, field)
		c.limitedShards.readAll(at, list)
		mu.Lock()
		defer mu.Unlock()
		shards[at], times[at] = list, read
		return nil
	})
	if err != nil {
		return p, err
	}
	p = decide(shards, true, requests)
	p.read = times
	c.limitedShards.mu.Lock()
	defer c.limitedShards.mu.Unlock()
	c.limitedShards.takeOut(p)
	return p, nil
}

// sumOf is the count and the share of all shards of a place at one time, without what members and holds have of it.
func (c *Client) sumOf(ctx context.Context, at place) (sum escrow.Held, read time.Time, err error) {
	collection := c.db.Layout.ShardsOf(at.counter)
	share, n, read, err := c.db.SumNumbers(ctx, collection, layout.ShareOf(at.field), time.Time{})
	if err == nil && n == 0 {
		err = errUnmade
	}
	if err != nil {
		return sum, read, err
	}
	count, _, _, err := c.db.SumNumbers(ctx, collection, at.field, read)
	return escrow.Held{Count: count.GetIntegerValue(), Share: share.GetIntegerValue()}, read, err
}

// errEnded says that holds were over where there was no room.
var errEnded = errors.New("holds have ended")

// endHolds ends holds in the places where a plan refuses requests, if any were over when the plan was read. It reports
// whether there were any.
func (c *Client) endHolds(ctx context.Context, holds hold.Holds, requests []*request, p limitedPlan) (ended bool, err error) {
	places := map[place]bool{}
	for _, i := range p.Refused {
		for at, ask := range requests[i].asks() {
			if ask.Count > 0 {
				places[at] = true
			}
		}
	}
	var any atomic.Bool
	err = each(slices.Collect(maps.Keys(places)), func(_ int, at place) error {
		freed, err := c.endHoldsOf(ctx, holds, at, p.read[at])
		if freed {
			any.Store(true)
		}
		return err
	})
	return any.Load(), err
}

// endHoldsOf ends the holds of a place that were over at a time, and reports whether there were any.
func (c *Client) endHoldsOf(ctx context.Context, holds hold.Holds, at place, when time.Time) (ended bool, err error) {
	field, _ := c.db.Layout.Fields.Sum(at.field)
	ended, err = holds.AnyOver(ctx, at.counter, field, when)
	if err == nil && ended {
		ended, err = holds.End(ctx, at.counter, field)
	}
	if ended && err == nil {
		c.limitedShards.forget(at)
	}
	return ended && err == nil, err
}

// refuse answers requests that a plan refuses. A request with a key or a member may have been counted before, so it reads
// their markers and memberships first. The batch keeps the requests.
func (c *Client) refuse(ctx context.Context, f *batch, p limitedPlan) step {
	var keys []string
	refused := make([]*request, len(p.Refused))
	for i, at := range p.Refused {
		if refused[i] = f.requests[at]; refused[i].key != "" {
			keys = append(keys, refused[i].key)
		}
	}
	found, err := c.markersThere(ctx, keys, refused)
	if err != nil {
		return f.notLooked(err)
	}
	for _, r := range refused {
		o, ok := r.earlier(found)
		switch {
		case ok:
		case r.member != nil && !r.member.join:
			o.err = fmt.Errorf("%w: the member joined at this moment", ErrBusy)
		default:
			if full := noRoom(c.db.Layout, r, p); full != nil {
				o.err = full
			}
		}
		r.done <- o
	}
	return sendCommit
}

// locate tells holds in which shards their amounts are, by the plan of the batch's commit.
func (f *batch) locate(p limitedPlan) {
	for at, parts := range p.Parts {
		for i, r := range f.requests {
			if r.hold != nil {
				r.hold.Parts = map[string]int64{}
				for _, part := range parts[i] {
					r.hold.Parts[store.IDOf(p.shards[at][part.Shard].Name)] = part.By.Holds
				}
			}
		}
	}
}

// commitLimited commits what is left of a batch as planned.
func (c *Client) commitLimited(ctx context.Context, f *batch, p limitedPlan) step {
	var at []place                         // of the first of the writes to shards
	var before []seats.Shard               // what they are on condition of
	var changes, free []*firestorepb.Write // of fields with limits, and of others
	home := map[string]string{}            // :: counter → id of a shard that it is counted in
	all := f.sums()
	for _, s := range all {
		plain := sum{counter: s.counter}
		for _, a := range s.amounts {
			where := place{s.counter, a.field}
			if !f.limited()[where] {
				plain.amounts = append(plain.amounts, a)
			}
			for _, change := range p.Plan[where] {
				shard := p.shards[where][change.Shard]
				home[s.counter] = store.IDOf(shard.Name)
				at, before = append(at, where), append(before, shard)
				changes = append(changes, seats.Change(shard.Name, store.UpdatedAtTime(shard.Version), a.field, change.By))
			}
		}
		if len(plain.amounts) > 0 {
			known, ok := c.known.Get(s.counter)
			if !ok {
				return makeMissing
			}
			f.pick(s.counter, known.NumShards)
			free = append(free, c.increment(f, plain))
		}
	}
	f.locate(p)
	writes := c.documents(f, len(changes)+len(free), func(r *request) string { return home[r.counter()] })
	first := len(writes)
	return c.commit(ctx, f, all, slices.Concat(writes, changes, free), func(resp *firestorepb.CommitResponse, err error) {
		for i, w := range changes {
			if status.Code(err) == codes.AlreadyExists { // a marker, so no shard is known to be otherwise
				c.limitedShards.put(at[i], before[i])
			} else if err == nil {
				if shard, ok := seats.After(w, resp.GetWriteResults()[first+i]); ok {
					c.limitedShards.put(at[i], shard)
				}
			}
		}
	})
}

// limitedPlan is what a batch commits to fields with limits.
type limitedPlan struct {
	escrow.Decision[place]
	shards map[place][]seats.Shard // as they are known
	all    map[place]escrow.Held   // what all shards hold, but for members where these are sums
	read   map[place]time.Time     // as of when that was
}

// decide decides about requests by what is known of shards.
func decide(shards map[place][]seats.Shard, looked bool, requests []*request) limitedPlan {
	p := limitedPlan{shards: shards, all: map[place]escrow.Held{}}
	known := map[place][]escrow.Held{}
	for at, list := range shards {
		for _, shard := range list {
			known[at] = append(known[at], shard.Held)
		}
		p.all[at] = escrow.Sum(known[at]...)
	}
	asked := make([]escrow.Request[place], len(requests))
	for i, r := range requests {
		asked[i] = r.asks()
	}
	p.Decision = escrow.Decide(known, looked, asked, rand.IntN)
	return p
}

// fromKnown plans a batch by what is known of shards. It reports false where that takes a look at all of them.
func (k *knownShards) fromKnown(places []place, requests []*request) (p limitedPlan, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	shards := map[place][]seats.Shard{}
	for _, at := range places {
		shards[at] = k.sorted(at)
	}
	if p = decide(shards, false, requests); p.Look {
		return limitedPlan{}, false
	}
	k.takeOut(p)
	return p, true
}

// takeOut takes those out that a plan touches.
func (k *knownShards) takeOut(p limitedPlan) {
	for at, changes := range p.Plan {
		if known, ok := k.places.Get(at); ok {
			for _, c := range changes {
				delete(known.shards, p.shards[at][c.Shard].Name)
			}
		}
	}
}

// noRoom says why a request is refused by a plan; nil if it isn't.
func noRoom(names layout.Layout, r *request, p limitedPlan) *LimitError {
	for at, ask := range r.asks() {
		all := p.all[at]
		if all.Fits(ask) {
			continue
		}
		field, _ := names.Fields.Sum(at.field)
		full := &LimitError{Counter: at.counter, Field: field.Name, By: ask.Count, Limit: all.Share, Left: all.Room(), Taken: all.Count}
		if full.By < 0 { // sums, by which takes are refused, leave members out
			full.Members, full.Held = all.Members, all.Holds
		}
		return full
	}
	return nil
}

// makeLimited makes counters, if AutoCreate says so, and shards at zero, for a batch that counts in fields with limits. It
// counts nothing: the batch's next commit does that.
func (c *Client) makeLimited(ctx context.Context, f *batch) step {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout/2)
	defer cancel()
	gone, makes := map[string]bool{}, c.makes(f)
	var mu sync.Mutex
	err := each(f.sums(), func(_ int, s sum) error {
		err := c.makeOne(ctx, s, makes)
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

// makeOne makes what is missing for an increment of a counter. Its error is [ErrNotFound] if the counter is missing, and
// makes is false.
func (c *Client) makeOne(ctx context.Context, s sum, makes bool) error {
	counter := Counter{c, s.counter}
	err := c.db.Transact(ctx, func(ctx context.Context, tx *store.Tx) error {
		began := time.Now()
		books, _, err := c.books.Get(ctx, tx, []string{s.counter})
		if err != nil {
			return err
		}
		n, err := c.sizeOf(books[0], makes, began)
		if err != nil {
			return err
		}
		missing, err := counter.size(ctx, tx, books[0], n, 0)
		if err != nil {
			return err
		}
		for _, a := range s.amounts {
			field, _ := c.db.Layout.Fields.Sum(a.field)
			if field.Limit == nil {
				for i := range n {
					missing = append(missing, counter.shardName(layout.ShardID(i)))
				}
				continue
			}
			shards, err := tx.Documents(ctx, seats.Shards(c.db.Layout, s.counter, field, time.Time{}))
			if err != nil {
				return fmt.Errorf("read shards: %w", err)
			}
			if len(shards) > 0 {
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

// SetLimit sets the limit, of 0 or more, of a field that FIELDS declares to have one, such as seats=limit(500). The
// field never exceeds it, and never goes below 0: [Counter.Add] and [Counter.Join] return [ErrLimit] if at some moment
// of the call there was no room, or less to give back. Only members give back what members took. Other counters have
// the limit that is declared, until it is set.
//
// Errors: [ErrLimit] if more is taken; [ErrInvalidField]; [ErrInvalidLimit]; [ErrFull]; [ErrNotFound]; [ErrBusy];
// [ErrUnknown], after which it may be repeated; or the client library's.
func (c Counter) SetLimit(ctx context.Context, field string, limit int64) error {
	return c.call("limit "+field+" of", func() error {
		if limit < 0 {
			return fmt.Errorf("%w: %d is below 0", ErrInvalidLimit, limit)
		}
		if err := c.client.db.Layout.CheckField(field); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidField, err)
		}
		if err := c.client.db.Layout.CheckLimited(field); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidLimit, err)
		}
		err := c.setLimit(ctx, field, limit)
		if store.IsTooLarge(err) && c.client.db.Layout.Hosted {
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
		return c.client.uncertain(err)
	})
}

// setLimit changes shares in one commit, on condition of the counter's document, which it writes. So of two limits that
// are set at the same time the later one holds. It ends holds that are over before it refuses.
func (c Counter) setLimit(ctx context.Context, name string, limit int64) error {
	field, _ := c.client.db.Layout.Field(name)
	at := place{c.id, field.Shard}
	defer c.client.limitedShards.forget(at)
	for {
		var read time.Time
		err := c.client.books.Edit(ctx, c.id, func(ctx context.Context, e *book.Edit) (bool, error) {
			read = e.At
			docs, err := c.client.db.Documents(ctx, seats.Shards(c.client.db.Layout, c.id, field, e.At))
			if err != nil {
				return false, fmt.Errorf("read shards: %w", err)
			}
			if len(docs) == 0 {
				earlier, err := hold.In(c.client.db).Earlier(ctx, c.client.db, c.id, field.Shard, e.At)
				e.Beside(append(seats.Make(c.client.db.Layout, c.id, field, c.client.numShards(e.Book), limit), earlier...)...)
				return true, err
			}
			return true, c.share(e, docs, field, limit)
		})
		if full, is := errors.AsType[*LimitError](err); !is || full.Members+full.Held == 0 {
			return err
		}
		if ended, ending := c.client.endHoldsOf(ctx, hold.In(c.client.db), at, read); ending != nil || !ended {
			return cmp.Or(ending, err)
		}
	}
}

// share adds to an edit what shards get or lose of a new limit. Shares grow on no condition. They lose only free room, on
// condition of the shard's version.
func (c Counter) share(e *book.Edit, docs book.Shards, field layout.Field, limit int64) error {
	if wrong := seats.Wrong(docs, field); wrong != "" {
		return fmt.Errorf("%w: %s: set that right first", ErrInvalidLimit, wrong)
	}
	held := seats.All(docs, field)
	shares, ok := escrow.Limit(held, limit)
	if !ok {
		sum := escrow.Sum(held...)
		return &LimitError{Counter: c.id, Field: field.Name, Limit: limit, Taken: sum.Count, Members: sum.Members, Held: sum.Holds}
	}
	for i, n := range shares {
		condition := store.Exists(true)
		if n < 0 {
			condition = store.UpdatedAtTime(docs[i].GetUpdateTime().AsTime())
		}
		if n != 0 {
			e.Beside(seats.Change(docs[i].GetName(), condition, field.Shard, escrow.Held{Share: n}))
		}
	}
	return nil
}
