package ledger

import (
	"maps"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// Counted is what an aggregation query said of the documents that a field counts, such as comments=count(comments). Events
// only say that something has changed: the value is the query's, as of its read time, and the newest read time wins. So
// events that come twice, late or never, and edits and deletions, do no harm.
type Counted struct {
	Value int64
	AsOf  time.Time // read time of the query
}

// Recount is which values, by [layout.Field.Key], are newer than the ledger's. A value that the ledger doesn't know, of a
// query from before the ledger was made, is early: a newer one may have been in the ledger that was there before. It is to be
// taken anew. One of the very time at which the ledger was made is not: a query that is asked right after a commit may be as of
// that commit.
func (l *Ledger) Recount(values map[string]Counted) (newer map[string]Counted, early bool) {
	newer = make(map[string]Counted, len(values))
	for key, value := range values {
		known, ok := l.Counted[key]
		switch {
		case ok && value.AsOf.After(known.AsOf) || !ok && !value.AsOf.Before(l.Created):
			newer[key] = value
		case !ok:
			early = true
		}
	}
	return newer, early
}

// Forget takes away values of a time after now, which is impossible: they would hide what is counted until then. It reports
// whether there were any.
func (l *Ledger) Forget(now time.Time) (forgot bool) {
	for key, known := range l.Counted {
		if known.AsOf.After(now) {
			delete(l.Counted, key)
			forgot = true
		}
	}
	return forgot
}

// Enter brings the ledger up to date with values that [Ledger.Recount] has returned.
func (l *Ledger) Enter(newer map[string]Counted) {
	if l.Counted == nil {
		l.Counted = make(map[string]Counted, len(newer))
	}
	maps.Copy(l.Counted, newer)
}

// CountedFields are the fields and the update mask that enter values in a ledger's document, and leave all else alone.
func CountedFields(newer map[string]Counted) (fields map[string]*firestorepb.Value, mask []string) {
	entries := make(map[string]*firestorepb.Value, len(newer))
	for key, counted := range newer {
		entries[key] = store.Map(map[string]*firestorepb.Value{entryValue: store.Int(counted.Value), entryAsOf: store.Time(counted.AsOf)})
		mask = append(mask, layout.FieldPath(FieldCounted, key))
	}
	return map[string]*firestorepb.Value{FieldCounted: store.Map(entries)}, mask
}

// decodeCounted reads the values of counted fields. want is called with whether each is of its type.
func decodeCounted(v *firestorepb.Value, want func(string, bool)) map[string]Counted {
	want(FieldCounted, is[mapping](v))
	entries := v.GetMapValue().GetFields()
	if len(entries) == 0 {
		return nil
	}
	counted := make(map[string]Counted, len(entries))
	for key, v := range entries {
		entry := v.GetMapValue().GetFields()
		value, asOf := entry[entryValue], entry[entryAsOf]
		want(FieldCounted, value != nil && is[integer](value) && asOf != nil && is[timestamp](asOf))
		counted[key] = Counted{Value: value.GetIntegerValue(), AsOf: asOf.GetTimestampValue().AsTime()}
	}
	return counted
}
