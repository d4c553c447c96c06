package book

import (
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
