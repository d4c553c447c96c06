package conformance

import (
	"math"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type aggregation = pb.StructuredAggregationQuery_Aggregation

func count(alias string, upTo int64) *aggregation {
	c := &pb.StructuredAggregationQuery_Aggregation_Count{}
	if upTo != 0 {
		c.UpTo = wrapperspb.Int64(upTo)
	}
	return &aggregation{Alias: alias, Operator: &pb.StructuredAggregationQuery_Aggregation_Count_{Count: c}}
}

func sum(alias, path string) *aggregation {
	return &aggregation{Alias: alias, Operator: &pb.StructuredAggregationQuery_Aggregation_Sum_{
		Sum: &pb.StructuredAggregationQuery_Aggregation_Sum{Field: field(path)}}}
}

func average(alias, path string) *aggregation {
	return &aggregation{Alias: alias, Operator: &pb.StructuredAggregationQuery_Aggregation_Avg_{
		Avg: &pb.StructuredAggregationQuery_Aggregation_Avg{Field: field(path)}}}
}

// aggregate notes what a query's results come to.
func (s *session) aggregate(label string, q *pb.StructuredQuery, aggregations ...*aggregation) {
	stream, err := s.api.RunAggregationQuery(s.ctx, &pb.RunAggregationQueryRequest{
		Parent: s.root(),
		QueryType: &pb.RunAggregationQueryRequest_StructuredAggregationQuery{StructuredAggregationQuery: &pb.StructuredAggregationQuery{
			QueryType:    &pb.StructuredAggregationQuery_StructuredQuery{StructuredQuery: q},
			Aggregations: aggregations,
		}},
	})
	s.must(err)
	var result map[string]*pb.Value
	for {
		resp, err := stream.Recv()
		if err != nil {
			s.note(label, result, eof(err))
			return
		}
		if resp.Result != nil {
			result = resp.Result.AggregateFields
		}
	}
}

var aggregationScenarios = []scenario{
	{"aggregations", func(s *session) {
		totals := func(label string, vs ...any) {
			for i, v := range vs {
				s.given(s.set(label+"/"+string(rune('a'+i)), fields{"v": v}))
			}
			s.aggregate(label, from(label), count("count", 0), sum("sum", "v"), average("avg", "v"))
		}
		totals("nothing")
		totals("ints", 1, 2, 3)
		totals("doubles", 1.5, 2.5)
		totals("both", 1, 2.0)
		totals("others too", 1, "x", nil, true, []any{5}, 2)
		totals("others only", "x", nil)
		totals("NaN", 1, nan)
		totals("infinities", infinity, math.Inf(-1))
		totals("overflow", int64(math.MaxInt64), 1)
		totals("overflow below", int64(math.MinInt64), -1)
		totals("overflow and back", int64(math.MaxInt64), 1, -2)
		totals("back and overflow", int64(math.MaxInt64), -2, 1)
		totals("large ints", int64(1)<<53, 1, 1)
		totals("large int and a double", int64(1)<<53+1, 0.0)
		totals("minus zeros", negativeZero, negativeZero)
		totals("minus zero and int", negativeZero, 0)
		totals("double overflow", math.MaxFloat64, math.MaxFloat64)
		totals("tenths", 0.1, 0.2, 0.3)
	}},
	{"aggregation-requests", func(s *session) {
		s.given(s.set("c/a", fields{"v": 1, "w": 1, "m": fields{"x": 4}}), s.set("c/b", fields{"v": 2}), s.set("c/c", fields{"w": 3}), s.set("c/d/c/e", fields{"v": 10}))
		s.aggregate("a missing field is no part of it", from("c"), sum("s", "v"), average("a", "w"), count("n", 0))
		s.aggregate("up to 2", from("c"), count("n", 2))
		s.aggregate("up to 20", from("c"), count("n", 20))
		s.aggregate("up to less than 0", from("c"), count("n", -1))
		s.aggregate("a limit", func() *pb.StructuredQuery { q := by(from("c"), "-v"); q.Limit = wrapperspb.Int32(1); return q }(), sum("s", "v"), count("n", 0))
		s.aggregate("an offset", func() *pb.StructuredQuery { q := from("c"); q.Offset = 1; return q }(), count("n", 0))
		s.aggregate("a filter", where(from("c"), is("v", ">", 1)), sum("s", "v"))
		s.aggregate("a group", &pb.StructuredQuery{From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: "c", AllDescendants: true}}}, sum("s", "v"), count("n", 0))
		s.aggregate("a nested field", from("c"), sum("s", "m.x"))
		s.aggregate("no alias", from("c"), count("", 0), sum("", "v"))
		s.aggregate("one alias twice", from("c"), count("n", 0), sum("n", "v"))
		s.aggregate("a bad alias", from("c"), count("a-b", 0))
		s.aggregate("a reserved alias", from("c"), count("__n__", 0))
		s.aggregate("none", from("c"))
		s.aggregate("five", from("c"), count("a", 0), count("b", 0), count("c", 0), count("d", 0), count("e", 0))
		s.aggregate("six", from("c"), count("a", 0), count("b", 0), count("c", 0), count("d", 0), count("e", 0), count("f", 0))
		s.aggregate("the name", from("c"), sum("s", "__name__"))
		s.aggregate("a bad path", from("c"), sum("s", "a..b"))
		s.aggregate("no type", from("c"), &aggregation{Alias: "x"})
	}},
}
