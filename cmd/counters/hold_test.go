package main

import (
	"strings"
	"testing"

	"github.com/firestore-counters/counters/emulator"
)

// Holds on the command line. Each row is a command, what it prints, and its error.
func TestHoldCommands(t *testing.T) {
	startFirestore(t, "FIELDS=plays,credits=limit(5000)")
	for _, c := range []struct {
		args, out, err string
		code           int
	}{
		{"hold alice --by 4000 --for 2m --id job-1", "", "counter not found", exitFailed},
		{"create alice --shards 2", "created alice", "", 0},
		{"hold alice --by 4000 --for 2m --id job-1", "job-1 holds 4000 until 2", "", 0},
		{"hold alice --by 4000 --for 2m --id job-1", ", credits of alice (held before, under the same id)\n", "", 0},
		{"hold alice --by 4001 --for 2m --id job-1", "", "this id holds another amount: use another id", exitFailed},
		{"hold alice --by 1001 --for 2m", "", "limit reached: 1000 of 5000 credits are left; asked for 1001", exitFailed},
		{"held alice job-1 --json", `{"counter":"alice","field":"credits","held":4000,"hold":"job-1","state":"held","until":"2`, "", 0},
		{"settle alice job-1", "", "--by missing, want: counters settle ID HOLD --by N", exitUsage},
		{"settle alice job-1 --by -1", "", "by is -1; want 0 or more", exitUsage},
		{"settle alice job-1 --by 5001", "", "limit reached", exitFailed},
		{"settle alice job-1 --by 3127", "job-1 is settled for 3127, 873 came back, credits of alice\n", "", 0},
		{"settle alice job-1 --by 3127 --json", `"by":3127,"counter":"alice","field":"credits","held":4000,"hold":"job-1","returned":873,"state":"settled"`, "", 0},
		{"settle alice job-1 --by 3128", "", "the hold is settled for 3127, and that stands", exitFailed},
		{"release alice job-1", "", "the hold is settled for 3127, and that stands", exitFailed},
		{"hold alice --by 4000 --for 2m --id job-1", "", "nothing is held: job-1 is settled for 3127", exitFailed},
		{"hold alice --by 800 --for 1h --id job-2 --json", `"hold":"job-2","state":"held"`, "", 0},
		{"release alice job-2", "job-2 has ended, 800 came back, credits of alice\n", "", 0},
		{"release alice job-2", "job-2 has ended, 800 came back", "", 0},
		{"settle alice job-2 --by 7", "", "counters inc alice --by credits=7 --key job-2", exitFailed},
		{"release alice job-3", "job-3 has ended, 0 came back", "", 0},
		{"hold alice --by 1 --for 2m --id job-3", "", "use another id", exitFailed},
		{"held alice job-4", "", "there is no such hold", exitFailed},
		{"hold alice --field plays --by 9 --for 2m --id job-1", "job-1 holds 9 until 2", "", 0},
		{"held alice job-1 --field plays", "plays of alice\n", "", 0},
		{"get alice --exact", "credits 3127", "", 0},
		{"hold alice --for 2m", "", "--by 0: want 1 or more", exitUsage},
		{"hold alice --by 1", "", "--for is missing", exitUsage},
		{"hold alice --by 1 --for 1ms", "", "want 1s to 720h0m0s", exitUsage},
		{"hold alice --by 1 --for 2m --id ", "", "--id is empty", exitUsage},
		{"hold alice --by 1 --for 2m --field likes", "", `"likes" is not counted`, exitUsage},
		{"held alice", "", "1 argument, want: counters held ID HOLD", exitUsage},
	} {
		out, errOut, code := counters(t, strings.Split(c.args, " ")...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errOut, c.err) || strings.Count(errOut, "\n") > 1 {
			t.Errorf("%s: exit code %d, %q, error %q; want %d, %q and %q", c.args, code, out, errOut, c.code, c.out, c.err)
		}
	}

	// A hold without an id has one, by which it is settled.
	out, _, _ := counters(t, "hold", "alice", "--by", "5", "--for", "2m")
	id, _, _ := strings.Cut(out, " ")
	if out, errOut, code := counters(t, "settle", "alice", id, "--by", "0"); code != 0 || !strings.Contains(out, "settled for 0, 5 came back") {
		t.Errorf("settle %s: %d, %q, %q", id, code, out, errOut)
	}
}

// Answers of commits are lost: a command that is repeated until it succeeds holds and settles once.
func TestHoldsWhoseAnswersAreLost(t *testing.T) {
	firestore := startFirestore(t, "FIELDS=credits=limit(50)")
	counters(t, "create", "alice", "--shards", "1")
	firestore.Server.SetFaults(emulator.Faults{LoseAnswers: 0.5, Seed: 1})
	again := func(args string) {
		for range 20 {
			if _, _, code := counters(t, strings.Fields(args)...); code == 0 {
				return
			}
		}
		t.Errorf("%s fails, however often it is repeated", args)
	}
	for _, job := range []string{"a", "b", "c", "d"} {
		again("hold alice --by 20 --for 1h --id " + job)
		again("settle alice " + job + " --by 7")
	}
	again("hold alice --by 22 --for 1h --id e") // all that is left
	again("release alice e")
	firestore.Server.SetFaults(emulator.Faults{})
	if out, _, _ := counters(t, "get", "alice", "--exact"); !strings.Contains(out, "28") {
		t.Errorf("%q, want 4 times 7", out)
	}
	if firestore.Server.Stats().LostAnswers == 0 {
		t.Error("no answer was lost")
	}
}
