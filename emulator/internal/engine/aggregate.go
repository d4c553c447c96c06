package engine

import (
	"context"
	"fmt"
	"math/big"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	maxAggregations = 5
	// entriesPerRead is how many index entries an aggregation counts for the price of one read.
	entriesPerRead = 1000
)

// aggregation is one checked count, sum or average.
type aggregation struct {
	alias string
	upTo  int64     // of a count; 0: no limit
	path  fieldPath // of a sum or an average
	avg   bool
}

// RunAggregation counts, sums and averages over the results of a query.
func (e *Engine) RunAggregation(ctx context.Context, req *pb.RunAggregationQueryRequest, send func(*pb.RunAggregationQueryResponse) error) error {
	if req.GetExplainOptions() != nil {
		return status.Error(codes.Unimplemented, "Query explain isn't covered.")
	}
	db, err := e.databaseFor(req.GetParent())
	if err != nil {
		return err
	}
	in := req.GetStructuredAggregationQuery()
	q, err := parseQuery(db.name, req.GetParent(), in.GetStructuredQuery())
	if err != nil {
		return err
	}
	aggs, err := parseAggregations(in.GetAggregations())
	if err != nil {
		return err
	}
	c := consistency{transaction: req.GetTransaction(), begin: req.GetNewTransaction(), readTime: req.GetReadTime()}
	docs, skipped, m, err := db.results(ctx, q, c)
	if err != nil {
		return err
	}
	e.stats.reads.Add(max(1, int64(len(docs)+skipped+entriesPerRead-1)/entriesPerRead))
	return send(&pb.RunAggregationQueryResponse{
		Transaction: m.transaction,
		ReadTime:    timestamp(m.at),
		Result:      &pb.AggregationResult{AggregateFields: aggregate(aggs, docs)},
	})
}

func parseAggregations(in []*pb.StructuredAggregationQuery_Aggregation) ([]aggregation, error) {
	if len(in) == 0 || len(in) > maxAggregations {
		return nil, invalid("An aggregation query takes 1 to %d aggregations, not %d.", maxAggregations, len(in))
	}
	out := make([]aggregation, len(in))
	aliases := make(map[string]bool)
	unnamed := 0
	for i, a := range in {
		agg := &out[i]
		var err error
		switch op := a.GetOperator().(type) {
		case *pb.StructuredAggregationQuery_Aggregation_Count_:
			if n := op.Count.GetUpTo(); n != nil {
				if agg.upTo = n.Value; agg.upTo <= 0 {
					err = invalid("up_to of a count must be positive.")
				}
			}
		case *pb.StructuredAggregationQuery_Aggregation_Sum_:
			agg.path, err = parseFieldPath(op.Sum.GetField().GetFieldPath())
		case *pb.StructuredAggregationQuery_Aggregation_Avg_:
			agg.avg = true
			agg.path, err = parseFieldPath(op.Avg.GetField().GetFieldPath())
		default:
			err = invalid("An aggregation has no operator.")
		}
		if err == nil && len(agg.path) > 0 && agg.path.isName() {
			err = invalid("Aggregations of __name__ aren't supported.")
		}
		if err != nil {
			return nil, err
		}
		if agg.alias = a.GetAlias(); agg.alias == "" {
			unnamed++
			agg.alias = fmt.Sprintf("field_%d", unnamed)
		}
		if err := checkFieldName(agg.alias); err != nil {
			return nil, err
		}
		if aliases[agg.alias] {
			return nil, invalid("Two aggregations have the alias %q.", agg.alias)
		}
		aliases[agg.alias] = true
	}
	return out, nil
}

// aggregate counts only documents that have all fields that are summed or averaged, as production does: they are the
// ones in its index.
func aggregate(aggs []aggregation, docs []*pb.Document) map[string]*pb.Value {
	count := int64(0)
	sums := make([]sum, len(aggs))
next:
	for _, doc := range docs {
		for i := range aggs {
			if p := aggs[i].path; p != nil && fieldOf(doc, p) == nil {
				continue next
			}
		}
		count++
		for i := range aggs {
			if p := aggs[i].path; p != nil {
				sums[i].add(fieldOf(doc, p))
			}
		}
	}
	out := make(map[string]*pb.Value, len(aggs))
	for i, a := range aggs {
		switch {
		case a.path == nil && a.upTo > 0:
			out[a.alias] = intValue(min(count, a.upTo))
		case a.path == nil:
			out[a.alias] = intValue(count)
		case a.avg:
			out[a.alias] = sums[i].average()
		default:
			out[a.alias] = sums[i].total()
		}
	}
	return out
}

// sum adds numbers, and ignores all else. Integers are added exactly; a double among them makes the sum a double, and
// so does a sum of integers that no int64 holds.
type sum struct {
	n       int
	ints    big.Int
	doubles float64
	double  bool
}

func (s *sum) add(v *pb.Value) {
	switch t := v.GetValueType().(type) {
	case *pb.Value_IntegerValue:
		s.n++
		s.ints.Add(&s.ints, big.NewInt(t.IntegerValue))
	case *pb.Value_DoubleValue:
		s.n++
		s.double = true
		s.doubles += t.DoubleValue
	}
}

func (s *sum) float() float64 {
	f, _ := new(big.Float).SetInt(&s.ints).Float64()
	return f + s.doubles
}

func (s *sum) total() *pb.Value {
	if !s.double && s.ints.IsInt64() {
		return intValue(s.ints.Int64())
	}
	return doubleValue(s.float())
}

func (s *sum) average() *pb.Value {
	if s.n == 0 {
		return nullValue()
	}
	return doubleValue(s.float() / float64(s.n))
}
