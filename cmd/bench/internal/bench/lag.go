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

// deadEntries of a counter's index are what an hour of 92 writes a second leaves, about what 1,000 increments a second
// come to.
const deadEntries = 331_000

// deadTimes are how long a query scans over 10,000 of them.
var deadTimes = []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond}

func deadLoad(each time.Duration) string {
	return fmt.Sprintf("%s/s, dead entries %v", short(lagRate), each)
}

// lagLoad names the load; that of one instance is the rate alone.
func lagLoad(instances int) string {
	if instances == 1 {
		return short(lagRate) + "/s"
	}
	return fmt.Sprintf("%s/s, %d inst.", short(lagRate), instances)
}

// lag is how far the total is behind the shards, on documents that take one write a second each.
func (s *session) lag(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("one counter, %d increments/s (open loop), --doc-write-rate 1 (each document takes one commit a second, and a burst of five), %d shards, %s, one instance; of several, %d shards. Dead entries: on %d shards, after %d writes within the hour, of which a query scans over 10,000 in that time. Increments are told apart by nothing: the first to be committed is taken to be the first in the total", lagRate, lagShards, s.slowly(), sharedShards, hotShards, deadEntries)}
	s.say("start")
	if err := s.lags(ctx, &r, s.field(ours(), blind()), setup{shards: lagShards, faults: s.hotDocuments(), instances: 1}); err != nil {
		return r, err
	}
	for _, instances := range pick(s, nil, lagInstances) {
		if err := s.lags(ctx, &r, s.field(ours()), setup{shards: sharedShards, faults: s.hotDocuments(), instances: instances}); err != nil {
			return r, err
		}
	}
	for _, each := range pick(s, nil, deadTimes) {
		f := s.hotDocuments()
		f.IndexTombstones = max(each, 1) // so that they are counted
		if err := s.lags(ctx, &r, s.field(ours()), setup{shards: hotShards, faults: f, instances: 1, dead: deadEntries}); err != nil {
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
		base, err := st.age(ctx, "hot")
		if err != nil {
			return err
		}
		st.meter.followFrom(base, "hot")
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
		var plain time.Duration
		if st.dead > 0 {
			asked := time.Now()
			if hot, err := st.counters.Counter("hot"); err != nil {
				return err
			} else if _, err := hot.Sum(ctx); err != nil {
				return err
			}
			plain = time.Since(asked)
		}
		r.addLag(st, l, end, plain)
	}
	return ctx.Err()
}

// addLag adds a row. plain is how long a plain sum() of the shards took, if it was asked for.
func (r *Result) addLag(st *stage, l *load, end time.Time, plain time.Duration) {
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
	load := lagLoad(st.instances)
	metrics := []Metric{p99, p50, one("not in total", "", float64(open)), one("total writes/s", "/s", m.writes()), t.latency("p99", 0.99)}
	if st.dead > 0 {
		load = deadLoad(st.faults.IndexTombstones.Truncate(time.Millisecond))
		metrics = append(metrics, one("a plain sum()", "s", plain.Seconds()))
	}
	r.Rows = append(r.Rows, t.row(st.name, load, metrics...))
	if st.instances > 1 || st.dead > 0 {
		return
	}
	line := Line{Name: st.name}
	for at := time.Duration(0); at <= l.elapsed; at += 100 * time.Millisecond {
		line.Points = append(line.Points, [2]float64{at.Seconds(), m.ageAt(l.began.Add(at))})
	}
	r.Lags = append(r.Lags, line)
}
