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
	// of the first field of shards, as the roll-up has it, about a second old; where there is none,
	// of the first other that is an integer, and 0 where there is none of these either
	Total int64 `json:"total"`
	// Totals are those of all fields, by their names, where more than one is counted; otherwise
	// nil. Those that count documents are among them.
	Totals map[string]int64 `json:"totals,omitempty"`
	// Doubles are the fields that are no integers, such as rating=avg(ratings.stars), by their names:
	// nil for the average of none, and for what JSON has no number for.
	Doubles map[string]*float64 `json:"doubles,omitempty"`
	// NotCounted are those that are not in the document, though it was rolled up: the field is new,
	// or the counter has others. Their totals are 0.
	NotCounted []string `json:"not_counted,omitempty"`
	// Limits are those of the fields that have one (see [Counter.SetLimit]), by their names, and Left what
	// is left of them by the totals above: more may be taken by now.
	Limits map[string]int64 `json:"limits,omitempty"`
	Left   map[string]int64 `json:"left,omitempty"`

	NumShards int       `json:"num_shards"` // 0 where documents alone are counted
	UpdatedAt time.Time `json:"updated_at"` // when the total was last written

	Reads int64 `json:"-"` // what [Counter.Sum] was billed as, with an error too; 0 of others

	// fields of the document that may be counted instead, where none is that is asked for
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
