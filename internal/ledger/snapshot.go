package ledger

import "time"

// Snapshot is all shards of a counter as they were at one time. A shard keeps what is counted of a field where its state doesn't
// have the field.
type Snapshot struct {
	At     time.Time
	States []State
}

// Correct is what a snapshot changes in the sums of the fields, of a ledger that was read at the time now, which is the
// snapshot's or later. A field without a sum gets one.
//
// A snapshot of the same time is the truth, whatever times the ledger claims. Beside an earlier one, entries that are newer
// than its states stay, unless they are newer than now, which is impossible. Entries of shards that are gone are removed.
// The snapshot's time is the new floor; a snapshot that is not younger than the floor says nothing about this sum. A floor that
// is newer than now is as impossible: no state of a document counts with it.
func (l *Ledger) Correct(now time.Time, s Snapshot, fields ...string) Diff {
	d := Diff{Sums: map[string]SumDiff{}}
	most := MaxEntries / max(1, len(fields))
	for _, name := range fields {
		sum, known := l.Sums[name]
		if !known {
			sum = &Sum{}
		}
		impossible := sum.Floor.After(now)
		if s.At.After(sum.Floor) || impossible {
			d.Impossible = d.Impossible || impossible
			change := sum.correct(now, s, name, most, &d)
			change.New = !known
			d.Sums[name] = change
		}
	}
	return d
}

func (s *Sum) correct(now time.Time, snap Snapshot, name string, most int, d *Diff) SumDiff {
	// Every shard that there was then has an entry from now on: late events of others are of shards that are gone.
	change := SumDiff{Entries: map[string]Entry{}, Floor: snap.At}
	there := make(map[string]bool, len(snap.States))
	for _, state := range snap.States {
		key := Key(state.Shard)
		there[key] = true
		known, ok := s.Shards[key]
		impossible := known.AsOf.After(now)
		count, is := state.Counts[name]
		if !is {
			if !impossible {
				continue
			}
			count = known.Count
		}
		e := Entry{Count: count, AsOf: state.AsOf}
		switch {
		case ok && known.Count == e.Count && known.AsOf.Equal(e.AsOf):
			continue
		case ok && !impossible && !snap.At.Equal(now) && !known.olderThan(state, count):
			continue
		case !ok && len(snap.States) > most:
			d.full(key)
			continue
		}
		// A shard that is unknown counts at any age: only events are asked whether they are of an earlier counter.
		change.Entries[key] = e
		d.Impossible = d.Impossible || impossible || !ok && !state.AsOf.After(s.Floor)
	}
	for key, known := range s.Shards {
		impossible := known.AsOf.After(now)
		if !there[key] && (impossible || !known.AsOf.After(snap.At)) {
			change.Removed = append(change.Removed, key)
			d.Impossible = d.Impossible || impossible
		}
	}
	change.Delta = s.delta(change)
	return change
}
