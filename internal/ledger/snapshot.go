package ledger

import (
	"maps"
	"time"
)

// Snapshot is all shards of a counter as they were at one time.
type Snapshot struct {
	At     time.Time
	States []State
	Uneven time.Time // the ledger's Uneven at that time
}

// Correct returns what a snapshot changes in a ledger that was read at the time now. The snapshot is
// of that time or earlier. One that isn't younger than the floor changes nothing.
//
// If the snapshot is of the very time now, it is the truth, whatever times the ledger claims. If it is
// earlier, entries that are newer than its states stay, unless they are newer than now. That is
// impossible, and they would hide everything that is counted until then. Entries of deleted shards
// go. The snapshot's time becomes the floor.
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
		e, kept := l.after(state, known)
		switch {
		case ok && e.AsOf.Equal(known.AsOf) && maps.Equal(e.Counts, known.Counts):
		case ok && !known.AsOf.After(now) && !s.At.Equal(now) && !known.olderThan(state):
		default:
			// An unknown shard counts at any age: only events may be from an earlier life.
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
	// The snapshot may lack what was taken off a shard since.
	d.Even = !l.Uneven.IsZero() && l.Uneven.Equal(s.Uneven)
	d.Renewed = l.Restored // each entry is of the shard that is there now
	return d
}

// Speak is [Ledger.Correct] for a flush that counts for all instances whatever was written before the
// snapshot. It reports false if the snapshot can't be used: it isn't younger than the floor, the
// ledger has no room for it, or the ledger has an impossible time, which a reconcile must correct.
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

// Forget deletes answers with a time after now. Such a time is impossible, and would hide all answers
// until then.
func (l *Ledger) Forget(now time.Time) {
	for key, a := range l.Answers {
		if a.ReadTime.After(now) {
			delete(l.Answers, key)
		}
	}
}

// Ahead reports whether the ledger has a time after its own update. That is impossible, and hides what is
// counted until then.
func (l *Ledger) Ahead() bool {
	for _, e := range l.States {
		if e.AsOf.After(l.Updated) {
			return true
		}
	}
	return l.Floor.After(l.Updated)
}

// Differ is the number of shards whose counts a diff changes.
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
