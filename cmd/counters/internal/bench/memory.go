package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/firestore-counters/counters/emulator"
)

// memory is what a process holds while it has 1,000 requests in flight.
func (s *session) memory(ctx context.Context) (Result, error) {
	const inFlight = 1000
	r := Result{Settings: fmt.Sprintf("%d clients, commits take 1s, ROLLUP_INTERVAL=5s; the most resident memory that is seen", inFlight)}
	s.step("start")
	all, err := open(ctx, []contestant{ours(), blind(), nothing()}, func(contestant) setup {
		return setup{shards: hotShards, environ: []string{"ROLLUP_INTERVAL=5s"}}
	})
	if err != nil {
		return r, err
	}
	defer all.close()
	if err := all.create(ctx, "hot"); err != nil {
		return r, err
	}
	request := post("/hot")
	for _, st := range all {
		st.pause()
		st.server.SetFaults(emulator.Faults{CommitLatency: time.Second})
		for _, f := range []struct {
			what string
			to   []*process
			next func(int) []byte
		}{
			{"requests", st.https, func(int) []byte { return request }},
			{"events", st.triggers, upTo((&eventSource{counter: "hot", shards: hotShards, base: time.Now().Add(time.Hour)}).next(20 * inFlight))},
		} {
			s.step(fmt.Sprintf("%s, %d %s", st.name, inFlight, f.what))
			idle, _ := f.to[0].memory()
			st.disconnect()
			clients, err := st.connections(ctx, inFlight, f.to)
			if err != nil {
				return r, err
			}
			most, ok := f.to[0].mostMemory(ctx, pick(s, 450*time.Millisecond, 3*time.Second), func(ctx context.Context) {
				closedLoop(ctx, clients, time.Hour, f.next)
			})
			if !ok {
				r.Notes = append(r.Notes, "The memory of other processes can't be read on this system.")
				return r, ctx.Err()
			}
			r.Rows = append(r.Rows, Row{Contestant: st.name, Load: fmt.Sprintf("%d %s", inFlight, f.what), Metrics: []Metric{
				metric("before", "MiB", []float64{mebibytes(idle)}), metric("most", "MiB", []float64{mebibytes(most)}),
			}})
		}
	}
	return r, ctx.Err()
}

// mostMemory is the most memory that the process has while a load runs, which is ended after d.
func (p *process) mostMemory(ctx context.Context, d time.Duration, load func(context.Context)) (most int64, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		load(ctx)
	}()
	for {
		select {
		case <-ended:
			return most, ok
		case <-time.After(20 * time.Millisecond):
			now, readable := p.memory()
			most, ok = max(most, now), ok || readable
		}
	}
}

func (st *stage) disconnect() {
	for _, c := range st.clients {
		c.close()
	}
	st.clients = nil
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
