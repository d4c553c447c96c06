package simulation

import (
	"reflect"
	"slices"
	"testing"
)

// Each part is in some plan, and leaving it out is another plan that is a whole one.
func TestPartsArePartsOfPlans(t *testing.T) {
	t.Parallel()
	for _, part := range Parts() {
		differs := slices.ContainsFunc(seedsTo(300), func(seed uint64) bool {
			p := PlanOf(seed)
			less, err := p.Less(Less{Without: []string{part}})
			if err != nil {
				t.Fatal(err)
			}
			return !reflect.DeepEqual(p, less)
		})
		if !differs {
			t.Errorf("no plan of 300 has %q", part)
		}
	}
}

// Without callers a plan has the settings that it would have had without them.
func TestWithoutCallers(t *testing.T) {
	t.Parallel()
	own := false
	for _, seed := range seedsTo(100) {
		p := PlanOf(seed)
		own = own || slices.Contains(p.Environ, "MEMBERS=own")
		less, err := p.Less(Less{Without: []string{"auth"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, setting := range []string{"AUTH=firebase", "RESET=off", "MEMBERS=own"} {
			if slices.Contains(less.Environ, setting) || !p.Auth && slices.Contains(p.Environ, setting) {
				t.Errorf("seed %d: %v without callers, %v with them", seed, less.Environ, p.Environ)
			}
		}
	}
	if !own {
		t.Error("no plan of 100 has callers that are members")
	}
}

func seedsTo(n uint64) (seeds []uint64) {
	for seed := range n {
		seeds = append(seeds, seed+1)
	}
	return seeds
}
