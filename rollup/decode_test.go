package rollup

import (
	"errors"
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

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/ledger"
)

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
	return layout.Layout{Database: "projects/p/databases/(default)", Path: path, Fields: layout.Fields{{Name: "total", Shard: "count"}}, Shards: layout.DefaultShards}
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
		want       ledger.State
	}{
		{"created", shardDoc(shardName, at(10), integer(5)), nil, ledger.State{Shard: "7", Counts: ledger.Counts{"count": 5}, AsOf: at(10)}},
		{"updated", shardDoc(shardName, at(20), integer(3)), shardDoc(shardName, at(10), integer(5)), ledger.State{Shard: "7", Counts: ledger.Counts{"count": 3}, AsOf: at(20)}},
		{"a whole double", shardDoc(shardName, at(20), double(3)), shardDoc(shardName, at(10), integer(2)), ledger.State{Shard: "7", Counts: ledger.Counts{"count": 3}, AsOf: at(20)}},
		{"deleted", nil, shardDoc(shardName, at(20), integer(3)), ledger.State{Shard: "7", Gone: true, AsOf: at(21)}},
		{"no count", shardDoc(shardName, at(20), nil), shardDoc(shardName, at(10), integer(5)), ledger.State{Shard: "7", AsOf: at(20)}},
		{"mended", shardDoc(shardName, at(20), integer(3)), shardDoc(shardName, at(10), text("three")), ledger.State{Shard: "7", Counts: ledger.Counts{"count": 3}, AsOf: at(20)}},
		{"a broken one deleted", nil, shardDoc(shardName, at(20), text("three")), ledger.State{Shard: "7", Gone: true, AsOf: at(21)}},
	}
	for _, tt := range tests {
		if !tt.want.Gone {
			tt.want.Made = at(1)
		}
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
				want := Change{Counter: "post-123", Shard: "7", AsOf: tt.want.AsOf, Made: tt.want.Made, Counts: tt.want.Counts, Odd: tt.want.Odd, Blank: tt.want.Blank, Was: tt.want.Was, WasOdd: tt.want.WasOdd, Gone: tt.want.Gone}
				if diff := cmp.Diff([]Change{want}, got); diff != "" {
					t.Errorf("%s: (-want +got)\n%s", contentType, diff)
				}
				if diff := cmp.Diff(tt.want, got[0].state()); diff != "" {
					t.Errorf("%s: state (-want +got)\n%s", contentType, diff)
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
		{"half a count", protobuf, binary(shardDoc(shardName, at(1), double(0.5)), nil)},
		{"a double beyond 2^53", protobuf, binary(shardDoc(shardName, at(1), double(1<<54)), nil)},
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

// A shard counts with every integer that it holds, shown or not. One that is no integer keeps no
// other from being counted, and is said to be there. A deleted shard held nothing.
func TestDecodeSeveralFields(t *testing.T) {
	t.Parallel()
	names := testLayout
	names.Fields = layout.Fields{{Name: "likes", Shard: "likes"}, {Name: "views", Shard: "v"}}
	doc := func(fields map[string]*firestoredata.Value) *firestoredata.Document {
		d := shardDoc(shardName, at(10), nil)
		d.Fields = fields
		return d
	}
	type fields = map[string]*firestoredata.Value
	for _, tt := range []struct {
		name       string
		value, old *firestoredata.Document
		want       *ledger.State // nil: poison
	}{
		{"both", doc(fields{"likes": integer(1), "v": integer(3)}), nil, &ledger.State{Counts: ledger.Counts{"likes": 1, "v": 3}}},
		{"one is missing", doc(fields{"v": integer(3)}), nil, &ledger.State{Counts: ledger.Counts{"v": 3}}},
		{"none is there", doc(nil), nil, &ledger.State{}},
		{"one that isn't shown", doc(fields{"shares": integer(3)}), nil, &ledger.State{Counts: ledger.Counts{"shares": 3}}},
		{"one is not an integer", doc(fields{"likes": double(0.5), "v": integer(3)}), nil, &ledger.State{Counts: ledger.Counts{"v": 3}, Odd: []string{"likes"}}},
		{"one is no number", doc(fields{"likes": text("5"), "v": double(0.5)}), nil, &ledger.State{Odd: []string{"v"}, Blank: []string{"likes"}}},
		{"one is not a number", doc(fields{"likes": double(math.NaN())}), nil, &ledger.State{Blank: []string{"likes"}}},
		{"one is too large for a count", doc(fields{"likes": double(1e300)}), nil, &ledger.State{Blank: []string{"likes"}}},
		{"one is no number any more", doc(fields{"likes": text("5"), "v": text("x"), "w": text("x")}), doc(fields{"likes": integer(4), "v": double(0.5)}),
			&ledger.State{Blank: []string{"likes", "v", "w"}, Was: ledger.Counts{"likes": 4, "w": 0}, WasOdd: true}},
		{"one is not an integer any more", doc(fields{"likes": double(4.5), "v": integer(3)}), doc(fields{"likes": integer(4), "v": integer(3)}),
			&ledger.State{Counts: ledger.Counts{"v": 3}, Odd: []string{"likes"}, Was: ledger.Counts{"likes": 4}}},
		{"one was not an integer before either", doc(fields{"likes": double(4.5), "v": integer(3)}), doc(fields{"likes": double(0.5)}),
			&ledger.State{Counts: ledger.Counts{"v": 3}, Odd: []string{"likes"}}},
		{"one was no number before", doc(fields{"likes": text("5")}), doc(fields{"likes": text("4")}), &ledger.State{Blank: []string{"likes"}}},
		{"one was not an integer", doc(fields{"likes": integer(2), "v": integer(3)}), doc(fields{"likes": text("x")}), &ledger.State{Counts: ledger.Counts{"likes": 2, "v": 3}}},
		{"both are not integers", doc(fields{"likes": double(-0.5), "v": double(0.5)}), nil, nil},
		{"both are not integers still", doc(fields{"likes": double(-0.5), "v": double(0.5)}), doc(fields{"likes": double(1.5), "v": double(2.5)}), nil},
		{"both are not integers, and one was", doc(fields{"likes": double(-0.5), "v": double(0.5)}), doc(fields{"likes": integer(4), "v": double(2.5)}),
			&ledger.State{Odd: []string{"likes", "v"}, Was: ledger.Counts{"likes": 4}}},
		{"neither is an integer, and one that isn't shown is none any more", doc(fields{"likes": double(0.5), "v": double(0.5), "w": text("x")}),
			doc(fields{"likes": double(0.5), "v": double(0.5), "w": integer(7)}), &ledger.State{Odd: []string{"likes", "v"}, Blank: []string{"w"}, Was: ledger.Counts{"w": 7}}},
		{"neither is an integer, and one that isn't shown is no fraction any more", doc(fields{"likes": double(0.5), "v": double(0.5), "w": text("x")}),
			doc(fields{"likes": double(0.5), "v": double(0.5), "w": double(7.5)}), &ledger.State{Odd: []string{"likes", "v"}, Blank: []string{"w"}, WasOdd: true}},
		{"deleted", nil, doc(fields{"likes": integer(2), "v": text("x")}), &ledger.State{Gone: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			data, err := proto.Marshal(&firestoredata.DocumentEventData{Value: tt.value, OldValue: tt.old})
			if err != nil {
				t.Fatal(err)
			}
			got, err := decode(names, "application/protobuf", data)
			if tt.want == nil {
				if !errors.Is(err, ErrPoison) {
					t.Errorf("Decode = %+v, %v, want ErrPoison", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Shard, tt.want.AsOf, tt.want.Made = "7", got[0].state().AsOf, got[0].state().Made
			slices.Sort(got[0].Odd)
			slices.Sort(got[0].Blank)
			if diff := cmp.Diff(*tt.want, got[0].state()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
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
	nested.Fields, nested.Counted = fields.Split()
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
				if (c.Shard == "") != (c.Collection != "") || (c.Collection == "") != (c.Document == "") || names.Path.Validate(c.Counter) != nil || c.AsOf.IsZero() {
					t.Errorf("decoded %+v", c)
				}
				if c.Shard == "" {
					continue
				}
				s := c.state()
				if strings.Contains(s.Shard, "/") {
					t.Errorf("decoded %+v", c)
				}
				for name, n := range s.Counts {
					if !layout.CountsField(name) || n == 0 {
						t.Errorf("decoded %+v, and %s is none that counts", c, name)
					}
				}
			}
		}
	})
}

// A shard of which no shown field is an integer, but another one 0, or gone by now, is counted all the same:
// another revision shows that one, and the ledger may have more of it.
func TestDecodeZeroOfAnotherRevision(t *testing.T) {
	t.Parallel()
	names := testLayout
	names.Fields = layout.Fields{{Name: "total", Shard: "count"}}
	for name, c := range map[string]struct {
		before, after map[string]*firestoredata.Value
	}{
		"0":    {nil, map[string]*firestoredata.Value{"count": double(3.5), "likes": integer(0)}},
		"gone": {map[string]*firestoredata.Value{"count": double(3.5), "likes": integer(4)}, map[string]*firestoredata.Value{"count": double(3.5)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			event := &firestoredata.DocumentEventData{Value: shardDoc(shardName, at(10), nil)}
			event.Value.Fields = c.after
			if c.before != nil {
				event.OldValue = shardDoc(shardName, at(5), nil)
				event.OldValue.Fields = c.before
			}
			data, err := proto.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			got, err := decode(names, "application/protobuf", data)
			if err != nil || len(got) != 1 {
				t.Fatalf("%+v, %v", got, err)
			}
			l := &ledger.Ledger{States: map[string]ledger.Entry{"7": {AsOf: at(5), Counts: ledger.Counts{"count": 3, "likes": 4}}}}
			l.Apply(l.Merge([]ledger.State{got[0].state()}, nil))
			if is := l.States["7"].Counts; is["likes"] != 0 || is["count"] != 3 {
				t.Errorf("the ledger has %v, want 3 and no likes", is)
			}
		})
	}
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
