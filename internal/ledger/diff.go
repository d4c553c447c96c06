package ledger

import (
	"maps"
	"slices"
	"time"
)

// Diff is what [Ledger.Merge] or [Ledger.Correct] changes.
type Diff struct {
	States  map[string]Entry  // :: [Key] of a shard's id → its new entry
	Removed []string          // keys of entries that go
	Answers map[string]Answer // :: key of a definition → its new answer
	Floor   time.Time         // the new floor; the zero time leaves it
	Uneven  time.Time         // the new Uneven; the zero time leaves it
	Even    bool              // all shards were looked at since, so Uneven goes
	Renewed bool              // all shards were looked at since the restore, so Restored goes

	// the new base of fields that are shown from now on, and of fields that are no numbers any more
	Base     Counts
	Kept     map[string][]int64 // what of Base is from fields that are no numbers any more, shard by shard
	Replaced map[string]int64
	Gone     time.Time // when the counter's document was found missing; the zero time leaves it
	Back     bool      // the document exists again

	Full  []string // keys of shards and answers that were left out: the ledger has no room for them
	Early []string // keys of answers from before the ledger was made: their queries must be asked again

	// Impossible says that an entry, or the floor, has a time in the future. States may have been ignored
	// because of it, and may be until this diff is committed. So another snapshot is due then.
	Impossible bool
}

// Empty reports whether there is nothing to commit. A floor alone isn't worth a commit.
func (d Diff) Empty() bool {
	entries := len(d.States) + len(d.Removed) + len(d.Answers) + len(d.Base)
	return entries == 0 && d.Gone.IsZero() && !d.Back && !d.Even && !d.Renewed
}

// Oldest is the time of the oldest state in the diff; zero if there is none. It ignores states that
// hold nothing: a deleted shard has the time of its last write, which doesn't tell when it was deleted.
func (d Diff) Oldest() (t time.Time) {
	for _, e := range d.States {
		if len(e.Counts) > 0 && (t.IsZero() || e.AsOf.Before(t)) {
			t = e.AsOf
		}
	}
	return t
}

// Then is d followed by later, a diff of the ledger that d has been applied to.
func (d Diff) Then(later Diff) Diff {
	for key := range later.States {
		d.Removed = slices.DeleteFunc(d.Removed, func(removed string) bool { return removed == key })
	}
	for _, key := range later.Removed {
		delete(d.States, key)
	}
	d.States, d.Answers, d.Replaced = both(d.States, later.States), both(d.Answers, later.Answers), both(d.Replaced, later.Replaced)
	d.Base, d.Kept = both(d.Base, later.Base), both(d.Kept, later.Kept)
	d.Removed, d.Full, d.Early = append(d.Removed, later.Removed...), append(d.Full, later.Full...), append(d.Early, later.Early...)
	d.Floor, d.Gone = last(d.Floor, later.Floor), last(d.Gone, later.Gone)
	d.Uneven, d.Even = last(d.Uneven, later.Uneven), d.Even || later.Even
	d.Back, d.Renewed, d.Impossible = d.Back || later.Back, d.Renewed || later.Renewed, d.Impossible || later.Impossible
	return d
}

func both[M ~map[K]V, K comparable, V any](before, later M) M {
	if len(before) == 0 {
		return later
	}
	maps.Copy(before, later)
	return before
}

func last(before, later time.Time) time.Time {
	if later.IsZero() {
		return before
	}
	return later
}

// Grows is how much a diff of this ledger adds to the total of a field of the shards, modulo 2⁶⁴.
func (l *Ledger) Grows(d Diff, field string) (n int64) {
	for key, e := range d.States {
		n += e.Counts[field] - l.States[key].Counts[field]
	}
	for _, key := range d.Removed {
		n -= l.States[key].Counts[field]
	}
	if base, set := d.Base[field]; set {
		n += base - l.Base[field]
	}
	return n
}

// Apply applies a diff of this ledger to it.
func (l *Ledger) Apply(d Diff) {
	if l.States == nil {
		l.States = make(map[string]Entry, len(d.States))
	}
	maps.Copy(l.States, d.States)
	for _, key := range d.Removed {
		delete(l.States, key)
	}
	if l.Answers == nil && len(d.Answers) > 0 {
		l.Answers = make(map[string]Answer, len(d.Answers))
	}
	maps.Copy(l.Answers, d.Answers)
	if l.Base == nil && len(d.Base) > 0 {
		l.Base = make(Counts, len(d.Base))
	}
	maps.Copy(l.Base, d.Base)
	if !d.Floor.IsZero() {
		l.Floor = d.Floor
	}
	if !d.Uneven.IsZero() || d.Even {
		l.Uneven = d.Uneven
	}
	if d.Renewed {
		l.Restored = false
	}
	if !d.Gone.IsZero() {
		l.Gone = d.Gone
	}
	if d.Back {
		l.Gone, l.Ending = time.Time{}, false
	}
}
