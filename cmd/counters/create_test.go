package main

import (
	"strings"
	"testing"
)

// A counter that is made, or reset, says what it shows, with what its path has counted before.
func TestCreateAndResetPrintWhatIsShown(t *testing.T) {
	server := startFirestore(t)
	fs := server.Client(t, "demo-counters")
	if _, err := fs.Doc("counters/a/shards/0").Set(t.Context(), map[string]any{"count": 30}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, out string }{
		{"create a --shards 4", "created a: 4 shards, total 30\n"},
		{"create b --total 5 --json", `{"counter":"b","total":5,"num_shards":10,`},
		{"create c --total 5 --fields seats=limit(3),likes", "created c: 10 shards, seats 0, likes 5\n"},
		{"rebase c --total 7 --yes --fields seats=limit(3),likes --json", `{"counter":"c","totals":{"likes":7}}`},
		// and so does one that is reset: what is held, or has a limit, stays
		{"inc c --by seats=2,likes=3 --fields seats=limit(3),likes", "seats +2"},
		{"hold c --by 4 --for 10m --field likes --fields seats=limit(3),likes", "4"},
		{"reconcile c --fields seats=limit(3),likes", "1 counter checked"},
		{"reset c --yes --fields seats=limit(3),likes", "c is seats 2, likes 4 in project"},
		{"reset c --yes --fields seats=limit(3),likes --json", `"totals":{"likes":4,"seats":2}`},
		{"reset a --yes", "a is 0 in project"},
	} {
		out, stderr, code := counters(t, strings.Fields(c.args)...)
		if code != 0 || !strings.Contains(out, c.out) {
			t.Errorf("%s: %d\n%s%s\nwant %s", c.args, code, out, stderr, c.out)
		}
	}
}
