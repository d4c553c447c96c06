// Package ledger is the idea of the project: what a counter's total is made of.
//
// Beside each counter lies a ledger. It holds, per shard, the newest state that is already counted in the total: what the
// shard held, as of the document's own update time. An event brings a state too. Counting it adds the difference between
// the two to the total, and enters the newer one:
//
//	known = ledger[shard], or (0, the ledger's floor)
//	state is newer than known:  total += state.count - known.count;  ledger[shard] = state
//
// So an event that comes twice, late or out of order changes nothing, and the next state of its shard makes up for one that
// never came. A ledger is a last-writer-wins map: merging states is idempotent, commutative and associative.
//
// What events can't bring, a [Snapshot] of all shards does: [Ledger.Correct].
//
// Everything here is pure: no client, no clock, no logger. Package rollup reads ledgers, merges states into them and
// commits both with the total; package shards writes them when it creates, resets or imports.
package ledger

import "time"

// MaxEntries is how many shards a ledger knows at most: five times as many as a counter may have. With names of up to
// [maxKey] bytes that is some 650 KB of the megabyte that a document may take.
const MaxEntries = 5000

// State is what a shard held as of a time.
type State struct {
	Shard string
	Count int64
	AsOf  time.Time // the document's own update time, in microseconds
	Gone  bool      // the shard was deleted, and Count is 0
}

// Supersedes reports whether s is strictly newer than old, a state of the same shard: where s counts, old need not.
// A deletion's time is a microsecond after the version before it. The shard may have been made again at that time, so of two
// with the same time a document beats a deletion.
func (s State) Supersedes(old State) bool {
	if order := s.AsOf.Compare(old.AsOf); order != 0 {
		return order > 0
	}
	return old.Gone && !s.Gone
}

// Entry is one shard's newest counted state.
type Entry struct {
	Count int64
	AsOf  time.Time
}

// olderThan reports whether s supersedes the state of the entry. An entry of 0 may be that of a deletion.
func (e Entry) olderThan(s State) bool {
	return s.Supersedes(State{AsOf: e.AsOf, Gone: e.Count == 0 && s.Count != 0})
}

// Ledger says what a counter's total is made of.
type Ledger struct {
	ID       string           // which the counter's document names too: see [Of]
	Shards   map[string]Entry // :: [Key] of a shard's id → the newest state counted
	Base     int64            // what the total holds beyond the shards
	Ops      []string         // ids of the last commands that were applied, oldest first
	Replaced *int64           // the total that adoption replaced, where there was one
	Flushes  int64            // how often it was rolled up, by which an instance sees how many flushes others made
	Imported map[string]int64 // :: hash of a counter of another kind → what base holds of it; a new ledger has none

	// Floor is the time as of which shards that are not in Shards held nothing: no state that is not newer counts. It is
	// the document's create time, so that late events of an earlier counter under the same id count nothing, or the time
	// of the last snapshot that corrected it.
	Floor   time.Time
	Updated time.Time // the document's update time: every commit's precondition
}

// Sum is what the total should be: base plus every shard's count, or the largest or smallest int64 where that is beyond.
func (l *Ledger) Sum() int64 { return l.sum().clamp() }

func (l *Ledger) sum() wide {
	var w wide
	w.add(l.Base)
	for _, e := range l.Shards {
		w.add(e.Count)
	}
	return w
}

// Diff is what [Ledger.Merge] or [Ledger.Correct] changes.
type Diff struct {
	Entries map[string]Entry // :: [Key] of a shard's id → its new entry
	Removed []string         // keys of entries that go
	Floor   time.Time        // the new floor; the zero time leaves it
	Delta   int64            // what the total grows by

	// Full are the keys of shards that were left out, because the ledger knows [MaxEntries] others.
	Full map[string]bool
	// Impossible says that an entry was newer than now, or that a shard is not newer than the floor and had none: states may
	// have been passed over for that, and may be until this is committed. Another snapshot is due then.
	Impossible bool
}

// Empty reports whether there is nothing to commit.
func (d Diff) Empty() bool { return len(d.Entries) == 0 && len(d.Removed) == 0 }

// Apply brings the ledger up to date with a diff that was made of it.
func (l *Ledger) Apply(d Diff) {
	for key, e := range d.Entries {
		l.Shards[key] = e
	}
	for _, key := range d.Removed {
		delete(l.Shards, key)
	}
	if !d.Floor.IsZero() {
		l.Floor = d.Floor
	}
}

// Merge is what the states that events bring change in the ledger: of several of a shard the newest counts. The ledger itself
// is left as it is.
func (l *Ledger) Merge(states []State) Diff {
	d := Diff{Entries: map[string]Entry{}, Full: map[string]bool{}}
	for _, s := range states {
		key := Key(s.Shard)
		known, ok := d.Entries[key]
		if !ok {
			known, ok = l.Shards[key]
		}
		switch {
		case !ok && !s.AsOf.After(l.Floor):
			continue
		case !ok && len(l.Shards)+len(d.Entries) >= MaxEntries: // too careful by the entries that only change
			d.Full[key] = true
			continue
		case ok && !known.olderThan(s):
			continue
		}
		d.Entries[key] = Entry{Count: s.Count, AsOf: s.AsOf}
	}
	d.Delta = l.delta(d)
	return d
}

// Snapshot is all shards of a counter as they were at one time.
type Snapshot struct {
	At     time.Time
	States []State
	Odd    []string // ids of shards whose count is not an integer: they keep the entries that they have
}

// Correct is what a snapshot changes in a ledger that was read at the time now, which is the snapshot's or later.
//
// A snapshot of the same time is the truth, whatever times the ledger claims. Beside an earlier one, entries that are newer
// than its states stay, unless they are newer than now, which is impossible. Entries of shards that are gone are removed.
// The snapshot's time is the new floor; a snapshot that is not younger than the floor says nothing about this ledger.
func (l *Ledger) Correct(now time.Time, s Snapshot) Diff {
	d := Diff{Entries: map[string]Entry{}, Full: map[string]bool{}}
	if !s.At.After(l.Floor) {
		return d
	}
	// Every shard that there was then has an entry from now on: late events of others are of shards that are gone.
	d.Floor = s.At
	there := make(map[string]bool, len(s.States)+len(s.Odd))
	for _, id := range s.Odd {
		there[Key(id)] = true
	}
	for _, state := range s.States {
		key, e := Key(state.Shard), Entry{Count: state.Count, AsOf: state.AsOf}
		there[key] = true
		known, ok := l.Shards[key]
		impossible := known.AsOf.After(now)
		switch {
		case ok && known.Count == e.Count && known.AsOf.Equal(e.AsOf):
			continue
		case ok && !impossible && !s.At.Equal(now) && !known.olderThan(state):
			continue
		case !ok && len(there) > MaxEntries:
			d.Full[key] = true
			continue
		}
		// A shard that is unknown counts at any age: only events are asked whether they are of an earlier counter.
		d.Entries[key] = e
		d.Impossible = d.Impossible || impossible || !ok && !state.AsOf.After(l.Floor)
	}
	for key, known := range l.Shards {
		impossible := known.AsOf.After(now)
		if !there[key] && (impossible || !known.AsOf.After(s.At)) {
			d.Removed = append(d.Removed, key)
			d.Impossible = d.Impossible || impossible
		}
	}
	d.Delta = l.delta(d)
	return d
}

// delta is the difference between the sums after and before, so that a total which has come to the end of an int64 is right
// again once its shards come back from there.
func (l *Ledger) delta(d Diff) int64 {
	if d.Empty() {
		return 0
	}
	sum := l.sum()
	before := sum.clamp()
	for key, e := range d.Entries {
		sum.sub(l.Shards[key].Count)
		sum.add(e.Count)
	}
	for _, key := range d.Removed {
		sum.sub(l.Shards[key].Count)
	}
	return Sub(sum.clamp(), before)
}
