package main

import (
	"fmt"
	"strconv"
)

// printable is a counter's id as it can be printed: an id may be any text, and what is in it must
// not set a terminal's title, or turn its writing round.
func printable(id string) string {
	for _, r := range id {
		if !strconv.IsPrint(r) {
			return strconv.Quote(id)
		}
	}
	return id
}

// quantity is a number of things, such as "1 shard" and "2 shards".
func quantity[N int | int64 | float64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%v %ss", n, thing)
}
