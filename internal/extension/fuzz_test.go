package extension

import (
	"encoding/json"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/firestore-counters/counters/internal/store"
)

// Documents of the extension hold whatever their application writes beside the counts.
func FuzzSum(f *testing.F) {
	for _, doc := range []string{`{"views": 3}`, `{"stats": {"views": 3, "x": [1]}}`, `{"stats": 5}`, `{"stats": {"views": 0.5}}`, `{"stats": {"views": 1e300}}`, `{}`} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var data map[string]any
		if json.Unmarshal(doc, &data) != nil {
			return
		}
		fields, err := structpb.NewStruct(data)
		if err != nil {
			return
		}
		views := Source{Path: "pages/hello", Field: "stats.views"}
		shard := &firestorepb.Document{Name: "x/shard", Fields: fieldsOf(fields)}
		want := viewsOf(data)
		if got, err := amount(shard, views); err == nil && float64(got) != want {
			t.Errorf("%s: %d, want %g", doc, got, want)
		}
		// The same document as one of two updates of a partial sum, whose id begins with a tab.
		one := store.Map(map[string]*firestorepb.Value{updateID: store.String("1"), updateData: store.Map(fieldsOf(fields))})
		partial := &firestorepb.Document{Name: "x/\tpartial", Fields: map[string]*firestorepb.Value{updatesID: store.Array(one, store.Int(1), one)}}
		if got, err := amount(partial, views); err == nil && float64(got) != 2*want {
			t.Errorf("%s, twice: %d, want %g", doc, got, 2*want)
		}
	})
}

func viewsOf(data map[string]any) float64 {
	stats, _ := data["stats"].(map[string]any)
	views, _ := stats["views"].(float64)
	return views
}

// fieldsOf is an object as Firestore keeps it, as far as counts go.
func fieldsOf(object *structpb.Struct) map[string]*firestorepb.Value {
	fields := map[string]*firestorepb.Value{}
	for name, value := range object.GetFields() {
		switch value := value.GetKind().(type) {
		case *structpb.Value_NumberValue:
			fields[name] = store.Double(value.NumberValue)
		case *structpb.Value_StructValue:
			fields[name] = store.Map(fieldsOf(value.StructValue))
		default:
			fields[name] = store.String("")
		}
	}
	return fields
}
