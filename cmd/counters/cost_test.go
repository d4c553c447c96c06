package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/cost"
)

func TestCost(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"cost", "--rate", "1000", "--shards", "200", "--reads", "50", "--location", "nam5"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	rows := map[string][]string{}
	for line := range strings.Lines(stdout.String()) {
		for _, name := range []string{"this project", "MAX_BATCH=1 (!)", "blind trigger (!)", "floor"} {
			if rest, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok && rows[name] == nil {
				rows[name] = strings.Fields(rest)
			}
		}
	}
	// shards, reads, writes, deletes, requests, $ by request, by instance, as billed, $ a month, ms
	for name, want := range map[string][]string{
		"blind trigger (!)": {"200", "50000", "2000000", "0", "2000000", "4.481", "3.668", "3.668", "9507.46", "10.0"},
		"floor":             {"-", "0", "100000", "0", "1000000", "0.605", "0.199", "0.199", "515.81", "-"},
	} {
		if got := strings.Join(rows[name], " "); got != strings.Join(want, " ") {
			t.Errorf("%s: %s, want %v in:\n%s", name, got, want, stdout.String())
		}
	}
	for _, name := range []string{"this project", "MAX_BATCH=1 (!)"} { // both prices, and what they buy
		if rows[name] == nil {
			t.Errorf("no row of %s in:\n%s", name, stdout.String())
		}
	}
	// A single document while that holds, then a sum, then this project.
	text := stdout.String()
	one, sum, ours := strings.LastIndex(text, "one document, with no shards"), strings.LastIndex(text, "a sum() per read"), strings.LastIndex(text, "this project: any rate")
	if one < 0 || sum < one || ours < sum {
		t.Errorf("the choices are not one document, sum, this project:\n%s", text)
	}
}

// What waiting for company buys, and where it buys nothing.
func TestCostOfCompany(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][]string{
		"--rate 1000 --reads 1":                        {"0s 100 0.229 15.0 -", "50ms 20 0.078 35.0 $0.0038 a million"},
		"--rate 1000 --reads 1 --commit-interval 50ms": {"this project 40 2000 41000 20000 1020000 0.497 0.078 0.078", "0s 100 0.229 15.0 -"},
		"--rate 0.1": {"COMMIT_INTERVAL would save nothing"},
	} {
		stdout, stderr, code := counters(t, append([]string{"cost"}, strings.Fields(args)...)...)
		text := strings.Join(strings.Fields(stdout), " ")
		for _, want := range want {
			if code != 0 || !strings.Contains(text, want) {
				t.Errorf("%s: exit code %d, %s; no %q in\n%s", args, code, stderr, want, stdout)
			}
		}
	}
	if _, stderr, code := counters(t, "cost", "--commit-interval", "2s"); code != exitUsage || !strings.Contains(stderr, "--commit-interval 2s: want 0s to 1s") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// What keys add, once and not twice.
func TestCostOfKeys(t *testing.T) {
	t.Parallel()
	sheet := func(args string) (s costSheet) {
		stdout, stderr, code := counters(t, append([]string{"cost", "--json"}, strings.Fields(args)...)...)
		if err := json.Unmarshal([]byte(stdout), &s); code != 0 || err != nil {
			t.Fatalf("%s: exit code %d, %s, %v", args, code, stderr, err)
		}
		return s
	}
	without, with := sheet("--rate 1000"), sheet("--rate 1000 --keys 1")
	million := with.design("this project").Million - without.design("this project").Million
	if million < 0.99 || million > 1 || math.Abs(with.Keys) > 1e-9 {
		t.Errorf("a million keys cost $%v, and $%v more", million, with.Keys)
	}
	if month := million / 1e6 * 1000 * secondsPerMonth; math.Abs(without.Keys-month) > 1 {
		t.Errorf("a month of keys would add $%v, want $%v", without.Keys, month)
	}
	if stdout, _, _ := counters(t, "cost", "--rate", "1000"); !strings.Contains(stdout, "An Idempotency-Key with each increment would add $25") {
		t.Errorf("it isn't in\n%s", stdout)
	}
	if _, stderr, code := counters(t, "cost", "--keys", "2"); code != exitUsage || !strings.Contains(stderr, "--keys 2: want a share, 0 to 1") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// With its defaults, and at rates of all sizes, what it recommends holds, and the lines fit a
// terminal of 120 columns.
func TestCostRecommendsWhatHolds(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--rate", "0.1"}, {"--rate", "5000"}, {"--rate", "100000"}, {"--rate", "1000", "--counters", "1000"}, {"--rate", "1000", "--counters", "10"}} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), append([]string{"cost", "--json"}, args...), &stdout, &stderr); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr.String())
		}
		var sheet costSheet
		if err := json.Unmarshal(stdout.Bytes(), &sheet); err != nil {
			t.Fatal(err)
		}
		if sheet.Recommended == "" {
			t.Fatalf("%v: nothing is recommended", args)
		}
		if best := sheet.design(sheet.Recommended); best.Unworkable != "" || best.Million <= 0 {
			t.Errorf("%v: %s is recommended, for $%.2f a million, and %q", args, best.Name, best.Million, best.Unworkable)
		}
		stdout.Reset()
		if code := run(t.Context(), append([]string{"cost"}, args...), &stdout, &stderr); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr.String())
		}
		if !strings.Contains(stdout.String(), "Standard edition") {
			t.Errorf("%v: the edition of Firestore is not said:\n%s", args, stdout.String())
		}
		for line := range strings.Lines(stdout.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 120 {
				t.Errorf("%v: a line of %d columns: %s", args, n, line)
			}
		}
	}
}

func TestCostRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"--rate", "0", "--shards", "1001", "--instances", "0"}, []string{"--rate 0", "--shards 1001", "--instances 0"}},
		{[]string{"--counters", "0", "--per-shard", "NaN"}, []string{"--counters 0", "--per-shard NaN"}},
		{[]string{"--rate", "NaN", "--reads", "-1"}, []string{"--rate NaN", "--reads -1"}},
		{[]string{"--commit", "0s", "--interval", "6s"}, []string{"--commit 0s", "--interval 6s"}},
		{[]string{"--location", "mars-north1"}, []string{"mars-north1", "us-central1", "nam5"}},
		{[]string{"--billing", "hour"}, []string{"--billing hour", "request or instance"}},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), append([]string{"cost"}, tt.args...), &stdout, &stderr); code != exitUsage || stdout.Len() > 0 {
			t.Errorf("%v: exit code %d, and it printed %q", tt.args, code, stdout.String())
		}
		for _, want := range tt.want {
			if !strings.Contains(stderr.String(), want) {
				t.Errorf("%v: %q doesn't say %q", tt.args, stderr.String(), want)
			}
		}
	}
}

// Each function is billed in the way that costs less, unless the command is told, and the rate is
// printed from which on the other one wins: of this project, a blind trigger and a sum.
func TestCostBilling(t *testing.T) {
	t.Parallel()
	sheet := func(args ...string) (s costSheet) {
		t.Helper()
		stdout, stderr, code := counters(t, append([]string{"cost", "--json"}, args...)...)
		if err := json.Unmarshal([]byte(stdout), &s); code != 0 || err != nil {
			t.Fatalf("%v: exit code %d, %v: %s", args, code, err, stderr)
		}
		return s
	}
	billed := func(s costSheet) (b []string) {
		for _, f := range s.Functions {
			b = append(b, fmt.Sprintf("%s %s: %s from %.1f", f.Design, f.Function, f.Billing, f.From))
		}
		return b
	}
	for _, c := range []struct {
		args string
		want []string
	}{
		{"--rate 1000", []string{"this project Increment: instance from 9.3", "this project Rollup: instance from 3.2", "blind trigger increments: instance from 9.3", "blind trigger trigger: instance from 9.3", "sum() on read increments: instance from 9.3"}},
		{"--rate 5", []string{"this project Increment: request from 9.3", "this project Rollup: instance from 3.2", "blind trigger increments: request from 9.3", "blind trigger trigger: request from 9.3", "sum() on read increments: request from 9.3"}},
		{"--rate 1000 --billing request", []string{"this project Increment: request from 9.3", "this project Rollup: request from 3.2", "blind trigger increments: request from 9.3", "blind trigger trigger: request from 9.3", "sum() on read increments: request from 9.3"}},
	} {
		if got := billed(sheet(strings.Fields(c.args)...)); strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: %q, want %q", c.args, got, c.want)
		}
	}
	// A million at 1,000 a second, in dollars, nothing being read.
	for args, want := range map[string]float64{"--rate 1000 --reads 0": 0.23, "--rate 1000 --reads 0 --billing request": 0.68, "--rate 1000 --reads 0 --billing instance": 0.23} {
		s := sheet(strings.Fields(args)...)
		if got := s.design(cost.Ours).Million; math.Abs(got-want) > 0.005 {
			t.Errorf("%s: $%.3f a million, want $%.2f", args, got, want)
		}
		if d := s.design(cost.Ours); s.Billing == cost.ByRequest && d.Million != d.ByRequest || s.Billing != cost.ByRequest && d.Million != d.ByInstance {
			t.Errorf("%s: $%v a million, by the request $%v, by the instance $%v", args, d.Million, d.ByRequest, d.ByInstance)
		}
	}
	text, stderr, code := counters(t, "cost", "--rate", "1000", "--location", "europe-central2")
	for _, want := range []string{"Firestore in europe-central2, Standard edition: cloud.google.com/firestore/pricing, as of 2026-09", "Cloud Run in europe-central2, tier 2", "8.1/s on"} {
		if code != 0 || !strings.Contains(text, want) {
			t.Errorf("exit code %d, %s: no %q in\n%s", code, stderr, want, text)
		}
	}
}

// Either edition can be asked for, and names the other where that costs 30 % less.
func TestCostOfEditions(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][]string{
		"--rate 1000 --reads 1":                         {"Standard edition: cloud.google.com/firestore/pricing", "In a database of the Enterprise edition it would cost $302.38 a month, 49 % less: --edition enterprise\n"},
		"--rate 1000 --edition enterprise":              {"Enterprise edition: firebase.google.com/docs/firestore/enterprise/pricing", "shards  read units  write units  deletes"},
		"--rate 1 --edition enterprise --location eur3": {"estimated by those of us-central1"},
	} {
		text, stderr, code := counters(t, append([]string{"cost"}, strings.Fields(args)...)...)
		for _, want := range want {
			if code != 0 || !strings.Contains(text, want) {
				t.Errorf("%s: exit code %d, %s: no %q in\n%s", args, code, stderr, want, text)
			}
		}
		if strings.Contains(args, "enterprise") && strings.Contains(text, "In a database of") {
			t.Errorf("%s names the dearer edition:\n%s", args, text)
		}
	}
	if _, stderr, code := counters(t, "cost", "--edition", "gold"); code != 2 || !strings.Contains(stderr, "--edition gold: want standard or enterprise") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// README.md's table of alternatives has what counters cost says of each, and where one fails.
func TestCostInReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var sheets []costSheet
	for _, args := range []string{"", "--per-day 1000000 --counters 1000", "--rate 1000"} {
		stdout, stderr, code := counters(t, append([]string{"cost", "--json"}, strings.Fields(args)...)...)
		var sheet costSheet
		if err := json.Unmarshal([]byte(stdout), &sheet); code != 0 || err != nil {
			t.Fatalf("%s: exit code %d, %v: %s", args, code, err, stderr)
		}
		sheets = append(sheets, sheet)
	}
	for row, design := range map[string]cost.Name{
		"the same by a function": cost.OneDocument, "a `sum()` of shards per read": cost.SumOnRead, "a trigger by hand": cost.Blind, "**this**": cost.Ours,
	} {
		want := "| " + row + " |"
		for _, sheet := range sheets {
			switch d := sheet.design(design); {
			case d.Unworkable != "":
				want += " fails |"
			case design == cost.Ours:
				want += " **" + about(d.Month) + "** |"
			default:
				want += " " + about(d.Month) + " |"
			}
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("README.md has no row %q", want)
		}
	}
	// From the page, it is a write each, without a function.
	if want := fmt.Sprintf("| one document, `increment()` from the page | %s | %s | fails |", about(0.3*0.90), about(30*0.90)); !strings.Contains(string(text), want) {
		t.Errorf("README.md has no row %q", want)
	}
}

// What pages say that it prints is what it prints.
func TestCostInPages(t *testing.T) {
	t.Parallel()
	read := func(page string) string {
		text, err := os.ReadFile(filepath.Join("../../docs", page))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	table, stderr, code := counters(t, "cost", "--at-large")
	if code != 0 || !strings.Contains(read("at-large.md"), table) {
		t.Errorf("at-large.md has another table than this (exit code %d):\n%s%s", code, table, stderr)
	}
	const readme = "../README.md"
	for _, c := range []struct{ page, args, says string }{
		{"cost.md", "--reads 0 --rate 3.858 --counters 10000", "$%.2f a million**"},
		{"cost.md", "--reads 0 --rate 100", "$%.2f a million**"},
		{"cost.md", "--reads 0 --rate 1000", "$%.2f a million**"},
		{"cost.md", "--reads 0 --rate 100 --commit 30ms", "(`--commit 30ms`) $%.2f a million"},
		{"cost.md", "--reads 0 --rate 5000 --counters 1000", "commits a second, $%.2f a million"},
	} {
		stdout, stderr, code := counters(t, append([]string{"cost", "--json"}, strings.Fields(c.args)...)...)
		var sheet costSheet
		if err := json.Unmarshal([]byte(stdout), &sheet); code != 0 || err != nil {
			t.Fatalf("%s: exit code %d, %v: %s", c.args, code, err, stderr)
		}
		if says := fmt.Sprintf(c.says, sheet.Designs[0].Million); !strings.Contains(read(c.page), says) {
			t.Errorf("%s doesn't say %q, as counters cost %s does", c.page, says, c.args)
		}
	}
	// What a flood costs where nothing bounds it, and what bounds it.
	stdout, err := estimated(t, "--increment-max-instances 1 --rollup-max-instances 1")
	worst := regexp.MustCompile(`Nothing bounds what a flood costs: some (\$[\d,]+) a day`).FindStringSubmatch(stdout)
	if err != nil || worst == nil {
		t.Fatalf("no worst case: %v\n%s", err, stdout)
	}
	for _, page := range []string{readme, "cost.md"} {
		if !strings.Contains(read(page), worst[1]+" a day") {
			t.Errorf("%s has another worst case than %s", page, worst[1])
		}
	}
	for _, page := range []string{readme, "cost.md", "likes.md"} {
		if !strings.Contains(read(page), "$"+strings.TrimSuffix(deployment.UsualCeiling, "USD")+" a day") {
			t.Errorf("%s doesn't say what a day costs at most by default", page)
		}
	}
}
