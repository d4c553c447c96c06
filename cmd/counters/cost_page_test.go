package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firestore-counters/counters/cmd/counters/internal/deployment"
	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/cmd/internal/terminal"
)

//go:generate go test . -run TestCostPage -update

var update = flag.Bool("update", false, "write the tables of docs/cost.md, as `go generate ./cmd/counters` does")

// The tables of docs/cost.md are made of what counters cost works out.
func TestCostPage(t *testing.T) {
	t.Parallel()
	const page = "../../docs/cost.md"
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for name, table := range map[string]string{"on paper": paperTable(), "ways to pay": waysTable(), "locations": locationsTable(), "commit intervals": intervalsTable(), "editions": editionsTable(), "ceilings": ceilingsTable(t)} {
		begin, end := "<!-- "+name+": made by go generate ./cmd/counters -->\n", "<!-- end of "+name+" -->\n"
		before, rest, ok := strings.Cut(text, begin)
		_, after, there := strings.Cut(rest, end)
		if !ok || !there {
			t.Fatalf("docs/cost.md has no lines %q and %q", begin, end)
		}
		text = before + begin + table + end + after
	}
	if text == string(content) {
		return
	}
	if !*update {
		t.Fatal("docs/cost.md is not what counters cost says: run go generate ./cmd/counters")
	}
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// paperLoad is a load of the page: nothing is read, the rest is what the command takes by default.
func paperLoad(rate float64, counters int) cost.Load {
	return cost.Load{Rate: rate, Counters: counters, Commit: cost.CommitTime, Interval: time.Second, Instances: 1, PerShard: cost.HotRate}
}

func sheetOf(l cost.Load, location string) *costSheet {
	prices, err := cost.PricesOf(location)
	if err != nil {
		panic(err) // Not possible: the page names known ones.
	}
	return newCostSheet(l, prices, cost.Cheaper)
}

// paperTable has what a month costs, and of what.
func paperTable() string {
	sheets := []*costSheet{sheetOf(paperLoad(3.858, 10_000), "us-central1"), sheetOf(paperLoad(100, 1), "us-central1"), sheetOf(paperLoad(1000, 1), "us-central1")}
	var b strings.Builder
	row := func(name string, cell func(s *costSheet, d pricedUsage) string) {
		fmt.Fprintf(&b, "| %s |", name)
		for _, s := range sheets {
			fmt.Fprintf(&b, " %s |", cell(s, s.design(cost.Ours)))
		}
		b.WriteString("\n")
	}
	b.WriteString("| a month | 10 million over 10,000 quiet counters | 100 a second on one counter (259 million) | 1,000 a second on one counter (2.6 billion) |\n| --- | --- | --- | --- |\n")
	dollars := func(v float64) string { return "$" + thousands(v) }
	documents := func(s *costSheet, perSecond, price float64, what string) string {
		n := perSecond * secondsPerMonth
		return fmt.Sprintf("%s M %s, %s", strings.TrimSuffix(fmt.Sprintf("%.1f", n/1e6), ".0"), what, dollars(n*price/1e5))
	}
	row("increments' commits: shard and marker", func(s *costSheet, d pricedUsage) string {
		return documents(s, d.Usage.Writes-d.RollUps, s.Prices.Writes, "writes")
	})
	row("markers deleted by TTL", func(s *costSheet, d pricedUsage) string {
		return documents(s, d.Usage.Deletes, s.Prices.Deletes, "deletes")
	})
	row("roll-ups: the total", func(s *costSheet, d pricedUsage) string { return documents(s, d.RollUps, s.Prices.Writes, "writes") })
	row("roll-ups: their questions", func(s *costSheet, d pricedUsage) string { return documents(s, d.Usage.Reads, s.Prices.Reads, "reads") })
	for i, name := range []string{"`Increment`", "`Rollup`"} {
		row(name, func(s *costSheet, _ pricedUsage) string { return bothWays(s.Functions[i]) })
	}
	total := func(d pricedUsage) string {
		text := fmt.Sprintf("$%s, $%.2f a million", thousands(d.Month), d.Million)
		if d.Unworkable != "" {
			text += " (!)"
		}
		return text
	}
	row("**together**", func(_ *costSheet, d pricedUsage) string { return "**" + total(d) + "**" })
	for _, other := range []cost.Name{cost.Blind, cost.SumOnRead, cost.OneDocument} {
		row(string(other), func(s *costSheet, _ pricedUsage) string { return total(s.design(other)) })
	}
	return b.String()
}

// bothWays is a function by both ways to pay, the one that is taken in bold.
func bothWays(f pricedFunction) string {
	request, instance := "$"+thousands(f.ByRequest)+" by the request", "$"+thousands(f.ByInstance)+" by the instance"
	if f.Billing == cost.ByInstance {
		return request + ", **" + instance + "**"
	}
	return "**" + request + "**, " + instance
}

// waysTable has what a million increments of one counter cost by rate, in both ways.
func waysTable() string {
	var b strings.Builder
	b.WriteString("| increments a second | by the request | by the instance | the cheaper way of each | blind trigger | `sum()` on read | floor |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, rate := range []float64{0.1, 1, 11.574, 100, 1000, 10_000} {
		s := sheetOf(paperLoad(rate, 1), "us-central1")
		d := s.design(cost.Ours)
		name := strings.TrimSuffix(strings.TrimSuffix(thousands(rate), "0"), ".0")
		if rate == 11.574 {
			name = "11.6: a million a day"
		}
		fmt.Fprintf(&b, "| %s | $%s | $%s | **$%s** | $%s | $%s | $%s |\n", name, thousands(d.ByRequest), thousands(d.ByInstance), thousands(d.Million),
			thousands(s.design(cost.Blind).Million), thousands(s.design(cost.SumOnRead).Million), thousands(s.design(cost.Floor).Million))
	}
	return b.String()
}

// editionsTable has what a million increments cost in a database of each edition.
func editionsTable() string {
	var b strings.Builder
	b.WriteString("| increments | Standard | Enterprise | |\n| --- | --- | --- | --- |\n")
	for _, row := range []struct {
		load     string
		rate     float64
		counters int
	}{
		{"10 million a month over 10,000 quiet counters", 3.858, 10_000}, {"1 a second of one counter", 1, 1}, {"a million a day of one counter", 11.574, 1},
		{"100 a second of one counter", 100, 1}, {"1,000 a second of one counter", 1000, 1}, {"5,000 a second over 1,000 counters", 5000, 1000},
	} {
		s := sheetOf(paperLoad(row.rate, row.counters), "us-central1")
		standard, enterprise := s.design(cost.Ours).Month, s.Other.Month
		each := 1e6 / (row.rate * secondsPerMonth)
		fmt.Fprintf(&b, "| %s | $%.2f a million | $%.2f a million | %.0f %% less |\n", row.load, standard*each, enterprise*each, 100*(1-enterprise/standard))
	}
	return b.String()
}

// ceilingsTable has what fits below a ceiling, by the way to pay and the edition.
func ceilingsTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| at most | paid | of one counter, without keys | a commit each | a commit each, Enterprise |\n| --- | --- | --- | --- | --- |\n")
	for _, c := range []struct {
		day     string
		billing cost.Billing
	}{{"5", cost.ByInstance}, {"10", cost.ByRequest}, {"10", cost.ByInstance}, {"50", cost.ByRequest}, {"50", cost.ByInstance}, {"500", cost.ByInstance}} {
		of := func(edition cost.Edition) cost.Ceiling {
			w := deployment.Usual("us-central1")
			w.MostPerDay, w.Billing, w.RollupBilling = c.day, string(c.billing), string(c.billing)
			if err := errors.Join(w.Check(), w.Bound(edition)); err != nil {
				t.Fatal(err)
			}
			return *w.Ceiling
		}
		standard, enterprise := of(cost.Standard), of(cost.Enterprise)
		fmt.Fprintf(&b, "| $%s a day | by the %s, %s and %d | %s a second | %s | %s |\n", c.day, c.billing,
			terminal.Count(standard.Increment.Instances, "instance"), standard.Rollup.Instances, few(standard.Hot), few(standard.Even), few(enterprise.Even))
	}
	return b.String()
}

// intervalsTable has what waiting for company costs and saves.
func intervalsTable() string {
	rates := []float64{10, 100, 1000}
	var b strings.Builder
	b.WriteString("| `COMMIT_INTERVAL` | 10 increments a second of one counter | 100 | 1,000 |\n| --- | --- | --- | --- |\n")
	for _, interval := range []time.Duration{0, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond} {
		fmt.Fprintf(&b, "| `%v` |", interval)
		for _, rate := range rates {
			s := sheetOf(paperLoad(rate, 1), "us-central1")
			p := s.Intervals[slices.IndexFunc(s.Intervals, func(p pricedInterval) bool { return p.Interval == interval })]
			fmt.Fprintf(&b, " $%.2f a million, %.0f ms", p.Million, float64(p.Takes)/float64(time.Millisecond))
			if p.Saves > 0 {
				fmt.Fprintf(&b, "; $%.4f each ms", p.Saves)
			}
			b.WriteString(" |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// locationsTable is the price list, with what a million increments cost at 1,000 a second.
func locationsTable() string {
	var b strings.Builder
	b.WriteString("| location | reads, writes, deletes per 100,000 | Cloud Run | a million at 1,000 a second | Firestore's prices from |\n| --- | --- | --- | --- | --- |\n")
	list := cost.List()
	slices.SortFunc(list, func(a, b cost.Prices) int { return cmp.Compare(a.Location, b.Location) })
	for _, p := range list {
		run := fmt.Sprintf("tier %d", p.Tier)
		if p.Run.Region != p.Location {
			run = p.Run.Region + ", " + run
		}
		fmt.Fprintf(&b, "| `%s` | $%v, $%v, $%v | %s | $%.2f | %s |\n", p.Location, p.Reads, p.Writes, p.Deletes, run, sheetOf(paperLoad(1000, 1), p.Location).design(cost.Ours).Million, p.Source)
	}
	return b.String()
}
