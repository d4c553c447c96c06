// Package hold says how a seat is held until a time, and how that ends. docs/spec/limits.tla specifies it.
//
// A seat is a membership, which counts 1. The membership of a held seat says until when it is held. Confirming takes
// that time away. Ending a hold deletes the membership, and takes the 1 off in the same commit. Both are on condition
// of the membership's update time, so whichever comes first wins. Firestore's clock, as its answers tell it, decides
// whether the time is over.
//
// The commits that hold, confirm and end also write an entry. The entries of all counters are in one collection. While
// the seat is held, its entry has the time, too, so one query finds all holds that are over. Afterwards the entry stays
// without a time, so that an earlier commit which arrives late can't hold the seat again. TTL deletes the entry once
// none can arrive any more.
//
// A hold of an amount is a record: see [Record]. It lies among the entries, and the same query finds it.
package hold

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/seats"
	"github.com/firestore-counters/counters/internal/store"
)

// keptFor is how long an entry stays after its hold: as long as a marker does at least, and for the same
// reason.
const keptFor = time.Hour

// Seat is a member's, in a field of a counter.
type Seat struct{ Counter, Field, Member string }

// Membership is the resource name of the seat's membership.
func (s Seat) Membership(names layout.Layout) string {
	return names.MembersOf(s.Counter, s.Field) + "/" + s.Member
}

// Hold is the write that makes the seat's entry, in the commit that holds the seat until a time. Version
// is the update time of an earlier entry; the zero time says that there must be none.
func (s Seat) Hold(names layout.Layout, until, version time.Time) *firestorepb.Write {
	return store.CreateOver(names.Hold(s.Membership(names)), version, map[string]*firestorepb.Value{
		layout.Until: store.Time(until), entryCounter: store.String(s.Counter), entryField: store.String(s.Field), entryMember: store.String(s.Member),
	})
}

// State is what a seat is.
type State int

// The states of a seat.
const (
	Vacant State = iota // nobody's
	Held                // until a time
	Over                // that time is over, and nobody has ended the hold yet
	Kept                // for good
)

// StateOf is the state of a seat by its membership, which may be nil, as it was at a time of Firestore's.
func StateOf(membership *firestorepb.Document, at time.Time) State {
	until, held := membership.GetFields()[layout.Until]
	switch {
	case membership == nil:
		return Vacant
	case !held:
		return Kept
	case until.GetTimestampValue().AsTime().After(at):
		return Held
	}
	return Over
}

// Action is what somebody does about a seat.
type Action int

// The actions.
const (
	Nothing Action = iota // it is as asked, or can't be any more
	Take                  // make its membership
	Confirm               // take its time away
	End                   // delete its membership, and decide again
)

// Holds is what somebody does who asks for a seat until a time.
func (s State) Holds() Action {
	return map[State]Action{Vacant: Take, Over: End}[s]
}

// Keeps is what somebody does who asks for a seat for good.
func (s State) Keeps() Action {
	return map[State]Action{Vacant: Take, Held: Confirm, Over: End}[s]
}

// Confirms is what somebody does who confirms a hold. Nothing is to be done if the seat is kept already, or gone.
func (s State) Confirms() Action {
	return map[State]Action{Held: Confirm, Over: End}[s]
}

// Holds are those of the counters in a database.
type Holds struct {
	db  *store.DB
	but string // the resource name of a record that is left alone
}

// In are the holds of a database's counters.
func In(db *store.DB) Holds { return Holds{db: db} }

// Except are the same without the hold of an amount whose record has that resource name: whoever settles it for more
// must not end it to make room.
func (h Holds) Except(record string) Holds {
	h.but = record
	return h
}

// patience is for commits that others may be faster than.
var patience = store.Patience{Conflicts: 12, Doubts: 8}

// errOver says that the time of a hold is over which is to be confirmed.
var errOver = errors.New("the time of the hold is over")

// Confirm keeps a seat for good where it is held, and returns what it is then. No commit of Confirm can keep a seat any
// more that is [Vacant]. Of one that is [Over] an [store.ErrDoubt] says that a commit on its way could still keep it,
// until somebody has ended its hold. The budget was promised so many reads for it. Errors are those of
// [store.DB.CommitIf], and of [ceiling.Budget.Lend].
func (h Holds) Confirm(ctx context.Context, s Seat, promised float64) (state State, err error) {
	name := s.Membership(h.db.Layout)
	var lent ceiling.Amounts
	defer func() { h.db.Budget.Release(lent) }()
	_, err = h.db.CommitIf(ctx, patience, func(ctx context.Context) ([]*firestorepb.Write, error) {
		docs, at, err := h.db.Promised(promised).Get(ctx, name)
		promised = 0
		if state = Vacant; err != nil {
			return nil, err
		}
		m := docs[0]
		switch state = StateOf(m, at); state.Confirms() {
		case Nothing:
			return nil, nil
		case End:
			return nil, errOver
		}
		if confirm := (ceiling.Amounts{ceiling.Writes: 2}); lent != confirm {
			if err := h.db.Budget.Lend(ctx, "what is confirmed", confirm, lent); err != nil {
				return nil, fmt.Errorf("%w: %w", store.ErrContention, err)
			}
			lent = confirm
		}
		state = Kept
		return []*firestorepb.Write{
			store.Update(name, store.IfVersion(m.GetUpdateTime().AsTime()), nil, []string{layout.Until}), h.expireEntry(name),
		}, nil
	})
	if err == errOver { // nothing is in doubt
		err = nil
	}
	return state, err
}

// expireEntry is the write that takes an entry's time away: from then on it only stops late commits, until TTL deletes
// it.
func (h Holds) expireEntry(membership string) *firestorepb.Write {
	w := store.Create(h.db.Layout.Hold(membership), map[string]*firestorepb.Value{layout.ExpireAt: store.Time(h.db.Later().Add(keptFor))})
	w.CurrentDocument = nil
	return w
}

// endedAtOnce is how many holds one commit ends, and fewAtOnce how many at least, however little the budget has left.
const endedAtOnce, fewAtOnce = 100, 10

// atOnce is how many holds one commit ends by what the budget has left: a membership and an entry of each are written.
func (h Holds) atOnce() int {
	return int(max(fewAtOnce, min(endedAtOnce, h.db.Budget.Left(ceiling.Writes)/2)))
}

// budgetShort reports whether the budget has too little left for more than what has to be ended. What is left then is
// for refreshes and walks. Otherwise no total would be shown while many holds end.
func (h Holds) budgetShort() bool { return h.db.Budget.Short(ceiling.Writes, ceiling.Reads) > 0 }

// AnyOver reports whether holds of a field were over at a time, and nobody had ended them by then.
func (h Holds) AnyOver(ctx context.Context, counter string, field layout.Field, at time.Time) (bool, error) {
	var seats, records []*firestorepb.Document
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		collection := h.db.Layout.MembersOf(counter, field.Name)
		seats, err = h.db.Documents(ctx, store.Query{Collection: collection, By: layout.Until, Most: store.Time(at), At: at, Limit: 1})
		return err
	})
	group.Go(func() (err error) {
		q := h.openDueBy(counter, field.Shard, at)
		q.At, q.Limit = at, 2 // one may be left alone
		records, err = h.db.Documents(ctx, q)
		records = slices.DeleteFunc(records, func(doc *firestorepb.Document) bool { return doc.GetName() == h.but })
		return err
	})
	if err := group.Wait(); err != nil {
		return false, fmt.Errorf("look for holds that were over: %w", err)
	}
	return len(seats)+len(records) > 0, nil
}

// Ending is what became of the holds of a field that were over.
type Ending struct {
	Free    bool                 // none is in the way, whoever ended them or deletes their counter; or some were ended
	Remain  bool                 // there may be more, for which the budget has too little left
	Entries map[string]time.Time // :: membership of each seat that was given back → version of the seat's entry
}

// End ends the holds of a field that are over, a page of them in each commit, while the budget isn't short. Errors are
// those of [store.DB.CommitIf].
func (h Holds) End(ctx context.Context, counter string, field layout.Field) (ended Ending, err error) {
	ended.Entries = map[string]time.Time{}
	for _, plan := range []func(context.Context, string, layout.Field, int, int) (page, error){h.endRecords, h.endSeats} {
		for more := true; more; {
			var p page
			most, try := h.atOnce(), 0
			resp, err := h.db.CommitIf(ctx, patience, func(ctx context.Context) (_ []*firestorepb.Write, err error) {
				try++
				p, err = plan(ctx, counter, field, most, try)
				return p.writes, err
			})
			if err != nil {
				return ended, err
			}
			for _, seat := range p.seats {
				if resp != nil {
					ended.Entries[seat.GetName()] = resp.GetCommitTime().AsTime()
				}
			}
			ended.Free, more = ended.Free || p.free, p.more
			if ended.Remain = more && h.budgetShort(); ended.Remain {
				return ended, nil
			}
		}
	}
	return ended, nil
}

// page is what one commit ends.
type page struct {
	writes []*firestorepb.Write
	seats  []*firestorepb.Document // the memberships that it deletes
	free   bool                    // it ends holds, or there is none that is over and in the way
	more   bool                    // there may be more
}

// over are documents of a collection whose time until is over, at most that many.
func (h Holds) over(ctx context.Context, collection string, most int) ([]*firestorepb.Document, error) {
	docs, err := h.db.Documents(ctx, store.Query{Collection: collection, By: layout.Until, Most: store.Time(h.db.Now()), Limit: most})
	if err != nil {
		return nil, fmt.Errorf("look for holds that are over: %w", err)
	}
	// The query's own answer tells Firestore's time, if none before it did.
	now := h.db.Now()
	return slices.DeleteFunc(docs, func(doc *firestorepb.Document) bool { return StateOf(doc, now) != Over }), nil
}

// endSeats plans a commit that ends holds of seats. Each membership goes on condition of its version, so no hold ends
// twice. It ends at most as many as the shards count members: if these are fewer, something else wrote the shards.
func (h Holds) endSeats(ctx context.Context, counter string, field layout.Field, most, try int) (p page, err error) {
	over, err := h.over(ctx, h.db.Layout.MembersOf(counter, field.Name), most)
	if err != nil || len(over) == 0 {
		return page{free: true}, err
	}
	if field.Limit == nil { // any shard will do
		shard := over[0].GetFields()[layout.MemberShard].GetStringValue()
		if _, numbered := layout.ShardNumber(shard); !numbered { // something else wrote the membership
			shard = layout.ShardID(0)
		}
		freed := GivenBack{h.db.Layout.Shard(counter, shard): escrow.Balance{Count: int64(-len(over))}}
		p.seats, p.free = over, true
		p.writes, err = h.GiveBack(ctx, counter, field.Shard, freed, try > 1)
	} else {
		p, err = h.endLimitedSeats(ctx, counter, field, over, try%RenewsAfter == 0)
	}
	for _, m := range p.seats {
		p.writes = append(p.writes, store.DeleteIf(m.GetName(), store.IfVersion(m.GetUpdateTime().AsTime())), h.expireEntry(m.GetName()))
	}
	p.more = len(p.seats) == most
	return p, err
}

// endLimitedSeats plans which of the seats of a field with a limit are given back, and to which shards: on condition of
// what these hold, because others take by that. Busy says that others keep changing them.
func (h Holds) endLimitedSeats(ctx context.Context, counter string, field layout.Field, over []*firestorepb.Document, busy bool) (p page, err error) {
	docs, err := h.db.Documents(ctx, seats.Shards(h.db.Layout, counter, field, time.Time{}))
	if err != nil {
		return p, fmt.Errorf("read shards: %w", err)
	}
	shards := seats.ShardsOf(book.Shards(docs).Counting(field), field)
	if busy {
		// An increment by 0 makes a 0 of a text that something else has written. Such a shard holds nothing.
		shards = slices.DeleteFunc(shards, func(shard seats.Shard) bool { return shard.Balance == escrow.Balance{} })
		shards = h.Renew(ctx, counter, field, shards)
	}
	held := seats.HeldOf(shards)
	n := min(int64(len(over)), escrow.Sum(held...).Members)
	plan, _ := escrow.Spread(held, []escrow.Balance{escrow.By(-n, true, false)}, rand.IntN)
	for _, change := range plan {
		p.writes = append(p.writes, shards[change.Shard].AddTo(field.Shard, change.By))
	}
	p.seats, p.free = over[:n], n > 0 || len(docs) == 0 // without shards the counter is being deleted
	return p, nil
}

// RenewsAfter is at which of the attempts to change many shards of a field with a limit these are renewed.
const RenewsAfter = 3

// Renew changes the versions of all shards of a field with a limit, and returns what they hold then. Whoever takes by
// what he knows of them has to look at them first, which takes longer than a commit on condition of all of them.
func (h Holds) Renew(ctx context.Context, counter string, field layout.Field, known []seats.Shard) []seats.Shard {
	var writes []*firestorepb.Write
	for _, shard := range known {
		writes = append(writes, seats.AddTo(shard.Name, store.Exists(true), field.Shard, escrow.Balance{}))
	}
	resp, _ := h.db.Commit(ctx, writes...) // without an answer they are as they were known, or the next commit fails
	if renewed := seats.After(h.db.Layout, counter, field.Shard, writes, resp); len(renewed) == len(known) {
		return renewed
	}
	return known
}

const (
	// entriesAtOnce is how many entries are looked at in one go: fewer if the budget has no more reads left.
	entriesAtOnce = 500
	// putOff is how long an entry isn't looked at whose hold can't be ended.
	putOff = 10 * time.Minute
)

// heldField is a field of a counter.
type heldField struct{ counter, field string }

// EndAll ends the holds of all counters that are over, of fields that this revision counts. It goes on while there are
// more and the budget isn't short, and returns the errors of fields whose holds it couldn't end.
func (h Holds) EndAll(ctx context.Context) error {
	began := h.db.Now()
	done := map[heldField]bool{} // fields whose holds were ended; false where some are left
	busy := map[heldField]bool{} // fields that others held up: the next look tries them again
	var mu sync.Mutex            // guards both
	endField := func(held heldField, field layout.Field) (err error) {
		ended := Ending{Remain: true}
		if !h.budgetShort() {
			ended, err = h.End(ctx, held.counter, field)
		}
		mu.Lock()
		defer mu.Unlock()
		done[held] = !ended.Remain
		if err != nil {
			busy[held] = errors.Is(err, store.ErrContention) || errors.Is(err, store.ErrDoubt)
			return fmt.Errorf("end holds of counter %q: %w", held.counter, err)
		}
		return nil
	}
	var failed error
	for !h.budgetShort() {
		page := int(max(fewAtOnce, min(entriesAtOnce, h.db.Budget.Left(ceiling.Reads)/2)))
		entries, err := h.over(ctx, h.db.Layout.Holds(), page)
		if err != nil {
			return errors.Join(failed, err)
		}
		var untried []heldField
		for _, entry := range entries {
			held := h.heldFieldOf(entry)
			if !done[held] {
				done[held] = true
				untried = append(untried, held)
			}
		}
		if len(untried) == 0 {
			cleared, err := h.clear(ctx, entries, began, busy)
			if failed = errors.Join(failed, err); err != nil || cleared < page {
				return failed
			}
			continue
		}
		var group errgroup.Group
		group.SetLimit(8)
		for _, held := range untried {
			if field, ok := h.db.Layout.Field(held.field); ok && h.db.Layout.Path.Validate(held.counter) == nil {
				group.Go(func() error { return endField(held, field) })
			}
		}
		failed = errors.Join(failed, group.Wait()) // others are to be ended all the same
	}
	return failed
}

// clear handles entries that are over, and whose holds [Holds.End] didn't end. If nobody holds the seat any more,
// because the member left or the counter was deleted, clear takes the entry's time away. It puts the others off,
// because otherwise they would hide those that come after them; so it does with what something else wrote, whose
// membership may be no document at all. The next look ends holds of busy fields. It returns how many entries are
// handled.
func (h Holds) clear(ctx context.Context, entries []*firestorepb.Document, began time.Time, busy map[heldField]bool) (cleared int, err error) {
	var names []string // the memberships of our own entries
	for _, entry := range entries {
		if IsRecord(entry) {
			continue
		}
		if name := seatOf(entry).Membership(h.db.Layout); h.db.Layout.Hold(name) == entry.GetName() {
			names = append(names, name)
		}
	}
	members, at, err := h.db.Get(ctx, names...)
	if err != nil {
		return 0, err
	}
	gone := map[string]*firestorepb.Write{} // :: entry whose seat nobody holds
	for i, name := range names {
		if state := StateOf(members[i], at); state == Vacant || state == Kept {
			gone[h.db.Layout.Hold(name)] = h.expireEntry(name)
		}
	}
	for _, entry := range entries {
		if h.budgetShort() {
			break
		}
		w := gone[entry.GetName()]
		switch {
		case w != nil:
		case StateOf(entry, began) != Over, busy[h.heldFieldOf(entry)]: // since its field was looked at, it is over: the next look ends it
			continue
		default:
			w = store.Update(entry.GetName(), nil, map[string]*firestorepb.Value{layout.Until: store.Time(h.db.Now().Add(putOff))}, nil)
		}
		w.CurrentDocument = store.IfVersion(entry.GetUpdateTime().AsTime()) // or it is held again by now
		if _, err := h.db.Commit(ctx, w); err != nil && store.KindOf(err) != store.Conflict {
			return cleared, fmt.Errorf("clear an entry: %w", err)
		}
		cleared++
	}
	return cleared, nil
}

// heldFieldOf is the field of a counter that an entry is of, whose name is that in FIELDS; as it stands there, if
// FIELDS doesn't have it.
func (h Holds) heldFieldOf(entry *firestorepb.Document) heldField {
	s := seatOf(entry)
	if IsRecord(entry) {
		if field, ok := h.db.Layout.Sharded.ByShard(s.Field); ok {
			s.Field = field.Name
		}
	}
	return heldField{s.Counter, s.Field}
}

func seatOf(entry *firestorepb.Document) Seat {
	fields := entry.GetFields()
	return Seat{Counter: fields[entryCounter].GetStringValue(), Field: fields[entryField].GetStringValue(), Member: fields[entryMember].GetStringValue()}
}
