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

// Float is a number as a double; false if it isn't a number. Beyond ±2⁵³ it is the nearest double.
func Float(v *firestorepb.Value) (float64, bool) {
	switch n := v.GetValueType().(type) {
	case *firestorepb.Value_IntegerValue:
		return float64(n.IntegerValue), true
	case *firestorepb.Value_DoubleValue:
		return n.DoubleValue, true
	}
	return 0, false
}

// Number is a number as a pointer to a double, for JSON. It is nil for what JSON lacks, NaN and the
// infinities, and for what isn't a number.
func Number(v *firestorepb.Value) *float64 {
	if f, ok := Float(v); ok && !math.IsNaN(f) && !math.IsInf(f, 0) {
		return &f
	}
	return nil
}

// ErrNotInteger says that a value is not a whole number, or is a double from ±2⁵³ on.
var ErrNotInteger = errors.New("not an integer")

// IsInteger reports whether a value has the type integer: a double such as 5.0 hasn't.
func IsInteger(v *firestorepb.Value) bool {
	_, is := v.GetValueType().(*firestorepb.Value_IntegerValue)
	return is
}

// Integer is the integer that a value stands for; 0 if there is no value. A whole double within ±2⁵³
// counts, because one client's increment(1.0) makes a field a double for good. From 2⁵³ on a double
// may stand for two integers. For those, and for anything else, Integer reports false.
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

// Update is the write that sets fields, deletes the fields at the paths in removed (see [FieldPath]),
// and applies transforms. It sets each entry of a map by itself, and leaves everything else in the
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
		// Present even if empty: without a mask, the write would replace the whole document.
		UpdateMask:       &firestorepb.DocumentMask{FieldPaths: mask},
		UpdateTransforms: transforms,
		CurrentDocument:  condition,
	}
}

// Delete is the write that deletes a document.
func Delete(name string) *firestorepb.Write {
	return &firestorepb.Write{Operation: &firestorepb.Write_Delete{Delete: name}}
}

// DeleteIf is the write that deletes a document if it meets a condition, and fails otherwise. With the
// condition that the document doesn't exist, it changes nothing, and only checks that.
func DeleteIf(name string, condition *firestorepb.Precondition) *firestorepb.Write {
	w := Delete(name)
	w.CurrentDocument = condition
	return w
}
