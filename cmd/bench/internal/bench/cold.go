package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/googleapis/gax-go/v2"
	"github.com/valyala/fasthttp"
)

// cold is the time from the start of a process to its first answer.
func (s *session) cold(ctx context.Context) (Result, error) {
	r := Result{Settings: "one process at a time, from its start to the end of its first answer, the clients' connection to Firestore included. All functions are in this one program: a no-op function deployed alone would be a smaller one"}
	all, err := open(ctx, []contestant{{name: "cold"}}, setup{shards: hotShards, only: "none"}, "hot")
	if err != nil {
		return r, err
	}
	defer all.close()
	st, events := all[0], newEventSource("hot", hotShards)
	increment, event := func() requests { return post("/hot") }, func() requests { return events.next(1) }
	type start struct {
		name, program, function string
		request                 func() requests
		than                    string // name of what it is compared with
	}
	functions := []start{
		{nameNoop, "", noopFunction, increment, ""},
		{"no-op, event", "", noopEventFunction, event, ""},
		{"Increment", "", "Increment", increment, nameNoop},
		{"Rollup", "", "Rollup", event, "no-op, event"},
		{"Reconcile", "", "Reconcile", func() requests { return post("/") }, nameNoop},
		{"blind increment", "", blindIncrementFunction, increment, nameNoop},
	}
	if s.Against != "" {
		var pairs []start
		for _, f := range functions[2:5] {
			other := f
			f.than, other.than = "other "+f.name, ""
			other.name, other.program = f.than, s.Against
			pairs = append(pairs, f, other)
		}
		functions = pairs
	}
	rounds := pick(s, 4, 12)
	times := map[string][]float64{}
	for round := range rounds + 1 { // the first one reads the program from disk
		for _, f := range functions {
			s.say("round %d of %d, %s", round, rounds, f.name)
			took, err := st.coldStart(ctx, f.program, f.function, f.request())
			if err != nil {
				return r, err
			}
			if round > 0 {
				times[f.name] = append(times[f.name], milliseconds(took.Seconds()))
			}
		}
	}
	for _, f := range functions {
		r.Rows = append(r.Rows, Row{Contestant: f.name, Metrics: []Metric{metric("first answer", "ms", times[f.name])}})
		if f.than != "" {
			r.Ratios = append(r.Ratios, ratio("cold:"+f.name, fmt.Sprintf("cold start, %s ÷ %s", f.name, f.than), times[f.name], times[f.than]))
		}
	}
	return r, nil
}

// coldPatience is how long a first answer may take: a busy machine takes its time, and the figure
// says so.
const coldPatience = time.Minute

// coldStart starts a process and takes the time until its first answer.
func (st *stage) coldStart(ctx context.Context, program, function string, first requests) (time.Duration, error) {
	p, err := startProcess(program, function, st.environment(), false)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	defer context.AfterFunc(ctx, p.interrupt)()
	var request fasthttp.Request
	var response fasthttp.Response
	first(0, &request)
	for {
		err := p.Do(&request, &response)
		took := time.Since(p.Started)
		switch {
		case err == nil && response.StatusCode()/100 == 2:
			return took, p.Ready(ctx) // it was this process that answered
		case err == nil:
			return 0, fmt.Errorf("first answer of %s: status %d", function, response.StatusCode())
		case ctx.Err() != nil:
			return 0, ctx.Err()
		}
		if err := p.alive(); err != nil {
			return 0, err
		}
		if took > coldPatience {
			return 0, fmt.Errorf("first answer of %s: %w", function, err)
		}
		_ = gax.Sleep(ctx, time.Millisecond) // until it listens
	}
}
