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
	s.say("start")
	all, err := open(ctx, s.field(ours(), blind()), setup{
		shards: hotShards, faults: emulator.Faults{LoseAnswers: 0.01, Seed: 1}, events: eventarc.Faults{Duplicate: 0.1, Seed: 1},
	}, "hot")
	if err != nil {
		return r, err
	}
	defer all.close()
	s.say("%d increments each", increments)
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

// drift sends increments, waits for their events, and compares what is there with what was
// answered.
func (st *stage) drift(ctx context.Context, increments int) (Row, error) {
	st.begin()
	l := closedLoop(ctx, clients(100, st.https), 5*time.Minute, post("/hot").upTo(increments))
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
	answered, sent := int64(l.answered()), int64(len(l.samples))
	var t turns
	t.add(l, turn{usage: st.usage(l)})
	return t.row(st.name, short(float64(increments))+" increments",
		one("drift", "", float64(beyond(rolled.Total, answered, sent))),
		one("of it, shards", "", float64(beyond(sum.Total, answered, sent))),
		one("of it, roll-up", "", float64(rolled.Total-sum.Total)),
		one("answered", "", float64(answered))), nil
}

// beyond is how far a total is off: every increment that was answered with success counts, and one
// that failed may.
func beyond(total, answered, sent int64) int64 {
	switch {
	case total < answered:
		return total - answered
	case total > sent:
		return total - sent
	}
	return 0
}
