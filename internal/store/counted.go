package store

import (
	"fmt"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
)

// CollectionOf is the resource name of the collection whose documents are counted for a counter. For a
// group of collections it is the one at the root.
func (db *DB) CollectionOf(counter string, a *layout.Aggregation) string {
	if a.From == layout.Below {
		return db.Layout.Counter(counter) + "/" + a.Collection
	}
	return db.Layout.Document(a.Collection)
}

// conditions are those of an aggregation for a counter; nil if there are none.
func (db *DB) conditions(counter string, a *layout.Aggregation) *firestorepb.StructuredQuery_Filter {
	if len(a.Where) == 0 {
		return nil
	}
	filters := make([]*firestorepb.StructuredQuery_Filter, len(a.Where))
	for i, f := range a.Where {
		op, values := operatorOf[f.Op], db.Alternatives(counter, a, f)
		value := values[0]
		if len(values) > 1 {
			op, value = firestorepb.StructuredQuery_FieldFilter_IN, Array(values...)
		}
		filters[i] = where(layout.Dotted(f.Field), op, value)
	}
	return &firestorepb.StructuredQuery_Filter{FilterType: &firestorepb.StructuredQuery_Filter_CompositeFilter{
		CompositeFilter: &firestorepb.StructuredQuery_CompositeFilter{Op: firestorepb.StructuredQuery_CompositeFilter_AND, Filters: filters},
	}}
}

var operatorOf = map[layout.Operator]firestorepb.StructuredQuery_FieldFilter_Operator{
	layout.Equal:   firestorepb.StructuredQuery_FieldFilter_EQUAL,
	layout.In:      firestorepb.StructuredQuery_FieldFilter_EQUAL, // with one value
	layout.AtLeast: firestorepb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL,
	layout.AtMost:  firestorepb.StructuredQuery_FieldFilter_LESS_THAN_OR_EQUAL,
	layout.Above:   firestorepb.StructuredQuery_FieldFilter_GREATER_THAN,
	layout.Less:    firestorepb.StructuredQuery_FieldFilter_LESS_THAN,
}

// Alternatives are the values that a filter compares a counter's documents with: all ways to name the
// counter, the values of an in, or the one value.
func (db *DB) Alternatives(counter string, a *layout.Aggregation, f layout.Filter) []*firestorepb.Value {
	switch value := f.Value.(type) {
	case layout.Wildcard:
		id, path := db.Layout.Refer(counter, value, a.References())
		ways := []*firestorepb.Value{String(path), {ValueType: &firestorepb.Value_ReferenceValue{ReferenceValue: db.Layout.Document(path)}}}
		if id != "" {
			ways = append(ways, String(id))
		}
		return ways
	case []any:
		values := make([]*firestorepb.Value, len(value))
		for i, v := range value {
			values[i] = literal(v)
		}
		return values
	}
	return []*firestorepb.Value{literal(f.Value)}
}

// CounterIn is the counter that a document names in the fields of the references, as a text or as a
// reference. It reports false if the document names none, or is nil.
func CounterIn(names layout.Layout, doc *firestorepb.Document, references []layout.Filter) (counter string, ok bool) {
	return names.CounterOf(references, func(path string) (string, bool) {
		switch v := ValueAt(doc.GetFields(), path).GetValueType().(type) {
		case *firestorepb.Value_StringValue:
			return v.StringValue, true
		case *firestorepb.Value_ReferenceValue:
			return strings.CutPrefix(v.ReferenceValue, names.Document(""))
		}
		return "", false
	})
}

// ValueAt is a document's value at a path such as by.stars.
func ValueAt(fields map[string]*firestorepb.Value, path string) *firestorepb.Value {
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		fields = fields[name].GetMapValue().GetFields()
	}
	return fields[names[len(names)-1]]
}

// literal is a value of FIELDS as a Firestore value.
func literal(value any) *firestorepb.Value {
	switch value := value.(type) {
	case bool:
		return Bool(value)
	case int64:
		return Int(value)
	case string:
		return String(value)
	case float64:
		return Double(value)
	}
	panic(fmt.Sprintf("a value is a %T", value))
}
