//go:build all && !race

package functions

import "testing"

// The same of each flood alone, for a shorter time.
func TestEachFloodStaysBelowTheCeiling(t *testing.T) {
	t.Parallel()
	for name, fl := range floods {
		t.Run(name, func(t *testing.T) { t.Parallel(); underFlood(t, "firebase", hundred, fl, 8) })
	}
}

// A crowd with keys costs a write each, and still fits beside whoever adds to many counters, where these share no more
// commits than the crowd does.
func TestKeyedCrowdBesideFloods(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"a thousand users, single increments", "a thousand users, a key each time", "a thousand users, who join a counter each",
		"a thousand users, who join and leave", "one token, the same key again",
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); underFlood(t, "firebase", crowd{10, true}, floods[name], 20) })
	}
}
