package rollup

import (
	"testing"

	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// BenchmarkDecode decodes the event of one increment of one shard, in both of the forms that
// events may have.
func BenchmarkDecode(b *testing.B) {
	event := &firestoredata.DocumentEventData{
		Value:      shardDoc(shardName, at(20), integer(6)),
		OldValue:   shardDoc(shardName, at(10), integer(5)),
		UpdateMask: &firestoredata.DocumentMask{FieldPaths: []string{"count"}},
	}
	for _, form := range []struct {
		contentType string
		marshal     func(proto.Message) ([]byte, error)
	}{{"application/protobuf", proto.Marshal}, {"application/json", protojson.Marshal}} {
		b.Run(form.contentType, func(b *testing.B) {
			data, err := form.marshal(event)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := decode(testLayout, form.contentType, data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
