package store

import (
	"cmp"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
)

// Own are the fields of a counter's document that say how it is counted, such as
// [layout.NumShards]. In a document of the app's own they are in one map, so that nothing else
// of it is touched.
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

// NoCounts are the fields of a shard that holds nothing.
func (db *DB) NoCounts() map[string]*firestorepb.Value {
	fields := make(map[string]*firestorepb.Value, len(db.Fields))
	for _, field := range db.Fields {
		fields[field.Shard] = Int(0)
	}
	return fields
}

// NumShards is the number of shards that a counter's document says, 1 to [layout.MaxShards]
// whatever it says; 0 where it says none.
func (db *DB) NumShards(counter *firestorepb.Document) int {
	own := db.Own(counter)
	n := cmp.Or(own[layout.NumShards], own[layout.NumShardsLegacy])
	if n == nil {
		return 0
	}
	number := max(n.GetIntegerValue(), int64(min(n.GetDoubleValue(), layout.MaxShards)))
	return int(min(max(number, 1), layout.MaxShards))
}

// Deleting reports whether a counter's deletion is under way, or was cut short.
func (db *DB) Deleting(counter *firestorepb.Document) bool {
	return db.Own(counter)[layout.Deleting].GetBooleanValue()
}

// ShownAs is what a field of a counter's document should hold; nil where it isn't known.
func ShownAs(field layout.Field, l *ledger.Ledger) *firestorepb.Value {
	if field.Counted == nil {
		total, _ := l.Total(field)
		return Int(total)
	}
	if answer := l.Answers[field.Key()].Value; answer != nil {
		return literal(answer)
	}
	return nil
}

// View are the shown fields of a counter's document as its ledger has them.
func (db *DB) View(l *ledger.Ledger) map[string]*firestorepb.Value {
	fields := make(map[string]*firestorepb.Value, len(db.Fields)+len(db.Counted))
	for _, field := range db.Shown() {
		if value := ShownAs(field, l); value != nil {
			fields[field.Name] = value
		}
	}
	return fields
}

// Show is the write that sets the shown fields of a counter's document to what its ledger has. It
// is for commits on the ledger's condition, or that make it: every commit that changes a total for
// a reason changes the ledger too. Increments would leave a total wrong that has come to the end of
// an int64.
func (db *DB) Show(counter string, condition *firestorepb.Precondition, l *ledger.Ledger) *firestorepb.Write {
	return Update(db.Counter(counter), condition, db.View(l), nil, ServerTime(db.OwnPath(layout.UpdatedAt)))
}

// Shows reports whether the shown fields of a counter's document are what its ledger has.
func (db *DB) Shows(counter *firestorepb.Document, l *ledger.Ledger) bool {
	for name, value := range db.View(l) {
		if !proto.Equal(counter.GetFields()[name], value) { // of which NaN equals itself
			return false
		}
	}
	return true
}
