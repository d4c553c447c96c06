package bench

import (
	"context"
	"fmt"
	"time"
)

// cold is the time from the start of a process to its first answer.
func (s *session) cold(ctx context.Context) (Result, error) {
	r := Result{Settings: "one process at a time, from its start to the end of its first answer, the clients' connection to Firestore included. All functions are in this one program: a no-op function deployed alone would be a smaller one"}
	st, err := openStage(ctx, contestant{name: "cold"}, setup{shards: hotShards, only: "none"})
	if err != nil {
		return r, err
	}
	defer st.close()
	if err := st.create(ctx, "hot"); err != nil {
		return r, err
	}
	events := eventSource{counter: "hot", shards: hotShards, base: time.Now().Add(time.Hour)}
	increment := func() []byte { return post("/hot") }
	functions := []struct {
		name, function string
		request        func() []byte
		than           int // index of the no-op to compare with
	}{
		{"no-op", noopFunction, increment, 0},
		{"no-op, event", noopEventFunction, events.one, 1},
		{"Increment", "Increment", increment, 0},
		{"Rollup", "Rollup", events.one, 1},
		{"Reconcile", "Reconcile", func() []byte { return post("/") }, 0},
		{"blind increment", blindIncrementFunction, increment, 0},
	}
	rounds := pick(s, 4, 15)
	times := make([][]float64, len(functions))
	for round := range rounds + 1 { // the first one reads the program from disk
		for i, f := range functions {
			s.step(fmt.Sprintf("round %d of %d, %s", round, rounds, f.name))
			took, err := st.coldStart(ctx, f.function, f.request())
			if err != nil {
				return r, err
			}
			if round > 0 {
				times[i] = append(times[i], took.Seconds()*1000)
			}
		}
	}
	for i, f := range functions {
		r.Rows = append(r.Rows, Row{Contestant: f.name, Metrics: []Metric{metric("first answer", "ms", times[i])}})
		if f.than != i {
			r.Ratios = append(r.Ratios, ratio("cold:"+f.name, fmt.Sprintf("cold start, %s ÷ %s", f.name, functions[f.than].name), times[i], times[f.than]))
		}
	}
	return r, nil
}

func (st *stage) coldStart(ctx context.Context, function string, request []byte) (time.Duration, error) {
	p, err := startProcess(function, st.environment())
	if err != nil {
		return 0, err
	}
	defer p.Close()
	c, err := p.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer c.close()
	defer context.AfterFunc(ctx, c.interrupt)()
	status, err := c.do(ctx, request)
	took := time.Since(p.Started)
	if err == nil {
		err = p.Ready(ctx) // that it was this process which answered
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("first answer of %s: %w", function, err)
	case status/100 != 2:
		return 0, fmt.Errorf("first answer of %s: status %d", function, status)
	}
	return took, nil
}
