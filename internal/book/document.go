package book

import (
	"cmp"
	"maps"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
	"github.com/firestore-counters/counters/internal/store"
)

// Own are our own fields of a counter's document, such as [layout.NumShards]. A document of the app's
// own has them in one map.
func Own(names layout.Layout, counter *firestorepb.Document) map[string]*firestorepb.Value {
	if !names.Hosted {
		return counter.GetFields()
	}
	return counter.GetFields()[layout.Rollup].GetMapValue().GetFields()
}

// NumShards is the document's number of shards, within 1 to [layout.MaxShards]; 0 if it has none.
func NumShards(names layout.Layout, counter *firestorepb.Document) int {
	own := Own(names, counter)
	n := cmp.Or(own[layout.NumShards], own[layout.NumShardsLegacy])
	if n == nil {
		return 0
	}
	number := max(n.GetIntegerValue(), int64(min(n.GetDoubleValue(), layout.MaxShards)))
	return int(min(max(number, 1), layout.MaxShards))
}

// Deleting reports whether a counter's deletion is under way, or was cut short.
func Deleting(names layout.Layout, counter *firestorepb.Document) bool {
	return Own(names, counter)[layout.Deleting].GetBooleanValue()
}

// ValueOf is what the ledger says a field of the document should hold; nil if it doesn't know.
func ValueOf(field layout.Field, l *ledger.Ledger) *firestorepb.Value {
	if field.Counted == nil {
		total, _ := l.Total(field)
		return store.Int(total)
	}
	return valueOf(l.Answers[field.Key()])
}

// view is what the document's shown fields should hold by the ledger, whose totals are given.
func view(names layout.Layout, l *ledger.Ledger, totals map[string]int64) map[string]*firestorepb.Value {
	fields := make(map[string]*firestorepb.Value, len(names.Fields)+len(names.Counted))
	for _, field := range names.Shown() {
		if total, ok := totals[field.Name]; ok {
			fields[field.Name] = store.Int(total)
		} else if value := valueOf(l.Answers[field.Key()]); value != nil {
			fields[field.Name] = value
		}
	}
	return fields
}

// LimitsOf are the limits that a document shows, by field names; nil if it shows none.
func LimitsOf(names layout.Layout, counter *firestorepb.Document) map[string]int64 {
	var limits map[string]int64
	for name, value := range Own(names, counter)[layout.Limits].GetMapValue().GetFields() {
		if n, ok := store.Integer(value); ok {
			ledger.Put(&limits, name, n)
		}
	}
	return limits
}

// shownLimits are what the document should show of the ledger's limits. A field that isn't shown has the
// shards' name there, unless a shown one has that name.
func shownLimits(names layout.Layout, limits ledger.Counts) map[string]int64 {
	shown := map[string]int64(maps.Clone(limits))
	for _, field := range names.Fields {
		delete(shown, field.Shard)
		delete(shown, field.Name)
	}
	for _, field := range names.Fields {
		if n, has := limits[field.Shard]; has {
			shown[field.Name] = n
		}
	}
	return shown
}

// ownsLimits reports whether [layout.Limits] of the document is ours to set, or to take away: a counter
// that never had a limit may have a field of the user's there.
func ownsLimits(names layout.Layout, limits ledger.Counts) bool {
	return names.Hosted || len(limits) > 0
}

// showLimits has a write of the document set the limits that it shows, all of them at once: it may show
// what another one's ledger has, which the app has copied.
func showLimits(names layout.Layout, w *firestorepb.Write, limits ledger.Counts) {
	own := map[string]*firestorepb.Value{}
	setIntegers(own, layout.Limits, shownLimits(names, limits))
	if names.Hosted {
		own = map[string]*firestorepb.Value{layout.Rollup: store.Map(own)}
	}
	fields := w.GetUpdate()
	if fields.Fields == nil {
		fields.Fields = map[string]*firestorepb.Value{}
	}
	maps.Copy(fields.Fields, own)
	w.UpdateMask.FieldPaths = append(w.UpdateMask.FieldPaths, names.OwnPath(layout.Limits))
}

// agrees reports whether the shown fields of a counter's document are what its ledger has, and its limits.
func agrees(names layout.Layout, counter *firestorepb.Document, l *ledger.Ledger) bool {
	if ownsLimits(names, l.Limits) && !maps.Equal(LimitsOf(names, counter), shownLimits(names, l.Limits)) {
		return false
	}
	for name, value := range view(names, l, l.Totals(names.Shown()...)) {
		if !proto.Equal(counter.GetFields()[name], value) { // of which NaN equals itself
			return false
		}
	}
	return true
}
