package cost

import "math"

// Instances are how many a function may have.
type Instances struct {
	Min int // kept warm
	Max int
}

// Deployment is one that is about to be made: a load, and what its functions are given.
type Deployment struct {
	Load              // its Instances are as many as the rate needs
	Increment, Rollup Instances
	IncrementBilling  Billing
	RollupBilling     Billing
	Size              Size
	Flushes           int // roll-ups that an instance of Rollup has in flight: ROLLUP_FLUSHES
	Walks             Walks
	OfUsers           bool // callers are users of an app, and not a backend
}

// Estimate is what a deployment costs a second, in US dollars.
type Estimate struct {
	Rate      float64 // increments a second
	Documents float64 // reads, writes and deletes
	Increment float64
	Rollup    float64
	Network   float64 // answers and events, of a flood alone
}

// Total adds up the estimate.
func (e Estimate) Total() float64 { return e.Documents + e.Increment + e.Rollup + e.Network }

// Expected is what the load costs, with functions billed as they are deployed.
func (d Deployment) Expected(p Prices) Estimate {
	l := d.Load
	l.Instances = max(1, int(math.Ceil(l.Rate/perIncrement)))
	u := l.ours().Usage
	return d.estimate(p, l.Rate, u, kept(u.Increment, d.Increment.Min), kept(u.Rollup, d.Rollup.Min))
}

// kept is a function of which some instances are kept warm.
func kept(f Function, least int) Function {
	f.There = max(f.There, float64(least))
	f.Kept = max(0, float64(least)-f.Busy)
	return f
}

// What a flood makes of an instance of Increment with one vCPU: requests of POST / that each name as many counters as
// the caller may, 500 or, as a user, 20. Measured as increments for each second of the process's CPU, with an embedded
// Firestore beside it: docs/cost.md has the figures.
const (
	FloodCounters, FloodCountersOfUser = 500, 20
	flood, floodOfUser                 = 78_000, 47_000 // increments a second, each a shard's write
	floodBytes                         = 26             // of an answer, for each increment in it
)

// Worst is what a flood costs that nothing bounds: all instances of Increment take as many increments as they can,
// each of another counter, and those of Rollup make of their events as many roll-ups as they can.
func (d Deployment) Worst(p Prices) Estimate {
	each, counters := float64(flood), float64(FloodCounters)
	if d.OfUsers {
		each, counters = floodOfUser, FloodCountersOfUser
	}
	rate := float64(d.Increment.Max) * each
	taken := min(rate, float64(d.Rollup.Max)*perRollup) // events
	rollUps := min(taken, float64(d.Rollup.Max)*d.perRollup())
	all := func(n int, requests float64) Function {
		return Function{Requests: requests, Busy: float64(n), There: float64(n)}
	}
	// A commit has a marker beside the shards; a roll-up reads the document and its base, asks for a sum, and writes
	// the document.
	u := Usage{Reads: (lookReads + 1) * rollUps, Writes: rate + rate/counters + rollUps, Deletes: rate / counters}
	e := d.estimate(p, rate, u, all(d.Increment.Max, rate/counters), all(d.Rollup.Max, taken))
	e.Network = rate*floodBytes*p.AnswerGiB/gib + (rate+taken)*eventBytes*p.PubSubTiB/(1<<40)
	return e
}

func (d Deployment) estimate(p Prices, rate float64, u Usage, increment, rollup Function) Estimate {
	u.Increment, u.Rollup = Function{}, Function{}
	return Estimate{
		Rate: rate, Documents: p.Bill(u, Cheaper).Total(),
		Increment: p.Run.Total(increment, d.Size, d.IncrementBilling), Rollup: p.Run.Total(rollup, d.Size, d.RollupBilling),
	}
}

// Better is the same deployment with each function billed in the way that costs less under its load.
func (d Deployment) Better(p Prices) Deployment {
	for _, way := range Billings {
		for _, of := range []*Billing{&d.IncrementBilling, &d.RollupBilling} {
			before := *of
			least := d.Expected(p).Total()
			if *of = way; d.Expected(p).Total() >= least {
				*of = before
			}
		}
	}
	return d
}
