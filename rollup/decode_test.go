package rollup

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/go-cmp/cmp"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/firestore-counters/counters/internal/book"
	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// start is a time, and at so many seconds after it.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return start.Add(d) }

const shardName = "projects/p/databases/(default)/documents/counters/post-123/shards/7"

func shardDoc(name string, updated time.Time, count *firestoredata.Value) *firestoredata.Document {
	doc := &firestoredata.Document{Name: name, CreateTime: timestamppb.New(at(1)), UpdateTime: timestamppb.New(updated)}
	if count != nil {
		doc.Fields = map[string]*firestoredata.Value{"count": count}
	}
	return doc
}

// testLayout is the default one.
var testLayout = func() layout.Layout {
	path, err := layout.ParsePath(layout.DefaultPath)
	if err != nil {
		panic(err)
	}
	return layout.Layout{Database: "projects/p/databases/(default)", Path: path, Sharded: layout.Fields{{Name: "total", Shard: "count"}}, Shards: layout.DefaultShards}
}()

func integer(n int64) *firestoredata.Value {
	return &firestoredata.Value{ValueType: &firestoredata.Value_IntegerValue{IntegerValue: n}}
}

func double(f float64) *firestoredata.Value {
	return &firestoredata.Value{ValueType: &firestoredata.Value_DoubleValue{DoubleValue: f}}
}

func text(s string) *firestoredata.Value {
	return &firestoredata.Value{ValueType: &firestoredata.Value_StringValue{StringValue: s}}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		value, old *firestoredata.Document
		want       Change
	}{
		{"created", shardDoc(shardName, at(10), integer(5)), nil, Change{Delta: map[string]int64{"total": 5}, At: at(10)}},
		{"updated", shardDoc(shardName, at(20), integer(3)), shardDoc(shardName, at(10), integer(5)), Change{Delta: map[string]int64{"total": -2}, At: at(20)}},
		{"a double", shardDoc(shardName, at(20), double(3.5)), shardDoc(shardName, at(10), integer(2)), Change{Delta: map[string]int64{"total": 1}, At: at(20)}},
		{"the same as a double", shardDoc(shardName, at(20), double(3)), shardDoc(shardName, at(10), integer(3)), Change{Delta: map[string]int64{"total": 0}, At: at(20)}},
		{"deleted", nil, shardDoc(shardName, at(20), integer(3)), Change{Delta: map[string]int64{"total": -3}, Gone: true}},
		{"no count", shardDoc(shardName, at(20), nil), shardDoc(shardName, at(10), integer(5)), Change{Delta: map[string]int64{"total": -5}, At: at(20)}},
		{"a text", shardDoc(shardName, at(20), text("three")), shardDoc(shardName, at(10), integer(5)), Change{Delta: map[string]int64{"total": -5}, At: at(20)}},
		{"mended", shardDoc(shardName, at(20), integer(3)), shardDoc(shardName, at(10), text("three")), Change{Delta: map[string]int64{"total": 3}, At: at(20)}},
		{"a broken one deleted", nil, shardDoc(shardName, at(20), text("three")), Change{Delta: map[string]int64{"total": 0}, Gone: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			event := &firestoredata.DocumentEventData{Value: tt.value, OldValue: tt.old}
			binary, err := proto.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			json, err := protojson.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			for contentType, data := range map[string][]byte{"application/protobuf": binary, "application/json; charset=utf-8": json} {
				got, err := decode(testLayout, contentType, data)
				if err != nil {
					t.Fatalf("%s: %v", contentType, err)
				}
				want := tt.want
				want.Counter, want.Shard, want.Fields = "post-123", "7", []string{"total"}
				if diff := cmp.Diff([]Change{want}, got); diff != "" {
					t.Errorf("%s: (-want +got)\n%s", contentType, diff)
				}
			}
		})
	}
}

func TestDecodePoison(t *testing.T) {
	t.Parallel()
	binary := func(value, old *firestoredata.Document) string {
		data, err := proto.Marshal(&firestoredata.DocumentEventData{Value: value, OldValue: old})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	other := strings.Replace(shardName, "/7", "/8", 1)
	noTime := shardDoc(shardName, at(1), integer(1))
	noTime.UpdateTime = nil
	const protobuf = "application/protobuf"
	tests := []struct{ name, contentType, data string }{
		{"not a protocol buffer", protobuf, "\xff\xff\xff"},
		{"not JSON", "application/json", "{"},
		{"content type unknown", "text/plain", ""},
		{"content type malformed", ";;", ""},
		{"no document", protobuf, ""},
		{"not a shard", protobuf, binary(shardDoc("projects/p/databases/(default)/documents/counters/c", at(1), integer(1)), nil)},
		{"deeper than a shard", protobuf, binary(shardDoc(shardName+"/a/b", at(1), integer(1)), nil)},
		{"another subcollection", protobuf, binary(shardDoc(strings.Replace(shardName, "shards", "likes", 1), at(1), integer(1)), nil)},
		{"empty id", protobuf, binary(shardDoc(strings.Replace(shardName, "post-123", "", 1), at(1), integer(1)), nil)},
		{"two names", protobuf, binary(shardDoc(shardName, at(2), integer(2)), shardDoc(other, at(1), integer(1)))},
		{"no update time", protobuf, binary(noTime, nil)},
		{"no update time of a deletion", protobuf, binary(nil, noTime)},
		{"a shard's id that no document can have", protobuf, binary(shardDoc(strings.Replace(shardName, "/7", "/..", 1), at(1), integer(1)), nil)},
		{"a reserved id of a shard", protobuf, binary(shardDoc(strings.Replace(shardName, "/7", "/__x__", 1), at(1), integer(1)), nil)},
		{"too long an id of a shard", protobuf, binary(shardDoc(strings.Replace(shardName, "/7", "/"+strings.Repeat("x", 1501), 1), at(1), integer(1)), nil)},
		{"a counter's id that no document can have", protobuf, binary(shardDoc(strings.Replace(shardName, "post-123", "__x__", 1), at(1), integer(1)), nil)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := decode(testLayout, tt.contentType, []byte(tt.data))
			if !errors.Is(err, ErrPoison) {
				t.Errorf("Decode = %+v, %v, want ErrPoison", got, err)
			}
		})
	}
}

// An event names the fields that differ, and none where nothing does that is shown here.
func TestDecodeSeveralFields(t *testing.T) {
	t.Parallel()
	names := testLayout
	names.Sharded = layout.Fields{{Name: "views", Shard: "v"}, {Name: "likes", Shard: "likes"}}
	doc := func(fields map[string]*firestoredata.Value) *firestoredata.Document {
		d := shardDoc(shardName, at(10), nil)
		d.Fields = fields
		return d
	}
	type fields = map[string]*firestoredata.Value
	for _, tt := range []struct {
		name       string
		value, old *firestoredata.Document
		want       map[string]int64
	}{
		{"both", doc(fields{"likes": integer(1), "v": integer(3)}), nil, map[string]int64{"likes": 1, "views": 3}},
		{"one", doc(fields{"likes": integer(1), "v": integer(3)}), doc(fields{"likes": integer(1), "v": integer(4)}), map[string]int64{"views": -1}},
		{"one is missing", doc(fields{"v": integer(3)}), nil, map[string]int64{"views": 3}},
		{"none is there", doc(nil), nil, nil},
		{"another one", doc(fields{"shares": integer(3)}), doc(fields{"shares": integer(2)}), nil},
		{"not a number", doc(fields{"likes": double(math.NaN())}), doc(fields{"likes": integer(2)}), map[string]int64{"likes": -2}},
		{"not a number still", doc(fields{"likes": double(math.NaN())}), doc(fields{"likes": double(math.NaN())}), nil},
		{"too large", doc(fields{"likes": double(1e300)}), doc(fields{"likes": integer(2)}), map[string]int64{"likes": -2}},
		{"beyond an int64", doc(fields{"likes": integer(math.MaxInt64)}), doc(fields{"likes": integer(-2)}), map[string]int64{"likes": math.MaxInt64}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			data, err := proto.Marshal(&firestoredata.DocumentEventData{Value: tt.value, OldValue: tt.old})
			if err != nil {
				t.Fatal(err)
			}
			got, err := decode(names, "application/protobuf", data)
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == nil {
				if len(got) != 0 {
					t.Errorf("%+v, want nothing", got)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got[0].Delta); diff != "" || !slices.Equal(got[0].Fields, slices.Sorted(maps.Keys(tt.want))) {
				t.Errorf("%q (-want +got)\n%s", got[0].Fields, diff)
			}
		})
	}
}

// Deltas of a shard's events add up to what it holds, in whatever steps it came to that; and where the events of a
// field are none, it holds what it held.
func TestDeltasAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		fields := layout.Fields{{Name: "a", Shard: "a"}, {Name: "b", Shard: "b"}}
		value := rapid.OneOf(rapid.Just[*firestorepb.Value](nil), rapid.Map(rapid.Int64Range(-9, 9), store.Int), rapid.Just(store.String("x")))
		sums := map[string]int64{}
		var last *firestorepb.Document
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			next := &firestorepb.Document{Fields: map[string]*firestorepb.Value{}}
			for _, f := range fields {
				if v := value.Draw(t, f.Shard); v != nil {
					next.Fields[f.Shard] = v
				}
			}
			changed, delta := Delta(fields, last, next)
			for name, n := range delta {
				sums[name] += n
			}
			for _, f := range fields {
				if !slices.Contains(changed, f.Name) && !proto.Equal(last.GetFields()[f.Shard], next.GetFields()[f.Shard]) {
					t.Fatalf("%s has changed, and the event says %q", f.Name, changed)
				}
			}
			last = next
		}
		for _, f := range fields {
			if n, _ := book.Whole(last.GetFields()[f.Shard]); sums[f.Name] != n {
				t.Fatalf("%s: %d, and the deltas come to %d", f.Name, n, sums[f.Name])
			}
		}
	})
}

// Whatever comes in, decoding neither panics nor lets anything through that could not be counted.
func FuzzDecode(f *testing.F) {
	path, err := layout.ParsePath("teams/{team}/posts/{post}")
	if err != nil {
		f.Fatal(err)
	}
	fields, err := layout.ParseFields("likes,views=v,comments=count(comments),about=count(**/notes where team=={team} and post=={post})")
	if err != nil {
		f.Fatal(err)
	}
	nested := layout.Layout{Database: testLayout.Database, Path: path, Shards: layout.DefaultShards, Hosted: true}
	nested.Sharded, nested.Counted = fields.Split()
	post := testLayout.Database + "/documents/teams/red/posts/post-1/"
	several := shardDoc(post+"shards/7", at(10), nil)
	several.Fields = map[string]*firestoredata.Value{"likes": double(2), "v": text("x")}
	naming := shardDoc(post+"notes/n", at(10), nil)
	naming.Fields = map[string]*firestoredata.Value{"team": text("red"), "post": text("teams/red/posts/post-1")}
	for _, doc := range []*firestoredata.Document{shardDoc(shardName, at(10), integer(5)), several, shardDoc(post+"comments/c", at(10), nil), naming} {
		for _, event := range []*firestoredata.DocumentEventData{{Value: doc}, {OldValue: doc}, {Value: doc, OldValue: doc}} {
			data, _ := proto.Marshal(event)
			f.Add("application/protobuf", data)
		}
		json, _ := protojson.Marshal(&firestoredata.DocumentEventData{Value: doc})
		f.Add("application/json", json)
	}
	f.Fuzz(func(t *testing.T, contentType string, data []byte) {
		for _, names := range []layout.Layout{testLayout, nested} {
			changes, err := decode(names, contentType, data)
			if err != nil && !errors.Is(err, ErrPoison) {
				t.Errorf("%v is not ErrPoison", err)
			}
			for _, c := range changes {
				if (c.Shard == "") != (c.Collection != "") || (c.Collection == "") != (c.Document == "") || names.Path.Validate(c.Counter) != nil || len(c.Fields) == 0 || c.At.IsZero() && !c.Gone {
					t.Errorf("decoded %+v", c)
				}
				if strings.Contains(c.Shard, "/") || !slices.IsSorted(c.Fields) {
					t.Errorf("decoded %+v", c)
				}
			}
		}
	})
}

// Documents in events are Firestore's on the wire: each field has the number and the type there
// that it has here.
func TestDocumentsOfEventsAreFirestores(t *testing.T) {
	t.Parallel()
	seen := map[protoreflect.FullName]bool{}
	var same func(event, own protoreflect.MessageDescriptor)
	same = func(event, own protoreflect.MessageDescriptor) {
		if seen[event.FullName()] {
			return
		}
		seen[event.FullName()] = true
		for i := range event.Fields().Len() {
			f := event.Fields().Get(i)
			is := own.Fields().ByNumber(f.Number())
			if is == nil || is.Name() != f.Name() || is.Kind() != f.Kind() || is.Cardinality() != f.Cardinality() {
				t.Errorf("%s is %v", f.FullName(), is)
			} else if f.Message() != nil {
				same(f.Message(), is.Message())
			}
		}
	}
	same((&firestoredata.Document{}).ProtoReflect().Descriptor(), (&firestorepb.Document{}).ProtoReflect().Descriptor())
	event := (&firestoredata.DocumentEventData{}).ProtoReflect().Descriptor().Fields()
	if value, old := event.ByName("value").Number(), event.ByName("old_value").Number(); value != 1 || old != 2 || !seen["google.events.cloud.firestore.v1.Value"] {
		t.Errorf("value is field %d, and old_value field %d; compared %v", value, old, seen)
	}
}
