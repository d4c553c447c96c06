package rollup

import (
	"time"

	"github.com/firestore-counters/counters/internal/ledger"
)

// Change is what an event says: what a shard's document holds now, or that a document has changed which
// a query counts.
type Change struct {
	// id of the counter; empty if the document itself names it, and did not come along
	Counter string
	Shard   string // id of the shard; empty of another document

	// which documents the query counts, as FIELDS has it: comments, or /comments where
	// post=={post}; empty for a shard
	Collection string
	Document   string // id of that document; its path where it names its counter itself

	// AsOf is the document's update time, in microseconds; zero if it isn't known what became of the
	// document: see [Client.Named].
	//
	// That of a deletion is a microsecond after the old version's. The platform may give that version's time
	// or the deletion's own; either way a deletion sorts after everything that the document held before, and
	// before whatever is made under its name later. Neither our clock nor the event's is asked.
	AsOf   time.Time
	Made   time.Time        // a shard's create time, where it is known
	Counts map[string]int64 // what a shard holds: its integer fields, by their names, without zeros
	Odd    []string         // its fields that are numbers and no integers, which no event can count
	Blank  []string         // its fields that are no numbers: what was counted of them is kept
	Was    map[string]int64 // what fields of Odd and Blank held just before, of those that held integers, where it is known
	WasOdd bool             // one of Blank was in Odd just before
	// Gone: the document was deleted, or names another counter now.
	Gone bool
}

// state is what the shard holds after the change.
func (c Change) state() ledger.State {
	return ledger.State{Shard: c.Shard, AsOf: c.AsOf, Made: c.Made, Counts: c.Counts, Odd: c.Odd, Blank: c.Blank, Was: c.Was, WasOdd: c.WasOdd, Gone: c.Gone}
}
