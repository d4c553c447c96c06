package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/firestore-counters/counters/simulation"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                         "hours=1000 seeds=0 seed=now",
		"-seed=7":                  "hours=0 seeds=1 seed=7",
		"-seed=7 -hours=0":         "hours=0 seeds=1 seed=7",
		"-seed=7 -hours=5":         "hours=5 seeds=0 seed=7",
		"-seeds=3":                 "hours=0 seeds=3 seed=now",
		"-seed=7 -only=3,7-9":      "hours=0 seeds=1 seed=7 only=3,7-9",
		"-seed=7 -only=none":       "hours=0 seeds=1 seed=7 only=none",
		"-only=9-7":                "error",
		"-only=a":                  "error",
		"-without=everything":      "error",
		"-parallel=0":              "error",
		"-operations=0":            "error",
		"-hours=-1":                "error",
		"-seed=1 7":                "error",
		"-seed=1 -without=sdk,hot": "hours=0 seeds=1 seed=1 without=sdk,hot",
	} {
		o, err := parse(strings.Fields(args))
		got := "error"
		if err == nil {
			seed := "now"
			if o.seed < 1e9 {
				seed = fmt.Sprint(o.seed)
			}
			o.less.Operations = 0
			got = strings.Join(append([]string{fmt.Sprintf("hours=%g seeds=%d seed=%s", o.hours, o.seeds, seed)}, o.less.Flags()...), " ")
		}
		if got != want {
			t.Errorf("%q: %s, want %s", args, got, want)
		}
	}
}

// Which seeds make up so many hours depends on nothing but their plans.
func TestLast(t *testing.T) {
	t.Parallel()
	o := options{seed: 1, hours: 50, less: simulation.Less{Operations: 200}}
	last := o.last()
	hours := 0.0
	for seed := o.seed; seed < last; seed++ {
		if hours >= o.hours {
			t.Fatalf("%d seeds are one too many", last-o.seed)
		}
		hours += simulation.PlanOf(seed).Shortened(200).Length().Hours()
	}
	if hours < o.hours {
		t.Errorf("%g hours", hours)
	}
	if one := (options{seed: 5, seeds: 1}).last(); one != 6 {
		t.Errorf("of one seed the last is before %d", one)
	}
}
