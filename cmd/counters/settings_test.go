package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	out, errOut, code := counters(t, "settings", "--check", "HOSTED=1", "COUNTERS=posts/{post}", "FIELDS=likes,comments=count(comments)")
	if want := "shards: likes of posts/{post}/shards; counted collections: comments\n"; code != 0 || !strings.HasSuffix(out, want) {
		t.Errorf("exit code %d, %q, %q; want %q", code, out, errOut, want)
	}
	out, _, code = counters(t, "settings", "HOSTED=1")
	if code != 0 || !strings.Contains(out, "\nHOSTED=true\n") || !strings.Contains(out, "\nNUM_SHARDS=10\n") {
		t.Errorf("exit code %d, %q", code, out)
	}
	out, _, code = counters(t, "settings", "--check", "--json", "NUM_SHARDS=7")
	var value struct{ Environment []string }
	if err := json.Unmarshal([]byte(out), &value); err != nil || code != 0 || len(value.Environment) < 30 {
		t.Errorf("exit code %d, %q: %v", code, out, err)
	}
	for args, want := range map[string]string{
		"--check NUM_SHARDS=0 MAX_BATCH=0": "MAX_BATCH=0: want 1 to 500",
		"--check COUNTERS=counters":        "COUNTERS=counters: want collections and wildcards in turn",
		"--check nonsense":                 "nonsense: there is no such setting",
	} {
		out, errOut, code := counters(t, append([]string{"settings"}, strings.Fields(args)...)...)
		if code != exitUsage || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit code %d, %q, %q; want %q", args, code, out, errOut, want)
		}
	}
}
