package query

import (
	"fmt"
	"math"
	"math/big"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/emulator/internal/document"
)

const maxAggregations = 5

// Aggregation is one checked count, sum or average.
type Aggregation struct {
	alias string
	upTo  *int64        // of a count; nil: no limit
	Path  document.Path // of a sum or an average
	avg   bool
}

// ParseAggregations checks the counts, sums and averages of a request.
func ParseAggregations(in []*pb.StructuredAggregationQuery_Aggregation) ([]Aggregation, error) {
	switch {
	case len(in) == 0:
		return nil, invalid("Aggregations can not be empty.")
	case len(in) > maxAggregations:
		return nil, invalid("The maximum number of aggregations allowed in an aggregation query is %d. Received: %d", maxAggregations, len(in))
	}
	out := make([]Aggregation, len(in))
	aliases := make(map[string]bool)
	unnamed := 0
	for i, a := range in {
		agg := &out[i]
		var err error
		switch op := a.GetOperator().(type) {
		case *pb.StructuredAggregationQuery_Aggregation_Count_:
			if n := op.Count.GetUpTo(); n != nil {
				if agg.upTo = &n.Value; n.Value <= 0 {
					err = invalid("The `up_to` value in a COUNT aggregation must be greater than zero.")
				}
			}
		case *pb.StructuredAggregationQuery_Aggregation_Sum_:
			agg.Path, err = document.ParseFieldPath(op.Sum.GetField().GetFieldPath())
		case *pb.StructuredAggregationQuery_Aggregation_Avg_:
			agg.avg = true
			agg.Path, err = document.ParseFieldPath(op.Avg.GetField().GetFieldPath())
		default:
			err = invalid("Operator field in Aggregation is not set.")
		}
		if err == nil && len(agg.Path) > 0 && agg.Path.IsName() {
			err = invalid("Aggregations are not supported for the property: __key__")
		}
		if err != nil {
			return nil, err
		}
		if agg.alias = a.GetAlias(); agg.alias == "" {
			unnamed++
			agg.alias = fmt.Sprintf("field_%d", unnamed)
		}
		if err := document.CheckField(agg.alias); err != nil {
			return nil, err
		}
		if aliases[agg.alias] {
			return nil, invalid("Aggregation aliases contain duplicate alias: %s.", agg.alias)
		}
		aliases[agg.alias] = true
	}
	return out, nil
}

// Aggregate counts only documents that have all fields that are summed or averaged, as production
// does: they are the ones in its index. With scanned it goes by no index, as in Enterprise edition: each sum is of the
// documents that have its field, and of none it is null.
func Aggregate(aggs []Aggregation, docs []*pb.Document, scanned bool) map[string]*pb.Value {
	count := int64(0)
	sums := make([]sum, len(aggs))
next:
	for _, doc := range docs {
		for i := range aggs {
			if p := aggs[i].Path; p != nil && !scanned && FieldOf(doc, p) == nil {
				continue next
			}
		}
		count++
		for i := range aggs {
			if p := aggs[i].Path; p != nil {
				sums[i].add(FieldOf(doc, p))
			}
		}
	}
	out := make(map[string]*pb.Value, len(aggs))
	for i, a := range aggs {
		switch {
		case a.Path == nil && a.upTo != nil:
			out[a.alias] = document.Int(min(count, *a.upTo))
		case a.Path == nil:
			out[a.alias] = document.Int(count)
		case scanned && sums[i].n == 0:
			out[a.alias] = &pb.Value{ValueType: &pb.Value_NullValue{}}
		case a.avg:
			out[a.alias] = sums[i].average()
		default:
			out[a.alias] = sums[i].total()
		}
	}
	return out
}

// sum adds numbers, and ignores all else. All is added exactly; a double among the numbers makes
// the sum a double, and so does a sum of integers that is too large for an int64.
type sum struct {
	n       int
	ints    big.Int
	doubles *big.Float // those that are finite; nil: none
	special float64    // infinities and NaN, added up
	double  bool
}

// exactBits are enough for any sum of doubles: from 2^-1074 to 2^1024, and 62 bits for their
// number.
const exactBits = 1074 + 1024 + 62

func (s *sum) add(v *pb.Value) {
	switch t := v.GetValueType().(type) {
	case *pb.Value_IntegerValue:
		s.n++
		s.ints.Add(&s.ints, big.NewInt(t.IntegerValue))
	case *pb.Value_DoubleValue:
		s.n++
		s.double = true
		if math.IsNaN(t.DoubleValue) || math.IsInf(t.DoubleValue, 0) {
			s.special += t.DoubleValue
			return
		}
		if s.doubles == nil {
			s.doubles = new(big.Float).SetPrec(exactBits)
		}
		s.doubles.Add(s.doubles, new(big.Float).SetFloat64(t.DoubleValue))
	}
}

func (s *sum) float() float64 {
	all := new(big.Float).SetPrec(exactBits).SetInt(&s.ints)
	if s.doubles != nil {
		all.Add(all, s.doubles)
	}
	f, _ := all.Float64()
	if s.special != 0 { // NaN included
		return s.special + f
	}
	return f
}

func (s *sum) total() *pb.Value {
	if !s.double && s.ints.IsInt64() {
		return document.Int(s.ints.Int64())
	}
	return document.Double(s.float())
}

func (s *sum) average() *pb.Value {
	if s.n == 0 {
		return document.Null()
	}
	return document.Double(s.float() / float64(s.n))
}
