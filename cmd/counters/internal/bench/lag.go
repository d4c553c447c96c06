package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/firestore-counters/counters/emulator"
)

// Loads of the lag's scenario.
const (
	lagRate   = 1000 // increments a second
	lagShards = 1000 // each of them takes one write a second too, and blind needs all of those

	lagPatience = 2 * time.Second // after the last increment
)

// lag is how far the total is behind the shards, on documents that take one write a second each.
func (s *session) lag(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("one counter, %d increments/s (open loop), --doc-write-rate 1 (each document takes one commit a second, and a burst of five), %d shards, commits take %v (a document takes one at a time), one instance. Increments are told apart by nothing: the first to be committed is taken to be the first in the total", lagRate, lagShards, commitLatency)}
	s.step("start")
	all, err := open(ctx, []contestant{ours(), blind()}, func(contestant) setup {
		return setup{shards: lagShards, faults: emulator.Faults{CommitLatency: commitLatency, DocWriteRate: 1}}
	})
	if err != nil {
		return r, err
	}
	defer all.close()
	if err := all.create(ctx, "warm", "hot"); err != nil {
		return r, err
	}
	window := pick(s, 2500*time.Millisecond, 30*time.Second)
	warm, hot := post("/warm"), post("/hot")
	for _, st := range all {
		s.step(fmt.Sprintf("%s, for %v", st.name, window))
		clients, err := st.connections(ctx, clientsFor(lagRate), st.https)
		if err != nil {
			return r, err
		}
		if err := st.resume(); err != nil {
			return r, err
		}
		openLoop(ctx, clients, pick(s, 300*time.Millisecond, 2*time.Second), lagRate, func(int) []byte { return warm })
		st.meter.follow("projects/" + project + "/databases/(default)/documents/counters/hot")
		st.begin()
		l := openLoop(ctx, clients, window, lagRate, func(int) []byte { return hot })
		st.settle(ctx, lagPatience) // what takes longer than that has no end here
		end := time.Now()
		st.pause()
		if ctx.Err() != nil && len(l.samples) == 0 {
			return r, ctx.Err()
		}
		if err := st.alive(); err != nil {
			return r, err
		}
		r.addLag(st, l, end)
	}
	return r, ctx.Err()
}

func (r *Result) addLag(st *stage, l *load, end time.Time) {
	m := st.meter.followed()
	lags, open := m.lags(end)
	var t turns
	t.take(l, 0, st.usage(l))
	p99 := metric("lag p99", "s", []float64{quantile(lags, 0.99)})
	p99.AtLeast = open > len(lags)/100
	p50 := metric("lag p50", "s", []float64{quantile(lags, 0.5)})
	p50.AtLeast = open > len(lags)/2
	row := row(st.name, perSecond(lagRate), &t, p50, p99,
		metric("not in total", "", []float64{float64(open)}),
		metric("total writes/s", "/s", []float64{m.writes()}),
		metric("p99", "ms", t.quantiles(0.99)))
	row.PerMillion = bills(t.usage, t.answered)
	r.Rows = append(r.Rows, row)

	line := Line{Name: st.name}
	for at := time.Duration(0); at <= l.elapsed; at += 100 * time.Millisecond {
		line.Points = append(line.Points, [2]float64{at.Seconds(), m.ageAt(l.began.Add(at))})
	}
	r.Lags = append(r.Lags, line)
}
