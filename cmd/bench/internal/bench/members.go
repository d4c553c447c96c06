package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/firestore-counters/counters/cmd/internal/cost"
)

// Loads of the members' scenario.
const (
	joins = "members who join"
	keyed = "increments with a key"
)

// members is what it costs to count each user once, beside increments that may be repeated too, by
// their keys.
func (s *session) members(ctx context.Context) (Result, error) {
	const rate = 1000
	r := Result{Settings: fmt.Sprintf("one counter, %d requests/s (open loop), each of another member or with another Idempotency-Key, %d shards, %s, one instance of each function; list prices of %s, as in cost", rate, hotShards, s.slowly(), cost.AsOf)}
	var n atomic.Int64 // of all turns: who comes again is not counted again
	of := map[string]*turns{}
	for _, load := range []struct {
		name string
		next requests
	}{
		{joins, func(_ int, r *fasthttp.Request) bool {
			r.Header.SetMethod(fasthttp.MethodPut)
			r.Header.SetHost("localhost")
			r.SetRequestURI(fmt.Sprintf("/hot/total/member-%d", n.Add(1)))
			return true
		}},
		{keyed, func(_ int, r *fasthttp.Request) bool {
			r.Header.Set("Idempotency-Key", fmt.Sprintf("key-%d", n.Add(1)))
			return post("/hot")(0, r)
		}},
	} {
		c := s.steady(rate, []contestant{ours()}, pick(s, time.Second, 6*time.Second))
		c.rounds = 1
		c.load, c.next = load.name, load.next
		c.figure.id = ", " + load.name
		c.columns = func(t *turns) []Metric {
			return []Metric{
				t.metric("commits/s", "/s", func(r turn) float64 { return r.commits }),
				t.metric("a commit", "", func(r turn) float64 { return r.rate / r.commits }),
				t.latency("p50", 0.5), t.metric(perMillion, "$", turn.price),
			}
		}
		all, err := s.race(ctx, &r, c)
		if err != nil {
			return r, err
		}
		of[load.name] = all[nameOurs]
	}
	if of[joins] != nil && of[keyed] != nil {
		r.Ratios = append(r.Ratios, ratio("members:cost", "cost per million, members ÷ increments with a key", of[joins].each(turn.price), of[keyed].each(turn.price)))
	}
	return r, nil
}
