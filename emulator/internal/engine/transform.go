package engine

import (
	"math"
	"slices"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator/internal/document"
)

// maxTransforms is how many a document takes in a commit.
const maxTransforms = 500

// transform computes a field from what it holds and, but for the server's time, an operand.
type transform struct {
	path document.Path
	// run gives the new value of the field, from the old (nil where there is none), and what the
	// write's result says.
	run func(old *pb.Value, now *timestamppb.Timestamp) (value, result *pb.Value)
}

func (t *transform) apply(e *document.Editor, now *timestamppb.Timestamp) (result *pb.Value) {
	old := document.Lookup(e.Fields, t.path)
	value, result := t.run(old, now)
	if value != old {
		e.Set(t.path, value)
	}
	return result
}

// parseTransforms checks transforms. stamps says whether one of them sets the server's time.
func parseTransforms(in []*pb.DocumentTransform_FieldTransform) (out []transform, stamps bool, err error) {
	if len(in) == 0 {
		return nil, false, nil
	}
	out = make([]transform, len(in))
	for i, ft := range in {
		path, err := document.ParsePath(ft.GetFieldPath())
		if err != nil {
			return nil, false, err
		}
		if err := document.CheckPath(path); err != nil {
			return nil, false, err
		}
		run, err := parseTransform(ft)
		if err != nil {
			return nil, false, err
		}
		if _, ok := ft.GetTransformType().(*pb.DocumentTransform_FieldTransform_SetToServerValue); ok {
			stamps = true
		}
		out[i] = transform{path: path, run: run}
	}
	return out, stamps, checkNesting(out)
}

// checkNesting refuses to transform a field and another one inside it.
func checkNesting(transforms []transform) error {
	if len(transforms) < 2 {
		return nil
	}
	paths := make(map[string]bool, len(transforms))
	for _, t := range transforms {
		paths[t.path.String()] = true
	}
	for _, t := range transforms {
		for n := 1; n < len(t.path); n++ {
			if outer := t.path[:n].String(); paths[outer] {
				return invalid("Cannot transform property %s and its nested property %s at the same time.", outer, t.path)
			}
		}
	}
	return nil
}

func parseTransform(ft *pb.DocumentTransform_FieldTransform) (func(old *pb.Value, now *timestamppb.Timestamp) (value, result *pb.Value), error) {
	switch t := ft.GetTransformType().(type) {
	case *pb.DocumentTransform_FieldTransform_SetToServerValue:
		if t.SetToServerValue != pb.DocumentTransform_FieldTransform_REQUEST_TIME {
			return nil, invalid("Unknown server value %v.", t.SetToServerValue)
		}
		return requestTime, nil
	case *pb.DocumentTransform_FieldTransform_Increment:
		return numeric("increment", t.Increment, add)
	case *pb.DocumentTransform_FieldTransform_Maximum:
		return numeric("maximum", t.Maximum, largest)
	case *pb.DocumentTransform_FieldTransform_Minimum:
		return numeric("minimum", t.Minimum, smallest)
	case *pb.DocumentTransform_FieldTransform_AppendMissingElements:
		return elements(t.AppendMissingElements, union)
	case *pb.DocumentTransform_FieldTransform_RemoveAllFromArray:
		return elements(t.RemoveAllFromArray, subtract)
	case nil:
		return nil, invalid("A transform of %q has no type.", ft.GetFieldPath())
	default:
		return nil, status.Errorf(codes.Unimplemented, "Transform %T isn't covered.", t)
	}
}

// requestTime is a commit's time in whole milliseconds, one for all fields of a commit.
func requestTime(_ *pb.Value, now *timestamppb.Timestamp) (value, result *pb.Value) {
	ms := &timestamppb.Timestamp{Seconds: now.Seconds, Nanos: now.Nanos / 1e6 * 1e6}
	v := &pb.Value{ValueType: &pb.Value_TimestampValue{TimestampValue: ms}}
	return v, v
}

// numeric makes a transform of numbers: a field that holds none becomes the operand.
func numeric(what string, operand *pb.Value, combine func(old, operand *pb.Value) *pb.Value) (func(*pb.Value, *timestamppb.Timestamp) (value, result *pb.Value), error) {
	if !document.IsNumber(operand) {
		return nil, invalid("The operand of %s must be a number.", what)
	}
	return func(old *pb.Value, _ *timestamppb.Timestamp) (value, result *pb.Value) {
		v := operand
		if document.IsNumber(old) {
			v = combine(old, operand)
		}
		return v, v
	}, nil
}

// add is saturating between integers; a double on either side makes a double.
func add(old, operand *pb.Value) *pb.Value {
	x, ok1 := old.GetValueType().(*pb.Value_IntegerValue)
	y, ok2 := operand.GetValueType().(*pb.Value_IntegerValue)
	if !ok1 || !ok2 {
		return document.Double(document.Float(old) + document.Float(operand))
	}
	a, b := x.IntegerValue, y.IntegerValue
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return document.Int(math.MaxInt64)
	case b < 0 && a < math.MinInt64-b:
		return document.Int(math.MinInt64)
	}
	return document.Int(a + b)
}

// largest keeps the stored value of two that are equal, whatever their types; NaN wins.
func largest(old, operand *pb.Value) *pb.Value {
	if document.IsNaN(old) || !document.IsNaN(operand) && document.CompareNumbers(old, operand) >= 0 {
		return old
	}
	return operand
}

// smallest keeps the stored value of two that are equal, whatever their types; NaN wins.
func smallest(old, operand *pb.Value) *pb.Value {
	if document.IsNaN(old) || !document.IsNaN(operand) && document.CompareNumbers(old, operand) <= 0 {
		return old
	}
	return operand
}

// elements makes a transform of arrays: a field that holds none counts as an empty one. Its result
// is null.
func elements(operand *pb.ArrayValue, combine func(old, operand []*pb.Value) []*pb.Value) (func(*pb.Value, *timestamppb.Timestamp) (value, result *pb.Value), error) {
	if err := document.CheckArray(operand, 1, 0); err != nil {
		return nil, err
	}
	return func(old *pb.Value, _ *timestamppb.Timestamp) (value, result *pb.Value) {
		return document.Array(combine(old.GetArrayValue().GetValues(), operand.GetValues())), document.Null()
	}, nil
}

func union(old, operand []*pb.Value) []*pb.Value {
	out := slices.Clone(old)
	for _, v := range operand {
		if !document.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

func subtract(old, operand []*pb.Value) []*pb.Value {
	return slices.DeleteFunc(slices.Clone(old), func(v *pb.Value) bool { return document.Contains(operand, v) })
}
