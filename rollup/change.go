package rollup

import (
	"time"

	"github.com/firestore-counters/counters/internal/ledger"
)

// Change is one change of a shard's document, as an event brings it, or of a document that a field counts.
type Change struct {
	Counter string // id of the counter
	Shard   string // id of the shard; empty of another document

	Collection string // id of the counter's collection that a counted document is in; empty of a shard
	Document   string // id of that document

	Before *Version // nil when the change created the document; all of its Counts are there
	After  *Version // nil when the change deleted the document
}

// Version is one version of a document.
type Version struct {
	// Counts are what a shard holds, by the names of the counted fields in the counter's document: 0 where it lacks a field, as
	// for Firestore's own sum(). Left out are those that are not integers, which no event can count.
	Counts  map[string]int64
	Updated time.Time // the document's update time, in microseconds
}

// state is what the shard holds after the change.
//
// A deleted shard holds 0, a microsecond after the old version's update time. The platform doesn't say whether that
// time is the version's before or the deletion's own, and examples of both are about; either way the state sorts after
// everything the document held before, and before whatever is made under its name later. Neither our clock nor the
// event's is asked.
func (c Change) state() ledger.State {
	if c.After == nil {
		none := make(ledger.Counts, len(c.Before.Counts))
		for name := range c.Before.Counts {
			none[name] = 0
		}
		return ledger.State{Shard: c.Shard, Counts: none, AsOf: c.Before.Updated.Add(time.Microsecond), Gone: true}
	}
	return ledger.State{Shard: c.Shard, Counts: c.After.Counts, AsOf: c.After.Updated}
}

// updated is the newest update time in the change.
func (c Change) updated() time.Time {
	if c.After == nil {
		return c.Before.Updated
	}
	return c.After.Updated
}
