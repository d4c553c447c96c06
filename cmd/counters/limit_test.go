package main

import (
	"strings"
	"testing"
)

func TestLimitCommand(t *testing.T) {
	startFirestore(t, "FIELDS=seats=limit(),meals=limit(2),drinks")
	for _, c := range []struct {
		args, out, err string
		code           int
	}{
		{"limit concert 3", "", "counter not found", exitFailed},
		{"create concert", "concert", "", 0},
		{"limit concert 3", "concert has at most 3 seats\n", "", 0},
		{"inc concert --by 2", "concert +2\n", "", 0},
		{"inc concert --by 2", "", "limit reached: 1 of 3 seats are left; asked for 2", exitFailed},
		{"limit concert 1", "", "2 of seats are taken, so the limit can't be 1", exitFailed},
		{"limit concert 5 --field meals --json", `{"counter":"concert","field":"meals","limit":5}`, "", 0},
		{"limit concert 5 --field drinks", "", "drinks=limit(500)", exitFailed},
		{"limit concert 5 --field waiting", "", `"waiting" is not counted`, exitUsage},
		{"resize concert --shards 3", "concert has 3 shards", "", 0},
		{"limit concert", "", "1 argument, want: counters limit ID N", exitUsage},
		{"limit concert many", "", `a limit of "many": want an integer of 0 or more`, exitUsage},
		{"inc concert --by 9", "", "limit reached: 1 of 3 seats are left", exitFailed},
	} {
		out, errOut, code := counters(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errOut, c.err) {
			t.Errorf("%s: exit code %d, %q, error %q; want %d, %q and %q", c.args, code, out, errOut, c.code, c.out, c.err)
		}
	}
}

// Where documents alone are counted there is nothing to limit, nor to hold.
func TestNothingToLimit(t *testing.T) {
	startFirestore(t, "COUNTERS=stats/site", "FIELDS=users=count(/users)")
	for _, args := range []string{"limit site 3", "hold site --by 1 --for 2m", "held site job"} {
		if out, errOut, code := counters(t, strings.Fields(args)...); code != exitUsage || out != "" || !strings.Contains(errOut, "documents") {
			t.Errorf("%s: exit code %d, %q, error %q", args, code, out, errOut)
		}
	}
}
