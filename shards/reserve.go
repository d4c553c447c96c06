package shards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
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
	At      time.Time // when it was committed; zero where an earlier call has done that
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
	record.Amount, record.Until = by, db.Later().Add(d).Truncate(time.Millisecond)
	r.hold, r.key = &record, record.Name
	out := c.client.perform(ctx, r)
	if out.err != nil {
		return h, false, c.client.plainly(out.err)
	}
	if out.replayed {
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
		docs, _, err := c.client.db.Get(ctx, none.Name)
		if err != nil {
			return c.client.uncertain(err)
		}
		r := hold.RecordOf(docs[0])
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
		Keep: cfg.KeyTTL + cfg.Timeout + batchMarkerTTL,
	}, field, err
}

// finish settles a hold for what was used, or ends it if used is nil, and returns what it is then.
func (c Counter) finish(ctx context.Context, name string, key Key, used *int64) (h Hold, err error) {
	none, field, err := c.recordOf(name, key)
	if err != nil {
		return h, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.client.cfg.Timeout)
	defer cancel()
	var full error // why there is no room for more
	f := hold.Finish{None: none, Used: used, Field: field}
	f.More = func(ctx context.Context, more int64, look bool) (takes []hold.Taking, ended bool, err error) {
		takes, ended, full, err = c.more(ctx, field, none.Name, more, look)
		return takes, ended, err
	}
	done, err := hold.In(c.client.db).Finish(ctx, f)
	if err != nil {
		return h, c.client.uncertain(err)
	}
	c.client.limitedShards.put(place{c.id, field.Shard}, done.Shards...)
	if h = holdOf(key, done.Record, done.At); done.Refused {
		return h, full
	}
	return h, nil
}

// more says from which shards a settle takes more of a field with a limit than was held. It returns no shards if there is
// no room, which full says, or if holds have ended since it saw that. It never ends the hold that is settled, by its
// record's resource name: what that has is no room for more of itself, and a refusal changes nothing.
func (c Counter) more(ctx context.Context, field layout.Field, record string, more int64, look bool) (takes []hold.Taking, ended bool, full, err error) {
	at := place{c.id, field.Shard}
	take, err := newRequest(c.client.db.Layout, []Increment{{Counter: c.id, Field: field.Name, By: more}}, Key{})
	if err != nil {
		return nil, false, nil, err
	}
	p, known := limitedPlan{}, false
	if !look {
		p, known = c.client.limitedShards.fromKnown([]place{at}, []*request{take})
	}
	if !known {
		switch p, err = c.client.look(ctx, []place{at}, []*request{take}); {
		case errors.Is(err, errUnmade): // the counter was deleted
			return nil, false, ErrNotFound, nil
		case err != nil:
			return nil, false, nil, err
		}
	}
	if len(p.Refused) > 0 {
		ended, err = c.client.endHolds(ctx, hold.In(c.client.db).But(record), []*request{take}, p)
		return nil, ended, noRoom(c.client.db.Layout, take, p), err
	}
	for _, change := range p.Plan[at] {
		shard := p.shards[at][change.Shard]
		takes = append(takes, hold.Taking{Shard: shard.Name, Version: shard.Version, By: change.By})
	}
	return takes, false, nil, nil
}
