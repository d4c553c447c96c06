package rollup

import (
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// Change is what an event brings: what a shard's document holds now, or that a document has changed
// in a collection that a query counts.
type Change struct {
	// id of the counter; empty of a document that names its counter itself, and did not come along
	Counter string
	Shard   string // id of the shard; empty of another document

	// which documents the query counts, as FIELDS has it: comments, or /comments where
	// post=={post}; empty for a shard
	Collection string
	Document   string // id of that document; its path where it names its counter itself

	// AsOf is the document's update time, in microseconds, and the zero time where it isn't known
	// what became of the document: see [Client.Named].
	//
	// That of a deletion is a microsecond after the old version's. The platform doesn't say whether
	// that one's time is the version's before or the deletion's own, and examples of both are about;
	// either way a deleted shard's state sorts after everything the document held before, and before
	// whatever is made under its name later. Neither our clock nor the event's is asked.
	AsOf   time.Time
	Made   time.Time        // a shard's create time, where it is known
	Counts map[string]int64 // what a shard holds: its integer fields, by their names, without zeros
	Odd    []string         // its fields that are numbers and no integers, which no event can count
	Blank  []string         // its fields that are no numbers: what was counted of them is kept
	Was    map[string]int64 // what fields of Odd and Blank held just before, of those that held integers, where it is known
	WasOdd bool             // one of Blank was in Odd just before
	// Gone: the document was deleted; or it names its counter itself, and that is another now
	Gone bool
}

// state is what the shard holds after the change.
func (c Change) state() ledger.State {
	return ledger.State{Shard: c.Shard, AsOf: c.AsOf, Made: c.Made, Counts: c.Counts, Odd: c.Odd, Blank: c.Blank, Was: c.Was, WasOdd: c.WasOdd, Gone: c.Gone}
}

// holds is the change of a document of which it is known what it is, or was before it was deleted.
func (c Change) holds(doc *firestorepb.Document, gone bool) Change {
	c.AsOf, c.Gone = doc.GetUpdateTime().AsTime(), gone
	switch {
	case gone:
		c.AsOf = c.AsOf.Add(time.Microsecond)
	case c.Shard != "":
		s := book.ShardState(doc)
		c.Made, c.Counts, c.Odd, c.Blank = s.Made, s.Counts, s.Odd, s.Blank
	}
	return c
}

// held notes what the shard held before of fields that are no integers any more: whatever has been heard
// of it, that was counted.
func (c Change) held(before *firestorepb.Document) Change {
	if before == nil || len(c.Odd)+len(c.Blank) == 0 {
		return c
	}
	odd := book.ShardState(before).Odd
	c.WasOdd = slices.ContainsFunc(c.Blank, func(name string) bool { return slices.Contains(odd, name) })
	for _, name := range slices.Concat(c.Odd, c.Blank) {
		n, ok := store.Integer(before.GetFields()[name]) // 0 of one that is missing
		switch {
		case !ok:
		case c.Was == nil:
			c.Was = map[string]int64{name: n}
		default:
			c.Was[name] = n
		}
	}
	return c
}
