package main

import (
	"encoding/json"
	"fmt"
	"io"
)

// writeSheet writes a value as JSON in many lines, which people read as well.
func writeSheet(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// quantity is a number of things, such as "1 shard" and "2 shards".
func quantity[N int | int64 | float64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%v %ss", n, thing)
}
