package eventarc_test

import (
	"testing"

	"github.com/firestore-counters/counters/emulator/eventarc"
)

func TestPattern(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, path string
		want          bool
	}{
		{"counters/{counter}/shards/{shard}", "counters/c/shards/0", true},
		{"counters/{counter}/shards/{shard}", "counters/größer 🔢/shards/12", true},
		{"counters/{counter}/shards/{shard}", "counters/c", false},
		{"counters/{counter}/shards/{shard}", "counters/c/shards", false},
		{"counters/{counter}/shards/{shard}", "counters/c/shards/", false},
		{"counters/{counter}/shards/{shard}", "counters/c/shards/0/more/1", false},
		{"counters/{counter}/shards/{shard}", "counters/c/counter_rollup/base", false},
		{"counters/{counter}/shards/{shard}", "other/c/shards/0", false},
		{"counters/{counter}/shards/{shard}", "", false},
		{"counters/c", "counters/c", true},
		{"counters/c", "counters/d", false},
		{"{parents=**}/comments/{comment}", "comments/c", true},
		{"{parents=**}/comments/{comment}", "posts/p/comments/c", true},
		{"{parents=**}/comments/{comment}", "a/b/posts/p/comments/c", true},
		{"{parents=**}/comments/{comment}", "posts/p/comments/c/likes/l", false},
		{"{parents=**}/comments/{comment}", "posts/comments", false},
		{"{parents=**}/comments/{comment}", "posts/comments/c", false},
		{"posts/{post}/{parents=**}/comments/{comment}", "posts/p/a/b/comments/c", true},
		{"posts/{post}/{parents=**}/comments/{comment}", "comments/c", false},
	} {
		p, err := eventarc.ParsePattern(test.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Match(test.path); got != test.want {
			t.Errorf("%q matches %q: %t, want %t", test.pattern, test.path, got, test.want)
		}
	}
	for _, bad := range []string{"", "counters", "counters/{c}/shards", "counters//", "/counters", "counters/x{c}", "counters/{c", "counters/*", "counters/**", "{a=**}", "comments/{c=**}", "{a=**}/b", "{a=**}/{b=**}/c/d", "x/{a=**}/c/{d}"} {
		if _, err := eventarc.ParsePattern(bad); err == nil {
			t.Errorf("%q is taken for a pattern", bad)
		}
	}
}
