package shards

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
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
	// nil for an average of nothing, and for what JSON has no number for. A total is among them whose
	// document holds a fraction, which something else has written: Total and Totals have its whole part.
	Doubles map[string]*float64 `json:"doubles,omitempty"`
	// NotCounted are fields that the roll-up has not written: they are new, the counter has others, or they hold
	// something else than a number, which no total replaces. Their totals are 0.
	NotCounted []string `json:"not_counted,omitempty"`
	// Limits are those of fields that have one (see [Counter.SetLimit]), by their names, about a second old. Left is
	// what the totals above leave of them: more may be taken by now.
	Limits map[string]int64 `json:"limits,omitempty"`
	Left   map[string]int64 `json:"left,omitempty"`

	NumShards int       `json:"num_shards"` // 0 where documents alone are counted
	UpdatedAt time.Time `json:"updated_at"` // when the total was last written
	// AsOf is the time as of which the totals are: they hold exactly what was committed by then (see
	// [Client.Apply]). It is the earliest of the fields that are shown, and zero where that is not known.
	AsOf time.Time `json:"as_of,omitzero"`

	Reads int64 `json:"-"` // what [Counter.Sum] was billed as, with an error too; 0 of others

	asOf map[string]time.Time // :: field → as of when it is
	// other numbers in the document, if no field that is asked for is there
	there   []string
	blocked []string // fields whose totals are counted and not shown, because no total replaces what they hold
	others  error    // an [ErrOthers]: nothing is counted here
	bare    bool     // the document is there, and has no shards yet
}

// total is that of a field, or the only one.
func (s Snapshot) total(field string) int64 {
	if s.Totals == nil {
		return s.Total
	}
	return s.Totals[field]
}

// OfField is the snapshot with the AsOf of a field.
func (s Snapshot) OfField(field string) Snapshot {
	s.AsOf = s.asOf[field]
	return s
}

// CheckCounted says, as [ErrNotCounted], that fields are not counted in this counter, by their
// names, and what is.
func (s Snapshot) CheckCounted(fields ...string) error {
	for _, field := range fields {
		if slices.Contains(s.NotCounted, field) && !slices.Contains(s.blocked, field) {
			return fmt.Errorf("%w: %s; its document has %s (FIELDS says what is counted; the next roll-up brings what is new)",
				ErrNotCounted, field, cmp.Or(strings.Join(s.there, ", "), "no numbers"))
		}
	}
	return nil
}

// earliest sets AsOf to the earliest of the fields, if it is known of each. Limits, which seldom change, are none of
// them.
func (s *Snapshot) earliest(fields layout.Fields) {
	for i, field := range fields {
		at, known := s.asOf[field.Name]
		if !known {
			s.AsOf = time.Time{}
			return
		}
		if i == 0 || at.Before(s.AsOf) {
			s.AsOf = at
		}
	}
}

// snapshotOf is a counter's document as a snapshot. In one that a public snippet has made nothing is ours, and no field
// is missing. The error is [ErrNotFound].
func (c *Client) snapshotOf(counter string, doc *firestorepb.Document) (Snapshot, error) {
	if doc == nil {
		return Snapshot{}, ErrNotFound
	}
	snapshot := Snapshot{Counter: counter, NumShards: cmp.Or(book.NumShards(c.db.Layout, doc), c.cfg.NumShards), UpdatedAt: doc.GetUpdateTime().AsTime()}
	snapshot.bare = book.NumShards(c.db.Layout, doc) == 0
	if len(c.db.Layout.Sharded) == 0 {
		snapshot.NumShards = 0
	}
	rolledUp := book.OurFields(c.db.Layout, doc)[layout.UpdatedAt].GetTimestampValue()
	if rolledUp != nil {
		snapshot.UpdatedAt = rolledUp.AsTime()
	}
	shown, fields := c.db.Layout.Shown().Named(), doc.GetFields()
	if len(shown) > 1 || !shown[0].Integer() {
		snapshot.Totals = make(map[string]int64, len(shown))
	}
	snapshot.blocked, _ = book.Blocked(c.db.Layout, doc)
	for _, field := range shown {
		c.setField(&snapshot, field, fields[field.Name])
		if slices.Contains(snapshot.blocked, field.Name) || rolledUp != nil && fields[field.Name] == nil {
			snapshot.NotCounted = append(snapshot.NotCounted, field.Name)
		}
	}
	for field, at := range doc.GetFields()[layout.Rollup].GetMapValue().GetFields()[layout.AsOf].GetMapValue().GetFields() {
		if at.GetTimestampValue() != nil {
			if snapshot.asOf == nil {
				snapshot.asOf = map[string]time.Time{}
			}
			snapshot.asOf[field] = at.GetTimestampValue().AsTime()
		}
	}
	snapshot.earliest(shown)
	snapshot.Limits, snapshot.Left = limitsOf(c.db.Layout.Sharded, func(field string) (int64, bool) {
		n, whole := store.Integer(fields[field])
		return n, whole && fields[field] != nil
	}, snapshot.total)
	if snapshot.NotCounted == nil {
		return snapshot, nil
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if _, number := store.Integer(fields[name]); number && fields[name] != nil && name != layout.NumShards && name != layout.NumShardsLegacy {
			snapshot.there = append(snapshot.there, name)
		}
	}
	return snapshot, nil
}

// setField sets a field in a snapshot. If somebody has written a fraction over a total, the total is its whole part,
// and the fraction is among the doubles.
func (c *Client) setField(snapshot *Snapshot, field layout.Field, value *firestorepb.Value) {
	total, whole := store.Integer(value)
	fraction, number := store.Float(value)
	if field.Integer() && !whole && math.Abs(fraction) < 1<<63 {
		total = int64(fraction)
	}
	if first, _ := c.db.Layout.First(); field.Name == first.Name {
		snapshot.Total = total
	}
	if snapshot.Totals != nil && field.Integer() {
		snapshot.Totals[field.Name] = total
	}
	delete(snapshot.Doubles, field.Name)
	if !field.Integer() || number && !whole {
		if snapshot.Doubles == nil {
			snapshot.Doubles = map[string]*float64{}
		}
		snapshot.Doubles[field.Name] = store.Number(value)
	}
}

// setTotals sets the sums of shards in a snapshot, by their fields' names.
func (c *Client) setTotals(snapshot *Snapshot, totals map[string]int64) {
	for _, field := range c.db.Layout.Sharded.Named() {
		c.setField(snapshot, field, store.Int(totals[field.Name]))
	}
	snapshot.Limits, snapshot.Left = limitsOf(c.db.Layout.Sharded, func(field string) (int64, bool) { return totals[field], true }, snapshot.total)
}

// limitsOf are the limits of fields, by the numbers of those that show them, and what totals leave of them.
func limitsOf(fields layout.Fields, shown func(field string) (n int64, is bool), total func(field string) int64) (limits, left map[string]int64) {
	for _, field := range fields {
		limit, is := shown(field.Name)
		if !field.ShowsLimit() || !is {
			continue
		}
		if limits == nil {
			limits, left = map[string]int64{}, map[string]int64{}
		}
		limits[field.LimitOf], left[field.LimitOf] = limit, max(0, limit-total(field.LimitOf))
	}
	return limits, left
}

// checkAnyCounted is an [ErrNotCounted] if nothing that this client counts is counted in the counter.
func (c *Client) checkAnyCounted(snapshot Snapshot) error {
	if len(snapshot.NotCounted) < len(c.db.Layout.Shown().SettingNames()) || len(snapshot.blocked) > 0 {
		return nil
	}
	return snapshot.CheckCounted(snapshot.NotCounted[0])
}
