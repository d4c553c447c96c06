package eventarc_test

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/genproto/googleapis/type/latlng"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/firestore-counters/counters/emulator/eventarc"
)

const shard = "projects/p/databases/(default)/documents/counters/c/shards/0"

var (
	created   = time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	committed = created.Add(90 * time.Second)
)

func document(name string, count int64, updated time.Time) *firestorepb.Document {
	return &firestorepb.Document{
		Name:       name,
		Fields:     map[string]*firestorepb.Value{"count": {ValueType: &firestorepb.Value_IntegerValue{IntegerValue: count}}},
		CreateTime: timestamppb.New(created),
		UpdateTime: timestamppb.New(updated),
	}
}

func TestEncodeKinds(t *testing.T) {
	t.Parallel()
	before, after := document(shard, 1, created), document(shard, 2, committed)
	for _, test := range []struct {
		name   string
		change eventarc.Change
		want   string // As JSON.
	}{
		{"create", eventarc.Change{New: before, UpdateMask: []string{"count"}},
			`{"value": {"name": "` + shard + `", "fields": {"count": {"integerValue": "1"}},
			  "createTime": "2026-03-01T12:00:00.123456Z", "updateTime": "2026-03-01T12:00:00.123456Z"}}`},
		{"update", eventarc.Change{Old: before, New: after, UpdateMask: []string{"count", "a.b"}},
			`{"value": {"name": "` + shard + `", "fields": {"count": {"integerValue": "2"}},
			  "createTime": "2026-03-01T12:00:00.123456Z", "updateTime": "2026-03-01T12:01:30.123456Z"},
			  "oldValue": {"name": "` + shard + `", "fields": {"count": {"integerValue": "1"}},
			  "createTime": "2026-03-01T12:00:00.123456Z", "updateTime": "2026-03-01T12:00:00.123456Z"},
			  "updateMask": {"fieldPaths": ["count", "a.b"]}}`},
		{"delete", eventarc.Change{Old: after},
			`{"oldValue": {"name": "` + shard + `", "fields": {"count": {"integerValue": "2"}},
			  "createTime": "2026-03-01T12:00:00.123456Z", "updateTime": "2026-03-01T12:01:30.123456Z"}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.change.Name, test.change.CommitTime = shard, committed
			_, body, err := eventarc.Encode("1", test.change)
			if err != nil {
				t.Fatal(err)
			}
			var got, want firestoredata.DocumentEventData
			if err := proto.Unmarshal(body, &got); err != nil {
				t.Fatal(err)
			}
			if err := protojson.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(&got, &want) {
				t.Errorf("got  %v\nwant %v", &got, &want)
			}
		})
	}
}

// The body is Firestore's document, bytes for bytes. Its JSON form, which spells out the names of
// fields, shows that the event's document means the same by them.
func TestEncodeEveryType(t *testing.T) {
	t.Parallel()
	type value = firestorepb.Value
	scalars := map[string]*value{
		"null":      {ValueType: &firestorepb.Value_NullValue{NullValue: structpb.NullValue_NULL_VALUE}},
		"false":     {ValueType: &firestorepb.Value_BooleanValue{}},
		"true":      {ValueType: &firestorepb.Value_BooleanValue{BooleanValue: true}},
		"zero":      {ValueType: &firestorepb.Value_IntegerValue{}},
		"least":     {ValueType: &firestorepb.Value_IntegerValue{IntegerValue: math.MinInt64}},
		"double":    {ValueType: &firestorepb.Value_DoubleValue{DoubleValue: -0.5}},
		"infinite":  {ValueType: &firestorepb.Value_DoubleValue{DoubleValue: math.Inf(1)}},
		"nan":       {ValueType: &firestorepb.Value_DoubleValue{DoubleValue: math.NaN()}},
		"time":      {ValueType: &firestorepb.Value_TimestampValue{TimestampValue: timestamppb.New(committed)}},
		"empty":     {ValueType: &firestorepb.Value_StringValue{}},
		"text":      {ValueType: &firestorepb.Value_StringValue{StringValue: "größer 🔢"}},
		"bytes":     {ValueType: &firestorepb.Value_BytesValue{BytesValue: []byte{0, 0xff}}},
		"reference": {ValueType: &firestorepb.Value_ReferenceValue{ReferenceValue: shard}},
		"geo point": {ValueType: &firestorepb.Value_GeoPointValue{GeoPointValue: &latlng.LatLng{Latitude: 1.5, Longitude: -2}}},
	}
	fields := map[string]*value{
		"array":       {ValueType: &firestorepb.Value_ArrayValue{ArrayValue: &firestorepb.ArrayValue{Values: []*value{scalars["text"], scalars["zero"]}}}},
		"empty array": {ValueType: &firestorepb.Value_ArrayValue{ArrayValue: &firestorepb.ArrayValue{}}},
		"map":         {ValueType: &firestorepb.Value_MapValue{MapValue: &firestorepb.MapValue{Fields: scalars}}},
		"empty map":   {ValueType: &firestorepb.Value_MapValue{MapValue: &firestorepb.MapValue{}}},
	}
	maps.Copy(fields, scalars)
	doc := document(shard, 1, committed)
	doc.Fields = fields
	_, body, err := eventarc.Encode("1", eventarc.Change{Name: shard, New: doc, CommitTime: committed})
	if err != nil {
		t.Fatal(err)
	}
	var data firestoredata.DocumentEventData
	if err := proto.Unmarshal(body, &data); err != nil {
		t.Fatal(err)
	}
	if got, want := jsonOf(t, data.GetValue()), jsonOf(t, doc); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if unknown := data.GetValue().ProtoReflect().GetUnknown(); len(unknown) > 0 {
		t.Errorf("the event's document doesn't know the fields %x", unknown)
	}
}

// jsonOf returns a message as JSON with its keys in order. Its spaces vary from build to build, not
// within one.
func jsonOf(t *testing.T, m proto.Message) string {
	t.Helper()
	b, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const attributeName = "projects/my-project/databases/other/documents/counters/50% größer/shards/\"%41\""

// wantAttributes are those of the document attributeName.
func wantAttributes() map[string]string {
	return map[string]string{
		"content-type":   "application/protobuf",
		"ce-specversion": "1.0",
		"ce-id":          "event-1",
		"ce-type":        "google.cloud.firestore.document.v1.written",
		"ce-source":      "//firestore.googleapis.com/projects/my-project/databases/other",
		"ce-subject":     "documents/counters/50% größer/shards/\"%41\"",
		"ce-time":        "2026-03-01T12:01:30.123456Z",
		"ce-dataschema":  "https://github.com/googleapis/google-cloudevents/blob/main/proto/google/events/cloud/firestore/v1/data.proto",
		"ce-location":    "us-central1",
		"ce-project":     "my-project",
		"ce-database":    "other",
		"ce-namespace":   "(default)",
		"ce-document":    "counters/50% größer/shards/\"%41\"",
	}
}

func TestEncodeAttributes(t *testing.T) {
	t.Parallel()
	headers, _, err := eventarc.Encode("event-1", eventarc.Change{Name: attributeName, New: document(attributeName, 1, committed), CommitTime: committed})
	if err != nil {
		t.Fatal(err)
	}
	want := wantAttributes()
	for key, value := range want {
		if got := headers.Get(key); got != value {
			t.Errorf("%s is %q, want %q", key, got, value)
		}
	}
	if len(headers) != len(want) {
		t.Errorf("got %d headers, want %d: %v", len(headers), len(want), headers)
	}
	for key := range headers {
		if key != http.CanonicalHeaderKey(key) {
			t.Errorf("header %q is not in canonical form: Get doesn't find it", key)
		}
	}
}

// What no header can have comes within a Pub/Sub message, attributes, data and all.
func TestEncodeWhatNoHeaderCanHave(t *testing.T) {
	t.Parallel()
	for _, end := range []string{" ", "\t", "\n", "a\x00b", "\x7f"} {
		name := attributeName + end
		doc := document(name, 1, committed)
		headers, body, err := eventarc.Encode("event-1", eventarc.Change{Name: name, New: doc, CommitTime: committed})
		if err != nil {
			t.Fatal(err)
		}
		if len(headers) != 1 || headers.Get("Content-Type") != "application/json" {
			t.Errorf("%q has the headers %v", end, headers)
		}
		var m struct {
			Message struct {
				Attributes map[string]string
				Data       []byte
				MessageID  string
			}
			Subscription string
		}
		if err := json.Unmarshal(body, &m); err != nil {
			t.Fatal(err)
		}
		want := wantAttributes()
		want["ce-document"] += end
		want["ce-subject"] += end
		if !maps.Equal(m.Message.Attributes, want) || m.Subscription == "" || m.Message.MessageID == "" {
			t.Errorf("got  %v\nwant %v", m, want)
		}
		if c, err := eventarc.Decode(m.Message.Data); err != nil || !proto.Equal(c.New, doc) {
			t.Errorf("%q: got %v, %v", end, c, err)
		}
	}
}

// An event whose documents are large has its attributes, and nothing else.
func TestEncodeWithoutDocument(t *testing.T) {
	t.Parallel()
	large := func(size int) *firestorepb.Document {
		doc := document(shard, 1, committed)
		doc.Fields["text"] = &firestorepb.Value{ValueType: &firestorepb.Value_StringValue{StringValue: strings.Repeat("x", size)}}
		return doc
	}
	for _, test := range []struct {
		name   string
		change eventarc.Change
		left   bool
	}{
		{"as large as may be", eventarc.Change{New: large(511 << 10)}, false},
		{"the new document", eventarc.Change{New: large(512 << 10)}, true},
		{"the old one", eventarc.Change{Old: large(600 << 10)}, true},
		{"both together", eventarc.Change{Old: large(300 << 10), New: large(300 << 10)}, true},
	} {
		test.change.Name, test.change.CommitTime = shard, committed
		headers, body, err := eventarc.Encode("1", test.change)
		if err != nil {
			t.Fatal(err)
		}
		if (len(body) == 0) != test.left || headers.Get("Ce-Document") != "counters/c/shards/0" {
			t.Errorf("%s: %d bytes, attributes %v", test.name, len(body), headers)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "counters/c", "projects/p/databases/d/documents", "projects/p/databases/d/documents/", "projects//databases/d/documents/a/b"} {
		if _, _, err := eventarc.Encode("1", eventarc.Change{Name: name}); err == nil {
			t.Errorf("%q is taken for a document's name", name)
		}
	}
	bad := document(shard, 1, committed)
	bad.Fields["\xff"] = bad.Fields["count"]
	if _, _, err := eventarc.Encode("1", eventarc.Change{Name: shard, New: bad}); err == nil {
		t.Error("a document that is not UTF-8 has an event")
	}
}

func TestDecodeReversesEncode(t *testing.T) {
	t.Parallel()
	before, after := document(shard, 1, created), document(shard, 2, committed)
	for _, want := range []eventarc.Change{
		{New: before, CommitTime: created},
		{Old: before, New: after, UpdateMask: []string{"count"}, CommitTime: committed},
		{Old: after},
	} {
		want.Name = shard
		_, body, err := eventarc.Encode("1", want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := eventarc.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		if got.Name != want.Name || !proto.Equal(got.Old, want.Old) || !proto.Equal(got.New, want.New) ||
			!slices.Equal(got.UpdateMask, want.UpdateMask) || !got.CommitTime.Equal(want.CommitTime) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	}
	for _, body := range []string{"", "\xff", "\x1a\x00"} {
		if c, err := eventarc.Decode([]byte(body)); err == nil {
			t.Errorf("%q is decoded as %v", body, c)
		}
	}
}
