package doctor

import (
	"cmp"
	"slices"
	"time"
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
