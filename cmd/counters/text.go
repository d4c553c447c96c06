package main

import "fmt"

// quantity is a number of things, such as "1 shard" and "2 shards".
func quantity[N int | int64 | float64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%v %ss", n, thing)
}
