package bench

import (
	"fmt"
	"strings"
)

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

// goals holds the results against what is to be reached. The median counts, and a round that says otherwise is told.
func (r *Report) goals() []Goal {
	lagOf := func(contestant string) Metric {
		if lag := r.result("lag"); lag != nil {
			return lag.metric(contestant, "", "lag p99")
		}
		return Metric{}
	}
	driftOf := func(contestant string) Metric {
		if drift := r.result("drift"); drift != nil {
			return drift.metric(contestant, "", "drift")
		}
		return Metric{}
	}
	var writes Metric
	if lag := r.result("lag"); lag != nil {
		writes = lag.metric("ours", "", "total writes/s")
	}
	coldest := r.ratio("cold:Increment") // until another turns out to be colder
	for _, id := range []string{"cold:Rollup", "cold:Reconcile"} {
		if other := r.ratio(id); other.Median > coldest.Median {
			coldest = other
		}
	}
	zero := func(m Metric) bool { return m.Median == 0 && !m.AtLeast }
	return []Goal{
		atLeast("hot", "increments a second, one hot counter, ours ÷ blind", r.ratio("hot:ours/blind").Measure, 10),
		atLeast("hot", "the same, where a document takes one write a second", r.ratio("hot:ours/blind, hot documents").Measure, 10),
		atLeast("hot", "increments a second, ours ÷ no-op HTTP function", r.ratio("hot:ours/no-op").Measure, 0.4),
		atLeast("events", "events a second, ours ÷ no-op CloudEvent function", r.ratio("events:ours/no-op").Measure, 0.4),
		atMost("lone", "p50 of a lone increment, ours ÷ blind, with marker", r.ratio("lone:ours/blind").Measure, 1.2),
		atMost("lone", "p50 of a lone increment, ours ÷ blind, without", r.ratio("lone:thrifty/blind").Measure, 1.05),
		// Roll-ups begin a second apart, and their commits, which are what is counted, a few milliseconds more or less.
		goal("lag", "roll-up writes a second on a hot counter, per instance", "≤ 1", writes, func(m Metric) bool { return m.Median <= 1.01 }),
		goal("lag", "lag p99 at 1,000 increments/s on a hot document, ours", "≤ 2 s", lagOf("ours"), func(m Metric) bool { return m.Median <= 2 && !m.AtLeast }),
		goal("lag", "the same, blind", "unbounded", lagOf("blind"), func(m Metric) bool { return m.AtLeast }),
		goal("drift", "drift under duplicates and lost answers, ours", "0", driftOf("ours"), zero),
		goal("drift", "the same, blind", "visible", driftOf("blind"), func(m Metric) bool { return !zero(m) }),
		atMost("cost", "cost per million at 1,000/s, ours ÷ blind", r.ratio("cost:ours/blind").Measure, 0.25),
		atMost("cost", "cost per million at 1,000/s, ours ÷ floor", r.ratio("cost:ours/floor").Measure, 1.6),
		atMost("cold", "cold start, ours ÷ no-op function, the slowest: "+strings.TrimPrefix(coldest.ID, "cold:"), coldest.Measure, 1.3),
	}
}

func atLeast(scenario, name string, m Measure, want float64) Goal {
	return goal(scenario, name, fmt.Sprintf("≥ %v", want), Metric{Measure: m}, func(m Metric) bool { return m.Median >= want })
}

func atMost(scenario, name string, m Measure, want float64) Goal {
	return goal(scenario, name, fmt.Sprintf("≤ %v", want), Metric{Measure: m}, func(m Metric) bool { return m.Median <= want })
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
