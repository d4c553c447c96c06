package bench

import (
	"fmt"
	"strings"
	"time"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// table is a table in Markdown: a heading, and rows.
type table [][]string

func (t table) String() string {
	var b strings.Builder
	for i, row := range t {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s\n", strings.Repeat(" --- |", len(row)))
		}
	}
	return b.String()
}

// figure is the median alone, as the tables of docs have it.
func (m Metric) figure() string {
	m.Rounds = min(m.Rounds, 1)
	return m.String()
}

// of is a figure of a scenario, under its first load or the one that is named.
func (r *Report) of(scenario, contestant, load, name string) Metric {
	if result := r.result(scenario); result != nil {
		return result.metric(contestant, load, name)
	}
	return Metric{Name: name}
}

func (r *Report) figure(scenario, contestant, load, name string) string {
	return r.of(scenario, contestant, load, name).figure()
}

// spread is a ratio with its lowest and highest round.
func (r *Report) spread(id string) string { return Metric{Measure: r.ratio(id).Measure}.String() }

// dollars is a price in dollars and cents.
func dollars(v float64) string { return fmt.Sprintf("$%.2f", v) }

func (r *Report) price(scenario, contestant string) string {
	return r.priced(scenario, contestant, perMillion)
}

func (r *Report) priced(scenario, contestant, figure string) string {
	m := r.of(scenario, contestant, "", figure)
	if m.Rounds == 0 {
		return "-"
	}
	return dollars(m.Median)
}

// taken says when, and on what, figures were taken.
func (r *Report) taken() string {
	begin, end := r.Date, r.Date
	for _, result := range r.Results {
		if result.Scenario == "flood" { // says what is billed, which a busy machine doesn't change; docs/cost.md says when
			continue
		}
		if !result.Began.IsZero() && result.Began.Before(begin) {
			begin = result.Began
		}
		if last := result.Began.Add(time.Duration(result.Seconds * float64(time.Second))); last.After(end) {
			end = last
		}
	}
	until := "15:04"
	if begin.UTC().YearDay() != end.UTC().YearDay() { // some were measured again
		until = "2006-01-02, 15:04"
	}
	return fmt.Sprintf("%s to %s UTC, %s; nothing else ran (a load average of %.2f before)", begin.UTC().Format("2006-01-02, 15:04"), end.UTC().Format(until), r.Machine, r.LoadAverage)
}

// aDay is a million increments a day, evenly over it, on one counter.
var aDay = cost.Load{Rate: 1e6 / (24 * 60 * 60), Counters: 1}

// readme are the figures that a stranger wants first.
func (r *Report) readme() string {
	million := func(contestant string) string {
		return r.price("cost", contestant) + ", p50 " + r.figure("cost", contestant, "", "p50") + " ms"
	}
	return table{
		{"", "here", "blind"},
		{"increments a second, one hot counter", r.figure("hot", nameOurs, "", "increments/s"), r.figure("hot", nameBlind, "", "increments/s")},
		{"the same where a document takes one write a second (plain `increment()`: 1)", r.figure("hot", nameOurs, hotLoad, "increments/s"), r.figure("hot", nameBlind, hotLoad, "increments/s")},
		{"five clicks on a quiet counter: until the total shows each, p99", r.figure("clicks", nameOurs, "", "shown after, p99") + " s", r.figure("clicks", nameBlind, "", "shown after, p99") + " s"},
		{"how late the total is at 1,000 increments a second, p99", r.figure("lag", nameOurs, "", "lag p99") + " s", r.figure("lag", nameBlind, "", "lag p99") + " s, and growing"},
		{"off by, after 100,000 increments with doubled events and lost answers", r.figure("drift", nameOurs, "", "drift"), r.figure("drift", nameBlind, "", "drift")},
		{"a million increments at 1,000 a second, and how long each takes", million(nameOurs), dollars(onPaper(cost.Blind, steadyLoad)) + " on paper, p50 " + r.figure("cost", nameBlind, "", "p50") + " ms"},
		{"the same with `COMMIT_INTERVAL=50ms`", million(nameCompany), ""},
		{"a million of one counter over a day, on paper", dollars(onPaper(cost.Ours, aDay)), dollars(onPaper(cost.Blind, aDay))},
	}.String() + "\n" + r.taken() + ". Each function is [billed](docs/cost.md#two-ways-to-pay) in the way that costs less. " +
		"Where it loses, and what exactness costs: [docs/benchmarks.md](docs/benchmarks.md).\n"
}

// measured are the figures beside what people build today.
func (r *Report) measured() string {
	rate := func(scenario, contestant, load string) string {
		return r.figure(scenario, contestant, load, "increments/s")
	}
	seconds := func(scenario, contestant, name string) string { return r.figure(scenario, contestant, "", name) + " s" }
	return r.taken() + ". Medians of rounds (lowest to highest).\n\n" + table{
		{"", "ours", "other", "ratio, ours ÷ other"},
		{"increments a second, one hot counter of 100 shards", rate("hot", nameOurs, ""), rate("hot", nameBlind, ""), r.spread("hot:ours/blind")},
		{"the same where a document takes one write a second", rate("hot", nameOurs, hotLoad), rate("hot", nameBlind, hotLoad), r.spread("hot" + hotFigure + ":ours/blind")},
		{"the same without that, ÷ no-op", rate("hot", nameOurs, ""), "no-op: " + rate("hot", nameNoop, ""), r.spread("hot:ours/no-op")},
		{"the same, ÷ a no-op that waits for 10 ms, as a commit does", rate("hot", nameOurs, ""), rate("hot", nameWaiting, ""), r.spread("hot:ours/" + nameWaiting)},
		{"increments a second over 1,000 counters, by Zipf's law", rate("zipf", nameOurs, ""), rate("zipf", nameBlind, ""), r.spread("zipf:ours/blind")},
		{"the same, ÷ no-op", rate("zipf", nameOurs, ""), "no-op: " + rate("zipf", nameNoop, ""), r.spread("zipf:ours/no-op")},
		{"events a second at the default interval, ÷ no-op", r.figure("events", nameOurs, "", "events/s"), "no-op: " + r.figure("events", nameNoop, "", "events/s") + "; blind: " + r.figure("events", nameBlind, "", "events/s"), r.spread("events:ours/no-op")},
		{"p50 of a lone increment, no added latency", r.figure("lone", nameOurs, "", "p50") + " ms", r.figure("lone", nameBlind, "", "p50") + " ms", r.spread("lone:ours/blind")},
		{"the same without the [marker](exactness.md#words) (`EXACT_WRITES=false`)", r.figure("lone", nameUnmarked, "", "p50") + " ms", "", r.spread("lone:" + nameUnmarked + "/blind")},
		{"five clicks within 2 s on a quiet counter: shown after, p50", seconds("clicks", nameOurs, "shown after, p50"), seconds("clicks", nameBlind, "shown after, p50"), ""},
		{"the same, p99", seconds("clicks", nameOurs, "shown after, p99"), seconds("clicks", nameBlind, "shown after, p99"), r.spread("clicks") + " × a commit, a delivery and a query"},
		{"the same with one roll-up an interval (`ROLLUP_BURST=1`), p50; p99", seconds("clicks", nameSingle, "shown after, p50") + "; " + seconds("clicks", nameSingle, "shown after, p99"), "", ""},
		{"p99 of the lag at 1,000 increments a second on a hot document", seconds("lag", nameOurs, "lag p99"), seconds("lag", nameBlind, "lag p99") + ", and growing", ""},
		{"the same with 3 instances; 8", r.figure("lag", nameOurs, lagLoad(3), "lag p99") + " s; " + r.figure("lag", nameOurs, lagLoad(8), "lag p99") + " s", "", ""},
		{"writes a second on the hot counter's document", r.figure("lag", nameOurs, "", "total writes/s"), r.figure("lag", nameBlind, "", "total writes/s"), ""},
		{"drift after 100,000 increments, 10 % of events twice, 1 % of answers lost", r.figure("drift", nameOurs, "", "drift"), r.figure("drift", nameBlind, "", "drift"), ""},
		{"cost of a million increments at 1,000 a second, one counter", r.price("cost", nameOurs), r.price("cost", nameBlind) + " while its total falls behind; " + dollars(onPaper(cost.Blind, steadyLoad)) + " on paper", r.spread("cost:ours/blind")},
		{"the same, all by the request", r.priced("cost", nameOurs, byRequest), r.priced("cost", nameBlind, byRequest) + "; no-op: " + r.priced("cost", nameNoop, byRequest), r.spread("cost, by the request:ours/blind")},
		{"the same, all by the instance", r.priced("cost", nameOurs, byInstance), r.priced("cost", nameBlind, byInstance), r.spread("cost, by the instance:ours/blind")},
		{"the same with `COMMIT_INTERVAL=50ms`", r.price("cost", nameCompany), r.price("cost", nameBlind), ""},
		{"the same with a `sum()` per read", r.price("cost", nameOurs), "`sum()`: " + r.price("cost", nameSum), ""},
		{"the same, ÷ floor (a write for all that come during a commit, and one function)", "", "floor: " + dollars(onPaper(cost.Floor, steadyLoad)) + " on paper", r.spread("cost:floor")},
		{"until such an increment is answered, p50", r.figure("cost", nameOurs, "", "p50") + " ms; with `COMMIT_INTERVAL=50ms` " + r.figure("cost", nameCompany, "", "p50") + " ms", r.figure("cost", nameBlind, "", "p50") + " ms", ""},
		{"cost of a million over 1,000 counters, evenly, ÷ blind on paper", r.price("even", nameOurs), dollars(evenOnPaper()) + " on paper", r.spread("even:cost")},
		{"cost of a million members who join, ÷ increments with a key", r.figure("members", nameOurs, joins, "per million"), r.figure("members", nameOurs, keyed, "per million"), r.spread("members:cost")},
		{"reads of the total a second, ÷ `sum()`", r.figure("reads", nameOurs, "", "reads/s"), "`sum()`: " + r.figure("reads", nameSum, "", "reads/s"), r.spread("reads:ours/sum")},
		{"billed reads per 1,000 answers", r.figure("reads", nameOurs, "", "billed reads per 1,000"), "`sum()`: " + r.figure("reads", nameSum, "", "billed reads per 1,000"), ""},
		{"memory with 10,000 requests in flight", r.figure("memory", nameOurs, memoryLoad, "most") + " MiB", r.figure("memory", nameBlind, memoryLoad, "most") + " MiB; no-op: " + r.figure("memory", nameNoop, memoryLoad, "most") + " MiB", ""},
		{"cold start of `Increment`, ÷ no-op", r.figure("cold", "Increment", "", "first answer") + " ms", r.figure("cold", nameNoop, "", "first answer") + " ms", r.spread("cold:Increment")},
		{"cold start of `Rollup`, ÷ no-op", r.figure("cold", "Rollup", "", "first answer") + " ms", r.figure("cold", "no-op, event", "", "first answer") + " ms", r.spread("cold:Rollup")},
		{"cold start of `Reconcile`, ÷ no-op", r.figure("cold", "Reconcile", "", "first answer") + " ms", r.figure("cold", nameNoop, "", "first answer") + " ms", r.spread("cold:Reconcile")},
	}.String()
}

// worked is what the CPU was used for.
func (r *Report) worked() string {
	t := table{{"", "ratio"}}
	for _, row := range []struct{ name, id string }{
		{"one hot counter, ÷ blind", "hot:ours/blind"},
		{"one hot counter, ÷ no-op", "hot:ours/no-op"},
		{"one hot counter, ÷ a no-op that waits for 10 ms", "hot:ours/" + nameWaiting},
		{"1,000 counters by Zipf, ÷ blind", "zipf:ours/blind"},
		{"1,000 counters by Zipf, ÷ no-op", "zipf:ours/no-op"},
		{"an event, ÷ no-op", "events:ours/no-op"},
		{"an event, ÷ blind", "events:ours/blind"},
		{"a lone increment, ÷ blind", "lone:ours/blind"},
		{"a read, ÷ `sum()`", "reads:ours/sum"},
	} {
		t = append(t, []string{row.name, r.spread(row.id + ", CPU")})
	}
	share := func(name string) string { return r.figure("hot", name, "", "CPU") + " µs" }
	return t.String() + fmt.Sprintf("\nCPU time of the function alone, for an answer of the hot counter: ours %s, no-op %s, and a no-op that waits for 10 ms before it answers %s. That last one is the HTTP layer's, and the floor.\n", share(nameOurs), share(nameNoop), share(nameWaiting))
}

// exactness is what a marker, and a shared commit, add to an increment's latency.
func (r *Report) exactness() string {
	t := table{{"increments a second, a commit", "ours", "without marker", "`MAX_BATCH=1`", "blind", "commits a second: ours", "`MAX_BATCH=1`"}}
	for _, commit := range latencyCommits {
		for _, perSecond := range latencyRates {
			load := latencyLoad(perSecond, commit)
			row := []string{strings.Replace(load, "ms", " ms", 1)}
			for _, who := range []string{nameOurs, nameUnmarked, nameUnshared, nameBlind} {
				row = append(row, r.figure("latency", who, load, "p50")+" / "+r.figure("latency", who, load, "p99"))
			}
			t = append(t, append(row, r.figure("latency", nameOurs, load, "commits/s"), r.figure("latency", nameUnshared, load, "commits/s")))
		}
	}
	return t.String()
}

// crowd is how soon a crowd's increments are in the total.
func (r *Report) crowd() string {
	t := table{{"", "within 0.1 s", "1 s", "5 s", "10 s", "99 % within", "99 % of all after"}}
	for _, counters := range burstSizes {
		for _, instances := range burstInstances {
			for _, state := range burstStates {
				load := burstLoad(counters, state, instances)
				share := func(within string) string { return r.figure("burst", nameOurs, load, "in "+within) + " %" }
				t = append(t, []string{
					fmt.Sprintf("%s, %s, %s", plural(counters, "counter"), burstWords[state], plural(instances, "instance")),
					share("100ms"), share("1s"), share("5s"), share("10s"),
					r.figure("burst", nameOurs, load, "lag p99") + " s", r.figure("burst", nameOurs, load, "99 % after") + " s",
				})
			}
		}
	}
	return t.String()
}

// intervals compares the default interval with one of 5 s, on one instance.
func (r *Report) intervals() string {
	t := table{{"", "`1s`", "`5s`"}}
	for _, counters := range burstSizes {
		for _, state := range burstStates {
			load := burstLoad(counters, state, 1)
			t = append(t, []string{plural(counters, "counter") + ", " + burstWords[state], r.figure("burst", nameOurs, load, "99 % after"), r.figure("burst", nameSlower, load, "99 % after")})
		}
	}
	return t.String()
}

// scaling is how throughput grows.
func (r *Report) scaling() string {
	t := table{{"", "increments a second", "commits a second", "p50, ms", "writes of the first total a second"}}
	if result := r.result("scale"); result != nil {
		for _, row := range result.Rows {
			figure := func(name string) string { return result.metric(row.Contestant, row.Load, name).figure() }
			t = append(t, []string{row.Load, figure("increments/s"), figure("commits/s"), figure("p50"), figure("total writes/s")})
		}
	}
	return t.String()
}

// seats are what a limit costs, where there is room and where the last of it goes.
func (r *Report) seats() string {
	if r.result("limits") == nil {
		return "Not measured yet.\n"
	}
	t := table{{"", "takes a second", "writes a take", "reads", "conflicts", "refused early", "sold out after, ms", "all answered after, ms"}}
	for _, instances := range limitsInstances {
		for _, when := range []string{before, last} {
			row := []string{fmt.Sprintf("%s of 10,000 seats, %s", map[string]string{before: "9,900", last: "the last 100"}[when], plural(instances, "instance"))}
			for _, name := range []string{"takes/s", "writes/take", "reads/take", "conflicts", "early", "sold out", "all answered"} {
				row = append(row, r.figure("limits", nameLimited, limitsLoad(when, instances), name))
			}
			t = append(t, row)
		}
	}
	text := "Where there is room, takes a second ÷ increments a second without a limit: " + r.spread("limits:"+nameLimited+"/"+nameOurs) + ".\n\n"
	if held := r.of("limits", nameLimited, heldLoad, "holds settled/s"); held.Median > 0 {
		figure := func(name string) string { return r.figure("limits", nameLimited, heldLoad, name) }
		text += fmt.Sprintf("Amounts that one instance holds and settles a second, in two requests each: %s, with %s writes and %s reads.\n\n", held.figure(), figure("writes/hold"), figure("reads/hold"))
	}
	return text + t.String()
}

// reached are the goals that were missed, or that not every round reached; the report lists all, also those
// that were not measured.
func (r *Report) reached() string {
	t := table{{"goal", "want", "figure", ""}}
	n, all := 0, 0
	for _, g := range r.Goals {
		if !g.Measured {
			continue
		}
		if all++; g.Reached {
			n++
		}
		if verdict := g.verdict(); verdict != "reached" {
			t = append(t, []string{g.Name, g.Want, g.Figure, verdict})
		}
	}
	return fmt.Sprintf("%d of %d goals were reached. These were not, or not in every round:\n\n", n, all) + t.String()
}

// floodsBefore are what floods cost a day before there was a ceiling: on paper, by units that were measured on one
// vCPU. These are the names of the scenario's.
var floodsBefore = []struct{ flood, day string }{
	{"one token: POST / of 20 counters", "$9,000 to $16,300, of 500"},
	{"one token: seats for a second", "$3,060"},
	{"1,000 users: new counters", "$2,550"},
	{"1,000 users: increments of many", ""},
	{"1,000 users: keys again", ""},
	{"nobody: exact GET, a long path", "$7,770"},
	{"nobody: long headers", "$5,640"},
	{"nobody: small", "$3,900 to $4,100"},
	{"nobody: OPTIONS", "$2,260"},
	{"all of these at once", ""},
	{"AUTH=none: POST / of 500 new counters", "$16,000"},
}

// flooded is a figure of the scenario flood below a ceiling.
func (r *Report) flooded(day float64, flood, name string) Metric {
	return r.of("flood", fmt.Sprintf("ours, $%v a day", day), flood, name)
}

// floods are what each flood costs below a ceiling, and what becomes of an honest crowd beside it.
func (r *Report) floods() string {
	t := table{{"flood", "before"}}
	for _, day := range floodCeilings {
		t[0] = append(t[0], fmt.Sprintf("at $%v", day))
	}
	for _, f := range floodsBefore {
		row := []string{f.flood, f.day}
		for _, day := range floodCeilings {
			cell := "-"
			if m := r.flooded(day, f.flood, "$ a day"); m.Rounds > 0 {
				cell = fmt.Sprintf("%s; %s %%, %s s", dollars(m.Median), r.flooded(day, f.flood, "of the crowd").figure(), r.flooded(day, f.flood, "crowd's p99").figure())
			}
			row = append(row, cell)
		}
		t = append(t, row)
	}
	return t.String()
}

// fits are how many increments a second fit below ceilings, on paper and measured.
func (r *Report) fits() string {
	t := table{{"at most, by the instance", "of one counter, on paper", "measured", "a commit each, on paper", "measured"}}
	for _, day := range fitCeilings {
		c, err := boundedBy(day)
		if err != nil {
			panic(err) // not possible: they can be kept
		}
		row := []string{fmt.Sprintf("$%v a day", day)}
		for _, f := range []struct {
			flood  string
			second float64
		}{{moreOfOne, c.Hot}, {moreOfMany, c.Even}} {
			row = append(row, short(f.second), r.flooded(day, f.flood, "counted").figure())
		}
		t = append(t, row)
	}
	return t.String()
}
