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
}

// Estimate is what a deployment costs a second, in US dollars.
type Estimate struct {
	Rate      float64 // increments a second
	Documents float64 // reads, writes and deletes
	Increment float64
	Rollup    float64
}

// Total adds up the estimate.
func (e Estimate) Total() float64 { return e.Documents + e.Increment + e.Rollup }

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

// Worst is what the most that the instances can do would cost: as many increments as all instances of
// Increment take, each of another counter and with a key, so that each is a shard's write, and a marker's
// that TTL deletes; and as many roll-ups as the instances of Rollup make of their events.
func (d Deployment) Worst(p Prices) Estimate {
	rate := float64(d.Increment.Max) * perIncrement
	rollUps := min(rate, float64(d.Rollup.Max)*perRollup)
	all := func(n int, requests float64) Function {
		return Function{Requests: requests, Busy: float64(n), There: float64(n)}
	}
	// A roll-up reads and writes the total and the ledger.
	u := Usage{Reads: 2 * rollUps, Writes: 2*rate + 2*rollUps, Deletes: rate}
	return d.estimate(p, rate, u, all(d.Increment.Max, rate), all(d.Rollup.Max, rollUps))
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
