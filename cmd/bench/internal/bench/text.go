package bench

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// textWidth is how wide a report is at most.
const textWidth = 120

// WriteText prints the report for people, in at most 120 columns.
func (r *Report) WriteText(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "bench, %s, %s\n", r.Date.Format("2006-01-02 15:04"), r.Machine)
	wrap(&b, "The load generator, Firestore and the functions share this machine. Figures are medians of rounds, the first of a row and ratios with the lowest and the highest.")
	if r.Against != "" {
		wrap(&b, "other: the functions of "+r.Against+"; all else is this build's.")
	}
	for i := range r.Results {
		r.Results[i].write(&b)
	}
	r.writeGoals(&b)
	if r.Interrupted {
		fmt.Fprint(&b, "\nThe run ended early, and this is what it had. A goal may rest on fewer rounds than usual.\n")
	}
	if len(r.Left) > 0 {
		fmt.Fprintln(&b)
		wrap(&b, "No time was left for "+strings.Join(r.Left, ", ")+". To run them: bench --quick --scenario "+strings.Join(r.Left, ","))
	}
	fmt.Fprintf(&b, "\n%.0f s in all.\n", r.Seconds)
	_, err := w.Write(b.Bytes())
	return err
}

// wrap prints a text in lines that fit.
func wrap(w io.Writer, text string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line+" "+word) > textWidth {
			fmt.Fprintln(w, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	fmt.Fprintln(w, line)
}

func (r *Result) write(w io.Writer) {
	fmt.Fprintf(w, "\n%s  [%s, %.0f s]\n", r.Title, r.Scenario, r.Seconds)
	wrap(w, r.Settings)
	r.writeFigures(w)
	r.writeBills(w)
	for _, row := range r.Rows {
		if len(row.Errors) > 0 {
			fmt.Fprintf(w, "  Failed, %s, %s: %s\n", row.Contestant, row.Load, failures(row.Errors))
		}
	}
	for _, ratio := range r.Ratios {
		fmt.Fprintf(w, "  %s: %s\n", ratio.Name, Metric{Measure: ratio.Measure})
	}
	for _, note := range r.Notes {
		wrap(w, "  "+note)
	}
	if r.Error != "" {
		wrap(w, "Not complete: "+r.Error)
	}
}

// writeFigures prints a table with a column for each figure that any of the rows has.
func (r *Result) writeFigures(w io.Writer) {
	var names []string
	loads, cpu := false, false
	for _, row := range r.Rows {
		for _, m := range row.Metrics {
			if !slices.Contains(names, heading(m)) {
				names = append(names, heading(m))
			}
		}
		loads, cpu = loads || row.Load != "", cpu || row.CPU != nil
	}
	if len(names) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(contestant, load string, cells []string, shares string) {
		if loads {
			contestant += "\t" + load
		}
		if cpu {
			cells = append(cells, shares)
		}
		fmt.Fprintf(t, "  %s\t%s\n", contestant, strings.Join(cells, "\t"))
	}
	line("", "load", slices.Clone(names), "CPU %")
	for _, row := range r.Rows {
		cells := make([]string, len(names))
		for i, m := range row.Metrics {
			if i > 0 { // one spread is enough for a line
				m.Low, m.High, m.Rounds = m.Median, m.Median, min(m.Rounds, 1)
			}
			cells[slices.Index(names, heading(m))] = m.String()
		}
		shares := ""
		if row.CPU != nil {
			function, trigger, here := row.CPU.shares()
			shares = fmt.Sprintf("%.0f+%.0f+%.0f", function, trigger, here)
		}
		line(row.Contestant, row.Load, cells, shares)
	}
	t.Flush()
	if cpu {
		fmt.Fprint(w, "  CPU: µs of the function for an answer; % of the function, the roll-up, and the load, Firestore and deliveries together\n")
	}
}

// writeBills prints what a million requests use and cost.
func (r *Result) writeBills(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	headed := false
	for _, row := range r.Rows {
		b := row.PerMillion
		if b == nil {
			continue
		}
		if !headed {
			headed = true
			fmt.Fprint(t, "  per million:\tload\treads\twrites\tdeletes\trequests\t$ by request\tinstance\tcheaper\tnam5\n")
		}
		here := b.Costs["us-central1"]
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\t%.3f\t%.3f\t%.3f\t%.3f\n", row.Contestant, row.Load,
			short(b.Usage.Reads), short(b.Usage.Writes), short(b.Usage.Deletes), short(b.Usage.Requests()),
			here.ByRequest.Total(), here.ByInstance.Total(), here.Cheaper.Total(), b.Costs["nam5"].Cheaper.Total())
	}
}

func (r *Report) writeGoals(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	headed := false
	for _, g := range r.Goals {
		if r.result(g.Scenario) == nil {
			continue // it was not asked for
		}
		if !headed {
			headed = true
			fmt.Fprint(t, "\nGoals of the scenarios that were run\n")
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", g.Name, g.Want, g.verdict(), g.Figure)
	}
}

// plural is a number of things.
func plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return commas(int64(n)) + " " + thing
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
