package cost

import "math"

// Choice says from which rate on a design is the cheapest.
type Choice struct {
	From float64 // increments a second
	Name Name
}

// Choices are the cheapest designs for rates from 0.01 to 100,000 increments a second, by steps of an eighth of a
// decade, everything else being as in the load; the first is for all rates below the second's. Each design gets as many
// shards as it needs, and at least the load's. A design that would not hold is never the choice, and neither is the
// blind trigger, whose total is wrong sooner or later.
func (l Load) Choices(p Prices) []Choice {
	var choices []Choice
	for exponent := -2.0; exponent <= 5; exponent += 0.125 {
		at := l
		at.Rate = math.Pow(10, exponent)
		best, ok := at.cheapest(p)
		if ok && (len(choices) == 0 || choices[len(choices)-1].Name != best) {
			choices = append(choices, Choice{From: at.Rate, Name: best})
		}
	}
	return choices
}

func (l Load) cheapest(p Prices) (best Name, ok bool) {
	least := math.Inf(1)
	for _, d := range l.withEnoughShards() {
		if d.Name == Blind || d.Unworkable != "" {
			continue
		}
		// Of two that cost the same, the latter in the order of the constants, which is the simpler one.
		if total := p.Bill(d.Usage).Total(); total <= least {
			least, best, ok = total, d.Name, true
		}
	}
	return best, ok
}

// withEnoughShards are the designs, each with the shards that its commits need.
func (l Load) withEnoughShards() []Design {
	designs := l.Designs()
	for i, d := range designs {
		at := l
		at.Shards = max(l.Shards, int(math.Ceil(d.Commits/hotRate)))
		designs[i] = at.Designs()[i]
	}
	return designs
}
