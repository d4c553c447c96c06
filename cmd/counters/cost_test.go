package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestCost(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"cost", "--rate", "1000", "--shards", "200", "--reads", "50", "--location", "nam5"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	rows := map[string][]string{}
	for line := range strings.Lines(stdout.String()) {
		for _, name := range []string{"this project", "blind trigger (!)", "floor"} {
			if rest, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok && rows[name] == nil {
				rows[name] = strings.Fields(rest)
			}
		}
	}
	// reads, writes, deletes, requests, instance seconds, $ a million, $ a month
	for name, want := range map[string][]string{
		"blind trigger (!)": {"50000", "2000000", "0", "2000000", "2000", "4.481", "11613.46"},
		"floor":             {"0", "0", "0", "1000000", "0", "0.400", "1036.80"},
	} {
		if got := strings.Join(rows[name], " "); got != strings.Join(want, " ") {
			t.Errorf("%s: %s, want %v in:\n%s", name, got, want, stdout.String())
		}
	}
	if rows["this project"] == nil {
		t.Errorf("no row of this project in:\n%s", stdout.String())
	}
	// A single document while that holds, then a sum, then this project.
	text := stdout.String()
	one, sum, ours := strings.LastIndex(text, "one document, with no shards"), strings.LastIndex(text, "a sum() per read"), strings.LastIndex(text, "this project: any rate")
	if one < 0 || sum < one || ours < sum {
		t.Errorf("the choices are not one document, sum, this project:\n%s", text)
	}
}

func TestCostRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"--rate", "0", "--shards", "1001", "--instances", "0"}, []string{"--rate 0", "--shards 1001", "--instances 0"}},
		{[]string{"--rate", "NaN", "--reads", "-1"}, []string{"--rate NaN", "--reads -1"}},
		{[]string{"--commit", "0s", "--interval", "6s"}, []string{"--commit 0s", "--interval 6s"}},
		{[]string{"--location", "mars-north1"}, []string{"mars-north1", "us-central1", "nam5"}},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), append([]string{"cost"}, tt.args...), &stdout, &stderr); code != 1 || stdout.Len() > 0 {
			t.Errorf("%v: exit code %d, and it printed %q", tt.args, code, stdout.String())
		}
		for _, want := range tt.want {
			if !strings.Contains(stderr.String(), want) {
				t.Errorf("%v: %q doesn't say %q", tt.args, stderr.String(), want)
			}
		}
	}
}
