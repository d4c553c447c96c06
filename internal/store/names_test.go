package store

import (
	"strings"
	"testing"
)

func TestParseShardName(t *testing.T) {
	t.Parallel()
	l := Layout{Database: "projects/p/databases/(default)", Collection: "likes"}
	got, ok := ParseShardName(l.Shard("post-123", "7"))
	if want := (ShardName{Database: l.Database, Collection: "likes", Counter: "post-123", Shard: "7"}); !ok || got != want {
		t.Errorf("parsed %+v, %v, want %+v", got, ok, want)
	}
	for _, name := range []string{
		"", "counters/c/shards/0", l.Counter("c"), l.LedgerOf("c"), l.Shard("c", "0") + "/a/b", l.Shard("", "0"), l.Shard("c", ""),
		"/" + l.Shard("c", "0"), strings.Replace(l.Shard("c", "0"), "documents", "docs", 1), l.Request("x"), l.Cursor(),
	} {
		if got, ok := ParseShardName(name); ok {
			t.Errorf("ParseShardName(%q) = %+v", name, got)
		}
	}
}

func TestFieldPath(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{[]string{"count"}, "count"},
		{[]string{"shards", "0"}, "shards.`0`"},
		{[]string{"shards", "a.b"}, "shards.`a.b`"},
		{[]string{"a`b\\c"}, "`a\\`b\\\\c`"},
		{[]string{"größe"}, "`größe`"},
		{[]string{"_x9"}, "_x9"},
		{[]string{""}, "``"},
	} {
		if got := FieldPath(tt.names...); got != tt.want {
			t.Errorf("FieldPath(%q) = %s, want %s", tt.names, got, tt.want)
		}
	}
}
