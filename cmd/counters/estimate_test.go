package main

import (
	"strings"
	"testing"
)

// A deployment's month, as its functions are billed; the better way where there is one; and the most
// that its instances could cost.
func TestEstimate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want []string
		not  string
	}{
		{"--rate 1000", []string{
			"$1,768.52 a month: documents $497.14, Increment $1,102.25 by the request, Rollup $169.13 by the request",
			"Less with --increment-billing instance --rollup-billing instance:", "$595.64 a month",
			"a day: those who may call it keep all instances busy, 10 of Increment and 2 of Rollup, with some\n  80,000 increments a second",
			// a write and a marker for each of 80,000, 8,000 roll-ups of two reads and two writes, 80,000 deletions
			"documents $14,791.68",
			// 10 × 8,000 requests a second at $0.40 a million, and 10 instances at $0.0909 an hour
			"Increment $2,786.62",
			"--increment-max-instances 1 --rollup-max-instances 1 lower that to $2,561.80 a day.\n", "it stops nothing",
		}, ""},
		{"--rate 1000 --increment-billing instance --rollup-billing instance --increment-max-instances 3 --rollup-max-instances 1", []string{
			"$595.64 a month: documents $497.14, Increment $49.25 by the instance, Rollup $49.25 by the instance",
			"3 of Increment and 1 of Rollup, with some\n  24,000 increments a second", "Increment $4.92, Rollup $1.64.", // $1.64 each
		}, "Less with"},
		{"--increment-max-instances 1", []string{"1 of Increment and 2 of Rollup", "\n  RATE_LIMIT slows"}, "lower that"},
		{"--rate 0.1", []string{"Increment $0.75 by the request"}, "Less with"},
		// One that is kept warm is $0.0135 an hour where nothing is in flight; by the instance it is the
		// same as one that is there anyway.
		{"--rate 0.1 --increment-min-instances 1", []string{"Increment $10.38 by the request"}, "Less with"},
		{"--rate 1000 --increment-billing instance --rollup-billing instance --increment-min-instances 2", []string{"Increment $98.50 by the instance"}, "Less with"},
		{"--rate 20000 --increment-billing instance --rollup-billing instance", []string{"Increment $147.74 by the instance"}, ""}, // three instances
		{"--rate 1000 --memory 1Gi --increment-billing instance --rollup-billing instance", []string{"Increment $51.84 by the instance"}, ""},
		// 42 writes and 20 deletions a second, and what two instances cost
		{"--rate 1000 --increment-billing instance --rollup-billing instance COMMIT_INTERVAL=50ms", []string{"$201.66 a month: documents $103.16"}, ""},
		{"--rate 1000 --increment-billing instance --rollup-billing instance EXACT_WRITES=false", []string{"documents $237.94"}, ""},
	} {
		stdout, stderr, code := counters(t, append([]string{"estimate"}, strings.Fields(c.args)...)...)
		for _, want := range c.want {
			if code != 0 || !strings.Contains(stdout, want) {
				t.Errorf("%s: exit code %d, %s; no %q in\n%s", c.args, code, stderr, want, stdout)
			}
		}
		if c.not != "" && strings.Contains(stdout, c.not) {
			t.Errorf("%s: %q in\n%s", c.args, c.not, stdout)
		}
	}
	for args, want := range map[string]string{
		"--rate 0": "--rate 0: want increments", "--memory 512": "--memory", "--location mars-north1": "mars-north1", "--rollup-billing hour": "--rollup-billing hour: want request or instance",
		"NUM_SHARDS=0": "NUM_SHARDS=0",
	} {
		if stdout, stderr, code := counters(t, append([]string{"estimate"}, strings.Fields(args)...)...); code != exitUsage || !strings.Contains(stderr, want) || stdout != "" {
			t.Errorf("%s: exit code %d, %s%s", args, code, stdout, stderr)
		}
	}
}
