package document

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
)

// Rank is a type's place in the order of values. Values of one rank compare with each other, and a
// range filter matches only values of its operand's rank.
type Rank int

const (
	RankNull Rank = iota
	RankBool
	RankNumber
	RankTimestamp
	RankString
	RankBytes
	RankReference
	RankGeoPoint
	RankArray
	RankVector
	RankMap
)

// RankOf is the rank of a value's type.
func RankOf(v *pb.Value) Rank {
	switch t := v.GetValueType().(type) {
	case *pb.Value_BooleanValue:
		return RankBool
	case *pb.Value_IntegerValue, *pb.Value_DoubleValue:
		return RankNumber
	case *pb.Value_TimestampValue:
		return RankTimestamp
	case *pb.Value_StringValue:
		return RankString
	case *pb.Value_BytesValue:
		return RankBytes
	case *pb.Value_ReferenceValue:
		return RankReference
	case *pb.Value_GeoPointValue:
		return RankGeoPoint
	case *pb.Value_ArrayValue:
		return RankArray
	case *pb.Value_MapValue:
		if isVector(t.MapValue) {
			return RankVector
		}
		return RankMap
	}
	return RankNull
}

// isVector reports whether a map is how a vector is written: {"__type__": "__vector__", "value":
// [doubles]}.
func isVector(m *pb.MapValue) bool {
	return len(m.GetFields()) == 2 && m.Fields["__type__"].GetStringValue() == "__vector__" &&
		m.Fields["value"].GetArrayValue() != nil
}

// Compare is Firestore's order of values: by type first, numbers by their exact value with NaN
// before all others. It is 0 for values that a query calls equal, such as 1 and 1.0.
func Compare(a, b *pb.Value) int {
	ra, rb := RankOf(a), RankOf(b)
	if ra != rb {
		return cmp.Compare(ra, rb)
	}
	switch ra {
	case RankBool:
		return compareBool(a.GetBooleanValue(), b.GetBooleanValue())
	case RankNumber:
		return CompareNumbers(a, b)
	case RankTimestamp:
		x, y := a.GetTimestampValue(), b.GetTimestampValue()
		return cmp.Or(cmp.Compare(x.Seconds, y.Seconds), cmp.Compare(x.Nanos, y.Nanos))
	case RankString:
		return strings.Compare(a.GetStringValue(), b.GetStringValue())
	case RankBytes:
		return bytes.Compare(a.GetBytesValue(), b.GetBytesValue())
	case RankReference:
		return CompareNames(a.GetReferenceValue(), b.GetReferenceValue())
	case RankGeoPoint:
		x, y := a.GetGeoPointValue(), b.GetGeoPointValue()
		return cmp.Or(cmp.Compare(x.Latitude, y.Latitude), cmp.Compare(x.Longitude, y.Longitude))
	case RankArray:
		return slices.CompareFunc(a.GetArrayValue().GetValues(), b.GetArrayValue().GetValues(), Compare)
	case RankVector:
		x := a.GetMapValue().Fields["value"].GetArrayValue().GetValues()
		y := b.GetMapValue().Fields["value"].GetArrayValue().GetValues()
		return cmp.Or(cmp.Compare(len(x), len(y)), slices.CompareFunc(x, y, Compare))
	case RankMap:
		return compareMaps(a.GetMapValue().GetFields(), b.GetMapValue().GetFields())
	}
	return 0
}

func compareMaps(a, b map[string]*pb.Value) int {
	ka, kb := slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))
	for i := 0; i < len(ka) && i < len(kb); i++ {
		if c := strings.Compare(ka[i], kb[i]); c != 0 {
			return c
		}
		if c := Compare(a[ka[i]], b[kb[i]]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(ka), len(kb))
}

// CompareNumbers compares numbers by their exact value.
func CompareNumbers(a, b *pb.Value) int {
	x, aInt := a.GetValueType().(*pb.Value_IntegerValue)
	y, bInt := b.GetValueType().(*pb.Value_IntegerValue)
	switch {
	case aInt && bInt:
		return cmp.Compare(x.IntegerValue, y.IntegerValue)
	case aInt:
		return -compareDoubleInt(b.GetDoubleValue(), x.IntegerValue)
	case bInt:
		return compareDoubleInt(a.GetDoubleValue(), y.IntegerValue)
	}
	return cmp.Compare(a.GetDoubleValue(), b.GetDoubleValue()) // NaN first, -0 equals 0
}

// compareDoubleInt compares by exact value: a conversion of n to a double would call 2^53 and
// 2^53+1 the same.
func compareDoubleInt(f float64, n int64) int {
	switch {
	case math.IsNaN(f) || f < math.MinInt64:
		return -1
	case f >= math.MaxInt64: // as a double this is 2^63, which is beyond an int64
		return 1
	}
	whole := math.Trunc(f)
	if c := cmp.Compare(int64(whole), n); c != 0 {
		return c
	}
	return cmp.Compare(f, whole)
}

// Identical reports whether writing b over a changes nothing. It is stricter than Compare: 1 and
// 1.0 differ.
func Identical(a, b *pb.Value) bool {
	if a == b {
		return true
	}
	switch x := a.GetValueType().(type) {
	case *pb.Value_NullValue:
		_, ok := b.GetValueType().(*pb.Value_NullValue)
		return ok
	case *pb.Value_BooleanValue:
		y, ok := b.GetValueType().(*pb.Value_BooleanValue)
		return ok && x.BooleanValue == y.BooleanValue
	case *pb.Value_IntegerValue:
		y, ok := b.GetValueType().(*pb.Value_IntegerValue)
		return ok && x.IntegerValue == y.IntegerValue
	case *pb.Value_DoubleValue:
		y, ok := b.GetValueType().(*pb.Value_DoubleValue)
		return ok && (math.Float64bits(x.DoubleValue) == math.Float64bits(y.DoubleValue) ||
			math.IsNaN(x.DoubleValue) && math.IsNaN(y.DoubleValue))
	case *pb.Value_ArrayValue:
		y, ok := b.GetValueType().(*pb.Value_ArrayValue)
		return ok && slices.EqualFunc(x.ArrayValue.GetValues(), y.ArrayValue.GetValues(), Identical)
	case *pb.Value_MapValue:
		y, ok := b.GetValueType().(*pb.Value_MapValue)
		return ok && IdenticalFields(x.MapValue.GetFields(), y.MapValue.GetFields())
	}
	return RankOf(a) == RankOf(b) && Compare(a, b) == 0
}

// IdenticalFields is Identical for sets of fields.
func IdenticalFields(a, b map[string]*pb.Value) bool { return maps.EqualFunc(a, b, Identical) }

// Contains reports whether a value equals one of several, as queries have it.
func Contains(values []*pb.Value, v *pb.Value) bool {
	return slices.ContainsFunc(values, func(x *pb.Value) bool { return Compare(x, v) == 0 })
}

// IsNumber tells integers and doubles from all else.
func IsNumber(v *pb.Value) bool { return v != nil && RankOf(v) == RankNumber }

// IsNaN tells the double that is not a number.
func IsNaN(v *pb.Value) bool {
	d, ok := v.GetValueType().(*pb.Value_DoubleValue)
	return ok && math.IsNaN(d.DoubleValue)
}

// IsNull tells null; a value that is missing is not.
func IsNull(v *pb.Value) bool {
	_, ok := v.GetValueType().(*pb.Value_NullValue)
	return ok
}

// Float is a number as a double.
func Float(v *pb.Value) float64 {
	if n, ok := v.GetValueType().(*pb.Value_IntegerValue); ok {
		return float64(n.IntegerValue)
	}
	return v.GetDoubleValue()
}

// Int makes an integer value.
func Int(n int64) *pb.Value {
	return &pb.Value{ValueType: &pb.Value_IntegerValue{IntegerValue: n}}
}

// Double makes a double value.
func Double(f float64) *pb.Value {
	return &pb.Value{ValueType: &pb.Value_DoubleValue{DoubleValue: f}}
}

// Null makes a null value.
func Null() *pb.Value { return &pb.Value{ValueType: &pb.Value_NullValue{}} }

// Array makes an array value.
func Array(values []*pb.Value) *pb.Value {
	return &pb.Value{ValueType: &pb.Value_ArrayValue{ArrayValue: &pb.ArrayValue{Values: values}}}
}
