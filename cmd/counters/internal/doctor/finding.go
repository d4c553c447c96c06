package doctor

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/firestore-counters/counters/cmd/internal/terminal"
)

// Severity says how bad a finding is.
type Severity string

const (
	// Error is something that doesn't work, or makes counts wrong.
	Error Severity = "error"
	// Warning works, but costs money, speed or safety.
	Warning Severity = "warning"
	// Info is worth knowing.
	Info Severity = "info"
)

var severities = []Severity{Error, Warning, Info}

// Finding is something about a deployment that should be otherwise.
type Finding struct {
	Name     string   `json:"name"` // one of the catalogue's; stays the same between versions
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"` // the function, account, field, job or counter that it is about
	Seen     string   `json:"seen"`
	Means    string   `json:"means"`
	Fix      string   `json:"fix"` // complete command lines that mend it
	counter  bool     // Subject is a counter's id, which may be any text
}

// findings gathers what checks find.
type findings struct{ list []Finding }

func (f *findings) add(name, subject, seen, fix string) {
	e := catalogue[name]
	f.list = append(f.list, Finding{Name: name, Severity: e.severity, Subject: subject, Seen: seen, Means: e.means, Fix: fix})
}

// Check judges a deployment as of a time, and returns the findings, the worst first. It passes over
// what could not be read.
func Check(d *Deployment, now time.Time) []Finding {
	var f findings
	f.apis(d)
	f.accounts(d) // which all else is done as
	f.repository(d)
	f.access(d)
	f.functions(d, now)
	if !f.upgrade(d) {
		f.settings(d)
	}
	f.trigger(d)
	f.watches(d)
	f.regions(d)
	f.billing(d)
	f.ceiling(d)
	f.scheduler(d)
	f.differences(d)
	f.restored(d, now)
	f.rules(d)
	f.monitoring(d)
	f.budget(d)
	others := len(f.list)
	f.counters(d)
	for i := range f.list[others:] {
		f.list[others+i].counter = true
	}
	slices.SortStableFunc(f.list, func(a, b Finding) int {
		return cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity))
	})
	return f.list
}

// Report is what doctor says of a deployment.
type Report struct {
	Project    string       `json:"project"`
	Emulator   string       `json:"emulator,omitempty"` // its address, where one was checked
	Database   string       `json:"database"`
	Path       string       `json:"path"`      // of the counters' documents
	Functions  []string     `json:"functions"` // those that were checked
	Counters   int          `json:"counters"`  // how many were checked
	More       bool         `json:"more"`      // whether there are others
	Errors     int          `json:"errors"`
	Findings   []Finding    `json:"findings"` // the worst first
	NotChecked []NotChecked `json:"not_checked"`
}

// NewReport is the report of a deployment and what [Check] found of it.
func NewReport(d *Deployment, found []Finding) Report {
	r := Report{
		Project: d.Target.Project, Emulator: d.Target.Emulator, Database: d.Target.Database, Path: d.Target.Counters,
		Functions: []string{}, Findings: append([]Finding{}, found...), NotChecked: append([]NotChecked{}, d.NotChecked...),
	}
	for _, f := range found {
		if f.Severity == Error {
			r.Errors++
		}
	}
	for _, f := range d.Functions.all() {
		r.Functions = append(r.Functions, f.Name)
	}
	if d.Counters != nil {
		r.Counters, r.More = len(d.Counters.Read), d.Counters.More
	}
	return r
}

// WriteTo writes the report to be read: the findings by severity, what all of a name have in common
// once, and the command beneath each.
func (r Report) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "Project %s, database %s, counters at %s", r.Project, r.Database, r.Path)
	if r.Emulator != "" {
		fmt.Fprintf(&b, ", on the emulator at %s.\nAn emulator has counters only: no functions, roles, indexes or Scheduler are checked.", r.Emulator)
	}
	b.WriteString("\n")
	for _, severity := range severities {
		r.section(&b, severity)
	}
	if len(r.NotChecked) > 0 {
		b.WriteString("\nNOT CHECKED\n")
		for _, n := range r.NotChecked {
			fmt.Fprintf(&b, "\n  %s: %s\n", n.Part, terminal.Line(n.Why))
			command(&b, n.Fix)
		}
	}
	fmt.Fprintf(&b, "\n%s\n", r.summary())
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

func (r Report) section(b *strings.Builder, severity Severity) {
	heading := strings.ToUpper(string(severity))
	var names []string
	byName := map[string][]Finding{} // :: name → its findings
	for _, f := range r.Findings {
		if f.Severity != severity {
			continue
		}
		if byName[f.Name] == nil {
			names = append(names, f.Name)
		}
		byName[f.Name] = append(byName[f.Name], f)
	}
	for _, name := range names {
		fmt.Fprintf(b, "\n%s  %s\n", heading, name)
		fmt.Fprintln(b, wrap(byName[name][0].Means, "  "))
		for _, f := range byName[name] {
			subject := f.Subject
			if f.counter {
				subject = terminal.Quote(subject)
			}
			fmt.Fprintf(b, "\n  %s: %s\n", terminal.Line(subject), terminal.Line(f.Seen))
			command(b, f.Fix)
		}
	}
}

func command(b *strings.Builder, lines string) {
	if lines == "" {
		return
	}
	for l := range strings.SplitSeq(lines, "\n") {
		fmt.Fprintf(b, "    $ %s\n", terminal.Line(l)) // in one piece, so that it can be pasted
	}
}

func (r Report) summary() string {
	checked := terminal.Count(r.Counters, "counter")
	if r.More {
		checked = "the first " + checked + " (--counters N checks more)"
	}
	if r.Emulator == "" {
		checked = terminal.Count(len(r.Functions), "function") + " and " + checked
	}
	s := fmt.Sprintf("Checked %s: %s, %s", checked, terminal.Count(r.Errors, "error"), terminal.Count(len(r.Findings)-r.Errors, "other finding"))
	if len(r.NotChecked) > 0 {
		s += ", " + terminal.Count(len(r.NotChecked), "part") + " not checked"
	}
	s += "."
	if len(r.Findings) > 0 && r.Emulator == "" {
		s += "\nA deployment of terraform's is mended by its variables and terraform apply: what gcloud changes, it changes back."
	}
	return s
}

// wrap breaks a text into lines of at most 100 characters.
func wrap(text, indent string) string {
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			b.WriteString(indent)
		case width+len(word)+1 > 100:
			b.WriteString("\n" + indent)
			width = 0
		default:
			b.WriteByte(' ')
		}
		b.WriteString(word)
		width += len(word) + 1
	}
	return b.String()
}
