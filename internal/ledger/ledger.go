package ledger

import (
	"slices"
	"time"

	"github.com/firestore-counters/counters/internal/layout"
)

// MaxEntries is how many states of shards a ledger knows at most, each of a shard and a field.
const MaxEntries = layout.MaxEntries

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

// Over is the sum with another base.
func (s *Sum) Over(base int64) *Sum {
	other := *s
	other.Base = base
	return &other
}

// BaseFor is the base with which the total is what is given, or as close to it as an int64 comes.
func (s *Sum) BaseFor(total int64) int64 {
	var w wide
	w.add(total)
	for _, e := range s.Shards {
		w.sub(e.Count)
	}
	return w.clamp()
}

// Ledger says what a counter's totals are made of.
type Ledger struct {
	ID       string           // which the counter's document names too: see [Of]
	Sums     map[string]*Sum  // :: name of a counted field in the counter's document → what its total is made of
	Ops      []string         // ids of the last commands that were applied, oldest first
	Flushes  int64            // how often it was rolled up, by which an instance sees how many flushes others made
	Imported map[string]int64 // :: hash of a counter of another kind → what base holds of it; a new ledger has none

	// Counted is what fields that count documents hold, by [layout.Field.Key], since Created, the ledger's own create time.
	Counted map[string]Counted
	Created time.Time

	// Gone is when the counter's document was first found missing, where that is the app's own: the zero time while it is there.
	// States have been passed over since then, so before anything is counted again the shards are to be read.
	Gone time.Time

	Updated time.Time // the document's update time: every commit's precondition
}

// Behind reports whether the shards are to be read before states are merged into a ledger that was read at the time now: one of
// the fields has no sum yet, because it is counted since the ledger was made; what is known of it has a time that has not come,
// and would hide states; or the counter's document was gone for a while. See [Ledger.Correct].
func (l *Ledger) Behind(now time.Time, fields ...string) bool {
	return !l.Gone.IsZero() || slices.ContainsFunc(fields, func(name string) bool {
		sum := l.Sums[name]
		return sum == nil || sum.impossible(now)
	})
}

// impossible reports whether the floor or an entry is newer than now.
func (s *Sum) impossible(now time.Time) bool {
	for _, e := range s.Shards {
		if e.AsOf.After(now) {
			return true
		}
	}
	return s.Floor.After(now)
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
