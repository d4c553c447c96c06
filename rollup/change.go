package rollup

import (
	"time"

	"github.com/firestore-counters/counters/internal/ledger"
)

// Change is one change of a shard's document, as an event tells it.
type Change struct {
	Counter string // id of the counter
	Shard   string // id of the shard

	Before *Version // nil when the change created the document
	After  *Version // nil when the change deleted the document
}

// Version is one version of a shard's document.
type Version struct {
	Count   int64     // 0 where the field is missing, as for Firestore's own sum()
	Updated time.Time // the document's update time, in microseconds
}

// Delta is what the change added to the shard's count. It is right to add it to a total only when events come once and
// in order; [Client.Apply] doesn't rely on that.
func (c Change) Delta() int64 {
	var delta int64
	if c.After != nil {
		delta += c.After.Count
	}
	if c.Before != nil {
		delta -= c.Before.Count
	}
	return delta
}

// State is what a shard held as of a time. Of two states of one shard the one with the later time counts.
type State = ledger.State

// State is what the shard holds after the change.
//
// A deleted shard holds 0, a microsecond after the old version's update time. The platform doesn't say whether that
// time is the version's before or the deletion's own, and examples of both are about; either way the state sorts after
// everything the document held before, and before whatever is made under its name later. Neither our clock nor the
// event's is asked.
func (c Change) State() State {
	if c.After == nil {
		return State{Shard: c.Shard, AsOf: c.Before.Updated.Add(time.Microsecond)}
	}
	return State{Shard: c.Shard, Count: c.After.Count, AsOf: c.After.Updated}
}
