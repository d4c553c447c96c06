package conformance

import (
	"math"
	"strings"

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
	s.aggregateBelow(label, s.root(), q, aggregations...)
}

func (s *session) aggregateBelow(label, parent string, q *pb.StructuredQuery, aggregations ...*aggregation) {
	stream, err := s.api.RunAggregationQuery(s.ctx, &pb.RunAggregationQueryRequest{
		Parent: parent,
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
	{"sums-in-order", func(s *session) {
		s.given(s.set("c/a", fields{"v": 1, "w": 2, "l": []any{1}, "z": nil}), s.set("c/b", fields{"v": 2, "w": 1, "l": []any{1}}), s.set("c/c", fields{"v": 4, "w": 3}),
			s.set("c/d", fields{"w": 4}), s.set("c/a/c/e", fields{"v": 8, "w": 1}), s.set("c/a/d/f", fields{"v": 16, "w": 1}))
		group := func(id string) *pb.StructuredQuery {
			return &pb.StructuredQuery{From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: id, AllDescendants: true}}}
		}
		limit := func(q *pb.StructuredQuery) *pb.StructuredQuery { q.Limit = wrapperspb.Int32(2); return q }
		offset := func(q *pb.StructuredQuery) *pb.StructuredQuery { q.Offset = 1; return q }
		at := func(q *pb.StructuredQuery, v ...any) *pb.StructuredQuery {
			q.StartAt = &pb.Cursor{Before: true, Values: array(v...).Values}
			return q
		}
		end := func(q *pb.StructuredQuery, v ...any) *pb.StructuredQuery {
			q.EndAt = &pb.Cursor{Values: array(v...).Values}
			return q
		}
		a, b := ref(s.name("c/a")), ref(s.name("c/b"))
		for _, c := range []struct {
			label string
			query *pb.StructuredQuery
		}{
			{"all", from("c")}, {"by name", by(from("c"), "__name__")},
			{"by v", by(from("c"), "v")}, {"by v down", by(from("c"), "-v")}, {"by v and name", by(from("c"), "v", "__name__")}, {"by v down and name", by(from("c"), "-v", "__name__")},
			{"by w", by(from("c"), "w")}, {"by w and name", by(from("c"), "w", "__name__")}, {"by w, v and name", by(from("c"), "w", "v", "__name__")}, {"by v, w and name", by(from("c"), "v", "w", "__name__")},
			{"by name, limit", limit(by(from("c"), "__name__"))}, {"by w and name, limit", limit(by(from("c"), "w", "__name__"))}, {"by v and name, limit", limit(by(from("c"), "v", "__name__"))},
			{"by w, v and name, limit", limit(by(from("c"), "w", "v", "__name__"))}, {"by v, w and name, limit", limit(by(from("c"), "v", "w", "__name__"))}, {"by name, offset", offset(by(from("c"), "__name__"))},
			{"by w, limit", limit(by(from("c"), "w"))}, {"limit", limit(from("c"))}, {"offset", offset(from("c"))},
			{"v = 1", where(from("c"), is("v", "==", 1))}, {"v = 1 by name", by(where(from("c"), is("v", "==", 1)), "__name__")}, {"v = 1 by name, limit", limit(by(where(from("c"), is("v", "==", 1)), "__name__"))},
			{"v = 1 by name at a", at(by(where(from("c"), is("v", "==", 1)), "__name__"), a)},
			{"v in 1, 2 by name", by(where(from("c"), is("v", "in", []any{1, 2})), "__name__")}, {"v in 1 by name", by(where(from("c"), is("v", "in", []any{1})), "__name__")},
			{"v = 1 or 2 by name", by(where(from("c"), or(is("v", "==", 1), is("v", "==", 2))), "__name__")},
			{"v = 1 or w = 1 by name", by(where(from("c"), or(is("v", "==", 1), is("w", "==", 1))), "__name__")},
			{"w = 1 by name", by(where(from("c"), is("w", "==", 1)), "__name__")}, {"w = 1", where(from("c"), is("w", "==", 1))},
			{"w = 1 and v = 1 by name", by(where(from("c"), and(is("w", "==", 1), is("v", "==", 1))), "__name__")},
			{"z is null by name", by(where(from("c"), unary("z", pb.StructuredQuery_UnaryFilter_IS_NULL)), "__name__")}, {"v is null by name", by(where(from("c"), unary("v", pb.StructuredQuery_UnaryFilter_IS_NULL)), "__name__")},
			{"v is NaN by name", by(where(from("c"), unary("v", pb.StructuredQuery_UnaryFilter_IS_NAN)), "__name__")}, {"v is not null by name", by(where(from("c"), unary("v", pb.StructuredQuery_UnaryFilter_IS_NOT_NULL)), "__name__")},
			{"v contains 1 by name", by(where(from("c"), is("v", "contains", 1)), "__name__")}, {"l contains 1 by name", by(where(from("c"), is("l", "contains", 1)), "__name__")}, {"l contains 1", where(from("c"), is("l", "contains", 1))},
			{"v > 1", where(from("c"), is("v", ">", 1))}, {"v > 1 by name", by(where(from("c"), is("v", ">", 1)), "__name__")}, {"v > 1 by v and name", by(where(from("c"), is("v", ">", 1)), "v", "__name__")},
			{"w > 1", where(from("c"), is("w", ">", 1))}, {"w > 1 by w and name", by(where(from("c"), is("w", ">", 1)), "w", "__name__")}, {"w > 1 by name", by(where(from("c"), is("w", ">", 1)), "__name__")},
			{"w > 1 by w, v and name", by(where(from("c"), is("w", ">", 1)), "w", "v", "__name__")}, {"w > 1 by v, w and name", by(where(from("c"), is("w", ">", 1)), "v", "w", "__name__")},
			{"w != 1", where(from("c"), is("w", "!=", 1))}, {"w > 1 and v > 1", where(from("c"), and(is("w", ">", 1), is("v", ">", 1)))},
			{"name > a", where(from("c"), is("__name__", ">", a))}, {"name >= a", where(from("c"), is("__name__", ">=", a))}, {"name = a", where(from("c"), is("__name__", "==", a))}, {"name in a, b", where(from("c"), is("__name__", "in", []any{a, b}))},
			{"name != a", where(from("c"), is("__name__", "!=", a))}, {"name not in a", where(from("c"), is("__name__", "not-in", []any{a}))},
			{"name > a by v", by(where(from("c"), is("__name__", ">", a)), "v")}, {"name > a by v and name", by(where(from("c"), is("__name__", ">", a)), "v", "__name__")}, {"name > a by name", by(where(from("c"), is("__name__", ">", a)), "__name__")},
			{"name > a by w", by(where(from("c"), is("__name__", ">", a)), "w")}, {"name > a and w > 0", where(from("c"), and(is("__name__", ">", a), is("w", ">", 0)))}, {"name > a and v > 0", where(from("c"), and(is("__name__", ">", a), is("v", ">", 0)))},
			{"name = a by v", by(where(from("c"), is("__name__", "==", a)), "v")}, {"name = a and v = 1", where(from("c"), and(is("__name__", "==", a), is("v", "==", 1)))}, {"name = a and w = 2", where(from("c"), and(is("__name__", "==", a), is("w", "==", 2)))},
			{"name > a and v = 2", where(from("c"), and(is("__name__", ">", a), is("v", "==", 2)))}, {"name > a, limit", limit(where(from("c"), is("__name__", ">", a)))},
			{"name = a or v = 2", where(from("c"), or(is("__name__", "==", a), is("v", "==", 2)))}, {"name > a or v = 2", where(from("c"), or(is("__name__", ">", a), is("v", "==", 2)))},
			{"by name at b", at(by(from("c"), "__name__"), b)}, {"by name to b", end(by(from("c"), "__name__"), b)}, {"by name at nothing", at(by(from("c"), "__name__"))},
			{"by v at 2", at(by(from("c"), "v"), 2)}, {"by w at 2", at(by(from("c"), "w"), 2)}, {"by v to 2", end(by(from("c"), "v"), 2)}, {"by w to 2", end(by(from("c"), "w"), 2)},
			{"by v and name at 2", at(by(from("c"), "v", "__name__"), 2)}, {"by v and name at 2, b", at(by(from("c"), "v", "__name__"), 2, b)}, {"by w and name at 2, b", at(by(from("c"), "w", "__name__"), 2, b)},
			{"by w, v and name at 1, 2, b", at(by(from("c"), "w", "v", "__name__"), 1, 2, b)}, {"at nothing", at(from("c"))},
			{"group", group("c")}, {"group by name", by(group("c"), "__name__")}, {"group by v", by(group("c"), "v")}, {"group by w", by(group("c"), "w")}, {"group, limit", limit(group("c"))}, {"group w = 1", where(group("c"), is("w", "==", 1))},
			{"group name > a", where(group("c"), is("__name__", ">", a))}, {"everything", group("")}, {"everything by name", by(group(""), "__name__")}, {"everything by v", by(group(""), "v")}, {"everything name > a", where(group(""), is("__name__", ">", a))},
			{"collections", from("")}, {"collections by name", by(from(""), "__name__")}, {"nested by name", by(from("c"), "m.x", "__name__")}, {"limit of 0", func() *pb.StructuredQuery { q := by(from("c"), "__name__"); q.Limit = wrapperspb.Int32(0); return q }()},
		} {
			s.aggregate("count "+c.label, c.query, count("n", 0))
			s.aggregate("sum of v "+c.label, c.query, sum("s", "v"))
		}
		s.aggregate("average by name", by(from("c"), "__name__"), average("a", "v"))
		s.aggregate("average by v and name", by(from("c"), "v", "__name__"), average("a", "v"))
		s.aggregate("v and w by v and name", by(from("c"), "v", "__name__"), sum("v", "v"), sum("w", "w"))
		s.aggregate("v and w by v, w and name", by(from("c"), "v", "w", "__name__"), sum("v", "v"), sum("w", "w"))
		s.aggregate("v and w by v", by(from("c"), "v"), sum("v", "v"), sum("w", "w"))
		s.aggregate("v and w with v = 1 by name", by(where(from("c"), is("v", "==", 1)), "__name__"), sum("v", "v"), sum("w", "w"))
		s.aggregate("v and a count by name", by(from("c"), "__name__"), sum("v", "v"), count("n", 0))
		for _, c := range []struct {
			label, parent string
			query         *pb.StructuredQuery
		}{
			{"of a document", "c/a", from("c")}, {"of a document by name", "c/a", by(from("c"), "__name__")}, {"of a document, group", "c/a", group("c")}, {"of a document, group by v", "c/a", by(group("c"), "v")},
			{"of a document, all", "c/a", group("")}, {"of a document, collections", "c/a", from("")},
		} {
			s.aggregateBelow("count "+c.label, s.name(c.parent), c.query, count("n", 0))
			s.aggregateBelow("sum of v "+c.label, s.name(c.parent), c.query, sum("s", "v"))
		}
	}},
	{"sums-of-selected", func(s *session) {
		s.given(s.set("c/a", fields{"v": 1, "w": 10, "m": fields{"x": 100, "y": 1000}}), s.set("c/b", fields{"v": 2}))
		for _, c := range []struct {
			label    string
			selected []string
		}{
			{"no field", nil}, {"v", []string{"v"}}, {"w", []string{"w"}}, {"v and w", []string{"v", "w"}}, {"name", []string{"__name__"}}, {"name and v", []string{"__name__", "v"}},
			{"m", []string{"m"}}, {"m.x", []string{"m.x"}}, {"m.y", []string{"m.y"}}, {"v.x", []string{"v.x"}}, {"v twice", []string{"v", "v"}}, {"a bad path", []string{"a..b"}}, {"a reserved one", []string{"__v__"}},
		} {
			selecting := func() *pb.StructuredQuery {
				q := from("c")
				q.Select = &pb.StructuredQuery_Projection{}
				for _, p := range c.selected {
					q.Select.Fields = append(q.Select.Fields, field(p))
				}
				return q
			}
			s.aggregate("count, selected "+c.label, selecting(), count("n", 0))
			s.aggregate("sum of v, selected "+c.label, selecting(), sum("s", "v"))
			s.aggregate("average of v, selected "+c.label, selecting(), average("a", "v"))
			s.aggregate("sum of m.x, selected "+c.label, selecting(), sum("s", "m.x"))
			s.aggregate("v and count, selected "+c.label, selecting(), sum("s", "v"), count("n", 0))
		}
		s.aggregate("w and v, selected v by w", func() *pb.StructuredQuery {
			q := by(from("c"), "w")
			q.Select = &pb.StructuredQuery_Projection{Fields: []*pb.StructuredQuery_FieldReference{field("v")}}
			return q
		}(), sum("s", "v"))
		zero := &aggregation{Alias: "n", Operator: &pb.StructuredAggregationQuery_Aggregation_Count_{
			Count: &pb.StructuredAggregationQuery_Aggregation_Count{UpTo: wrapperspb.Int64(0)}}}
		s.aggregate("up to 0", from("c"), zero)
		s.aggregate("up to 0 and a sum", from("c"), zero, sum("s", "v"))
		s.aggregate("up to 1", from("c"), count("n", 1))
		s.aggregate("up to 1 and another", from("c"), count("n", 1), count("m", 0))
		s.aggregate("up to 1 and a sum", from("c"), count("n", 1), sum("s", "v"))
		s.aggregate("up to the largest", from("c"), count("n", math.MaxInt64))
		s.aggregate("1,500 bytes", from("c"), sum("s", strings.Repeat("x", 1500)))
		s.aggregate("1,501 bytes", from("c"), sum("s", strings.Repeat("x", 1501)))
		s.aggregate("an alias of 1,501 bytes", from("c"), count(strings.Repeat("x", 1501), 0))
		s.aggregate("a reserved field", from("c"), sum("s", "__v__"))
		s.aggregate("a reserved field below", from("c"), sum("s", "m.__v__"))
	}},
}
