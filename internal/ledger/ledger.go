package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"
	"time"

	"github.com/firestore-counters/counters/internal/layout"
)

// MaxNumbers is how many numbers a ledger holds at most: each shard's fields, and the answers. With
// the longest names that is some 900 KB of the megabyte that a document may take.
const MaxNumbers = layout.MaxNumbers

// Counts are the integer fields of a shard, by their names in the shard. A field that
// is missing is 0.
type Counts map[string]int64

// State is what a shard held as of a time.
type State struct {
	Shard  string
	AsOf   time.Time // the document's own update time, in microseconds
	Made   time.Time // its create time, where that is known: what was counted before went with another document
	Counts Counts    // without zeros
	Odd    []string  // fields that are numbers and no integers: what was last known of them stands
	// Blank are fields that are there and can be no count: a text, null, NaN, 1e300. An increment takes
	// the place of a text or null, and begins from 0, so what was last known of these goes into the base.
	Blank []string
	Was   Counts // what fields of Blank held just before, of those that held integers, where it is known
	Gone  bool   // the shard was deleted, and its counts are 0
}

// Kind is what a field of a shard holds.
type Kind int

// Kinds of what a field holds.
const (
	Integer Kind = iota
	Odd          // a number that is no integer, and near one
	Blank        // anything else
)

// Set enters a field of the shard, n where it is an integer. A field that no ledger counts is passed
// over.
func (s *State) Set(field string, n int64, kind Kind) {
	switch {
	case !layout.CountsField(field) || kind == Integer && n == 0:
	case kind == Odd:
		s.Odd = append(s.Odd, field)
	case kind == Blank:
		s.Blank = append(s.Blank, field)
	case s.Counts == nil:
		s.Counts = Counts{field: n}
	default:
		s.Counts[field] = n
	}
}

// Supersedes reports whether s is strictly newer than old, a state of the same shard: where s
// counts, old need not. A deletion's time is a microsecond after the version before it. The shard
// may have been made again at that time, so of two with the same time a document beats a deletion.
func (s State) Supersedes(old State) bool {
	if order := s.AsOf.Compare(old.AsOf); order != 0 {
		return order > 0
	}
	return old.Gone && !s.Gone
}

// after is the entry of s after an older one of a ledger, whose counts stand for fields that are no
// integers any more. What the shard had counted of fields that are no numbers any more is kept.
func (s State) after(known Entry) (e Entry, kept Counts) {
	e = Entry{AsOf: s.AsOf, Counts: s.Counts}
	for _, name := range s.Odd {
		if n := known.Counts[name]; n != 0 {
			if e.Counts = maps.Clone(e.Counts); e.Counts == nil {
				e.Counts = Counts{}
			}
			e.Counts[name] = n
		}
	}
	for _, name := range s.Blank {
		n, told := s.Was[name]
		if !told && !s.Made.After(known.AsOf) { // or that went with the document, whatever is heard of it
			n = known.Counts[name]
		}
		if n != 0 {
			if kept == nil {
				kept = Counts{}
			}
			kept[name] = n
		}
	}
	return e, kept
}

// Entry is the newest counted state of one shard. That of a deleted shard has no counts.
type Entry struct {
	AsOf   time.Time
	Counts Counts
}

// olderThan reports whether s supersedes the state of the entry.
func (e Entry) olderThan(s State) bool {
	return s.Supersedes(State{AsOf: e.AsOf, Gone: len(e.Counts) == 0 && len(s.Counts) > 0})
}

// less reports whether a shard holds less of a field than it did.
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

// Answer is what a query said of the documents that a field counts, such as
// comments=count(comments). Events only say that something has changed: the value is the query's.
type Answer struct {
	ReadTime time.Time
	// the last number that a query said: an int64, of a field that is no integer a float64, or
	// [None]; nil where none has: see [layout.Field.Integer]
	Value any
	Odd   bool // at the read time it was no integer: a half among the documents, say
}

// None is the value of an average of no documents.
type None struct{}

// Counts reports whether the documents come to something.
func (a Answer) Counts() bool {
	return a.Odd || a.Value != nil && a.Value != int64(0) && a.Value != 0.0 && a.Value != None{}
}

// Ledger says what a counter's totals are made of.
type Ledger struct {
	States  map[string]Entry  // :: [Key] of a shard's id → the newest state counted
	Answers map[string]Answer // :: [layout.Field.Key] of a definition → the newest answer
	Base    Counts            // :: field of the shards → what its total holds beyond them
	// :: shown field → the number that adoption found in the counter's document,
	// where it was another
	Replaced map[string]int64

	// Floor is the time as of which shards that are not in States held nothing: no state of a
	// document that is not newer counts. It is the ledger's create time, so that late events of an
	// earlier life count nothing, or just before it where the same commit made a shard that holds
	// something, or the time of the last snapshot that corrected it. A deletion's time tells less:
	// see [State.Supersedes].
	Floor time.Time

	// when the counter's document was first found missing; zero while it is there
	Gone time.Time
	// what is below the path is being removed, unless the document comes back; Gone is set then
	Ending bool
	// :: [layout.Field.Key] → what States or Answers have of it, of those that the counter's document
	// shows since whoever wrote the ledger last: there are none where it was missing, or had no room.
	// By these a reconcile sees, without reading States, whether they are what the shards hold.
	Sums Counts
	// Uneven is when something was last taken off a shard, as far as that is known, since each was last
	// looked at; zero where nothing was. Then Sums may be those of the shards, and States not be what
	// they hold: what one lacks is what another has too much. Without it they can't be, because what
	// shards only grow by is missing from the sum.
	Uneven time.Time
	// how often it was rolled up, by which an instance sees how many flushes others made
	Flushes int64
	// :: id of a command → when it was applied; for as long as one may be in doubt
	Ops      map[string]time.Time
	Imported map[string]int64 // :: hash of a counter of another kind → what base holds of it; see [Unknown]

	Created time.Time // the document's create time
	Updated time.Time // the document's update time: every commit's precondition
}

// New is a ledger of what the shards hold, all as of one time.
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

// Total is the integer that a field of the counter's document should hold. It reports false for one
// that counts documents and has no answer yet, which stays as it is, and for one that is no
// integer: what that should hold is its answer.
func (l *Ledger) Total(field layout.Field) (int64, bool) {
	if field.Counted != nil {
		n, ok := l.Answers[field.Key()].Value.(int64)
		return n, ok
	}
	w := l.sum(field.Shard)
	w.add(l.Base[field.Shard])
	return w.clamp(), true
}

// Totals are what the fields of the counter's document should hold, by their names, but for those
// that are not known.
func (l *Ledger) Totals(fields ...layout.Field) map[string]int64 {
	totals := make(map[string]int64, len(fields))
	for _, field := range fields {
		if total, ok := l.Total(field); ok {
			totals[field.Name] = total
		}
	}
	return totals
}

// BaseFor is the base with which the total of a field is what is given, or as close to it as
// an int64 comes.
func (l *Ledger) BaseFor(field string, total int64) int64 {
	w := l.sum(field)
	w.hi, w.lo = -w.hi, -w.lo
	w.add(total)
	return w.clamp()
}

// Numbers is how many of [MaxNumbers] the ledger holds: those of shards and of the base, answers, and
// what was imported, which takes less than a shard does.
func (l *Ledger) Numbers() int {
	n := len(l.Answers) + len(l.Base) + min(len(l.Imported), MaxImported)
	for _, e := range l.States {
		n += e.numbers()
	}
	return n
}

// Gaps is how many entries hold nothing: those of shards that are gone, and of some that are there.
func (l *Ledger) Gaps() (n int) {
	for _, e := range l.States {
		if len(e.Counts) == 0 {
			n++
		}
	}
	return n
}

// Merge is what states and answers change in the ledger: of several of a shard, and of a query, the
// newest counts. Those of a shard are in the order of their times, so that each is after the one
// before. The ledger itself is left as it is.
func (l *Ledger) Merge(states []State, answers map[string]Answer) Diff {
	d := Diff{}
	held, added := -1, 0 // numbers: the ledger's are counted once there are more
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
		// A deletion is entered too, whatever its time: a snapshot from before it may be on its way
		// to the ledger, in which the shard is still there.
		e, kept := s.after(known)
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
			d.Full = append(d.Full, key) // a deletion too, or such a snapshot would bring its shard back
			continue
		}
		if d.States == nil { // duplicates need none
			d.States = make(map[string]Entry, len(states))
		}
		d.States[key] = e
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
			// A newer one may have been in the ledger that was there before, so it is to be asked
			// again. One of the very time at which the ledger was made is not too early: a query
			// right after a commit may be as of that commit.
			d.Early = append(d.Early, key)
			continue
		case !ok && !fits(1):
			d.Full = append(d.Full, key)
			continue
		}
		if d.Answers == nil {
			d.Answers = make(map[string]Answer, len(answers))
		}
		if a.Odd {
			a.Value = known.Value
		}
		d.Answers[key] = a
	}
	return d
}

// keep has a diff add to the base what shards have counted and don't hold any more.
func (l *Ledger) keep(d *Diff, kept Counts) {
	if len(kept) > 0 && d.Base == nil {
		d.Base, d.Kept = Counts{}, Counts{}
	}
	for name, n := range kept {
		if _, has := d.Base[name]; !has {
			d.Base[name] = l.Base[name]
		}
		d.Base[name], d.Kept[name] = Add(d.Base[name], n), Add(d.Kept[name], n)
	}
}

// MaxImported is how many counters of another kind are imported into one, which leaves four fifths of
// [MaxNumbers] to its shards.
const MaxImported = MaxNumbers / 5

// Unknown is in [Ledger.Imported] where base may hold any counter of another kind.
const Unknown = "unknown"

// InDoubt is how long a command may be in doubt: longer than any goes on trying.
const InDoubt = 30 * time.Minute

// MaxOps is how many commands of a counter may be in doubt at a time: with [MaxNumbers]
// their ids, of 26 characters, fit into a document, and never keep it from counting.
const MaxOps = 1500

// maxKey is how long a shard's id may be to name its entry, in bytes. With longer ones a ledger
// would be full of names.
const maxKey = 100

// Key is the name of a shard's entry in [Ledger.States]: the shard's id, or where that is
// long or can't be a field's name (__x__ is Firestore's own) a hash of it behind a slash,
// which no id has in it.
func Key(shard string) string {
	if len(shard) <= maxKey && !(strings.HasPrefix(shard, "__") && strings.HasSuffix(shard, "__")) {
		return shard
	}
	hash := sha256.Sum256([]byte(shard))
	return "/" + hex.EncodeToString(hash[:])
}
