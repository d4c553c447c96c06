package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// Options say what is run.
type Options struct {
	Scenarios []string       // names; empty for all that belong to the run
	Quick     bool           // everything shorter: within a minute, and rougher
	Against   string         // path of another build of this program or of counters, to compare with instead; "" for none
	Profiles  string         // directory to write CPU profiles of our functions into; "" for none
	FloodFor  time.Duration  // how long each flood lasts; 0 is as usual
	Floods    *regexp.Regexp // of floods and their ceilings, as "ours, $5 a day: nobody: small"; nil is all
	Measured  Measured       // in a real project, in the place of what is assumed
	Step      func(scenario, what string)
	Save      func(*Report) error // is given what there is so far, after each scenario; nil for none

	sockets string // directory of the processes' sockets for profiles
}

// Scenario is something that is measured.
type Scenario struct {
	Name  string
	Title string
	run   func(*session, context.Context) (Result, error)
	long  bool // left out of a quick run unless it is asked for
	asked bool // left out of any run unless it is asked for

	Takes time.Duration // about, in a full run on four cores
}

// Scenarios are all there are, in their order. How long they take is from a run of all of them.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "hot", Title: "Increments a second on one hot counter", run: (*session).hot, Takes: 135 * time.Second},
		{Name: "events", Title: "Roll-up events a second", run: (*session).rollups, Takes: 70 * time.Second},
		{Name: "lone", Title: "Latency of a lone increment", run: (*session).lone, Takes: 30 * time.Second},
		{Name: "lag", Title: "Lag of the total on a hot document", run: (*session).lag, Takes: 145 * time.Second},
		{Name: "clicks", Title: "How soon a handful of clicks on a quiet counter show", run: (*session).clicks, Takes: 55 * time.Second},
		{Name: "burst", Title: "A burst on a quiet system, delivered as Pub/Sub does", run: (*session).burst, long: true, Takes: 105 * time.Second},
		{Name: "drift", Title: "Drift under duplicates and lost answers", run: (*session).drift, Takes: 45 * time.Second},
		{Name: "cost", Title: "Cost of a million increments at 1,000 a second", run: (*session).price, Takes: 95 * time.Second},
		{Name: "cold", Title: "Cold start", run: (*session).cold, Takes: 25 * time.Second},
		{Name: "latency", Title: "What exactness and shared commits add to an increment's latency", run: (*session).latency, long: true, Takes: 155 * time.Second},
		{Name: "zipf", Title: "Increments a second over 1,000 counters, by Zipf's law", run: (*session).zipf, Takes: 65 * time.Second},
		{Name: "even", Title: "Increments a second over 1,000 counters, evenly", run: (*session).even, Takes: 70 * time.Second},
		{Name: "memory", Title: "Memory at 10,000 requests in flight", run: (*session).memory, Takes: 40 * time.Second},
		{Name: "reads", Title: "Reads of the total", run: (*session).reads, Takes: 30 * time.Second},
		{Name: "members", Title: "Cost of counting each user once, at 1,000 a second", run: (*session).members, long: true, Takes: 25 * time.Second},
		{Name: "limits", Title: "Takes of a counter with a limit, and the last of it", run: (*session).limits, long: true, Takes: 120 * time.Second},
		{Name: "flood", Title: "What a day costs under a flood, with a ceiling, and who gets through", run: (*session).flood, asked: true, Takes: 40 * time.Minute},
		{Name: "scale", Title: "Growth with shards, instances and counters", run: (*session).scale, long: true, Takes: 75 * time.Second},
	}
}

// Limits of a run. A quick run begins no scenario after quickBudget, and says which it has left out:
// on a busy machine they take longer, and half a scenario tells nothing. Any other run ends by
// itself; only one that takes twice as long as all its scenarios should, and fullMargin more, is cut
// off, and reported as far as it came.
const (
	quickBudget = 45 * time.Second
	quickLimit  = 2 * time.Minute
	fullMargin  = 5 * time.Minute
)

// gcPercent is GOGC of this process, which holds the contestants' databases: so that less of what
// the machine can do goes into collecting their garbage, which is not part of what is measured.
const gcPercent = 400

// Errors of options.
var (
	ErrScenario = errors.New("no such scenario")
	ErrAgainst  = errors.New("no such program")
	ErrProfiles = errors.New("write profiles")
)

// Run runs scenarios, one after the other. When the context ends, it returns what has been found
// out so far, as an interrupted report. Errors: [ErrScenario], [ErrAgainst], [ErrProfiles], and
// those of Save. A scenario that fails says so in its result.
func Run(ctx context.Context, o Options) (*Report, error) {
	chosen, err := Plan(o)
	if err != nil {
		return nil, err
	}
	if o.Against != "" {
		if _, err := os.Stat(o.Against); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrAgainst, err)
		}
		if o.Against, err = filepath.Abs(o.Against); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrAgainst, err)
		}
	}
	if o.Profiles != "" {
		if err := os.MkdirAll(o.Profiles, 0o755); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProfiles, err)
		}
		// a socket's path has to be short
		if o.sockets, err = os.MkdirTemp("", "bench"); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProfiles, err)
		}
		defer os.RemoveAll(o.sockets)
	}
	busy, _, err := loadAverage()
	if err != nil {
		busy = -1 // not known
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	limit := 2*Together(chosen) + fullMargin
	if slices.Contains(o.Scenarios, "flood") {
		limit += 60 * o.FloodFor // of some thirty
	}
	if o.Quick && len(o.Scenarios) == 0 {
		limit = quickLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r := &Report{Date: time.Now(), Machine: machine(), LoadAverage: busy, Quick: o.Quick, Against: o.Against, PricesAsOf: cost.AsOf}
	for i, scenario := range chosen {
		if o.Quick && len(o.Scenarios) == 0 && time.Since(r.Date) > quickBudget {
			for _, left := range chosen[i:] {
				r.Left = append(r.Left, left.Name)
			}
			break
		}
		if ctx.Err() != nil {
			r.Interrupted = true
			break
		}
		began := time.Now()
		result, err := scenario.run(&session{Options: o, scenario: scenario.Name}, ctx)
		result.Scenario, result.Title, result.Began = scenario.Name, scenario.Title, began
		result.Seconds = time.Since(began).Seconds()
		switch {
		case ctx.Err() != nil:
			r.Interrupted = true
			result.Error = "ended before it was through"
		case err != nil:
			result.Error = err.Error()
		case !result.measured():
			result.Error = "nothing was measured, and no error says why"
		}
		r.Results = append(r.Results, result)
		r.Seconds = time.Since(r.Date).Seconds()
		r.Goals = r.goals()
		if o.Save != nil {
			if err := o.Save(r); err != nil {
				return nil, err
			}
		}
	}
	r.Goals = r.goals()
	return r, nil
}

// Together is about how long scenarios take in a full run.
func Together(scenarios []Scenario) (d time.Duration) {
	for _, s := range scenarios {
		d += s.Takes
	}
	return d
}

// Plan is what a run with these options measures. Errors: [ErrScenario].
func Plan(o Options) ([]Scenario, error) {
	all := Scenarios()
	if len(o.Scenarios) == 0 {
		return slices.DeleteFunc(all, func(s Scenario) bool { return s.asked || o.Quick && s.long }), nil
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	for _, name := range o.Scenarios {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("%w as %q: want %s", ErrScenario, name, strings.Join(names, ", "))
		}
	}
	return slices.DeleteFunc(all, func(s Scenario) bool { return !slices.Contains(o.Scenarios, s.Name) }), nil
}
