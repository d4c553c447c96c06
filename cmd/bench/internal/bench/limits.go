package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"
)

// Sales of the limits' scenario: of so many seats the last ones go to a crowd.
const (
	lastSeats = 100
	before    = "before"
	last      = "the last 100"
)

// limitsInstances are how many instances sell.
var limitsInstances = []int{1, 3, 8}

func limitsLoad(when string, instances int) string {
	return fmt.Sprintf("%s, %d inst.", when, instances)
}

// limited is ours where the counters have a limit.
func limited(limit int64) contestant {
	c := ours()
	c.name, c.limit, c.fields = nameLimited, limit, "total=limit()"
	c.environ = append(c.environ, "FIELDS="+c.fields)
	return c
}

// limits is what a limit costs, where there is room, and where the last of it goes.
func (s *session) limits(ctx context.Context) (Result, error) {
	seats, crowd := pick(s, 1000, 10_000), pick(s, 200, 1000)
	r := Result{Settings: fmt.Sprintf("one counter, %d shards, %s. With room: one instance; closed loop, up to 2,000 clients; the best of the ramp, then rounds. Then the same clients each hold 2 and settle that for 1, in two requests. Then %d seats: %d clients take all but %d, and each of them asks once for one of these, and again where it is told to (503). A take early is one that was refused before the last seat was sold. Reads and writes are those of takes, markers with them, and of who is refused, and not the roll-up's, which has them whether there is a limit or not", hotShards, s.slowly(), seats, crowd, lastSeats)}
	const room = 1 << 40
	c := s.fastest([]contestant{limited(room), ours()}, hotShards, []string{"hot"}, post("/hot"))
	c.setup.only = "http"
	c.columns = func(t *turns) []Metric {
		return append(throughput(t),
			t.metric("writes/take", "", func(r turn) float64 { return r.usage.Writes / float64(r.answered) }),
			t.metric("reads/take", "", func(r turn) float64 { return r.usage.Reads / float64(r.answered) }))
	}
	c.pairs = [][2]string{{nameLimited, nameOurs}}
	if _, err := s.race(ctx, &r, c); err != nil {
		return r, err
	}
	c = s.fastest(s.field(limited(room)), hotShards, []string{"hot"}, settled("/hot/total/holds/"))
	c.setup.only, c.load, c.pairs = "http", heldLoad, nil
	c.columns = func(t *turns) []Metric {
		return []Metric{
			t.metric("holds settled/s", "/s", func(r turn) float64 { return r.rate / 2 }),
			t.latency("p50", 0.5),
			t.metric("writes/hold", "", func(r turn) float64 { return 2 * r.usage.Writes / float64(r.answered) }),
			t.metric("reads/hold", "", func(r turn) float64 { return 2 * r.usage.Reads / float64(r.answered) }),
		}
	}
	if _, err := s.race(ctx, &r, c); err != nil {
		return r, err
	}
	for _, instances := range limitsInstances {
		for _, c := range s.field(limited(int64(seats))) {
			s.say("%s, %d instances", c.name, instances)
			rows, err := s.sales(ctx, c, instances, seats, crowd)
			r.Rows = append(r.Rows, rows...)
			if err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// heldLoad names the load of clients that hold and settle.
const heldLoad = "hold, then settle"

// settled holds 2 below a path, then settles that for 1, and so on: each client in turn, whose last request says which.
func settled(path string) requests {
	return func(n int, r *fasthttp.Request) bool {
		r.Header.SetHost("localhost")
		r.Header.SetContentType("application/json")
		if r.Header.IsPut() {
			r.Header.SetMethod(fasthttp.MethodPost)
			r.SetRequestURI(string(r.URI().Path()) + "/settle")
			r.SetBodyString(`{"by":1}`)
			return true
		}
		r.Header.SetMethod(fasthttp.MethodPut)
		r.SetRequestURI(fmt.Sprint(path, n, "-", rand.Uint64()))
		r.SetBodyString(`{"by":2,"for":"2m"}`)
		return true
	}
}

// sales sells the seats of some counters, one after the other.
func (s *session) sales(ctx context.Context, c contestant, instances, seats, crowd int) ([]Row, error) {
	st, err := openStage(ctx, c, setup{shards: hotShards, faults: s.commits(), instances: instances, only: "http"})
	if err != nil {
		return nil, err
	}
	defer st.close()
	counters, paths := ids(pick(s, 1, 3))
	if err := st.create(ctx, counters...); err != nil {
		return nil, err
	}
	var first, rest sales
	for n, id := range counters {
		if err := first.sell(ctx, st, id, seats-lastSeats, crowd, post(paths[n]).upTo); err != nil {
			return nil, err
		}
		asking := func(int) requests { return post(paths[n]).upTo(crowd) }
		if err := rest.sell(ctx, st, id, lastSeats, crowd, asking); err != nil {
			return nil, err
		}
	}
	return []Row{
		{Contestant: c.name, Load: limitsLoad(before, instances), Metrics: first.metrics()[:4], Errors: first.errors},
		{Contestant: c.name, Load: limitsLoad(last, instances), Metrics: rest.metrics(), Errors: rest.errors},
	}, nil
}

// sales are what several sales came to.
type sales struct {
	rate, writes, reads, conflicts, sold, early, soldOut, answered []float64
	errors                                                         map[string]int
}

func (s *sales) metrics() []Metric {
	return []Metric{
		metric("takes/s", "/s", s.rate), metric("writes/take", "", s.writes), metric("reads/take", "", s.reads), metric("conflicts", "", s.conflicts),
		metric("sold", "", s.sold), metric("early", "", s.early), metric("sold out", "ms", s.soldOut), metric("all answered", "ms", s.answered),
	}
}

// sell has a crowd take so many seats of a counter. Those who are told to come again do so.
func (s *sales) sell(ctx context.Context, st *stage, id string, seats, crowd int, asking func(left int) requests) error {
	st.meter.follow(id)
	st.begin()
	began := time.Now()
	sold := 0
	var loads []*load
	for again := true; again && sold < seats; {
		l := closedLoop(ctx, clients(crowd, st.https), time.Minute, asking(seats-sold))
		if err := st.alive(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		loads, sold = append(loads, l), sold+l.answered()
		errors := l.errors()
		full := fmt.Sprint(http.StatusConflict)
		again = len(errors) > 1 || errors[full] == 0
		for status, n := range errors {
			if s.errors == nil {
				s.errors = map[string]int{}
			}
			s.errors[status] += n
		}
	}
	if err := st.server.WaitForChanges(ctx); err != nil {
		return err
	}
	end := time.Now()
	stats := st.server.Stats()
	soldOut := end
	for _, m := range st.meter.followed(id).shards {
		if m.value >= int64(seats) {
			soldOut = m.at
			break
		}
	}
	early, elapsed := 0, time.Duration(0)
	for _, l := range loads {
		elapsed += l.elapsed
		for _, a := range l.samples {
			if a.status == http.StatusConflict && l.began.Add(a.ended).Before(soldOut) {
				early++
			}
		}
	}
	add := func(to *[]float64, value float64) { *to = append(*to, value) }
	add(&s.rate, float64(sold)/elapsed.Seconds())
	add(&s.writes, float64(stats.Writes)/float64(sold))
	add(&s.reads, float64(stats.Reads)/float64(sold))
	add(&s.conflicts, float64(stats.CommitRequests-stats.Commits))
	add(&s.sold, float64(sold))
	add(&s.early, float64(early))
	add(&s.soldOut, milliseconds(soldOut.Sub(began).Seconds()))
	add(&s.answered, milliseconds(elapsed.Seconds()))
	return nil
}
