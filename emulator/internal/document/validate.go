package document

import (
	"math"
	"strings"
	"unicode/utf8"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Firestore's limits on documents.
const (
	MaxBytes          = 1 << 20
	maxValueBytes     = MaxBytes - 89 // a string or bytes value, after the official emulator
	maxFieldNameBytes = 1500
	maxFieldPathBytes = 1500 // names and dots, unquoted
	maxValueDepth     = 20
)

// CheckField refuses what can't name a field of a document.
func CheckField(name string) error {
	switch {
	case name == "":
		return invalid("Property name is empty.")
	case len(name) > maxFieldNameBytes:
		return invalid("Property name is longer than %d bytes: %.80q…", maxFieldNameBytes, name)
	case !utf8.ValidString(name):
		return invalid("Property name is not valid UTF-8: %q.", name)
	case Reserved(name):
		return invalid("Property names of the form __.*__ are reserved: %q.", name)
	}
	return nil
}

// CheckPath refuses paths that no write can touch.
func CheckPath(path Path) error {
	if len(path) > maxValueDepth+1 { // as many maps, and a field in the last
		return invalid("Property path is deeper than %d levels: %q.", maxValueDepth, path)
	}
	for _, name := range path {
		if err := CheckField(name); err != nil {
			return err
		}
	}
	return nil
}

// CheckFields refuses what can't be stored, and cuts timestamps to microseconds, as Firestore does.
// path is how many bytes lead to the fields, dots included.
func CheckFields(fields map[string]*pb.Value, depth, path int) error {
	if depth > maxValueDepth {
		return invalid("Property contains values nested deeper than %d levels.", maxValueDepth)
	}
	for name, v := range fields {
		if err := CheckField(name); err != nil {
			return err
		}
		if path+len(name) > maxFieldPathBytes {
			return invalid("Property path is longer than %d bytes: it ends in %.80q.", maxFieldPathBytes, name)
		}
		if err := checkValue(v, depth, path+len(name)+1); err != nil {
			return invalid("Property %s: %s", name, status.Convert(err).Message())
		}
	}
	return nil
}

func checkValue(v *pb.Value, depth, path int) error {
	switch t := v.GetValueType().(type) {
	case *pb.Value_NullValue, *pb.Value_BooleanValue, *pb.Value_IntegerValue, *pb.Value_DoubleValue:
		return nil
	case *pb.Value_TimestampValue:
		return checkTimestamp(t)
	case *pb.Value_StringValue:
		return checkValueBytes(len(t.StringValue))
	case *pb.Value_BytesValue:
		return checkValueBytes(len(t.BytesValue))
	case *pb.Value_ReferenceValue:
		database, err := DatabaseOf(t.ReferenceValue)
		if err != nil {
			return err
		}
		return CheckName(database, t.ReferenceValue)
	case *pb.Value_GeoPointValue:
		lat, lng := t.GeoPointValue.GetLatitude(), t.GeoPointValue.GetLongitude()
		if !(math.Abs(lat) <= 90 && math.Abs(lng) <= 180) {
			return invalid("Geo point (%v, %v) is out of range.", lat, lng)
		}
		if t.GeoPointValue == nil {
			return invalid("Value has no geo point.")
		}
		return nil
	case *pb.Value_ArrayValue:
		return CheckArray(t.ArrayValue, depth+1, path)
	case *pb.Value_MapValue:
		if isVector(t.MapValue) {
			return checkVector(t.MapValue.Fields["value"].GetArrayValue())
		}
		return CheckFields(t.MapValue.GetFields(), depth+1, path)
	case nil:
		return invalid("Value has no type.")
	default:
		return invalid("%T can't be stored.", t)
	}
}

// maxIndexedBytes is how large a value may be that a query compares with.
const maxIndexedBytes = 1500

// Indexed reports whether a value is small enough for an index: beyond, a query can't compare with
// it.
func Indexed(v *pb.Value) bool { return indexedSize(v) <= maxIndexedBytes }

// indexedSize is a value's size in an index, where maps have no size of their own.
func indexedSize(v *pb.Value) int {
	n := 0
	switch t := v.GetValueType().(type) {
	case *pb.Value_ArrayValue:
		for _, e := range t.ArrayValue.GetValues() {
			n += indexedSize(e)
		}
	case *pb.Value_MapValue:
		for name, e := range t.MapValue.GetFields() {
			n += len(name) + 1 + indexedSize(e)
		}
	default:
		n = valueSize(v)
	}
	return n
}

// CheckOperand refuses values that no document can hold, as what a query compares with. Lists in
// lists, and fields whatever their names are but for those that are reserved, are nobody's.
func CheckOperand(v *pb.Value) error {
	switch t := v.GetValueType().(type) {
	case nil:
		return invalid("Cannot convert firestore.v1.Value with type unset.")
	case *pb.Value_ArrayValue:
		for _, e := range t.ArrayValue.GetValues() {
			if err := CheckOperand(e); err != nil {
				return err
			}
		}
		return nil
	case *pb.Value_MapValue:
		if isVector(t.MapValue) {
			return nil
		}
		for name, e := range t.MapValue.GetFields() {
			if Reserved(name) {
				return invalid("Property names of the form __.*__ are reserved: %q.", name)
			}
			if err := CheckOperand(e); err != nil {
				return err
			}
		}
		return nil
	}
	return checkValue(v, 0, 0)
}

func checkTimestamp(t *pb.Value_TimestampValue) error {
	if err := t.TimestampValue.CheckValid(); err != nil {
		return invalid("Invalid timestamp: %v.", err)
	}
	if sub := t.TimestampValue.Nanos % 1000; sub != 0 {
		t.TimestampValue = &timestamppb.Timestamp{Seconds: t.TimestampValue.Seconds, Nanos: t.TimestampValue.Nanos - sub}
	}
	return nil
}

func checkValueBytes(n int) error {
	if n > maxValueBytes {
		return invalid("The value is longer than %d bytes.", maxValueBytes)
	}
	return nil
}

// CheckArray refuses an array that can't be stored; see CheckFields.
func CheckArray(a *pb.ArrayValue, depth, path int) error {
	if depth > maxValueDepth {
		return invalid("Property contains values nested deeper than %d levels.", maxValueDepth)
	}
	for _, v := range a.GetValues() {
		if _, nested := v.GetValueType().(*pb.Value_ArrayValue); nested {
			return invalid("Cannot convert an array value in an array value.")
		}
		if err := checkValue(v, depth, path); err != nil {
			return err
		}
	}
	return nil
}

func checkVector(a *pb.ArrayValue) error {
	if n := len(a.GetValues()); n == 0 || n > 2048 {
		return invalid("A vector has 1 to 2048 dimensions, not %d.", n)
	}
	for _, v := range a.Values {
		if !IsNumber(v) {
			return invalid("A vector holds numbers only.")
		}
	}
	return nil
}

// Sizes as Firestore counts them: https://firebase.google.com/docs/firestore/storage-size

// Size is a document's size.
func Size(name string, fields map[string]*pb.Value) int {
	return nameSize(name) + fieldsSize(fields)
}

// nameSize counts the ids below the database, one byte more for each, and 16.
func nameSize(name string) int {
	if i := strings.Index(name, "/documents/"); i >= 0 {
		name = name[i+len("/documents/"):]
	}
	return len(name) + 1 + 16
}

func fieldsSize(fields map[string]*pb.Value) int {
	n := 32
	for name, v := range fields {
		n += len(name) + 1 + valueSize(v)
	}
	return n
}

func valueSize(v *pb.Value) int {
	switch t := v.GetValueType().(type) {
	case *pb.Value_IntegerValue, *pb.Value_DoubleValue, *pb.Value_TimestampValue:
		return 8
	case *pb.Value_StringValue:
		return len(t.StringValue) + 1
	case *pb.Value_BytesValue:
		return len(t.BytesValue)
	case *pb.Value_ReferenceValue:
		return nameSize(t.ReferenceValue)
	case *pb.Value_GeoPointValue:
		return 16
	case *pb.Value_ArrayValue:
		n := 0
		for _, e := range t.ArrayValue.GetValues() {
			n += valueSize(e)
		}
		return n
	case *pb.Value_MapValue:
		return fieldsSize(t.MapValue.GetFields())
	}
	return 1
}
