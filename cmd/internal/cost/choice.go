package cost

import "math"

// Choice says from which rate on a design is the cheapest.
type Choice struct {
	From float64 `json:"from"` // increments a second
	Name Name    `json:"name"`
}

// Choices are the cheapest designs for rates from 0.01 to 100,000 increments a second, by steps of
// an eighth of a decade, everything else being as in the load, but with the shards that each design
// needs, and billed in the way that is given; the first is for all rates below the second's.
func (l Load) Choices(p Prices, by Billing) []Choice {
	var choices []Choice
	for exponent := -2.0; exponent <= 5; exponent += 0.125 {
		at := l
		at.Rate, at.Shards = math.Pow(10, exponent), 0
		best, ok := at.Cheapest(p, by)
		if ok && (len(choices) == 0 || choices[len(choices)-1].Name != best.Name) {
			choices = append(choices, Choice{From: at.Rate, Name: best.Name})
		}
	}
	return choices
}

// Cheapest is the cheapest design that holds under the load, billed in the way that is given; false
// where none does. It is never the blind trigger, whose total is wrong sooner or later, and never ours
// without sharing, which costs more for what it is faster.
func (l Load) Cheapest(p Prices, by Billing) (best Design, ok bool) {
	least := math.Inf(1)
	names := []Name{Ours, SumOnRead, OneDocument}
	if l.Documents > 0 {
		names = append(names, Counted, CountOnRead)
	}
	for _, name := range names {
		d := l.design(name)
		if d.Unworkable != "" {
			continue
		}
		// Of two that cost the same, the latter in the order of the constants, which is the simpler
		// one.
		if total := p.Bill(d.Usage, by).Total(); total <= least {
			least, best, ok = total, d, true
		}
	}
	return best, ok
}

// Borders are the rates of increments, a second, from which on the functions of a design cost less by
// the instance, everything else being as in the load; zero where that is at no rate up to a million.
type Borders struct {
	Increment float64 `json:"increment,omitempty"`
	Rollup    float64 `json:"rollup,omitempty"`
}

// Borders finds them for a design of the load's.
func (l Load) Borders(p Prices, name Name) Borders {
	find := func(of func(Usage) Function) float64 {
		byInstance := func(exponent float64) bool {
			at := l
			at.Rate = math.Pow(10, exponent)
			return p.Cheaper(of(at.design(name).Usage), Deployed) == ByInstance
		}
		low, high := -4.0, 6.0
		switch {
		case byInstance(low):
			return math.Pow(10, low)
		case !byInstance(high):
			return 0
		}
		for high-low > 1e-4 {
			if middle := (low + high) / 2; byInstance(middle) {
				high = middle
			} else {
				low = middle
			}
		}
		return math.Pow(10, high)
	}
	return Borders{find(func(u Usage) Function { return u.Increment }), find(func(u Usage) Function { return u.Rollup })}
}
