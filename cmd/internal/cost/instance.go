package cost

import (
	"slices"
	"time"
)

// BillingStep is what Cloud Run rounds billed time up to.
const BillingStep = 100 * time.Millisecond

// Period is the time that a request took on an instance. Both ends count from the same moment,
// whichever it is.
type Period struct{ Begin, End time.Duration }

// InstanceTime is the billed time of one instance that answered requests during the periods, billed
// [ByRequest]: the time in which at least one of them was in flight. However many there
// are at once, it is billed once.
//
// Cloud Run rounds up to 100 ms; what exactly, its price list doesn't say. Here each request is
// taken to last for a whole number of steps from its begin on, and time that is covered twice still
// counts once: an instance is never billed for more than the clock shows. The periods are sorted in
// place.
func InstanceTime(periods []Period) time.Duration {
	slices.SortFunc(periods, func(a, b Period) int { return int(a.Begin - b.Begin) })
	var billed, until time.Duration // until: what lies before is billed already
	for i, p := range periods {
		if i == 0 {
			until = p.Begin
		}
		steps := max(1, (p.End-p.Begin+BillingStep-1)/BillingStep)
		end := p.Begin + steps*BillingStep //nolint:durationcheck // steps is a number
		if end <= until {
			continue
		}
		billed += end - max(until, p.Begin)
		until = end
	}
	return billed
}
