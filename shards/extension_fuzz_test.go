package shards

import (
	"encoding/json"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/firestore-counters/counters/internal/store"
)

// Documents of the extension hold whatever their application writes beside the counts.
func FuzzExtensionSum(f *testing.F) {
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
		sum := extensionSum{field: []string{"stats", "views"}, total: 1}
		sum.add(fieldsOf(fields))
		stats, _ := data["stats"].(map[string]any)
		want, _ := stats["views"].(float64)
		if sum.err == nil && float64(sum.total-1) != want {
			t.Errorf("%s: %d, want %g", doc, sum.total-1, want)
		}
	})
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
