package bench

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// sample report: every goal's scenario, with figures that reach some and miss others.
func reportOfFigures() *Report {
	rates := func(v ...float64) []float64 { return v }
	r := &Report{Date: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), Machine: "2 cores of <Test>", PricesAsOf: cost.AsOf, Results: []Result{
		{Scenario: "hot", Title: "Hot", Rows: []Row{
			{Contestant: "ours", Load: "1000 clients", Metrics: []Metric{metric("increments/s", "/s", rates(30000, 28000, 32000)), metric("p50", "ms", rates(9.5, 9, 10))}, CPU: &CPU{Function: 6, Trigger: 1, Here: 3}, Errors: map[string]int{"503": 1200}},
			{Contestant: "blind", Load: "250 clients", Metrics: []Metric{metric("increments/s", "/s", rates(2000, 2500, 3000))}},
			{Contestant: "no-op", Load: "250 clients", Metrics: []Metric{metric("increments/s", "/s", rates(90000, 90000, 90000))}},
		}, Ratios: []Ratio{
			ratio("hot:ours/blind", "ours ÷ blind", rates(30000, 28000, 32000), rates(2000, 2500, 3000)),
			ratio("hot:ours/no-op", "ours ÷ no-op", rates(30000, 28000, 32000), rates(90000, 90000, 90000)),
		}},
		{Scenario: "lag", Title: "Lag", Rows: []Row{
			{Contestant: "ours", Metrics: []Metric{metric("lag p99", "s", rates(0.99)), metric("total writes/s", "/s", rates(1.0002))}},
			{Contestant: "blind", Metrics: []Metric{{Name: "lag p99", Unit: "s", Measure: measure(rates(25)), AtLeast: true}}},
		}, Lags: []Line{{Name: "ours", Points: [][2]float64{{0, 0}, {1, 0.9}, {2, 0.1}}}, {Name: "blind", Points: [][2]float64{{0, 0}, {1, 1}, {2, 2}}}}},
		{Scenario: "cost", Title: "Cost", Rows: []Row{
			{Contestant: "ours", PerMillion: bills(cost.Usage{Writes: 180, Deletes: 90, Increment: cost.Function{Requests: 1000, Busy: 1, There: 1}, Rollup: cost.Function{Requests: 90, Busy: 1, There: 1}}, 1000)},
			{Contestant: "blind", PerMillion: bills(cost.Usage{Writes: 2000, Increment: cost.Function{Requests: 1000, Busy: 1, There: 1}, Rollup: cost.Function{Requests: 1000, Busy: 1, There: 1}}, 1000)},
		}},
		{Scenario: "drift", Title: "Drift", Error: "it broke"},
		{Scenario: "cold", Title: "Cold", Ratios: []Ratio{
			ratio("cold:Increment", "Increment ÷ no-op", rates(12), rates(10)), ratio("cold:Rollup", "Rollup ÷ no-op", rates(15), rates(10)),
		}},
	}}
	r.Goals = r.goals()
	return r
}

func TestGoals(t *testing.T) {
	t.Parallel()
	want := map[string]string{ // by the beginning of the goal's name
		"increments a second, one hot counter, ours ÷ blind": "reached",
		"increments a second, one hot counter, ours ÷ no-op": "not reached",
		"the same, where a document":                         "not measured",
		"events a second":                                    "not measured",
		"p50 of a lone increment, ours ÷ blind":              "not measured",
		"roll-up writes":                                     "reached",
		"lag p99":                                            "reached",
		"the same, blind":                                    "reached",
		"drift under duplicates":                             "not measured",
	}
	r := reportOfFigures()
	for prefix, verdict := range want {
		found := false
		for _, g := range r.Goals {
			if !strings.HasPrefix(g.Name, prefix) || found {
				continue
			}
			found = true
			got := map[[2]bool]string{{true, true}: "reached", {true, false}: "not reached", {false, false}: "not measured"}[[2]bool{g.Measured, g.Reached}]
			if got != verdict {
				t.Errorf("%s: %s with %s, want %s", g.Name, got, g.Figure, verdict)
			}
		}
		if !found {
			t.Errorf("no goal %q", prefix)
		}
	}
}

func TestWriteText(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	if err := reportOfFigures().WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 cores of <Test>", "30,000 (28,000 to 32,000)", "503: 1,200", "≥ 25", "11.2 (10.7 to 15)", "Not complete: it broke", "not reached", "0.657", "60+10+30"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%s", want, text.String())
		}
	}
	for line := range strings.Lines(text.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > textWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if err := reportOfFigures().WriteText(full{}); err == nil {
		t.Error("no error of a writer that takes nothing")
	}
}

// The widest tables of all scenarios, with the figures of a machine many times as fast, fit a
// terminal of 120 columns.
func TestTablesFit(t *testing.T) {
	t.Parallel()
	rounds := &turns{errors: map[string]int{"503": 123_456, "not sent": 123_456}}
	for i := range 3 {
		h := newHistogram()
		record(h, time.Duration(9+i)*333*time.Millisecond)
		rounds.rounds = append(rounds.rounds, turn{
			rate: 222_222 + 111_111*float64(i), answered: 1_111_111, latencies: h, commits: 12_345, left: 12_345, writes: 1.01,
			usage: cost.Usage{Reads: 3_333_333, Writes: 5_555_555, Deletes: 1_111_111, Increment: cost.Function{Requests: 3_333_333, Busy: 12_345, There: 12_345}}, cpu: CPU{33, 33, 33},
		})
	}
	r := &Report{}
	for _, columns := range [][]Metric{throughput(rounds), append(throughput(rounds), left(rounds)), append(throughput(rounds), rounds.metric(perMillion, "$", turn.price)), priceColumns(rounds)} {
		row := rounds.row(nameUnmarked, "1,000 clients", columns...)
		r.Results = append(r.Results, Result{Title: "Hot", Scenario: "hot", Rows: []Row{row}})
	}
	for _, g := range (&Report{}).goals() {
		widest := Measure{Median: 0.819, Low: 0.387, High: 0.912, Rounds: 3}
		if !strings.Contains(g.Name, "÷") {
			widest = Measure{Median: 1234, Low: 1111, High: 12_345, Rounds: 3}
		}
		g.Figure, g.Measured, g.Reached = Metric{Measure: widest}.String(), true, true
		r.Goals = append(r.Goals, g)
		if r.result(g.Scenario) == nil {
			r.Results = append(r.Results, Result{Scenario: g.Scenario})
		}
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "reached by the median") {
		t.Errorf("no goals in:\n%s", text.String())
	}
	for line := range strings.Lines(text.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > textWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestReportAsJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(reportOfFigures())
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if m := back.result("lag").metric("blind", "", "lag p99"); m.Median != 25 || !m.AtLeast {
		t.Errorf("lag of blind = %+v", m)
	}
	if bill := back.result("cost").Rows[0].PerMillion.Costs["us-central1"].Cheaper; bill.Writes < 0.16 || bill.Writes > 0.17 {
		t.Errorf("writes of ours = $%v a million, want $0.162", bill.Writes)
	}
}

// The plots are well-formed, and hold what they are about: the name of each contestant, and a shape
// for each.
func TestWritePlots(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "plots")
	if err := reportOfFigures().WritePlots(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		shapes map[string]int // :: color → how many shapes have it
		texts  []string
	}{
		"throughput.svg": {map[string]int{"#0072B2": 1, "#D55E00": 1, "#999999": 1}, []string{"ours", "blind", "no-op", "30,000", "2 cores of <Test>"}},
		// and in the legend
		"lag.svg": {map[string]int{"#0072B2": 2, "#D55E00": 2}, []string{"ours", "blind"}},
		// writes, instances
		"cost.svg":     {map[string]int{"#D55E00": 2 * 3, "#009E73": 2 * 3}, []string{"nam5", "us-central1", "$1.84", "$0.21"}},
		"at-large.svg": {map[string]int{"#0072B2": 2, "#D55E00": 2, "#009E73": 2, "#56B4E9": 2}, []string{"increments a second", "instances of Rollup"}},
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		shapes, rows, texts := elements(t, name, string(text))
		if name == "cost.svg" && len(rows) < 6 { // two contestants and a legend, in two panels
			t.Errorf("the bars of %s stand in %d rows", name, len(rows))
		}
		for color, n := range want.shapes {
			if shapes[color] != n {
				t.Errorf("%s has %d shapes of color %s, want %d: %v", name, shapes[color], color, n, shapes)
			}
		}
		for _, w := range want.texts {
			if !strings.Contains(texts, w) {
				t.Errorf("%s doesn't say %q: %s", name, w, texts)
			}
		}
	}
}

// elements counts a drawing's shapes by their colors, and those of one color by how high they
// stand, and returns its text.
func elements(t *testing.T, name, text string) (shapes map[string]int, rows map[string]bool, texts string) {
	t.Helper()
	shapes, rows = map[string]int{}, map[string]bool{}
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return shapes, rows, texts
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			path := ""
			for _, a := range token.Attr {
				if a.Name.Local == "d" {
					path = a.Value
				}
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("%s: %s has %s=%q", name, token.Name.Local, a.Name.Local, a.Value)
				}
				if at := strings.Index(a.Value, "#"); token.Name.Local == "path" && at >= 0 {
					shapes[a.Value[at:at+7]]++
					if a.Value[at:at+7] == "#009E73" {
						_, y, _ := strings.Cut(path, ",")
						y, _, _ = strings.Cut(y, "L")
						rows[y] = true
					}
				}
			}
		case xml.CharData:
			texts += string(token)
		}
	}
}

// Nothing was measured: nothing is drawn, and nothing fails.
func TestWritePlotsOfNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := (&Report{Results: []Result{{Scenario: "hot"}, {Scenario: "lag"}, {Scenario: "cost"}}}).WritePlots(dir); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("%d files, %v", len(files), err)
	}
}
