package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// printLarge says where a hot counter and a million lukewarm ones meet a limit first.
func printLarge(out io.Writer, asJSON bool) error {
	points := cost.LargeTable()
	if asJSON {
		return writeSheet(out, points)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "increments/s\tshard writes/s, hot\twrites/s\tevents/s\tIncrement\tRollup\tall new grows for\t")
	for _, l := range points {
		fmt.Fprintf(w, "%.0f\t%.0f (%.0f%%)\t%.0f\t%.0f\t%d\t%d\t%s\t\n", l.Rate, l.HotCommits, 100*l.Shards, l.Writes, l.Events, l.Increment, l.Rollup, l.Ramp.Round(time.Minute))
	}
	return w.Flush()
}
