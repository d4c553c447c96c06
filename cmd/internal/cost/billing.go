package cost

import (
	"fmt"
	"strconv"
	"strings"
)

// Billing is a way to pay for the instances of a function.
type Billing string

const (
	// ByRequest is billed while a request is in flight, and for each request: Cloud Run's default.
	ByRequest Billing = "request"
	// ByInstance is billed for all the time that an instance is there, and not for requests.
	ByInstance Billing = "instance"
	// Cheaper is, for each function, the way that costs less.
	Cheaper Billing = ""
)

// Billings are the two ways to pay.
var Billings = []Billing{ByRequest, ByInstance}

// Function is what is billed of a function: in a second, or of whatever was measured.
type Function struct {
	Requests float64 `json:"requests"`               // by HTTP, or of events
	Busy     float64 `json:"busy_seconds"`           // of instances, with a request in flight: see [InstanceTime]
	There    float64 `json:"there_seconds"`          // of instances, busy or not
	Kept     float64 `json:"kept_seconds,omitempty"` // of There, what instances are kept warm for without a request
}

// Plus adds up two functions.
func (f Function) Plus(g Function) Function {
	return Function{f.Requests + g.Requests, f.Busy + g.Busy, f.There + g.There, f.Kept + g.Kept}
}

// Times multiplies what is billed.
func (f Function) Times(by float64) Function {
	return Function{f.Requests * by, f.Busy * by, f.There * by, f.Kept * by}
}

// Size is that of an instance.
type Size struct{ VCPU, GiB float64 }

// Deployed is the size that the deployments give to instances: concurrency above 1 takes a whole
// vCPU at least, and so does [ByInstance], with 512 MiB.
var Deployed = Size{VCPU: 1, GiB: 0.5}

// Fits is the least size of an instance that [ByInstance] takes and that has what s has.
func (s Size) Fits() Size { return Size{max(s.VCPU, Deployed.VCPU), max(s.GiB, Deployed.GiB)} }

// SizeOf reads the size of an instance as Google's APIs write it: a number of CPUs, and a memory
// such as 512Mi or 1Gi.
func SizeOf(cpu, memory string) (Size, error) {
	vcpu, err := strconv.ParseFloat(cpu, 64)
	if err != nil || vcpu <= 0 {
		return Size{}, fmt.Errorf("%q is no number of CPUs", cpu)
	}
	for unit, bytes := range map[string]float64{"Mi": 1 << 20, "Gi": 1 << 30, "M": 1e6, "G": 1e9} {
		if n, ok := strings.CutSuffix(memory, unit); ok {
			if n, err := strconv.ParseFloat(n, 64); err == nil && n > 0 {
				return Size{vcpu, n * bytes / (1 << 30)}, nil
			}
		}
	}
	return Size{}, fmt.Errorf("%q is no memory such as 512Mi or 1Gi", memory)
}

// Bill is what a function costs that is billed in one of the two ways, in US dollars: for its
// requests, and for its instances.
func (r Run) Bill(f Function, s Size, by Billing) (requests, instances float64) {
	if by == ByInstance {
		return 0, f.There * r.ByInstance.of(s)
	}
	return f.Requests * r.Requests / 1e6, f.Busy*r.ByRequest.of(s) + f.Kept*r.Kept.of(s)
}

// Total is what a function costs that is billed in one of the two ways.
func (r Run) Total(f Function, s Size, by Billing) float64 {
	requests, instances := r.Bill(f, s, by)
	return requests + instances
}

// Cheaper is the way in which a function costs less; by the request where both cost the same.
func (r Run) Cheaper(f Function, s Size) Billing {
	if r.Total(f, s, ByInstance) < r.Total(f, s, ByRequest) {
		return ByInstance
	}
	return ByRequest
}
