package bench

import "fmt"

// Goal is a figure that is to be reached, and what became of it.
type Goal struct {
	Scenario string  `json:"scenario"`
	Name     string  `json:"name"`
	Want     string  `json:"want"`
	Measured bool    `json:"measured"` // false when its scenario was not run, or not to the end
	Reached  bool    `json:"reached"`  // by the median
	Always   bool    `json:"always"`   // by every round
	Figure   string  `json:"figure"`
	Value    float64 `json:"value"`
}

func (g Goal) verdict() string {
	switch {
	case !g.Measured:
		return "not measured"
	case g.Always:
		return "reached"
	case g.Reached:
		return "reached by the median"
	}
	return "not reached"
}

// goals holds the results against what is to be reached. The median counts, and a round that says
// otherwise is mentioned. With another build to compare with there are none.
func (r *Report) goals() []Goal {
	of := func(instances int, name string) Metric {
		return r.of("limits", nameLimited, limitsLoad(last, instances), name)
	}
	sold := func(n int) Goal {
		return goal("limits", fmt.Sprintf("of the last 100 seats are sold, %s", plural(n, "instance")), "100", of(n, "sold"), func(m Metric) bool { return m.Median == lastSeats })
	}
	early := func(n int) Goal {
		return atMost("limits", fmt.Sprintf("refused before the last one is sold, %s", plural(n, "instance")), of(n, "early"), 0)
	}
	lastTake := func(n int, what string, most float64) Goal {
		return atMost("limits", fmt.Sprintf("%s a take of the last 100, %s", what, plural(n, "instance")), of(n, what+"/take"), most)
	}
	if r.Against != "" {
		return nil
	}
	ratio := func(id string) Metric { return Metric{Measure: r.ratio(id).Measure} }
	zero := func(m Metric) bool { return m.Median == 0 && !m.AtLeast }
	return []Goal{
		atLeast("hot", "increments a second, one hot counter, ours ÷ blind", ratio("hot:ours/blind"), 10),
		atLeast("hot", "the same, where a document takes one write a second", ratio("hot, hot documents:ours/blind"), 10),
		atLeast("hot", "increments a second, one hot counter, ours ÷ no-op", ratio("hot:ours/no-op"), 0.7),
		atLeast("zipf", "increments a second, 1,000 counters by Zipf, ours ÷ no-op", ratio("zipf:ours/no-op"), 0.45),
		atLeast("zipf", "increments a second, 1,000 counters by Zipf, ours ÷ blind", ratio("zipf:ours/blind"), 6.5),
		atLeast("events", "events a second at the default interval, ours ÷ no-op", ratio("events:ours/no-op"), 0.75),
		atLeast("reads", "reads a second, ours ÷ sum()", ratio("reads:ours/sum"), 2.5),
		atMost("reads", "billed reads per 1,000 answers", r.of("reads", nameOurs, "", "billed reads per 1,000"), 2),
		atMost("lone", "p50 of a lone increment, ours ÷ blind, with marker", ratio("lone:ours/blind"), 1.1),
		atMost("lone", "p50 of a lone increment, ours ÷ blind, without", ratio("lone:ours, no marker/blind"), 1.05),
		atMost("clicks", "p99 until a click shows, ÷ a commit, a delivery and a query", ratio("clicks"), 2),
		// Roll-ups begin a second apart, and their commits, which are what is counted, a few
		// milliseconds more or less.
		goal("lag", "roll-up writes a second on a hot counter, per instance", "≤ 1.01", r.of("lag", nameOurs, "", "total writes/s"), func(m Metric) bool { return m.Median <= 1.01 }),
		goal("lag", "lag p99 at 1,000 increments/s on a hot document, ours", "≤ 1.1 s", r.of("lag", nameOurs, "", "lag p99"), func(m Metric) bool { return m.Median <= 1.1 && !m.AtLeast }),
		atMost("lag", "the same, three instances", r.of("lag", nameOurs, lagLoad(3), "lag p99"), 1.1),
		atMost("lag", "the same, eight instances", r.of("lag", nameOurs, lagLoad(8), "lag p99"), 1.1),
		atMost("lag", "the same, dead index entries of an hour, 5 ms for 10,000", r.of("lag", nameOurs, deadLoad(deadTimes[1]), "lag p99"), 1.2),
		atMost("lag", "the same, at 50 ms", r.of("lag", nameOurs, deadLoad(deadTimes[2]), "lag p99"), 1.2),
		atMost("lag", "roll-up writes a second, hot counter, eight instances", r.of("lag", nameOurs, lagLoad(8), "total writes/s"), 1.1),
		goal("lag", "the same, blind", "unbounded", r.of("lag", nameBlind, "", "lag p99"), func(m Metric) bool { return m.AtLeast }),
		atMost("burst", "a crowd on a quiet counter, 99 % within, one instance", r.of("burst", nameOurs, burstLoad(1, "cold", 1), "lag p99"), 1.5),
		atMost("burst", "the same, three instances", r.of("burst", nameOurs, burstLoad(1, "cold", 3), "lag p99"), 1.5),
		atMost("burst", "the same, eight instances", r.of("burst", nameOurs, burstLoad(1, "cold", 8), "lag p99"), 1.5),
		atMost("burst", "reads an event there, eight instances", r.of("burst", nameOurs, burstLoad(1, "cold", 8), "reads/event"), 0.3),
		atMost("burst", "a crowd on 300 quiet counters, one instance", r.of("burst", nameOurs, burstLoad(burstCounters, "cold", 1), "lag p99"), 2.5),
		atMost("burst", "the same, three instances", r.of("burst", nameOurs, burstLoad(burstCounters, "cold", 3), "lag p99"), 2.5),
		atMost("burst", "the same, eight instances", r.of("burst", nameOurs, burstLoad(burstCounters, "cold", 8), "lag p99"), 3),
		goal("drift", "drift under duplicates and lost answers, ours", "0", r.of("drift", nameOurs, "", "drift"), zero),
		goal("drift", "the same, blind", "visible", r.of("drift", nameBlind, "", "drift"), func(m Metric) bool { return !zero(m) }),
		atMost("cost", "cost per million at 1,000/s by the instance, ours", r.of("cost", nameOurs, "", byInstance), 0.25),
		atMost("cost", "the same with COMMIT_INTERVAL=50ms", r.of("cost", nameCompany, "", byInstance), 0.12),
		atMost("cost", "cost per million at 1,000/s by the request, ours ÷ blind", ratio("cost, by the request:ours/blind"), 0.25),
		atMost("cost", "the same by the instance", ratio("cost, by the instance:ours/blind"), 0.25),
		// A marker and its deletion, and the roll-up's function, come to more than the floor.
		atMost("cost", "cost per million at 1,000/s, ours ÷ floor", ratio("cost:floor"), 2.25),
		atLeast("limits", "takes a second with room ÷ without a limit", ratio("limits:"+nameLimited+"/"+nameOurs), 0.8),
		sold(1), sold(3), sold(8),
		early(1), early(3), early(8),
		lastTake(1, "writes", 0.5), lastTake(3, "writes", 0.5), lastTake(8, "writes", 0.5),
		lastTake(1, "reads", 2.5), lastTake(3, "reads", 2.5), lastTake(8, "reads", 2.5),
		atMost("even", "cost per million, 1,000 counters evenly, ÷ blind on paper", ratio("even:cost"), 0.75),
	}
}

func atLeast(scenario, name string, m Metric, want float64) Goal {
	return goal(scenario, name, fmt.Sprintf("≥ %v", want), m, func(m Metric) bool { return m.Median >= want })
}

func atMost(scenario, name string, m Metric, want float64) Goal {
	return goal(scenario, name, fmt.Sprintf("≤ %v", want), m, func(m Metric) bool { return m.Median <= want })
}

func goal(scenario, name, want string, m Metric, reached func(Metric) bool) Goal {
	g := Goal{Scenario: scenario, Name: name, Want: want, Measured: m.Rounds > 0, Figure: m.String(), Value: m.Median}
	at := func(v float64) bool {
		m.Median = v
		return g.Measured && reached(m)
	}
	g.Reached, g.Always = at(m.Median), at(m.Low) && at(m.High)
	return g
}
