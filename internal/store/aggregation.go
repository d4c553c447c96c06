package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	apiv1 "cloud.google.com/go/firestore/apiv1"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/internal/layout"
)

// Sum adds up a field of a collection's documents on the server, as of a time; the zero time is
// now. It costs a read, and one more per 1,000 documents. Documents where the field is missing,
// or is not a number, count nothing. A double among the summands, and a sum beyond an int64, make
// the sum a double.
func (db *DB) Sum(ctx context.Context, collection, field string, at time.Time) (*firestorepb.Value, error) {
	sum, _, err := aggregation{collection: collection, at: at}.ask(ctx, db, sumOf(layout.FieldPath(field)))
	return sum[0], err
}

// SumNumbers is [DB.Sum] that also tells how many documents hold a number in the field, for
// the same price.
func (db *DB) SumNumbers(ctx context.Context, collection, field string, at time.Time) (sum *firestorepb.Value, numbers int64, err error) {
	path := layout.FieldPath(field)
	// a range holds values of one type only
	all := where(path, firestorepb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL, Double(math.Inf(-1)))
	values, _, err := aggregation{collection: collection, where: all, at: at}.ask(ctx, db, sumOf(path), count())
	return values[0], values[1].GetIntegerValue(), err
}

// Count tells how many documents a collection has, as of a time. It costs what [DB.Sum] does.
func (db *DB) Count(ctx context.Context, collection string, at time.Time) (int64, error) {
	values, _, err := aggregation{collection: collection, at: at}.ask(ctx, db, count())
	return values[0].GetIntegerValue(), err
}

// Aggregated is what an aggregation query has said.
type Aggregated struct {
	// a double where not all summands are integers, or the sum is beyond an int64, and as an
	// average, which is null of none
	Value     *firestorepb.Value
	Documents int64     // that match; of a sum, those that have the field
	At        time.Time // the query's read time
}

// Reads is what the query was billed as: one read per 1,000 documents, and at least one.
func (a Aggregated) Reads() int64 { return max(1, (a.Documents+999)/1000) }

// Aggregate asks what documents come to for a counter, as of a time; the zero time is now.
// Several sums take one query each: together they would only see the documents that have all the
// fields. It is asked again only where there is no answer: its errors come at once.
func (db *DB) Aggregate(ctx context.Context, counter string, a *layout.Aggregation, at time.Time) (Aggregated, error) {
	q := aggregation{collection: db.CollectionOf(counter, a), group: a.From == layout.Group, where: db.conditions(counter, a), at: at, errs: true}
	of := []*firestorepb.StructuredAggregationQuery_Aggregation{count()}
	switch { // the count is then of the index entries that it reads
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

// aggregation is a query for what documents of a collection come to.
type aggregation struct {
	collection string
	group      bool // all collections of that id
	where      *firestorepb.StructuredQuery_Filter
	at         time.Time
	// An error comes at once: asked until ctx ends, what takes too long could not be told from what
	// fails.
	errs bool
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

// ask returns what the aggregations come to, in their order, and the read time.
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
				if v := resp.GetResult().GetAggregateFields()[a.Alias]; v != nil {
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
	if err == nil && slices.Contains(values, nil) {
		err = errors.New("the aggregation has no result")
	}
	return values, read, err
}
