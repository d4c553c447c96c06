package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/cmd/counters/internal/cost"
	"github.com/firestore-counters/counters/emulator"
)

// Settings that all contestants have, unless a scenario says otherwise.
const (
	commitLatency = 10 * time.Millisecond
	hotShards     = 100
)

// session is one run of scenarios.
type session struct {
	quick bool
	step  func(what string) // told what begins
}

// pick is the first value in a quick run, and otherwise the second.
func pick[T any](s *session, quick, full T) T {
	if s.quick {
		return quick
	}
	return full
}

// commits are an emulator's faults that make each commit take about as long as it does in production.
func commits() emulator.Faults { return emulator.Faults{CommitLatency: commitLatency} }

// stages are the contestants of a scenario, in the order of their turns.
type stages []*stage

// open starts contestants, each with the same setup. Those that were started are closed again when one can't be.
func open(ctx context.Context, contestants []contestant, s func(contestant) setup) (stages, error) {
	all := make(stages, len(contestants))
	errs := make([]error, len(contestants))
	var starting sync.WaitGroup
	for i, c := range contestants {
		starting.Go(func() { all[i], errs[i] = openStage(ctx, c, s(c)) })
	}
	starting.Wait()
	for _, err := range errs {
		if err != nil {
			all.close()
			return nil, err
		}
	}
	return all, nil
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

// create makes the same counters for each contestant.
func (all stages) create(ctx context.Context, ids ...string) error {
	g, making := errgroup.WithContext(ctx)
	for _, st := range all {
		g.Go(func() error { return st.create(making, ids...) })
	}
	return g.Wait()
}

// turns is what a contestant's turns in a scenario came to.
type turns struct {
	rates     []float64 // of each round
	latencies [][]float64
	commits   []float64
	left      []float64 // events that were not taken in the time given, after each round
	usage     cost.Usage
	answered  int
	errors    map[string]int
}

// take adds a load and its usage.
func (t *turns) take(l *load, commits int64, u cost.Usage) {
	t.rates = append(t.rates, l.rate())
	t.latencies = append(t.latencies, l.latencies())
	t.commits = append(t.commits, float64(commits)/l.elapsed.Seconds())
	t.usage = t.usage.Plus(u)
	t.answered += l.answered()
	if t.errors == nil {
		t.errors = map[string]int{}
	}
	for status, n := range l.errors() {
		t.errors[status] += n
	}
}

// quantiles are a quantile of each round's latencies, in milliseconds.
func (t *turns) quantiles(q float64) []float64 {
	var out []float64
	for _, round := range t.latencies {
		out = append(out, milliseconds(quantile(round, q)))
	}
	return out
}

// turn is one contestant's turn. The events that it leaves count as its usage as far as they are delivered within the
// time given; the rest waits for its next turn.
func (st *stage) turn(ctx context.Context, t *turns, settle time.Duration, run func() *load) error {
	if err := st.resume(); err != nil {
		return err
	}
	defer st.pause()
	runtime.GC() // of this process, which holds the contestants' databases
	st.begin()
	l := run()
	if len(l.samples) == 0 {
		return ctx.Err()
	}
	commits := st.server.Stats().Commits
	left := st.settle(ctx, settle)
	if ctx.Err() != nil {
		return ctx.Err() // half a turn is no figure
	}
	if err := st.alive(); err != nil {
		return err
	}
	t.take(l, commits, st.usage(l))
	t.left = append(t.left, float64(left))
	return nil
}

// row is a contestant under a load, with what went wrong.
func row(contestant, load string, t *turns, metrics ...Metric) Row {
	r := Row{Contestant: contestant, Load: load, Metrics: metrics}
	if len(t.errors) > 0 {
		r.Errors = t.errors
	}
	return r
}

// metric is a figure of several rounds.
func metric(name, unit string, rounds []float64) Metric {
	return Metric{Name: name, Unit: unit, Measure: measure(rounds)}
}

// ratio compares two contestants' rounds.
func ratio(id, name string, a, b []float64) Ratio {
	return Ratio{ID: id, Name: name, Measure: measure(ratios(a, b))}
}

func perSecond(n int) string { return fmt.Sprintf("%d/s", n) }

// find is the turns of a contestant.
func find(all stages, of []turns, name string) *turns {
	i := slices.IndexFunc(all, func(st *stage) bool { return st.name == name })
	if i < 0 {
		return &turns{}
	}
	return &of[i]
}
