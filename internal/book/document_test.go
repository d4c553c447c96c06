package book

import (
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
	"github.com/firestore-counters/counters/internal/store"
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
		{"ours", fields{layout.NumShards: store.Int(7)}, 7},
		{"Web's and Node.js's", fields{layout.NumShardsLegacy: store.Int(7)}, 7},
		{"both", fields{layout.NumShards: store.Int(7), layout.NumShardsLegacy: store.Int(5)}, 7},
		{"a double", fields{layout.NumShards: store.Double(7)}, 7},
		{"nothing to count with", fields{layout.NumShards: store.Int(0)}, 1},
		{"more than there may be", fields{layout.NumShards: store.Int(1 << 40)}, layout.MaxShards},
		{"a double beyond", fields{layout.NumShards: store.Double(1e300)}, layout.MaxShards},
		{"a text", fields{layout.NumShards: store.String("7")}, 1},
	} {
		if got := NumShards(layout.Layout{}, &firestorepb.Document{Fields: tt.fields}); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
		if got := NumShards(layout.Layout{Hosted: true}, &firestorepb.Document{Fields: fields{layout.Rollup: store.Map(tt.fields), layout.NumShards: store.Int(3)}}); got != tt.want {
			t.Errorf("%s, in an app's document: %d, want %d", tt.name, got, tt.want)
		}
	}
	if NumShards(layout.Layout{}, nil) != 0 {
		t.Error("a document that is missing has a number of shards")
	}
}
