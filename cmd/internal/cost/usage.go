package cost

// Usage is what is billed of something: of a benchmark, or of a second on paper.
type Usage struct {
	Reads           float64 `json:"reads"`
	Writes          float64 `json:"writes"`
	Deletes         float64 `json:"deletes"`
	Requests        float64 `json:"requests"`         // of functions, by HTTP and by events
	InstanceSeconds float64 `json:"instance_seconds"` // billed, of all instances together: see [InstanceTime]
}

// Plus adds up two usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Reads:           u.Reads + v.Reads,
		Writes:          u.Writes + v.Writes,
		Deletes:         u.Deletes + v.Deletes,
		Requests:        u.Requests + v.Requests,
		InstanceSeconds: u.InstanceSeconds + v.InstanceSeconds,
	}
}

// Times multiplies a usage.
func (u Usage) Times(f float64) Usage {
	return Usage{
		Reads:           u.Reads * f,
		Writes:          u.Writes * f,
		Deletes:         u.Deletes * f,
		Requests:        u.Requests * f,
		InstanceSeconds: u.InstanceSeconds * f,
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

// Bill is what a usage costs, in US dollars.
type Bill struct {
	Reads     float64 `json:"reads"`
	Writes    float64 `json:"writes"`
	Deletes   float64 `json:"deletes"`
	Requests  float64 `json:"requests"`
	Instances float64 `json:"instances"` // vCPU and memory
}

// Bill prices a usage.
func (p Prices) Bill(u Usage) Bill {
	return Bill{
		Reads:     u.Reads * p.Reads / 1e5,
		Writes:    u.Writes * p.Writes / 1e5,
		Deletes:   u.Deletes * p.Deletes / 1e5,
		Requests:  u.Requests * p.Requests / 1e6,
		Instances: u.InstanceSeconds * (instanceVCPU*p.VCPUSecond + instanceGiB*p.GiBSecond),
	}
}

// Total adds up the bill.
func (b Bill) Total() float64 { return b.Reads + b.Writes + b.Deletes + b.Requests + b.Instances }
