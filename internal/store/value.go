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

// IfVersion is the precondition that a document is still the version of that update time.
func IfVersion(t time.Time) *firestorepb.Precondition {
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

// CreateOver is [Create] where the version is zero. Otherwise it makes the document in the place of the one that is
// there, on condition that it is still the version of that update time.
func CreateOver(name string, version time.Time, fields map[string]*firestorepb.Value, transforms ...*firestorepb.DocumentTransform_FieldTransform) *firestorepb.Write {
	w := Create(name, fields, transforms...)
	if !version.IsZero() {
		w.CurrentDocument = IfVersion(version)
	}
	return w
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

// Add is the sum of all terms. A sum beyond the int64s is the largest or smallest int64, as with
// Firestore's own increments. The order of the terms doesn't matter.
func Add(terms ...int64) int64 {
	var w wide
	for _, n := range terms {
		w.add(n)
	}
	return w.clamp()
}

// Sub is a minus b, with the limits of [Add].
func Sub(a, b int64) int64 {
	var w wide
	w.add(a)
	w.sub(b)
	return w.clamp()
}

// Parts are int64s that add up to the sum of all terms: one, or as few as a sum beyond the int64s
// takes. They are never more than the terms.
func Parts(terms ...int64) (parts []int64) {
	var w wide
	for _, n := range terms {
		w.add(n)
	}
	for more := true; more; more = w.hi != 0 || w.lo != 0 {
		n := w.clamp()
		w.sub(n)
		w.hi, w.lo = w.hi+w.lo>>32, w.lo&math.MaxUint32
		parts = append(parts, n)
	}
	return parts
}

// wide is hi<<32 + lo, a sum of int64s. It doesn't overflow with fewer than 2³¹ terms, so their
// order doesn't matter.
type wide struct{ hi, lo int64 }

func (w *wide) add(n int64) { w.hi += n >> 32; w.lo += n & math.MaxUint32 }
func (w *wide) sub(n int64) { w.hi -= n >> 32; w.lo -= n & math.MaxUint32 }

func (w wide) clamp() int64 {
	hi, lo := w.hi+w.lo>>32, w.lo&math.MaxUint32
	switch {
	case hi > math.MaxInt32:
		return math.MaxInt64
	case hi < math.MinInt32:
		return math.MinInt64
	}
	return hi<<32 | lo
}
