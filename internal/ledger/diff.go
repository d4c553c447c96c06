package ledger

import (
	"maps"
	"time"
)

// Diff is what [Ledger.Merge] or [Ledger.Correct] changes.
type Diff struct {
	Sums map[string]SumDiff // :: name of a field → what changes of its sum

	// Full are the keys of shards that were left out, because the ledger holds [MaxEntries] others.
	Full map[string]bool
	// Impossible says that an entry or a floor was newer than now, or that a shard is not newer than the floor and had none: states may
	// have been passed over for that, and may be until this is committed. Another snapshot is due then.
	Impossible bool
}

// SumDiff is what changes of one sum.
type SumDiff struct {
	Entries map[string]Entry // :: [Key] of a shard's id → its new entry
	Removed []string         // keys of entries that go
	Floor   time.Time        // the new floor; the zero time leaves it
	Delta   int64            // what the total grows by
	New     bool             // the ledger has no such sum yet
}

// full notes a shard for which the ledger has no room. Few diffs have one, so the map is made for it.
func (d *Diff) full(key string) {
	if d.Full == nil {
		d.Full = map[string]bool{}
	}
	d.Full[key] = true
}

// Empty reports whether there is nothing to commit. A floor alone isn't worth a commit, unless it replaces an impossible one.
func (d Diff) Empty() bool {
	if d.Impossible {
		return false
	}
	for _, sum := range d.Sums {
		if sum.New || len(sum.Entries) > 0 || len(sum.Removed) > 0 {
			return false
		}
	}
	return true
}

// Deltas are what the totals grow by, those that stay the same included where anything else of their sum changes.
func (d Diff) Deltas() Counts {
	deltas := make(Counts, len(d.Sums))
	for name, sum := range d.Sums {
		deltas[name] = sum.Delta
	}
	return deltas
}

// Shards are the keys of the shards whose entries change.
func (d Diff) Shards() map[string]bool {
	keys := map[string]bool{}
	for _, sum := range d.Sums {
		for key := range sum.Entries {
			keys[key] = true
		}
		for _, key := range sum.Removed {
			keys[key] = true
		}
	}
	return keys
}

// Apply brings the ledger up to date with a diff that was made of it.
func (l *Ledger) Apply(d Diff) {
	for name, change := range d.Sums {
		sum := l.Sums[name]
		if sum == nil {
			sum = &Sum{Shards: map[string]Entry{}}
			l.Sums[name] = sum
		}
		maps.Copy(sum.Shards, change.Entries)
		for _, key := range change.Removed {
			delete(sum.Shards, key)
		}
		if !change.Floor.IsZero() {
			sum.Floor = change.Floor
		}
	}
}

// TotalAfter is the total once d is applied.
func (s *Sum) TotalAfter(d SumDiff) int64 { return s.after(s.wide(), d).clamp() }

// delta is the difference between the totals after and before, so that a total which has come to the end of an int64 is right
// again once its shards come back from there.
func (s *Sum) delta(d SumDiff) int64 {
	if len(d.Entries) == 0 && len(d.Removed) == 0 {
		return 0
	}
	before := s.wide()
	return Sub(s.after(before, d).clamp(), before.clamp())
}

// after is the sum once d is applied to what it was before.
func (s *Sum) after(w wide, d SumDiff) wide {
	for key, e := range d.Entries {
		w.sub(s.Shards[key].Count)
		w.add(e.Count)
	}
	for _, key := range d.Removed {
		w.sub(s.Shards[key].Count)
	}
	return w
}
