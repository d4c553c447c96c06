// Package hold says how a seat is held until a time, and how that ends. docs/spec/limits.tla specifies it.
//
// A seat is a membership, which counts 1. One that is held names the time until which it is. Confirming
// takes that time away. Ending a hold deletes the membership, and takes the 1 off in the same commit.
// Both are on condition of the membership's own update time, so whichever comes first wins. That the time
// is over is decided by Firestore's clock, as its answers tell it.
//
// The commits that hold, confirm and end also write an entry beside the memberships. While the seat is
// held, the entry names its time: one query finds the holds of all counters that are over. Afterwards it
// stays, without a time, in the way of an earlier commit that would hold the seat again. TTL takes it once
// none can arrive any more.
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
	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Until is the field of a membership, and of its entry, that says until when the seat is held.
const Until = "until"

// Fields of an entry, besides Until and [layout.ExpireAt].
const (
	entryCounter = "counter"
	entryField   = "field"
	entryMember  = "member"
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
	w := store.Create(names.Hold(s.Membership(names)), map[string]*firestorepb.Value{
		Until: store.Time(until), entryCounter: store.String(s.Counter), entryField: store.String(s.Field), entryMember: store.String(s.Member),
	})
	if !version.IsZero() {
		w.CurrentDocument = store.UpdatedAtTime(version)
	}
	return w
}

// State is what a seat is.
type State int

// The states of a seat.
const (
	Free State = iota // nobody's
	Held              // until a time
	Over              // that time is over, and nobody has ended the hold yet
	Kept              // for good
)

// Of is the state of a seat by its membership, which may be nil, as it was at a time of Firestore's.
func Of(membership *firestorepb.Document, at time.Time) State {
	until, held := membership.GetFields()[Until]
	switch {
	case membership == nil:
		return Free
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

// Holds has whoever asks for a seat until a time do that.
func (s State) Holds() Action {
	return map[State]Action{Free: Take, Over: End}[s]
}

// Keeps has whoever asks for a seat for good do that.
func (s State) Keeps() Action {
	return map[State]Action{Free: Take, Held: Confirm, Over: End}[s]
}

// Confirms has whoever confirms a hold do that. One who does nothing is told that the seat is its own, or
// that it is gone.
func (s State) Confirms() Action {
	return map[State]Action{Held: Confirm, Over: End}[s]
}

// Holds are those of the counters in a database.
type Holds struct {
	db    *store.DB
	books book.Books
}

// In are the holds of a database's counters.
func In(db *store.DB) Holds { return Holds{db: db, books: book.Of(db)} }

// patience is for commits that others may be faster than.
var patience = store.Patience{Conflicts: 12, Doubts: 8}

// Confirm keeps a seat for good. It reports false if nobody holds it: the hold is over, or there was
// none. Then no earlier commit of Confirm can keep it any more. Errors are those of [store.DB.CommitIf].
func (h Holds) Confirm(ctx context.Context, s Seat) (kept bool, err error) {
	name := s.Membership(h.db.Layout)
	_, err = h.db.CommitIf(ctx, patience, func(ctx context.Context) ([]*firestorepb.Write, error) {
		docs, at, err := h.db.Get(ctx, name)
		if err != nil {
			return nil, err
		}
		m := docs[0]
		state := Of(m, at)
		kept = state == Held || state == Kept
		switch state.Confirms() {
		case Confirm:
			return []*firestorepb.Write{
				store.Update(name, store.UpdatedAtTime(m.GetUpdateTime().AsTime()), nil, []string{Until}), h.leave(name),
			}, nil
		case End: // or a commit of this call that is on its way could still keep it
			field, ok := h.db.Layout.Field(s.Field)
			if !ok {
				return nil, fmt.Errorf("%q is not counted", s.Field)
			}
			_, writes, err := h.ending(ctx, s.Counter, field, []*firestorepb.Document{m})
			return writes, err
		}
		return nil, nil
	})
	return kept, err
}

// leave is the write that has an entry only be in the way, until TTL takes it.
func (h Holds) leave(membership string) *firestorepb.Write {
	w := store.Create(h.db.Layout.Hold(membership), map[string]*firestorepb.Value{layout.ExpireAt: store.Time(h.db.Later().Add(keptFor))})
	w.CurrentDocument = nil
	return w
}

// atOnce is how many holds one commit ends.
const atOnce = 100

// AnyOver reports whether holds of a field were over at a time, and nobody had ended them by then.
func (h Holds) AnyOver(ctx context.Context, counter string, field layout.Field, at time.Time) (bool, error) {
	collection := h.db.Layout.MembersOf(counter, field.Name)
	docs, err := h.db.Documents(ctx, store.Query{Collection: collection, By: Until, Until: at, At: at, Limit: 1})
	if err != nil {
		return false, fmt.Errorf("look for holds that were over: %w", err)
	}
	return len(docs) > 0, nil
}

// End ends the holds of a field that are over. It reports false if there are some, and it can end none of them:
// where there are none, others may have been faster. Errors are those of [store.DB.CommitIf].
func (h Holds) End(ctx context.Context, counter string, field layout.Field) (ended bool, err error) {
	for more := true; more && err == nil; {
		_, err = h.db.CommitIf(ctx, patience, func(ctx context.Context) ([]*firestorepb.Write, error) {
			more = false
			over, err := h.over(ctx, h.db.Layout.MembersOf(counter, field.Name), atOnce)
			if err != nil || len(over) == 0 {
				ended = true
				return nil, err
			}
			n, writes, err := h.ending(ctx, counter, field, over)
			ended, more = ended || n > 0, n == atOnce
			return writes, err
		})
	}
	return ended, err
}

// over are documents of a collection whose time until is over, at most that many.
func (h Holds) over(ctx context.Context, collection string, most int) ([]*firestorepb.Document, error) {
	docs, err := h.db.Documents(ctx, store.Query{Collection: collection, By: Until, Until: h.db.Now(), Limit: most})
	if err != nil {
		return nil, fmt.Errorf("look for holds that are over: %w", err)
	}
	// The query's own answer tells Firestore's time, if none before it did.
	now := h.db.Now()
	return slices.DeleteFunc(docs, func(doc *firestorepb.Document) bool { return Of(doc, now) != Over }), nil
}

// ending are the writes that end holds of a field, as many of them as the shards hold members, and how
// many that is. Each is on condition of the membership, so none ends twice.
func (h Holds) ending(ctx context.Context, counter string, field layout.Field, over []*firestorepb.Document) (n int, writes []*firestorepb.Write, err error) {
	shards, err := h.books.Shards(ctx, h.db, counter, time.Time{})
	if err != nil {
		return 0, nil, err
	}
	n, back := giveBack(shards, field, len(over))
	for _, m := range over[:n] {
		writes = append(writes, store.DeleteIf(m.GetName(), store.UpdatedAtTime(m.GetUpdateTime().AsTime())), h.leave(m.GetName()))
	}
	return n, append(writes, back...), nil
}

// giveBack are the writes that take up to n members of a field off shards, and how many they take. Shards
// of a counter with a limit are on condition of what they hold, and give only what members took. If there
// are no shards, or something else wrote them, that is less.
func giveBack(shards book.Shards, field layout.Field, n int) (int, []*firestorepb.Write) {
	limited := shards.Limited()
	if len(limited) > 0 {
		shards = limited // what is beside them something else made
	}
	if len(shards) == 0 {
		return 0, nil
	}
	if _, has := book.LimitsIn(shards)[field.Shard]; !has {
		shard, condition := shards[rand.IntN(len(shards))], store.Exists(true)
		if len(limited) > 0 { // the field may have got a limit meanwhile, too
			condition = store.UpdatedAtTime(shard.GetUpdateTime().AsTime())
		}
		return n, []*firestorepb.Write{store.Update(shard.GetName(), condition, nil, nil, store.Increment(layout.FieldPath(field.Shard), int64(-n)))}
	}
	held := make([]escrow.Held, len(shards))
	for i, doc := range shards {
		held[i], _ = book.HeldOf(doc, field.Shard)
	}
	n = int(min(int64(n), escrow.Sum(held...).Members))
	if n <= 0 {
		return 0, nil
	}
	var writes []*firestorepb.Write
	for _, c := range escrow.Spread(held, escrow.Net{Leave: int64(n)}, rand.IntN) {
		doc, w := shards[c.Shard], book.HeldWrite{}
		w.Change(field.Shard, held[c.Shard], c.Of(held[c.Shard]))
		writes = append(writes, w.Update(doc.GetName(), store.UpdatedAtTime(doc.GetUpdateTime().AsTime())))
	}
	return n, writes
}

const (
	// entriesAtOnce is how many entries are looked at in one go.
	entriesAtOnce = 500
	// putOff is how long an entry isn't looked at whose hold can't be ended, and busy where that may only have been too busy:
	// until the next look.
	putOff, busy = 10 * time.Minute, 30 * time.Second
)

// EndAll ends the holds of all counters that are over, of fields that this revision counts. It goes on
// while there are more, and returns the errors of fields whose holds it couldn't end.
func (h Holds) EndAll(ctx context.Context) error {
	began := h.db.Now()
	tried, failing := map[Seat]bool{}, map[Seat]bool{} // without members: fields
	var mu sync.Mutex                                  // of failing
	var failed error
	for {
		entries, err := h.over(ctx, h.db.Layout.Holds(), entriesAtOnce)
		if err != nil {
			return errors.Join(failed, err)
		}
		var fields []Seat
		for _, entry := range entries {
			s := seatOf(entry)
			if s.Member = ""; !tried[s] {
				tried[s] = true
				fields = append(fields, s)
			}
		}
		if len(fields) == 0 {
			cleared, err := h.clear(ctx, entries, began, failing)
			if failed = errors.Join(failed, err); err != nil || cleared < entriesAtOnce {
				return failed
			}
			continue
		}
		var group errgroup.Group
		group.SetLimit(8)
		for _, s := range fields {
			if field, ok := h.db.Layout.Field(s.Field); ok && h.db.Layout.Path.Validate(s.Counter) == nil {
				group.Go(func() error {
					if _, err := h.End(ctx, s.Counter, field); err != nil {
						mu.Lock()
						failing[s] = errors.Is(err, store.ErrContention) || errors.Is(err, store.ErrDoubt)
						mu.Unlock()
						return fmt.Errorf("end holds of counter %q: %w", s.Counter, err)
					}
					return nil
				})
			}
		}
		if err := group.Wait(); err != nil { // others are to be ended all the same
			failed = errors.Join(failed, err)
		}
	}
}

// clear is for entries that are over, and that nothing has ended. Of some, nobody holds the seat: the member left, or
// the counter was deleted. The others are put off, or they would be in the way of those that come after them; so is
// what something else wrote, whose membership may be no document at all. Failing are fields whose holds may end at the
// next look. It returns how many are out of the way.
func (h Holds) clear(ctx context.Context, entries []*firestorepb.Document, began time.Time, failing map[Seat]bool) (cleared int, err error) {
	var names []string // of the memberships of our own entries
	for _, entry := range entries {
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
		if state := Of(members[i], at); state == Free || state == Kept {
			gone[h.db.Layout.Hold(name)] = h.leave(name)
		}
	}
	for _, entry := range entries {
		w := gone[entry.GetName()]
		switch {
		case w != nil:
		case Of(entry, began) != Over: // it is over since its field was looked at: the next look ends it
			continue
		default:
			later, of := putOff, seatOf(entry)
			if of.Member = ""; failing[of] {
				later = busy
			}
			w = store.Update(entry.GetName(), nil, map[string]*firestorepb.Value{Until: store.Time(h.db.Now().Add(later))}, nil)
		}
		w.CurrentDocument = store.UpdatedAtTime(entry.GetUpdateTime().AsTime()) // or it is held again by now
		if _, err := h.db.Commit(ctx, w); err != nil && store.KindOf(err) != store.Conflict {
			return cleared, fmt.Errorf("clear an entry: %w", err)
		}
		cleared++
	}
	return cleared, nil
}

func seatOf(entry *firestorepb.Document) Seat {
	fields := entry.GetFields()
	return Seat{Counter: fields[entryCounter].GetStringValue(), Field: fields[entryField].GetStringValue(), Member: fields[entryMember].GetStringValue()}
}
