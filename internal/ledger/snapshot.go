package ledger

import (
	"maps"
	"time"
)

// Snapshot is all shards of a counter as they were at one time.
type Snapshot struct {
	At     time.Time
	States []State
	Uneven time.Time // what the ledger said of that at this time
}

// Correct is what a snapshot changes in a ledger that was read at the time now, which is the
// snapshot's or later. A snapshot that is not younger than the floor changes nothing.
//
// A snapshot of the very time of the ledger is the truth, whatever times the ledger claims. Beside
// an earlier one, entries that are newer than its states stay, unless they are newer than now,
// which is impossible: as they are, they would hide what is counted until then. Entries of shards
// that are gone go. The snapshot's time is the new floor.
func (l *Ledger) Correct(now time.Time, s Snapshot) (d Diff) {
	if !l.Floor.After(now) && !s.At.After(l.Floor) {
		return d
	}
	d = Diff{States: map[string]Entry{}, Floor: s.At, Impossible: l.Floor.After(now)}
	there := make(map[string]bool, len(s.States))
	for _, state := range s.States {
		key := Key(state.Shard)
		there[key] = true
		known, ok := l.States[key]
		e, kept := state.after(known)
		switch {
		case ok && e.AsOf.Equal(known.AsOf) && maps.Equal(e.Counts, known.Counts):
		case ok && !known.AsOf.After(now) && !s.At.Equal(now) && !known.olderThan(state):
		default:
			// a shard that is unknown counts at any age: only events are asked whether they are of
			// an earlier life
			d.States[key] = e
			l.keep(&d, kept)
			d.Impossible = d.Impossible || known.AsOf.After(now)
		}
	}
	for key, known := range l.States {
		if !there[key] && (known.AsOf.After(now) || !known.AsOf.After(s.At)) {
			d.Removed = append(d.Removed, key)
			d.Impossible = d.Impossible || known.AsOf.After(now)
		}
	}
	// what was taken off since may be missing from the snapshot
	d.Even = !l.Uneven.IsZero() && l.Uneven.Equal(s.Uneven)
	return d
}

// Speak is [Ledger.Correct] of a flush that counts for everybody what was written before. It reports
// false where the snapshot has no part in it: it is no younger than the floor, the ledger has no room
// for it, or what can't be is in its way, which is for a reconcile to correct.
func (l *Ledger) Speak(now time.Time, s Snapshot) (d Diff, spoke bool) {
	d = l.Correct(now, s)
	if d.Floor.IsZero() || d.Impossible {
		return Diff{}, false
	}
	after := *l
	after.States, after.Base = maps.Clone(l.States), maps.Clone(l.Base)
	if after.Apply(d); after.Numbers() > MaxNumbers {
		return Diff{}, false
	}
	return d, true
}

// Forget takes away answers of a time after now, which is impossible: they would hide what is
// asked until then.
func (l *Ledger) Forget(now time.Time) {
	for key, a := range l.Answers {
		if a.ReadTime.After(now) {
			delete(l.Answers, key)
		}
	}
}

// Differ is of how many shards a diff changes what the ledger counts.
func (l *Ledger) Differ(d Diff) (n int) {
	for key, e := range d.States {
		if !maps.Equal(l.States[key].Counts, e.Counts) {
			n++
		}
	}
	for _, key := range d.Removed {
		if len(l.States[key].Counts) > 0 {
			n++
		}
	}
	return n
}
