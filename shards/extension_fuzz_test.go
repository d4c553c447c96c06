package shards

import (
	"encoding/json"
	"testing"
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
		sum := extensionSum{field: []string{"stats", "views"}, total: 1}
		sum.add(data)
		stats, _ := data["stats"].(map[string]any)
		want, _ := stats["views"].(float64)
		if sum.err == nil && float64(sum.total-1) != want {
			t.Errorf("%s: %d, want %g", doc, sum.total-1, want)
		}
	})
}
