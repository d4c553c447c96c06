package verify

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// Report is what a trial found. See [Report.Hide].
type Report struct {
	Prefix   string        `json:"prefix"`
	Version  string        `json:"version"`
	Location string        `json:"location"`
	Edition  cost.Edition  `json:"edition"` // of the database
	Region   string        `json:"region"`
	Runtime  string        `json:"runtime"`
	Began    time.Time     `json:"began"`
	Took     time.Duration `json:"took_ns"`
	Fake     bool          `json:"fake"`
	Spent    float64       `json:"spent_usd_at_most"`
	Rows     []Row         `json:"steps"`
	Measured []Measured    `json:"measured"`
	Figures  Figures       `json:"figures"`

	Deployment []Row    `json:"deployment"` // its steps
	Stays      []string `json:"stays"`      // what isn't the trial's alone
}

// Figures are what the benchmark takes of a trial in the place of what it assumes. 0 was not measured.
type Figures struct {
	Commit   float64 `json:"commit_seconds"`
	Delivery float64 `json:"delivery_seconds"` // from a commit until its event is in the total
	Window   int     `json:"push_window"`      // of Pub/Sub, at first
}

// Row is a step of the trial.
type Row struct {
	Step    string        `json:"step"`
	OK      bool          `json:"ok"`
	Took    time.Duration `json:"took_ns"`
	Retries int           `json:"retries"` // of calls that the platform wasn't ready for
	Result  string        `json:"result"`
}

// Measured is a figure that a model of this project assumes, beside what the trial measured.
type Measured struct {
	What     string `json:"what"`
	Assumed  string `json:"assumed"`
	Measured string `json:"measured"`
}

func (r *Report) measured(what, assumed, measured string) {
	r.Measured = append(r.Measured, Measured{what, assumed, measured})
}

// OK reports whether every step passed.
func (r *Report) OK() bool {
	for _, row := range r.Rows {
		if !row.OK {
			return false
		}
	}
	return len(r.Rows) > 0
}

// Hide takes words out of the report: the project's id and number, and the account, which errors and names of steps
// quote.
func (r *Report) Hide(words ...string) {
	hide := func(text *string) {
		for _, word := range words {
			if word != "" {
				*text = strings.ReplaceAll(*text, word, "…")
			}
		}
	}
	for _, rows := range [][]Row{r.Rows, r.Deployment} {
		for i := range rows {
			hide(&rows[i].Step)
			hide(&rows[i].Result)
		}
	}
	for i := range r.Measured {
		hide(&r.Measured[i].Measured)
	}
	for i := range r.Stays {
		hide(&r.Stays[i])
	}
}

// Markdown writes the report.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	verdict := "passed"
	if !r.OK() {
		verdict = "**failed**"
	}
	fmt.Fprintf(&b, "# counters verify: %s\n\n", verdict)
	if r.Fake {
		b.WriteString("Firestore was an emulator, and Google Cloud a fake: this shows that `counters verify` runs. It says nothing about Google\nCloud, and its times are those of one machine.\n\n")
	}
	fmt.Fprintf(&b, "%s, on %s/%s. Database in %s, edition %s, functions in %s with %s. Began %s, took %s. Documents and requests cost at\nmost $%.4f, by list prices and without the free tier; the builds of three functions come to some minutes of Cloud Build.\n\n",
		r.Version, runtime.GOOS, runtime.GOARCH, r.Location, orDash(string(r.Edition)), orDash(r.Region), orDash(r.Runtime), r.Began.Format(time.DateTime), r.Took.Round(time.Second), r.Spent)
	b.WriteString("| step | | took | |\n| --- | --- | --- | --- |\n")
	for _, row := range r.Rows {
		ok := "ok"
		if !row.OK {
			ok = "**FAILED**"
		}
		result := row.Result
		if row.Retries > 0 {
			result += fmt.Sprintf("; %d calls were too early, and came again", row.Retries)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", cell(row.Step), ok, row.Took.Round(100*time.Millisecond), cell(result))
	}
	if len(r.Deployment) > 0 {
		b.WriteString("\nThe deployment's own steps:\n\n| step | took | calls that were too early |\n| --- | --- | --- |\n")
		for _, row := range r.Deployment {
			fmt.Fprintf(&b, "| %s | %s | %d |\n", cell(row.Step), row.Took.Round(100*time.Millisecond), row.Retries)
		}
	}
	if len(r.Stays) > 0 {
		b.WriteString("\nWhat stays, since other deployments may need it: the APIs that were turned on, and\n\n")
		for _, what := range r.Stays {
			fmt.Fprintf(&b, "- %s\n", what)
		}
	}
	if len(r.Measured) > 0 {
		b.WriteString("\nTimes include the way from this machine to the region.\n\n| | assumed | measured |\n| --- | --- | --- |\n")
		for _, m := range r.Measured {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", m.What, m.Assumed, m.Measured)
		}
	}
	if r.Figures != (Figures{}) {
		figures, err := json.Marshal(r.Figures)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "\nThe benchmark runs with these (`go run -C cmd/bench . --measured REPORT`):\n\n```json\n%s\n```\n", figures)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// cell is a text that may stand in a cell of a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", "\\|")
}
