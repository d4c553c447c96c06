package layout

import "testing"

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
