//go:build all && !race

package functions

import "testing"

// The same of each flood alone, for a shorter time.
func TestEachFloodStaysBelowTheCeiling(t *testing.T) {
	t.Parallel()
	for name, fl := range floods {
		t.Run(name, func(t *testing.T) { t.Parallel(); underFlood(t, "firebase", fl, 8) })
	}
}
