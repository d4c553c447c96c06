package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/googleapis/gax-go/v2"
)

// Loads of the burst's scenario.
const (
	burstRate     = 1000 // increments a second
	burstCounters = 300  // where it is not a single one

	burstPatience = 30 * time.Second // after the last increment
	// before the second burst: whatever a first one has stirred up is quiet again
	burstRest = 3 * time.Second
)

// What a burst meets: how many counters, whether anything came lately, and how many instances.
var (
	burstSizes     = []int{1, burstCounters}
	burstStates    = []string{"cold", "warm"}
	burstInstances = []int{1, 3, 8}
	burstWords     = map[string]string{"cold": "after quiet", "warm": "after a burst"}
)

func burstLoad(counters int, state string, instances int) string {
	return fmt.Sprintf("%s, %s, %d inst.", plural(counters, "counter"), state, instances)
}

// burst is how long increments take to be in the total, where nothing has come for long and where
// it has just been busy.
func (s *session) burst(ctx context.Context) (Result, error) {
	window := pick(s, time.Second, 3*time.Second)
	r := Result{Settings: fmt.Sprintf("%d increments/s (open loop) for %v, --push pubsub (a window of %d posts that grows), --doc-write-rate 1, %s. Cold: the first events ever, to instances that have never been asked. Warm: a second burst on other counters, %v after the first was in. In the total: the share of increments, so long after their commit; and how long that took for 99 %% of them. Refused: posts of events that were not acknowledged, which come again after 10 s", burstRate, window, s.Measured.push().Window, s.slowly(), burstRest)}
	slower := ours()
	slower.name, slower.environ = nameSlower, append(slower.environ, "ROLLUP_INTERVAL=5s")
	field := []contestant{ours(), slower}
	if s.Against != "" {
		field = s.field()
	}
	for _, counters := range burstSizes {
		for _, instances := range pick(s, burstInstances[:1], burstInstances) {
			for _, c := range field {
				if instances > 1 && c.name == nameSlower {
					continue // which is compared on one
				}
				s.say("%s, %d counters, %d instances", c.name, counters, instances)
				rows, err := s.bursts(ctx, c, counters, instances, window)
				r.Rows = append(r.Rows, rows...)
				if err != nil {
					return r, err
				}
			}
		}
	}
	return r, ctx.Err()
}

// bursts are a cold one and a warm one.
func (s *session) bursts(ctx context.Context, c contestant, counters, instances int, window time.Duration) ([]Row, error) {
	all, _ := ids(2 * counters)
	shards := lagShards
	if counters > 1 {
		shards = 10 // some of them take one write a second, as with a hot counter's thousand
	}
	st, err := openStage(ctx, c, setup{shards: shards, faults: s.hotDocuments(), push: s.Measured.push(), instances: instances})
	if err != nil {
		return nil, err
	}
	defer st.close()
	if err := st.create(ctx, all...); err != nil {
		return nil, err
	}
	var rows []Row
	for n, state := range burstStates {
		if n > 0 {
			if err := gax.Sleep(ctx, burstRest); err != nil {
				return rows, err
			}
		}
		burst := all[n*counters : (n+1)*counters]
		st.meter.follow(burst...)
		before, reads := st.events.Stats(), st.server.Stats().Reads
		paths := make([]string, len(burst))
		for i, id := range burst {
			paths[i] = "/" + id
		}
		l := openLoop(ctx, clients(clientsFor(burstRate), st.https), window, burstRate, post(paths...))
		st.settle(ctx, burstPatience)
		if ctx.Err() != nil {
			return rows, ctx.Err()
		}
		if err := st.alive(); err != nil {
			return rows, err
		}
		after := st.events.Stats()
		metrics := append(st.meter.arrivals(burst, l.began), one("refused", "", float64(after.Retries-before.Retries)),
			one("reads/event", "", float64(st.server.Stats().Reads-reads)/float64(max(1, after.Posts-before.Posts))))
		rows = append(rows, Row{Contestant: c.name, Load: burstLoad(counters, state, instances), Errors: l.errors(), Metrics: metrics})
	}
	return rows, nil
}

// arrivals are the figures of how increments of counters have come to be in their totals, since a
// burst began.
func (m *meter) arrivals(counters []string, began time.Time) []Metric {
	end := time.Now()
	var sum, in, waiting int64
	h := newHistogram()
	var shown []mark // each the step of a total
	within := []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second, 10 * time.Second}
	shares := make([]int64, len(within))
	for _, id := range counters {
		l := m.followed(id)
		lags, open := l.lags(end)
		var before int64
		for i, s := range l.shards {
			n := s.value - before
			sum, before = sum+n, s.value
			for range n {
				record(h, lags[i])
			}
			if i >= len(lags)-open {
				waiting += n
			}
			for w, d := range within {
				if lags[i] <= d && i < len(lags)-open {
					shares[w] += n
				}
			}
		}
		before = 0
		for _, t := range l.totals {
			shown = append(shown, mark{t.at, t.value - before})
			before = t.value
		}
	}
	slices.SortFunc(shown, func(a, b mark) int { return a.at.Compare(b.at) })
	until := one("99 % after", "s", end.Sub(began).Seconds())
	until.AtLeast = true
	for _, step := range shown {
		if in += step.value; float64(in) >= 0.99*float64(sum) {
			until = one("99 % after", "s", step.at.Sub(began).Seconds())
			break
		}
	}
	late := one("lag p99", "s", quantile(h, 0.99))
	late.AtLeast = waiting > sum/100
	metrics := []Metric{until, late}
	for w, d := range within {
		metrics = append(metrics, one("in "+d.String(), "%", 100*float64(shares[w])/float64(sum)))
	}
	return metrics
}
