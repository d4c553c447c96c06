package conformance

import (
	"math"
	"strings"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/genproto/googleapis/type/latlng"
	"google.golang.org/protobuf/types/known/timestamppb"
)

var (
	nan          = math.NaN()
	infinity     = math.Inf(1)
	negativeZero = math.Copysign(0, -1)
)

func geo(lat, lng float64) *latlng.LatLng { return &latlng.LatLng{Latitude: lat, Longitude: lng} }

type fieldTransform = pb.DocumentTransform_FieldTransform

func increment(path string, by any) *fieldTransform {
	return &fieldTransform{FieldPath: path, TransformType: &pb.DocumentTransform_FieldTransform_Increment{Increment: value(by)}}
}

func maximum(path string, v any) *fieldTransform {
	return &fieldTransform{FieldPath: path, TransformType: &pb.DocumentTransform_FieldTransform_Maximum{Maximum: value(v)}}
}

func minimum(path string, v any) *fieldTransform {
	return &fieldTransform{FieldPath: path, TransformType: &pb.DocumentTransform_FieldTransform_Minimum{Minimum: value(v)}}
}

func union(path string, v ...any) *fieldTransform {
	return &fieldTransform{FieldPath: path, TransformType: &pb.DocumentTransform_FieldTransform_AppendMissingElements{AppendMissingElements: array(v...)}}
}

func subtract(path string, v ...any) *fieldTransform {
	return &fieldTransform{FieldPath: path, TransformType: &pb.DocumentTransform_FieldTransform_RemoveAllFromArray{RemoveAllFromArray: array(v...)}}
}

func serverTime(path string) *fieldTransform {
	return &fieldTransform{FieldPath: path, TransformType: &pb.DocumentTransform_FieldTransform_SetToServerValue{SetToServerValue: pb.DocumentTransform_FieldTransform_REQUEST_TIME}}
}

// transformCase applies one transform to a field that holds something.
type transformCase struct {
	label     string
	old       any
	transform *fieldTransform
}

// absent is a field that is not there.
var absent = struct{}{}

// transforms notes the result and the new value of each case.
func (s *session) transforms(cases []transformCase) {
	for _, c := range cases {
		f := fields{}
		if c.old != absent {
			f["v"] = c.old
		}
		s.given(s.set("c/d", f))
		resp, err := s.send(transformed(s.patch("c/d", nil), c.transform))
		var result *pb.Value
		if err == nil {
			result = resp.WriteResults[0].TransformResults[0]
		}
		s.note(c.label, result, err)
		doc, err := s.document(&pb.BatchGetDocumentsRequest{}, "c/d")
		s.note(c.label+", then", doc.GetFields(), err)
	}
}

var transformScenarios = []scenario{
	{"increments", func(s *session) {
		s.transforms([]transformCase{
			{"int and int", 40, increment("v", 2)},
			{"absent", absent, increment("v", 2)},
			{"absent and double", absent, increment("v", 2.0)},
			{"null", nil, increment("v", 2)},
			{"string", "x", increment("v", 2)},
			{"int and double", 1, increment("v", 0.5)},
			{"double and int", 1.5, increment("v", 1)},
			{"double and double", 1.5, increment("v", 0.5)},
			{"saturates above", int64(math.MaxInt64 - 1), increment("v", 5)},
			{"saturates below", int64(math.MinInt64 + 1), increment("v", -5)},
			{"smallest and smallest", int64(math.MinInt64), increment("v", int64(math.MinInt64))},
			{"largest and smallest", int64(math.MaxInt64), increment("v", int64(math.MinInt64))},
			{"at the limit and double", int64(math.MaxInt64), increment("v", 1.0)},
			{"int and NaN", 1, increment("v", nan)},
			{"NaN and int", nan, increment("v", 1)},
			{"infinity and minus infinity", infinity, increment("v", math.Inf(-1))},
			{"double overflow", math.MaxFloat64, increment("v", math.MaxFloat64)},
			{"minus zero and int zero", negativeZero, increment("v", 0)},
			{"int zero and minus zero", 0, increment("v", negativeZero)},
			{"beyond 53 bits", int64(1<<53 + 1), increment("v", 0.0)},
			{"by a string", 1, increment("v", "x")},
			{"by null", 1, increment("v", nil)},
			{"by no value", 1, increment("v", &pb.Value{})},
			{"below a number", 1, increment("v.x", 1)},
			{"a field of a map", fields{"x": 1, "y": 2}, increment("v.x", 1)},
			{"an empty path", 1, increment("", 1)},
			{"a reserved path", 1, increment("__name__", 1)},
		})
	}},
	{"extremes", func(s *session) {
		s.transforms([]transformCase{
			{"maximum, larger", 1, maximum("v", 2)},
			{"maximum, smaller", 2, maximum("v", 1)},
			{"maximum, int ties with double", 3, maximum("v", 3.0)},
			{"maximum, double ties with int", 3.0, maximum("v", 3)},
			{"maximum, larger double", 3, maximum("v", 3.5)},
			{"maximum, absent", absent, maximum("v", 3)},
			{"maximum, string", "x", maximum("v", 3)},
			{"maximum, null", nil, maximum("v", 3)},
			{"maximum of NaN and number", nan, maximum("v", 3)},
			{"maximum of number and NaN", 3, maximum("v", nan)},
			{"maximum of zeros", 0, maximum("v", negativeZero)},
			{"maximum of zeros, the other way", negativeZero, maximum("v", 0)},
			{"maximum of double zeros", negativeZero, maximum("v", 0.0)},
			{"maximum beyond 53 bits", int64(1<<53 + 1), maximum("v", float64(1<<53))},
			{"minimum, smaller", 2, minimum("v", 1)},
			{"minimum, larger", 1, minimum("v", 2)},
			{"minimum, int ties with double", 3, minimum("v", 3.0)},
			{"minimum, double ties with int", 3.0, minimum("v", 3)},
			{"minimum, absent", absent, minimum("v", 3)},
			{"minimum of NaN and number", nan, minimum("v", 3)},
			{"minimum of number and NaN", 3, minimum("v", nan)},
			{"minimum of zeros", 0, minimum("v", negativeZero)},
			{"minimum of zeros, the other way", negativeZero, minimum("v", 0)},
			{"minimum of double zeros", 0.0, minimum("v", negativeZero)},
			{"maximum of a string", 1, maximum("v", "x")},
		})
	}},
	{"arrays", func(s *session) {
		s.transforms([]transformCase{
			{"union", []any{1, 2}, union("v", 2, 3)},
			{"union of equal numbers", []any{1, 2.0}, union("v", 1.0, 2, 3)},
			{"union of NaNs", []any{nan}, union("v", nan)},
			{"union of zeros", []any{0}, union("v", negativeZero)},
			{"union of the same twice", []any{1}, union("v", 2, 2, 2.0)},
			{"union of repeated stored ones", []any{1, 1}, union("v", 2)},
			{"union with nothing", []any{1}, union("v")},
			{"union, absent", absent, union("v", 1, 1)},
			{"union, a number", 7, union("v", 1)},
			{"union, absent with nothing", absent, union("v")},
			{"union, a number with nothing", 7, union("v")},
			{"union of maps", []any{fields{"a": 1}}, union("v", fields{"a": 1.0}, fields{"a": 2})},
			{"union of null", []any{nil}, union("v", nil)},
			{"union of an array", []any{1}, union("v", []any{1})},
			{"removal", []any{1, 2, 1, 3}, subtract("v", 1, 3)},
			{"removal of equal numbers", []any{1, 2.0, nan}, subtract("v", 1.0, 2, nan)},
			{"removal, absent", absent, subtract("v", 1)},
			{"removal, a number", 7, subtract("v", 1)},
			{"removal of nothing", []any{1}, subtract("v")},
			{"removal of what is not there", []any{1}, subtract("v", 2)},
		})
		text := strings.Repeat("x", 1501)
		for _, c := range []struct {
			label string
			v     any
		}{
			{"beyond the last timestamp", &pb.Value{ValueType: &pb.Value_TimestampValue{TimestampValue: &timestamppb.Timestamp{Seconds: 253402300800}}}},
			{"a timestamp in nanoseconds", time.Unix(0, 1)}, {"latitude 91", geo(91, 0)}, {"no geo point", &pb.Value{ValueType: &pb.Value_GeoPointValue{}}}, {"a reference to a collection", ref(s.name("c"))},
			{"a reference to nonsense", ref("x")}, {"a reference to another database", ref("projects/p/databases/d/documents/c/a")}, {"a reserved field", fields{"__x__": 1}},
			{"1,501 bytes", text}, {"no type", &pb.Value{}}, {"a list in a map", fields{"a": []any{1}}},
		} {
			s.transforms([]transformCase{{"union of " + c.label, []any{}, union("v", c.v)}, {"removal of " + c.label, []any{}, subtract("v", c.v)}})
		}
	}},
	{"transforms-together", func(s *session) {
		s.commit("in order", transformed(s.set("c/d", fields{"n": 1, "s": "x"}),
			increment("n", 1), increment("n", 10), maximum("n", 5), union("l", 1), union("l", 2), subtract("l", 1), increment("s", 3)))
		s.get("the sum", "c/d")
		s.commit("after the update of the same field", transformed(s.patch("c/d", fields{"n": 100}, "n"), increment("n", 1)))
		s.get("of both", "c/d")
		s.commit("a field and one below", transformed(s.patch("c/d", nil), increment("m", 1), increment("m.x", 1)))
		s.get("as they come", "c/d")
		s.commit("server times", transformed(s.patch("c/d", nil), serverTime("t"), serverTime("u.v")))
		doc := s.get("of one commit", "c/d")
		t, u := doc.Fields["t"].GetTimestampValue().AsTime(), doc.Fields["u"].GetMapValue().Fields["v"].GetTimestampValue().AsTime()
		s.note("are equal", t.Equal(u), nil)
		s.note("are in milliseconds", t.Equal(t.Truncate(time.Millisecond)), nil)
		s.note("are not after the commit", !t.After(doc.UpdateTime.AsTime()), nil)
		s.note("are close to the commit", doc.UpdateTime.AsTime().Sub(t) < 50*time.Millisecond, nil)
		s.commit("of a missing document", transformed(s.patch("c/new", nil), increment("n", 1)))
		s.get("which is made", "c/new")
		s.commit("of a document that must exist", exists(transformed(s.patch("c/none", nil), increment("n", 1)), true))
		s.commit("the same document twice", transformed(s.patch("c/twice", nil), increment("n", 1)), transformed(s.patch("c/twice", nil), increment("n", 2)))
		s.get("is counted twice", "c/twice")
		s.commit("no type", transformed(s.patch("c/d", nil), &fieldTransform{FieldPath: "n"}))
		s.commit("an unspecified server value", transformed(s.patch("c/d", nil), &fieldTransform{FieldPath: "n",
			TransformType: &pb.DocumentTransform_FieldTransform_SetToServerValue{}}))
	}},
}
