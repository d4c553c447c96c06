package document

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/genproto/googleapis/type/latlng"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"
)

const testRoot = "projects/p/databases/(default)/documents"

func stringValue(s string) *pb.Value {
	return &pb.Value{ValueType: &pb.Value_StringValue{StringValue: s}}
}

func boolValue(b bool) *pb.Value {
	return &pb.Value{ValueType: &pb.Value_BooleanValue{BooleanValue: b}}
}

func referenceValue(name string) *pb.Value {
	return &pb.Value{ValueType: &pb.Value_ReferenceValue{ReferenceValue: testRoot + "/" + name}}
}

func mapOf(fields map[string]*pb.Value) *pb.Value {
	return &pb.Value{ValueType: &pb.Value_MapValue{MapValue: &pb.MapValue{Fields: fields}}}
}

// Values in their order; those of one line are equal.
func TestOrderOfValues(t *testing.T) {
	t.Parallel()
	bytesValue := func(b ...byte) *pb.Value { return &pb.Value{ValueType: &pb.Value_BytesValue{BytesValue: b}} }
	timeValue := func(s int64, ns int32) *pb.Value {
		return &pb.Value{ValueType: &pb.Value_TimestampValue{TimestampValue: &timestamppb.Timestamp{Seconds: s, Nanos: ns}}}
	}
	geo := func(lat, lng float64) *pb.Value {
		return &pb.Value{ValueType: &pb.Value_GeoPointValue{GeoPointValue: &latlng.LatLng{Latitude: lat, Longitude: lng}}}
	}
	vector := func(fs ...float64) *pb.Value {
		var vs []*pb.Value
		for _, f := range fs {
			vs = append(vs, Double(f))
		}
		return mapOf(map[string]*pb.Value{"__type__": stringValue("__vector__"), "value": Array(vs)})
	}
	order := [][]*pb.Value{
		{Null()},
		{boolValue(false)},
		{boolValue(true)},
		{Double(math.NaN()), Double(-math.NaN())},
		{Double(math.Inf(-1))},
		{Double(-1e300)},
		{Int(math.MinInt64), Double(math.MinInt64)},
		{Int(math.MinInt64 + 1)},
		{Int(-1), Double(-1)},
		{Double(-0.5)},
		{Int(0), Double(0), Double(math.Copysign(0, -1))},
		{Double(math.SmallestNonzeroFloat64)},
		{Int(1), Double(1)},
		{Double(1.5)},
		{Int(1 << 53), Double(1 << 53)},
		{Int(1<<53 + 1)}, // no double is this one
		{Double(1<<53 + 2), Int(1<<53 + 2)},
		{Int(math.MaxInt64 - 1)},
		{Int(math.MaxInt64)},
		{Double(math.MaxInt64)}, // 2^63
		{Double(math.Inf(1))},
		{timeValue(-1, 0)},
		{timeValue(0, 1000)},
		{timeValue(1, 0)},
		{stringValue("")},
		{stringValue("a")},
		{stringValue("aa")},
		{stringValue("b")},
		{stringValue("\uffff")},
		{stringValue("\U0001f600")}, // after U+FFFF in UTF-8, before it in UTF-16
		{bytesValue()},
		{bytesValue(0)},
		{bytesValue(255)},
		{referenceValue("a/__id-7__")},
		{referenceValue("a/__id2__")},
		{referenceValue("a/__id10__")},
		{referenceValue("a/\tb")},
		{referenceValue("a/b")},
		{referenceValue("a/b/c/d")},
		{referenceValue("a/b-")}, // ids are compared one by one, and "-" is before "/"
		{referenceValue("b/a")},
		{geo(-1, 5)},
		{geo(-1, 6)},
		{geo(0, 0)},
		{Array(nil)},
		{Array([]*pb.Value{Int(1)}), Array([]*pb.Value{Double(1)})},
		{Array([]*pb.Value{Int(1), Int(0)})},
		{Array([]*pb.Value{stringValue("")})},
		{vector(9)},
		{vector(1, 2)},
		{vector(1, 3)},
		{mapOf(nil)},
		{mapOf(map[string]*pb.Value{"a": Int(1)})},
		{mapOf(map[string]*pb.Value{"a": Int(1), "b": Int(0)})},
		{mapOf(map[string]*pb.Value{"a": Int(2)})},
		{mapOf(map[string]*pb.Value{"b": Null()})},
	}
	for i, as := range order {
		for j, bs := range order {
			for _, a := range as {
				for _, b := range bs {
					if got, want := Compare(a, b), cmp.Compare(i, j); got != want {
						t.Errorf("%v against %v: %d, want %d", a, b, got, want)
					}
				}
			}
		}
	}
	for _, equal := range order {
		for i, a := range equal {
			for j, b := range equal {
				// NaNs are all one; 1 and 1.0, 0.0 and -0.0 are not the same to a write.
				if got, want := Identical(a, b), i == j || IsNaN(a); got != want {
					t.Errorf("identical(%v, %v) is %v", a, b, got)
				}
			}
		}
	}
}

func TestFieldPaths(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]Path{
		"a":               {"a"},
		"a.b_1._c":        {"a", "b_1", "_c"},
		"`a.b`.c":         {"a.b", "c"},
		"`1`":             {"1"},
		"`\\`\\\\`":       {"`\\"},
		"shards.`\tx-1`":  {"shards", "\tx-1"},
		"":                nil,
		".":               nil,
		"a.":              nil,
		".a":              nil,
		"a..b":            nil,
		"1a":              nil,
		"a b":             nil,
		"a-b":             nil,
		"ü":               nil,
		"`a":              nil,
		"`a\\":            nil,
		"`a`b":            nil,
		"``":              nil,
		"a.``":            nil,
		"`a`.":            nil,
		"a`b`":            nil,
		"__name__":        {NameField},
		"`a`.`b`.c.`d e`": {"a", "b", "c", "d e"},
	} {
		got, err := ParsePath(s)
		if (err == nil) != (want != nil) || !slices.Equal(got, want) {
			t.Errorf("parseFieldPath(%q) is %q, %v; want %q", s, got, err, want)
		}
	}
}

func FuzzFieldPath(f *testing.F) {
	for _, s := range []string{"a", "a.b", "`a.b`", "`\\``", "a..b", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		path, err := ParsePath(s)
		if err != nil {
			return
		}
		again, err := ParsePath(path.String())
		if err != nil || !slices.Equal(again, path) {
			t.Errorf("%q reads as %q, is written as %q and reads as %q (%v)", s, path, path.String(), again, err)
		}
	})
}

// Names are in order id by id, numeric ids first, wherever two begin to differ.
func TestOrderOfNames(t *testing.T) {
	t.Parallel()
	id := rapid.SampledFrom([]string{"", "a", "ab", "a!", "é", "__id7__", "__id10__", "__id-7__", "__id7", "__id07__", "__"})
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.SliceOfN(id, 1, 4).Draw(t, "a"), rapid.SliceOfN(id, 1, 4).Draw(t, "b")
		want := slices.CompareFunc(a, b, CompareIDs)
		if got := CompareNames(strings.Join(a, "/"), strings.Join(b, "/")); got != want {
			t.Fatalf("%q and %q compare as %d, want %d", a, b, got, want)
		}
	})
}
