package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/seats"
	"github.com/firestore-counters/counters/internal/store"
)

// A batch that counts in fields with limits is committed on condition of the shards that it counts in: see package
// escrow. What the client knows of them is from its last commit there, or from a look at all of them. Those who ask for
// the same field, and nothing else, share commits; a request for more goes alone.

// errNoLimitedShards says that nobody has made the shards of a field with a limit.
var errNoLimitedShards = errors.New("the field has no shards yet")

// planBatch plans the next commit of a batch that counts in fields with limits, or says what is to be done instead. It
// refuses requests for which there is no room. It leaves requests to a further commit for which the others leave none.
// With planned the caller sends the commit, whatever next is.
func (c *Client) planBatch(ctx context.Context, b *batch) (next step, planned bool) {
	places := slices.Collect(maps.Keys(b.limited()))
	fromMemory := b.misses == b.plannedAt || b.misses%looksAfter > 0 // or it looks: what is known is old, most likely
	p, ended, err := c.planLimited(ctx, hold.In(c.db), places, b.requests, fromMemory)
	if err == nil {
		b.plannedAt = b.misses
	}
	if err == nil && !ended && len(p.Refused) > 0 {
		err = c.refuse(ctx, byIndex(b.requests, p.Refused), p)
	}
	switch {
	case errors.Is(err, errNoLimitedShards):
		if next = b.tryAgain(err); next == pause {
			next = makeMissing
		}
		return next, false
	case errors.Is(err, errShort): // another batch may be looking
		return b.tryAgain(err), false
	case err != nil:
		return b.afterLookError(err), false
	case ended: // there is room, unless others were faster; it counts as a miss, so that this comes to an end
		return b.afterStaleShard(errors.New("holds have ended")), false
	}
	b.unplanned = append(b.unplanned, byIndex(b.requests, p.Waiting)...)
	b.requests, b.plan = byIndex(b.requests, p.Taken), p
	return finished, len(b.requests) > 0
}

// learn remembers what the last commit of a batch, which may have failed, says of shards.
func (c *Client) learn(b *batch, err error) {
	for where := range b.plan.Plan {
		c.places.remember(where, seats.After(c.db.Layout, where.counter, where.field, b.sent, b.reply))
	}
	if status.Code(err) == codes.AlreadyExists { // it met a marker, which says nothing of shards
		c.places.putBack(b.plan)
	}
}

// looksAfter is how many commits are sent by what is known of shards, before all are looked at again.
const looksAfter = 4

// planLimited plans requests by what is known of shards, or by a [Client.look], whose error may be
// [errNoLimitedShards]. Where that refuses requests, planLimited ends holds that were over then, and reports whether
// there were any: then there may be room, whoever has ended them.
func (c *Client) planLimited(ctx context.Context, holds hold.Holds, places []place, requests []*request, fromMemory bool) (p limitedPlan, ended bool, err error) {
	if fromMemory {
		if p, fromMemory = c.places.plan(places, requests); fromMemory {
			return p, false, nil
		}
	}
	promised, err := c.afford(c.costOfLook(), len(places), requests[0].asked, "looks for room")
	if err != nil {
		return p, false, err
	}
	defer c.cfg.Budget.Release(promised)
	for try := 1; len(p.Taken)+len(p.Refused) == 0; try++ {
		p, err = c.look(ctx, places, requests, try > 2) // others took what there was, or shares are uneven
		if err != nil {
			return p, false, err
		}
	}
	c.places.rememberLook(p)
	ended, err = c.endHoldsWhereRefused(ctx, holds, requests, p)
	return p, ended, err
}

// look looks at places side by side, and decides by that: whole has all shards of each be read. It may decide nothing.
func (c *Client) look(ctx context.Context, places []place, requests []*request, whole bool) (limitedPlan, error) {
	found := make([]seen, len(places))
	err := each(places, func(i int, where place) (err error) {
		least := int64(math.MaxInt64)
		for _, r := range requests {
			least = min(least, r.takes()[where].Count)
		}
		if whole || least <= 0 { // sums don't say how much members and holds have
			found[i], err = c.shardsOf(ctx, where)
		} else {
			found[i], err = c.roomOf(ctx, where, least)
		}
		return err
	})
	if err != nil {
		return limitedPlan{}, err
	}
	looked := map[place]seen{}
	for i, where := range places {
		looked[where] = found[i]
	}
	return decide(looked, true, requests), nil
}

// shardsOf reads all shards of a place.
func (c *Client) shardsOf(ctx context.Context, where place) (seen, error) {
	field, _ := c.db.Layout.Sharded.ByShard(where.field)
	docs, read, err := c.db.DocumentsAsOf(ctx, seats.Shards(c.db.Layout, where.counter, field, time.Time{}))
	switch {
	case err != nil:
		return seen{}, fmt.Errorf("read shards: %w", err)
	case len(docs) == 0:
		return seen{}, errNoLimitedShards
	}
	shards := seats.ShardsOf(docs, field)
	return seen{shards, escrow.Sum(seats.HeldOf(shards)...), read}, nil
}

// roomOf asks for the sums of all shards of a place, at one time. If there is room for the least that is asked, it
// reads the shards that count less than an even share. Only those have room, unless a lower limit has left shares
// uneven. Where something else has written shards, it reads them all.
func (c *Client) roomOf(ctx context.Context, where place, least int64) (seen, error) {
	collection := c.db.Layout.ShardsOf(where.counter)
	share, n, read, err := c.db.Sum(ctx, collection, layout.ShareOf(where.field), nil, time.Time{})
	if err == nil && n == 0 {
		err = errNoLimitedShards
	}
	if err != nil {
		return seen{}, err
	}
	count, _, _, err := c.db.Sum(ctx, collection, where.field, nil, read)
	if err != nil {
		return seen{}, err
	}
	all := escrow.Balance{Count: count.GetIntegerValue(), Share: share.GetIntegerValue()}
	switch {
	case !store.IsInteger(count) || !store.IsInteger(share) || !all.Valid():
		return c.shardsOf(ctx, where)
	case all.Room() < least:
		return seen{all: all, at: read}, nil
	}
	field, _ := c.db.Layout.Sharded.ByShard(where.field)
	docs, err := c.db.Documents(ctx, seats.Below(c.db.Layout, where.counter, field, (all.Share-1)/n))
	if err != nil {
		return seen{}, fmt.Errorf("read shards: %w", err)
	}
	return seen{seats.ShardsOf(docs, field), all, read}, nil
}

// endHoldsWhereRefused ends holds in the places where a plan refuses requests, if any were over when the plan was read.
// It reports whether there may be room now.
func (c *Client) endHoldsWhereRefused(ctx context.Context, holds hold.Holds, requests []*request, p limitedPlan) (ended bool, err error) {
	var any atomic.Bool
	err = each(slices.Collect(maps.Keys(p.places)), func(_ int, where place) error {
		if !slices.ContainsFunc(p.Refused, func(i int) bool { return requests[i].takes()[where].Count > 0 }) {
			return nil
		}
		freed, err := c.endHoldsIn(ctx, holds, where, p.places[where].at)
		if freed {
			any.Store(true)
		}
		return err
	})
	return any.Load(), err
}

// endHoldsIn ends the holds of a place that were over at a time, and reports whether there may be room now.
func (c *Client) endHoldsIn(ctx context.Context, holds hold.Holds, where place, when time.Time) (ended bool, err error) {
	field, _ := c.db.Layout.Sharded.ByShard(where.field)
	ended, err = holds.AnyOver(ctx, where.counter, field, when)
	if err != nil || !ended {
		return false, err
	}
	done, err := c.endShared(ctx, holds, where.counter, field)
	return done.Free, err
}

// costOfHoldEnd is about what it takes to end a hold of a field that is over, with what follows. One of an amount may
// have taken it from all shards.
func (c *Client) costOfHoldEnd(field layout.Field) ceiling.Amounts {
	shards := 1
	if field.Limit != nil {
		shards = min(c.cfg.NumShards, layout.MostApart)
	}
	return ceiling.Amounts{ceiling.Reads: 4, ceiling.Writes: float64(2 + shards)}
}

// endShared is [hold.Holds.End]. Those who come meanwhile share it: each would read all holds that are over, and be in
// the others' way. If it fails, such as when its first caller goes away, another one goes on. A caller that spares a
// hold may share it with callers that don't: whoever finds no room then looks again.
func (c *Client) endShared(ctx context.Context, holds hold.Holds, counter string, field layout.Field) (hold.Ending, error) {
	for {
		mine := false
		result := c.ends.DoChan(counter+"/"+field.Name, func() (any, error) {
			mine = true
			promised, err := c.afford(c.costOfHoldEnd(field), 1, 0, "the end of a hold")
			if err != nil {
				return hold.Ending{}, err
			}
			defer c.cfg.Budget.Release(promised)
			defer c.places.forget(place{counter, field.Shard})
			return holds.End(ctx, counter, field)
		})
		select {
		case r := <-result:
			if mine || r.Err == nil || errors.Is(r.Err, errShort) {
				return r.Val.(hold.Ending), r.Err
			}
		case <-ctx.Done(): // mine may be written right now
			return hold.Ending{}, ctx.Err()
		}
	}
}

// refuse answers requests that a plan refuses. A request with a key or a member may have been counted before, so it
// reads their markers and memberships first, where the budget has reads for that.
func (c *Client) refuse(ctx context.Context, refused []*request, p limitedPlan) error {
	refused, short, promised := c.readable(refused)
	found, err := c.markersThere(ctx, &promised, refused)
	c.cfg.Budget.Release(promised)
	if err != nil {
		return err
	}
	for _, r := range short {
		r.answer(outcome{err: errShort})
	}
	for _, r := range refused {
		switch {
		case r.answerBy(found):
		case r.member != nil && !r.member.join:
			r.answer(outcome{err: fmt.Errorf("%w: the member joined at this moment", ErrBusy)})
		default:
			r.answer(outcome{err: noRoom(c.db.Layout, r, p)})
		}
	}
	return nil
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
		if err := c.checkField(field); err != nil {
			return err
		}
		if err := c.client.db.Layout.CheckLimited(field); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidLimit, err)
		}
		err := c.setLimit(ctx, field, limit)
		if store.IsTooLarge(err) && c.client.db.Layout.Hosted {
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
		return c.client.readError(err)
	})
}

// setLimit changes shares in one commit, on condition of the counter's document, which it writes. So of two limits that
// are set at the same time the later one holds. It ends holds that are over before it refuses.
func (c Counter) setLimit(ctx context.Context, name string, limit int64) error {
	field, _ := c.client.db.Layout.Field(name)
	where := place{c.id, field.Shard}
	defer c.client.places.forget(where)
	for {
		var read time.Time
		try := 0
		edit := func(ctx context.Context, e *book.Edit) error {
			read = e.At
			try++
			docs, err := c.client.db.Documents(ctx, seats.Shards(c.client.db.Layout, c.id, field, e.At))
			if err != nil {
				return fmt.Errorf("read shards: %w", err)
			}
			if len(docs) == 0 {
				made, err := hold.In(c.client.db).Begin(ctx, c.client.db, c.id, field, cmp.Or(book.NumShards(c.client.db.Layout, e.Doc), c.client.cfg.NumShards), limit, e.At)
				e.Beside(made...)
				return err
			}
			return c.changeShares(ctx, e, docs, field, limit, try%hold.RenewsAfter == 0)
		}
		err := c.client.afterEarlierLife(ctx, func() error { return c.edit(ctx, edit) })
		if full, is := errors.AsType[*LimitError](err); !is || full.Members+full.Held == 0 {
			return err
		}
		if ended, ending := c.client.endHoldsIn(ctx, hold.In(c.client.db), where, read); ending != nil || !ended {
			return cmp.Or(ending, err)
		}
	}
}

// changeShares adds to an edit what shards get or lose of a new limit. Shares grow on no condition. They lose only free
// room, on condition of the shard's version. Busy says that others keep changing them.
func (c Counter) changeShares(ctx context.Context, e *book.Edit, docs book.Shards, field layout.Field, limit int64, busy bool) error {
	if wrong := seats.Wrong(docs, field); wrong != "" {
		return fmt.Errorf("%w: %s: set that right first", ErrInvalidLimit, wrong)
	}
	known := seats.ShardsOf(docs, field)
	if busy && limit < escrow.Sum(seats.HeldOf(known)...).Share {
		known = hold.In(c.client.db).Renew(ctx, c.id, field, known)
	}
	balances := seats.HeldOf(known)
	shares, ok := escrow.ShareChanges(balances, limit)
	if !ok {
		sum := escrow.Sum(balances...)
		return &LimitError{Counter: c.id, Field: field.Name, Limit: limit, Taken: sum.Count, Members: sum.Members, Held: sum.Holds}
	}
	for i, n := range shares {
		condition := store.Exists(true)
		if n < 0 {
			condition = store.IfVersion(known[i].Version)
		}
		if n != 0 {
			e.Beside(seats.AddTo(known[i].Name, condition, field.Shard, escrow.Balance{Share: n}))
		}
	}
	return nil
}

// Left is how much this client knows to be left of the limit of a field: as its last commits and looks have left the
// shards, whatever other clients have taken or given back since. It reads nothing, and reports false where that is not
// known, or the field has no limit.
func (c Counter) Left(field string) (left int64, ok bool) {
	if c.client == nil {
		return 0, false
	}
	declared, _ := c.client.db.Layout.Field(field)
	return c.client.places.left(place{c.id, declared.Shard})
}

// makeLimitedShards makes the shards of fields with limits that have none, in a transaction, for increments of a
// counter with so many shards.
func (c *Client) makeLimitedShards(ctx context.Context, tx *store.Tx, s delta, n int) error {
	for _, a := range s.amounts {
		field, _ := c.db.Layout.Sharded.ByShard(a.field)
		if field.Limit == nil {
			continue
		}
		shards, err := tx.Documents(ctx, seats.Shards(c.db.Layout, s.counter, field, time.Time{}))
		if err != nil {
			return fmt.Errorf("read shards: %w", err)
		}
		if len(shards) == 0 {
			made, err := hold.In(c.db).Begin(ctx, tx, s.counter, field, n, *field.Limit, time.Time{})
			if err != nil {
				return err
			}
			tx.Write(made...)
		}
	}
	return nil
}

// afterEarlierLife calls do, which makes shards. If many holds of the counter's earlier life are still open, it ends
// some and calls do again.
func (c *Client) afterEarlierLife(ctx context.Context, do func() error) error {
	err := do()
	for hold.In(c.db).EndEarlierLife(ctx, err) {
		err = do()
	}
	return err
}

// endEarlierLife ends open holds of fields without a limit, in a transaction that makes the first shards since the
// counter's document is there. If it has none, somebody has deleted these one by one, such as an app its document with
// all that was below: nothing comes back to the counter's next life. It returns the total to begin with, unless that is
// 0: beside shards what is held comes on top of it, until it comes back.
func (c Counter) endEarlierLife(ctx context.Context, tx *store.Tx, total int64) (int64, error) {
	names := c.client.db.Layout
	holds, plain := hold.In(c.client.db), names.Plain()
	if len(plain) == 0 {
		return total, nil
	}
	// Somebody may have set a limit before, whose shards say nothing of these fields.
	docs, err := tx.Documents(ctx, store.Query{Collection: names.ShardsOf(c.id), Limit: layout.MostApart*len(names.Limited()) + 1, Names: true})
	shards := book.Shards(docs).Counting(plain[0])
	switch {
	case err != nil || len(shards) > 0 && total == 0:
		return total, err
	case len(shards) > 0:
		held, err := holds.HeldAt(ctx, tx, c.id, plain[0].Shard, time.Time{})
		return store.Add(total, held), err
	}
	return total, each(plain, func(_ int, field layout.Field) error { // one after the other a call's many counters take too long
		earlier, err := holds.EarlierLife(ctx, tx, c.id, field.Shard, time.Time{})
		tx.Write(earlier...)
		return err
	})
}
