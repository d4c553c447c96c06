package store

import (
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"github.com/firestore-counters/counters/internal/layout"
)

// What public snippets write of the number of shards, what else may be there, and where an app's own document has it.
func TestShardCount(t *testing.T) {
	t.Parallel()
	type fields = map[string]*firestorepb.Value
	for _, tt := range []struct {
		name   string
		fields fields
		want   ShardCount
	}{
		{"none", fields{}, ShardCount{N: 1}},
		{"ours", fields{layout.NumShards: Int(7)}, ShardCount{N: 7, Written: true}},
		{"Web's and Node.js's", fields{layout.NumShardsLegacy: Int(7)}, ShardCount{N: 7, Written: true}},
		{"both", fields{layout.NumShards: Int(7), layout.NumShardsLegacy: Int(5)}, ShardCount{N: 7, Written: true}},
		{"a double", fields{layout.NumShards: Double(7)}, ShardCount{N: 7, Written: true}},
		{"inferred", fields{layout.NumShards: Int(7), layout.NumShardsInferred: Bool(true)}, ShardCount{N: 7, Written: true, Inferred: true}},
		{"nothing to count with", fields{layout.NumShards: Int(0)}, ShardCount{N: 1, Written: true}},
		{"more than there may be", fields{layout.NumShards: Int(1 << 40)}, ShardCount{N: layout.MaxShards, Written: true}},
		{"a double beyond", fields{layout.NumShards: Double(1e300)}, ShardCount{N: layout.MaxShards, Written: true}},
		{"a text", fields{layout.NumShards: String("7")}, ShardCount{N: 1, Written: true}},
	} {
		if got := (&DB{}).ShardCount(&firestorepb.Document{Fields: tt.fields}); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
		hosted := &DB{Layout: layout.Layout{Hosted: true}}
		if got := hosted.ShardCount(&firestorepb.Document{Fields: fields{layout.Rollup: Map(tt.fields), layout.NumShards: Int(3)}}); got != tt.want {
			t.Errorf("%s, in an app's document: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	if got := (&DB{}).ShardCount(nil); got != (ShardCount{N: 1}) {
		t.Errorf("no document: %+v", got)
	}
}
