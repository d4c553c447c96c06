package book

import (
	"cmp"

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

// agrees reports whether the shown fields of a counter's document are what its ledger has.
func agrees(names layout.Layout, counter *firestorepb.Document, l *ledger.Ledger) bool {
	for name, value := range view(names, l, l.Totals(names.Shown()...)) {
		if !proto.Equal(counter.GetFields()[name], value) { // of which NaN equals itself
			return false
		}
	}
	return true
}
