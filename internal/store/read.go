package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	apiv1 "cloud.google.com/go/firestore/apiv1"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/iterator"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/firestore-counters/counters/internal/ceiling"
	"github.com/firestore-counters/counters/internal/layout"
)

// Query asks for the documents of a collection, in the order of their ids, or of a time.
type Query struct {
	Collection string    // resource name, as of [Layout]
	Group      bool      // all collections of that id, however deep below the same parent
	After      string    // resource name of a document: only those after it
	Limit      int       // at most this many; 0 is all
	At         time.Time // as they were at this time, within the last hour; the zero time is now
	Names      bool      // only their names, without fields
	Fields     []string  // only the fields at these paths; none is all
	Member     string    // only memberships of this member
	By         string    // the path of a field; only documents that have it, in its order
	// Only those in which By is so much at least, and at most; nil is no bound.
	Least, Most *firestorepb.Value
	Before      string // resource name of a document: only those before it
}

// Get reads the named documents, in the order of the names, all at the time that it returns. A missing
// one is nil.
func (r reader) Get(ctx context.Context, names ...string) ([]*firestorepb.Document, time.Time, error) {
	return r.GetPaths(ctx, nil, names...)
}

// GetPaths is [DB.Get] of only the fields at these paths; nil is all.
func (r reader) GetPaths(ctx context.Context, paths []string, names ...string) ([]*firestorepb.Document, time.Time, error) {
	var readTime time.Time
	docs := make([]*firestorepb.Document, len(names))
	if len(names) == 0 {
		return docs, readTime, nil
	}
	req := &firestorepb.BatchGetDocumentsRequest{Database: r.db.Layout.Database, Documents: names}
	if paths != nil {
		req.Mask = &firestorepb.DocumentMask{FieldPaths: paths}
	}
	if r.transaction != nil {
		req.ConsistencySelector = &firestorepb.BatchGetDocumentsRequest_Transaction{Transaction: r.transaction}
	}
	r.db.Budget.Spend(ceiling.Reads, float64(len(names))-r.promised) // before others count on them
	found, times := make(map[string]*firestorepb.Document, len(names)), 0.0
	err := r.db.api.read(ctx, billed(&times, func(ctx context.Context, api *apiv1.Client) error {
		clear(found)
		stream, err := api.BatchGetDocuments(r.db.outgoing(ctx), req)
		if err != nil {
			return err
		}
		return receive(stream.Recv, func(resp *firestorepb.BatchGetDocumentsResponse) {
			readTime = resp.GetReadTime().AsTime()
			if doc := resp.GetFound(); doc != nil {
				found[doc.GetName()] = r.came(doc)
			}
		})
	}))
	r.db.Budget.Spend(ceiling.Reads, (times-1)*float64(len(names)))
	if err != nil {
		return nil, readTime, err
	}
	r.db.clock.saw(readTime)
	for i, name := range names {
		docs[i] = found[name]
	}
	return docs, readTime, nil
}

// Documents reads the documents that a query asks for. A transaction ignores At.
func (r reader) Documents(ctx context.Context, q Query) ([]*firestorepb.Document, error) {
	docs, _, err := r.DocumentsAsOf(ctx, q)
	return docs, err
}

// All yields all documents that a query asks for, of which Limit is how many are read at a time. It ends with the first
// error.
func (r reader) All(ctx context.Context, q Query) iter.Seq2[*firestorepb.Document, error] {
	return func(yield func(*firestorepb.Document, error) bool) {
		for more := true; more; {
			docs, err := r.Documents(ctx, q)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, doc := range docs {
				if q.After = doc.GetName(); !yield(doc, nil) {
					return
				}
			}
			more = len(docs) == q.Limit
		}
	}
}

// DocumentsAsOf is [DB.Documents] that also says as of when.
func (r reader) DocumentsAsOf(ctx context.Context, q Query) (docs []*firestorepb.Document, read time.Time, err error) {
	parent, collection := split(q.Collection)
	query := &firestorepb.StructuredQuery{
		From:    []*firestorepb.StructuredQuery_CollectionSelector{{CollectionId: collection, AllDescendants: q.Group}},
		OrderBy: by(cmp.Or(q.By, firestore.DocumentID)),
	}
	var filters []*firestorepb.StructuredQuery_Filter
	if q.Least != nil {
		filters = append(filters, where(q.By, firestorepb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL, q.Least))
	}
	if q.Most != nil {
		filters = append(filters, where(q.By, firestorepb.StructuredQuery_FieldFilter_LESS_THAN_OR_EQUAL, q.Most))
	}
	if q.Member != "" {
		filters = append(filters, where("member", firestorepb.StructuredQuery_FieldFilter_EQUAL, String(q.Member)))
	}
	query.Where = all(filters)
	if q.Before != "" {
		query.EndAt = &firestorepb.Cursor{Values: []*firestorepb.Value{{ValueType: &firestorepb.Value_ReferenceValue{ReferenceValue: q.Before}}}, Before: true}
	}
	if q.After != "" {
		query.StartAt = &firestorepb.Cursor{Values: []*firestorepb.Value{{ValueType: &firestorepb.Value_ReferenceValue{ReferenceValue: q.After}}}}
	}
	if q.Names {
		q.Fields = []string{firestore.DocumentID}
	}
	for _, path := range q.Fields {
		if query.Select == nil {
			query.Select = &firestorepb.StructuredQuery_Projection{}
		}
		query.Select.Fields = append(query.Select.Fields, fieldAt(path))
	}
	if q.Limit > 0 {
		query.Limit = wrapperspb.Int32(int32(q.Limit))
	}
	req := &firestorepb.RunQueryRequest{Parent: parent, QueryType: &firestorepb.RunQueryRequest_StructuredQuery{StructuredQuery: query}}
	switch {
	case r.transaction != nil:
		req.ConsistencySelector = &firestorepb.RunQueryRequest_Transaction{Transaction: r.transaction}
	case !q.At.IsZero():
		req.ConsistencySelector = &firestorepb.RunQueryRequest_ReadTime{ReadTime: timestamppb.New(q.At)}
	}
	times := 0.0
	err = r.db.api.read(ctx, billed(&times, func(ctx context.Context, api *apiv1.Client) error {
		docs = nil
		stream, err := api.RunQuery(r.db.outgoing(ctx), req)
		if err != nil {
			return err
		}
		return receive(stream.Recv, func(resp *firestorepb.RunQueryResponse) {
			if at := resp.GetReadTime(); at != nil {
				read = at.AsTime()
				r.db.clock.saw(read)
			}
			if doc := resp.GetDocument(); doc != nil {
				docs = append(docs, r.came(doc))
			}
		})
	}))
	r.db.Budget.Spend(ceiling.Reads, times*float64(max(1, len(docs))))
	if err != nil {
		return nil, read, err
	}
	return docs, read, nil
}

// all is the condition that each of some holds; nil if there are none.
func all(filters []*firestorepb.StructuredQuery_Filter) *firestorepb.StructuredQuery_Filter {
	switch len(filters) {
	case 0:
		return nil
	case 1:
		return filters[0]
	}
	return &firestorepb.StructuredQuery_Filter{FilterType: &firestorepb.StructuredQuery_Filter_CompositeFilter{
		CompositeFilter: &firestorepb.StructuredQuery_CompositeFilter{Op: firestorepb.StructuredQuery_CompositeFilter_AND, Filters: filters},
	}}
}

// where is the condition on one field.
func where(path string, op firestorepb.StructuredQuery_FieldFilter_Operator, value *firestorepb.Value) *firestorepb.StructuredQuery_Filter {
	return &firestorepb.StructuredQuery_Filter{FilterType: &firestorepb.StructuredQuery_Filter_FieldFilter{
		FieldFilter: &firestorepb.StructuredQuery_FieldFilter{Field: fieldAt(path), Op: op, Value: value},
	}}
}

// by is the order of one field, of documents that have it.
func by(path string) []*firestorepb.StructuredQuery_Order {
	return []*firestorepb.StructuredQuery_Order{{Field: fieldAt(path), Direction: firestorepb.StructuredQuery_ASCENDING}}
}

func fieldAt(path string) *firestorepb.StructuredQuery_FieldReference {
	return &firestorepb.StructuredQuery_FieldReference{FieldPath: path}
}

// List lists the ids of a page of counters. A page may be empty although others follow. The first page
// has an empty token, and the last returns an empty next.
//
// If all counters are in one collection, List includes those without a document: a snippet may have
// made only shards. If they aren't, or if the documents are the app's own, most of which may count
// nothing, it finds counters by their bases, and misses those without one.
func (db *DB) List(ctx context.Context, size int, token string) (ids []string, next string, err error) {
	if db.Layout.Path.Whole() { // reading the counter tells whether it exists
		path := db.Layout.Path.String()
		id, _ := db.Layout.Path.ID(path)
		return []string{id}, "", nil
	}
	if db.Layout.ByBases() {
		return db.listBases(ctx, size, token)
	}
	docs, next, err := db.listDocuments(ctx, size, token)
	for _, doc := range docs {
		ids = append(ids, IDOf(doc.GetName()))
	}
	return ids, next, err
}

// IDs yields the ids of all counters, as [DB.List] finds them, by pages of a size. It ends with the first error.
func (db *DB) IDs(ctx context.Context, size int) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for token := ""; ; {
			ids, next, err := db.List(ctx, size, token)
			if err != nil {
				yield("", fmt.Errorf("list counters: %w", err))
				return
			}
			for _, id := range ids {
				if !yield(id, nil) {
					return
				}
			}
			if token = next; token == "" {
				return
			}
		}
	}
}

// listDocuments reads a page of the counters' collection, without fields.
func (db *DB) listDocuments(ctx context.Context, size int, token string) (docs []*firestorepb.Document, next string, err error) {
	parent, id := split(db.Layout.Counters())
	times := 0.0
	err = db.api.read(ctx, billed(&times, func(ctx context.Context, api *apiv1.Client) (err error) {
		it := api.ListDocuments(db.outgoing(ctx), &firestorepb.ListDocumentsRequest{
			Parent:       parent,
			CollectionId: id,
			Mask:         &firestorepb.DocumentMask{}, // no fields
			ShowMissing:  true,
		})
		docs = nil
		next, err = iterator.NewPager(it, size, token).NextPage(&docs)
		return err
	}))
	db.Budget.Spend(ceiling.Reads, times*float64(max(1, len(docs))))
	return docs, next, err
}

// listBases is List by bases. Its token is the name of the last one. It reads only names: other
// deployments' bases are in the same collection group.
func (db *DB) listBases(ctx context.Context, size int, token string) (ids []string, next string, err error) {
	docs, err := db.Documents(ctx, Query{Collection: db.Layout.Document(layout.Rollup), Group: true, Names: true, Limit: size, After: token})
	if err != nil {
		return nil, "", err
	}
	for _, doc := range docs {
		if id, ok := db.Layout.ParseBase(doc.GetName()); ok {
			ids = append(ids, id)
		}
	}
	if len(docs) == size {
		next = docs[size-1].GetName()
	}
	return ids, next, nil
}

// Listed is a counter of a page, and when its document was made and last changed: zero where there is none.
type Listed struct {
	ID            string
	Made, Changed time.Time
}

// ListTimes is [DB.List] with the times of the counters' documents. Where it finds counters by their bases it takes one
// more read for each.
func (db *DB) ListTimes(ctx context.Context, size int, token string) (counters []Listed, next string, err error) {
	var docs []*firestorepb.Document
	var ids, names []string
	if db.Layout.Path.Whole() || db.Layout.ByBases() {
		ids, next, err = db.List(ctx, size, token)
		for _, id := range ids {
			names = append(names, db.Layout.Counter(id))
		}
		if err == nil {
			docs, _, err = db.GetPaths(ctx, []string{}, names...)
		}
	} else {
		docs, next, err = db.listDocuments(ctx, size, token)
		for _, doc := range docs {
			ids = append(ids, IDOf(doc.GetName()))
		}
	}
	for i, doc := range docs {
		counters = append(counters, Listed{ID: ids[i]})
		if doc.GetUpdateTime() != nil { // a missing one has none
			counters[i].Made, counters[i].Changed = doc.GetCreateTime().AsTime(), doc.GetUpdateTime().AsTime()
		}
	}
	return counters, next, err
}

// Watch yields a document, nil while it doesn't exist, and yields it again after every change, until ctx
// or the loop ends. Quick changes may come as one. The document has only fields of simple types:
// numbers, strings, booleans, times and maps of these. Watch ends with an error of the client library,
// or without one when ctx ends.
func (db *DB) Watch(ctx context.Context, name string) iter.Seq2[*firestorepb.Document, error] {
	return func(yield func(*firestorepb.Document, error) bool) {
		client, err := db.watching()
		if err != nil {
			yield(nil, fmt.Errorf("open Firestore: %w", err))
			return
		}
		changes := client.Doc(strings.TrimPrefix(name, db.Layout.Database+"/documents/")).Snapshots(ctx)
		defer changes.Stop()
		for {
			snap, err := changes.Next()
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				yield(nil, err)
				return
			case !snap.Exists():
				if !yield(nil, nil) {
					return
				}
			case !yield(&firestorepb.Document{
				Name: snap.Ref.Path, Fields: watched(snap.Data()),
				CreateTime: timestamppb.New(snap.CreateTime), UpdateTime: timestamppb.New(snap.UpdateTime),
			}, nil):
				return
			}
		}
	}
}

// watched are the fields of the types that [DB.Watch] yields.
func watched(data map[string]any) map[string]*firestorepb.Value {
	fields := simpleValues(data)
	for name, value := range data {
		if within, is := value.(map[string]any); is {
			fields[name] = Map(simpleValues(within))
		}
	}
	return fields
}

// simpleValues are those of them that are no maps.
func simpleValues(data map[string]any) map[string]*firestorepb.Value {
	fields := make(map[string]*firestorepb.Value, len(data))
	for name, value := range data {
		switch value := value.(type) {
		case int64:
			fields[name] = Int(value)
		case float64:
			fields[name] = Double(value)
		case string:
			fields[name] = String(value)
		case bool:
			fields[name] = Bool(value)
		case time.Time:
			fields[name] = Time(value)
		}
	}
	return fields
}

// receive reads a stream to its end: an abandoned one stays open until its context ends.
func receive[T any](recv func() (T, error), each func(T)) error {
	for {
		message, err := recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		each(message)
	}
}

// IDOf is the id of the document of that resource name.
func IDOf(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// split returns the parent of a collection, and its id.
func split(collection string) (parent, id string) {
	at := strings.LastIndexByte(collection, '/')
	return collection[:at], collection[at+1:]
}

// Sum adds up a field of a collection's documents on the server, and says of how many numbers, and as of when: at a
// time, or now where that is zero. It costs a read per 1,000 documents. It skips documents without a number there, and
// where least isn't nil those whose number is less: dead index entries at lesser numbers aren't scanned then. The sum
// is a double if a summand is, or if it is beyond the int64s.
func (db *DB) Sum(ctx context.Context, collection, field string, least *int64, at time.Time) (sum *firestorepb.Value, numbers int64, read time.Time, err error) {
	path := layout.FieldPath(field)
	from := Double(math.Inf(-1)) // numbers alone
	if least != nil {
		from = Int(*least)
	}
	values, read, err := aggregation{collection: collection, where: where(path, firestorepb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL, from), at: at}.ask(ctx, db, count(), sumOf(path))
	return values[1], values[0].GetIntegerValue(), read, err
}

// Count is the number of a collection's documents at a time, or of those that have a field, whatever it holds. It
// costs as much as [DB.Sum].
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
			Avg: &firestorepb.StructuredAggregationQuery_Aggregation_Avg{Field: fieldAt(layout.Dotted(a.Sum))},
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

// A read of a ceiling scans at most so many shards, and bytes of them. It is priced so: Enterprise edition scans all of
// a counter's, of which there may be 1,000, with long ids and many fields.
const scannedAtOnce, scannedBytes = 100, 16 << 10

// units are the reads of a ceiling that the query takes, of so many documents.
func (q aggregation) units(db *DB, documents int64) float64 {
	if _, id := split(q.collection); id == db.Layout.Shards && !q.group {
		shard := 32 + len(q.collection) // a name, and numbers
		for _, field := range db.Layout.Sharded {
			shard += len(field.Shard) + 9
		}
		return math.Ceil(max(1, float64(documents)/scannedAtOnce, float64(documents)*float64(shard)/scannedBytes))
	}
	return float64(Aggregated{Documents: documents}.Reads())
}

func sumOf(field string) *firestorepb.StructuredAggregationQuery_Aggregation {
	return &firestorepb.StructuredAggregationQuery_Aggregation{Operator: &firestorepb.StructuredAggregationQuery_Aggregation_Sum_{
		Sum: &firestorepb.StructuredAggregationQuery_Aggregation_Sum{Field: fieldAt(field)},
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
		req.GetStructuredAggregationQuery().GetStructuredQuery().OrderBy = by(layout.FieldPath(q.has))
	}
	values := make([]*firestorepb.Value, len(of))
	var read time.Time
	times := 0.0
	ask := billed(&times, func(ctx context.Context, api *apiv1.Client) error {
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
	})
	var err error
	if q.errs {
		err = db.api.twice(ctx, ask)
	} else {
		err = db.api.read(ctx, ask)
	}
	if err == nil {
		db.clock.saw(read)
	}
	db.Budget.Spend(ceiling.Reads, times*q.units(db, values[0].GetIntegerValue()))
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
			values[i] = valueOf(v)
		}
		return values
	}
	return []*firestorepb.Value{valueOf(f.Value)}
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

// valueOf is a value of FIELDS as a Firestore value.
func valueOf(value any) *firestorepb.Value {
	switch value := value.(type) {
	case bool:
		return Bool(value)
	case int64:
		return Int(value)
	case string:
		return String(value)
	}
	panic(fmt.Sprintf("a value is a %T", value))
}
