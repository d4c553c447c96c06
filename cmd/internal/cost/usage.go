package cost

import "cmp"

// Usage is what is billed of something: of a benchmark, or of a second on paper.
type Usage struct {
	Reads   float64 `json:"reads"`
	Writes  float64 `json:"writes"`
	Deletes float64 `json:"deletes"`

	// What the Enterprise edition bills instead of reads and writes; zero is as many.
	ReadUnits  float64 `json:"read_units,omitempty"`  // of 4 KiB that are read by name, or scanned by a query
	WriteUnits float64 `json:"write_units,omitempty"` // of 1 KiB of a document

	Increment Function `json:"increment"` // or what stands for it
	Rollup    Function `json:"rollup"`    // or what takes the events; zero where nothing does
}

func (u Usage) readUnits() float64  { return cmp.Or(u.ReadUnits, u.Reads) }
func (u Usage) writeUnits() float64 { return cmp.Or(u.WriteUnits, u.Writes) }

// Billed is what an edition bills for reads and writes: documents, or units.
func (u Usage) Billed(e Edition) (reads, writes float64) {
	if e == Enterprise {
		return u.readUnits(), u.writeUnits()
	}
	return u.Reads, u.Writes
}

// Requests are those of both functions.
func (u Usage) Requests() float64 { return u.Increment.Requests + u.Rollup.Requests }

// Plus adds up two usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Reads: u.Reads + v.Reads, Writes: u.Writes + v.Writes, Deletes: u.Deletes + v.Deletes,
		ReadUnits: u.readUnits() + v.readUnits(), WriteUnits: u.writeUnits() + v.writeUnits(),
		Increment: u.Increment.Plus(v.Increment), Rollup: u.Rollup.Plus(v.Rollup),
	}
}

// Times multiplies a usage.
func (u Usage) Times(f float64) Usage {
	return Usage{
		Reads: u.Reads * f, Writes: u.Writes * f, Deletes: u.Deletes * f,
		ReadUnits: u.ReadUnits * f, WriteUnits: u.WriteUnits * f,
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
	reads, writes := u.Billed(p.Edition)
	b := Bill{Reads: reads * p.Reads / 1e5, Writes: writes * p.Writes / 1e5, Deletes: u.Deletes * p.Deletes / 1e5}
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
