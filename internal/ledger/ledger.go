// Package ledger is the idea of the project: what a counter's totals are made of.
//
// Beside each counter lies a ledger. It holds, per counted field and shard, the newest state that is already counted in the
// field's total: what the shard held, as of the document's own update time. An event brings a state too. Counting it adds
// the difference between the two to the total, and enters the newer one:
//
//	known = ledger[field][shard], or (0, the floor)
//	state is newer than known:  total += state.count - known.count;  ledger[field][shard] = state
//
// So an event that comes twice, late or out of order changes nothing, and the next state of its shard makes up for one that
// never came. A ledger is a last-writer-wins map: merging states is idempotent, commutative and associative.
//
// Each field of a shard has its own time. With one for the whole shard, a revision of the functions that doesn't know a field
// yet would move it on, and what the field held by then would be passed over for good.
//
// What events can't bring, a [Snapshot] of all shards does: [Ledger.Correct].
//
// Everything here is pure: no client, no clock, no logger. Package rollup reads ledgers, merges states into them and
// commits both with the totals; package shards writes them when it creates, resets or imports.
package ledger

import (
	"maps"
	"slices"
	"time"
)

// MaxEntries is how many shards a ledger knows at most, each times the fields that it counts: five times as many as a counter
// with one field may have. With names of up to [maxKey] bytes that is some 650 KB of the megabyte that a document may take.
const MaxEntries = 5000

// Counts are what a shard holds, by the names of the counted fields in the counter's document. A field that is missing is not
// known: the shard holds something else than an integer there.
type Counts map[string]int64

// State is what a shard held as of a time.
type State struct {
	Shard  string
	Counts Counts
	AsOf   time.Time // the document's own update time, in microseconds
	Gone   bool      // the shard was deleted, and its counts are 0
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

// Missing are the counts that s has and newer, a state of the same shard, has not.
func (s State) Missing(newer State) Counts {
	var missing Counts
	for name, count := range s.Counts {
		if _, there := newer.Counts[name]; !there {
			if missing == nil {
				missing = Counts{}
			}
			missing[name] = count
		}
	}
	return missing
}

// Entry is one shard's newest counted state, of one field.
type Entry struct {
	Count int64
	AsOf  time.Time
}

// olderThan reports whether s, which holds count, supersedes the state of the entry. An entry of 0 may be that of a deletion.
func (e Entry) olderThan(s State, count int64) bool {
	return s.Supersedes(State{AsOf: e.AsOf, Gone: e.Count == 0 && count != 0})
}

// Sum is what the total of one counted field is made of.
type Sum struct {
	Shards   map[string]Entry // :: [Key] of a shard's id → the newest state counted
	Base     int64            // what the total holds beyond the shards
	Replaced *int64           // the total that adoption replaced, where there was one
	Field    string           // what the field is called in shards, for revisions that don't count it; "" is not known

	// Floor is the time as of which everything is counted, and shards that are not in Shards held nothing: no state of a
	// document that is not newer counts. It is the ledger's create time, so that late events of an earlier counter under the
	// same id count nothing, or the time of the last snapshot that corrected the sum. A deletion's time tells less: see
	// [State.Supersedes].
	Floor time.Time
}

// Total is what the field should hold: base plus every shard's count, or the largest or smallest int64 where that is beyond.
func (s *Sum) Total() int64 { return s.wide().clamp() }

func (s *Sum) wide() wide {
	var w wide
	w.add(s.Base)
	for _, e := range s.Shards {
		w.add(e.Count)
	}
	return w
}

// Ledger says what a counter's totals are made of.
type Ledger struct {
	ID       string           // which the counter's document names too: see [Of]
	Sums     map[string]*Sum  // :: name of a counted field in the counter's document → what its total is made of
	Ops      []string         // ids of the last commands that were applied, oldest first
	Flushes  int64            // how often it was rolled up, by which an instance sees how many flushes others made
	Imported map[string]int64 // :: hash of a counter of another kind → what base holds of it; a new ledger has none

	// Counted is what fields that count documents hold, by [store.Field.Key], since Created, the ledger's own create time.
	Counted map[string]Counted
	Created time.Time

	// Gone is when the counter's document was first found missing, where that is the app's own: the zero time while it is there.
	// States have been passed over since then, so before anything is counted again the shards are to be read.
	Gone time.Time

	Updated time.Time // the document's update time: every commit's precondition
}

// Behind reports whether the shards are to be read before states are merged: one of the fields has no sum yet, because it is
// counted since the ledger was made, or the counter's document was gone for a while. See [Ledger.Correct].
func (l *Ledger) Behind(fields ...string) bool {
	return !l.Gone.IsZero() || slices.ContainsFunc(fields, func(name string) bool { return l.Sums[name] == nil })
}

// Totals are what the counted fields should hold.
func (l *Ledger) Totals() Counts {
	totals := make(Counts, len(l.Sums))
	for name, sum := range l.Sums {
		totals[name] = sum.Total()
	}
	return totals
}

// entries is how many states of shards the ledger holds.
func (l *Ledger) entries() (n int) {
	for _, sum := range l.Sums {
		n += len(sum.Shards)
	}
	return n
}

// Diff is what [Ledger.Merge] or [Ledger.Correct] changes.
type Diff struct {
	Sums map[string]SumDiff // :: name of a field → what changes of its sum

	// Full are the keys of shards that were left out, because the ledger holds [MaxEntries] others.
	Full map[string]bool
	// Impossible says that an entry was newer than now, or that a shard is not newer than the floor and had none: states may
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

// Empty reports whether there is nothing to commit. A floor alone isn't worth a commit.
func (d Diff) Empty() bool {
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

// Merge is what the states that events bring change in the ledger: of several of a shard the newest counts. A field without
// a sum is passed over: see [Ledger.Behind]. The ledger itself is left as it is.
func (l *Ledger) Merge(states []State) Diff {
	d := Diff{Sums: map[string]SumDiff{}}
	room := MaxEntries - l.entries()
	for name, sum := range l.Sums {
		var change SumDiff
		for _, s := range states {
			count, ok := s.Counts[name]
			if !ok {
				continue
			}
			key := Key(s.Shard)
			known, ok := change.Entries[key]
			if !ok {
				known, ok = sum.Shards[key]
			}
			switch {
			case !s.Gone && !s.AsOf.After(sum.Floor): // counted by then, or of an earlier counter
				continue
			case ok && !known.olderThan(s, count):
				continue
			case !ok && room <= 0:
				if !s.Gone {
					d.full(key)
				}
				continue
			case !ok:
				// A deletion is entered too, whatever its time: a snapshot from before it may be on its way to the ledger, in
				// which the shard is still there.
				room--
			}
			if change.Entries == nil {
				change.Entries = make(map[string]Entry, len(states))
			}
			change.Entries[key] = Entry{Count: count, AsOf: s.AsOf}
		}
		if len(change.Entries) > 0 {
			change.Delta = sum.delta(change)
			d.Sums[name] = change
		}
	}
	return d
}

// Snapshot is all shards of a counter as they were at one time. A shard keeps the entry that it has of a field where its
// state doesn't have the field.
type Snapshot struct {
	At     time.Time
	States []State
}

// Correct is what a snapshot changes in the sums of the fields, of a ledger that was read at the time now, which is the
// snapshot's or later. A field without a sum gets one.
//
// A snapshot of the same time is the truth, whatever times the ledger claims. Beside an earlier one, entries that are newer
// than its states stay, unless they are newer than now, which is impossible. Entries of shards that are gone are removed.
// The snapshot's time is the new floor; a snapshot that is not younger than the floor says nothing about this sum.
func (l *Ledger) Correct(now time.Time, s Snapshot, fields ...string) Diff {
	d := Diff{Sums: map[string]SumDiff{}}
	most := MaxEntries / max(1, len(fields))
	for _, name := range fields {
		sum, known := l.Sums[name]
		if !known {
			sum = &Sum{}
		}
		if s.At.After(sum.Floor) {
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
		count, ok := state.Counts[name]
		if !ok {
			continue
		}
		e := Entry{Count: count, AsOf: state.AsOf}
		known, ok := s.Shards[key]
		impossible := known.AsOf.After(now)
		switch {
		case ok && known.Count == e.Count && known.AsOf.Equal(e.AsOf):
			continue
		case ok && !impossible && !snap.At.Equal(now) && !known.olderThan(state, count):
			continue
		case !ok && len(there) > most:
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
