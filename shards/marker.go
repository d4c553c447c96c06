package shards

import "time"

// Fields of a marker, besides expire_at.
const (
	markerBatch   = "batch"   // the batch whose commit made the marker
	markerAsked   = "asked"   // of a key's: what was asked, hashed; see fingerprint
	markerSettled = "settled" // true: the marker was made alone, and nothing was counted
)

// batchMarkerTTL is how long any marker is kept at least. A batch asks for its own within seconds;
// a commit whose answer was lost may arrive when the batch has long ended, and finds it.
const batchMarkerTTL = time.Hour

// marker is a document that is made in the same commit as increments, and so shows whether
// they were applied.
type marker struct {
	batch   string
	asked   string // of a key's
	settled bool
	at      time.Time // of the document that is there, its update time
}

// Fields of a membership, besides its batch. Those that clients make by the rules have the same.
const (
	// the id of the document, which queries over several counters can't ask for
	memberID    = "member"
	memberAt    = "at"    // when it was made
	memberShard = "shard" // the shard that it was counted on, where a client's undo goes
)

// membership is the document that says that a member is counted: it is made or deleted in the
// commit that counts, on condition that it wasn't there, or was.
type membership struct {
	name   string // resource name
	member string
	join   bool // it is made, or else deleted
}

// Member is one whom a field of a counter counts once.
type Member struct {
	Member string    `json:"member"`
	At     time.Time `json:"at"` // when it joined
}
