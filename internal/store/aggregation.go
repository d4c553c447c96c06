package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	apiv1 "cloud.google.com/go/firestore/apiv1"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/layout"
)

// SumNumbers adds up a field of a collection's documents on the server, and says of how many numbers, and as of when:
// at a time, or now where that is zero. It costs a read per 1,000 documents. It skips documents without a number there.
// The sum is a double if a summand is, or if it is beyond the int64s.
func (db *DB) SumNumbers(ctx context.Context, collection, field string, at time.Time) (sum *firestorepb.Value, numbers int64, read time.Time, err error) {
	return db.SumFrom(ctx, collection, field, Double(math.Inf(-1)), at)
}

// SumFrom is [DB.SumNumbers] of the documents whose number is at least least. It doesn't scan over dead index entries
// at lesser numbers.
func (db *DB) SumFrom(ctx context.Context, collection, field string, least *firestorepb.Value, at time.Time) (sum *firestorepb.Value, numbers int64, read time.Time, err error) {
	path := layout.FieldPath(field)
	from := where(path, firestorepb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL, least) // values of one type only
	values, read, err := aggregation{collection: collection, where: from, at: at}.ask(ctx, db, count(), sumOf(path))
	return values[1], values[0].GetIntegerValue(), read, err
}

// Count is the number of a collection's documents at a time, or of those that have a field, whatever it holds. It
// costs as much as [DB.SumNumbers].
func (db *DB) Count(ctx context.Context, collection, field string, at time.Time) (int64, error) {
	values, _, err := aggregation{collection: collection, has: field, at: at}.ask(ctx, db, count())
	return values[0].GetIntegerValue(), err
}

// Aggregated is the answer of an aggregation query.
type Aggregated struct {
	// Value is a double if not all summands are integers, if the sum is beyond the int64s, and for an
	// average. An average of nothing is null.
	Value     *firestorepb.Value
	Documents int64     // that match; for a sum, those that have the field
	At        time.Time // the query's read time
}

// Reads is how many reads the query is billed as: one per 1,000 documents, and at least one.
func (a Aggregated) Reads() int64 { return max(1, (a.Documents+999)/1000) }

// Aggregate asks the query of a counter's field, at a time; the zero time is now. If no answer comes,
// it asks once more. It returns errors at once.
func (db *DB) Aggregate(ctx context.Context, counter string, a *layout.Aggregation, at time.Time) (Aggregated, error) {
	q := aggregation{collection: db.CollectionOf(counter, a), group: a.From == layout.Group, where: db.conditions(counter, a), at: at, errs: true}
	of := []*firestorepb.StructuredAggregationQuery_Aggregation{count()}
	switch { // with a sum, count() counts the index entries that the sum reads
	case a.Average:
		of = append(of, &firestorepb.StructuredAggregationQuery_Aggregation{Operator: &firestorepb.StructuredAggregationQuery_Aggregation_Avg_{
			Avg: &firestorepb.StructuredAggregationQuery_Aggregation_Avg{Field: &firestorepb.StructuredQuery_FieldReference{FieldPath: layout.Dotted(a.Sum)}},
		}})
	case a.Sum != "":
		of = append(of, sumOf(layout.Dotted(a.Sum)))
	}
	values, at, err := q.ask(ctx, db, of...)
	return Aggregated{Value: values[len(values)-1], Documents: values[0].GetIntegerValue(), At: at}, err
}

// aggregation is a query that counts or adds up documents of a collection.
type aggregation struct {
	collection string
	group      bool   // all collections of that id
	has        string // a field that documents have; empty if they need none
	where      *firestorepb.StructuredQuery_Filter
	at         time.Time
	// errs returns an error at once: a query that takes too long shall not look like one that fails.
	errs bool
}

// scannedAtOnce is how many shards a read of a ceiling scans at most. It is priced so: Enterprise edition scans all of
// a counter's, of which there may be 1,000.
const scannedAtOnce = 100

// units are the reads of a ceiling that the query takes, of so many documents.
func (q aggregation) units(db *DB, documents int64) float64 {
	if _, id := split(q.collection); id == db.Layout.Shards && !q.group {
		return math.Ceil(max(1, float64(documents)/scannedAtOnce))
	}
	return float64(Aggregated{Documents: documents}.Reads())
}

func sumOf(field string) *firestorepb.StructuredAggregationQuery_Aggregation {
	return &firestorepb.StructuredAggregationQuery_Aggregation{Operator: &firestorepb.StructuredAggregationQuery_Aggregation_Sum_{
		Sum: &firestorepb.StructuredAggregationQuery_Aggregation_Sum{Field: &firestorepb.StructuredQuery_FieldReference{FieldPath: field}},
	}}
}

func count() *firestorepb.StructuredAggregationQuery_Aggregation {
	return &firestorepb.StructuredAggregationQuery_Aggregation{Operator: &firestorepb.StructuredAggregationQuery_Aggregation_Count_{
		Count: &firestorepb.StructuredAggregationQuery_Aggregation_Count{},
	}}
}

// ask returns the results of the aggregations, of which the first is a count, in their order, and the read time. The
// sum of nothing is 0: Firestore's Enterprise edition says null.
func (q aggregation) ask(ctx context.Context, db *DB, of ...*firestorepb.StructuredAggregationQuery_Aggregation) ([]*firestorepb.Value, time.Time, error) {
	for i, a := range of {
		a.Alias = fmt.Sprintf("a%d", i)
	}
	parent, id := split(q.collection)
	req := &firestorepb.RunAggregationQueryRequest{
		Parent: parent,
		QueryType: &firestorepb.RunAggregationQueryRequest_StructuredAggregationQuery{StructuredAggregationQuery: &firestorepb.StructuredAggregationQuery{
			QueryType: &firestorepb.StructuredAggregationQuery_StructuredQuery{StructuredQuery: &firestorepb.StructuredQuery{
				From:  []*firestorepb.StructuredQuery_CollectionSelector{{CollectionId: id, AllDescendants: q.group}},
				Where: q.where,
			}},
			Aggregations: of,
		}},
	}
	if !q.at.IsZero() {
		req.ConsistencySelector = &firestorepb.RunAggregationQueryRequest_ReadTime{ReadTime: timestamppb.New(q.at)}
	}
	if q.has != "" {
		req.GetStructuredAggregationQuery().GetStructuredQuery().OrderBy = []*firestorepb.StructuredQuery_Order{
			{Field: &firestorepb.StructuredQuery_FieldReference{FieldPath: layout.FieldPath(q.has)}, Direction: firestorepb.StructuredQuery_ASCENDING},
		}
	}
	values := make([]*firestorepb.Value, len(of))
	var read time.Time
	ask := func(ctx context.Context, api *apiv1.Client) error {
		stream, err := api.RunAggregationQuery(db.outgoing(ctx), req)
		if err != nil {
			return err
		}
		return receive(stream.Recv, func(resp *firestorepb.RunAggregationQueryResponse) {
			read = resp.GetReadTime().AsTime()
			for i, a := range of {
				v := resp.GetResult().GetAggregateFields()[a.Alias]
				if _, null := v.GetValueType().(*firestorepb.Value_NullValue); null && a.GetSum() != nil {
					v = Int(0)
				}
				if v != nil {
					values[i] = v
				}
			}
		})
	}
	var err error
	if q.errs {
		err = db.api.twice(ctx, ask)
	} else {
		err = db.api.read(ctx, ask)
	}
	if err == nil {
		db.clock.saw(read)
	}
	db.Budget.Spend(ceiling.Reads, q.units(db, values[0].GetIntegerValue()))
	if err == nil && slices.Contains(values, nil) {
		err = errors.New("the aggregation has no result")
	}
	return values, read, err
}

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
	filters := make([]*firestorepb.StructuredQuery_Filter, len(a.Where))
	for i, f := range a.Where {
		op, values := operatorOf[f.Op], db.Alternatives(counter, a, f)
		value := values[0]
		if len(values) > 1 {
			op, value = firestorepb.StructuredQuery_FieldFilter_IN, Array(values...)
		}
		filters[i] = where(layout.Dotted(f.Field), op, value)
	}
	return all(filters)
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
// counter, the values of an in, or the one value. [CounterIn] reads the same names from a document: what changes here
// changes there.
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
