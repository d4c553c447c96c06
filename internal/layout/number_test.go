package layout

import "testing"

func TestShardNumber(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]int{
		"0": 0, "9": 9, "999": 999, "99999999999999999999": -1, "-1": -1, "007": -1, "+1": -1, " 1": -1, "one": -1, "": -1,
	} {
		if got, ok := ShardNumber(id); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q is %d, %v, want %d", id, got, ok, want)
		}
	}
	if n, ok := ShardNumber("1000"); n != 1000 || !ok {
		t.Errorf("1000 is %d, %v: it is the number of a shard too many", n, ok)
	}
}
