package shards

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/firestore-counters/counters/internal/escrow"
	"github.com/firestore-counters/counters/internal/hold"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Increment is what is to be added to one field of a counter.
type Increment struct {
	Counter string
	Field   string // its name in the counter's document; "" is the first that is counted
	By      int64  // negative to take off; not zero
}

// MaxIncrements is the most increments of each field, and the most counters, in one call of [Client.AddAll].
const MaxIncrements = 500

// maxPlaces is in how many fields with limits one call counts at most: it may look at all shards of each.
const maxPlaces = 20

// place is a field of a counter, most often one with a limit.
type place struct{ counter, field string }

// request is the increments of one call: all of them are applied, or none.
type request struct {
	deltas      deltas
	limited     map[place]bool // those of fields with limits
	key         string         // id of its key's marker, or its hold's record's resource name; "" without a key
	fingerprint string         // fingerprint of what its key came with; "" without a key
	member      *membership    // that is made or deleted with it; nil for an increment
	hold        *hold.Record   // that is made with it, and is its key's marker; nil for what is taken for good
	lasts       time.Duration  // how long the seat or the amount is held; 0 for what is taken for good
	done        chan outcome
	timedOut    <-chan struct{} // closed when its call is to wait no longer; nil if its context says so

	line     *line     // where it stands, or stood last: the queue's
	came     time.Time // into it; zero without a budget
	asked    float64   // units that its caller has asked for in the last minute
	alone    bool      // it shares no commit with other counters: one that it has left, or is to be made
	deadline time.Time // of its batches: see due; zero until the first of them has begun
	// When its key's marker was made alone, so that commits in doubt can't be applied; zero if it
	// wasn't.
	fenced time.Time
	same   []*request  // of its key, in the same batch: they are answered when it is, see answer
	left   atomic.Bool // its caller went away after its commit had begun
}

// outcome is what became of a request.
type outcome struct {
	// An earlier call with the same key was counted; a member was as asked already.
	already bool
	at      time.Time    // of the commit that counted it; zero of a member who was as asked already
	seat    hold.State   // of a member who had joined already, as it was read; free if it was not
	until   time.Time    // when that seat's hold is over; zero for one that is taken for good
	record  *hold.Record // that an earlier call with the same key has made, or found
	pending bool         // the caller went away after its commit had begun: what becomes of it comes later
	err     error
}

// newRequest makes a request of increments.
func newRequest(names layout.Layout, increments []Increment, key Key) (*request, error) {
	if err := names.CheckSums(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidField, err)
	}
	if most := MaxIncrements * len(names.Sharded); len(increments) == 0 || len(increments) > most {
		return nil, fmt.Errorf("%w: %d increments; want 1 to %d", ErrInvalidIncrement, len(increments), most)
	}
	if err := key.Validate(); err != nil {
		return nil, err
	}
	r := &request{done: make(chan outcome, 1)}
	index := make(map[string]int, 1)
	for _, i := range increments {
		if err := names.Path.Validate(i.Counter); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalidID, err)
		}
		if i.By == 0 {
			return nil, fmt.Errorf("%w: counter %q: by is 0", ErrInvalidIncrement, i.Counter)
		}
		field := names.Sharded[0]
		if i.Field != "" {
			if err := names.CheckField(i.Field); err != nil {
				return nil, fmt.Errorf("%w: counter %q: %w", ErrInvalidField, i.Counter, err)
			}
			field, _ = names.Field(i.Field)
		}
		if field.Limit != nil {
			if r.limited == nil {
				r.limited, r.alone = map[place]bool{}, true
			}
			r.limited[place{i.Counter, field.Shard}] = true
		}
		if !r.deltas.count(index, i.Counter, amount{field.Shard, i.By}) {
			return nil, fmt.Errorf("%w: counter %q: the sum of its increments does not fit into an int64", ErrInvalidIncrement, i.Counter)
		}
	}
	if n := len(r.deltas); n > MaxIncrements {
		return nil, fmt.Errorf("%w: increments of %d counters; want 1 to %d", ErrInvalidIncrement, n, MaxIncrements)
	}
	if n := len(r.limited); n > maxPlaces {
		return nil, fmt.Errorf("%w: %d fields with limits; at most %d are counted at once", ErrInvalidIncrement, n, maxPlaces)
	}
	if key.Value != "" {
		r.key, r.fingerprint = key.id(names, r.deltas.keyParts()), fingerprint(increments)
	}
	return r, nil
}

// holdUntil has what the request takes be held until a time.
func (r *request) holdUntil(until time.Time) {
	if r.hold != nil {
		r.hold.Until = until
	} else {
		r.member.until = until
	}
}

// delta is what is added to a counter, in one write.
type delta struct {
	counter string
	amounts []amount // one per field
}

// amount is what is added to a field of a shard.
type amount struct {
	field string
	by    int64
}

// deltas are those of several counters, one each.
type deltas []delta

func (deltas deltas) counters() []string {
	counters := make([]string, len(deltas))
	for i, delta := range deltas {
		counters[i] = delta.counter
	}
	return counters
}

// keyParts are the counters and their fields in shards, in pairs, whatever their order: FIELDS may call a field
// otherwise before a request is repeated.
func (deltas deltas) keyParts() []string {
	var pairs [][]string
	for _, delta := range deltas {
		for _, a := range delta.amounts {
			pairs = append(pairs, []string{delta.counter, a.field})
		}
	}
	slices.SortFunc(pairs, slices.Compare)
	return slices.Concat(pairs...)
}

// count adds to the delta of a counter, whose position the index tells, and reports whether that fits into an int64.
func (s *deltas) count(index map[string]int, counter string, what amount) (fits bool) {
	at, ok := index[counter]
	if !ok {
		at = len(*s)
		index[counter] = at
		*s = append(*s, delta{counter: counter})
	}
	amounts := &(*s)[at].amounts
	n := slices.IndexFunc(*amounts, func(a amount) bool { return a.field == what.field })
	if n < 0 {
		*amounts = append(*amounts, what)
		return true
	}
	last := &(*amounts)[n].by
	fits = store.Add(*last, what.by) == *last+what.by
	*last += what.by
	return fits
}

// fingerprint is the same for the same increments in any order, as they were asked for: FIELDS may
// change before a request is repeated.
func fingerprint(increments []Increment) string {
	sorted := slices.Clone(increments)
	slices.SortFunc(sorted, func(a, b Increment) int {
		return cmp.Or(strings.Compare(a.Counter, b.Counter), strings.Compare(a.Field, b.Field), cmp.Compare(a.By, b.By))
	})
	parts := make([]string, 0, 3*len(sorted))
	for _, i := range sorted {
		// always three: hash prefixes each with its length
		parts = append(parts, i.Counter, i.Field, strconv.FormatInt(i.By, 10))
	}
	return hash(parts...)
}

// writtenOnce are what a request writes beside shards, and a commit can write once: the id of its key's marker, or the
// names of its membership and of the hold's entry.
func (r *request) writtenOnce() []string {
	switch {
	case r.member != nil && r.member.entry != "":
		return []string{r.member.name, r.member.entry}
	case r.member != nil:
		return []string{r.member.name}
	case r.key != "":
		return []string{r.key}
	}
	return nil
}

// outcomeBy is a request's outcome by the markers and memberships that are there: an earlier call was counted, or
// another one has the key. It reports false if they say nothing.
func (r *request) outcomeBy(there map[string]marker) (o outcome, ok bool) {
	m, seen := there[r.key]
	switch {
	case seen && !m.fenced && (m.fingerprint == r.fingerprint || r.hold != nil && m.fingerprint == ""): // or a hold was ended before it was made
		return outcome{already: true, at: m.at, record: m.record}, true
	case r.member != nil:
		seat, member := there[r.member.name]
		if other := !r.member.onlyVersion.IsZero() && !r.member.onlyVersion.Equal(seat.at); r.member.join == member || other {
			return outcome{already: true, seat: seat.seat, until: seat.until}, true
		}
	case seen && !m.fenced:
		return outcome{err: ErrKeyReused}, true
	}
	return outcome{}, false
}

// each is a request, and those that share its outcome, by itself again.
func (r *request) each() []*request {
	all := append([]*request{r}, r.same...)
	r.same = nil
	for _, one := range all {
		one.deadline = r.deadline
	}
	return all
}

// nobodyWaits reports whether its caller, and those who ask for the same with its key, have gone away.
func (r *request) nobodyWaits() bool {
	return r.left.Load() && !slices.ContainsFunc(r.same, func(other *request) bool { return other.fingerprint == r.fingerprint && !other.left.Load() })
}

// answerBy gives a request, and those of its key, their outcome by [request.outcomeBy], and reports whether there is
// one.
func (r *request) answerBy(there map[string]marker) bool {
	if _, ok := r.outcomeBy(there); !ok {
		return false
	}
	for _, one := range r.each() {
		o, _ := one.outcomeBy(there)
		one.done <- o
	}
	return true
}

// answer gives the request its outcome, and one to each request with the same key. After a success these are replays,
// or [ErrKeyReused] if their amount differs. After a failure, a different amount gets [ErrBusy]: nobody has tried it.
func (r *request) answer(o outcome) {
	for _, one := range r.each()[1:] {
		shared := o
		switch {
		case one.fingerprint != r.fingerprint && o.err == nil:
			shared.err = ErrKeyReused
		case one.fingerprint != r.fingerprint:
			shared.err = fmt.Errorf("%w: the key's increment of another amount failed", ErrBusy)
		case o.err == nil && r.hold != nil:
			shared.record = new(*r.hold)
			shared.record.Progress = hold.Open
		}
		shared.already = shared.err == nil
		one.done <- shared
	}
	r.done <- o
}

// size is what a request adds and takes off together, without signs; the largest int64 where that is more.
func (r *request) size() (n int64) {
	for _, delta := range r.deltas {
		for _, a := range delta.amounts {
			if a.by < 0 {
				n = store.Sub(n, a.by)
			} else {
				n = store.Add(n, a.by)
			}
		}
	}
	return n
}

// several is in the place of a counter's id, where there is more than one.
const several = ""

// counter is the only counter of a request, or several.
func (r *request) counter() string {
	if len(r.deltas) == 1 {
		return r.deltas[0].counter
	}
	return several
}

// lineName is the line in which a request stands: that of its counter, or of the field with a limit that it counts in
// alone. It is several for one that goes alone.
func (r *request) lineName() string {
	switch {
	case len(r.limited) == 0:
		return r.counter()
	case len(r.deltas) == 1 && len(r.deltas[0].amounts) == 1:
		return r.counter() + "/" + r.deltas[0].amounts[0].field // no counter's id: it has a part more
	}
	return several
}

// takes is what a request takes of fields with limits.
func (r *request) takes() escrow.Request[place] {
	asked := escrow.Request[place]{}
	for _, delta := range r.deltas {
		for _, a := range delta.amounts {
			if where := (place{delta.counter, a.field}); r.limited[where] {
				asked[where] = escrow.By(a.by, r.member != nil, r.hold != nil)
			}
		}
	}
	return asked
}

// firstCounter returns a counter of the request for which the condition holds.
func (r *request) firstCounter(is func(counter string) bool) (string, bool) {
	for _, delta := range r.deltas {
		if is(delta.counter) {
			return delta.counter, true
		}
	}
	return "", false
}

// describe says which counters a request is of: the only one, or how many.
func (r *request) describe() string {
	if n := len(r.deltas); n > 1 {
		return fmt.Sprintf("%d counters", n)
	}
	return fmt.Sprintf("counter %q", r.counter())
}

// notFound says that a counter of the request doesn't exist.
func notFound(r *request, counter string) error {
	if r.counter() != several {
		return ErrNotFound
	}
	return fmt.Errorf("%w: %q", ErrNotFound, counter)
}

// Fields of a marker, besides expire_at.
const (
	markerBatch  = "batch"   // the batch whose commit made the marker
	markerAsked  = "asked"   // of a key's: what was asked, hashed; see fingerprint
	markerFenced = "settled" // true: the marker was made alone, and nothing was counted
)

// batchMarkerTTL is how long a marker is kept at least. A batch asks for its own within seconds, but a
// late commit may arrive long after, and must find it.
const batchMarkerTTL = time.Hour

// marker is made in the same commit as increments, and so shows whether they were applied.
type marker struct {
	batch       string
	fingerprint string // of a key's
	fenced      bool
	at          time.Time    // of the document that is there, its update time
	seat        hold.State   // of a membership, when it was read
	until       time.Time    // of a membership: when the hold of its seat is over
	record      *hold.Record // of a hold of an amount, which is to be made; or what is there says of one
}

// markerName is the resource name of a marker of that id. A hold's record has no other id.
func markerName(names layout.Layout, id string) string {
	if strings.Contains(id, "/") {
		return id
	}
	return names.Request(id)
}

// Fields of a membership, besides its batch, [layout.MemberShard] and [layout.Until]. Those that clients make by the
// rules have the same.
const (
	// the id of the document: queries over several counters can't ask for that
	memberID   = "member"
	memberAt   = "at"   // when it was made
	memberFrom = "from" // where the member was known before; see [Counter.JoinFrom]
)

// membership says that a member is counted: the commit that counts makes or deletes it, on condition
// that it wasn't there, or was.
type membership struct {
	seat hold.Seat
	name string // resource name
	join bool   // it is made, or else deleted

	onlyVersion  time.Time // of one that is deleted, which alone goes; zero for whatever is there
	from         string    // see [Counter.JoinFrom]
	until        time.Time // when the hold of the seat is over; zero for one that is taken for good
	entry        string    // of a hold, resource name of its entry
	entryVersion time.Time // update time of the entry that is there; zero where there is none
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

// Key makes a call safe to repeat: of all calls with the same key, one is counted. It belongs to its caller, to the
// path and the shards, and to the counters and fields that the call adds to: the same value from another caller, or
// for another counter or field, is another key.
type Key struct {
	Caller string // who asks, where that is known
	Value  string // 1 to 255 printable ASCII characters; "" means none
}

// Validate says why a key can't be one, as [ErrInvalidKey].
func (k Key) Validate() error {
	if len(k.Value) > 255 {
		return fmt.Errorf("%w: it has %d characters, and at most 255 are allowed", ErrInvalidKey, len(k.Value))
	}
	for i := range len(k.Value) {
		if k.Value[i] < ' ' || k.Value[i] > '~' {
			return fmt.Errorf("%w: character %d is not printable ASCII", ErrInvalidKey, i+1)
		}
	}
	return nil
}

// id is the id of the key's marker, of a call that adds to what is named. It is a hash, because a key may be any text.
func (k Key) id(names layout.Layout, named []string) string {
	return hash(append(named, k.Caller, names.Path.Canonical(), names.Shards, k.Value)...)
}

// newID is the id of a batch, or of a transaction, and of its marker.
func newID() string { return rand.Text() }

// hash tells any two lists of strings apart.
func hash(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil))
}
