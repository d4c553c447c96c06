package layout

import (
	"strings"
	"testing"
)

func TestParseShard(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"likes/{like}", "teams/{team}/likes/{like}"} {
		path, err := ParsePath(pattern)
		if err != nil {
			t.Fatal(err)
		}
		l := Layout{Database: "projects/p/databases/(default)", Path: path, Shards: "parts"}
		id := "post-123"
		if path.Nested() {
			id = "red/post-123"
		}
		if counter, shard, ok := l.ParseShard(l.Shard(id, "7")); !ok || counter != id || shard != "7" {
			t.Errorf("%s: parsed %q, %q, %v", pattern, counter, shard, ok)
		}
		for _, name := range []string{
			"", "likes/c/parts/0", l.Counter(id), l.BaseOf(id), l.Shard(id, "0") + "/a/b", l.Shard("", "0"), l.Shard(id, ""), l.Shard(id, ".."),
			l.Shard(id, "__x__"), l.Shard(id, strings.Repeat("x", 1501)), l.Shard("..", "0"), "/" + l.Shard(id, "0"),
			strings.Replace(l.Shard(id, "0"), "documents", "docs", 1), strings.Replace(l.Shard(id, "0"), "parts", "shards", 1),
			strings.Replace(l.Shard(id, "0"), "likes", "views", 1), strings.Replace(l.Shard(id, "0"), "(default)", "other", 1),
			l.Request("x"), l.Cursor(),
		} {
			if counter, shard, ok := l.ParseShard(name); ok {
				t.Errorf("%s: ParseShard(%q) = %q, %q", pattern, name, counter, shard)
			}
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
