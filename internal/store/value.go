package store

import (
	"errors"
	"math"
	"slices"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/internal/layout"
)

// Int is n as a Firestore value.
func Int(n int64) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_IntegerValue{IntegerValue: n}}
}

// Double is f as a Firestore value.
func Double(f float64) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_DoubleValue{DoubleValue: f}}
}

// Null is no value, as Firestore has it.
func Null() *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_NullValue{}}
}

// Float is the double that a number comes to; false is no number. Integers beyond ±2⁵³ come to the
// double that is nearest.
func Float(v *firestorepb.Value) (float64, bool) {
	switch n := v.GetValueType().(type) {
	case *firestorepb.Value_IntegerValue:
		return float64(n.IntegerValue), true
	case *firestorepb.Value_DoubleValue:
		return n.DoubleValue, true
	}
	return 0, false
}

// Number is a number as a pointer to a double, for JSON, which has neither NaN nor the infinities:
// nil for these, and for what is no number.
func Number(v *firestorepb.Value) *float64 {
	if f, ok := Float(v); ok && !math.IsNaN(f) && !math.IsInf(f, 0) {
		return &f
	}
	return nil
}

// ErrNotInteger says that something else than a whole number is there, or a double from ±2⁵³ on.
var ErrNotInteger = errors.New("not an integer")

// IsInteger reports whether a value is an integer, and no double that stands for one.
func IsInteger(v *firestorepb.Value) bool {
	_, is := v.GetValueType().(*firestorepb.Value_IntegerValue)
	return is
}

// Integer is the integer that a value stands for, and 0 where there is none. A whole double within
// ±2⁵³ is the integer that it is: one client's increment(1.0) makes a field a double for good. One of
// 2⁵³ may stand for 2⁵³ + 1, which no double is. It reports false for that, and for anything else.
func Integer(v *firestorepb.Value) (int64, bool) {
	switch n := v.GetValueType().(type) {
	case nil:
		return 0, v == nil
	case *firestorepb.Value_IntegerValue:
		return n.IntegerValue, true
	case *firestorepb.Value_DoubleValue:
		if f := n.DoubleValue; f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f), true
		}
	}
	return 0, false
}

// String is s as a Firestore value.
func String(s string) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_StringValue{StringValue: s}}
}

// Bool is b as a Firestore value.
func Bool(b bool) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_BooleanValue{BooleanValue: b}}
}

// Time is t as a Firestore value. Firestore keeps microseconds.
func Time(t time.Time) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_TimestampValue{TimestampValue: timestamppb.New(t.Truncate(time.Microsecond))}}
}

// Map is fields as a Firestore value.
func Map(fields map[string]*firestorepb.Value) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_MapValue{MapValue: &firestorepb.MapValue{Fields: fields}}}
}

// Array is values as a Firestore value.
func Array(values ...*firestorepb.Value) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_ArrayValue{ArrayValue: &firestorepb.ArrayValue{Values: values}}}
}

// Increment is the transform that adds n to an integer field. Transforms take a field's path, as
// of [FieldPath].
func Increment(path string, n int64) *firestorepb.DocumentTransform_FieldTransform {
	return &firestorepb.DocumentTransform_FieldTransform{
		FieldPath:     path,
		TransformType: &firestorepb.DocumentTransform_FieldTransform_Increment{Increment: Int(n)},
	}
}

// ServerTime is the transform that sets a field to the time of the commit.
func ServerTime(path string) *firestorepb.DocumentTransform_FieldTransform {
	return &firestorepb.DocumentTransform_FieldTransform{
		FieldPath: path,
		TransformType: &firestorepb.DocumentTransform_FieldTransform_SetToServerValue{
			SetToServerValue: firestorepb.DocumentTransform_FieldTransform_REQUEST_TIME,
		},
	}
}

// Exists is the precondition that a document is there, or isn't.
func Exists(yes bool) *firestorepb.Precondition {
	return &firestorepb.Precondition{ConditionType: &firestorepb.Precondition_Exists{Exists: yes}}
}

// UpdatedAtTime is the precondition that a document is still the version of that update time.
func UpdatedAtTime(t time.Time) *firestorepb.Precondition {
	return &firestorepb.Precondition{ConditionType: &firestorepb.Precondition_UpdateTime{UpdateTime: timestamppb.New(t)}}
}

// Create is the write that makes a document which must not exist.
func Create(name string, fields map[string]*firestorepb.Value, transforms ...*firestorepb.DocumentTransform_FieldTransform) *firestorepb.Write {
	return &firestorepb.Write{
		Operation:        &firestorepb.Write_Update{Update: &firestorepb.Document{Name: name, Fields: fields}},
		UpdateTransforms: transforms,
		CurrentDocument:  Exists(false),
	}
}

// Update is the write that sets fields, of a map each of its entries, takes away what is at the
// paths that are removed (as of [FieldPath]), applies transforms, and leaves everything else in the
// document as it is.
func Update(name string, condition *firestorepb.Precondition, fields map[string]*firestorepb.Value, removed []string, transforms ...*firestorepb.DocumentTransform_FieldTransform) *firestorepb.Write {
	mask := slices.Clone(removed)
	for field, value := range fields {
		entries := value.GetMapValue()
		if entries == nil {
			mask = append(mask, layout.FieldPath(field))
		}
		for entry := range entries.GetFields() {
			mask = append(mask, layout.FieldPath(field, entry))
		}
	}
	return &firestorepb.Write{
		Operation: &firestorepb.Write_Update{Update: &firestorepb.Document{Name: name, Fields: fields}},
		// Present even when empty: an absent mask would replace the whole document.
		UpdateMask:       &firestorepb.DocumentMask{FieldPaths: mask},
		UpdateTransforms: transforms,
		CurrentDocument:  condition,
	}
}

// Delete is the write that deletes a document.
func Delete(name string) *firestorepb.Write {
	return &firestorepb.Write{Operation: &firestorepb.Write_Delete{Delete: name}}
}

// DeleteIf is the write that deletes a document that meets a condition, and fails otherwise. Of a
// document that is not to exist it changes nothing, and is there for that condition.
func DeleteIf(name string, condition *firestorepb.Precondition) *firestorepb.Write {
	w := Delete(name)
	w.CurrentDocument = condition
	return w
}
