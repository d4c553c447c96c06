package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// session is one run of a scenario.
type session struct {
	Options
	scenario string
}

// pick is the first value in a quick run, and otherwise the second.
func pick[T any](s *session, quick, full T) T {
	if s.Quick {
		return quick
	}
	return full
}

func (s *session) say(format string, args ...any) {
	if s.Step != nil {
		s.Step(s.scenario, fmt.Sprintf(format, args...))
	}
}

// field is who takes part: those given, or with another build to compare with, ours and the
// other's.
func (s *session) field(all ...contestant) []contestant {
	if s.Against != "" {
		other := ours()
		other.name, other.program = nameOther, s.Against
		mine := ours()
		mine.limit, other.limit = all[0].limit, all[0].limit
		all = []contestant{mine, other}
	}
	if s.sockets != "" {
		for i, c := range all {
			all[i].environ = append(slices.Clone(c.environ), profilesVariable+"="+s.sockets)
		}
	}
	return all
}

// race has contestants take turns under the same load, in rounds.
type race struct {
	contestants []contestant
	setup       setup    // of each
	counters    []string // that are made beforehand
	next        requests // what is sent; nil for events of the first counter
	load        string   // names the load; "" is the number of clients
	clients     []int    // how many: the best of these is found out first
	rate        float64  // requests a second that are due; 0 is as many as the clients can send
	random      bool     // they are due at random times, and not evenly
	consecutive bool     // each has its turns in a row: a pause would let hot documents recover

	warm, window, settle time.Duration // before all turns; of a turn; for the events that it leaves
	rounds               int

	columns func(*turns) []Metric
	figure  figure      // that is compared
	pairs   [][2]string // by name: who is divided by whom
}

// figure is what a ratio is about.
type figure struct {
	id, name string
	of       func(turn) float64
}

var rate = figure{"", "increments/s", func(t turn) float64 { return t.rate }}

// turn is what a contestant's turn came to.
type turn struct {
	rate      float64 // successful answers a second
	answered  int
	latencies *hdrhistogram.Histogram
	commits   float64 // a second
	left      int     // events that were not taken in the time given
	writes    float64 // of the first counter's total, a second
	usage     cost.Usage
	cpu       CPU
}

// price is the bill of a million requests in US dollars, each function being billed in the way that
// costs less, and the database in us-central1.
func (t turn) price() float64 { return t.bill(cost.Cheaper).Total() }

// enterprise is the same in a database of that edition.
func (t turn) enterprise() float64 {
	return priced("us-central1").In(cost.Enterprise).Bill(t.usage.PerMillion(float64(t.answered)), cost.Cheaper).Total()
}

// pricedBy is the same with all functions billed in one way.
func pricedBy(by cost.Billing) func(turn) float64 {
	return func(t turn) float64 { return t.bill(by).Total() }
}

// cpuEach is the seconds of CPU time that all sides together used for an answer. Whatever else runs
// on the machine takes rounds from the clock, but hardly changes this.
func (t turn) cpuEach() float64 { return t.cpu.all() / float64(t.answered) }

func (t turn) bill(by cost.Billing) cost.Bill {
	return priced("us-central1").Bill(t.usage.PerMillion(float64(t.answered)), by)
}

// places are the locations of the database that bills are for.
var places = []string{"us-central1", "nam5"}

func priced(place string) cost.Prices {
	prices, err := cost.PricesOf(place)
	if err != nil {
		panic(err) // Not possible: the list has both.
	}
	return prices
}

// turns is what all of a contestant's turns came to.
type turns struct {
	rounds []turn
	errors map[string]int
}

// each is a figure of each round.
func (t *turns) each(of func(turn) float64) []float64 {
	var out []float64
	for _, r := range t.rounds {
		out = append(out, of(r))
	}
	return out
}

func (t *turns) metric(name, unit string, of func(turn) float64) Metric {
	return metric(name, unit, t.each(of))
}

// latency is a quantile of the latencies in milliseconds.
func (t *turns) latency(name string, q float64) Metric {
	return t.metric(name, "ms", func(r turn) float64 { return milliseconds(quantile(r.latencies, q)) })
}

// row is a contestant under a load, with what it used and what went wrong.
func (t *turns) row(contestant, load string, metrics ...Metric) Row {
	r := Row{Contestant: contestant, Load: load, Metrics: metrics}
	var used cost.Usage
	var cpu CPU
	answered := 0
	for _, round := range t.rounds {
		used, answered = used.Plus(round.usage), answered+round.answered
		cpu = cpu.plus(round.cpu)
	}
	if cpu != (CPU{}) {
		r.CPU = &cpu
	}
	if len(t.errors) > 0 {
		r.Errors = t.errors
	}
	r.PerMillion = bills(used, answered)
	return r
}

// add is a turn that is over.
func (t *turns) add(l *load, r turn) {
	r.rate, r.answered, r.latencies = l.rate(), l.answered(), l.latencies()
	t.rounds = append(t.rounds, r)
	for status, n := range l.errors() {
		if t.errors == nil {
			t.errors = map[string]int{}
		}
		t.errors[status] += n
	}
}

// race runs a race and adds its rows and ratios to the result: as many as there are when an error
// ends it.
func (s *session) race(ctx context.Context, r *Result, c race) (of map[string]*turns, err error) {
	of = map[string]*turns{}
	if s.sockets != "" {
		// one that is long: a profile is a hundred samples a second
		c.rounds, c.window = 1, pick(s, 2*time.Second, 10*time.Second)
	}
	s.say("start")
	all, err := open(ctx, s.field(c.contestants...), c.setup, c.counters...)
	if err != nil {
		return of, err
	}
	defer all.close()
	runs := make([]*run, len(all))
	for i, st := range all {
		of[st.name] = &turns{}
		runs[i] = &run{session: s, race: &c, stage: st, turns: of[st.name]}
	}
	err = c.inTurn(ctx, runs)
	for _, run := range runs {
		if len(run.turns.rounds) > 0 {
			load := cmp.Or(c.load, plural(run.clients, "client"))
			r.Rows = append(r.Rows, run.turns.row(run.stage.name, load, c.columns(run.turns)...))
		}
	}
	if s.Against != "" {
		c.pairs = [][2]string{{nameOurs, nameOther}}
	}
	for _, p := range c.pairs {
		a, b := of[p[0]], of[p[1]]
		if a != nil && b != nil {
			id := fmt.Sprintf("%s%s:%s/%s", s.scenario, c.figure.id, p[0], p[1])
			r.Ratios = append(r.Ratios, ratio(id, fmt.Sprintf("%s, %s ÷ %s", c.figure.name, p[0], p[1]), a.each(c.figure.of), b.each(c.figure.of)),
				ratio(id+", CPU", fmt.Sprintf("CPU time of all sides for an answer, %s ÷ %s", p[0], p[1]), a.each(turn.cpuEach), b.each(turn.cpuEach)))
		}
	}
	return of, err
}

// inTurn has all take their turns. One that fails is out, and the others go on.
func (c *race) inTurn(ctx context.Context, runs []*run) error {
	var errs []error
	do := func(r *run, what func(context.Context) error) {
		if r.out || ctx.Err() != nil {
			return
		}
		if err := what(ctx); err != nil && ctx.Err() == nil {
			r.out = true
			errs = append(errs, fmt.Errorf("%s: %w", r.stage.name, err))
		}
	}
	for _, r := range runs {
		do(r, r.warmUp)
		if c.consecutive {
			for n := range c.rounds {
				do(r, func(ctx context.Context) error { return r.turn(ctx, n) })
			}
		}
	}
	for n := range c.rounds {
		if !c.consecutive {
			for _, r := range runs {
				do(r, func(ctx context.Context) error { return r.turn(ctx, n) })
			}
		}
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// run is a contestant in a race.
type run struct {
	*session
	*race
	stage   *stage
	turns   *turns
	clients int // the best number
	expect  float64
	events  eventSource
	out     bool
}

// warmUp finds out with how many clients the contestant does best.
func (r *run) warmUp(ctx context.Context) error {
	if err := r.stage.resume(); err != nil {
		return err
	}
	defer r.stage.pause()
	for _, n := range r.race.clients {
		r.say("%s, %s", r.stage.name, plural(n, "client"))
		l := r.send(ctx, n, r.warm)
		if len(r.race.clients) > 1 {
			l = r.send(ctx, n, r.warm) // the first one warmed up
		}
		if err := r.failed(l); err != nil {
			return err
		}
		if l.rate() > r.expect {
			r.clients, r.expect = n, l.rate()
		}
	}
	return nil
}

// send sends the load for as long as given.
func (r *run) send(ctx context.Context, n int, window time.Duration) *load {
	to := r.stage.https
	next := r.next
	if next == nil {
		to = r.stage.triggers
		if r.events.shards == 0 {
			r.events = newEventSource(r.counters[0], r.setup.shards)
		}
		// Half as many again as were taken so far, so that the window ends first.
		next = r.events.next(int(math.Max(1.5*r.expect, 8000) * math.Max(window.Seconds(), 0.5)))
	}
	switch {
	case r.rate > 0 && r.random:
		return openLoopAt(ctx, clients(n, to), window, randomly(r.rate, window), next)
	case r.rate > 0:
		return openLoop(ctx, clients(n, to), window, r.rate, next)
	}
	return closedLoop(ctx, clients(n, to), window, next)
}

// turn is one turn. The events that it leaves count as its usage as far as they are delivered
// within the time given; the rest waits for the next turn.
func (r *run) turn(ctx context.Context, round int) error {
	st := r.stage
	r.say("round %d of %d, %s", round+1, r.rounds, st.name)
	if err := st.resume(); err != nil {
		return err
	}
	defer st.pause()
	stop := func() error { return nil }
	if r.sockets != "" {
		stop = r.profile(ctx)
	}
	runtime.GC() // of this process, which holds the contestants' databases
	st.meter.follow(r.counters[0])
	st.begin()
	before := st.cpu()
	l := r.send(ctx, r.clients, r.window)
	cpu := st.cpu().plus(before.times(-1))
	commits := st.server.Stats().Commits
	left := st.settle(ctx, r.settle)
	if ctx.Err() != nil {
		return ctx.Err() // half a turn is not a figure
	}
	if err := errors.Join(r.failed(l), stop()); err != nil {
		return err
	}
	r.turns.add(l, turn{
		commits: float64(commits) / l.elapsed.Seconds(), left: left, writes: st.meter.followed(r.counters[0]).writes(), usage: st.usage(l), cpu: cpu,
	})
	return nil
}

// failed is an error when a load is not a measurement of the contestant.
func (r *run) failed(l *load) error {
	if err := r.stage.alive(); err != nil {
		return err
	}
	return l.failed()
}

// profile writes profiles of the turn that begins, one for each kind of function. The returned
// function waits for them.
func (r *run) profile(ctx context.Context) func() error {
	var writing errgroup.Group
	for _, kind := range [][]*process{r.stage.https, r.stage.triggers} {
		if len(kind) > 0 && r.stage.program == "" && !strings.HasPrefix(kind[0].function, "Bench") {
			p := kind[0]
			file := fmt.Sprintf("%s-%s-%s.pprof", r.scenario, r.stage.name, p.function)
			writing.Go(func() error { return p.profile(ctx, r.sockets, r.window, filepath.Join(r.Profiles, file)) })
		}
	}
	return writing.Wait
}

// stages are the contestants of a scenario, in the order of their turns.
type stages []*stage

// open starts contestants, each with the same setup and counters. Faults begin when the counters
// are made. When one can't be started, those that were are closed again.
func open(ctx context.Context, contestants []contestant, s setup, counters ...string) (stages, error) {
	all := make(stages, len(contestants))
	g, starting := errgroup.WithContext(ctx)
	for i, c := range contestants {
		g.Go(func() (err error) {
			if all[i], err = openStage(starting, c, s); err == nil {
				err = all[i].create(starting, counters...)
			}
			return err
		})
	}
	err := g.Wait()
	if err != nil {
		all.close()
	}
	return all, err
}

func (all stages) close() {
	var closing sync.WaitGroup
	for _, st := range all {
		if st != nil {
			closing.Go(st.close)
		}
	}
	closing.Wait()
}

// metric is a figure of several rounds.
func metric(name, unit string, rounds []float64) Metric {
	return Metric{Name: name, Unit: unit, Measure: measure(rounds)}
}

// one is a figure that was taken once.
func one(name, unit string, value float64) Metric { return metric(name, unit, []float64{value}) }

// ratio compares two contestants' rounds.
func ratio(id, name string, a, b []float64) Ratio {
	return Ratio{ID: id, Name: name, Measure: measure(ratios(a, b))}
}
