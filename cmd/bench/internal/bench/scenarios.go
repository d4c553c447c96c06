package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/emulator"
)

// hotShards are the shards of a counter, unless a scenario says otherwise.
const hotShards = 100

// queryTime is how long a query takes, beside commits of 10 ms. Nobody has published what it takes in production.
const queryTime = 20 * time.Millisecond

// commits are an emulator's faults that make each commit, and each query, take about as long as it does in
// production.
func (s *session) commits() emulator.Faults {
	return emulator.Faults{CommitLatency: s.Measured.commit(), QueryLatency: queryTime}
}

// hotDocuments are commits where a document takes one write a second, sustained.
func (s *session) hotDocuments() emulator.Faults {
	f := s.commits()
	f.DocWriteRate = cost.HotRate
	return f
}

func (s *session) slowly() string {
	return fmt.Sprintf("commits take %v (a document takes one at a time), queries %v", s.Measured.commit(), queryTime)
}

// ids are the ids of counters, and their paths.
func ids(n int) (ids, paths []string) {
	for i := range n {
		ids, paths = append(ids, fmt.Sprintf("c-%d", i)), append(paths, fmt.Sprintf("/c-%d", i))
	}
	return ids, paths
}

// throughput are the columns of how many increments there are a second.
func throughput(t *turns) []Metric {
	return []Metric{
		t.metric("increments/s", "/s", func(r turn) float64 { return r.rate }),
		t.metric("commits/s", "/s", func(r turn) float64 { return r.commits }),
		t.latency("p50", 0.5),
		cpuEach(t),
	}
}

// left is how many events the trigger has not taken.
func left(t *turns) Metric {
	return t.metric("events left", "", func(r turn) float64 { return float64(r.left) })
}

// cpuEach is the CPU time of the function for an answer: of Increment or what stands for it.
func cpuEach(t *turns) Metric {
	return t.metric("CPU", "µs", func(r turn) float64 { return r.cpu.Function / float64(r.answered) * 1e6 })
}

// fastest is a race for the most increments a second, over counters that next chooses from. With
// 1,000 clients a fast machine waits for commits; with more than 2,000 the connections of six
// contestants come near what a process may have open.
func (s *session) fastest(contestants []contestant, shards int, counters []string, next requests) race {
	return race{
		contestants: contestants, setup: setup{shards: shards, faults: s.commits()}, counters: counters, next: next,
		clients: pick(s, []int{1000}, []int{250, 1000, 2000}), warm: pick(s, 200*time.Millisecond, 700*time.Millisecond),
		rounds: pick(s, 3, 4), window: pick(s, 250*time.Millisecond, 2*time.Second), settle: pick(s, 500*time.Millisecond, 2500*time.Millisecond),
		columns: throughput, figure: rate, pairs: [][2]string{{nameOurs, nameBlind}, {nameOurs, nameNoop}, {nameOurs, nameWaiting}},
	}
}

// The load in which documents take one write a second, and the figure of it.
const (
	hotLoad   = "hot documents"
	hotFigure = ", " + hotLoad
)

// hot is increments a second on one counter.
func (s *session) hot(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("one counter, %d shards, %s, one instance; closed loop, up to 2,000 clients; the best of the ramp, then rounds. Events left: what the trigger has not taken after a pause that is longer than the turn (ours may hold events for a second). On hot documents, each document takes one write a second (--doc-write-rate 1)", hotShards, s.slowly())}
	contestants := pick(s, []contestant{ours(), blind(), nothing()}, []contestant{ours(), unmarked(), blind(), waits(), nothing()})
	c := s.fastest(contestants, hotShards, []string{"hot"}, post("/hot"))
	c.columns = func(t *turns) []Metric { return append(throughput(t), left(t)) }
	_, err := s.race(ctx, &r, c)
	if err == nil && !s.Quick { // it takes a while until the bursts that documents take are used up
		c := s.fastest([]contestant{ours(), blind()}, hotShards, []string{"hot"}, post("/hot"))
		c.setup.faults, c.load = s.hotDocuments(), hotLoad
		c.clients, c.warm, c.consecutive, c.rounds, c.window, c.settle = []int{1000}, 6*time.Second, true, 2, 4*time.Second, time.Second
		c.figure.id, c.figure.name = hotFigure, "increments/s where a document takes one write a second"
		_, err = s.race(ctx, &r, c)
	}
	return r, err
}

// Many counters, as zipf and even have them.
const (
	manyCounters  = 1000
	manyShards    = 10
	zipfsExponent = 1.1
)

// zipf is the same over many counters, some of which are much more popular than others.
func (s *session) zipf(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("%d counters, chosen by Zipf's law with exponent %v, %d shards each, %s, one instance; closed loop, up to 2,000 clients", manyCounters, zipfsExponent, manyShards, s.slowly())}
	counters, paths := ids(manyCounters)
	dice := rand.NewZipf(rand.New(rand.NewPCG(1, 0)), zipfsExponent, 1, manyCounters-1)
	choices := make([]string, 1<<16) // the same for all contestants
	for i := range choices {
		choices[i] = paths[dice.Uint64()]
	}
	c := s.fastest([]contestant{ours(), blind(), nothing()}, manyShards, counters, post(choices...))
	c.rounds, c.warm = pick(s, 1, c.rounds), pick(s, time.Second, c.warm)
	_, err := s.race(ctx, &r, c)
	return r, err
}

// even is increments over many counters, all of which get as many.
func (s *session) even(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("%d counters in turn, %d shards each, %s, one instance; closed loop, up to 2,000 clients. On paper blind is two writes and two requests an increment", manyCounters, manyShards, s.slowly())}
	counters, paths := ids(manyCounters)
	c := s.fastest(pick(s, []contestant{ours()}, []contestant{ours(), blind(), nothing()}), manyShards, counters, post(paths...))
	c.rounds, c.warm = pick(s, 1, 3), pick(s, 2*time.Second, 1500*time.Millisecond) // until every counter is known
	// what is rolled up a second later is part of the bill
	c.settle = pick(s, 1500*time.Millisecond, 3*time.Second)
	c.columns = func(t *turns) []Metric { return append(throughput(t), t.metric(perMillion, "$", turn.price)) }
	of, err := s.race(ctx, &r, c)
	if of[nameOurs] != nil {
		r.Ratios = append(r.Ratios, ratio("even:cost", "cost per million, ours ÷ blind on paper", of[nameOurs].each(turn.price), of[nameOurs].each(func(turn) float64 { return evenOnPaper() })))
	}
	return r, err
}

// evenOnPaper is what a blind trigger would cost.
func evenOnPaper() float64 {
	return onPaper(cost.Blind, cost.Load{Rate: 1000, Counters: manyCounters, Shards: manyShards})
}

// onPaper is what a million increments cost by calculation, in US dollars, each function being billed
// in the way that costs less, and the database in us-central1.
func onPaper(name cost.Name, l cost.Load) float64 {
	l.PerShard, l.Commit, l.Interval, l.Instances = cost.HotRate, cost.CommitTime, time.Second, 1
	for _, d := range l.Designs() {
		if d.Name == name {
			return priced("us-central1").Bill(l.PerMillion(d), cost.Cheaper).Total()
		}
	}
	return 0
}

// rollups is events a second that a trigger takes, of one counter.
func (s *session) rollups(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("one counter, %d shards, ROLLUP_INTERVAL at its default of 1s unless named, %s, one instance; closed loop", hotShards, s.slowly())}
	faster := ours()
	faster.name, faster.environ = nameFaster, append(faster.environ, "ROLLUP_INTERVAL=50ms")
	_, err := s.race(ctx, &r, race{
		contestants: pick(s, []contestant{ours(), blind(), nothing()}, []contestant{ours(), faster, blind(), nothing()}),
		setup:       setup{shards: hotShards, faults: s.commits(), only: "trigger"}, counters: []string{"hot"},
		clients: pick(s, []int{1000}, []int{100, 1000, 2000}), warm: pick(s, 600*time.Millisecond, 1200*time.Millisecond),
		// longer than the interval
		rounds: pick(s, 1, 4), window: pick(s, 1200*time.Millisecond, 2500*time.Millisecond),
		columns: func(t *turns) []Metric {
			return []Metric{
				t.metric("events/s", "/s", func(r turn) float64 { return r.rate }), t.metric("commits/s", "/s", func(r turn) float64 { return r.commits }), t.latency("p50", 0.5),
				t.metric("CPU", "µs", func(r turn) float64 { return r.cpu.Trigger / float64(r.answered) * 1e6 }),
			}
		},
		figure: figure{"", "events/s", rate.of}, pairs: [][2]string{{nameOurs, nameNoop}, {nameOurs, nameBlind}, {faster.name, nameNoop}},
	})
	return r, err
}

// lone is the latency of an increment that nothing else disturbs.
func (s *session) lone(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("one counter, %d shards, commits take as long as they take here (no added latency, so that what the function adds shows), one instance; one client, one request after the other; no trigger, whose work is not the increment's", hotShards)}
	_, err := s.race(ctx, &r, race{
		contestants: []contestant{ours(), unmarked(), blind(), nothing()},
		setup:       setup{shards: hotShards, only: "http"}, counters: []string{"hot"}, next: post("/hot"),
		clients: []int{1}, warm: pick(s, 80*time.Millisecond, 250*time.Millisecond),
		rounds: pick(s, 7, 25), window: pick(s, 80*time.Millisecond, 250*time.Millisecond),
		columns: func(t *turns) []Metric {
			return []Metric{t.latency("p50", 0.5), t.latency("p90", 0.9), t.latency("p99", 0.99), cpuEach(t)}
		},
		figure: figure{"", "p50 of a lone increment", func(t turn) float64 { return quantile(t.latencies, 0.5) }},
		pairs:  [][2]string{{nameOurs, nameBlind}, {nameUnmarked, nameBlind}},
	})
	return r, err
}

// latency is what exactness and sharing commits add to the time that an increment takes.
func (s *session) latency(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("one counter, %d shards, one instance, no trigger; increments come at random times (open loop: timed from when one was due), so that some find a commit in flight and share the next; commits take 10ms or 40ms, a document takes one at a time. Without sharing (MAX_BATCH=1) each increment has a commit and a marker of its own", lagShards)}
	for _, commit := range pick(s, latencyCommits[:1], latencyCommits) {
		for _, perSecond := range pick(s, []int{100, 1000}, latencyRates) {
			c := s.steady(float64(perSecond), []contestant{ours(), unmarked(), unshared(), blind()}, pick(s, time.Second, latencyWindow(perSecond)))
			c.setup = setup{shards: lagShards, only: "http", faults: emulator.Faults{CommitLatency: commit}}
			c.load, c.random, c.rounds, c.settle, c.warm = latencyLoad(perSecond, commit), true, 1, 0, time.Second/2
			c.columns = func(t *turns) []Metric {
				return []Metric{t.latency("p50", 0.5), t.latency("p99", 0.99), t.metric("commits/s", "/s", func(r turn) float64 { return r.commits })}
			}
			c.figure = figure{", " + c.load, "p50 at " + c.load, func(t turn) float64 { return quantile(t.latencies, 0.5) }}
			c.pairs = [][2]string{{nameOurs, nameBlind}}
			if _, err := s.race(ctx, &r, c); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// Loads of the latency's scenario: increments a second, and how long commits take.
var (
	latencyRates   = []int{25, 100, 1000, 4000}
	latencyCommits = []time.Duration{10 * time.Millisecond, 40 * time.Millisecond}
)

// latencyWindow is long enough for the slowest percent of increments to be some.
func latencyWindow(perSecond int) time.Duration {
	return min(max(time.Duration(300/perSecond)*time.Second, 2500*time.Millisecond), 8*time.Second)
}

func latencyLoad(perSecond int, commit time.Duration) string {
	return fmt.Sprintf("%s/s, %v", short(float64(perSecond)), commit)
}

// steady is a race at a fixed rate of increments on one counter.
func (s *session) steady(rate float64, contestants []contestant, window time.Duration) race {
	return race{
		contestants: contestants, setup: setup{shards: hotShards, faults: s.commits()}, counters: []string{"hot"}, next: post("/hot"),
		load: short(rate) + "/s", rate: rate, clients: []int{clientsFor(rate)}, warm: window / 4, window: window,
		rounds: pick(s, 1, 2), settle: pick(s, 1200*time.Millisecond, 4*time.Second),
		figure: figure{"", "cost per million", turn.price},
	}
}

// clientsFor is how many clients an open loop gets: enough for answers that take a quarter of a
// second.
func clientsFor(rate float64) int { return min(1000, 16+int(rate)/4) }

// Figures of the cost's scenario, in US dollars.
const (
	perMillion = "per million" // each function billed in the way that costs less
	enterprise = "Enterprise"  // the same in a database of that edition
	byRequest  = "by request"
	byInstance = "by instance"
)

// steadyLoad is the load of the cost's scenario, on paper.
var steadyLoad = cost.Load{Rate: 1000, Counters: 1, Shards: hotShards}

func priceColumns(t *turns) []Metric {
	return []Metric{
		t.metric(perMillion, "$", turn.price), t.metric(enterprise, "$", turn.enterprise), t.metric(byRequest, "$", pricedBy(cost.ByRequest)), t.metric(byInstance, "$", pricedBy(cost.ByInstance)),
		t.latency("p50", 0.5),
	}
}

// price is what increments cost at a steady rate.
func (s *session) price(ctx context.Context) (Result, error) {
	rate := steadyLoad.Rate
	r := Result{Settings: fmt.Sprintf("one counter, %s increments/s (open loop), %d shards, %s, one instance of each function, nothing is read; Firestore Standard edition unless it says Enterprise (the same units counted in the same run), list prices of %s, no free tier; instances of 1 vCPU and 0.5 GiB, each function billed by the request (while one is in flight, each for 100 ms at least, and for each) or by the instance (for all the time), whichever costs less, unless the column says otherwise", short(rate), hotShards, s.slowly(), cost.AsOf)}
	c := s.steady(rate, pick(s, []contestant{ours(), company(), blind(), nothing()}, []contestant{ours(), company(), blind(), nothing(), unmarked(), sumOnRead()}), pick(s, time.Second, 6*time.Second))
	c.columns = priceColumns
	c.pairs = [][2]string{{nameOurs, nameBlind}}
	of, err := s.race(ctx, &r, c)
	floor, together := onPaper(cost.Floor, steadyLoad), steadyLoad
	together.CommitInterval = companyInterval
	if a, b := of[nameOurs], of[nameBlind]; a != nil && b != nil {
		for _, by := range cost.Billings {
			price := pricedBy(by)
			r.Ratios = append(r.Ratios, ratio("cost, by the "+string(by)+":ours/blind", fmt.Sprintf("cost per million by the %s, ours ÷ blind", by), a.each(price), b.each(price)))
		}
		r.Ratios = append(r.Ratios, ratio("cost:floor", "cost per million, ours ÷ floor", a.each(turn.price), a.each(func(turn) float64 { return floor })))
	}
	r.Notes = append(r.Notes,
		fmt.Sprintf("The floor, $%s, is what no way to build a counter can leave out: a write for all increments that come during a commit, and one function on one instance.", short(floor)),
		fmt.Sprintf("On paper, with increments at random times: ours $%s, with COMMIT_INTERVAL=%v $%s, blind $%s (counters cost --rate %.0f --shards %d --reads 0).",
			short(onPaper(cost.Ours, steadyLoad)), companyInterval, short(onPaper(cost.Ours, together)), short(onPaper(cost.Blind, steadyLoad)), rate, hotShards))
	return r, err
}

// reads is what a read of the total costs, and how many there are a second.
func (s *session) reads(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("one counter, %d shards, one instance; closed loop, 64 clients; ours reads one document, sum adds up the shards", hotShards)}
	_, err := s.race(ctx, &r, race{
		contestants: []contestant{ours(), sumOnRead(), nothing()},
		setup:       setup{shards: hotShards, only: "http"}, counters: []string{"hot"}, next: get("/hot"),
		clients: []int{64}, warm: pick(s, 100*time.Millisecond, time.Second), rounds: pick(s, 2, 4), window: pick(s, 200*time.Millisecond, 2*time.Second),
		columns: func(t *turns) []Metric {
			return []Metric{
				t.metric("reads/s", "/s", func(r turn) float64 { return r.rate }), t.latency("p50", 0.5),
				t.metric("billed reads per 1,000", "", func(r turn) float64 { return r.usage.Reads / float64(r.answered) * 1000 }), cpuEach(t),
			}
		},
		figure: figure{"", "reads/s", rate.of}, pairs: [][2]string{{nameOurs, nameSum}, {nameOurs, nameNoop}},
	})
	return r, err
}

// scale is how throughput and cost grow with shards, instances and counters.
func (s *session) scale(ctx context.Context) (Result, error) {
	r := Result{Settings: fmt.Sprintf("ours alone, --doc-write-rate 1, %s; closed loop, 1,000 clients; what varies is named, the rest is 1,000 shards, one instance, one counter", s.slowly())}
	point := func(what string, n, shards, instances, counters int) error {
		ids, paths := ids(counters)
		c := s.fastest([]contestant{ours()}, shards, ids, post(paths...))
		c.setup.faults, c.setup.instances, c.load = s.hotDocuments(), instances, plural(n, what)
		c.clients, c.warm, c.rounds, c.window, c.settle = []int{1000}, pick(s, 300*time.Millisecond, 1500*time.Millisecond), 1, pick(s, time.Second, 2500*time.Millisecond), 1500*time.Millisecond
		c.figure.id = ", " + c.load
		c.columns = func(t *turns) []Metric {
			return append(throughput(t)[:3], t.metric("total writes/s", "/s", func(r turn) float64 { return r.writes }))
		}
		_, err := s.race(ctx, &r, c)
		return err
	}
	for _, n := range []int{1, 10, 100} {
		if err := point("shard", n, n, 1, 1); err != nil {
			return r, err
		}
	}
	for _, n := range []int{1, 2, 4, 8} {
		if err := point("instance", n, 1000, n, 1); err != nil {
			return r, err
		}
	}
	for _, n := range []int{10, 100, 1000} {
		if err := point("counter", n, 100, 1, n); err != nil {
			return r, err
		}
	}
	return r, nil
}
