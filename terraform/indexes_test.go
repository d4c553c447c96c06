//go:build all

package terraform

import (
	"encoding/json"
	"fmt"
	"testing"
)

func TestIndexesFileIsTheModules(t *testing.T) {
	t.Parallel()
	var file struct {
		Indexes        []any
		FieldOverrides []struct {
			CollectionGroup, FieldPath string
			TTL                        bool
			Indexes                    []any
		}
	}
	if err := json.Unmarshal([]byte(mustRead(t, "../firestore/firestore.indexes.json")), &file); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, f := range file.FieldOverrides {
		if f.Indexes == nil || len(f.Indexes) > 0 {
			t.Errorf("%s.%s should have an empty list of indexes", f.CollectionGroup, f.FieldPath)
		}
		got = append(got, fmt.Sprintf("%s.%s TTL: %v", f.CollectionGroup, f.FieldPath, f.TTL))
	}
	for _, r := range planOne(t, nil).of("google_firestore_field") {
		want = append(want, fmt.Sprintf("%s.%s TTL: %v", r.text("collection"), r.text("field"), len(objects(r.Values["ttl_config"])) > 0))
	}
	same(t, "fields", "firestore.indexes.json", got, "terraform", want)

	var firebase struct {
		Firestore struct{ Rules, Indexes string }
	}
	if err := json.Unmarshal([]byte(mustRead(t, "../firestore/firebase.json")), &firebase); err != nil || firebase.Firestore.Rules != "firestore.rules" || firebase.Firestore.Indexes != "firestore.indexes.json" {
		t.Errorf("firebase.json: %v, %+v", err, firebase)
	}
}
