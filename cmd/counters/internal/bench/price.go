package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/firestore-counters/counters/cmd/counters/internal/cost"
)

// price is what increments cost at a steady rate.
func (s *session) price(ctx context.Context) (Result, error) {
	const rate = 1000
	r := Result{Settings: fmt.Sprintf("one counter, %d increments/s (open loop), %d shards, commits take %v (a document takes one at a time), one instance of each function, nobody reads; list prices of %s, no free tier; instances of 1 vCPU and 0.5 GiB, billed while a request is in flight, each for 100 ms at least", rate, hotShards, commitLatency, cost.AsOf)}
	s.step("start")
	contestants := pick(s, []contestant{ours(), blind(), nothing()}, []contestant{ours(), blind(), nothing(), thrifty(), sumOnRead()})
	all, err := open(ctx, contestants, func(contestant) setup {
		return setup{faults: commits(), shards: hotShards}
	})
	if err != nil {
		return r, err
	}
	defer all.close()
	if err := all.create(ctx, "hot"); err != nil {
		return r, err
	}
	request := post("/hot")
	next := func(int) []byte { return request }
	rounds, window := pick(s, 1, 2), pick(s, 1500*time.Millisecond, 8*time.Second)
	of := make([]turns, len(all))
	costs, bare := make([][]float64, len(all)), make([][]float64, len(all))
	prices := cost.List()[0]
	for round := range rounds {
		for i, st := range all {
			s.step(fmt.Sprintf("round %d of %d, %s", round+1, rounds, st.name))
			clients, err := st.connections(ctx, clientsFor(rate), st.https)
			if err != nil {
				return r, err
			}
			if round == 0 {
				openLoop(ctx, clients, window/8, rate, next)
			}
			before := of[i]
			if err := st.turn(ctx, &of[i], pick(s, 1500*time.Millisecond, 4*time.Second), func() *load { return openLoop(ctx, clients, window, rate, next) }); err != nil {
				return r, err
			}
			used := of[i].usage.Plus(before.usage.Times(-1))
			bill := prices.Bill(used.PerMillion(float64(of[i].answered - before.answered)))
			costs[i] = append(costs[i], bill.Total())
			bare[i] = append(bare[i], bill.Total()-bill.Instances)
		}
	}
	for i, st := range all {
		row := row(st.name, perSecond(rate), &of[i], metric("per million", "$", costs[i]), metric("without instances", "$", bare[i]), metric("events left", "", of[i].left))
		row.PerMillion = bills(of[i].usage, of[i].answered)
		r.Rows = append(r.Rows, row)
	}
	requestPrice := prices.Bill(cost.Usage{Requests: 1e6}).Total()
	r.Notes = append(r.Notes, fmt.Sprintf("The floor is the no-op function: a request per increment, and the instance time that it takes. The requests' price alone is $%s.", short(requestPrice)))
	r.Ratios = append(r.Ratios,
		ratio("cost:ours/blind", "cost per million, ours ÷ blind", costs[0], costs[1]),
		ratio("cost:ours/floor", "cost per million, ours ÷ floor", costs[0], costs[2]),
		ratio("cost:ours/blind, without instances", "the same without instance time, ours ÷ blind", bare[0], bare[1]),
		ratio("cost:ours/floor, without instances", "the same without instance time, ours ÷ floor", bare[0], bare[2]))
	return r, nil
}
