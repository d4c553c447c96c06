package bench

import (
	"context"
	"fmt"
	"time"
)

// Loads of the lag's scenario.
const (
	lagRate   = 1000 // increments a second
	lagShards = 1000 // each of them takes one write a second too, and blind needs all of those

	// shards of a counter that instances share: twice as many as there are commits a second, as counters
	// cost advises
	sharedShards = 200

	lagPatience = 2 * time.Second // after the last increment
)

// lagInstances is how many instances share a counter.
var lagInstances = []int{3, 8}

// lagLoad names the load; that of one instance is the rate alone.
func lagLoad(instances int) string {
	if instances == 1 {
		return short(lagRate) + "/s"
	}
	return fmt.Sprintf("%s/s, %d inst.", short(lagRate), instances)
}

// lag is how far the total is behind the shards, on documents that take one write a second each.
func (s *session) lag(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("one counter, %d increments/s (open loop), --doc-write-rate 1 (each document takes one commit a second, and a burst of five), %d shards, %s, one instance; of several, %d shards. Increments are told apart by nothing: the first to be committed is taken to be the first in the total", lagRate, lagShards, s.slowly(), sharedShards)}
	s.say("start")
	if err := s.lags(ctx, &r, s.field(ours(), blind()), setup{shards: lagShards, faults: s.hotDocuments(), instances: 1}); err != nil {
		return r, err
	}
	for _, instances := range pick(s, nil, lagInstances) {
		if err := s.lags(ctx, &r, s.field(ours()), setup{shards: sharedShards, faults: s.hotDocuments(), instances: instances}); err != nil {
			return r, err
		}
	}
	return r, ctx.Err()
}

// lags are those of contestants, one after the other.
func (s *session) lags(ctx context.Context, r *Result, field []contestant, with setup) error {
	all, err := open(ctx, field, with, "warm", "hot")
	if err != nil {
		return err
	}
	defer all.close()
	window := pick(s, 2*time.Second, 30*time.Second)
	for _, st := range all {
		s.say("%s, %s, for %v", st.name, plural(with.instances, "instance"), window)
		clients := clients(clientsFor(lagRate), st.https)
		if err := st.resume(); err != nil {
			return err
		}
		openLoop(ctx, clients, pick(s, 300*time.Millisecond, 2*time.Second), lagRate, post("/warm"))
		st.meter.follow("hot")
		st.begin()
		l := openLoop(ctx, clients, window, lagRate, post("/hot"))
		st.settle(ctx, lagPatience) // what takes longer than that has no end here
		end := time.Now()
		st.pause()
		if ctx.Err() != nil && len(l.samples) == 0 {
			return ctx.Err()
		}
		if err := st.alive(); err != nil {
			return err
		}
		if err := l.failed(); err != nil {
			return fmt.Errorf("%s: %w", st.name, err)
		}
		r.addLag(st, l, end)
	}
	return ctx.Err()
}

func (r *Result) addLag(st *stage, l *load, end time.Time) {
	m := st.meter.followed("hot")
	lags, open := m.lags(end)
	h := newHistogram()
	for _, lag := range lags {
		record(h, lag)
	}
	p50, p99 := one("lag p50", "s", quantile(h, 0.5)), one("lag p99", "s", quantile(h, 0.99))
	p50.AtLeast, p99.AtLeast = open > len(lags)/2, open > len(lags)/100
	var t turns
	t.add(l, turn{usage: st.usage(l)})
	r.Rows = append(r.Rows, t.row(st.name, lagLoad(st.instances), p99, p50,
		one("not in total", "", float64(open)), one("total writes/s", "/s", m.writes()), t.latency("p99", 0.99)))
	if st.instances > 1 {
		return
	}
	line := Line{Name: st.name}
	for at := time.Duration(0); at <= l.elapsed; at += 100 * time.Millisecond {
		line.Points = append(line.Points, [2]float64{at.Seconds(), m.ageAt(l.began.Add(at))})
	}
	r.Lags = append(r.Lags, line)
}
