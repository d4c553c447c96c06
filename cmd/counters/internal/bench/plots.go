package bench

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/firestore-counters/counters/cmd/counters/internal/cost"
)

// WritePlots writes throughput.svg, lag.svg and cost.svg into a directory, which is made where it is missing: those
// whose scenarios were run.
func (r *Report) WritePlots(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write plots: %w", err)
	}
	for name, plot := range map[string]func() string{
		"throughput.svg": r.throughputPlot, "lag.svg": r.lagPlot, "cost.svg": r.costPlot,
	} {
		text := plot()
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("write plots: %w", err)
		}
	}
	return nil
}

// source says where a plot's figures come from.
func (r *Report) source() string {
	return "counters bench, " + r.Date.Format("2006-01-02") + ", " + r.Machine
}

func (r *Report) throughputPlot() string {
	var panels []panel
	for _, p := range []struct{ scenario, heading, metric string }{
		{"hot", "Increments a second, one hot counter", "increments/s"},
		{"zipf", "Increments a second, 1,000 counters (Zipf)", "increments/s"},
		{"events", "Roll-up events a second (ROLLUP_INTERVAL=50ms)", "events/s"},
	} {
		result := r.result(p.scenario)
		if result == nil {
			continue
		}
		next := panel{heading: p.heading}
		seen := map[string]bool{}
		for _, row := range result.Rows {
			m := result.metric(row.Contestant, row.Load, p.metric)
			if m.Rounds > 0 && !seen[row.Contestant] { // the first load of each, which is the plain one
				seen[row.Contestant] = true
				next.bars = append(next.bars, bar{name: row.Contestant, value: m.Measure})
			}
		}
		if len(next.bars) > 0 {
			panels = append(panels, next)
		}
	}
	if len(panels) == 0 {
		return ""
	}
	return barChart("Throughput", r.source(), nil, panels)
}

func (r *Report) lagPlot() string {
	lag := r.result("lag")
	if lag == nil || len(lag.Lags) == 0 {
		return ""
	}
	return lineChart(fmt.Sprintf("How far the total is behind, at %s increments a second", short(lagRate)), r.source()+"; documents take one write a second",
		"age in seconds of the oldest increment that the total does not hold", lag.Lags)
}

func (r *Report) costPlot() string {
	result := r.result("cost")
	if result == nil {
		return ""
	}
	parts := []string{"reads", "writes", "deletes", "requests", "instances"}
	var panels []panel
	for _, prices := range cost.List() {
		next := panel{heading: "US dollars per million increments, " + prices.Location, unit: "$"}
		for _, row := range result.Rows {
			if row.PerMillion == nil {
				continue
			}
			bill := row.PerMillion.Costs[prices.Location]
			b := bar{name: row.Contestant}
			for i, v := range []float64{bill.Reads, bill.Writes, bill.Deletes, bill.Requests, bill.Instances} {
				b.parts = append(b.parts, part{parts[i], v})
			}
			next.bars = append(next.bars, b)
		}
		if len(next.bars) > 0 {
			panels = append(panels, next)
		}
	}
	if len(panels) == 0 {
		return ""
	}
	return barChart("Cost at 1,000 increments a second", r.source()+"; list prices of "+cost.AsOf, parts, panels)
}
