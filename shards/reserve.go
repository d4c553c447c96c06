package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/seats"
	"github.com/firestore-counters/counters/internal/store"
)

// Hold is an amount of a field that is held: see [Counter.Reserve].
type Hold struct {
	ID    string    // the value of its [Key]
	By    int64     // how much was held
	Until time.Time // when its time is over
	// State is "held", "settled", or "ended" where all of it came back. One whose time is over is held until somebody
	// ends it, and may be settled until then.
	State   string
	Settled int64     // how much of it stays counted, or how much more was taken, once it is settled
	At      time.Time // when it was committed; zero where an earlier call has done that, or nobody knows
}

// Returned is how much came back.
func (h Hold) Returned() int64 {
	if h.State == string(hold.Open) {
		return 0
	}
	return max(0, h.By-h.Settled)
}

// Reserve takes an amount, of 1 or more, from a field for a limited time, from [MinHold] to [MaxHold]: credits that a
// request may need, tickets in a basket. It is counted until [Counter.Settle] says how much of it stays,
// [Counter.GiveBack] gives it back, or its time is over, as for [Counter.Hold].
//
// The key names the hold, for its caller, counter and field. Reserve may be repeated with it: it answers what the first
// call did, and reports that. The zero [Key] has no caller, and gets a value that nobody else has, which the hold's ID
// says. A hold is forgotten when its key is, at least Config.KeyTTL after its end.
//
// Errors are those of [Counter.AddOnce], where [ErrKeyReused] says that the key came with another amount before,
// [ErrInvalidHold], and [ErrHoldEnded] if somebody has settled or given back a hold of that key before there was one.
func (c Counter) Reserve(ctx context.Context, field string, by int64, d time.Duration, key Key) (h Hold, replayed bool, err error) {
	err = c.call("hold "+field+" of", func() error {
		if d < MinHold || d > MaxHold {
			return fmt.Errorf("%w: %v; want %v to %v", ErrInvalidHold, d, MinHold, MaxHold)
		}
		h, replayed, err = c.reserve(ctx, field, by, d, key)
		return err
	})
	return h, replayed, err
}

func (c Counter) reserve(ctx context.Context, field string, by int64, d time.Duration, key Key) (h Hold, replayed bool, err error) {
	if by <= 0 {
		return h, false, fmt.Errorf("%w: by is %d; want 1 or more", ErrInvalidIncrement, by)
	}
	if key.Value == "" {
		key.Value = newID()
	}
	db := c.client.db
	record, _, err := c.recordOf(field, key)
	if err != nil {
		return h, false, err
	}
	r, err := newRequest(db.Layout, []Increment{{Counter: c.id, Field: field, By: by}}, key)
	if err != nil {
		return h, false, err
	}
	record.Amount = by
	r.hold, r.key, r.lasts = &record, record.Name, d
	out := c.client.perform(ctx, r)
	if out.err != nil {
		return h, false, c.client.forCaller(out.err)
	}
	if out.already {
		if out.record.Amount == 0 { // somebody ended it before it was made
			return h, false, ErrHoldEnded
		}
		return holdOf(key, *out.record, time.Time{}), true, nil
	}
	record.Progress = hold.Open
	return holdOf(key, record, out.at), false, nil
}

func holdOf(key Key, r hold.Record, at time.Time) Hold {
	return Hold{ID: key.Value, By: r.Amount, Until: r.Until, State: string(r.Progress), Settled: r.Used, At: at}
}

// Settle says how much of a hold stays counted, 0 or more: the rest of it comes back. More than it has is taken if
// there is room, or else nothing changes. It may be repeated: the answer is the same. The time of the hold may be over,
// as long as nobody has ended it.
//
// Errors: [ErrHoldEnded] if the hold was ended, or there was none, and never will be; [ErrSettled] if it was settled
// for another amount, which the Hold says; [ErrLimit] if there was no room for more; [ErrInvalidIncrement] for
// an amount below 0; [ErrInvalidField]; [ErrInvalidKey]; [ErrBusy]; [ErrUnknown], after which it may be repeated; or
// the client library's.
func (c Counter) Settle(ctx context.Context, field string, by int64, key Key) (h Hold, err error) {
	err = c.call("settle a hold in "+field+" of", func() error {
		if by < 0 {
			return fmt.Errorf("%w: by is %d; want 0 or more", ErrInvalidIncrement, by)
		}
		switch h, err = c.finish(ctx, field, key, &by); {
		case err != nil:
			return err
		case h.State == string(hold.Ended):
			return ErrHoldEnded
		case h.Settled != by:
			return ErrSettled
		}
		return nil
	})
	return h, err
}

// GiveBack ends a hold: all of it comes back. It may be repeated, and does nothing where the hold has ended or there
// was none; then there never will be one. Errors are those of [Counter.Settle], but for [ErrHoldEnded] and [ErrLimit].
func (c Counter) GiveBack(ctx context.Context, field string, key Key) (h Hold, err error) {
	err = c.call("give back a hold in "+field+" of", func() error {
		if h, err = c.finish(ctx, field, key, nil); err == nil && h.State == string(hold.Settled) {
			err = ErrSettled
		}
		return err
	})
	return h, err
}

// Held reads a hold, for one read. Errors: [ErrNoHold] where there is none, or it was forgotten; [ErrInvalidField];
// [ErrInvalidKey]; or the client library's.
func (c Counter) Held(ctx context.Context, field string, key Key) (h Hold, err error) {
	err = c.call("read a hold in "+field+" of", func() error {
		none, _, err := c.recordOf(field, key)
		if err != nil {
			return err
		}
		r, err := hold.In(c.client.db).Read(ctx, none)
		if err != nil {
			return c.client.readError(err)
		}
		if r.Amount == 0 { // or what stands in the way of one
			return ErrNoHold
		}
		h = holdOf(key, r, time.Time{})
		return nil
	})
	return h, err
}

// recordOf is the record of a hold that nothing is known of, and its field.
func (c Counter) recordOf(name string, key Key) (r hold.Record, field layout.Field, err error) {
	if err = c.checkField(name); err != nil {
		return r, field, err
	}
	if err = key.Validate(); err == nil && key.Value == "" {
		err = fmt.Errorf("%w: it is empty", ErrInvalidKey)
	}
	names, cfg := c.client.db.Layout, c.client.cfg
	field, _ = names.Field(name)
	return hold.Record{
		Counter: c.id, Field: field.Shard, ID: key.Value, Name: names.Record(key.id(names, []string{c.id, field.Shard})),
		KeptFor: cfg.KeyTTL + cfg.Timeout + batchMarkerTTL,
	}, field, err
}

// finishPatience is for others who write the same shards, or end the hold.
var finishPatience = store.Patience{Conflicts: 30, Doubts: 12}

// finish settles a hold for what was used, or ends it if used is nil, and returns what it is then: where it is finished
// already, that. It is answered once the record says so, also for one that there wasn't.
func (c Counter) finish(ctx context.Context, name string, key Key, used *int64) (h Hold, err error) {
	none, field, err := c.recordOf(name, key)
	if err != nil {
		return h, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.client.cfg.Timeout)
	defer cancel()
	db, where := c.client.db, place{c.id, field.Shard}
	var r hold.Record
	var writes []*firestorepb.Write
	var full error // why there is no room for more
	try := 0
	var promised ceiling.Amounts
	defer func() { c.client.cfg.Budget.Release(promised) }()
	resp, err := db.CommitIf(ctx, finishPatience, func(ctx context.Context) (_ []*firestorepb.Write, err error) {
		try++
		fromMemory := try%looksAfter > 0 // or else a shard is gone, or what is known is old
		if r, err = hold.In(c.client.db).Read(ctx, none); err != nil {
			return nil, err
		}
		var p limitedPlan
		if field.Limit != nil {
			if p, full, err = c.planMore(ctx, field, &r, used, fromMemory); err != nil || full != nil {
				return nil, err
			}
		}
		freed := hold.GivenBack{}
		writes = r.Finish(db.Layout, used, db.Later(), freed)
		for i, shard := range p.changed(where) {
			writes = append(writes, shard.AddTo(field.Shard, p.Plan[where][i].By.Plus(freed[shard.Name])))
			delete(freed, shard.Name)
		}
		back, err := hold.In(c.client.db).GiveBack(ctx, c.id, field.Shard, freed, !fromMemory)
		writes = append(writes, back...)
		if more := len(writes) - int(promised[ceiling.Writes]); err == nil && more > 0 {
			lent := ceiling.Amounts{ceiling.Writes: float64(more)}
			if err = db.Budget.Lend(ctx, "the ends of holds", lent, promised); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrBusy, err)
			}
			promised = promised.Plus(lent)
		}
		return writes, err
	})
	if err != nil {
		return h, c.client.readError(err)
	}
	c.client.places.remember(where, seats.After(db.Layout, c.id, field.Shard, writes, resp))
	switch h = holdOf(key, r, time.Time{}); {
	case resp != nil:
		h.At = resp.GetCommitTime().AsTime()
	case try > 1: // perhaps this call's commit, whose answer was lost
		c.client.places.forget(where)
	}
	return h, full
}

// planMore plans from which shards a settle takes more than a hold has, by what is known of them or by a look. Full
// says why there is no room: then nothing changes. It never ends the hold itself, since what that has is no room for
// more of it. A commit that was sent before there was no room, and hasn't landed, never will, because its shards have
// changed. So the record, read after that, has the last word: somebody may have settled it.
func (c Counter) planMore(ctx context.Context, field layout.Field, r *hold.Record, used *int64, fromMemory bool) (p limitedPlan, full, err error) {
	holds, asked := hold.In(c.client.db).Except(r.Name), *r
	for r.More(used) > 0 {
		take, err := newRequest(c.client.db.Layout, []Increment{{Counter: c.id, Field: field.Name, By: r.More(used)}}, Key{})
		if err != nil {
			return p, nil, err
		}
		plan, ended, err := c.client.planLimited(ctx, holds, []place{{c.id, field.Shard}}, []*request{take}, fromMemory)
		switch {
		case errors.Is(err, errNoLimitedShards): // the counter was deleted
			full = ErrNotFound
		case err != nil:
			return plan, nil, err
		case len(plan.Refused) == 0:
			return plan, nil, nil
		default:
			full = noRoom(c.client.db.Layout, take, plan)
		}
		if *r, err = holds.Read(ctx, asked); err != nil || !ended && r.More(used) > 0 {
			return limitedPlan{}, full, err
		}
		fromMemory = false
	}
	return limitedPlan{}, nil, nil
}

// setTotals sets what the totals of fields are once all that is held now has come back. It finds out side by side in
// which fields something is held: see [book.Edit.Ask].
func (c Counter) setTotals(ctx context.Context, e *book.Edit, fields layout.Fields, total func(layout.Field) int64) error {
	holds, held := hold.In(c.client.db), make([]int64, len(fields))
	err := each(fields, func(i int, field layout.Field) error {
		open, err := holds.OpenAt(ctx, c.client.db, c.id, field.Shard, e.At, 1)
		held[i] = int64(len(open))
		return err
	})
	if err == nil {
		err = e.Ask(ctx, fields...)
	}
	for i, field := range fields {
		if err == nil && held[i] > 0 {
			held[i], err = holds.HeldAt(ctx, c.client.db, c.id, field.Shard, e.At)
		}
		if err == nil {
			err = e.SetTotal(ctx, field, store.Add(total(field), held[i]))
		}
	}
	return err
}

// inUse reports whether anybody holds an amount or a seat of the counter, or held it until a time that is over; or has
// confirmed a seat since, unless that is zero: who does writes no shard.
func (c Counter) inUse(ctx context.Context, since time.Time) (bool, error) {
	books, _, err := c.client.books.Get(ctx, c.client.db, []string{c.id})
	if err != nil {
		return false, err
	}
	shards, err := c.shards(ctx, books[0].At)
	if err != nil {
		return false, err
	}
	for _, field := range c.fieldsWithMembers(shards, books[0]) {
		amounts, err := hold.In(c.client.db).OpenAt(ctx, c.client.db, c.id, field.Shard, books[0].At, 1)
		if err != nil || len(amounts) > 0 {
			return true, err
		}
		members := store.Query{Collection: c.client.db.Layout.MembersOf(c.id, field.Name), At: books[0].At, Names: true}
		seats := members
		seats.By, seats.Limit = layout.Until, 1
		docs, err := c.client.db.Documents(ctx, seats)
		if err != nil || len(docs) > 0 {
			return true, err
		}
		for more := !since.IsZero(); more; more = len(docs) == membersPage {
			if c.client.cfg.Budget.Wait(ctx, ceiling.Reads); ctx.Err() != nil {
				return true, nil // nobody knows yet
			}
			members.Limit = membersPage
			if docs, err = c.client.db.Documents(ctx, members); err != nil || anyWrittenAfter(docs, since) {
				return true, err
			}
			if len(docs) > 0 {
				members.After = docs[len(docs)-1].GetName()
			}
		}
	}
	return false, nil
}

// recordsOf are the records of open holds of a field that go, as they were at a time, some of them at least: those that
// name a shard which goes, or one that is younger than they are. Whoever asks for such a hold is told that it has
// ended.
func (c Counter) recordsOf(ctx context.Context, field layout.Field, at time.Time, young map[string]time.Time) ([]*firestorepb.Document, error) {
	for _, most := range []int{removedAtOnce, 0} {
		docs, err := hold.In(c.client.db).OpenAt(ctx, c.client.db, c.id, field.Shard, at, most)
		if err != nil {
			return nil, err
		}
		last := len(docs) < removedAtOnce
		docs = slices.DeleteFunc(docs, func(doc *firestorepb.Document) bool {
			r := hold.RecordOf(doc)
			for id := range r.Parts {
				if made, is := young[id]; !is || r.Made.Before(made) {
					return false
				}
			}
			return true
		})
		if last || len(docs) > 0 {
			return docs, nil
		}
	}
	return nil, nil
}

// anyWrittenAfter reports whether one of some documents was written after a time.
func anyWrittenAfter(docs []*firestorepb.Document, last time.Time) bool {
	return slices.ContainsFunc(docs, func(doc *firestorepb.Document) bool { return doc.GetUpdateTime().AsTime().After(last) })
}

// readMembers reads memberships, at most that many, as of a time; the zero time is now. It finds out side by side which
// fields have any.
func (c Counter) readMembers(ctx context.Context, fields layout.Fields, most int, at time.Time, from book.Reader) (docs []*firestorepb.Document, err error) {
	members := func(field layout.Field, most int) ([]*firestorepb.Document, error) {
		return from.Documents(ctx, store.Query{Collection: c.client.db.Layout.MembersOf(c.id, field.Name), Limit: most, At: at})
	}
	found := make([][]*firestorepb.Document, len(fields))
	err = each(fields, func(i int, field layout.Field) (err error) {
		found[i], err = members(field, 1)
		return err
	})
	for i, field := range fields {
		room := most - len(docs)
		if err == nil && len(found[i]) > 0 && room > 1 {
			found[i], err = members(field, room)
		}
		docs = append(docs, found[i][:min(len(found[i]), room)]...)
	}
	if err != nil {
		return nil, fmt.Errorf("read members: %w", err)
	}
	return docs, nil
}
