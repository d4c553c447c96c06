package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Join counts a member in a field of the counter until it leaves. It reports true if the member is new, and false
// if it was there already. It may be repeated. A member is any text of 1 to 1,500 bytes that can be a document's
// id. Joining confirms a seat that is held: see [Counter.Hold]. Errors are those of [Counter.Add], and
// [ErrInvalidMember].
//
// Calls of one client for the same member are carried out in order. Those of different members share
// commits.
func (c Counter) Join(ctx context.Context, field, member string) (counted bool, err error) {
	return c.JoinFrom(ctx, field, member, "")
}

// JoinFrom is [Counter.Join] of a member whom something else knew before, such as a list that is imported. KnownFrom is
// kept with the member until it leaves, and says nothing of one that was there already.
func (c Counter) JoinFrom(ctx context.Context, field, member, knownFrom string) (counted bool, err error) {
	done, err := c.join(ctx, "join", field, member, knownFrom, 0)
	return done.counted, err
}

// Leave takes a member off again. It reports false if the member or the counter wasn't there. See [Counter.Join].
func (c Counter) Leave(ctx context.Context, field, member string) (counted bool, err error) {
	done, err := c.leave(ctx, field, member, "")
	return done.counted, err
}

// LeaveFrom is [Counter.Leave] of a member of whom [Counter.JoinFrom] was told the same, unless it has left and joined
// by itself since: then it stays, and LeaveFrom reports false.
func (c Counter) LeaveFrom(ctx context.Context, field, member, knownFrom string) (counted bool, err error) {
	done, err := c.leave(ctx, field, member, knownFrom)
	return done.counted, err
}

// Toggle is [Counter.Join], or [Counter.Hold] if hold isn't 0, or without join [Counter.Leave]. It also says when
// that was committed, as [Client.Apply] does: the zero time if nothing was.
func (c Counter) Toggle(ctx context.Context, field, member string, join bool, hold time.Duration) (counted bool, until, at time.Time, err error) {
	var done joining
	switch {
	case !join:
		done, err = c.leave(ctx, field, member, "")
	case hold == 0:
		done, err = c.join(ctx, "join", field, member, "", 0)
	default:
		done, err = c.hold(ctx, field, member, hold)
	}
	return done.counted, done.until, done.at, err
}

// joining is what became of a member's joining or leaving.
type joining struct {
	counted bool      // false if it was so already
	until   time.Time // when the seat is given back, unless it is confirmed; zero if it is
	at      time.Time // when it was committed
}

// leave takes a member off; with knownFrom only one that was known there.
func (c Counter) leave(ctx context.Context, field, member, knownFrom string) (done joining, err error) {
	err = c.call("leave "+field+" of", func() error {
		seat, err := c.seat(field, member)
		if err != nil {
			return err
		}
		m := membership{seat: seat, name: seat.Membership(c.client.db.Layout)}
		if knownFrom != "" {
			docs, _, err := c.client.db.Get(ctx, m.name)
			if err != nil {
				return c.client.readError(err)
			}
			if docs[0] == nil || memberOf(docs[0]).From != knownFrom {
				return nil
			}
			m.onlyVersion = docs[0].GetUpdateTime().AsTime()
		}
		out, err := c.toggle(ctx, &m, 0)
		if err != nil {
			return err
		}
		if !out.already && out.err == nil {
			done.counted, done.at = true, out.at
		}
		if errors.Is(out.err, ErrNotFound) && !errors.Is(out.err, ErrUnknown) {
			// A page may take a like back before it was ever sent. But a member below a document that
			// the app has deleted, and makes again, has not left.
			promised, err := c.client.afford(costOfBelow, 1, ceiling.Asked(ctx), "a look for a member")
			if err != nil {
				return c.client.forCaller(err)
			}
			defer c.client.cfg.Budget.Release(promised)
			switch m, back, err := c.below(ctx, m.name); {
			case err != nil:
				return c.client.forCaller(fmt.Errorf("%w: %w", ErrBusy, err))
			case m == nil:
				return nil
			case back:
				return c.client.forCaller(fmt.Errorf("%w: the counter was made at this moment", ErrBusy))
			}
		}
		return c.client.forCaller(out.err)
	})
	return done, err
}

// How long a seat may be held.
const (
	MinHold = time.Second
	MaxHold = 30 * 24 * time.Hour
)

// Hold is [Counter.Join] for a limited time, from [MinHold] to [MaxHold]: the member is counted until then, unless
// it leaves, or [Counter.Confirm] makes it stay. Hold returns the time at which the hold ends. If the member is
// there already, nothing changes: the time is that of the earlier hold, or zero for a member that has joined.
//
// A hold that is over is ended by the next call that finds no room below a limit, by package rollup's Roller, once
// a minute while it has anything to do, or by its reconcile. Errors are those of [Counter.Join], and
// [ErrInvalidHold].
func (c Counter) Hold(ctx context.Context, field, member string, d time.Duration) (counted bool, until time.Time, err error) {
	done, err := c.hold(ctx, field, member, d)
	return done.counted, done.until, err
}

func (c Counter) hold(ctx context.Context, field, member string, d time.Duration) (joining, error) {
	if d < MinHold || d > MaxHold {
		return joining{}, fmt.Errorf("%w: %v; want %v to %v", ErrInvalidHold, d, MinHold, MaxHold)
	}
	return c.join(ctx, "hold "+member+" in", field, member, "", d)
}

// Confirm ends a member's hold: the member stays, as if it had joined. It may be repeated. Errors: [ErrHoldEnded]
// if the seat is no longer the member's; [ErrInvalidField], [ErrInvalidMember], [ErrBusy], [ErrUnknown], after
// which it may be repeated too, or the client library's.
func (c Counter) Confirm(ctx context.Context, field, member string) error {
	return c.call("confirm "+field+" of", func() error {
		seat, err := c.seat(field, member)
		if err != nil {
			return err
		}
		if state, err := c.confirm(ctx, seat, 0); err != nil || state == hold.Kept {
			return err
		}
		return ErrHoldEnded
	})
}

// confirm is [hold.Holds.Confirm] that ends a hold whose time is over, and returns what the seat is then. An error is
// an [ErrUnknown] where a commit on its way could still keep the seat.
func (c Counter) confirm(ctx context.Context, seat hold.Seat, promised float64) (state hold.State, err error) {
	var doubt error
	for range maxFailures {
		if state, err = hold.In(c.client.db).Confirm(ctx, seat, promised); state != hold.Over {
			break
		}
		promised = 0
		doubt = cmp.Or(doubt, err)
		var ended hold.Ending
		if ended, err = c.endHolds(ctx, seat); err != nil || !ended.Free {
			break
		}
		err = fmt.Errorf("%w: more holds were over than could be ended", ErrBusy)
	}
	if doubt != nil && (err != nil || state == hold.Over) {
		err = doubt
	}
	return state, c.client.readError(err)
}

// join has a member join, for a time unless d is 0. It confirms a seat that is held, unless it only wants to hold that.
// It ends holds that are over, and begins again.
func (c Counter) join(ctx context.Context, verb, field, member, knownFrom string, d time.Duration) (done joining, err error) {
	err = c.call(verb+" "+field+" of", func() error {
		seat, err := c.seat(field, member)
		if err != nil {
			return err
		}
		var entry time.Time // version of what an earlier hold has left
		for range maxFailures {
			m := membership{seat: seat, name: seat.Membership(c.client.db.Layout), join: true, from: knownFrom}
			if d > 0 {
				m.entry, m.entryVersion = c.client.db.Layout.Hold(m.name), entry
			}
			out, err := c.toggle(ctx, &m, d)
			if err == nil {
				err = c.client.forCaller(out.err)
			}
			if err != nil {
				return err
			}
			if !out.already {
				done = joining{counted: true, until: m.until, at: out.at}
				return nil
			}
			// The member had joined before.
			state := out.seat
			if done.until = out.until; state == hold.Vacant { // nobody has read the membership
				docs, at, err := c.client.db.Get(ctx, m.name)
				if err != nil {
					return c.client.readError(err)
				}
				if state = hold.StateOf(docs[0], at); docs[0] != nil {
					done.until = memberOf(docs[0]).Until
				}
			}
			action := state.Keeps()
			if d > 0 {
				action = state.Holds()
			}
			switch action {
			case hold.Nothing:
				return nil
			case hold.Confirm:
				promised, err := c.client.afford(costOfConfirm, 1, ceiling.Asked(ctx), "a confirm")
				if err != nil {
					return c.client.forCaller(err)
				}
				done.until = time.Time{}
				if state, err = c.confirm(ctx, seat, promised[ceiling.Reads]); err != nil || state == hold.Kept {
					return err
				}
			case hold.End:
				ended, err := c.endHolds(ctx, seat)
				if err != nil {
					return err
				}
				entry = ended.Entries[m.name]
			}
		}
		return fmt.Errorf("%w: the seat of %q changes all the time", ErrBusy, member)
	})
	return done, err
}

// endHolds ends holds of a seat's field that are over, as [Client.endShared] does.
func (c Counter) endHolds(ctx context.Context, seat hold.Seat) (hold.Ending, error) {
	field, _ := c.client.db.Layout.Field(seat.Field)
	ended, err := c.client.endShared(ctx, hold.In(c.client.db), seat.Counter, field)
	return ended, c.client.readError(err)
}

// toggle lets a member join, for a time unless d is 0, or leave. The increment takes any shard: they add up to the
// same. (Clients that write by themselves must take the shard that the membership names, because rules see one shard,
// and no sum.)
func (c Counter) toggle(ctx context.Context, m *membership, d time.Duration) (outcome, error) {
	by := int64(-1)
	if m.join {
		by = 1
	}
	r, err := newRequest(c.client.db.Layout, []Increment{{Counter: c.id, Field: m.seat.Field, By: by}}, Key{})
	if err != nil {
		return outcome{}, err
	}
	r.member, r.lasts = m, d
	over, err := c.client.turns.wait(ctx, m.name)
	if err != nil {
		return outcome{}, c.client.forCaller(fmt.Errorf("%w: %w", ErrBusy, err))
	}
	out := c.client.perform(ctx, r)
	if out.pending {
		go func() {
			<-r.done
			over()
		}()
	} else {
		over()
	}
	return out, nil
}

// below is called after the counter's document was missing. It reads, at one time, a membership below it, and whether
// the document is back.
func (c Counter) below(ctx context.Context, membership string) (m *Member, back bool, err error) {
	docs, _, err := c.client.db.Get(ctx, membership, c.client.db.Layout.Counter(c.id))
	if err != nil || docs[0] == nil {
		return nil, false, err
	}
	_, missing := c.client.snapshotOf(c.id, docs[1])
	return new(memberOf(docs[0])), missing == nil, nil
}

// seat is a member's in a field of the counter.
func (c Counter) seat(field, member string) (hold.Seat, error) {
	if err := c.checkField(field); err != nil {
		return hold.Seat{}, err
	}
	if err := layout.ValidateID(member); err != nil {
		return hold.Seat{}, fmt.Errorf("%w: %w", ErrInvalidMember, err)
	}
	return hold.Seat{Counter: c.id, Field: field, Member: member}, nil
}

// Joined reports whether a member is counted in a field of the counter, and since when. It costs one
// read, and another if this client has not read the counter lately. A counter that isn't there counts
// nobody. If an app has deleted the document, but the member is still below it, the error is
// [ErrNotFound]. Other errors: [ErrInvalidField], [ErrInvalidMember], or the client library's.
func (c Counter) Joined(ctx context.Context, field, member string) (m Member, there bool, err error) {
	err = c.call("look for a member of "+field+" of", func() error {
		seat, err := c.seat(field, member)
		if err != nil {
			return err
		}
		name := seat.Membership(c.client.db.Layout)
		missing, err := c.client.resolve(ctx, c.id)
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			found, back, err := c.below(ctx, name)
			if err != nil || found == nil {
				return err
			}
			if !back { // It is a member again once the document is back.
				return ErrNotFound
			}
			m, there = *found, true
			return nil
		}
		docs, _, err := c.client.db.Get(ctx, name)
		if err == nil && docs[0] != nil {
			m, there = memberOf(docs[0]), true
		}
		return err
	})
	return m, there, err
}

// membersPage is how many memberships are read at a time.
const membersPage = 500

// Members yields the members of a field in the order of their ids, each for a read. Those who join or
// leave meanwhile may be among them. It ends with the first error: [ErrInvalidField], or the client
// library's.
func (c Counter) Members(ctx context.Context, field string) iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		err := c.call("members of "+field+" of", func() error {
			if err := c.checkField(field); err != nil {
				return err
			}
			for doc, err := range c.client.db.All(ctx, store.Query{Collection: c.client.db.Layout.MembersOf(c.id, field), Limit: membersPage}) {
				if err != nil || !yield(memberOf(doc), nil) {
					return err
				}
			}
			return nil
		})
		if err != nil {
			yield(Member{}, err)
		}
	}
}
