package cost

import "math"

// Choice says from which rate on a design is the cheapest.
type Choice struct {
	From float64 `json:"from"` // increments a second
	Name Name    `json:"name"`
}

// Choices are the cheapest designs for rates from 0.01 to 100,000 increments a second, by steps of
// an eighth of a decade, everything else being as in the load, but with the shards that each design
// needs; the first is for all rates below the second's.
func (l Load) Choices(p Prices) []Choice {
	var choices []Choice
	for exponent := -2.0; exponent <= 5; exponent += 0.125 {
		at := l
		at.Rate, at.Shards = math.Pow(10, exponent), 0
		best, ok := at.Cheapest(p)
		if ok && (len(choices) == 0 || choices[len(choices)-1].Name != best.Name) {
			choices = append(choices, Choice{From: at.Rate, Name: best.Name})
		}
	}
	return choices
}

// Cheapest is the cheapest design that holds under the load; false where none does. It is never the
// blind trigger, whose total is wrong sooner or later, and never ours without sharing, which costs
// more for what it is faster.
func (l Load) Cheapest(p Prices) (best Design, ok bool) {
	least := math.Inf(1)
	for _, d := range l.Designs() {
		if d.Name == Blind || d.Name == Unshared || d.Unworkable != "" {
			continue
		}
		// Of two that cost the same, the latter in the order of the constants, which is the simpler
		// one.
		if total := p.Bill(d.Usage).Total(); total <= least {
			least, best, ok = total, d, true
		}
	}
	return best, ok
}
