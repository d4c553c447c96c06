package bench

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/firestore-counters/counters/emulator"
	"github.com/firestore-counters/counters/emulator/eventarc"
)

// drift is how wrong a total is after a bad day.
func (s *session) drift(ctx context.Context) (Result, error) {
	increments := pick(s, 5_000, 100_000)
	r := Result{Settings: fmt.Sprintf("%d increments of one counter, %d shards; 10 %% of events come twice, the answers of 1 %% of commits are lost; both at the same time", increments, hotShards)}
	s.step("start")
	all, err := open(ctx, []contestant{ours(), blind()}, func(contestant) setup {
		return setup{shards: hotShards, faults: emulator.Faults{LoseAnswers: 0.01, Seed: 1}, events: eventarc.Faults{Duplicate: 0.1, Seed: 1}}
	})
	if err != nil {
		return r, err
	}
	defer all.close()
	// Without faults: an answer that is lost here would be a drift of the benchmark's own.
	for _, st := range all {
		st.server.SetFaults(emulator.Faults{})
	}
	if err := all.create(ctx, "hot"); err != nil {
		return r, err
	}
	for _, st := range all {
		st.server.SetFaults(st.faults)
	}
	s.step(fmt.Sprintf("%d increments each", increments))
	rows := make([]Row, len(all))
	g, both := errgroup.WithContext(ctx)
	for i, st := range all {
		g.Go(func() (err error) {
			rows[i], err = st.drift(both, increments)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return r, err
	}
	r.Rows = rows
	return r, nil
}

// drift sends increments, waits for their events, and compares what is there with what was answered.
func (st *stage) drift(ctx context.Context, increments int) (Row, error) {
	clients, err := st.connections(ctx, 100, st.https)
	if err != nil {
		return Row{}, err
	}
	request := post("/hot")
	st.begin()
	l := closedLoop(ctx, clients, 5*time.Minute, func(n int) []byte {
		if n >= increments {
			return nil
		}
		return request
	})
	st.settle(ctx, 5*time.Minute)
	if ctx.Err() != nil {
		return Row{}, ctx.Err()
	}
	if err := st.alive(); err != nil {
		return Row{}, err
	}
	// Exact reads, whose answers are not lost: faults are of commits.
	counter, err := st.counters.Counter("hot")
	if err != nil {
		return Row{}, err
	}
	rolled, err := counter.Get(ctx)
	if err != nil {
		return Row{}, err
	}
	sum, err := counter.Sum(ctx)
	if err != nil {
		return Row{}, err
	}
	answered := int64(l.answered())
	var t turns
	t.take(l, 0, st.usage(l))
	row := row(st.name, fmt.Sprintf("%d increments", increments), &t,
		metric("drift", "", []float64{float64(beyond(rolled.Total, answered, int64(len(l.samples))))}),
		metric("of it, shards", "", []float64{float64(beyond(sum.Total, answered, int64(len(l.samples))))}),
		metric("of it, roll-up", "", []float64{float64(rolled.Total - sum.Total)}),
		metric("answered", "", []float64{float64(answered)}))
	row.PerMillion = bills(t.usage, l.answered())
	return row, nil
}

// beyond is how far a total is off: every increment that was answered with success counts, and one that failed may.
func beyond(total, answered, sent int64) int64 {
	switch {
	case total < answered:
		return total - answered
	case total > sent:
		return total - sent
	}
	return 0
}
