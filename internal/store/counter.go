package store

import (
	"fmt"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
)

// Own are the fields of a counter's document that say how it is counted, such as [NumShards]. In a document of the app's own
// they are in one map, so that nothing else of it is touched.
func (db *DB) Own(counter *firestorepb.Document) map[string]*firestorepb.Value {
	if !db.Hosted {
		return counter.GetFields()
	}
	return counter.GetFields()[layout.Rollup].GetMapValue().GetFields()
}

// OwnPath is the path of such a field, as update masks and transforms have it.
func (db *DB) OwnPath(field string) string {
	if !db.Hosted {
		return field
	}
	return layout.Rollup + "." + field
}

// SetOwn adds such fields to those that a write sets, and their paths to its mask.
func (db *DB) SetOwn(fields map[string]*firestorepb.Value, mask []string, own map[string]*firestorepb.Value) []string {
	if db.Hosted && len(own) > 0 {
		fields[layout.Rollup] = Map(own)
	}
	for name, value := range own {
		if !db.Hosted {
			fields[name] = value
		}
		mask = append(mask, db.OwnPath(name))
	}
	return mask
}

// NoCounts are the fields of a shard that holds nothing.
func (db *DB) NoCounts() map[string]*firestorepb.Value {
	fields := make(map[string]*firestorepb.Value, len(db.Fields))
	for _, field := range db.Fields {
		fields[field.Shard] = Int(0)
	}
	return fields
}

// ShardCount is a counter's number of shards, as its document has it.
type ShardCount struct {
	N        int  // 1 to [MaxShards], whatever the document says
	Written  bool // it says a number
	Inferred bool // it says that the number was inferred: see [NumShardsInferred]
}

// ShardCount reads the number of shards of a counter's document.
func (db *DB) ShardCount(counter *firestorepb.Document) ShardCount {
	own := db.Own(counter)
	n, written := own[layout.NumShards]
	if !written {
		n, written = own[layout.NumShardsLegacy]
	}
	number := max(n.GetIntegerValue(), int64(min(n.GetDoubleValue(), layout.MaxShards)))
	return ShardCount{N: int(min(max(number, 1), layout.MaxShards)), Written: written, Inferred: own[layout.NumShardsInferred].GetBooleanValue()}
}

// filterValue is what a filter compares with, as a Firestore value.
func filterValue(f *layout.Filter) *firestorepb.Value {
	switch value := f.Value.(type) {
	case bool:
		return Bool(value)
	case int64:
		return Int(value)
	case string:
		return String(value)
	}
	panic(fmt.Sprintf("a filter's value is a %T", f.Value))
}
