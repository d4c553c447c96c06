package book

import (
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/proto"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
)

// A field that is a double is one also where all summands are whole, and an average of nothing is null.
func TestDoublesStayDoubles(t *testing.T) {
	t.Parallel()
	b := &Book{Counter: "a", Doc: &firestorepb.Document{}, books: In(&store.DB{})}
	for _, tt := range []struct {
		of         layout.Aggregation
		said, want *firestorepb.Value
	}{
		{layout.Aggregation{Sum: "score", Double: true}, store.Int(9), store.Double(9)},
		{layout.Aggregation{Sum: "score", Double: true}, store.Double(0.5), store.Double(0.5)},
		{layout.Aggregation{Sum: "score", Average: true}, null, null},
		{layout.Aggregation{Sum: "score"}, store.Double(9), store.Int(9)},
	} {
		got, err := b.Total(layout.Field{Name: "score", Counted: &tt.of}, Answer{Value: tt.said})
		if err != nil || !proto.Equal(got, tt.want) {
			t.Errorf("%+v of %v is %v (%v), want %v", tt.of, tt.said, got, err, tt.want)
		}
	}
}
