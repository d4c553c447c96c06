package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/firestore-counters/counters/cmd/counters/internal/bench"
	"github.com/firestore-counters/counters/cmd/counters/internal/cost"
)

// largeRates are those that cost --at-large looks at: from a thousand to a million increments a second.
var largeRates = []float64{1e3, 3e3, 1e4, 3e4, 1e5, 1.3e5, 3e5, 1e6}

// printLarge says where a hot counter and a million lukewarm ones bend first, and draws it where file is not empty.
func printLarge(out io.Writer, file string, asJSON bool) error {
	var points []cost.Large
	for _, rate := range largeRates {
		points = append(points, cost.AtLarge(rate))
	}
	if file != "" {
		if err := bench.PlotLarge(file, points); err != nil {
			return err
		}
	}
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(points)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "increments/s\tshard writes/s, hot\twrites/s\tevents/s\tIncrement\tRollup\tdatabase grows for\t")
	for _, l := range points {
		fmt.Fprintf(w, "%.0f\t%.0f (%.0f%%)\t%.0f\t%.0f\t%d\t%d\t%s\t\n", l.Rate, l.HotCommits, 100*l.Shards, l.Writes, l.Events, l.Increment, l.Rollup, l.Ramp.Round(time.Minute))
	}
	return w.Flush()
}
