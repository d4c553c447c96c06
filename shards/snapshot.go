package shards

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Snapshot is a counter's document.
type Snapshot struct {
	Counter string `json:"counter"`
	// Total is that of the first field of shards, about a second old; if there is none, of the first
	// other integer; otherwise 0.
	Total int64 `json:"total"`
	// Totals are those of all fields by their names, if there are several; otherwise nil. Fields that
	// count documents are among them.
	Totals map[string]int64 `json:"totals,omitempty"`
	// Doubles are the fields that are no integers, such as rating=avg(ratings.stars), by their names:
	// nil for an average of nothing, and for what JSON has no number for.
	Doubles map[string]*float64 `json:"doubles,omitempty"`
	// NotCounted are fields that the roll-up has not written: they are new, or the counter has others.
	// Their totals are 0.
	NotCounted []string `json:"not_counted,omitempty"`
	// Limits are those of fields that have one (see [Counter.SetLimit]), by their names. Left is what
	// the totals above leave of them: more may be taken by now.
	Limits map[string]int64 `json:"limits,omitempty"`
	Left   map[string]int64 `json:"left,omitempty"`

	NumShards int       `json:"num_shards"` // 0 where documents alone are counted
	UpdatedAt time.Time `json:"updated_at"` // when the total was last written

	Reads int64 `json:"-"` // what [Counter.Sum] was billed as, with an error too; 0 of others

	// other numbers in the document, if no field that is asked for is there
	there   []string
	limited bool // a field has a limit, by the document, or by the ledger where that was read
}

// total is that of a field, or the only one.
func (s Snapshot) total(field string) int64 {
	if s.Totals == nil {
		return s.Total
	}
	return s.Totals[field]
}

// Counts says, as [ErrNotCounted], that fields are not counted in this counter, by their
// names, and what is.
func (s Snapshot) Counts(fields ...string) error {
	for _, field := range fields {
		if slices.Contains(s.NotCounted, field) {
			return fmt.Errorf("%w: %s; its document has %s (FIELDS says what is counted; the next roll-up brings what is new)",
				ErrNotCounted, field, cmp.Or(strings.Join(s.there, ", "), "no numbers"))
		}
	}
	return nil
}

// subtract works out what is left of the limits.
func (s *Snapshot) subtract() {
	if s.Limits == nil {
		return
	}
	s.Left = make(map[string]int64, len(s.Limits))
	for field, limit := range s.Limits {
		s.Left[field] = max(0, limit-s.total(field))
	}
}
