package bench

import (
	"context"
	"fmt"
	"time"
)

// reads is what a read of the total costs, and how many there are a second.
func (s *session) reads(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("one counter, %d shards, one instance; closed loop, 64 clients; ours reads one document, sum adds up the shards", hotShards)}
	s.step("start")
	all, err := open(ctx, []contestant{ours(), sumOnRead(), nothing()}, func(contestant) setup { return setup{shards: hotShards, only: "http"} })
	if err != nil {
		return r, err
	}
	defer all.close()
	if err := all.create(ctx, "hot"); err != nil {
		return r, err
	}
	request := get("/hot")
	next := func(int) []byte { return request }
	of, best := make([]turns, len(all)), make([]int, len(all))
	for i, st := range all {
		best[i] = 64
		clients, err := st.connections(ctx, best[i], st.https)
		if err != nil {
			return r, err
		}
		closedLoop(ctx, clients, pick(s, 100*time.Millisecond, time.Second), next)
	}
	err = s.rounds(ctx, all, of, pick(s, 2, 5), pick(s, 200*time.Millisecond, 2*time.Second), best, next)
	for i, st := range all {
		t := &of[i]
		billed := t.usage.Reads / float64(max(1, t.answered))
		r.Rows = append(r.Rows, row(st.name, "64 clients", t,
			metric("reads/s", "/s", t.rates), metric("p50", "ms", t.quantiles(0.5)), metric("billed reads", "", []float64{billed})))
	}
	r.Ratios = append(r.Ratios, ratio("reads:ours/sum", "reads/s, ours ÷ sum", find(all, of, "ours").rates, find(all, of, "sum").rates))
	return r, err
}
