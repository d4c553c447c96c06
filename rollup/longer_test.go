//go:build all && !race

package rollup_test

import "flag"

// With all tests the walks are longer, unless a flag says how long, or the race detector takes six times as long for
// each.
func init() {
	for name, n := range map[string]string{"model.walks": "12000", "recount.operations": "3000", "reference.operations": "2000"} {
		if err := flag.Set(name, n); err != nil {
			panic(err)
		}
	}
}
