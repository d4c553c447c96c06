package store

import (
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
)

// What public snippets write of the number of shards, what else may be there, and where an app's
// own document has it.
func TestNumShards(t *testing.T) {
	t.Parallel()
	type fields = map[string]*firestorepb.Value
	for _, tt := range []struct {
		name   string
		fields fields
		want   int // 0: none is written
	}{
		{"none", fields{}, 0},
		{"ours", fields{layout.NumShards: Int(7)}, 7},
		{"Web's and Node.js's", fields{layout.NumShardsLegacy: Int(7)}, 7},
		{"both", fields{layout.NumShards: Int(7), layout.NumShardsLegacy: Int(5)}, 7},
		{"a double", fields{layout.NumShards: Double(7)}, 7},
		{"nothing to count with", fields{layout.NumShards: Int(0)}, 1},
		{"more than there may be", fields{layout.NumShards: Int(1 << 40)}, layout.MaxShards},
		{"a double beyond", fields{layout.NumShards: Double(1e300)}, layout.MaxShards},
		{"a text", fields{layout.NumShards: String("7")}, 1},
	} {
		if got := (&DB{}).NumShards(&firestorepb.Document{Fields: tt.fields}); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
		hosted := &DB{Layout: layout.Layout{Hosted: true}}
		if got := hosted.NumShards(&firestorepb.Document{Fields: fields{layout.Rollup: Map(tt.fields), layout.NumShards: Int(3)}}); got != tt.want {
			t.Errorf("%s, in an app's document: %d, want %d", tt.name, got, tt.want)
		}
	}
	if (&DB{}).NumShards(nil) != 0 {
		t.Error("a document that is missing has a number of shards")
	}
}
