package store

import (
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

func TestShardNumber(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]int{
		"0": 1, "9": 10, "999": 1000, "1000": 0, "99999999999999999999": 0, "-1": 0, "007": 0, "+1": 0, " 1": 0, "one": 0, "": 0,
	} {
		if got := Numbered(id); got != want {
			t.Errorf("a shard %q says that there are %d, want %d", id, got, want)
		}
	}
	if n, ok := ShardNumber("1000"); n != 1000 || !ok {
		t.Errorf("1000 is %d, %v: it is the number of a shard too many", n, ok)
	}
}

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
		{"ours", fields{NumShards: Int(7)}, ShardCount{N: 7, Written: true}},
		{"Web's and Node.js's", fields{NumShardsLegacy: Int(7)}, ShardCount{N: 7, Written: true}},
		{"both", fields{NumShards: Int(7), NumShardsLegacy: Int(5)}, ShardCount{N: 7, Written: true}},
		{"a double", fields{NumShards: Double(7)}, ShardCount{N: 7, Written: true}},
		{"inferred", fields{NumShards: Int(7), NumShardsInferred: Bool(true)}, ShardCount{N: 7, Written: true, Inferred: true}},
		{"nothing to count with", fields{NumShards: Int(0)}, ShardCount{N: 1, Written: true}},
		{"more than there may be", fields{NumShards: Int(1 << 40)}, ShardCount{N: MaxShards, Written: true}},
		{"a double beyond", fields{NumShards: Double(1e300)}, ShardCount{N: MaxShards, Written: true}},
		{"a text", fields{NumShards: String("7")}, ShardCount{N: 1, Written: true}},
	} {
		if got := (Layout{}).ShardCount(&firestorepb.Document{Fields: tt.fields}); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
		hosted := Layout{Hosted: true}
		if got := hosted.ShardCount(&firestorepb.Document{Fields: fields{Rollup: Map(tt.fields), NumShards: Int(3)}}); got != tt.want {
			t.Errorf("%s, in an app's document: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	if got := (Layout{}).ShardCount(nil); got != (ShardCount{N: 1}) {
		t.Errorf("no document: %+v", got)
	}
}
