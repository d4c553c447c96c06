package engine

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
)

// rank is a type's place in the order of values. Values of one rank compare with each other, and a range filter
// matches only values of its operand's rank.
type rank int

const (
	rankNull rank = iota
	rankBool
	rankNumber
	rankTimestamp
	rankString
	rankBytes
	rankReference
	rankGeoPoint
	rankArray
	rankVector
	rankMap
)

func rankOf(v *pb.Value) rank {
	switch t := v.GetValueType().(type) {
	case *pb.Value_BooleanValue:
		return rankBool
	case *pb.Value_IntegerValue, *pb.Value_DoubleValue:
		return rankNumber
	case *pb.Value_TimestampValue:
		return rankTimestamp
	case *pb.Value_StringValue:
		return rankString
	case *pb.Value_BytesValue:
		return rankBytes
	case *pb.Value_ReferenceValue:
		return rankReference
	case *pb.Value_GeoPointValue:
		return rankGeoPoint
	case *pb.Value_ArrayValue:
		return rankArray
	case *pb.Value_MapValue:
		if isVector(t.MapValue) {
			return rankVector
		}
		return rankMap
	}
	return rankNull
}

// isVector tells whether a map is how a vector is written: {"__type__": "__vector__", "value": [doubles]}.
func isVector(m *pb.MapValue) bool {
	return len(m.GetFields()) == 2 && m.Fields["__type__"].GetStringValue() == "__vector__" &&
		m.Fields["value"].GetArrayValue() != nil
}

func compareOrdered[T cmp.Ordered](a, b T) int { return cmp.Compare(a, b) }

// compareValues is Firestore's order of values: by type first, numbers by their exact value with NaN before all others.
// It is 0 for values that a query calls equal, such as 1 and 1.0.
func compareValues(a, b *pb.Value) int {
	ra, rb := rankOf(a), rankOf(b)
	if ra != rb {
		return cmp.Compare(ra, rb)
	}
	switch ra {
	case rankBool:
		return compareBool(a.GetBooleanValue(), b.GetBooleanValue())
	case rankNumber:
		return compareNumbers(a, b)
	case rankTimestamp:
		x, y := a.GetTimestampValue(), b.GetTimestampValue()
		return cmp.Or(cmp.Compare(x.Seconds, y.Seconds), cmp.Compare(x.Nanos, y.Nanos))
	case rankString:
		return strings.Compare(a.GetStringValue(), b.GetStringValue())
	case rankBytes:
		return bytes.Compare(a.GetBytesValue(), b.GetBytesValue())
	case rankReference:
		return compareNames(a.GetReferenceValue(), b.GetReferenceValue())
	case rankGeoPoint:
		x, y := a.GetGeoPointValue(), b.GetGeoPointValue()
		return cmp.Or(cmp.Compare(x.Latitude, y.Latitude), cmp.Compare(x.Longitude, y.Longitude))
	case rankArray:
		return slices.CompareFunc(a.GetArrayValue().GetValues(), b.GetArrayValue().GetValues(), compareValues)
	case rankVector:
		x := a.GetMapValue().Fields["value"].GetArrayValue().GetValues()
		y := b.GetMapValue().Fields["value"].GetArrayValue().GetValues()
		return cmp.Or(cmp.Compare(len(x), len(y)), slices.CompareFunc(x, y, compareValues))
	case rankMap:
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
		if c := compareValues(a[ka[i]], b[kb[i]]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(ka), len(kb))
}

func compareNumbers(a, b *pb.Value) int {
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

// compareDoubleInt compares by exact value: a conversion of n to a double would call 2^53 and 2^53+1 the same.
func compareDoubleInt(f float64, n int64) int {
	switch {
	case math.IsNaN(f) || f < math.MinInt64:
		return -1
	case f >= math.MaxInt64: // as a double this is 2^63, which no int64 reaches
		return 1
	}
	whole := math.Trunc(f)
	if c := cmp.Compare(int64(whole), n); c != 0 {
		return c
	}
	return cmp.Compare(f, whole)
}

// identical tells whether writing b over a changes nothing. It is stricter than compareValues: 1 and 1.0 differ.
func identical(a, b *pb.Value) bool {
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
		return ok && slices.EqualFunc(x.ArrayValue.GetValues(), y.ArrayValue.GetValues(), identical)
	case *pb.Value_MapValue:
		y, ok := b.GetValueType().(*pb.Value_MapValue)
		return ok && identicalFields(x.MapValue.GetFields(), y.MapValue.GetFields())
	}
	return rankOf(a) == rankOf(b) && compareValues(a, b) == 0
}

func identicalFields(a, b map[string]*pb.Value) bool { return maps.EqualFunc(a, b, identical) }

func isNumber(v *pb.Value) bool { return v != nil && rankOf(v) == rankNumber }

func isNaN(v *pb.Value) bool {
	d, ok := v.GetValueType().(*pb.Value_DoubleValue)
	return ok && math.IsNaN(d.DoubleValue)
}

func isNull(v *pb.Value) bool {
	_, ok := v.GetValueType().(*pb.Value_NullValue)
	return ok
}

func asDouble(v *pb.Value) float64 {
	if n, ok := v.GetValueType().(*pb.Value_IntegerValue); ok {
		return float64(n.IntegerValue)
	}
	return v.GetDoubleValue()
}

func intValue(n int64) *pb.Value {
	return &pb.Value{ValueType: &pb.Value_IntegerValue{IntegerValue: n}}
}

func doubleValue(f float64) *pb.Value {
	return &pb.Value{ValueType: &pb.Value_DoubleValue{DoubleValue: f}}
}

func nullValue() *pb.Value { return &pb.Value{ValueType: &pb.Value_NullValue{}} }

func arrayValue(values []*pb.Value) *pb.Value {
	return &pb.Value{ValueType: &pb.Value_ArrayValue{ArrayValue: &pb.ArrayValue{Values: values}}}
}
