package main

import (
	"encoding/json"
	"strings"
	"testing"

	client "cloud.google.com/go/firestore"

	"github.com/firestore-counters/counters/cmd/counters/internal/doctor"
)

// doctor finds what is wrong with counters, and its own commands mend it.
func TestDoctor(t *testing.T) {
	firestore := startFirestore(t)
	if out, errOut, code := counters(t, "doctor"); code != 0 || errOut != "" || !strings.Contains(out, "Checked 0 counters: 0 errors, 0 other findings") {
		t.Errorf("an empty database: exit code %d, %q, error %q", code, out, errOut)
	}

	if out, errOut, code := counters(t, "doctor", "--counters", "0"); code != 0 || errOut != "" || !strings.Contains(out, "Checked 0 counters") {
		t.Errorf("none to be checked: exit code %d, %q, error %q", code, out, errOut)
	}

	fs := firestore.Client(t, "demo-counters")
	for _, id := range []string{"drifted", "large"} {
		must(t, "create", id, "--shards", "3")
	}
	for ref, data := range map[string]map[string]any{
		"counters/drifted":          {"num_shards": 3, "total": 12},
		"counters/large":            {"num_shards": 2, "total": 0},
		"counters/large/shards/2":   {"count": 5},
		"counters/snippet":          {"num_shards": 2},
		"counters/snippet/shards/0": {"count": 30},
	} {
		if _, err := fs.Doc(ref).Set(t.Context(), data, client.MergeAll); err != nil {
			t.Fatal(err)
		}
	}
	out, errOut, code := counters(t, "doctor", "--json")
	if code != 1 || errOut != "counters: doctor found 1 error\n" {
		t.Errorf("exit code %d, error %q", code, errOut)
	}
	var report doctor.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(report.Findings) != 3 || report.Counters != 3 || report.More || report.Emulator != firestore.Addr || len(report.NotChecked) != 0 {
		t.Fatalf("report: %+v", report)
	}
	if out, _, code := counters(t, "doctor"); code != 1 || !strings.Contains(out, "drifted: its total is 12, and should be 0: +12 was written by another program\n    $ counters reconcile --project=demo-counters drifted\n") {
		t.Errorf("exit code %d: %s", code, out)
	}

	for _, f := range report.Findings {
		if _, errOut, code := counters(t, strings.Fields(f.Fix)[1:]...); code != 0 {
			t.Errorf("%s: %s", f.Fix, errOut)
		}
	}
	if out, errOut, code := counters(t, "doctor", "--counters", "2"); code != 0 || errOut != "" ||
		!strings.Contains(out, "the first 2 counters (--counters N checks more): 0 errors, 0 other findings") {
		t.Errorf("mended: exit code %d, %q, error %q", code, out, errOut)
	}
}

// Flags say which deployment; without a Firestore to ask there is nothing to say.
func TestDoctorOfNothing(t *testing.T) {
	t.Setenv("FIRESTORE_EMULATOR_HOST", "127.0.0.1:1")
	for args, want := range map[string]string{
		"doctor":              "no Firestore at FIRESTORE_EMULATOR_HOST=127.0.0.1:1",
		"doctor visits":       "1 argument, want: counters doctor",
		"doctor --counters x": "want an integer",
	} {
		if out, errOut, code := counters(t, strings.Fields(args)...); code == 0 || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit code %d, %q, error %q; want %q", args, code, out, errOut, want)
		}
	}
}
