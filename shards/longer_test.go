//go:build all

package shards_test

import "flag"

// With all tests more is drawn, unless a flag says how much.
func init() {
	for name, n := range map[string]string{"members.attack": "2s", "rate.increments": "5000"} {
		if err := flag.Set(name, n); err != nil {
			panic(err)
		}
	}
}
