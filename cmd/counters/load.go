package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/spf13/pflag"

	"github.com/firestore-counters/counters/cmd/internal/cost"
	"github.com/firestore-counters/counters/cmd/internal/terminal"
)

// What README.md, counters cost and the plan of counters deploy price where nobody says what there is to count.
const (
	usualPerDay   = 10_000
	usualCounters = 1_000
)

// loadFlags say how much is to be counted.
type loadFlags struct {
	rate, perDay float64
	counters     int
	flags        *pflag.FlagSet
}

func (f *loadFlags) add(flags *pflag.FlagSet) {
	f.flags = flags
	flags.Float64Var(&f.perDay, "per-day", usualPerDay, "increments a day, evenly spread, of all counters together")
	flags.Float64Var(&f.rate, "rate", 0, "increments a second, instead of --per-day")
	flags.IntVar(&f.counters, "counters", usualCounters, "counters that share the increments evenly; 1 by default with --rate or --per-day")
}

// set says what is to be counted.
func (f *loadFlags) set(l *cost.Load) error {
	byRate, byDay := f.flags.Changed("rate"), f.flags.Changed("per-day")
	l.Rate, l.Counters = f.rate, f.counters
	if (byRate || byDay) && !f.flags.Changed("counters") {
		l.Counters = 1
	}
	switch {
	case byRate && byDay:
		return badUsage("--rate or --per-day: want one of them")
	case byRate:
		return nil
	}
	if l.Rate = f.perDay / secondsPerDay; !(f.perDay > 0 && l.Rate <= 1e6) {
		return badUsage("--per-day %v: want increments a day, above 0 and up to %.0f", f.perDay, 1e6*secondsPerDay)
	}
	return nil
}

// of says a load, such as "10,000 increments a day of 1,000 counters".
func of(l cost.Load) string {
	many := terminal.Count(math.Round(100*l.Rate)/100, "increment") + " a second"
	if perDay := math.Round(l.Rate * secondsPerDay); l.Rate < 1 || l.Rate != math.Trunc(l.Rate) {
		many = thousandsOf(perDay) + " increments a day"
	} else if l.Rate >= 1000 {
		many = thousandsOf(l.Rate) + " increments a second"
	}
	if l.Counters == 1 {
		return many + " of one counter"
	}
	return many + " of " + thousandsOf(float64(l.Counters)) + " counters"
}

// about is an amount in two digits: nobody knows more on paper.
func about(dollars float64) string {
	if dollars <= 0 {
		return "$0"
	}
	unit := math.Pow(10, math.Floor(math.Log10(dollars))-1)
	rounded := math.Round(dollars/unit) * unit
	if rounded < 9.95 {
		return fmt.Sprintf("$%.2f", rounded)
	}
	return "$" + strings.TrimSuffix(thousands(rounded), ".00")
}
