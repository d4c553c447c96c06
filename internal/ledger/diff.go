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
	Uneven  time.Time         // the new time of that; the zero time leaves it
	Even    bool              // each shard was looked at since

	// what the ledger comes to hold: of fields that are shown from now on, and with what is kept of
	// shards' fields that are no numbers any more
	Base     Counts
	Kept     Counts // of Base, the latter
	Replaced map[string]int64
	Gone     time.Time // when the counter's document was found missing; the zero time leaves it
	Back     bool      // the document is there again

	Full  []string // keys of shards and answers that were left out: the ledger has no room for them
	Early []string // keys of answers from before the ledger was made: to be asked for again

	// Impossible says that an entry, or the floor, was of a time that has not come: states may have
	// been passed over for that, and may be until this is committed. Another snapshot is due then.
	Impossible bool
}

// Empty reports whether there is nothing to commit. A floor alone isn't worth a commit.
func (d Diff) Empty() bool {
	entries := len(d.States) + len(d.Removed) + len(d.Answers) + len(d.Base)
	return entries == 0 && d.Gone.IsZero() && !d.Back && !d.Even
}

// Oldest is the time of the oldest state in the diff; zero where there is none. States that hold
// nothing are left out: a deleted shard's time is that of its last write, which says nothing about
// when it was deleted.
func (d Diff) Oldest() (t time.Time) {
	for _, e := range d.States {
		if len(e.Counts) > 0 && (t.IsZero() || e.AsOf.Before(t)) {
			t = e.AsOf
		}
	}
	return t
}

// Then is what d changes and then later does, which was made of the ledger with d in it.
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
	d.Back, d.Impossible = d.Back || later.Back, d.Impossible || later.Impossible
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

// Grows is what a diff that was made of the ledger adds to the total of a field of the shards, modulo
// 2⁶⁴.
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

// Apply brings the ledger up to date with a diff that was made of it.
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
	if !d.Gone.IsZero() {
		l.Gone = d.Gone
	}
	if d.Back {
		l.Gone, l.Ending = time.Time{}, false
	}
}
