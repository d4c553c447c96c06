package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/firestore-counters/counters/emulator"
)

// inFlight are the requests that the memory's scenario has in flight.
const inFlight = 10_000

// memoryLoad names the load that is requests, and not events.
const memoryLoad = "10,000 requests"

// memory is what a process holds while it has many requests in flight.
func (s *session) memory(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("%d clients with a connection each, commits take 1s, ROLLUP_INTERVAL=5s; the most resident memory that is seen", inFlight)}
	s.say("start")
	all, err := open(ctx, s.field(pick(s, []contestant{ours()}, []contestant{ours(), blind(), nothing()})...), setup{
		shards: hotShards, environ: []string{"ROLLUP_INTERVAL=5s"}, faults: emulator.Faults{CommitLatency: time.Second},
	}, "hot")
	if err != nil {
		return r, err
	}
	defer all.close()
	for _, st := range all {
		st.pause()
		events := newEventSource("hot", hotShards)
		type kind struct {
			what string
			of   []*process
			next func() requests
		}
		kinds := []kind{
			{"requests", st.https, func() requests { return post("/hot") }},
			{"events", st.triggers, func() requests { return events.next(4 * inFlight) }},
		}
		for _, f := range pick(s, kinds[:1], kinds) {
			next := f.next()
			what := fmt.Sprintf("%s %s", short(inFlight), f.what)
			s.say("%s, %s", st.name, what)
			p := f.of[0]
			idle, err := p.memory()
			if err != nil {
				return r, fmt.Errorf("read the memory of a process: %w", err)
			}
			l, most := p.mostMemory(ctx, pick(s, 1200*time.Millisecond, 4*time.Second), func(ctx context.Context) *load {
				return closedLoop(ctx, clients(inFlight, f.of), time.Hour, next)
			})
			if err := p.alive(); err != nil {
				return r, err
			}
			r.Rows = append(r.Rows, Row{Contestant: st.name, Load: what, Metrics: []Metric{
				one("most", "MiB", mebibytes(most)), one("before", "MiB", mebibytes(idle)), one("in flight at the end", "", math.Min(inFlight, float64(l.errors()["no answer"]))),
			}})
		}
	}
	return r, ctx.Err()
}

// mostMemory is the most memory that the process has while a load runs. That is ended a while after
// all are connected.
func (p *process) mostMemory(ctx context.Context, while time.Duration, run func(context.Context) *load) (l *load, most int64) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	ended := make(chan *load)
	go func() { ended <- run(ctx) }()
	for all := false; ; {
		select {
		case l = <-ended:
			return l, most
		case <-time.After(20 * time.Millisecond):
			if now, err := p.memory(); err == nil {
				most = max(most, now)
			}
			if !all && p.connected() >= inFlight {
				all = true
				time.AfterFunc(while, cancel)
			}
		}
	}
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
