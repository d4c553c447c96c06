package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/firestore-counters/counters/emulator"
)

// scale is how throughput and cost grow with shards, instances and counters.
func (s *session) scale(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("ours alone, --doc-write-rate 1, commits take %v (a document takes one at a time); closed loop, 1,000 clients; what varies is named, the rest is 1,000 shards, one instance, one counter", commitLatency)}
	for _, shards := range []int{1, 10, 100, 1000} {
		if err := s.point(ctx, &r, "shards", shards, shards, 1, 1); err != nil {
			return r, err
		}
	}
	for _, instances := range []int{1, 2, 4, 8} {
		if err := s.point(ctx, &r, "instances", instances, 1000, instances, 1); err != nil {
			return r, err
		}
	}
	for _, counters := range []int{1, 10, 100, 1000} {
		if err := s.point(ctx, &r, "counters", counters, 100, 1, counters); err != nil {
			return r, err
		}
	}
	return r, nil
}

// point is one measurement of scale.
func (s *session) point(ctx context.Context, r *Result, what string, n, shards, instances, counters int) error {
	s.step(fmt.Sprintf("%d %s", n, what))
	all, err := open(ctx, []contestant{ours()}, func(contestant) setup {
		return setup{shards: shards, instances: instances, faults: emulator.Faults{CommitLatency: commitLatency, DocWriteRate: 1}}
	})
	if err != nil {
		return err
	}
	defer all.close()
	st := all[0]
	ids, requests := make([]string, counters), make([][]byte, counters)
	for i := range ids {
		ids[i] = fmt.Sprintf("scale-%d", i)
		requests[i] = post("/" + ids[i])
	}
	if err := all.create(ctx, ids...); err != nil {
		return err
	}
	next := func(n int) []byte { return requests[n%counters] }
	clients, err := st.connections(ctx, 1000, st.https)
	if err != nil {
		return err
	}
	closedLoop(ctx, clients, pick(s, 300*time.Millisecond, 2*time.Second), next)
	st.meter.follow("projects/" + project + "/databases/(default)/documents/counters/" + ids[0])
	var t turns
	if err := st.turn(ctx, &t, 2*time.Second, func() *load {
		return closedLoop(ctx, clients, pick(s, time.Second, 3*time.Second), next)
	}); err != nil {
		return err
	}
	row := row("ours", fmt.Sprintf("%d %s", n, what), &t, metric("increments/s", "/s", t.rates), metric("commits/s", "/s", t.commits),
		metric("p50", "ms", t.quantiles(0.5)), metric("total writes/s", "/s", []float64{st.meter.followed().writes()}))
	row.PerMillion = bills(t.usage, t.answered)
	r.Rows = append(r.Rows, row)
	return nil
}
