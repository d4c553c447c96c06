package shards

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// No two requests that add other things have one fingerprint, whatever their counters are called.
func TestFingerprintsTellRequestsApart(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2][]Increment{
		{{{Counter: "a", By: 1}, {Counter: "field", By: 5}}, {{Counter: "a", Field: "5", By: 1}}},
		{{{Counter: "a", Field: "b", By: 11}}, {{Counter: "a", Field: "b1", By: 1}}},
		{{{Counter: "ab", Field: "c", By: 1}}, {{Counter: "a", Field: "bc", By: 1}}},
	} {
		if fingerprint(pair[0]) == fingerprint(pair[1]) {
			t.Fatalf("%v and %v have one fingerprint", pair[0], pair[1])
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "5", "1", "-1", "field", "a1", "", "total"})
		draw := func(label string) []Increment {
			return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Increment {
				return Increment{Counter: name.Draw(t, "counter"), Field: name.Draw(t, "field"), By: rapid.Int64Range(-1, 5).Draw(t, "by")}
			}), 1, 4).Draw(t, label)
		}
		a, b := draw("a"), draw("b")
		if rapid.Bool().Draw(t, "the same, in another order") {
			b = rapid.Permutation(a).Draw(t, "order")
		}
		if same, is := maps.Equal(bag(a), bag(b)), fingerprint(a) == fingerprint(b); same != is {
			t.Fatalf("%v and %v: the same %v, one fingerprint %v", a, b, same, is)
		}
	})
}

// bag is how often each increment is there.
func bag(increments []Increment) map[Increment]int {
	n := map[Increment]int{}
	for _, i := range increments {
		n[i]++
	}
	return n
}
