package conformance

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/genproto/googleapis/type/latlng"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// note keeps one observation: an error's code, or a value.
func (s *session) note(label string, v any, err error) {
	var text string
	if err != nil {
		text = status.Code(err).String()
		s.Logf("%s: %v", label, err)
	} else {
		text = s.text(v)
	}
	if strings.ContainsAny(label, ":\n") {
		s.Fatalf("%q is not a label", label)
	}
	if slices.ContainsFunc(s.lines, func(l string) bool { return strings.HasPrefix(l, label+": ") }) {
		s.Fatalf("%q is noted twice", label) // differences couldn't tell which
	}
	s.lines = append(s.lines, label+": "+text)
}

var timeToken = regexp.MustCompile(`@\d+`)

// notes are the session's notes, with times replaced by their rank.
func (s *session) notes() []string {
	var times []string
	for _, line := range s.lines {
		times = append(times, timeToken.FindAllString(line, -1)...)
	}
	slices.Sort(times) // all have 16 digits
	times = slices.Compact(times)
	out := make([]string, len(s.lines))
	for i, line := range s.lines {
		out[i] = timeToken.ReplaceAllStringFunc(line, func(t string) string {
			n, _ := slices.BinarySearch(times, t)
			return "@" + strconv.Itoa(n+1)
		})
	}
	return out
}

func (s *session) text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []string:
		return "[" + strings.Join(v, " ") + "]"
	case bool, int:
		return fmt.Sprint(v)
	case time.Time:
		return timeText(timestamppb.New(v))
	case *timestamppb.Timestamp:
		return timeText(v)
	case *pb.Value:
		return s.valueText(v)
	case map[string]*pb.Value:
		return s.fieldsText(v)
	case *pb.Document:
		if v == nil {
			return "missing"
		}
		return fmt.Sprintf("%s created %s updated %s", s.fieldsText(v.Fields), timeText(v.CreateTime), timeText(v.UpdateTime))
	case *firestore.DocumentSnapshot:
		if !v.Exists() {
			return "missing"
		}
		return fmt.Sprintf("%s created %s updated %s", s.fieldsText(values(v.Data())), s.text(v.CreateTime), s.text(v.UpdateTime))
	case *firestore.WriteResult:
		return s.text(v.UpdateTime)
	case *pb.CommitResponse:
		return "committed " + timeText(v.CommitTime) + s.resultsText(v.WriteResults)
	}
	panic(fmt.Sprintf("%T can't be noted", v))
}

func (s *session) resultsText(results []*pb.WriteResult) string {
	var b strings.Builder
	for _, r := range results {
		b.WriteString(" (" + timeText(r.UpdateTime))
		for _, v := range r.TransformResults {
			b.WriteString(" " + s.valueText(v))
		}
		b.WriteString(")")
	}
	return b.String()
}

func timeText(t *timestamppb.Timestamp) string {
	if t == nil || t.AsTime().IsZero() {
		return "never"
	}
	return fmt.Sprintf("@%d", t.AsTime().UnixMicro())
}

func (s *session) fieldsText(f map[string]*pb.Value) string {
	parts := make([]string, 0, len(f))
	for _, k := range slices.Sorted(maps.Keys(f)) {
		parts = append(parts, k+"="+s.valueText(f[k]))
	}
	return "{" + strings.Join(parts, " ") + "}"
}

func (s *session) valueText(v *pb.Value) string {
	switch t := v.GetValueType().(type) {
	case *pb.Value_NullValue:
		return "null"
	case *pb.Value_BooleanValue:
		return strconv.FormatBool(t.BooleanValue)
	case *pb.Value_IntegerValue:
		return strconv.FormatInt(t.IntegerValue, 10)
	case *pb.Value_DoubleValue:
		if t.DoubleValue == math.Trunc(t.DoubleValue) && math.Abs(t.DoubleValue) < 1e6 {
			text := fmt.Sprintf("%.1f", t.DoubleValue) // shows that it is not an integer
			return text
		}
		return strconv.FormatFloat(t.DoubleValue, 'g', -1, 64) + "f"
	case *pb.Value_StringValue:
		if len(t.StringValue) > 60 {
			return fmt.Sprintf("string of %d", len(t.StringValue))
		}
		return strconv.Quote(t.StringValue)
	case *pb.Value_BytesValue:
		return fmt.Sprintf("bytes %x", t.BytesValue)
	case *pb.Value_TimestampValue:
		if time.Since(t.TimestampValue.AsTime()).Abs() < time.Hour {
			return "now"
		}
		return t.TimestampValue.AsTime().Format(time.RFC3339Nano)
	case *pb.Value_ReferenceValue:
		return "ref " + strings.TrimPrefix(t.ReferenceValue, s.root()+"/")
	case *pb.Value_GeoPointValue:
		return fmt.Sprintf("geo %v,%v", t.GeoPointValue.Latitude, t.GeoPointValue.Longitude)
	case *pb.Value_ArrayValue:
		parts := make([]string, 0, len(t.ArrayValue.GetValues()))
		for _, e := range t.ArrayValue.GetValues() {
			parts = append(parts, s.valueText(e))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case *pb.Value_MapValue:
		return s.fieldsText(t.MapValue.GetFields())
	}
	return "no value"
}

// ref is a reference to a document, by its full name.
type ref string

// value makes a value of a Go value.
func value(v any) *pb.Value {
	switch v := v.(type) {
	case nil:
		return &pb.Value{ValueType: &pb.Value_NullValue{}}
	case *pb.Value:
		return v
	case bool:
		return &pb.Value{ValueType: &pb.Value_BooleanValue{BooleanValue: v}}
	case int:
		return &pb.Value{ValueType: &pb.Value_IntegerValue{IntegerValue: int64(v)}}
	case int64:
		return &pb.Value{ValueType: &pb.Value_IntegerValue{IntegerValue: v}}
	case float64:
		return &pb.Value{ValueType: &pb.Value_DoubleValue{DoubleValue: v}}
	case string:
		return &pb.Value{ValueType: &pb.Value_StringValue{StringValue: v}}
	case []byte:
		return &pb.Value{ValueType: &pb.Value_BytesValue{BytesValue: v}}
	case time.Time:
		return &pb.Value{ValueType: &pb.Value_TimestampValue{TimestampValue: timestamppb.New(v)}}
	case ref:
		return &pb.Value{ValueType: &pb.Value_ReferenceValue{ReferenceValue: string(v)}}
	case *latlng.LatLng:
		return &pb.Value{ValueType: &pb.Value_GeoPointValue{GeoPointValue: v}}
	case []any:
		return &pb.Value{ValueType: &pb.Value_ArrayValue{ArrayValue: array(v...)}}
	case fields:
		return &pb.Value{ValueType: &pb.Value_MapValue{MapValue: &pb.MapValue{Fields: values(v)}}}
	case map[string]any:
		return value(fields(v))
	}
	panic(fmt.Sprintf("%T is not a value", v))
}

func values(f map[string]any) map[string]*pb.Value {
	out := make(map[string]*pb.Value, len(f))
	for k, v := range f {
		out[k] = value(v)
	}
	return out
}

func array(v ...any) *pb.ArrayValue {
	out := &pb.ArrayValue{}
	for _, e := range v {
		out.Values = append(out.Values, value(e))
	}
	return out
}
