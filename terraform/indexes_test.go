package terraform

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

func TestIndexesFileIsTheModules(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../firestore/firestore.indexes.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Indexes        []any
		FieldOverrides []struct {
			CollectionGroup, FieldPath string
			TTL                        bool
			Indexes                    []any
		}
	}
	if err := json.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, f := range file.FieldOverrides {
		if f.Indexes == nil || len(f.Indexes) > 0 {
			t.Errorf("%s.%s should have an empty list of indexes", f.CollectionGroup, f.FieldPath)
		}
		got = append(got, fmt.Sprintf("%s.%s TTL: %v", f.CollectionGroup, f.FieldPath, f.TTL))
	}
	for _, i := range load(t, ".", vars()).instances("google_firestore_field") {
		_, ttl := i.args["ttl_config"]
		want = append(want, fmt.Sprintf("%s.%s TTL: %v", text(i.args, "collection"), text(i.args, "field"), ttl))
	}
	same(t, "firestore.indexes.json", got, want)

	var firebase struct {
		Firestore struct{ Rules, Indexes string }
	}
	content, err = os.ReadFile("../firestore/firebase.json")
	if err == nil {
		err = json.Unmarshal(content, &firebase)
	}
	if err != nil || firebase.Firestore.Rules != "firestore.rules" || firebase.Firestore.Indexes != "firestore.indexes.json" {
		t.Errorf("firebase.json: %v, %+v", err, firebase)
	}
}
