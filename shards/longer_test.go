//go:build all

package shards_test

import "flag"

// With all tests more is drawn, unless a flag says how long.
func init() {
	if err := flag.Set("members.attack", "2s"); err != nil {
		panic(err)
	}
}
