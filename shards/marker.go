package shards

import (
	"time"

	"github.com/firestore-counters/counters/internal/hold"
)

// Fields of a marker, besides expire_at.
const (
	markerBatch   = "batch"   // the batch whose commit made the marker
	markerAsked   = "asked"   // of a key's: what was asked, hashed; see fingerprint
	markerSettled = "settled" // true: the marker was made alone, and nothing was counted
)

// batchMarkerTTL is how long a marker is kept at least. A batch asks for its own within seconds, but a
// late commit may arrive long after, and must find it.
const batchMarkerTTL = time.Hour

// recordPrefix is what the id of a hold's record begins with, where ids of markers are: it is its request's marker.
const recordPrefix = "hold:"

// marker is made in the same commit as increments, and so shows whether they were applied.
type marker struct {
	batch   string
	asked   string // of a key's
	settled bool
	at      time.Time // of the document that is there, its update time
	held    bool      // of a membership: the seat is held until a time
	// of a hold of an amount: what is to be made, or is there; nil for other markers, and while one stands in its way
	record *hold.Record
}

// Fields of a membership, besides its batch and [hold.Until]. Those that clients make by the rules have the
// same.
const (
	// the id of the document: queries over several counters can't ask for that
	memberID    = "member"
	memberAt    = "at"    // when it was made
	memberFrom  = "from"  // where the member was known before; see [Counter.JoinFrom]
	memberShard = "shard" // the shard that it was counted on, where a client's undo goes
)

// membership says that a member is counted: the commit that counts makes or deletes it, on condition
// that it wasn't there, or was.
type membership struct {
	seat hold.Seat
	name string // resource name
	join bool   // it is made, or else deleted

	from  string    // see [Counter.JoinFrom]
	until time.Time // when the hold of the seat is over; zero for one that is taken for good
	entry string    // of a hold, resource name of its entry
	after time.Time // update time of the entry that is there; zero where there is none
}

// Member is one whom a field of a counter counts once.
type Member struct {
	Member string    `json:"member"`
	At     time.Time `json:"at"` // when it joined
	// Until is when the hold of its seat is over (see [Counter.Hold]); the zero time for one that is taken
	// for good.
	Until time.Time `json:"until,omitzero"`
	// From is what [Counter.JoinFrom] was told; "" for those who joined by themselves.
	From string `json:"from,omitempty"`
}
