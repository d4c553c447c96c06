package book

import (
	"cmp"
	"fmt"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
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

// Overwritable reports whether a total may take the place of a value in a counter's document: of a number, of null,
// or of nothing. Everything else, such as a list of user ids, is the app's, and stays.
func Overwritable(value *firestorepb.Value) bool {
	switch value.GetValueType().(type) {
	case nil, *firestorepb.Value_NullValue, *firestorepb.Value_IntegerValue, *firestorepb.Value_DoubleValue:
		return true
	}
	return false
}

// Kept are the shown fields of a counter's document that no total may replace, and what is to be said of each.
func Kept(names layout.Layout, counter *firestorepb.Document) (fields, problems []string) {
	for _, field := range names.Shown() {
		if why := keeps(names, counter, field); why != "" {
			fields, problems = append(fields, field.Name), append(problems, why)
		}
	}
	return fields, problems
}

// keeps says why no total may replace what a field holds: it isn't [Overwritable], or a number of the extension's that
// is not whole, so that no total can go on from it. It is empty if one may.
func keeps(names layout.Layout, counter *firestorepb.Document, field layout.Field) (why string) {
	value := counter.GetFields()[field.Name]
	_, number := store.Float(value)
	_, whole := store.Integer(value)
	is, helps := "no number", ""
	switch {
	case names.Extension && field.Counted == nil && number && !whole && rollupOf(counter)[layout.LastShown].GetMapValue().GetFields()[field.Name] == nil:
		return fmt.Sprintf("%q is no whole number in its document, so no total can go on from what the extension has counted: set it to a whole number", field.Name)
	case Overwritable(value):
		return ""
	case value.GetArrayValue() != nil:
		is, helps = "a list", "if it lists user ids, run counters import members; otherwise "
	}
	return fmt.Sprintf("%q is %s in its document, and no total replaces that; what is counted is in the shards: %sdelete the field, or show the total in another (FIELDS)", field.Name, is, helps)
}

// rollupOf is the map that says what this module has written in a counter's document.
func rollupOf(counter *firestorepb.Document) map[string]*firestorepb.Value {
	return counter.GetFields()[layout.Rollup].GetMapValue().GetFields()
}

// put sets an entry of a map, which it makes if there is none.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}
