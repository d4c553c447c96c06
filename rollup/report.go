package rollup

import (
	"maps"
	"slices"

	"github.com/firestore-counters/counters/internal/ledger"
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
	// Deleted says that what was left of it is removed now, or would be: its deletion was
	// half-finished, or its document is the app's own and has been gone for long enough.
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

	// of the difference, what the document was behind: states that no event had brought yet, lost ones
	// and ones on their way, and all of a field that it had not, or not as the shards' sum
	Late int64 `json:"late"`
	// what the total had beyond its ledger, written by something else; it was taken off
	Drift int64 `json:"drift"`
}

// DoubleReport is what a reconcile found of a field that is a double, such as an average: null is
// that of none, and a number that JSON has none for.
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
	return r.Adopted || r.Rebuilt || r.Deleted || r.Shards != 0
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
