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
		if !slices.ContainsFunc(seedsTo(300), func(seed uint64) bool { return has(t, seed, part) }) {
			t.Errorf("no plan of 300 has %q", part)
		}
	}
}

// What is drawn is in a part, or is listed here: what each world has some of, and what is no
// trouble alone, or is left out operation by operation.
func TestPartsAreAllThatIsDrawn(t *testing.T) {
	t.Parallel()
	whole := []string{
		"Seed", "Storm", "Epochs", "Rate", "Increments", "Rollups", "Environ", "Sweep", "Named", "Counters", "IDs", "Likes",
		"Hosted", "Members", "InPlace", "Counted", "OlderCounted", "NeighbourEvery", "Reordered",
		"Mix.Add", "Mix.Key", "Mix.Bulk", "Mix.Snippet", "Mix.Exact", "Mix.Read", "Mix.Resize", "Mix.Rebase", "Mix.Delete",
		"Mix.ByHand", "Mix.Rival", "Mix.Large", "Mix.Double",
	}
	left := map[string]bool{}
	for _, seed := range seedsTo(300) {
		p, err := PlanOf(seed).Less(Less{Without: Parts()})
		if err != nil {
			t.Fatal(err)
		}
		drawn(reflect.ValueOf(p), "", left)
	}
	for name := range left {
		if !slices.Contains(whole, name) {
			t.Errorf("%s is drawn, and no part leaves it out", name)
		}
	}
	for _, name := range whole {
		if !left[name] {
			t.Errorf("%s is left out by a part, or never drawn", name)
		}
	}
}

// drawn adds the names of all fields of a struct that aren't zero.
func drawn(of reflect.Value, prefix string, names map[string]bool) {
	for n := range of.NumField() {
		switch name, value := prefix+of.Type().Field(n).Name, of.Field(n); {
		case value.Kind() == reflect.Struct:
			drawn(value, name+".", names)
		case !value.IsZero():
			names[name] = true
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
