package rollup

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/firestore-counters/counters/internal/ledger"
)

// ReconcileOptions are the choices in reconciling counters. The zero value is fine.
type ReconcileOptions struct {
	DryRun bool // only report what would be done

	// Remove removes what is left of a counter whose document is missing, if its ledger is of that
	// update time, or whose deletion was cut short: shards.Client.Remove. It reports false if the
	// counter is back, or time was too short. Without it such a counter is only reported.
	Remove func(ctx context.Context, counter string, version time.Time) (removed bool, err error)

	// Rebuild makes a ledger that is an [ErrDamagedLedger] again, also one of another deployment's.
	Rebuild bool

	// CleanupAfter is how long a document of the app's own has to be missing, since a reconcile or an
	// event found that, with nothing counted, before what is below it is removed; default 24h.
	CleanupAfter time.Duration

	// The rest is for several counters.

	// Parallel is how many counters are reconciled side by side, default 8.
	Parallel int
	// Resume goes on where the last ReconcileAll ran out of time. A dry run doesn't.
	Resume bool
	// RecountAge is when ReconcileAll asks queries again that nothing has asked since, because events
	// may be lost: default 24h. RecountReads is how many reads that, and queries never asked, may take:
	// about 10,000 by default; none if negative. Counters that are named are always asked.
	RecountAge   time.Duration
	RecountReads int64
	// Report is called for every counter, one call at a time, with the error if it failed; for named
	// ones also if there is none.
	Report func(Report, error)

	limit  time.Duration // for one counter
	budget *atomic.Int64 // reads that are left; the last one to take some may take more
	each   bool          // look at each shard, whatever the sums say
	// for a note: look at everything, and commit in any case, so that no earlier snapshot counts any
	// more
	noted bool
}

// defaultCleanupAfter is how long a document has to be gone.
const defaultCleanupAfter = 24 * time.Hour

const (
	// defaultRecountAge and defaultRecountReads bound what ReconcileAll spends on counting again
	// what no event has brought.
	defaultRecountAge   = 24 * time.Hour
	defaultRecountReads = 10_000
)

// Report is what a reconcile found of one counter, and did about it.
type Report struct {
	Counter string `json:"counter"`

	FieldReport                        // of the first field that is counted
	Fields      map[string]FieldReport `json:"fields,omitempty"` // of further ones, by their names

	// of fields that are doubles, by their names
	Doubles map[string]DoubleReport `json:"doubles,omitempty"`

	Reads int64 `json:"reads,omitempty"` // that counting documents took

	Shards int `json:"shards"` // how many of the ledger's entries were not what the shards hold

	Adopted bool `json:"adopted,omitempty"` // it had no ledger
	Rebuilt bool `json:"rebuilt,omitempty"` // its ledger could not be used, and was made again
	Limits  bool `json:"limits,omitempty"`  // shards' shares of a limit were wrong, and are given out anew
	// Deleted says that what was left of it is removed, or would be: its deletion was cut short, or the
	// app's document has been missing for long.
	Deleted bool `json:"deleted,omitempty"`
	Gone    bool `json:"gone,omitempty"` // there is no such counter

	// Problem is what keeps the total from being right, and what to do about it; empty
	// when nothing does.
	Problem string `json:"problem,omitempty"`
}

// FieldReport is what a reconcile found of one counted field.
type FieldReport struct {
	Before int64 `json:"before"` // its total before
	After  int64 `json:"after"`  // its total now, or what it would be

	// Of the difference, what the document was behind: states whose events are lost or on their way,
	// and all of a field that is new.
	Late int64 `json:"late"`
	// What something else had added to the total; it was taken off.
	Drift int64 `json:"drift"`
}

// DoubleReport is what a reconcile found in a field that holds a double, such as an average. Before and After are null
// for the average of nothing, and for a number that JSON can't hold.
type DoubleReport struct {
	Before *float64 `json:"before"`
	After  *float64 `json:"after"`
}

// Repaired reports whether anything had to be done.
func (r Report) Repaired() bool {
	for _, field := range r.fields() {
		if field.Late != 0 || field.Drift != 0 {
			return true
		}
	}
	for _, d := range r.Doubles {
		if (d.Before == nil) != (d.After == nil) || d.Before != nil && *d.Before != *d.After {
			return true
		}
	}
	return r.Adopted || r.Rebuilt || r.Limits || r.Deleted || r.Shards != 0
}

// fields are what was found of all fields that are integers.
func (r Report) fields() []FieldReport {
	return append(slices.Collect(maps.Values(r.Fields)), r.FieldReport)
}

// drift is what all totals had beyond their ledger, summed up without signs.
func (r Report) drift() (sum int64) {
	for _, field := range r.fields() {
		sum = ledger.Add(sum, max(field.Drift, ledger.Sub(0, field.Drift)))
	}
	return sum
}

// Right reports whether nothing had to be done, and nothing is left to do.
func (r Report) Right() bool { return !r.Repaired() && r.Problem == "" }
