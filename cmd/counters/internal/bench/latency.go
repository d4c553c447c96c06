package bench

import (
	"context"
	"fmt"
	"time"
)

// lone is the latency of an increment that nothing else disturbs.
func (s *session) lone(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("one counter, %d shards, commits take as long as they take here (no added latency, so that what the function adds shows), one instance; one client, one request after the other", hotShards)}
	s.step("start")
	// Without triggers: the roll-up's work, on the same processor, is not the increment's.
	all, err := open(ctx, []contestant{ours(), thrifty(), blind(), nothing()}, func(contestant) setup {
		return setup{shards: hotShards, only: "http"}
	})
	if err != nil {
		return r, err
	}
	defer all.close()
	if err := all.create(ctx, "hot"); err != nil {
		return r, err
	}
	rounds, window := pick(s, 7, 30), pick(s, 80*time.Millisecond, 250*time.Millisecond)
	request := post("/hot")
	of := make([]turns, len(all))
	for round := range rounds + 1 {
		for i, st := range all {
			s.step(fmt.Sprintf("round %d of %d, %s", round, rounds, st.name))
			clients, err := st.connections(ctx, 1, st.https)
			if err != nil {
				return r, err
			}
			st.begin()
			l := closedLoop(ctx, clients, window, func(int) []byte { return request })
			if ctx.Err() == nil && round > 0 { // the first one warms up
				of[i].take(l, 0, st.usage(l))
			}
			if err := st.alive(); err != nil {
				return r, err
			}
		}
	}
	for i, st := range all {
		r.Rows = append(r.Rows, row(st.name, "one client", &of[i],
			metric("p50", "ms", of[i].quantiles(0.5)), metric("p90", "ms", of[i].quantiles(0.9)), metric("p99", "ms", of[i].quantiles(0.99))))
	}
	b := find(all, of, "blind").quantiles(0.5)
	r.Ratios = append(r.Ratios,
		ratio("lone:ours/blind", "p50 of a lone increment, ours ÷ blind", find(all, of, "ours").quantiles(0.5), b),
		ratio("lone:thrifty/blind", "p50 of a lone increment, ours without marker ÷ blind", find(all, of, "ours, no marker").quantiles(0.5), b))
	return r, ctx.Err()
}

// latency is how long increments take at fixed rates.
func (s *session) latency(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("one counter, %d shards, commits take %v (a document takes one at a time), one instance; open loop: timed from when a request was due", hotShards, commitLatency)}
	s.step("start")
	all, err := open(ctx, []contestant{ours(), blind(), nothing()}, func(contestant) setup { return setup{faults: commits(), shards: hotShards} })
	if err != nil {
		return r, err
	}
	defer all.close()
	if err := all.create(ctx, "hot"); err != nil {
		return r, err
	}
	request := post("/hot")
	rounds, window := pick(s, 1, 2), pick(s, 400*time.Millisecond, 3*time.Second)
	for _, rate := range pick(s, []int{1000}, []int{100, 1000, 4000}) {
		of := make([]turns, len(all))
		for round := range rounds {
			for i, st := range all {
				s.step(fmt.Sprintf("%d/s, round %d of %d, %s", rate, round+1, rounds, st.name))
				clients, err := st.connections(ctx, clientsFor(rate), st.https)
				if err != nil {
					return r, err
				}
				if round == 0 {
					openLoop(ctx, clients, window/4, float64(rate), func(int) []byte { return request })
				}
				if err := st.turn(ctx, &of[i], pick(s, time.Second, 3*time.Second), func() *load {
					return openLoop(ctx, clients, window, float64(rate), func(int) []byte { return request })
				}); err != nil {
					return r, err
				}
			}
		}
		for i, st := range all {
			row := row(st.name, perSecond(rate), &of[i],
				metric("p50", "ms", of[i].quantiles(0.5)), metric("p90", "ms", of[i].quantiles(0.9)),
				metric("p99", "ms", of[i].quantiles(0.99)), metric("p99.9", "ms", of[i].quantiles(0.999)))
			row.PerMillion = bills(of[i].usage, of[i].answered)
			r.Rows = append(r.Rows, row)
		}
	}
	return r, nil
}

// clientsFor is how many connections an open loop gets: enough for answers that take a quarter of a second.
func clientsFor(rate int) int { return min(1000, 16+rate/4) }
