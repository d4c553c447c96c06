package cost

// Usage is what is billed of something: of a benchmark, or of a second on paper.
type Usage struct {
	Reads     float64  `json:"reads"`
	Writes    float64  `json:"writes"`
	Deletes   float64  `json:"deletes"`
	Increment Function `json:"increment"` // or what stands for it
	Rollup    Function `json:"rollup"`    // or what takes the events; zero where nothing does
}

// Requests are those of both functions.
func (u Usage) Requests() float64 { return u.Increment.Requests + u.Rollup.Requests }

// Plus adds up two usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Reads: u.Reads + v.Reads, Writes: u.Writes + v.Writes, Deletes: u.Deletes + v.Deletes,
		Increment: u.Increment.Plus(v.Increment), Rollup: u.Rollup.Plus(v.Rollup),
	}
}

// Times multiplies a usage.
func (u Usage) Times(f float64) Usage {
	return Usage{
		Reads: u.Reads * f, Writes: u.Writes * f, Deletes: u.Deletes * f,
		Increment: u.Increment.Times(f), Rollup: u.Rollup.Times(f),
	}
}

// PerMillion is the usage of a million increments, where the usage is that of as many as given;
// zero for none.
func (u Usage) PerMillion(increments float64) Usage {
	if increments <= 0 {
		return Usage{}
	}
	return u.Times(1e6 / increments)
}

// Bill is what a usage costs, in US dollars, and how its functions are paid for.
type Bill struct {
	Reads     float64 `json:"reads"`
	Writes    float64 `json:"writes"`
	Deletes   float64 `json:"deletes"`
	Requests  float64 `json:"requests"`
	Instances float64 `json:"instances"` // vCPU and memory

	Increment Billing `json:"increment_billing,omitempty"` // empty where there is no such function
	Rollup    Billing `json:"rollup_billing,omitempty"`
}

// Bill prices a usage, with functions of the size that is deployed, billed in the way that is given.
func (p Prices) Bill(u Usage, by Billing) Bill {
	b := Bill{Reads: u.Reads * p.Reads / 1e5, Writes: u.Writes * p.Writes / 1e5, Deletes: u.Deletes * p.Deletes / 1e5}
	add := func(f Function, way *Billing) {
		if f == (Function{}) {
			return
		}
		if *way = by; by == Cheaper {
			*way = p.Cheaper(f, Deployed)
		}
		requests, instances := p.Run.Bill(f, Deployed, *way)
		b.Requests += requests
		b.Instances += instances
	}
	add(u.Increment, &b.Increment)
	add(u.Rollup, &b.Rollup)
	return b
}

// Total adds up the bill.
func (b Bill) Total() float64 { return b.Reads + b.Writes + b.Deletes + b.Requests + b.Instances }
