package main

import (
	"cmp"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/cost"
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
			"about $1,800 a month: documents $495.59, Increment $1,102.25 by the request, Rollup $169.13 by the request",
			"Less with --increment-billing instance --rollup-billing instance:", "about $590 a month",
			"Nothing bounds what a flood costs: some $67,000 a day, where requests of POST / with 500 counters each keep all instances busy,\n  10 of Increment and 2 of Rollup: 780,000 writes a second, measured",
			// a write for each of 780,000 and a marker for each 500, 1,600 roll-ups of three reads and a write
			"Documents $61,036.42",
			// 1,560 requests a second at $0.40 a million, and 10 instances at $0.0909 an hour
			"Increment $75.73",
			"it stops nothing",
		}, ""},
		{"--rate 1000 --increment-billing instance --rollup-billing instance --increment-max-instances 3 --rollup-max-instances 1", []string{
			"about $590 a month: documents $495.59, Increment $49.25 by the instance, Rollup $49.25 by the instance",
			"3 of Increment and 1 of Rollup: 234,000 writes a second", "Increment $4.92, Rollup $1.64, answers", // $1.64 each
		}, "Less with"},
		{"--rate 1000 --increment-billing instance --rollup-billing instance --edition enterprise", []string{"Firestore: firebase.google.com", "about $300 a month: documents $203.76"}, "database of the"},
		{"--rate 1000 --increment-billing instance --rollup-billing instance", []string{"Less in a database of the Enterprise edition, about $300 a month"}, ""},
		{"--increment-max-instances 1 --set AUTH=firebase", []string{"POST / with 20 counters each", "1 of Increment and 2 of Rollup: 47,000 writes"}, "with 500"},
		{"--public --set AUTH=firebase", []string{"At most $10.00 a day, whatever anybody sends (--most-per-day 10USD, as nothing else was asked for: --most-per-day none bounds nothing): some 63 increments a second of one counter, or 4.3 over a thousand.",
			"63.05", "kept back", "together", "App Check", "about $2.70 a month"}, "Nothing bounds what a flood costs"},
		{"--most-per-day 50USD --increment-billing instance --rollup-billing instance", []string{"At most $50.00 a day, whatever anybody sends (--most-per-day 50USD): some 3,300 increments"}, "requests  "},
		{"--increment-max-instances 1", []string{"1 of Increment and 2 of Rollup", "\n  --most-per-day 10USD bounds it. RATE_LIMIT slows"}, "lower that"},
		{"--rate 0.1", []string{"Increment $0.75 by the request"}, "Less with"},
		// One that is kept warm is $0.0135 an hour where nothing is in flight; by the instance it is the
		// same as one that is there anyway.
		{"--rate 0.1 --increment-min-instances 1", []string{"Increment $10.38 by the request"}, "Less with"},
		{"--rate 1000 --increment-billing instance --rollup-billing instance --increment-min-instances 2", []string{"Increment $98.50 by the instance"}, "Less with"},
		{"--rate 20000 --increment-billing instance --rollup-billing instance", []string{"Increment $147.74 by the instance"}, ""}, // three instances
		{"--rate 1000 --memory 1Gi --increment-billing instance --rollup-billing instance", []string{"Increment $51.84 by the instance"}, ""},
		// 41 writes, 2 reads and 20 deletions a second, and what two instances cost
		{"--rate 1000 --increment-billing instance --rollup-billing instance --set COMMIT_INTERVAL=50ms", []string{"about $200 a month: documents $101.61"}, ""},
		{"--rate 1000 --increment-billing instance --rollup-billing instance --set EXACT_WRITES=false", []string{"documents $236.39"}, ""},
	} {
		stdout, err := estimated(t, c.args)
		for _, want := range c.want {
			if err != nil || !strings.Contains(stdout, want) {
				t.Errorf("%s: %v; no %q in\n%s", c.args, err, want, stdout)
			}
		}
		if c.not != "" && strings.Contains(stdout, c.not) {
			t.Errorf("%s: %q in\n%s", c.args, c.not, stdout)
		}
	}
	for args, want := range map[string]string{"--memory 512": "--memory", "--location mars-north1": "mars-north1", "--rollup-billing hour": "--rollup-billing hour: want request or instance", "--set NUM_SHARDS=0": "NUM_SHARDS=0"} {
		if stdout, err := estimated(t, args); err == nil || !strings.Contains(err.Error(), want) || stdout != "" {
			t.Errorf("%s: %v, %s", args, err, stdout)
		}
	}
}

// estimated is the estimate in the plan of deploy with these options.
func estimated(t *testing.T, args string) (string, error) {
	t.Helper()
	var w deployment.Wanted
	flags := pflag.NewFlagSet("deploy", pflag.ContinueOnError)
	var load loadFlags
	load.add(flags)
	w.Flags(flags)
	if err := flags.Parse(append([]string{"--project=a-project", "--location=us-central1"}, strings.Fields(args)...)); err != nil {
		t.Fatal(err)
	}
	if err := w.Check(); err != nil {
		return "", err
	}
	edition := cost.Edition(cmp.Or(w.Edition, "standard"))
	if err := w.Bound(edition); err != nil {
		return "", err
	}
	return estimateOf(&w, edition, load)
}

// README.md, counters cost and the plan of counters deploy come to one price, of the same load by default.
func TestOnePrice(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, load, ours string }{
		{"", "10,000 increments a day of 1,000 counters", "**$2.70**"},
		{"--per-day 1000000 --counters 1000 --increment-billing instance --rollup-billing instance", "1,000,000 increments a day of 1,000 counters", "**$190**"},
		{"--rate 1000 --increment-billing instance --rollup-billing instance", "1,000 increments a second of one counter", "**$590**"},
	} {
		args, _, _ := strings.Cut(c.args, " --increment-billing")
		sheet, stderr, code := counters(t, append([]string{"cost"}, strings.Fields(args)...)...)
		plan, err := estimated(t, c.args)
		price := strings.Trim(c.ours, "*")
		if code != 0 || !strings.HasPrefix(sheet, "About "+price+" a month, ") || !strings.Contains(sheet, ": "+c.load+", on paper.\n") {
			t.Errorf("counters cost %s: exit code %d, %s; want %s for %s in\n%s", args, code, stderr, price, c.load, sheet)
		}
		if err != nil || !strings.HasPrefix(plan, "At "+c.load+", on paper, ") || !strings.Contains(plan, "\n  about "+price+" a month: ") {
			t.Errorf("counters deploy %s: %v; want %s for %s in\n%s", c.args, err, price, c.load, plan)
		}
		if !strings.Contains(string(readme), c.ours) {
			t.Errorf("README.md doesn't say %s, for %s", c.ours, c.load)
		}
	}
}
