package book

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// checkSettings is a [SettingError] if HOSTED or COUNTERS are others here than a base and a document say. Each
// of them may be nil.
func checkSettings(names layout.Layout, base, doc *firestorepb.Document) error {
	made := base.GetFields()[baseCounters].GetStringValue()
	path, invalid := layout.ParsePath(made)
	switch hosted, known := whose(names, base, doc); {
	case known && hosted && !names.Hosted:
		return &SettingError{"HOSTED=true", "the document is the app's own, and HOSTED is false here"}
	case known && !hosted && names.Hosted:
		return &SettingError{"HOSTED=false", "the document is the counter's, and HOSTED is true here"}
	case made != "" && (invalid != nil || path.Canonical() != names.Path.Canonical()):
		return &SettingError{"COUNTERS=" + made, fmt.Sprintf("the counter was made there, and COUNTERS is %q here", names.Path)}
	}
	return nil
}

// whose reports whether a document is the app's own. The base beside it says so, unless the app has put a
// document of its own in the place of ours. Without one, our map says so, or a field that neither we nor
// Google's snippets write. What a snippet may have made is either, as the settings say: that isn't known.
func whose(names layout.Layout, base, doc *firestorepb.Document) (hosted, known bool) {
	fields := doc.GetFields()
	recorded, is := base.GetFields()[baseHosted].GetValueType().(*firestorepb.Value_BooleanValue)
	switch {
	case is && recorded.BooleanValue:
		return true, true
	case is:
		ours := fields[layout.NumShards] != nil || fields[layout.NumShardsLegacy] != nil || fields[layout.CreatedAt] != nil
		return !ours && appField(names, doc, true) != "", true
	case fields[layout.Rollup].GetMapValue() != nil:
		mark, is := rollupOf(doc)[layout.HostedMark].GetValueType().(*firestorepb.Value_BooleanValue)
		return !is || mark.BooleanValue, true // of ours only a roll-up writes the map, with the mark
	case base == nil && appField(names, doc, false) != "":
		return true, true
	}
	return false, false
}

// appField is a field of a document that neither we nor Google's snippets write; "" if there is none. Where
// nothing is counted, our times and marks are the app's, too. In a counter that is ours, or has a number of
// shards, any number may be one that another FIELDS shows.
func appField(names layout.Layout, doc *firestorepb.Document, ours bool) (field string) {
	fields, shown := doc.GetFields(), names.Shown().Names()
	counts := ours || fields[layout.NumShards] != nil || fields[layout.NumShardsLegacy] != nil
	numbers := counts
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		_, number := store.Float(value)
		switch {
		case slices.Contains(shown, name):
			counts = true
		case numbers && number:
		case (name == layout.CreatedAt || name == layout.UpdatedAt) && value.GetTimestampValue() != nil,
			name == layout.Rollup && value.GetMapValue() != nil:
			field = name
		default:
			return name
		}
	}
	if counts {
		return ""
	}
	return field
}

// unclear reports whether fields that were not read may tell whose a document is.
func unclear(names layout.Layout, base, doc *firestorepb.Document) bool {
	fields := doc.GetFields()
	ours := fields[layout.NumShards] != nil || fields[layout.NumShardsLegacy] != nil || fields[layout.CreatedAt] != nil || rollupOf(doc) != nil
	return doc != nil && (base == nil || !names.Hosted && !ours)
}

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
