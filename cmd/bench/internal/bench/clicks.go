package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/firestore-counters/counters/emulator/eventarc"
)

// Loads of the clicks' scenario.
const (
	clicks       = 5 // on each counter
	clicksWithin = 2 * time.Second

	clicksPatience = 10 * time.Second // after the last click
)

// clicks is how soon a handful of clicks on a quiet counter show.
func (s *session) clicks(ctx context.Context) (Result, error) {
	counters := pick(s, 10, 20)
	push := eventarc.Push{Transit: s.Measured.push().Transit}
	near := (s.Measured.commit() + push.Transit + queryTime).Seconds()
	r := Result{Settings: fmt.Sprintf("%d clicks within %v on each of %d quiet counters, 10 shards each, --doc-write-rate 1, %s, events arrive after %v (half to one and a half times as long), one instance. Shown after: from when a click was due until the total holds it", clicks, clicksWithin, counters, s.slowly(), push.Transit)}
	single := ours()
	single.name, single.environ = nameSingle, append(single.environ, "ROLLUP_BURST=1")
	for _, c := range s.field(ours(), single, blind()) {
		s.say("%s", c.name)
		h, open, err := s.shownAfter(ctx, c, setup{shards: 10, faults: s.hotDocuments(), push: push}, counters, pick(s, 1, 4))
		if err != nil || ctx.Err() != nil {
			return r, err
		}
		p50, p99 := one("shown after, p50", "s", quantile(h, 0.5)), one("shown after, p99", "s", quantile(h, 0.99))
		p99.AtLeast = open > 0
		r.Rows = append(r.Rows, Row{Contestant: c.name, Metrics: []Metric{p99, p50, one("not shown", "", float64(open))}})
		if c.name == nameOurs {
			r.Ratios = append(r.Ratios, ratio("clicks", "p99 ÷ a commit, a delivery and a query, ours", []float64{p99.Median}, []float64{near}))
		}
	}
	return r, ctx.Err()
}

// shownAfter has each of so many counters clicked, in each round others. The nth click of a counter
// is shown once its total is n. Open is how many never were.
func (s *session) shownAfter(ctx context.Context, c contestant, with setup, counters, rounds int) (*hdrhistogram.Histogram, int, error) {
	all, paths := ids(counters * (rounds + 1))
	st, err := openStage(ctx, c, with)
	if err != nil {
		return nil, 0, err
	}
	defer st.close()
	if err := st.create(ctx, all...); err != nil {
		return nil, 0, err
	}
	h, open := newHistogram(), 0
	for round := range rounds + 1 {
		these := all[round*counters : (round+1)*counters]
		st.meter.follow(these...)
		const perCounter = float64(clicks) / float64(clicksWithin/time.Second)
		rate := perCounter * float64(counters)
		l := openLoop(ctx, clients(clientsFor(rate), st.https), clicksWithin, rate, post(paths[round*counters:(round+1)*counters]...))
		st.settle(ctx, clicksPatience)
		if ctx.Err() != nil {
			break
		}
		if err := st.alive(); err != nil {
			return nil, 0, err
		}
		if round == 0 { // the first makes connections
			continue
		}
		for i, id := range these {
			totals := st.meter.followed(id).totals
			for n := range clicks {
				due := l.began.Add(time.Duration(float64(n*counters+i) / rate * float64(time.Second)))
				for len(totals) > 0 && totals[0].value <= int64(n) {
					totals = totals[1:]
				}
				if len(totals) == 0 {
					open++
					continue
				}
				record(h, totals[0].at.Sub(due))
			}
		}
	}
	return h, open, nil
}
