package bench

import (
	"runtime"
	"runtime/debug"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// Report is all that a run has found out.
type Report struct {
	Date        time.Time `json:"date"`
	Machine     string    `json:"machine"`
	LoadAverage float64   `json:"load_average"` // over the minute before the run: what else the machine did
	Quick       bool      `json:"quick"`
	Against     string    `json:"against,omitempty"`     // the other build
	Interrupted bool      `json:"interrupted,omitempty"` // ended early: by Ctrl-C, or for lack of time
	Left        []string  `json:"left,omitempty"`        // scenarios that a quick run had no time for
	Seconds     float64   `json:"seconds"`
	PricesAsOf  string    `json:"prices_as_of"`
	Results     []Result  `json:"results"`
	Goals       []Goal    `json:"goals"`
}

// Result is what one scenario has found out.
type Result struct {
	Scenario string    `json:"scenario"`
	Title    string    `json:"title"`
	Settings string    `json:"settings"`
	Rows     []Row     `json:"rows"`
	Ratios   []Ratio   `json:"ratios,omitempty"`
	Notes    []string  `json:"notes,omitempty"`
	Lags     []Line    `json:"lag_over_time,omitempty"`
	Began    time.Time `json:"began"`
	Seconds  float64   `json:"seconds"`         // that it took
	Error    string    `json:"error,omitempty"` // what ended the scenario early
}

// Row is one contestant under one load.
type Row struct {
	Contestant string         `json:"contestant"`
	Load       string         `json:"load,omitempty"`
	Metrics    []Metric       `json:"metrics"`
	Errors     map[string]int `json:"errors,omitempty"`      // requests that failed, by status
	PerMillion *Bills         `json:"per_million,omitempty"` // requests: increments, reads or events
	CPU        *CPU           `json:"cpu_seconds,omitempty"` // used while requests were sent
}

// CPU is how many seconds of CPU time each side used. The load, Firestore and the delivery of
// events are in one process.
type CPU struct {
	Function float64 `json:"function"` // all instances of the function that answers requests
	Trigger  float64 `json:"trigger"`  // all instances of the roll-up
	Here     float64 `json:"here"`
}

func (c CPU) plus(d CPU) CPU {
	return CPU{c.Function + d.Function, c.Trigger + d.Trigger, c.Here + d.Here}
}

func (c CPU) times(f float64) CPU { return CPU{c.Function * f, c.Trigger * f, c.Here * f} }

// shares are who used how many percent of it.
func (c CPU) shares() (function, trigger, here float64) {
	percent := 100 / max(1e-9, c.all())
	return c.Function * percent, c.Trigger * percent, c.Here * percent
}

func (c CPU) all() float64 { return c.Function + c.Trigger + c.Here }

// Metric is one figure.
type Metric struct {
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"`
	Measure
	AtLeast bool `json:"at_least,omitempty"` // it had no end when the measurement had
}

// Bills are what a million increments use and cost.
type Bills struct {
	Usage cost.Usage      `json:"usage"`
	Costs map[string]Ways `json:"usd"` // :: location → the bills there
}

// Ways are the bills of a usage with each function billed in the way that costs less, and with all
// of them billed in either way.
type Ways struct {
	Cheaper    cost.Bill `json:"cheaper"`
	ByRequest  cost.Bill `json:"by_request"`
	ByInstance cost.Bill `json:"by_instance"`
}

// Ratio compares two contestants, round by round.
type Ratio struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Measure
}

// Line is a line in a plot.
type Line struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"` // seconds, value
}

// metric finds a figure of a row; the zero Metric, of no rounds, when there is none.
func (r *Result) metric(contestant, load, name string) Metric {
	for _, row := range r.Rows {
		if row.Contestant != contestant || load != "" && row.Load != load {
			continue
		}
		for _, m := range row.Metrics {
			if m.Name == name {
				return m
			}
		}
	}
	return Metric{Name: name}
}

// result finds a scenario's result; nil when it was not run.
func (r *Report) result(scenario string) *Result {
	for i := range r.Results {
		if r.Results[i].Scenario == scenario {
			return &r.Results[i]
		}
	}
	return nil
}

// ratio finds a comparison; of no rounds when it was not made.
func (r *Report) ratio(id string) Ratio {
	for _, result := range r.Results {
		for _, ratio := range result.Ratios {
			if ratio.ID == id {
				return ratio
			}
		}
	}
	return Ratio{ID: id}
}

// bills prices what a number of increments used; nil for none.
func bills(u cost.Usage, increments int) *Bills {
	if increments == 0 {
		return nil
	}
	b := &Bills{Usage: u.PerMillion(float64(increments)), Costs: map[string]Ways{}}
	for _, place := range places {
		p := priced(place)
		b.Costs[place] = Ways{p.Bill(b.Usage, cost.Cheaper), p.Bill(b.Usage, cost.ByRequest), p.Bill(b.Usage, cost.ByInstance)}
	}
	return b
}

// machine describes what the run ran on: the cores that this program may use, and their name where
// the system tells.
func machine() string {
	version := runtime.Version()
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.GoVersion
	}
	cores := plural(runtime.GOMAXPROCS(0), "core")
	if all, err := cpu.Info(); err == nil && len(all) > 0 && all[0].ModelName != "" {
		cores += " of " + all[0].ModelName
	}
	return cores + ", " + version + ", " + runtime.GOOS + "/" + runtime.GOARCH
}

// measured reports whether there is a figure.
func (r *Result) measured() bool {
	for _, row := range r.Rows {
		for _, m := range row.Metrics {
			if m.Rounds > 0 {
				return true
			}
		}
	}
	return false
}
