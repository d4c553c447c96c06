package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/firestore-counters/counters/internal/layout"
)

// MaxNumbers is how many numbers a ledger holds at most: each shard's fields, and the answers. With
// the longest names they take some 900 KB. A document may have 1 MB.
const MaxNumbers = layout.MaxNumbers

// Counts are the integer fields of a shard, by their names in the shard. A missing field is 0.
type Counts map[string]int64

// State is what a shard held at a time.
type State struct {
	Shard  string
	AsOf   time.Time // the document's own update time, in microseconds
	Made   time.Time // its create time, if known: an older entry is of an earlier document with this name
	Counts Counts    // without zeros
	Odd    []string  // fields that hold no exact integer, such as 0.5: they keep their last known count
	// Blank are fields that can't be a count: a text, null, NaN, 1e300. An increment replaces a text or
	// null, and begins from 0. So the field's last known count goes into the base.
	Blank []string
	Was   Counts // what fields of Odd and Blank held just before, if that is known and was an integer
	// WasOdd: a field of Blank was Odd just before. No other state says that its last known count goes into
	// the base.
	WasOdd bool
	Gone   bool // the shard was deleted, and its counts are 0
}

// Kind is what a field of a shard holds.
type Kind int

// Kinds of what a field holds.
const (
	Integer Kind = iota
	Odd          // a double that is no exact integer: a fraction, or from ±2⁵³ on
	Blank        // anything else
)

// Put sets an entry of a map, which it makes if there is none.
func Put[M ~map[K]V, K comparable, V any](in *M, key K, value V) {
	if *in == nil {
		*in = M{}
	}
	(*in)[key] = value
}

// Set enters a field of the shard, with n if it is an integer. It ignores a field that no ledger
// counts.
func (s *State) Set(field string, n int64, kind Kind) {
	switch {
	case !layout.CountsField(field) || kind == Integer && n == 0:
	case kind == Odd:
		s.Odd = append(s.Odd, field)
	case kind == Blank:
		s.Blank = append(s.Blank, field)
	default:
		Put(&s.Counts, field, n)
	}
}

// Supersedes reports whether s is strictly newer than old, a state of the same shard. Once s is
// counted, old need not be. A deletion's time is a microsecond after the version before it, and the
// shard may have been made again at that very time. So at equal times a document beats a deletion.
func (s State) Supersedes(old State) bool {
	if order := s.AsOf.Compare(old.AsOf); order != 0 {
		return order > 0
	}
	return old.Gone && !s.Gone
}

// after is the entry for s, where known is the ledger's entry until now. Fields that are Odd keep
// known's count. The counts of fields that became something else, such as a text, are
// kept for the base. Neither is kept of an earlier document with the shard's name: its counts went with
// it, perhaps to another shard, whatever the ledger has heard of that.
func (l *Ledger) after(s State, known Entry) (e Entry, kept Counts) {
	if s.Made.After(known.AsOf) && !(l.Restored && known.AsOf.Before(l.Created)) {
		known.Counts = nil
	}
	before := func(field string) int64 {
		if n, told := s.Was[field]; told {
			return n
		}
		return known.Counts[field]
	}
	e = Entry{AsOf: s.AsOf, Counts: s.Counts}
	for _, name := range s.Odd {
		if n := before(name); n != 0 {
			e.Counts = maps.Clone(e.Counts)
			Put(&e.Counts, name, n)
		}
	}
	for _, name := range s.Blank {
		if _, limited := l.Limits[name]; limited {
			continue // its total is made of shards alone
		}
		if n := before(name); n != 0 {
			Put(&kept, name, n)
		}
	}
	return e, kept
}

// Entry is the newest counted state of one shard. A deleted shard's entry has no counts.
type Entry struct {
	AsOf   time.Time
	Counts Counts
}

// olderThan reports whether s supersedes the state of the entry.
func (e Entry) olderThan(s State) bool {
	return s.Supersedes(State{AsOf: e.AsOf, Gone: len(e.Counts) == 0 && len(s.Counts) > 0})
}

// less reports whether any field of the shard holds less than before.
func (e Entry) less(before Entry) bool {
	for _, counts := range []Counts{e.Counts, before.Counts} {
		for name := range counts {
			if e.Counts[name] < before.Counts[name] {
				return true
			}
		}
	}
	return false
}

// numbers is how many of [MaxNumbers] an entry takes.
func (e Entry) numbers() int { return max(1, len(e.Counts)) }

// Answer is what a query such as count(comments) answered. Events only say that something has
// changed, and the query has the value.
type Answer struct {
	ReadTime time.Time
	// Value is the last number that a query answered: an int64, or for averages and doubles a float64,
	// or [None]. It is nil if no query has answered a number yet. See [layout.Field.Integer].
	Value any
	Odd   bool // at the read time the sum was no integer: a document had a half, say
}

// None is the value of an average of no documents.
type None struct{}

// Counts reports whether the answer is anything else than nothing or 0.
func (a Answer) Counts() bool {
	return a.Odd || a.Value != nil && a.Value != int64(0) && a.Value != 0.0 && a.Value != None{}
}

// Ledger says what a counter's totals are made of.
type Ledger struct {
	States  map[string]Entry  // :: [Key] of a shard's id → the newest state counted
	Answers map[string]Answer // :: [layout.Field.Key] of a definition → the newest answer
	Base    Counts            // :: field of the shards → what its total holds beyond them
	// :: shown field → the number that adoption found in the counter's document, if it differed
	Replaced map[string]int64

	// Floor is a time at which all shards that aren't in States held nothing. So a state that isn't
	// newer counts nothing, unless it is a deletion, whose time tells less: see [State.Supersedes].
	// At first it is the ledger's create time, so late events of an earlier life count nothing. It is
	// just before that time if the same commit made a shard that holds something. Each snapshot that
	// corrects the ledger raises it.
	Floor time.Time

	// when the counter's document was first found missing; zero while it exists
	Gone time.Time
	// everything below the path is being removed, unless the document comes back; Gone is set, too
	Ending bool
	// :: [layout.Field.Key] → the sum of States, or the answer, for each field that the counter's document
	// shows since the ledger's last writer. It is empty if the document was missing or full. A reconcile
	// compares these sums with the shards', without reading States.
	Sums Counts
	// Uneven is when something was last taken off a shard since all shards were looked at; zero if
	// nothing was, as far as we know. Then Sums may equal the shards' sums although single entries are
	// wrong: one lacks what another has too much. Shards that only grow can't hide a loss like that.
	Uneven time.Time
	// how many flushes there were: an instance sees by it how many the others made
	Flushes int64
	// :: id of a command → when it was applied; kept for as long as a command may be in doubt
	Ops      map[string]time.Time
	Imported map[string]int64 // :: hash of an imported counter → how much of base comes from it; see [Unknown]
	// :: field of the shards → its limit. Then the total is made of shards alone, and the id of each shard
	// says that there is a limit: see [layout.LimitedShard].
	Limits Counts

	Created time.Time // the document's create time
	// Restored: the document is the copy of a backup, and not all shards were looked at since. They are copies,
	// too: made later than what was counted of them before, though nothing has deleted them.
	Restored bool
	Updated  time.Time // the document's update time: every commit's precondition
}

// New is a ledger of what the shards hold, all at one time.
func New(shards []State) *Ledger {
	l := &Ledger{States: make(map[string]Entry, len(shards)), Base: Counts{}}
	for _, s := range shards {
		l.States[Key(s.Shard)] = Entry{AsOf: s.AsOf, Counts: s.Counts}
	}
	return l
}

// sum is what the shards hold of a field.
func (l *Ledger) sum(field string) (w wide) {
	for _, e := range l.States {
		w.add(e.Counts[field])
	}
	return w
}

// Sum is what States hold of a field of the shards.
func (l *Ledger) Sum(field string) int64 { return l.sum(field).clamp() }

// Total is the integer that a field of the counter's document should hold. It reports false for a
// field that counts documents and has no answer yet: the document's field then stays as it is. It
// also reports false for a double: such a field holds its answer.
func (l *Ledger) Total(field layout.Field) (int64, bool) {
	if field.Counted != nil {
		n, ok := l.Answers[field.Key()].Value.(int64)
		return n, ok
	}
	w := l.sum(field.Shard)
	w.add(l.Base[field.Shard])
	return w.clamp(), true
}

// Totals are what the fields of the counter's document should hold, by their names. Fields without
// a [Ledger.Total] are left out.
func (l *Ledger) Totals(fields ...layout.Field) map[string]int64 {
	totals := make(map[string]int64, len(fields))
	for _, field := range fields {
		if total, ok := l.Total(field); ok {
			totals[field.Name] = total
		}
	}
	return totals
}

// BaseFor is the base with which a field has the given total, or as close as an int64 comes.
func (l *Ledger) BaseFor(field string, total int64) int64 {
	w := l.sum(field)
	w.hi, w.lo = -w.hi, -w.lo
	w.add(total)
	return w.clamp()
}

// Numbers is how many of [MaxNumbers] the ledger holds: those of shards and of the base, answers, and
// imports.
func (l *Ledger) Numbers() int {
	n := len(l.Answers) + len(l.Base) + min(len(l.Imported), MaxImported)
	for _, e := range l.States {
		n += e.numbers()
	}
	return n
}

// Gaps is how many entries hold nothing: those of deleted shards, and of shards that are 0.
func (l *Ledger) Gaps() (n int) {
	for _, e := range l.States {
		if len(e.Counts) == 0 {
			n++
		}
	}
	return n
}

// Merge returns what states and answers change in the ledger, and leaves the ledger as it is. The
// newest state of a shard counts, and the newest answer of a query. The caller sorts a shard's states
// by time.
func (l *Ledger) Merge(states []State, answers map[string]Answer) Diff {
	d := Diff{}
	held, added := -1, 0 // numbers; the ledger's are counted only if some are added
	fits := func(more int) bool {
		if more > 0 && held < 0 {
			held = l.Numbers()
		}
		if more > 0 && held+added+more > MaxNumbers {
			return false
		}
		added += more
		return true
	}
	for _, s := range states {
		key := Key(s.Shard)
		known, ok := d.States[key]
		if !ok {
			known, ok = l.States[key]
		}
		if !s.Gone && !s.AsOf.After(l.Floor) || ok && !known.olderThan(s) {
			continue // counted, or of an earlier life
		}
		// A deletion is entered at any time: an older snapshot, in which the shard still exists, may be
		// on its way to the ledger.
		e, kept := l.after(s, known)
		more := e.numbers()
		if ok {
			more -= known.numbers()
		}
		for name := range kept {
			if _, has := l.Base[name]; !has {
				more++
			}
		}
		if !fits(more) {
			d.Full = append(d.Full, key) // a deletion, too: such a snapshot would bring its shard back
			continue
		}
		Put(&d.States, key, e)
		l.keep(&d, kept)
		if e.less(known) && s.AsOf.After(d.Uneven) {
			d.Uneven = s.AsOf
		}
	}
	if !d.Uneven.After(l.Uneven) {
		d.Uneven = time.Time{}
	}
	for key, a := range answers {
		known, ok := l.Answers[key]
		switch {
		case ok && !a.ReadTime.After(known.ReadTime):
			continue
		case !ok && a.ReadTime.Before(l.Created):
			// The ledger that was there before may have had a newer answer, so the query must be asked
			// again. An answer of the very time at which the ledger was made is not too early: a query
			// right after a commit may have that commit's time.
			d.Early = append(d.Early, key)
			continue
		case !ok && !fits(1):
			d.Full = append(d.Full, key)
			continue
		}
		if a.Odd {
			a.Value = known.Value
		}
		Put(&d.Answers, key, a)
	}
	return d
}

// keep adds to the base of a diff what a shard has counted and doesn't hold any more. The base is one
// sum of all that is kept: shard by shard it would depend on their order near the ends of int64.
func (l *Ledger) keep(d *Diff, kept Counts) {
	if len(kept) > 0 && d.Base == nil {
		d.Base, d.Kept = Counts{}, map[string][]int64{}
	}
	for name, n := range kept {
		d.Kept[name] = append(d.Kept[name], n)
		d.Base[name] = Add(append(slices.Clone(d.Kept[name]), l.Base[name])...)
	}
}

// MaxImported is how many counters can be imported into one. It leaves four fifths of [MaxNumbers] to
// the shards.
const MaxImported = MaxNumbers / 5

// Unknown is in [Ledger.Imported] if base may hold any import: nobody knows which.
const Unknown = "unknown"

// InDoubt is how long a command may be in doubt. No command keeps trying for that long.
const InDoubt = 30 * time.Minute

// MaxOps is how many commands of a counter may be in doubt at a time. Their ids have 26 characters,
// and fit into the document beside [MaxNumbers], so they never keep the counter from counting.
const MaxOps = 1500

// maxKey is the longest id of a shard, in bytes, that names its entry. Longer ids would fill the
// ledger with names.
const maxKey = 100

// Key is the name of a shard's entry in [Ledger.States]: the shard's id. For an id that is too long,
// or that can't be a field's name (__x__ is Firestore's own), it is a slash and a hash. No id has a
// slash in it.
func Key(shard string) string {
	if len(shard) <= maxKey && !(strings.HasPrefix(shard, "__") && strings.HasSuffix(shard, "__")) {
		return shard
	}
	hash := sha256.Sum256([]byte(shard))
	return "/" + hex.EncodeToString(hash[:])
}
