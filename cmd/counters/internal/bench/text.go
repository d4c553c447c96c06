package bench

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteText prints the report for people.
func (r *Report) WriteText(w io.Writer) error {
	p := &printer{w: w}
	p.printf("counters bench, %s, %s\n", r.Date.Format("2006-01-02 15:04"), r.Machine)
	p.printf("The load generator, Firestore and the functions share this machine. Figures are medians of rounds (lowest to highest).\n")
	for i := range r.Results {
		p.result(&r.Results[i])
	}
	p.goals(r)
	if r.Interrupted {
		p.printf("\nThe run ended early, and this is what it had. A goal may rest on fewer rounds than usual.\n")
	}
	p.printf("\n%.0f s in all.\n", r.Seconds)
	return p.err
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *printer) result(r *Result) {
	p.printf("\n%s  [%s, %.0f s]\n%s\n", r.Title, r.Scenario, r.Seconds, r.Settings)
	p.rows(r.Rows)
	for _, ratio := range r.Ratios {
		p.printf("  %s: %s\n", ratio.Name, Metric{Measure: ratio.Measure})
	}
	for _, note := range r.Notes {
		p.printf("  %s\n", note)
	}
	if r.Error != "" {
		p.printf("  Not complete: %s\n", r.Error)
	}
}

// rows prints a table with a column for each figure that any of the rows has.
func (p *printer) rows(rows []Row) {
	if len(rows) == 0 {
		return
	}
	var names []string
	priced, failed := false, false
	for _, row := range rows {
		for _, m := range row.Metrics {
			if !slices.Contains(names, heading(m)) {
				names = append(names, heading(m))
			}
		}
		priced = priced || row.PerMillion != nil
		failed = failed || len(row.Errors) > 0
	}
	t := &printer{w: tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)}
	t.printf("  \tload")
	for _, name := range names {
		t.printf("\t%s", name)
	}
	if priced {
		t.printf("\tper million: reads\twrites\tdeletes\trequests\tinstance s\t$ us-central1\t$ nam5")
	}
	if failed {
		t.printf("\terrors")
	}
	t.printf("\n")
	for _, row := range rows {
		t.printf("  %s\t%s", row.Contestant, row.Load)
		for _, name := range names {
			i := slices.IndexFunc(row.Metrics, func(m Metric) bool { return heading(m) == name })
			if i < 0 {
				t.printf("\t")
			} else {
				t.printf("\t%s", row.Metrics[i])
			}
		}
		if priced {
			t.bills(row.PerMillion)
		}
		if failed {
			t.printf("\t%s", failures(row.Errors))
		}
		t.printf("\n")
	}
	if t.err == nil {
		t.err = t.w.(*tabwriter.Writer).Flush()
	}
	if p.err == nil {
		p.err = t.err
	}
}

func (p *printer) bills(b *Bills) {
	if b == nil {
		p.printf("\t\t\t\t\t\t\t")
		return
	}
	p.printf("\t%s\t%s\t%s\t%s\t%s", short(b.Usage.Reads), short(b.Usage.Writes), short(b.Usage.Deletes), short(b.Usage.Requests), short(b.Usage.InstanceSeconds))
	for _, location := range []string{"us-central1", "nam5"} {
		p.printf("\t%.3f", b.Costs[location].Total())
	}
}

func (p *printer) goals(r *Report) {
	p.printf("\nGoals of the scenarios that were run\n")
	t := &printer{w: tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)}
	for _, g := range r.Goals {
		verdict, figure := "not reached", g.Figure
		switch {
		case r.result(g.Scenario) == nil:
			continue // it was not asked for
		case !g.Measured:
			verdict, figure = "not measured", ""
		case g.Always:
			verdict = "reached"
		case g.Reached:
			verdict = "reached, but not in every round"
		}
		t.printf("  %s\t%s\t%s\t%s\n", g.Name, g.Want, verdict, figure)
	}
	if t.err == nil {
		t.err = t.w.(*tabwriter.Writer).Flush()
	}
	if p.err == nil {
		p.err = t.err
	}
}

func heading(m Metric) string {
	if m.Unit == "" || m.Unit == "/s" {
		return m.Name
	}
	return m.Name + ", " + m.Unit
}

// String is the figure with its spread: "12.3 (11.9 to 14)".
func (m Metric) String() string {
	if m.Rounds == 0 {
		return "-"
	}
	text := short(m.Median)
	if m.AtLeast {
		text = "≥ " + text
	}
	if m.Rounds > 1 {
		text += fmt.Sprintf(" (%s to %s)", short(m.Low), short(m.High))
	}
	return text
}

// short is a number with three digits, and with commas between thousands.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e15:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case a >= 1000:
		return commas(int64(math.Round(v)))
	case a >= 100 || math.Abs(v-math.Round(v)) < 1e-9:
		return strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a >= 0.1:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

func commas(n int64) string {
	if n < 0 {
		return "-" + commas(-n)
	}
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", commas(n/1000), n%1000)
}

func failures(errs map[string]int) string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(errs)) {
		parts = append(parts, fmt.Sprintf("%s: %s", status, commas(int64(errs[status]))))
	}
	return strings.Join(parts, ", ")
}
